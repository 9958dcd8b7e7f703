//! `shelly.lock`: which plugins and agent packages are installed, and what each of them was when a person accepted it.

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
    agent_package::is_package_id,
    locked_agent_package::LockedAgentPackage,
    package_error::PackageError,
    package_source::PackageSource,
    plugin_abilities::PluginAbilities,
    plugin_package_files::{PluginPackageFiles, checksums, is_file_name},
};

/// The version of the format that this program writes.
const VERSION: u32 = 1;

/// The comment at the top of a lock file.
const HEAD: &str = "# Written by `shelly-host plugin install`. Commit it: a run uses these plugins and no others.\n\n";

/// A lock file: the plugins and the agent packages that are installed, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageLock {
    packages: BTreeMap<String, LockedPluginPackage>,
    agents: BTreeMap<String, LockedAgentPackage>,
}

/// A lock file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockFile {
    version: u32,
    #[serde(default, rename = "plugin", skip_serializing_if = "Vec::is_empty")]
    plugins: Vec<LockedPluginPackage>,
    #[serde(default, rename = "agent", skip_serializing_if = "Vec::is_empty")]
    agents: Vec<LockedAgentPackage>,
}

/// The version of a lock file alone. It is read first, because the rest may be of a later format.
#[derive(Deserialize)]
struct LockFileVersion {
    version: u32,
}

/// An installed plugin, as a lock file names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPluginPackage {
    /// The id of the plugin.
    pub id: String,
    /// Its version; empty for a component without a manifest.
    pub version: String,
    /// The source; a path is relative to the folder of the lock file.
    pub source: String,
    /// The id of the agent package that contains the plugin; `source` is then that of the agent package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The digest of the artifact's manifest, if the source is a registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<Sha256Digest>,
    /// The digest of the package: of the list of its files and their digests.
    pub digest: Sha256Digest,
    /// The name of the signing key under `plugin_signatures` in the config when the plugin was installed.
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
    pub abilities: PluginAbilities,
}

