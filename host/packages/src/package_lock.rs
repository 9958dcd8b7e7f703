//! `shelly.lock`: which plugins are installed, and what each of them was when a person accepted it.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
};

use serde::{Deserialize, Serialize};
use shelly_core::{
    digest::Sha256Digest,
    files::{self, FileReadError},
    limits,
};

use crate::{
    package_abilities::PackageAbilities,
    package_error::PackageError,
    package_files::{PackageFiles, checksums, is_file_name},
    package_source::PackageSource,
};

/// The version of the format that this program writes.
const VERSION: u32 = 1;

/// The comment at the top of a lock file.
const HEAD: &str = "# Written by `shelly-host plugin install`. Commit it: a run uses these plugins and no others.\n\n";

/// A lock file: the plugins that are installed, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageLock {
    packages: BTreeMap<String, LockedPackage>,
}

/// A lock file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    version: u32,
    #[serde(default, rename = "plugin", skip_serializing_if = "Vec::is_empty")]
    plugins: Vec<LockedPackage>,
}

/// Only the version of a lock file, which may be of a later format.
#[derive(Deserialize)]
struct LockFileVersion {
    version: u32,
}

/// An installed plugin, as a lock file names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// The id of the plugin.
    pub id: String,
    /// Its version; empty for a component without a manifest.
    pub version: String,
    /// The source; a path is relative to the folder of the lock file.
    pub source: String,
    /// The digest of the manifest that the source had in its registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Sha256Digest>,
    /// The digest of the package: of the list of its files and their digests.
    pub digest: Sha256Digest,
    /// The name of the key that had signed it, as the config named it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
    /// The signature of the list of its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// The file name of the component.
    pub component: String,
    /// The size of the component in bytes.
    pub size: u64,
    /// The digests of the files.
    pub files: BTreeMap<String, Sha256Digest>,
    /// The abilities of the plugin.
    pub abilities: PackageAbilities,
}

impl LockedPackage {
    /// Creates the entry of a package.
    pub fn of(id: &str, version: &str, source: &str, package: &PackageFiles, abilities: PackageAbilities) -> Self {
        Self {
            id: id.to_owned(),
            version: version.to_owned(),
            source: source.to_owned(),
            artifact: None,
            digest: package.digest(),
            signed_by: None,
            signature: None,
            component: package.component_name().to_owned(),
            size: package.size(),
            files: package.digests(),
            abilities,
        }
    }

    /// Returns where exactly this plugin can be got from again: an artifact by its digest, since its tag may be given to another.
    ///
    /// # Errors
    ///
    /// [`PackageError::Source`] if the entry names no source.
    pub fn exact_source(&self) -> Result<PackageSource, PackageError> {
        Ok(match (PackageSource::parse(&self.source)?, self.artifact) {
            (PackageSource::Oci(reference), Some(digest)) => PackageSource::Oci(reference.at(digest)),
            (source, _) => source,
        })
    }

    /// Returns the mistake of an entry that a person or another program has changed.
    fn mistake(&self) -> Option<String> {
        let id = self.id.escape_debug();
        let is_id_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !(1..=64).contains(&self.id.len()) || !self.id.bytes().all(is_id_byte) {
            return Some(format!("`{id}` is not an id; use 1 to 64 of a-z, 0-9 and -"));
        }
        if let Some(name) = self.files.keys().find(|name| !is_file_name(name)) {
            return Some(format!("the plugin `{id}` has a file `{}`, which is not a file name", name.escape_debug()));
        }
        if !self.files.contains_key(&self.component) {
            return Some(format!("the plugin `{id}` has no digest of its component"));
        }
        (Sha256Digest::of(checksums(&self.files)) != self.digest)
            .then(|| format!("the digest of the plugin `{id}` is not that of its files"))
    }
}

