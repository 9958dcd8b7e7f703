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
    #[error("`{shown}` is outside the folders granted to this tool, itself or through a link")]
    Outside { shown: String },
    /// The path belongs to the host.
    #[error("`{shown}` controls shelly-host and cannot be changed by a tool; leave the change to the person")]
    Protected { shown: String },
    /// The path must exist for this change.
    #[error("`{shown}` does not exist")]
    NotThere { shown: String },
    /// The path must not exist for this change.
    #[error("`{shown}` already exists; read it first, and propose a change of its content")]
    Exists { shown: String },
    /// The path is not in the state from which the proposal was made, or which was shown.
    #[error("`{shown}` has changed in the meantime, so nothing was changed; read it again and retry")]
    Stale { shown: String },
    /// The person has edited the file in an editor and has not saved it.
    #[error(
        "`{shown}` has unsaved changes in the person's editor, so nothing was changed; ask the person to save the file, \
         then read it again and retry"
    )]
    Unsaved { shown: String },
    /// The person has edited the same lines in an editor and has not saved them.
    #[error(
        "`{shown}` has unsaved changes of the same lines in the person's editor, so nothing was changed; ask the person to \
         save the file, then read it again and retry"
    )]
    UnsavedLines { shown: String },
    /// The editor, in which the file may have unsaved text, was of no help.
    #[error("`{shown}` may have unsaved changes in the person's editor, so nothing was changed: {reason}")]
    Editor { shown: String, reason: String },
    /// The path that is to be undone is no longer in the state that the change left.
    #[error(
        "`{shown}` was edited, moved or removed after that change, and undoing it would lose that, so nothing was undone"
    )]
    EditedSince { shown: String },
    /// The path is a folder where a file is expected, or the reverse.
    #[error("`{shown}` is {is}, but this change needs {wanted}")]
    WrongKind { shown: String, is: &'static str, wanted: &'static str },
    /// The path is the folder itself, or contains `..`.
    #[error("invalid path `{shown}`; use a path below a folder, without `..`")]
    BadPath { shown: String },
    /// The text is not a digest.
    #[error("`{text}` is not a hexadecimal SHA-256 digest")]
    BadDigest { text: String },
    /// Two changes of one result conflict: one path lies in the other.
    #[error("one result changes both `{one}` and `{two}`, and one contains the other; make two calls")]
    Nested { one: String, two: String },
    /// A limit was exceeded.
    #[error(
        "`{shown}` is too large to be changed by a tool: {what}, the maximum is {most}; leave the change to the person"
    )]
    TooLarge { shown: String, what: String, most: String },
    /// The result proposes too many changes.
    #[error("{count} changes in one result, the maximum is {}; make several calls", limits::CHANGES_PER_RESULT)]
    TooMany { count: usize },
    /// The source and the target are on different disks.
    #[error("cannot move `{from}` to `{to}`: they are on different disks; copy `{from}`, then remove it")]
    OtherDisk { from: String, to: String },
    /// The operating system returned an error.
    #[error("`{shown}` cannot be {done}: {reason}")]
    Io { shown: String, done: &'static str, reason: String },
    /// A change failed, and the rollback was incomplete.
    #[error("{error}; the changes made before it could not be rolled back: {left}")]
    NotTakenBack { error: Box<ChangeError>, left: String },
}

impl ChangeError {
    /// Says for the person who undoes a change what it says for an agent that makes one.
    pub(super) fn of_undo(self) -> Self {
        match self {
            Self::Stale { shown } => Self::EditedSince { shown },
            other => other,
        }
    }

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
