//! Plugins that a lock file names: they are used only if their files are those that were locked.

use std::{collections::BTreeMap, fs, io, path::PathBuf};

use super::{manifest::PluginManifest, plugin_location::PluginLocation};
use crate::{component::read_inside, contract::MANIFEST_FILE, error::PluginError};
use shelly_core::{digest::Sha256Digest, limits};

/// A plugin that a lock file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockedPlugin {
    /// The id.
    pub id: String,
    /// The folder of its files, which need not exist.
    pub folder: PathBuf,
    /// The file name of the component.
    pub component: String,
    /// The digests of all files, by their names.
    pub files: BTreeMap<String, Sha256Digest>,
    /// The lock file.
    pub lock: PathBuf,
    /// `true` if a person has it in all projects.
    pub is_personal: bool,
    /// The reason why it must not be used, and how to mend that.
    pub refusal: Option<(String, String)>,
}

impl LockedPlugin {
    /// Checks all files except the component, whose digest is compared when it is read. Returns the location, and the manifest
    /// if the plugin has one.
    ///
    /// # Errors
    ///
    /// [`PluginError`] if a file is missing, is another one, or is not in the lock file.
    pub(super) fn open(&self) -> Result<(PluginLocation, Option<PluginManifest>), PluginError> {
        if let Some((why, mend)) = &self.refusal {
            return Err(PluginError::Refused { id: self.id.clone(), why: why.clone(), mend: mend.clone() });
        }
        self.check_names()?;
        let mut manifest = None;
        for (name, locked) in self.files.iter().filter(|(name, _)| **name != self.component) {
            let path = self.folder.join(name);
            let most = if name == MANIFEST_FILE { limits::MANIFEST_BYTES } else { limits::PACKAGE_DOCS_BYTES as u64 };
            let bytes = read_inside(&path, &self.folder, most)?;
            let found = Sha256Digest::of(&bytes);
            if found != *locked {
                return Err(PluginError::NotAsLocked { path, lock: self.lock.clone(), locked: *locked, found });
            }
            if name == MANIFEST_FILE {
                manifest = Some(PluginManifest::parse_file(&path, bytes)?);
            }
        }
        match manifest {
            Some(manifest) => Ok((PluginLocation::Folder(self.folder.clone()), Some(manifest))),
            None => Ok((PluginLocation::File(self.folder.join(&self.component)), None)),
        }
    }

    /// Refuses a folder with a file that the lock file does not name: a WIT file could change what a model is told.
    fn check_names(&self) -> Result<(), PluginError> {
        let unreadable = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => {
                PluginError::NotInStore { id: self.id.clone(), folder: self.folder.clone(), lock: self.lock.clone() }
            }
            _ => PluginError::Unreadable { path: self.folder.clone(), source },
        };
        for entry in fs::read_dir(&self.folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let is_locked =
                path.file_name().and_then(|name| name.to_str()).is_some_and(|name| self.files.contains_key(name));
            if !is_locked {
                return Err(PluginError::NotLocked { path, lock: self.lock.clone() });
            }
        }
        Ok(())
    }

    /// Refuses a component that is not the locked one.
    pub(super) fn check_component(&self, found: Sha256Digest) -> Result<(), PluginError> {
        match self.files.get(&self.component) {
            Some(locked) if *locked != found => Err(PluginError::NotAsLocked {
                path: self.folder.join(&self.component),
                lock: self.lock.clone(),
                locked: *locked,
                found,
            }),
            Some(_) => Ok(()),
            None => Err(PluginError::NotLocked { path: self.folder.join(&self.component), lock: self.lock.clone() }),
        }
    }
}
