use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FileAccess, FileGrant, Grant, HttpGrant};

/// A capability that a person may grant in the middle of a run, when a tool turns out to lack it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PromptableCapability {
    /// Read access to folders.
    Files,
    /// Access to public servers.
    Http,
}

impl PromptableCapability {
    /// Returns the maximum grant that these capabilities could add.
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

    /// Returns the name of the capability in manifest and config.
    pub fn capability(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Http => "http",
        }
    }
}
