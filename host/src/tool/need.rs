use std::fmt;

/// What a tool lacks for a call, in its own words. It has done nothing yet, and the call may be made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolNeed {
    /// A folder, to read what lies in it: an absolute path, as the tool would name it.
    Folder(String),
    /// A server, by a URL of it.
    Server(String),
}

impl fmt::Display for ToolNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "the folder `{}`", path.escape_debug()),
            Self::Server(url) => write!(f, "the server of `{}`", url.escape_debug()),
        }
    }
}
