//! Changes of files that tools propose and the host makes.
//!
//! A tool writes nothing: it says what is to become of which file, and from which content it started. A [`ChangePlan`] checks that
//! against what is there and shows the difference; whoever may say yes is asked with it; [`ChangeApplier::apply`] then makes all
//! changes of the plan or none, only where everything still is as it was shown, and writes down what was there before, so
//! that [`ChangeApplier`] of a session can be undone and an interrupted one is taken back.
//!
//! No link leads out of the folder that a change is meant for: the way to a file is resolved once, must lie in that folder,
//! and is then walked without following any link.

mod apply;
mod change_path;
mod changes;
mod diff;
mod error;
mod fingerprint;
mod folder;
mod known_names;
mod plan;
mod protected_files;
mod record;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use crate::trust::UserKey;

use std::sync::Arc;

pub use change_path::ChangePath;
pub use changes::{ChangeApplier, ChangeHistory, ChangeOrigin, UndoableChange};
pub use error::ChangeError;
pub use fingerprint::ContentDigest;
pub use plan::{ChangePlan, ChangeSummary};
pub use record::recover;

/// Returns how a text becomes another one as a unified diff, for people; `None` stands for no file.
pub fn text_difference(shown: &str, before: Option<&str>, after: &str) -> String {
    diff::between(shown, before.map(str::as_bytes), Some(after.as_bytes())).text
}

/// What is to become of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Where it is.
    pub place: ChangePath,
    /// What it held when the proposal was made. None: with [`FileChangeAction::Write`] it must not be there yet, otherwise it may hold
    /// anything.
    pub expected: Option<ContentDigest>,
    /// What becomes of it.
    pub act: FileChangeAction,
}

/// What becomes of a file or folder. Cases as in the contract's `file-act`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChangeAction {
    /// It has this content from now on, at most [`limits::CHANGED_FILE_BYTES`](crate::limits::CHANGED_FILE_BYTES).
    Write(Arc<[u8]>),
    /// It goes; a folder with all below it.
    Remove,
    /// It goes there, where nothing is yet.
    MoveTo(ChangePath),
    /// A copy of it comes there, where nothing is yet.
    CopyTo(ChangePath),
    /// A folder is made where nothing is yet.
    MakeFolder,
}
