use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{FileAccess, FileGrant, Grant, HttpGrant};

/// What a person may open to a tool while it works, where it turns out to lack it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptableCapability {
    /// Folders, to read them.
    Files,
    /// Servers of the public Internet.
    Http,
}

impl PromptableCapability {
    /// The most that could be opened of these.
    pub fn most(asked: &BTreeSet<Self>) -> Grant {
        let mut most = Grant::default();
        for one in asked {
            match one {
                Self::Files => most.files = FileGrant::everywhere(FileAccess::Read),
                Self::Http => most.http = HttpGrant::all(),
            }
        }
        most
    }

    /// The capability that is opened, by its name in manifest and config.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Http => "http",
        }
    }
}
