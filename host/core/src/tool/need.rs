use std::fmt;

/// A permission that a tool lacks for a call. The tool has done nothing yet, and the call may be repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolNeed {
    /// Read access to a folder: an absolute path, as the tool would name it.
    Folder(String),
    /// Access to a server, given by a URL on it.
    Server(String),
}

impl ToolNeed {
    /// Returns the line of the config that grants it.
    pub fn grant_line(&self) -> String {
        match self {
            Self::Folder(path) => format!("files: [{{path: \"{}\"}}]", path.escape_debug()),
            Self::Server(url) => format!("http: [\"{}\"]", url.escape_debug()),
        }
    }
}

impl fmt::Display for ToolNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "the folder `{}`", path.escape_debug()),
            Self::Server(url) => write!(f, "the server of `{}`", url.escape_debug()),
        }
    }
}