impl PackageLock {
    /// Reads a lock file; one that does not exist is empty. A link may not lead out of its folder.
    ///
    /// # Errors
    ///
    /// [`PackageError::Lock`].
    pub fn read(path: &Path) -> Result<Self, PackageError> {
        match files::read(path, files::folder_of(path), limits::LOCK_FILE_BYTES) {
            Ok(text) => Self::parse(&text).map_err(|message| PackageError::Lock { path: path.to_owned(), message }),
            Err(FileReadError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(PackageError::Lock { path: path.to_owned(), message: error.to_string() }),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let said = |error: toml::de::Error| error.to_string().trim_end().to_owned();
        let LockFileVersion { version } = toml::from_str(text).map_err(said)?;
        if version != VERSION {
            return Err(format!("it has version {version}, and this program reads version {VERSION}"));
        }
        let LockFile { plugins, .. } = toml::from_str(text).map_err(said)?;
        if plugins.len() > limits::LOCKED_PLUGINS {
            return Err(format!("it has more than {} plugins", limits::LOCKED_PLUGINS));
        }
        let mut ids = BTreeSet::new();
        for package in &plugins {
            if let Some(mistake) = package.mistake() {
                return Err(mistake);
            }
            if !ids.insert(&package.id) {
                return Err(format!("it has the plugin `{}` twice", package.id));
            }
        }
        Ok(Self { packages: plugins.into_iter().map(|package| (package.id.clone(), package)).collect() })
    }

    /// Writes the lock file, with the same text for the same plugins.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if it cannot be written, or has more plugins than it can hold.
    pub fn write(&self, path: &Path) -> Result<(), PackageError> {
        let wrong = |message: String| PackageError::Lock { path: path.to_owned(), message };
        if self.packages.len() > limits::LOCKED_PLUGINS {
            return Err(wrong(format!("it would have more than {} plugins", limits::LOCKED_PLUGINS)));
        }
        let file = LockFile { version: VERSION, plugins: self.packages.values().cloned().collect() };
        let text = toml::to_string(&file).map_err(|error| wrong(error.to_string()))?;
        let text = format!("{HEAD}{text}");
        if text.len() as u64 > limits::LOCK_FILE_BYTES {
            return Err(wrong(format!("it would have more than {} bytes", limits::LOCK_FILE_BYTES)));
        }
        files::replace_shared(path, text.as_bytes()).map_err(PackageError::file("write", path))
    }

    /// Returns the plugin of this id.
    pub fn get(&self, id: &str) -> Option<&LockedPackage> {
        self.packages.get(id)
    }

    /// Adds a plugin, in place of the one that has its id.
    pub fn insert(&mut self, package: LockedPackage) {
        self.packages.insert(package.id.clone(), package);
    }

    /// Removes the plugin of this id, and returns it.
    pub fn remove(&mut self, id: &str) -> Option<LockedPackage> {
        self.packages.remove(id)
    }

    /// Returns the plugins, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = &LockedPackage> {
        self.packages.values()
    }

    /// Returns `true` if no plugin is installed.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::package_abilities::LockedTool;

    fn locked(id: &str) -> LockedPackage {
        let package = PackageFiles::new("c.wasm", b"code".to_vec()).unwrap().with_manifest("id".into()).unwrap();
        let abilities = PackageAbilities {
            kinds: vec!["tool".into()],
            imports: vec!["shelly:plugin/log@0.1.0".into()],
            wants: vec!["kv: \"agent\"".into()],
            tools: Some(vec![LockedTool::of("count", "Counts.", "{}"), LockedTool::of("add", "", "{}")]),
        };
        LockedPackage::of(id, "1.0.0", "oci://a.example/b:1", &package, abilities)
    }

    #[test]
    fn lock_is_read_back_and_always_written_alike() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shelly.lock");
        assert!(PackageLock::read(&path).unwrap().is_empty());
        let mut lock = PackageLock::default();
        lock.insert(locked("zebra"));
        lock.insert(locked("ant"));
        lock.write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let read = PackageLock::read(&path).unwrap();
        assert_eq!(read, lock, "{text}");
        assert!(text.find("\"ant\"").unwrap() < text.find("\"zebra\"").unwrap(), "{text}");
        assert!(
            text.starts_with("# Written by `shelly-host plugin install`") && text.contains("\nversion = 1\n"),
            "{text}"
        );
        read.write(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(lock.remove("ant").map(|package| package.id), Some("ant".into()));
        assert!(lock.get("ant").is_none() && lock.get("zebra").is_some());
    }

    #[test]
    fn lock_that_was_changed_by_hand_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shelly.lock");
        let mut lock = PackageLock::default();
        lock.insert(locked("ant"));
        lock.write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let (code, id) = (Sha256Digest::of("code").to_string(), Sha256Digest::of("id").to_string());
        for (from, to, says) in [
            (code.as_str(), id.as_str(), "the digest of the plugin `ant` is not that of its files"),
            ("version = 1\n", "version = 2\n", "it has version 2, and this program reads version 1"),
            ("id = \"ant\"", "id = \"../ant\"", "`../ant` is not an id"),
            ("id = \"ant\"", "id = \"ant\"\nother = 1", "unknown field `other`"),
            ("component = \"c.wasm\"", "component = \"d.wasm\"", "has no digest of its component"),
            ("\"c.wasm\" = ", "\"../c.wasm\" = ", "has a file `../c.wasm`, which is not a file name"),
        ] {
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let report = PackageLock::read(&path).unwrap_err().report();
            assert!(report.causes[0].contains(says), "{to}: {report}");
        }
        let entry = text.split_once("[[plugin]]").unwrap().1;
        fs::write(&path, format!("{text}\n[[plugin]]{entry}")).unwrap();
        let report = PackageLock::read(&path).unwrap_err().report();
        assert!(report.causes[0].contains("it has the plugin `ant` twice"), "{report}");
    }

    #[test]
    fn lock_beyond_its_bounds_is_neither_read_nor_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shelly.lock");
        let mut lock = PackageLock::default();
        for at in 0..=limits::LOCKED_PLUGINS {
            lock.insert(locked(&format!("p{at}")));
        }
        let report = lock.write(&path).unwrap_err().report();
        assert!(report.causes[0].contains("it would have more than 1024 plugins"), "{report}");
        let file = LockFile { version: VERSION, plugins: lock.packages.into_values().collect() };
        fs::write(&path, toml::to_string(&file).unwrap()).unwrap();
        let report = PackageLock::read(&path).unwrap_err().report();
        assert!(report.causes[0].contains("it has more than 1024 plugins"), "{report}");
        fs::write(&path, "#".repeat(usize::try_from(limits::LOCK_FILE_BYTES).unwrap() + 1)).unwrap();
        let report = PackageLock::read(&path).unwrap_err().report();
        assert!(report.causes[0].contains("larger than 16777216 bytes"), "{report}");
    }
}
