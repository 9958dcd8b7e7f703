//! Errors: their classification, routing and display.
//!
//! Every failure has one reader. A [`Fault`] is read by a model, a plugin or the retry logic: its case decides what
//! happens next. A [`Report`] is read by a person at the terminal: the failure, its causes, and how to fix it.

mod refusals;

use std::{fmt, io, time::Duration};

pub use refusals::{speaks_of_window, window_named_in};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason for which a tool, a model or a plugin did not do what was requested. Mirrors `types.error` of the plugin
/// contract case by case, so that a failure keeps its meaning across the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum Fault {
    /// The input is wrong; the same request fails again.
    #[error("{message}")]
    Invalid { message: String },
    /// A rule or a missing grant forbids the request, or a credential was rejected.
    #[error("{message}")]
    Denied { message: String },
    /// The named object does not exist.
    #[error("{message}")]
    NotFound { message: String },
    /// A size limit was exceeded.
    #[error("{message}")]
    TooLarge { message: String },
    /// A budget is used up: tokens, rounds, attempts.
    #[error("{message}")]
    Exhausted { message: String },
    /// Too many requests; a retry is possible, not before `after`.
    #[error("{message}")]
    RateLimited { message: String, after: Option<Duration> },
    /// The service is unreachable, overloaded or disconnected in the middle; a retry is possible, not before `after`.
    #[error("{message}")]
    Unavailable { message: String, after: Option<Duration> },
    /// The time limit expired; it is unknown whether the operation took effect.
    #[error("{message}")]
    Timeout { message: String },
    /// Any other failure; it is not retried.
    #[error("{message}")]
    Other { message: String },
}

impl Fault {
    /// Creates a [`Fault::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into() }
    }

    /// Creates a [`Fault::Other`].
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into() }
    }

    /// Prefixes the message with the context of the failure.
    pub fn with_context(mut self, context: impl fmt::Display) -> Self {
        let message = self.message_mut();
        *message = format!("{context}: {message}");
        self
    }

    fn message_mut(&mut self) -> &mut String {
        let (Self::Invalid { message }
        | Self::Denied { message }
        | Self::NotFound { message }
        | Self::TooLarge { message }
        | Self::Exhausted { message }
        | Self::RateLimited { message, .. }
        | Self::Unavailable { message, .. }
        | Self::Timeout { message }
        | Self::Other { message }) = self;
        message
    }

    /// Replaces the message and keeps the case.
    pub fn saying(mut self, words: impl Into<String>) -> Self {
        *self.message_mut() = words.into();
        self
    }

    /// Returns `true` if the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Unavailable { .. })
    }

    /// Returns the time to wait before a retry, if it is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { after, .. } | Self::Unavailable { after, .. } => *after,
            _ => None,
        }
    }
}

/// The policy for a failed effect or middleware: stop the run or continue without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The run ends; a tool call is denied.
    #[default]
    Stop,
    /// The run continues without the effect or middleware; the failure is reported.
    Skip,
}

/// Formats a duration for messages: `1 second`, `0.2 seconds`.
pub fn seconds(time: Duration) -> String {
    match time.as_secs_f32() {
        1.0 => "1 second".into(),
        seconds => format!("{seconds} seconds"),
    }
}

/// Formats a count with its noun: `1 byte`, `2 bytes`.
pub fn count(of: u64, one: &str, many: &str) -> String {
    format!("{of} {}", if of == 1 { one } else { many })
}

/// Returns at most `chars` characters of a text, with `…` where it was cut.
pub fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns `true` if a terminal would act on this character rather than show it: control characters, including line breaks,
/// and characters that change the direction of the following text. Untrusted text must not be printed with such characters.
pub fn acts_on_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `true` if this character is invisible in a text: it takes no room, looks like a blank, or changes its neighbours.
/// Joiners (200C, 200D) and the emoji variation selector (FE0F) are excluded, since ordinary text contains them.
pub(crate) fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Escapes a path or a name for a line of text shown to a person: characters that a terminal acts on and invisible
/// characters are spelt out.
pub fn legible(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len()), |mut shown, c| {
        match acts_on_terminal(c) || is_unseen(c) {
            true if c.is_control() => shown.extend(c.escape_default()),
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
        shown
    })
}

