use std::io;

use crate::{
    error::{Fault, without_number},
    limits,
};

/// Why changes are not made. None of them was then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence of each")]
pub enum ChangeError {
    /// It is no path of a folder that the tool has, or leads out of it.
    #[error("`{shown}` is in none of the folders that this tool has, or a link there leads out of them")]
    Outside { shown: String },
    /// The host keeps its own there.
    #[error("`{shown}` is what shelly-host itself goes by, and no tool changes that: leave it to the person")]
    Protected { shown: String },
    /// It must be there for this.
    #[error("`{shown}` is not there")]
    NotThere { shown: String },
    /// It must not be there for this.
    #[error("`{shown}` is there already: read it first, and say what it is to become from what it holds")]
    Exists { shown: String },
    /// It is not what the proposal was made from, or not what was shown any more.
    #[error("`{shown}` has changed meanwhile, and nothing was changed: read it again")]
    Stale { shown: String },
    /// A folder where a file is meant, or the other way round.
    #[error("`{shown}` is {is}, and only {wanted} can be changed so")]
    WrongKind { shown: String, is: &'static str, wanted: &'static str },
    /// The folder itself, or a path with `..`.
    #[error("`{shown}` is no path below a folder: write it without `..`")]
    BadPath { shown: String },
    /// A digest that is none.
    #[error("`{text}` is no SHA-256 in hexadecimal")]
    BadDigest { text: String },
    /// Two changes of one result are in each other's way.
    #[error("one result changes both `{one}` and `{two}`, and one of them lies in the other: make two calls of it")]
    Nested { one: String, two: String },
    /// A bound was passed.
    #[error("`{shown}` has {what}, more than the {most} that a tool may change: leave it to the person")]
    TooLarge { shown: String, what: String, most: String },
    /// More changes than one result may propose.
    #[error("{count} changes were proposed at once, at most {} are made", limits::CHANGES_PER_RESULT)]
    TooMany { count: usize },
    /// It lies on another disk.
    #[error("`{from}` and `{to}` are on two disks, between which nothing can be moved: copy it, then remove it")]
    OtherDisk { from: String, to: String },
    /// The system says so.
    #[error("`{shown}` could not be {done}: {reason}")]
    Io { shown: String, done: &'static str, reason: String },
    /// It failed, and not all could be taken back.
    #[error("{error}; and what had been changed before that could not be taken back: {left}")]
    NotTakenBack { error: Box<ChangeError>, left: String },
}

impl ChangeError {
    pub(super) fn io(shown: &str, done: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { shown: shown.to_owned(), done, reason: without_number(&error.to_string()) }
    }
}

/// As the model is told it, which made the call.
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
