//! The folder in which packages are kept by digest.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, OsString},
    fs, io,
    path::{Path, PathBuf},
};

use shelly_core::{digest::Sha256Digest, files};
use tempfile::TempDir;

use crate::{
    agent_package::{AgentPackageFiles, max_file_bytes},
    locked_agent_package::LockedAgentPackage,
    package_error::PackageError,
    package_lock::LockedPluginPackage,
    plugin_package_files::{PluginPackageFiles, read_file},
};

/// The folder in which packages are kept by digest: `sha256/DIGITS`, each with the files of one package. A package is never
/// changed there, only added and removed as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageStore {
    root: PathBuf,
    /// The folder from which no link leads to the packages.
    owner: PathBuf,
}

/// The beginning of the name of a folder that does not yet count as a package.
const STAGED: &str = ".staged-";

impl PackageStore {
    /// Creates the store in this folder, which need not exist. No disk access.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { owner: root.clone(), root }
    }

    /// Creates the store of a project in this folder, as [`Self::new`] does. Somebody else may have made the project, so nothing
    /// is changed where a link of it leads.
    pub fn of_project(project: &Path) -> Self {
        Self { owner: project.to_owned(), root: project.join(".shelly/plugin-store") }
    }

    /// Returns the folder of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder of a package, which need not exist.
    pub fn folder(&self, package: &Sha256Digest) -> PathBuf {
        self.packages().join(package.hex())
    }

    fn packages(&self) -> PathBuf {
        self.root.join("sha256")
    }

    /// Returns the folder of the packages for a change of it.
    ///
    /// # Errors
    ///
    /// [`PackageError::LinkedStore`] if a link leads there: what is written and removed behind it would be files of others.
    fn own_packages(&self) -> Result<PathBuf, PackageError> {
        let packages = self.packages();
        let inside = |path: &&Path| **path != self.owner && path.starts_with(&self.owner);
        let is_link = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
        let link = packages.ancestors().filter(inside).find(is_link).map(Path::to_owned);
        link.map_or(Ok(packages), |path| Err(PackageError::LinkedStore { path }))
    }

    /// Locks the store: waits until no other process installs into it, and holds the lock until the result is dropped. On
    /// systems other than Unix there is no lock, and the result is `None`.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the folder cannot be created or locked, or is a link.
    pub fn lock(&self) -> Result<Option<fs::File>, PackageError> {
        self.own_packages()?;
        fs::create_dir_all(&self.root).map_err(PackageError::file("create", &self.root))?;
        files::lock_folder(&self.root).map_err(PackageError::file("lock", &self.root))
    }

    /// Writes a plugin package into the store, so that it can be inspected before it counts as installed.
    ///
    /// # Errors
    ///
    /// [`PackageError::File`].
    pub fn stage(&self, package: &PluginPackageFiles) -> Result<StagedPackage, PackageError> {
        let folder = self.staging_folder()?;
        for (name, bytes) in package.iter() {
            let path = folder.path().join(name);
            files::replace_shared(&path, bytes).map_err(PackageError::file("write", &path))?;
        }
        let plugin = match package.manifest() {
            Some(_) => folder.path().to_owned(),
            None => folder.path().join(package.component_name()),
        };
        Ok(StagedPackage { plugin, target: self.folder(&package.digest()), folder })
    }

    /// Writes the texts of an agent package into the store. Its plugins are packages of their own.
    ///
    /// # Errors
    ///
    /// [`PackageError::File`].
    pub fn stage_agent(&self, package: &AgentPackageFiles) -> Result<StagedPackage, PackageError> {
        let folder = self.staging_folder()?;
        for (name, text) in package.texts() {
            let path = folder.path().join(name);
            let parent = files::folder_of(&path);
            fs::create_dir_all(parent).map_err(PackageError::file("create", parent))?;
            files::replace_shared(&path, text.as_bytes()).map_err(PackageError::file("write", &path))?;
        }
        Ok(StagedPackage { plugin: folder.path().to_owned(), target: self.folder(&package.digest()), folder })
    }

    /// Creates a folder in that of the packages, so that a rename can make it one of them. It is removed otherwise.
    fn staging_folder(&self) -> Result<TempDir, PackageError> {
        let packages = self.own_packages()?;
        fs::create_dir_all(&packages).map_err(PackageError::file("create", &packages))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(STAGED);
        #[cfg(unix)]
        {
            // `tempfile` would use 0700; others may read a store. The umask still applies.
            builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
        }
        builder.tempdir_in(&packages).map_err(PackageError::file("write to", &packages))
    }

    /// Reads a package and checks that it is the one that the lock file names; `None` if it is not in the store.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if a file of it cannot be read, or is another one.
    pub fn read(&self, locked: &LockedPluginPackage) -> Result<Option<PluginPackageFiles>, PackageError> {
        let folder = self.folder(&locked.digest);
        if !folder.exists() {
            return Ok(None);
        }
        PluginPackageFiles::read_locked(&folder, &locked.component, &locked.files).map(Some)
    }

    /// Reads the texts of an agent package by their paths, and checks that they are those that the lock file names; `None` if it
    /// is not in the store.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if a text cannot be read, is another one, or is not in the lock file.
    pub fn read_agent(&self, locked: &LockedAgentPackage) -> Result<Option<BTreeMap<String, String>>, PackageError> {
        let folder = self.folder(&locked.digest);
        if !folder.exists() {
            return Ok(None);
        }
        let named: BTreeMap<_, _> = locked.texts().collect();
        // A skill that the lock file does not name would be loaded with the others.
        check_paths(&folder, "", &named)?;
        let mut texts = BTreeMap::new();
        for (path, locked) in named {
            let bytes = read_file(&folder, path, max_file_bytes(path))?;
            let (found, there) = (Sha256Digest::of(&bytes), folder.join(path));
            if found != locked {
                return Err(PackageError::Altered { path: there, locked, found });
            }
            let text = String::from_utf8(bytes).map_err(|_| PackageError::NotText { of: path.to_owned() })?;
            texts.insert(path.to_owned(), text);
        }
        Ok(Some(texts))
    }

    /// Removes all packages except these. Returns the number of those that were removed.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if a folder cannot be read or removed, or is a link.
    pub fn keep_only(&self, kept: impl IntoIterator<Item = Sha256Digest>) -> Result<usize, PackageError> {
        let packages = self.own_packages()?;
        let kept: BTreeSet<_> = kept.into_iter().map(|digest| OsString::from(digest.hex())).collect();
        let entries = match fs::read_dir(&packages) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(PackageError::file("read", &packages)(error)),
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry.map_err(PackageError::file("read", &packages))?;
            if is_of_store(&entry.file_name()) && !kept.contains(&entry.file_name()) {
                let path = entry.path();
                fs::remove_dir_all(&path).map_err(PackageError::file("remove", &path))?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Returns `true` for the name of a folder that a store makes. Anything else was put there by somebody else.
fn is_of_store(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(STAGED) || Sha256Digest::of_hex(name).is_some())
}

/// Checks that a folder contains nothing but these files. `below` is the part of their paths that leads to it, with `/` at
/// its end.
fn check_paths(folder: &Path, below: &str, named: &BTreeMap<&str, Sha256Digest>) -> Result<(), PackageError> {
    for entry in fs::read_dir(folder).map_err(PackageError::file("read", folder))? {
        let entry = entry.map_err(PackageError::file("read", folder))?;
        let path = format!("{below}{}", entry.file_name().to_string_lossy());
        let kind = entry.file_type().map_err(PackageError::file("read", folder))?;
        let inside = format!("{path}/");
        if kind.is_file() && named.contains_key(path.as_str()) {
            continue;
        }
        // Each folder on the way leads to a named file, so the recursion is no deeper than the longest path.
        if !kind.is_dir() || !named.keys().any(|named| named.starts_with(&inside)) {
            return Err(PackageError::Unlocked { path: entry.path() });
        }
        check_paths(&entry.path(), &inside, named)?;
    }
    Ok(())
}

/// A package in a store that does not yet count as installed. Dropping it removes it.
#[derive(Debug)]
pub struct StagedPackage {
    plugin: PathBuf,
    target: PathBuf,
    folder: TempDir,
}

impl StagedPackage {
    /// Returns the path at which the plugin can be inspected: its folder, or its component file if it has no manifest.
    pub fn plugin(&self) -> &Path {
        &self.plugin
    }

    /// Puts the package in its place. Whatever was there, such as a damaged copy, is replaced.
    ///
    /// # Errors
    ///
    /// [`PackageError::File`].
    pub fn install(self) -> Result<PathBuf, PackageError> {
        let Self { target, folder, .. } = self;
        if fs::symlink_metadata(&target).is_ok() {
            fs::remove_dir_all(&target).map_err(PackageError::file("replace", &target))?;
        }
        fs::rename(folder.path(), &target).map_err(PackageError::file("write", &target))?;
        // The folder is no longer where its guard would remove it.
        let _ = folder.keep();
        files::sync_folder(&target).map_err(PackageError::file("write", &target))?;
        Ok(target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin_abilities::PluginAbilities;

    fn package(code: &str) -> PluginPackageFiles {
        PluginPackageFiles::new("c.wasm", code.into()).unwrap().with_manifest("id".into()).unwrap()
    }

    fn locked(package: &PluginPackageFiles) -> LockedPluginPackage {
        LockedPluginPackage::of("c", "1.0.0", "build/c", package, PluginAbilities::default())
    }

    #[test]
    fn installed_package_is_read_back_by_its_digest() {
        let root = tempfile::tempdir().unwrap();
        let store = PackageStore::new(root.path().join("store"));
        let (one, other) = (package("one"), package("other"));
        assert_eq!(store.read(&locked(&one)).unwrap(), None);
        let staged = store.stage(&one).unwrap();
        assert!(staged.plugin().join("plugin.toml").is_file());
        assert_eq!(staged.install().unwrap(), store.folder(&one.digest()));
        drop(store.stage(&other).unwrap());
        assert_eq!(store.read(&locked(&one)).unwrap(), Some(one.clone()));
        assert_eq!(store.read(&locked(&other)).unwrap(), None, "it was staged and dropped");
        store.stage(&one).unwrap().install().unwrap();
        let names = || fs::read_dir(root.path().join("store/sha256")).unwrap().count();
        assert_eq!(names(), 1, "nothing is left of what was staged");
        store.stage(&other).unwrap().install().unwrap();
        assert_eq!(store.keep_only([one.digest()]).unwrap(), 1);
        assert_eq!(names(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn link_in_a_projects_store_leads_to_no_change() {
        let (place, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // Folders of others can have such names, too.
        let theirs = others.path().join(Sha256Digest::of("theirs").hex());
        fs::create_dir(&theirs).unwrap();
        fs::write(theirs.join("file"), "").unwrap();
        for (link, folder) in [
            (".shelly", ""),
            (".shelly/plugin-store", ".shelly"),
            (".shelly/plugin-store/sha256", ".shelly/plugin-store"),
        ] {
            let project = place.path().join(link.replace('/', "-"));
            fs::create_dir_all(project.join(folder)).unwrap();
            std::os::unix::fs::symlink(others.path(), project.join(link)).unwrap();
            let store = PackageStore::of_project(&project);
            let refused =
                [store.keep_only([]).map(drop), store.stage(&package("one")).map(drop), store.lock().map(drop)];
            for refused in refused {
                let error = refused.unwrap_err();
                assert!(
                    matches!(&error, PackageError::LinkedStore { path } if path.ends_with(link)),
                    "{link}: {error}"
                );
            }
        }
        assert_eq!(fs::read_dir(others.path()).unwrap().count(), 1);
        assert!(theirs.join("file").exists());
    }

    #[test]
    fn only_folders_of_the_store_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let store = PackageStore::new(root.path());
        store.stage(&package("one")).unwrap().install().unwrap();
        let folders = ["notes", ".staged-left"].map(|name| root.path().join("sha256").join(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).unwrap());
        assert_eq!(store.keep_only([]).unwrap(), 2, "the package, and what an interrupted installation left");
        assert_eq!(folders.map(|folder| folder.exists()), [true, false]);
    }

    #[test]
    fn altered_package_is_refused_and_replaced() {
        let root = tempfile::tempdir().unwrap();
        let store = PackageStore::new(root.path());
        let one = package("one");
        let folder = store.stage(&one).unwrap().install().unwrap();
        fs::write(folder.join("c.wasm"), "two").unwrap();
        let error = store.read(&locked(&one)).unwrap_err();
        let (found, named) = (Sha256Digest::of("two").to_string(), Sha256Digest::of("one").to_string());
        assert!(error.to_string().ends_with(&format!("c.wasm is {found}, but the lock file names {named}")), "{error}");
        store.stage(&one).unwrap().install().unwrap();
        assert!(store.read(&locked(&one)).unwrap().is_some());
        fs::write(folder.join("c.wit"), "docs").unwrap();
        let error = store.read(&locked(&one)).unwrap_err();
        assert!(matches!(error, PackageError::Unlocked { .. }), "{error}");
    }

    /// Returns an agent package with this skill, and its entry.
    fn agent(skill: &str) -> (AgentPackageFiles, LockedAgentPackage) {
        let manifest = b"id = \"a\"\nversion = \"1.0.0\"\nfiles = [\"agents.yaml\", \"skills/s/SKILL.md\", \
                         \"plugins/p/c.wasm\", \"plugins/p/plugin.toml\"]\n";
        let mut files = AgentPackageFiles::new("here", manifest.to_vec()).unwrap();
        let texts = [
            ("agents.yaml", "agents: []"),
            ("skills/s/SKILL.md", skill),
            ("plugins/p/c.wasm", "code"),
            ("plugins/p/plugin.toml", "id"),
        ];
        texts.iter().for_each(|(path, text)| files.add(path, text.as_bytes().to_vec()).unwrap());
        let locked = LockedAgentPackage::of("build/a", &files, vec!["reviewer".into()]);
        (files, locked)
    }

    #[test]
    fn texts_of_an_agent_package_are_kept_and_checked() {
        let root = tempfile::tempdir().unwrap();
        let store = PackageStore::new(root.path());
        let (files, locked) = agent("Look twice.");
        assert_eq!(store.read_agent(&locked).unwrap(), None);
        let install = || store.stage_agent(&files).unwrap().install().unwrap();
        let folder = install();
        let texts = store.read_agent(&locked).unwrap().unwrap();
        assert_eq!(texts["skills/s/SKILL.md"], "Look twice.");
        assert_eq!(texts.len(), 3, "plugins are packages of their own: {texts:?}");
        assert!(!folder.join("plugins").exists());
        let refused = || store.read_agent(&locked).unwrap_err();
        fs::write(folder.join("skills/s/SKILL.md"), "Obey.").unwrap();
        assert!(matches!(refused(), PackageError::Altered { .. }));
        install();
        for more in ["skills/s/more.md", "skills/other/SKILL.md", "x.md"] {
            let path = folder.join(more);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "Obey.").unwrap();
            assert!(matches!(refused(), PackageError::Unlocked { .. }), "{more}");
            install();
            assert!(store.read_agent(&locked).unwrap().is_some(), "{more}");
        }
        #[cfg(unix)]
        {
            fs::remove_file(folder.join("agents.yaml")).unwrap();
            std::os::unix::fs::symlink("/etc/hostname", folder.join("agents.yaml")).unwrap();
            assert!(matches!(refused(), PackageError::Unlocked { .. }));
        }
    }
}
