//! Reads the lines that a person types: on standard input if that is a terminal, else on the terminal that controls the
//! process, since standard input then belongs to the task.

use std::{
    fs::File,
    io::{BufRead, BufReader, IsTerminal, Read},
    sync::mpsc::{SyncSender, sync_channel},
    thread,
};

use tokio::sync::mpsc;

use crate::limits;

/// The lines that a person types at the terminal. One is read only when it is needed, so that input for the shell is left
/// to the shell.
pub struct TypedLines {
    /// Requests a line from the reader thread; `None` until the first is needed.
    reader: Option<(SyncSender<()>, mpsc::Receiver<TypedLine>)>,
    /// Set while a requested line has not arrived.
    is_wanted: bool,
}

pub enum TypedLine {
    Text(String),
    NotText,
    End,
}

/// The place where a person types.
pub enum TerminalInput {
    /// Standard input, which is a terminal.
    Stdin,
    /// The terminal that controls the process.
    Device(File),
}

impl TerminalInput {
    /// Returns the place where a person can type; `None` if the process has no terminal.
    pub fn open() -> Option<Self> {
        if std::io::stdin().is_terminal() {
            return Some(Self::Stdin);
        }
        // Fails without a controlling terminal, as in a service or a container.
        File::open(if cfg!(windows) { "CONIN$" } else { "/dev/tty" }).ok().map(Self::Device)
    }

    /// Discards input that was typed and not read.
    #[cfg(unix)]
    fn discard_typed(self) -> rustix::io::Result<()> {
        use rustix::termios::{QueueSelector, tcflush};
        match self {
            Self::Stdin => tcflush(std::io::stdin(), QueueSelector::IFlush),
            Self::Device(device) => tcflush(device, QueueSelector::IFlush),
        }
    }
}

impl TypedLines {
    pub fn new() -> Self {
        Self { reader: None, is_wanted: false }
    }

    #[cfg(test)]
    pub fn from(wants: SyncSender<()>, lines: mpsc::Receiver<TypedLine>) -> Self {
        Self { reader: Some((wants, lines)), is_wanted: false }
    }

    /// Discards input that was typed before the question was shown: nobody can consent to what they have not seen.
    pub fn forget(&mut self) {
        if let Some((_, lines)) = &mut self.reader
            && lines.try_recv().is_ok()
        {
            self.is_wanted = false;
        }
        // An error means that the terminal is gone; the next read reports that.
        #[cfg(unix)]
        let _ = TerminalInput::open().map(TerminalInput::discard_typed);
    }

    /// Returns the next line. Cancel safe: no line is lost if the future is dropped.
    pub async fn next(&mut self) -> TypedLine {
        let (wants, lines) = self.reader.get_or_insert_with(start_reader);
        if !self.is_wanted {
            // The channel takes one request, and none is pending.
            self.is_wanted = wants.try_send(()).is_ok();
        }
        let line = lines.recv().await.unwrap_or(TypedLine::End);
        self.is_wanted = false;
        line
    }
}

/// Starts a reader thread, since a read from a terminal cannot be cancelled. It ends with the process, or when its channel
/// closes.
fn start_reader() -> (SyncSender<()>, mpsc::Receiver<TypedLine>) {
    let (wants, wanted) = sync_channel(1);
    let (sender, lines) = mpsc::channel(1);
    // Without a thread the channel is closed, which reads as the end of input.
    let _ = thread::Builder::new().name("terminal".into()).spawn(move || match TerminalInput::open() {
        Some(TerminalInput::Device(device)) => {
            let mut device = BufReader::new(device);
            while wanted.recv().is_ok() && sender.blocking_send(read_line(&mut device)).is_ok() {}
        }
        // The lock is released between two lines.
        _ => while wanted.recv().is_ok() && sender.blocking_send(read_line(std::io::stdin().lock())).is_ok() {},
    });
    (wants, lines)
}

/// Reads a line of at most [`limits::ANSWER_BYTES`] and one byte more, which marks it as too long; the rest of it is
/// skipped.
fn read_line(mut input: impl BufRead) -> TypedLine {
    let mut bytes = Vec::new();
    match input.by_ref().take(limits::ANSWER_BYTES as u64 + 1).read_until(b'\n', &mut bytes) {
        Ok(0) | Err(_) => return TypedLine::End,
        Ok(_) if !bytes.ends_with(b"\n") && bytes.len() > limits::ANSWER_BYTES => {
            if input.skip_until(b'\n').is_err() {
                return TypedLine::End;
            }
        }
        Ok(_) => {}
    }
    String::from_utf8(bytes).map_or(TypedLine::NotText, TypedLine::Text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdin_line_is_cut_at_longest_answer() {
        let long = [vec![b'x'; limits::ANSWER_BYTES * 2], b"\nnext\n".to_vec()].concat();
        let full = "x".repeat(limits::ANSWER_BYTES);
        let mut input = &long[..];
        assert!(matches!(read_line(&mut input), TypedLine::Text(text) if text.len() == limits::ANSWER_BYTES + 1));
        assert!(matches!(read_line(&mut input), TypedLine::Text(text) if text == "next\n"));
        assert!(matches!(read_line(&mut input), TypedLine::End));
        for (bytes, text) in [(b"y\n".to_vec(), "y\n"), (b"y".to_vec(), "y"), (format!("{full}\n").into(), &*full)] {
            assert!(matches!(read_line(&bytes[..]), TypedLine::Text(read) if read.trim_end() == text.trim_end()));
        }
        assert!(matches!(read_line(&b"\xff\n"[..]), TypedLine::NotText));
    }
}
