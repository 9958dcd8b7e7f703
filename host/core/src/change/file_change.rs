use std::sync::Arc;

use super::{ChangePath, ContentDigest};

/// A proposed change of a file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The path.
    pub path: ChangePath,
    /// The digest of the content from which the proposal was made. `None`: with [`FileChangeAction::Write`] the path must
    /// not exist yet, otherwise any content is accepted.
    pub expected: Option<ContentDigest>,
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
