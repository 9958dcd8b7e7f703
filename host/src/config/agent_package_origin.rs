//! The installed agent package that an agent comes from.

use std::path::PathBuf;

use crate::{
    digest::Sha256Digest,
    packages::{AgentPackageFiles, LockedAgentPackage},
};

/// The installed agent package that an agent or team comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentPackageOrigin {
    /// The id of the package.
    pub id: String,
    /// Its version.
    pub version: String,
    /// The digest of the package.
    pub digest: Sha256Digest,
    /// The folder of its texts, which need not exist.
    pub folder: PathBuf,
}

impl AgentPackageOrigin {
    /// Returns the origin of the agents of an installed package, whose texts are in `folder`.
    pub fn of(locked: &LockedAgentPackage, folder: PathBuf) -> Self {
        Self { id: locked.id.clone(), version: locked.version.clone(), digest: locked.digest, folder }
    }

    /// Returns the folder of its skills, which need not exist.
    pub fn skills(&self) -> PathBuf {
        self.folder.join(AgentPackageFiles::SKILLS)
    }
}
