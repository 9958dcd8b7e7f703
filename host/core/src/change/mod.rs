//! File changes that tools propose and the host applies.
//!
//! A tool writes nothing: it states the new content of a file and the content from which it started. A [`ChangePlan`] checks
//! that against the present files and shows the difference; the person or policy that may approve it is asked with that
//! diff. [`ChangeApplier::apply`] then makes all changes of the plan or none, only where everything is still as shown. It
//! records the previous contents, so that the changes of a session can be undone and interrupted ones are rolled back.
//!
//! No link leads out of the folder for which a change is meant: the path is resolved once, must lie in that folder, and is
//! then opened without following links.

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

use std::sync::Arc;

use crate::digest::Sha256Digest;

pub use change_path::ChangePath;
pub use changes::{ChangeApplier, ChangeHistory, ChangeOrigin, UndoableChange};
pub use error::ChangeError;
pub use fingerprint::content_digest;
pub use plan::{ChangePlan, ChangeSummary};
pub use record::recover;

/// Returns the unified diff between two texts, for people; `None` stands for a missing file.
pub fn text_difference(shown: &str, before: Option<&str>, after: &str) -> String {
    diff::between(shown, before.map(str::as_bytes), Some(after.as_bytes())).text
}

/// A proposed change of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path.
    pub place: ChangePath,
    /// The digest of the content from which the proposal was made. `None`: with [`FileChangeAction::Write`] the path must
    /// not exist yet, otherwise any content is accepted.
    pub expected: Option<Sha256Digest>,
    /// The action.
    pub act: FileChangeAction,
}

/// The action of a file change. The cases are those of the contract's `file-act`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChangeAction {
    /// Writes this content, at most [`limits::CHANGED_FILE_BYTES`](crate::limits::CHANGED_FILE_BYTES).
    Write(Arc<[u8]>),
    /// Removes the file, or the folder with everything below it.
    Remove,
    /// Moves it to this path, which must not exist.
    MoveTo(ChangePath),
    /// Copies it to this path, which must not exist.
    CopyTo(ChangePath),
    /// Creates a folder at a path that does not exist.
    MakeFolder,
}
