//! How a failure is classified, routed and shown.
//!
//! Every failure has one reader. A [`Fault`] is read by a model, a plugin or the retry logic: its case decides what
//! happens next. A [`Report`] is read by a person at the terminal: what went wrong, why, and how to mend it.

mod refusals;

use std::{fmt, io, time::Duration};

pub(crate) use refusals::{speaks_of_window, window_named_in};
use serde::{Deserialize, Serialize};

/// Why a tool, a model or a plugin did not do what it was asked. Mirrors `types.error` of the plugin contract case by
/// case, so that a failure keeps its meaning across the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum Fault {
    /// The input is wrong; the same again fails again.
    #[error("{message}")]
    Invalid { message: String },
    /// A rule or a grant forbids it, or a credential was not accepted.
    #[error("{message}")]
    Denied { message: String },
    /// What was named does not exist.
    #[error("{message}")]
    NotFound { message: String },
    /// A bound on size was passed.
    #[error("{message}")]
    TooLarge { message: String },
    /// A budget is used up: tokens, rounds, attempts.
    #[error("{message}")]
    Exhausted { message: String },
    /// Too many requests; may be tried again, not before `after`.
    #[error("{message}")]
    RateLimited { message: String, after: Option<Duration> },
    /// Not reachable, overloaded or cut off in the middle; may be tried again, not before `after`.
    #[error("{message}")]
    Unavailable { message: String, after: Option<Duration> },
    /// Time ran out; whether it took effect is not known.
    #[error("{message}")]
    Timeout { message: String },
    /// Anything else; not tried again.
    #[error("{message}")]
    Other { message: String },
}

impl Fault {
    /// An [`Fault::Invalid`].
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into() }
    }

    /// A [`Fault::Other`].
    pub fn other(message: impl Into<String>) -> Self {
        Self::Other { message: message.into() }
    }

    /// The same, with what it happened in before its message.
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

    /// The same with these words.
    pub fn saying(mut self, words: impl Into<String>) -> Self {
        *self.message_mut() = words.into();
        self
    }

    /// Whether the same request may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Unavailable { .. })
    }

    /// How long to wait before trying again, where that is known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { after, .. } | Self::Unavailable { after, .. } => *after,
            _ => None,
        }
    }
}

/// Whether a run goes on without something around the agent's work that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It ends; a tool call is denied.
    #[default]
    Stop,
    /// It goes on without what would have been done; the failure is reported.
    Skip,
}

/// A length of time as messages say it: `1 second`, `0.2 seconds`.
pub(crate) fn seconds(time: Duration) -> String {
    match time.as_secs_f32() {
        1.0 => "1 second".into(),
        seconds => format!("{seconds} seconds"),
    }
}

/// So many of something: `1 byte`, `2 bytes`.
pub(crate) fn count(of: u64, one: &str, many: &str) -> String {
    format!("{of} {}", if of == 1 { one } else { many })
}

/// At most `chars` characters of a text, with a mark where it was cut.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether a terminal would act on this character rather than show it: control characters, line breaks among them, and
/// characters that turn the direction of what follows. Nobody who is not trusted may print one.
pub fn acts_on_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether nobody sees this character where it stands in a text: it takes no room, looks like a blank, or does something to
/// its neighbours. Joiners (200C, 200D) and the variant for emoji (FE0F), which are in texts that people write, are not among
/// them.
pub(crate) fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A path or a name as it may stand in a line of text for a person: what a terminal would act on, and what nobody sees, is
/// spelt out.
pub(crate) fn legible(name: &str) -> String {
    name.chars().fold(String::with_capacity(name.len()), |mut shown, c| {
        match acts_on_terminal(c) || is_unseen(c) {
            true if c.is_control() => shown.extend(c.escape_default()),
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
        shown
    })
}

/// What kind of failure ended the program: decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The run began and did not reach an answer.
    Run,
    /// The command line, the config or the task is wrong.
    Usage,
    /// A plugin that is needed could not be loaded.
    Plugin,
    /// The model could not be reached or refused the request.
    Provider,
    /// A bug of ours.
    Bug,
}

impl ErrorKind {
    /// The exit code, as documented in `docs/operating.md`. 0 is an answer, and nothing else is.
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

/// A failure as a person reads it: one line of what, lines of why, one hint how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Decides the exit code.
    pub kind: ErrorKind,
    /// What went wrong, naming the thing that it is about.
    pub message: String,
    /// Why, outermost first.
    pub causes: Vec<String>,
    /// What to do about it.
    pub hint: Option<String>,
    /// Where in a file it is, as `, line 3, column 5`; empty where that says nothing.
    #[serde(skip)]
    place: String,
}

impl Report {
    /// A report without causes or hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), causes: Vec::new(), hint: None, place: String::new() }
    }

    /// Adds a cause.
    pub fn cause(mut self, cause: impl fmt::Display) -> Self {
        self.causes.push(cause.to_string());
        self
    }

    /// Sets the place.
    pub(crate) fn at(mut self, place: String) -> Self {
        self.place = place;
        self
    }

    /// Puts the file, and the place in it, into the message.
    pub(crate) fn in_file(mut self, file: impl fmt::Display) -> Self {
        self.message = format!("{} ({file}{})", self.message, std::mem::take(&mut self.place));
        self
    }

    /// With its hint, on one line: for those who are not told it as a report.
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

/// Why a file cannot be read, in the same words on every system.
pub(crate) fn why_unreadable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file or folder".into(),
        io::ErrorKind::IsADirectory => "it is a folder, not a file".into(),
        io::ErrorKind::NotADirectory => "a part of its path is a file, not a folder".into(),
        io::ErrorKind::PermissionDenied => "you have no permission to read it".into(),
        io::ErrorKind::InvalidData => "it is not UTF-8 text".into(),
        _ => without_number(&error.to_string()),
    }
}

/// The text without the system's number for an error, ` (os error 2)`: it tells a person nothing.
pub(crate) fn without_number(text: &str) -> String {
    match text.split_once(" (os error ") {
        Some((before, rest)) => format!("{before}{}", rest.split_once(')').map_or("", |(_, after)| after)),
        None => text.to_owned(),
    }
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
    fn the_number_of_an_error_is_left_out() {
        for (text, shown) in
            [("refused (os error 111)", "refused"), ("a (os error 2): b", "a: b"), ("plain (x)", "plain (x)")]
        {
            assert_eq!(without_number(text), shown);
        }
    }
}
