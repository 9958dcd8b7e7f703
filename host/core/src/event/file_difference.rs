use std::path::PathBuf;

/// The change of one file or folder, for displays that compare texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileDifference {
    /// The absolute path without links; of a move or copy, the destination.
    pub path: PathBuf,
    /// The unified diff, bounded, or a sentence about content without lines.
    pub text: String,
}