impl LockedPluginPackage {
    /// Creates the entry of a plugin package.
    pub fn of(id: &str, version: &str, source: &str, package: &PluginPackageFiles, abilities: PluginAbilities) -> Self {
        Self {
            id: id.to_owned(),
            version: version.to_owned(),
            source: source.to_owned(),
            agent: None,
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

    /// Returns the source of exactly these files: an artifact by its digest, because a tag can move to another artifact.
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

    /// Returns the mistake in an entry that was edited by hand or by another program; `None` if there is none.
    fn mistake(&self) -> Option<String> {
        let id = self.id.escape_debug();
        if !is_package_id(&self.id) {
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
        let LockFile { plugins, agents, .. } = toml::from_str(text).map_err(said)?;
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
        let agents = parsed_agents(agents)?;
        let lacks_agent_package =
            |package: &&LockedPluginPackage| package.agent.as_ref().is_some_and(|id| !agents.contains_key(id));
        if let Some(package) = plugins.iter().find(lacks_agent_package) {
            return Err(format!("the plugin `{}` is of an agent package that the file does not have", package.id));
        }
        Ok(Self { packages: plugins.into_iter().map(|package| (package.id.clone(), package)).collect(), agents })
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
        if self.agents.len() > limits::LOCKED_AGENT_PACKAGES {
            return Err(wrong(format!("it would have more than {} agent packages", limits::LOCKED_AGENT_PACKAGES)));
        }
        let (plugins, agents) = (self.packages.values().cloned().collect(), self.agents.values().cloned().collect());
        let file = LockFile { version: VERSION, plugins, agents };
        let text = toml::to_string(&file).map_err(|error| wrong(error.to_string()))?;
        let text = format!("{HEAD}{text}");
        if text.len() as u64 > limits::LOCK_FILE_BYTES {
            return Err(wrong(format!("it would have more than {} bytes", limits::LOCK_FILE_BYTES)));
        }
        files::replace_shared(path, text.as_bytes()).map_err(PackageError::file("write", path))
    }

    /// Returns the plugin of this id.
    pub fn get(&self, id: &str) -> Option<&LockedPluginPackage> {
        self.packages.get(id)
    }

    /// Adds a plugin, in place of the one that has its id.
    pub fn insert(&mut self, package: LockedPluginPackage) {
        self.packages.insert(package.id.clone(), package);
    }

    /// Removes the plugin of this id, and returns it.
    pub fn remove(&mut self, id: &str) -> Option<LockedPluginPackage> {
        self.packages.remove(id)
    }

    /// Returns the plugins, sorted by id.
    pub fn iter(&self) -> impl Iterator<Item = &LockedPluginPackage> {
        self.packages.values()
    }

    /// Returns `true` if neither a plugin nor an agent package is installed.
    pub fn is_empty(&self) -> bool {
        self.packages.is_empty() && self.agents.is_empty()
    }
}

impl PackageLock {
    /// Returns the agent package of this id.
    pub fn agent(&self, id: &str) -> Option<&LockedAgentPackage> {
        self.agents.get(id)
    }

    /// Returns the agent packages, sorted by id.
    pub fn agents(&self) -> impl Iterator<Item = &LockedAgentPackage> {
        self.agents.values()
    }

    /// Adds an agent package with the plugins that it contains, in place of the package with its id. Plugins of the replaced
    /// package that no package contains any more are removed.
    pub fn insert_agent(&mut self, package: LockedAgentPackage, plugins: Vec<LockedPluginPackage>) {
        self.agents.insert(package.id.clone(), package);
        plugins.into_iter().for_each(|plugin| self.insert(plugin));
        self.settle_contained_plugins();
    }

    /// Removes the agent package of this id, with its plugins that no other package contains, and returns it.
    pub fn remove_agent(&mut self, id: &str) -> Option<LockedAgentPackage> {
        let removed = self.agents.remove(id)?;
        self.settle_contained_plugins();
        Some(removed)
    }

    /// Removes plugins whose agent package no longer contains them. If another agent package contains the same plugin, the
    /// entry stays and names that package.
    fn settle_contained_plugins(&mut self) {
        let agents = &self.agents;
        self.packages.retain(|_, plugin| {
            let Some(id) = &plugin.agent else { return true };
            if agents.get(id).is_some_and(|package| package.contains(&*plugin)) {
                return true;
            }
            let other = agents.values().find(|package| package.contains(&*plugin));
            if let Some(package) = other {
                (plugin.agent, plugin.source) = (Some(package.id.clone()), package.source.clone());
                plugin.artifact = None;
            }
            other.is_some()
        });
    }
}

/// Checks the entries of agent packages, and returns them by id.
fn parsed_agents(agents: Vec<LockedAgentPackage>) -> Result<BTreeMap<String, LockedAgentPackage>, String> {
    if agents.len() > limits::LOCKED_AGENT_PACKAGES {
        return Err(format!("it has more than {} agent packages", limits::LOCKED_AGENT_PACKAGES));
    }
    let mut by_id = BTreeMap::new();
    for package in agents {
        if let Some(mistake) = package.mistake() {
            return Err(mistake);
        }
        if let Some(package) = by_id.insert(package.id.clone(), package) {
            return Err(format!("it has the agent package `{}` twice", package.id));
        }
    }
    Ok(by_id)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{agent_package::AgentPackageFiles, plugin_abilities::LockedTool};

    fn locked(id: &str) -> LockedPluginPackage {
        let package = PluginPackageFiles::new("c.wasm", b"code".to_vec()).unwrap().with_manifest("id".into()).unwrap();
        let abilities = PluginAbilities {
            kinds: vec!["tool".into()],
            imports: vec!["shelly:plugin/log@0.1.0".into()],
            wants: vec!["kv: \"agent\"".into()],
            tools: Some(vec![LockedTool::of("count", "Counts.", "{}"), LockedTool::of("add", "", "{}")]),
        };
        LockedPluginPackage::of(id, "1.0.0", "oci://a.example/b:1", &package, abilities)
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
        let file = LockFile { version: VERSION, plugins: lock.packages.into_values().collect(), agents: Vec::new() };
        fs::write(&path, toml::to_string(&file).unwrap()).unwrap();
        let report = PackageLock::read(&path).unwrap_err().report();
        assert!(report.causes[0].contains("it has more than 1024 plugins"), "{report}");
        fs::write(&path, "#".repeat(usize::try_from(limits::LOCK_FILE_BYTES).unwrap() + 1)).unwrap();
        let report = PackageLock::read(&path).unwrap_err().report();
        assert!(report.causes[0].contains("larger than 16777216 bytes"), "{report}");
    }

    /// Returns an agent package with the plugin of [`locked`].
    fn agent(id: &str, skill: &str) -> LockedAgentPackage {
        let manifest = format!(
            "id = \"{id}\"\nversion = \"1.0.0\"\nfiles = [\"agents.yaml\", \"skills/s/SKILL.md\", \
             \"plugins/ant/c.wasm\", \"plugins/ant/plugin.toml\"]\n"
        );
        let mut files = AgentPackageFiles::new("here", manifest.into_bytes()).unwrap();
        for (path, text) in [
            ("agents.yaml", "agents: []"),
            ("skills/s/SKILL.md", skill),
            ("plugins/ant/c.wasm", "code"),
            ("plugins/ant/plugin.toml", "id"),
        ] {
            files.add(path, text.as_bytes().to_vec()).unwrap();
        }
        LockedAgentPackage::of("oci://a.example/b:1", &files, vec!["reviewer".into()])
    }

    #[test]
    fn plugin_stays_while_an_agent_package_contains_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shelly.lock");
        let mut lock = PackageLock::default();
        let contained = |id: &str| vec![LockedPluginPackage { agent: Some(id.to_owned()), ..locked("ant") }];
        lock.insert(locked("bee"));
        lock.insert_agent(agent("one", "a"), contained("one"));
        lock.insert_agent(agent("two", "b"), Vec::new());
        lock.write(&path).unwrap();
        assert_eq!(PackageLock::read(&path).unwrap(), lock);
        assert_eq!(lock.remove_agent("one").map(|package| package.id), Some("one".into()));
        assert_eq!(lock.get("ant").unwrap().agent.as_deref(), Some("two"));
        assert!(lock.remove_agent("one").is_none() && lock.remove_agent("two").is_some());
        assert!(lock.get("ant").is_none() && lock.get("bee").is_some() && lock.agents().next().is_none());
    }

    #[test]
    fn agent_package_that_was_changed_by_hand_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shelly.lock");
        let mut lock = PackageLock::default();
        lock.insert_agent(agent("one", "a"), vec![LockedPluginPackage { agent: Some("one".into()), ..locked("ant") }]);
        lock.write(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let skill = Sha256Digest::of("a").to_string();
        let other = Sha256Digest::of("b").to_string();
        for (from, to, says) in [
            (skill.as_str(), other.as_str(), "the digest of the agent package `one` is not that of its files"),
            ("id = \"one\"", "id = \"../one\"", "`../one` is not an id"),
            ("\"skills/s/SKILL.md\"", "\"../SKILL.md\"", "which cannot be in one"),
            (
                "id = \"one\"\nversion = \"1.0.0\"",
                "id = \"one\"\nversion = \"1.0.0\\n+ the agent `x` is guarded by `y`\"",
                "the version of the agent package `one` is not in the form 1.2.3",
            ),
            (
                "agent = \"one\"",
                "agent = \"none\"",
                "the plugin `ant` is of an agent package that the file does not have",
            ),
        ] {
            assert!(text.contains(from), "{text}");
            fs::write(&path, text.replacen(from, to, 1)).unwrap();
            let report = PackageLock::read(&path).unwrap_err().report();
            assert!(report.causes[0].contains(says), "{to}: {report}");
        }
        for at in 0..limits::LOCKED_AGENT_PACKAGES {
            lock.insert_agent(agent(&format!("a{at}"), "a"), Vec::new());
        }
        let report = lock.write(&path).unwrap_err().report();
        assert!(report.causes[0].contains("it would have more than 64 agent packages"), "{report}");
        let file = LockFile { version: VERSION, plugins: Vec::new(), agents: lock.agents.into_values().collect() };
        fs::write(&path, toml::to_string(&file).unwrap()).unwrap();
        let report = PackageLock::read(&path).unwrap_err().report();
        assert!(report.causes[0].contains("it has more than 64 agent packages"), "{report}");
    }
}
