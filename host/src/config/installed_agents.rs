//! The agents and teams of the agent packages that lock files name.

use std::path::{Path, PathBuf};

use super::{AgentPackageConfig, AgentPackageOrigin, Config, ConfigErrors, UserConfig};
use crate::{
    error::{ErrorKind, Report},
    packages::{AgentPackageFiles, LockedAgentPackage, PackageError, PackagePlace},
};

/// The way in which a config gets the agents of installed packages, besides its own.
#[derive(Debug, Clone, Default)]
pub struct InstalledAgents {
    /// The folder with the lock file and the store of the person, whose agents are part of the user-wide config.
    pub person: Option<PathBuf>,
    /// The folder with the lock file and the store of the project; `None`: that of the project itself.
    pub project: Option<PathBuf>,
    /// Takes only the names of agents, from the lock files: for a command that must work while files of packages are
    /// missing.
    pub names_alone: bool,
}

/// An agent package that a lock file names, as far as it was read.
#[derive(Debug, Clone)]
pub(super) struct InstalledAgentPackage {
    locked: LockedAgentPackage,
    origin: AgentPackageOrigin,
    config: AgentPackageConfig,
    /// `false` if only the names of its agents are known.
    is_read: bool,
}

impl InstalledAgents {
    /// Returns the agent packages of the project in this folder.
    pub(super) fn of_project(&self, root: &Path) -> Result<Vec<InstalledAgentPackage>, Report> {
        self.read(&PackagePlace::of_project(self.project.as_deref().unwrap_or(root)))
    }

    /// Adds the agent packages of the person to the user-wide config.
    pub(super) fn add_to_user(&self, user: Option<UserConfig>) -> Result<Option<UserConfig>, ConfigErrors> {
        let installed = match &self.person {
            Some(folder) => self.read(&PackagePlace::of_person(folder))?,
            None => Vec::new(),
        };
        if installed.is_empty() {
            return Ok(user);
        }
        Ok(Some(UserConfig::with_installed(user, &installed)?))
    }

    fn read(&self, place: &PackagePlace) -> Result<Vec<InstalledAgentPackage>, Report> {
        // Most projects have no lock file: one look is enough, and nothing is parsed.
        if place.lock_file().symlink_metadata().is_err() {
            return Ok(Vec::new());
        }
        let lock = place.read_lock().map_err(|error| error.report())?;
        lock.agents().map(|locked| self.read_one(locked, place)).collect()
    }

    fn read_one(&self, locked: &LockedAgentPackage, place: &PackagePlace) -> Result<InstalledAgentPackage, Report> {
        let folder = place.store.folder(&locked.digest);
        let config = match self.names_alone {
            true => AgentPackageConfig::of_names(&locked.runners),
            false => {
                let texts = place.store.read_agent(locked).map_err(|error| error.report())?;
                let texts = texts.ok_or_else(|| not_in_store(locked, place))?;
                let source = folder.join(AgentPackageFiles::CONFIG_FILE);
                let text = texts.get(AgentPackageFiles::CONFIG_FILE).map(String::as_str).unwrap_or_default();
                AgentPackageConfig::parse(text, &source.display().to_string())?
            }
        };
        let origin = AgentPackageOrigin::of(locked, folder);
        Ok(InstalledAgentPackage { locked: locked.clone(), origin, config, is_read: !self.names_alone })
    }
}

fn not_in_store(locked: &LockedAgentPackage, place: &PackagePlace) -> Report {
    let (lock, store) = (place.lock_file().display(), place.store.root().display());
    let option = if place.is_personal { " --user" } else { "" };
    Report::new(ErrorKind::Usage, format!("the agent package `{}` is in {lock}, but not in {store}", locked.id))
        .hint(format!("get it: shelly-host agent install{option}"))
}

impl InstalledAgentPackage {
    /// Adds the agents and teams to a config.
    ///
    /// # Errors
    ///
    /// A [`Report`] if a name is taken. It is no error if only names were read, so that a command that removes packages can
    /// run.
    pub fn add_to(&self, config: &mut Config) -> Result<(), Report> {
        let added = config.add_agent_package(self.config.clone(), &self.origin, self.locked.model.as_deref());
        if self.is_read { added } else { Ok(()) }
    }
}

impl Config {
    /// Refuses an agent package without a signature that this config or that of the person requires.
    pub(super) fn check_signature(&self, package: &InstalledAgentPackage) -> Result<(), Report> {
        let InstalledAgentPackage { locked, is_read, .. } = package;
        if !is_read {
            return Ok(());
        }
        for rule in [&self.plugin_signatures, &self.user.plugin_signatures] {
            let signer = rule.policy()?.signer(&locked.files, locked.signature.as_deref()).map(drop);
            signer.map_err(|why| {
                let message = format!("the agent package `{}` must not be used: {why}", locked.id);
                Report::new(ErrorKind::Plugin, message).hint(PackageError::SIGNATURE_MEND)
            })?;
        }
        Ok(())
    }
}