/// The kind of failure that ended the program; it decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The run began and did not reach an answer.
    Run,
    /// The command line, the config or the task is wrong.
    Usage,
    /// A required plugin could not be loaded.
    Plugin,
    /// The model could not be reached or refused the request.
    Provider,
    /// A bug in this program.
    Bug,
}

impl ErrorKind {
    /// Returns the exit code, as documented in `docs/operating.md`. 0 means an answer and nothing else.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Run => 1,
            Self::Usage => 2,
            Self::Plugin => 3,
            Self::Provider => 4,
            Self::Bug => 70,
        }
    }
}

/// A state of the host that stands in the way of a request which is right in itself. A server chooses the status of its
/// answer by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestObstacle {
    /// Another run or process uses what the request names.
    InUse,
    /// No room is left: on the disk, or within a limit of the host.
    Full,
    /// A server or a store that the host needs does not answer.
    Unavailable,
    /// The host is not set up for any request: its config or its environment is wrong.
    Setup,
}

/// A failure as it is shown to a person: one line that states the failure, its causes, and one hint how to fix it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The kind of failure; it decides the exit code.
    pub kind: ErrorKind,
    /// The failure, including the name of its subject.
    pub message: String,
    /// The causes, outermost first.
    pub causes: Vec<String>,
    /// A hint how to fix the failure.
    pub hint: Option<String>,
    /// The state of the host that stands in the way, if that is the cause.
    #[serde(skip)]
    pub obstacle: Option<RequestObstacle>,
    /// The position in the file, as `, line 3, column 5`; empty if there is none.
    #[serde(skip)]
    position: String,
}

impl Report {
    /// Creates a report without causes or hint. Numbers of system errors are removed from its texts.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message: String = message.into();
        let message = without_number(&message);
        Self { kind, message, causes: Vec::new(), hint: None, obstacle: None, position: String::new() }
    }

    /// Adds a cause.
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(without_number(&cause.to_string()));
        self
    }

    /// Sets the state of the host that stands in the way.
    pub fn obstacle(mut self, obstacle: RequestObstacle) -> Self {
        self.obstacle = Some(obstacle);
        self
    }

    /// Sets the position in the file.
    pub fn at(mut self, position: String) -> Self {
        self.position = position;
        self
    }

    /// Appends the file and the position in it to the message.
    pub fn in_file(mut self, file: impl fmt::Display) -> Self {
        self.message = format!("{} ({file}{})", self.message, std::mem::take(&mut self.position));
        self
    }

    /// Returns the report and its hint on one line, for output that has no separate hint.
    pub fn with_hint(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self} ({hint})"),
            None => self.to_string(),
        }
    }

    /// Sets the hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.causes.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl std::error::Error for Report {}

/// Returns the reason for which a file cannot be read, worded the same on every system.
pub fn why_unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no such file or folder".into(),
        io::ErrorKind::IsADirectory => "expected a file, found a folder".into(),
        io::ErrorKind::NotADirectory => "a part of the path is a file, not a folder".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::InvalidData => "not UTF-8 text".into(),
        _ => without_number(&error.to_string()),
    }
}

/// Removes the system's error numbers, ` (os error 2)`, which do not help a person.
pub fn without_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |shown, rest| shown + rest.split_once(')').map_or("", |(_, after)| after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_second_is_no_plural() {
        for (millis, shown) in [(0, "0 seconds"), (200, "0.2 seconds"), (1_000, "1 second"), (90_000, "90 seconds")] {
            assert_eq!(seconds(Duration::from_millis(millis)), shown);
        }
    }

    #[test]
    fn os_error_number_is_removed() {
        for (text, shown) in [
            ("refused (os error 111)", "refused"),
            ("a (os error 2): b (os error 13)", "a: b"),
            ("plain (x)", "plain (x)"),
            ("", ""),
        ] {
            assert_eq!(without_number(text), shown);
        }
        let report = Report::new(ErrorKind::Run, "lost (os error 5)").cause(io::Error::from_raw_os_error(2));
        assert!(!report.to_string().contains("os error"), "{report}");
    }
}
