use std::io;

use crate::{
    error::{Fault, without_number},
    limits,
};

/// The reason for which changes were refused; none of them was made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence of each")]
pub enum ChangeError {
    /// The path is in no folder of the tool, or leads out of it.
    #[error("`{shown}` is in none of the folders that this tool has, or a link there leads out of them")]
    Outside { shown: String },
    /// The path belongs to the host.
    #[error("`{shown}` is what shelly-host itself goes by, and no tool changes that: leave it to the person")]
    Protected { shown: String },
    /// The path must exist for this change.
    #[error("`{shown}` is not there")]
    NotThere { shown: String },
    /// The path must not exist for this change.
    #[error("`{shown}` is there already: read it first, and say what it is to become from what it holds")]
    Exists { shown: String },
    /// The path is not in the state from which the proposal was made, or which was shown.
    #[error("`{shown}` has changed meanwhile, and nothing was changed: read it again")]
    Stale { shown: String },
    /// The path is a folder where a file is expected, or the reverse.
    #[error("`{shown}` is {is}, and only {wanted} can be changed so")]
    WrongKind { shown: String, is: &'static str, wanted: &'static str },
    /// The path is the folder itself, or contains `..`.
    #[error("`{shown}` is no path below a folder: write it without `..`")]
    BadPath { shown: String },
    /// The text is not a digest.
    #[error("`{text}` is no SHA-256 in hexadecimal")]
    BadDigest { text: String },
    /// Two changes of one result conflict: one path lies in the other.
    #[error("one result changes both `{one}` and `{two}`, and one of them lies in the other: make two calls of it")]
    Nested { one: String, two: String },
    /// A limit was exceeded.
    #[error("`{shown}` has {what}, more than the {most} that a tool may change: leave it to the person")]
    TooLarge { shown: String, what: String, most: String },
    /// The result proposes too many changes.
    #[error("{count} changes were proposed at once, at most {} are made", limits::CHANGES_PER_RESULT)]
    TooMany { count: usize },
    /// The source and the target are on different disks.
    #[error("`{from}` and `{to}` are on two disks, between which nothing can be moved: copy it, then remove it")]
    OtherDisk { from: String, to: String },
    /// The operating system returned an error.
    #[error("`{shown}` could not be {done}: {reason}")]
    Io { shown: String, done: &'static str, reason: String },
    /// A change failed, and the rollback was incomplete.
    #[error("{error}; and what had been changed before that could not be taken back: {left}")]
    NotTakenBack { error: Box<ChangeError>, left: String },
}

impl ChangeError {
    pub(super) fn io(shown: &str, done: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { shown: shown.to_owned(), done, reason: without_number(&error.to_string()) }
    }
}

/// Converts the error for the model that made the call.
impl From<ChangeError> for Fault {
    fn from(error: ChangeError) -> Self {
        let message = error.to_string();
        match error {
            ChangeError::Outside { .. } | ChangeError::Protected { .. } => Self::Denied { message },
            ChangeError::NotThere { .. } => Self::NotFound { message },
            ChangeError::TooLarge { .. } | ChangeError::TooMany { .. } => Self::TooLarge { message },
            ChangeError::Io { .. } | ChangeError::NotTakenBack { .. } => Self::Other { message },
            _ => Self::Invalid { message },
        }
    }
}
