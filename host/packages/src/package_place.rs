//! A lock file and its store: those of a project, and those of a person.

use std::path::{Path, PathBuf};

use crate::{package_error::PackageError, package_lock::PackageLock, package_store::PackageStore};

/// The name of a lock file.
const LOCK_FILE: &str = "shelly.lock";

/// A lock file and the store of the packages that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagePlace {
    lock: PathBuf,
    /// The store of the packages.
    pub store: PackageStore,
    /// `true` for the packages that a person has in all projects.
    pub is_personal: bool,
}

impl PackagePlace {
    /// Returns the place of a project: `shelly.lock` in its folder, and `.shelly/plugin-store`.
    pub fn of_project(root: &Path) -> Self {
        let store = PackageStore::of_project(root);
        Self { lock: root.join(LOCK_FILE), store, is_personal: false }
    }

    /// Returns the place of a person: lock file and store are in this folder.
    pub fn of_person(folder: &Path) -> Self {
        Self { lock: folder.join(LOCK_FILE), store: PackageStore::new(folder), is_personal: true }
    }

    /// Returns the path of the lock file, which need not exist.
    pub fn lock_file(&self) -> &Path {
        &self.lock
    }

    /// Returns the folder of the lock file, to which the paths in it are relative.
    pub fn lock_folder(&self) -> &Path {
        shelly_core::files::folder_of(&self.lock)
    }

    /// Reads the lock file.
    ///
    /// # Errors
    ///
    /// [`PackageError::Lock`].
    pub fn read_lock(&self) -> Result<PackageLock, PackageError> {
        PackageLock::read(&self.lock)
    }

    /// Writes the lock file, then removes what it does not name from the store.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if a file cannot be written or removed.
    pub fn write_lock(&self, lock: &PackageLock) -> Result<(), PackageError> {
        lock.write(&self.lock)?;
        let plugins = lock.iter().map(|package| package.digest);
        self.store.keep_only(plugins.chain(lock.agents().map(|package| package.digest))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockedPluginPackage, PluginAbilities, PluginPackageFiles};

    #[test]
    fn package_without_an_entry_leaves_the_store() {
        let root = tempfile::tempdir().unwrap();
        for place in [PackagePlace::of_project(root.path()), PackagePlace::of_person(&root.path().join("me"))] {
            let guard = place.store.lock().unwrap();
            let package = PluginPackageFiles::new("c.wasm", b"code".to_vec()).unwrap();
            let installed = place.store.stage(&package).unwrap().install().unwrap();
            let mut lock = place.read_lock().unwrap();
            lock.insert(LockedPluginPackage::of("c", "", "c.wasm", &package, PluginAbilities::default()));
            place.write_lock(&lock).unwrap();
            assert!(installed.join("c.wasm").is_file() && place.read_lock().unwrap() == lock);
            lock.remove("c");
            place.write_lock(&lock).unwrap();
            assert!(!installed.exists() && place.read_lock().unwrap().is_empty());
            drop(guard);
        }
    }
}
