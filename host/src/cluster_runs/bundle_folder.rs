//! Config bundles of other hosts, unpacked into a folder of this one.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::config_bundle::{BundledPlugin, ConfigBundle, read_bounded};
use crate::{
    cluster::{ClusterError, ObjectStorage},
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    files, limits,
    packages::{PackageLock, PackagePlace},
};

/// The folder in which this host keeps the plugins of bundles. What is in it is verified each time before it is used.
#[derive(Debug, Clone)]
pub(super) struct BundleFolder(PathBuf);

/// The reason why a bundle cannot be used.
#[derive(Debug)]
pub(super) enum BundleError {
    /// The bundle itself: it is the same on every host.
    Unusable(String),
    /// The server or the disk; another attempt may do better.
    Failed(Report),
}

impl BundleFolder {
    pub fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    /// Gets the list of a bundle.
    pub async fn list(&self, digest: &Sha256Digest, objects: &ObjectStorage) -> Result<ConfigBundle, BundleError> {
        let list = object(digest, limits::CLUSTER_BUNDLE_BYTES, objects).await?;
        ConfigBundle::parse(&list).map_err(BundleError::Unusable)
    }

    /// Unpacks the plugins of a bundle. Returns the plugin directory that has them.
    pub async fn unpack(
        &self,
        digest: &Sha256Digest,
        bundle: &ConfigBundle,
        objects: &ObjectStorage,
    ) -> Result<PathBuf, BundleError> {
        let plugins = self.0.join(digest.hex()).join("plugins");
        make(&plugins)?;
        for BundledPlugin { id, files } in &bundle.plugins {
            // A component without a manifest lies in the directory itself, under the name that is its id.
            let folder = if files.len() > 1 { plugins.join(id) } else { plugins.clone() };
            make(&folder)?;
            for file in files {
                let path = folder.join(&file.name);
                if read_bounded(&path).is_ok_and(|bytes| Sha256Digest::of(bytes) == file.digest) {
                    continue;
                }
                let bytes = object(&file.digest, file.bytes, objects).await?;
                files::replace(&path, &bytes).map_err(|error| unwritable(&path, &error))?;
            }
        }
        self.remove_oldest(digest);
        Ok(plugins)
    }

    /// Unpacks the agent packages of a bundle. Returns the folder that has them as a project has those that are
    /// installed; it need not exist.
    pub async fn unpack_agents(
        &self,
        digest: &Sha256Digest,
        bundle: &ConfigBundle,
        objects: &ObjectStorage,
    ) -> Result<PathBuf, BundleError> {
        let folder = self.0.join(digest.hex()).join("agents");
        if bundle.agents.is_empty() {
            return Ok(folder);
        }
        make(&folder)?;
        let place = PackagePlace::of_project(&folder);
        let mut lock = PackageLock::default();
        bundle.agents.iter().for_each(|package| lock.insert_agent(package.clone(), Vec::new()));
        // What is read again was checked: paths are below the folder of a package.
        let lock = lock.write(place.lock_file()).and_then(|()| place.read_lock());
        let lock = lock.map_err(|error| BundleError::Unusable(error.report().to_string()))?;
        for package in lock.agents() {
            for (name, wanted) in package.texts() {
                let path = place.store.folder(&package.digest).join(name);
                make(files::folder_of(&path))?;
                if read_bounded(&path).is_ok_and(|bytes| Sha256Digest::of(bytes) == wanted) {
                    continue;
                }
                let bytes =
                    object(&wanted, limits::CONFIG_BYTES.max(limits::AGENT_PACKAGE_TEXT_BYTES), objects).await?;
                files::replace(&path, &bytes).map_err(|error| unwritable(&path, &error))?;
            }
        }
        self.remove_oldest(digest);
        Ok(folder)
    }

    /// Removes the bundles that were unpacked first, if there are too many. Whoever needs one again gets it again.
    fn remove_oldest(&self, used: &Sha256Digest) {
        let Ok(entries) = fs::read_dir(&self.0) else { return };
        let age =
            |entry: &fs::DirEntry| entry.metadata().and_then(|it| it.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        let is_bundle = |entry: &fs::DirEntry| {
            entry.file_name().to_str().and_then(Sha256Digest::of_hex).is_some_and(|digest| digest != *used)
        };
        let mut bundles: Vec<_> =
            entries.flatten().filter(is_bundle).map(|entry| (age(&entry), entry.path())).collect();
        bundles.sort();
        let most = limits::CLUSTER_BUNDLES_KEPT - 1;
        let too_many = bundles.len().saturating_sub(most);
        for (_, path) in bundles.into_iter().take(too_many) {
            // A worker that still has it in use reads it again from the server.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Gets an object, which has this digest.
pub(super) async fn object(
    digest: &Sha256Digest,
    most: u64,
    objects: &ObjectStorage,
) -> Result<bytes::Bytes, BundleError> {
    objects.get(digest, most).await.map_err(|error| match error {
        ClusterError::NotFound { .. }
        | ClusterError::TooLarge { .. }
        | ClusterError::Invalid { .. }
        | ClusterError::Sealed(_) => {
            BundleError::Unusable(format!("the object {digest} cannot be used: {}", error.report()))
        }
        error => BundleError::Failed(error.report()),
    })
}

fn make(folder: &Path) -> Result<(), BundleError> {
    files::create_private_folders(folder).map_err(|error| unwritable(folder, &error))
}

fn unwritable(path: &Path, error: &io::Error) -> BundleError {
    let what = format!("cannot write {}", path.display());
    BundleError::Failed(Report::new(ErrorKind::Run, what).cause(error).hint("check the permissions of the path"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_bundles_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let digests: Vec<_> = (0..=limits::CLUSTER_BUNDLES_KEPT).map(|n| Sha256Digest::of(n.to_string())).collect();
        for (n, digest) in digests.iter().enumerate() {
            let path = folder.path().join(digest.hex());
            fs::create_dir(&path).unwrap();
            let time = SystemTime::UNIX_EPOCH + limits::CLUSTER_LEASE * u32::try_from(n).unwrap();
            fs::File::open(&path).unwrap().set_modified(time).unwrap();
        }
        fs::create_dir(folder.path().join("of somebody else")).unwrap();
        // The oldest one is in use.
        BundleFolder::new(folder.path().to_owned()).remove_oldest(&digests[0]);
        let is_there = |n: usize| folder.path().join(digests[n].hex()).exists();
        assert!(is_there(0) && !is_there(1) && is_there(2) && is_there(digests.len() - 1));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), limits::CLUSTER_BUNDLES_KEPT + 1);
    }
}
