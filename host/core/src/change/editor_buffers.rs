use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;

use crate::{error::seconds, limits};

/// An editor in which the person has files open: its text of a file may be newer than the disk's. It has no part in what
/// may be read or changed; whoever asks it has checked the path.
#[async_trait]
pub trait EditorBuffers: Send + Sync {
    /// Returns the text of the file at this absolute path as the person sees it; `None` if the editor has no text of it.
    ///
    /// # Errors
    ///
    /// [`EditorBuffersError`] if it is unknown whether the editor has a text.
    async fn read_text(&self, path: &Path) -> Result<Option<String>, EditorBuffersError>;

    /// Replaces the text of the file at this absolute path, and saves it.
    ///
    /// # Errors
    ///
    /// [`EditorBuffersError`]
    async fn write_text(&self, path: &Path, text: &str) -> Result<(), EditorBuffersError>;
}

/// The reason for which an editor was of no help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence of each")]
pub enum EditorBuffersError {
    /// The answer took too long.
    #[error("the editor has not answered within {}", seconds(limits::EDITOR_TIME))]
    Silent,
    /// The editor shows texts, but takes none.
    #[error("the editor does not offer to write files")]
    CannotWrite,
    /// The editor answered with an error.
    #[error("the editor refused: {reason}")]
    Refused { reason: String },
}

/// An editor that can be shown in a debug text.
#[derive(Clone)]
pub(super) struct EditorHandle(pub Arc<dyn EditorBuffers>);

impl fmt::Debug for EditorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EditorHandle")
    }
}
