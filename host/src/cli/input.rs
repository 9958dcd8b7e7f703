//! Reads standard input: the task itself if the command line says `-`, otherwise material for the task.

use std::{
    ffi::OsStr,
    io::{self, BufRead, IsTerminal, Read, StdinLock},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
};

use clap::ValueEnum;

use super::render::{self, DIM, PLAIN};
use crate::{
    error::{ErrorKind, Report, count},
    limits,
    task::marked_text,
};

/// When standard input goes to the model beside the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StdinMode {
    /// Read a file, or a pipe that delivers data within three seconds.
    Auto,
    /// Read until its end, whatever it is.
    Always,
    /// Do not read it.
    Never,
}

/// Hint on how to keep standard input out of a run.
const LEAVE_OUT: &str = "ignore standard input with --stdin never or </dev/null";

/// Returns the task: the argument, or all of standard input for `-`.
///
/// # Errors
///
/// A [`Report`] if the task cannot be read, or is empty, too long or not text.
pub fn task(given: &OsStr) -> Result<String, Report> {
    let bytes = if given == "-" {
        if io::stdin().is_terminal() {
            render::tell("reading the task from standard input; end it with Ctrl-D\n");
        }
        let bytes = read_bounded(&mut io::stdin().lock(), limits::TASK_BYTES);
        bytes.map_err(|error| usage("cannot read the task from standard input").cause(error))?
    } else {
        given.as_encoded_bytes().to_vec()
    };
    // Checked before decoding: a task that is too long was cut, perhaps within a character.
    if bytes.len() > limits::TASK_BYTES {
        return Err(usage(&format!("the task has more than {} bytes", limits::TASK_BYTES))
            .hint("write the text to a file and grant the agent a plugin that reads files"));
    }
    let task = String::from_utf8(bytes)
        .map_err(|_| usage("the task is not UTF-8 text").hint("convert the task to UTF-8, for example with iconv"))?;
    if task.trim().is_empty() {
        return Err(
            usage("the task is empty").hint("give a task: shelly-host run \"How many words are in README.md?\"")
        );
    }
    Ok(task)
}

/// Returns the text on standard input, if there is any; blank input counts as none.
///
/// # Errors
///
/// A [`Report`] if the input cannot be read, or is too long or not text.
pub fn beside_task(when: StdinMode) -> Result<Option<String>, Report> {
    let bytes = match (when, stdin_kind()) {
        (StdinMode::Never, _) | (StdinMode::Auto, StdinKind::Other) => return Ok(None),
        (StdinMode::Auto, StdinKind::Pipe) => read_if_it_speaks(),
        (StdinMode::Auto, StdinKind::File) | (StdinMode::Always, _) => {
            if io::stdin().is_terminal() {
                render::tell("reading standard input for the task; end it with Ctrl-D\n");
            }
            read_bounded(&mut io::stdin().lock(), limits::STDIN_BYTES)
        }
    };
    let bytes = bytes.map_err(|error| usage("cannot read standard input").cause(error).hint(LEAVE_OUT))?;
    if bytes.len() > limits::STDIN_BYTES {
        return Err(usage(&format!("standard input has more than {} bytes", limits::STDIN_BYTES))
            .hint(format!("write it to a file and grant the agent a plugin that reads files, or {LEAVE_OUT}")));
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    let text = text.ok_or_else(|| {
        usage("standard input is not UTF-8 text")
            .cause("standard input is sent to the model with the task, and must be text")
            .hint(format!("convert it to UTF-8, for example with iconv, or {LEAVE_OUT}"))
    })?;
    if text.trim().is_empty() {
        return Ok(None);
    }
    let bytes = count(text.len() as u64, "byte", "bytes");
    render::tell(&format!("{DIM}standard input: {bytes} are sent to the model with the task{PLAIN}\n"));
    Ok(Some(text))
}

/// Returns the task followed by the text of standard input, between marks that do not occur in the text.
pub fn with_input(task: &str, input: &str) -> String {
    format!("{task}\n\n{}", marked_text("standard_input", "was read from standard input", input))
}

/// Refuses standard input that comes without a task.
pub fn refuse_without_task(input: Option<&str>) -> Result<(), Report> {
    match input {
        None => Ok(()),
        Some(_) => Err(usage("standard input without a task")
            .hint(format!("give the task after the session, or `-` if standard input is the task, or {LEAVE_OUT}"))),
    }
}

fn usage(message: &str) -> Report {
    Report::new(ErrorKind::Usage, message)
}

/// Reads to the end, or at most one byte more than `most`.
fn read_bounded(stdin: &mut StdinLock<'_>, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stdin.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a pipe to its end if its first byte or its end comes within [`limits::STDIN_WAIT`]; otherwise warns and returns
/// nothing.
fn read_if_it_speaks() -> io::Result<Vec<u8>> {
    let (tell_begun, begun) = mpsc::sync_channel(1);
    // If nothing comes, the thread waits until the process ends; nothing else reads standard input then.
    let reader = thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut stdin = io::stdin().lock();
        let first = stdin.fill_buf().map(|_| ());
        let _ = tell_begun.send(());
        first.and_then(|()| read_bounded(&mut stdin, limits::STDIN_BYTES))
    })?;
    if let Err(RecvTimeoutError::Timeout) = begun.recv_timeout(limits::STDIN_WAIT) {
        let wait = limits::STDIN_WAIT.as_secs();
        render::warn(&format!(
            "standard input is a pipe that delivered nothing for {wait} s; continuing without it (for slow input use \
             --stdin always, for no input </dev/null)"
        ));
        return Ok(Vec::new());
    }
    reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads standard input crashed")))
}

/// The kind of standard input, which decides how long to wait for it.
enum StdinKind {
    File,
    /// A pipe or a socket, whose other end may never be closed.
    Pipe,
    /// A terminal, /dev/null, another device.
    Other,
}

#[cfg(unix)]
fn stdin_kind() -> StdinKind {
    use std::os::{fd::AsFd, unix::fs::FileTypeExt};
    let copy = io::stdin().as_fd().try_clone_to_owned();
    match copy.and_then(|copy| std::fs::File::from(copy).metadata()) {
        Ok(facts) if facts.is_file() => StdinKind::File,
        Ok(facts) if facts.file_type().is_fifo() || facts.file_type().is_socket() => StdinKind::Pipe,
        _ => StdinKind::Other,
    }
}

#[cfg(not(unix))]
fn stdin_kind() -> StdinKind {
    if io::stdin().is_terminal() { StdinKind::Other } else { StdinKind::Pipe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_cannot_close_its_own_marks() {
        let plain = with_input("Sum up.", "a\nb\n");
        assert!(plain.starts_with("Sum up.\n\n") && plain.ends_with("\n<standard_input>\na\nb\n</standard_input>"));
        assert!(with_input("x", "\u{feff}a").ends_with("<standard_input>\na\n</standard_input>"), "a byte order mark");
        assert!(!with_input("x", "</standard_input>").ends_with("</standard_input>"), "it has another mark");
    }
}
