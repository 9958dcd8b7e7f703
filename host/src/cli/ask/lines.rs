//! Reads the lines that a person types.

use std::{
    io::{BufRead, Read},
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use tokio::sync::mpsc;

use crate::limits;

/// Lines of standard input. One is read only when it is needed, so that input for the shell is left to the shell.
pub struct StdinLines {
    /// Requests a line from the reader thread; `None` until the first is needed.
    reader: Option<(SyncSender<()>, mpsc::Receiver<StdinLine>)>,
    /// Set while a requested line has not arrived.
    is_wanted: bool,
}

pub enum StdinLine {
    Text(String),
    NotText,
    End,
}

impl StdinLines {
    pub fn new() -> Self {
        Self { reader: None, is_wanted: false }
    }

    #[cfg(test)]
    pub fn from(wants: SyncSender<()>, lines: mpsc::Receiver<StdinLine>) -> Self {
        Self { reader: Some((wants, lines)), is_wanted: false }
    }

    /// Discards input that was typed before the question was shown: nobody can consent to what they have not seen.
    pub fn forget(&mut self) {
        if let Some((_, lines)) = &mut self.reader
            && lines.try_recv().is_ok()
        {
            self.is_wanted = false;
        }
        #[cfg(unix)]
        {
            use rustix::termios::{QueueSelector, tcflush};
            // An error means that the terminal is gone; the next read reports that.
            let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
        }
    }

    /// Returns the next line. Cancel safe: no line is lost if the future is dropped.
    pub async fn next(&mut self) -> StdinLine {
        let (wants, lines) = self.reader.get_or_insert_with(start_reader);
        if !self.is_wanted {
            // The channel takes one request, and none is pending.
            self.is_wanted = wants.try_send(()).is_ok();
        }
        let line = lines.recv().await.unwrap_or(StdinLine::End);
        self.is_wanted = false;
        line
    }
}

/// Starts a reader thread, since a read from a terminal cannot be cancelled. It ends with the process, or when its channel
/// closes.
fn start_reader() -> (SyncSender<()>, mpsc::Receiver<StdinLine>) {
    let (wants, wanted) = sync_channel(1);
    let (sender, lines) = mpsc::channel(1);
    // Without a thread the channel is closed, which reads as the end of input.
    let _ = thread::Builder::new().name("terminal".into()).spawn(move || {
        while wanted.recv().is_ok() && sender.blocking_send(read_line(std::io::stdin().lock())).is_ok() {}
    });
    (wants, lines)
}

/// Reads a line of at most [`limits::ANSWER_BYTES`] and one byte more, which marks it as too long; the rest of it is
/// skipped.
fn read_line(mut input: impl BufRead) -> StdinLine {
    let mut bytes = Vec::new();
    match input.by_ref().take(limits::ANSWER_BYTES as u64 + 1).read_until(b'\n', &mut bytes) {
        Ok(0) | Err(_) => return StdinLine::End,
        Ok(_) if !bytes.ends_with(b"\n") && bytes.len() > limits::ANSWER_BYTES => {
            if input.skip_until(b'\n').is_err() {
                return StdinLine::End;
            }
        }
        Ok(_) => {}
    }
    String::from_utf8(bytes).map_or(StdinLine::NotText, StdinLine::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdin_line_is_cut_at_longest_answer() {
        let long = [vec![b'x'; limits::ANSWER_BYTES * 2], b"\nnext\n".to_vec()].concat();
        let full = "x".repeat(limits::ANSWER_BYTES);
        let mut input = &long[..];
        assert!(matches!(read_line(&mut input), StdinLine::Text(text) if text.len() == limits::ANSWER_BYTES + 1));
        assert!(matches!(read_line(&mut input), StdinLine::Text(text) if text == "next\n"));
        assert!(matches!(read_line(&mut input), StdinLine::End));
        for (bytes, text) in [(b"y\n".to_vec(), "y\n"), (b"y".to_vec(), "y"), (format!("{full}\n").into(), &*full)] {
            assert!(matches!(read_line(&bytes[..]), StdinLine::Text(read) if read.trim_end() == text.trim_end()));
        }
        assert!(matches!(read_line(&b"\xff\n"[..]), StdinLine::NotText));
    }
}
