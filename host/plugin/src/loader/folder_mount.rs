use std::path::PathBuf;

/// A folder of this machine, and the name under which a plugin sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderMount {
    /// The folder on this machine, absolute, without links and `..`: grants are compared with the resolved path.
    pub path: PathBuf,
    /// The name under which the plugin sees the folder.
    pub name: String,
}
