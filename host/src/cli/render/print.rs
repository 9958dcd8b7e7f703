//! Writes to standard output and standard error.

use std::io::{ErrorKind, IsTerminal, Write};

use anstream::{AutoStream, ColorChoice};
use serde::Serialize;

use super::{
    prose::tell_prose,
    terminal_text::{PLAIN, YELLOW, escaped, indented, json_line, without_colours},
};
use crate::{
    cli::{secrets::without_secrets, stdout},
    error::{Report, without_number},
};

/// Prints to standard output. A closed pipe is no error: its reader wants no more.
pub fn print(text: &str) -> Result<(), Report> {
    if stdout::was_closed() {
        return Err(not_printed("standard output was closed when the program was started"));
    }
    let mut out = std::io::stdout().lock();
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(not_printed(error)),
        _ => Ok(()),
    }
}

/// Reports that output was lost.
pub fn not_printed(cause: impl std::fmt::Display) -> Report {
    let cause = without_number(&cause.to_string());
    Report::new(crate::error::ErrorKind::Run, "cannot write to standard output").cause(cause)
}

/// Prints text of others: escaped on a terminal, and otherwise unchanged except for credentials.
pub fn print_for_people(text: &str) -> Result<(), Report> {
    if std::io::stdout().is_terminal() { print(&escaped(text)) } else { print(&without_secrets(text)) }
}

/// Prints text with the colours of the host, or without them where they are not wanted. Untrusted parts of it are escaped
/// already.
pub fn print_coloured(text: &str) -> Result<(), Report> {
    match AutoStream::choice(&std::io::stdout()) {
        ColorChoice::Never => print(&without_colours(text)),
        _ => print(text),
    }
}

/// Prints a warning.
pub fn warn(message: &str) {
    tell_prose(&format!("{}\n", warning(message)));
}

/// Formats a warning.
pub fn warning(message: &str) -> String {
    format!("{YELLOW}warning:{PLAIN} {}", indented(&escaped(message)))
}

/// Prints an intermediate line of JSON. A failure is ignored here, as printing the result fails too and is reported.
pub fn say(value: &impl Serialize) {
    let _ = print(&json_line(value));
}

/// Writes to standard error, without colours where they are not wanted.
pub fn tell(text: &str) {
    let _ = anstream::stderr().write_all(text.as_bytes());
}
