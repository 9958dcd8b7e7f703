//! The files of an agent package: agents and teams of somebody else, with the skills and plugins that they need.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use semver::Version;
use serde::Deserialize;
use shelly_core::{digest::Sha256Digest, limits};

use crate::{
    package_error::PackageError,
    plugin_package_files::{MANIFEST_FILE, PluginPackageFiles, check_size, checksums, is_file_name, read_file},
};

/// The manifest of an agent package: its `agent.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentPackageManifest {
    /// The id, under which a lock file names the package.
    pub id: String,
    /// The version, in the form 1.2.3.
    pub version: String,
    /// The purpose of the agents.
    #[serde(default)]
    pub description: String,
    /// The model for which the agents were made, as its vendor calls it. People see it; it does not choose the model.
    pub model: Option<String>,
    /// The paths of all other files of the package, with `/` between names.
    pub files: Vec<String>,
}

/// The files of an agent package: its manifest, its config of agents and teams, their skills, and plugins.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentPackageFiles {
    /// The source, for messages.
    source: String,
    manifest: AgentPackageManifest,
    /// By path; one of them is the manifest.
    files: BTreeMap<String, Vec<u8>>,
}

/// A plugin that an agent package contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainedPlugin {
    /// The id: the name of its folder.
    pub id: String,
    /// The files.
    pub files: PluginPackageFiles,
    /// The signature of the list of these files. It has not been verified.
    pub signature: Option<String>,
}

/// Writes the paths and sizes.
impl std::fmt::Debug for AgentPackageFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.files.iter().map(|(path, bytes)| (path, bytes.len()))).finish()
    }
}

/// The part of an agent package to which a file belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentPackagePart {
    /// A text for agents or people. The store has it in the folder of the package.
    Text,
    /// A file of a contained plugin. The store has it in the folder of that plugin's own package.
    OfPlugin,
}

impl AgentPackageFiles {
    /// The name of the manifest.
    pub const MANIFEST_FILE: &str = "agent.toml";
    /// The name of the file with the agents and teams, as a config has them.
    pub const CONFIG_FILE: &str = "agents.yaml";
    /// The folder of the skills.
    pub const SKILLS: &str = "skills";
    /// The folder of the plugins.
    const PLUGINS: &str = "plugins";

    /// Creates a package that has only its manifest so far. `of` names the source in messages.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the manifest cannot be used.
    pub fn new(of: &str, manifest: Vec<u8>) -> Result<Self, PackageError> {
        let wrong = |why: String| PackageError::AgentPackage { of: of.to_owned(), why };
        check_size(Self::MANIFEST_FILE, manifest.len() as u64, limits::MANIFEST_BYTES)?;
        let text = std::str::from_utf8(&manifest);
        let text = text.map_err(|_| PackageError::NotText { of: Self::MANIFEST_FILE.to_owned() })?;
        let parsed: AgentPackageManifest = toml::from_str(text)
            .map_err(|error| wrong(format!("{}: {}", Self::MANIFEST_FILE, error.to_string().trim_end())))?;
        if !is_package_id(&parsed.id) {
            return Err(wrong(format!("its id `{}` is not 1 to 64 of a-z, 0-9 and -", parsed.id.escape_debug())));
        }
        if Version::parse(&parsed.version).is_err() {
            return Err(wrong(format!("its version `{}` is not in the form 1.2.3", parsed.version.escape_debug())));
        }
        if parsed.files.len() >= limits::AGENT_PACKAGE_FILES {
            return Err(wrong(format!("it has more than {} files", limits::AGENT_PACKAGE_FILES)));
        }
        // Some file systems do not distinguish case.
        let mut paths = BTreeSet::new();
        for path in &parsed.files {
            if part_of(path).is_none() {
                return Err(wrong(no_part_text(path)));
            }
            if !paths.insert(path.to_ascii_lowercase()) {
                return Err(wrong(format!("`files` has {path} twice")));
            }
        }
        if !parsed.files.iter().any(|path| path == Self::CONFIG_FILE) {
            return Err(wrong(format!("`files` does not name {}, which has its agents", Self::CONFIG_FILE)));
        }
        let files = BTreeMap::from([(Self::MANIFEST_FILE.to_owned(), manifest)]);
        Ok(Self { source: of.to_owned(), manifest: parsed, files })
    }

    /// Reads a package from its folder: the manifest, and the files that it names.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if a file cannot be read, is too large, is a link out of the folder, or cannot be in a package.
    pub fn read(folder: &Path) -> Result<Self, PackageError> {
        let manifest = read_file(folder, Self::MANIFEST_FILE, limits::MANIFEST_BYTES)?;
        let mut package = Self::new(&folder.display().to_string(), manifest)?;
        for path in package.manifest.files.clone() {
            let bytes = read_file(folder, &path, max_file_bytes(&path))?;
            package.add(&path, bytes)?;
        }
        Ok(package)
    }

    /// Adds a file that the manifest names.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the manifest does not name it, it is too large or not text, or the package becomes too large.
    pub fn add(&mut self, path: &str, bytes: Vec<u8>) -> Result<(), PackageError> {
        if !self.manifest.files.iter().any(|named| named == path) {
            let why = format!("{} does not name the file {}", Self::MANIFEST_FILE, path.escape_debug());
            return Err(self.wrong(why));
        }
        check_size(path, bytes.len() as u64, max_file_bytes(path))?;
        if !path.ends_with(".wasm") && std::str::from_utf8(&bytes).is_err() {
            return Err(PackageError::NotText { of: path.to_owned() });
        }
        check_size(&self.source, self.size() + bytes.len() as u64, limits::AGENT_PACKAGE_BYTES)?;
        self.files.insert(path.to_owned(), bytes);
        Ok(())
    }

    /// Returns the maximum bytes that the file with this path may have, given the files that were added so far.
    pub fn room_for(&self, path: &str) -> u64 {
        max_file_bytes(path).min(limits::AGENT_PACKAGE_BYTES.saturating_sub(self.size()))
    }

    fn wrong(&self, why: String) -> PackageError {
        PackageError::AgentPackage { of: self.source.clone(), why }
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &AgentPackageManifest {
        &self.manifest
    }

    /// Returns the text of the agents and teams; empty if it has not been added.
    pub fn config(&self) -> &str {
        self.files.get(Self::CONFIG_FILE).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
    }

    /// Returns the texts for agents and people by their paths: everything but the plugins.
    pub fn texts(&self) -> BTreeMap<&str, &str> {
        let texts = self.files.iter().filter(|(path, _)| !is_of_plugin(path));
        texts.filter_map(|(path, bytes)| Some((path.as_str(), std::str::from_utf8(bytes).ok()?))).collect()
    }

    /// Returns all files by their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Returns the contained plugins, sorted by id.
    ///
    /// # Errors
    ///
    /// [`PackageError`] if the folder of a plugin has no `plugin.toml`, or not exactly one component.
    pub fn plugins(&self) -> Result<Vec<ContainedPlugin>, PackageError> {
        let mut folders: BTreeMap<&str, BTreeMap<&str, &[u8]>> = BTreeMap::new();
        for (path, bytes) in self.iter() {
            if let Some((id, name)) = plugin_file(path) {
                folders.entry(id).or_default().insert(name, bytes);
            }
        }
        folders.into_iter().map(|(id, files)| self.plugin(id, files)).collect()
    }

    fn plugin(&self, id: &str, mut files: BTreeMap<&str, &[u8]>) -> Result<ContainedPlugin, PackageError> {
        let folder = format!("{}/{id}", Self::PLUGINS);
        let components: Vec<_> = files.keys().copied().filter(|name| name.ends_with(".wasm")).collect();
        let [component] = components[..] else {
            return Err(self.wrong(format!("{folder} has {} components in place of one", components.len())));
        };
        let signature = files.remove(PluginPackageFiles::SIGNATURE_FILE);
        let code = files.remove(component).unwrap_or_default();
        let Some(manifest) = files.remove(MANIFEST_FILE) else {
            return Err(self.wrong(format!("{folder} has no {MANIFEST_FILE}; name it in `files`")));
        };
        let mut package = PluginPackageFiles::new(component, code.to_vec())?.with_manifest(manifest.to_vec())?;
        if let Some(wit) = files.remove(package.wit_name().as_str()) {
            package = package.with_wit(wit.to_vec())?;
        }
        if let Some(other) = files.keys().next() {
            return Err(self.wrong(format!("{folder}/{other} is not the WIT file of its component {component}")));
        }
        let signature = signature.and_then(|text| std::str::from_utf8(text).ok()).map(str::to_owned);
        Ok(ContainedPlugin { id: id.to_owned(), files: package, signature })
    }

    /// Returns the digests of all files by their paths.
    pub fn digests(&self) -> BTreeMap<String, Sha256Digest> {
        self.files.iter().map(|(path, bytes)| (path.clone(), Sha256Digest::of(bytes))).collect()
    }

    /// Returns the digest of the package: of the list of its files and their digests.
    pub fn digest(&self) -> Sha256Digest {
        Sha256Digest::of(checksums(&self.digests()))
    }

    /// Returns the size of all files together in bytes.
    pub fn size(&self) -> u64 {
        self.files.values().map(|bytes| bytes.len() as u64).sum()
    }
}

/// Returns `true` for the id of a plugin or an agent package.
pub(crate) fn is_package_id(id: &str) -> bool {
    let is_id_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=64).contains(&id.len()) && id.bytes().all(is_id_byte)
}

/// Returns `true` if a file with this path can be in an agent package, its manifest included.
pub(crate) fn is_package_path(path: &str) -> bool {
    path == AgentPackageFiles::MANIFEST_FILE || part_of(path).is_some()
}

/// Returns `true` for the path of a file of a contained plugin.
pub(crate) fn is_of_plugin(path: &str) -> bool {
    part_of(path) == Some(AgentPackagePart::OfPlugin)
}

/// Splits the path of a file of a contained plugin into the id of the plugin and the name of the file.
pub(crate) fn plugin_file(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix(AgentPackageFiles::PLUGINS)?.strip_prefix('/')?.split_once('/')
}

/// Returns the part to which the file with this path belongs; `None` if no file of a package may have the path. The manifest
/// is of neither part.
fn part_of(path: &str) -> Option<AgentPackagePart> {
    let names: Vec<_> = path.split('/').collect();
    if names.len() > limits::AGENT_PACKAGE_PATH_NAMES || !names.iter().all(|name| is_file_name(name)) {
        return None;
    }
    match names[..] {
        [AgentPackageFiles::CONFIG_FILE | "README.md" | "LICENSE"] => Some(AgentPackagePart::Text),
        [AgentPackageFiles::SKILLS, _, _, ..] => Some(AgentPackagePart::Text),
        [AgentPackageFiles::PLUGINS, id, file] if is_package_id(id) => {
            let is_fixed = file == MANIFEST_FILE || file == PluginPackageFiles::SIGNATURE_FILE;
            (is_fixed || file.ends_with(".wasm") || file.ends_with(".wit")).then_some(AgentPackagePart::OfPlugin)
        }
        _ => None,
    }
}

/// Returns the message about a path that no file of an agent package may have.
fn no_part_text(path: &str) -> String {
    let shown: String = path.chars().take(limits::PACKAGE_FILE_NAME_CHARS).collect();
    format!(
        "`files` names `{}`, which cannot be in an agent package: it has agents.yaml, skills/NAME/…, plugins/ID/ with \
         plugin.toml, *.wasm, *.wit and SHA256SUMS.minisig, README.md and LICENSE, with names of letters, digits, `.`, `_` and \
         `-`",
        shown.escape_debug()
    )
}

/// Returns the maximum bytes of the file with this path.
pub(crate) fn max_file_bytes(path: &str) -> u64 {
    match path {
        AgentPackageFiles::CONFIG_FILE => limits::CONFIG_BYTES,
        AgentPackageFiles::MANIFEST_FILE => limits::MANIFEST_BYTES,
        _ => match plugin_file(path) {
            None => limits::AGENT_PACKAGE_TEXT_BYTES,
            Some((_, MANIFEST_FILE)) => limits::MANIFEST_BYTES,
            Some((_, PluginPackageFiles::SIGNATURE_FILE)) => limits::PLUGIN_SIGNATURE_BYTES,
            Some((_, name)) if name.ends_with(".wasm") => limits::COMPONENT_BYTES,
            Some(_) => limits::PACKAGE_DOCS_BYTES as u64,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn manifest(files: &[&str]) -> Vec<u8> {
        // JSON and TOML escape alike.
        let named: Vec<_> = files.iter().map(|path| serde_json::to_string(path).unwrap()).collect();
        format!("id = \"reviewer\"\nversion = \"1.0.0\"\nfiles = [{}]\n", named.join(", ")).into_bytes()
    }

    fn new(files: &[&str]) -> Result<AgentPackageFiles, String> {
        AgentPackageFiles::new("here", manifest(files)).map_err(|error| error.report().to_string())
    }

    const FILES: [&str; 5] =
        ["agents.yaml", "skills/review/SKILL.md", "plugins/dice/plugin.toml", "plugins/dice/d.wasm", "README.md"];

    #[test]
    fn package_of_a_folder_has_the_named_files() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("agent.toml"), manifest(&FILES)).unwrap();
        for path in FILES.iter().chain(&["notes.txt", "plugins/dice/d.wit"]) {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        let package = AgentPackageFiles::read(folder.path()).unwrap();
        let paths: Vec<_> = package.digests().into_keys().collect();
        let expected = [
            "README.md",
            "agent.toml",
            "agents.yaml",
            "plugins/dice/d.wasm",
            "plugins/dice/plugin.toml",
            "skills/review/SKILL.md",
        ];
        assert_eq!(paths, expected, "what the manifest does not name stays out");
        assert_eq!(
            package.texts().into_keys().collect::<Vec<_>>(),
            ["README.md", "agent.toml", "agents.yaml", "skills/review/SKILL.md"]
        );
        let plugins = package.plugins().unwrap();
        assert_eq!((plugins.len(), plugins[0].id.as_str(), plugins[0].files.size()), (1, "dice", 4));
        assert_eq!((package.config(), plugins[0].files.wit()), ("text", None));
        assert_eq!(package.size(), 5 * 4 + manifest(&FILES).len() as u64);
        let before = package.digest();
        fs::write(folder.path().join("skills/review/SKILL.md"), "other").unwrap();
        assert_ne!(AgentPackageFiles::read(folder.path()).unwrap().digest(), before);
        fs::remove_file(folder.path().join("README.md")).unwrap();
        let missing = AgentPackageFiles::read(folder.path()).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read") && missing.ends_with("README.md"), "{missing}");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("/etc/hostname", folder.path().join("README.md")).unwrap();
            let error = AgentPackageFiles::read(folder.path()).unwrap_err();
            assert!(matches!(error, PackageError::LeadsOut { .. } | PackageError::File { .. }), "{error}");
        }
    }

    #[test]
    fn path_that_no_package_has_is_refused() {
        let long = format!("skills/{}", ["x"; limits::AGENT_PACKAGE_PATH_NAMES].join("/"));
        for path in [
            "../agents.yaml",
            "skills/../../x",
            "/etc/passwd",
            "skills/x",
            "skills/.git/config",
            "skills/x/\u{1b}[2J",
            "skills\\x\\SKILL.md",
            "plugins/dice/run.sh",
            "plugins/Dice/d.wasm",
            "plugins/dice/src/d.wasm",
            "agent.toml",
            "other.yaml",
            "",
            long.as_str(),
        ] {
            let said = new(&["agents.yaml", path]).unwrap_err();
            assert!(said.contains("cannot be in an agent package") && !said.contains('\u{1b}'), "{path}: {said}");
        }
        let twice = new(&["agents.yaml", "skills/a/SKILL.md", "skills/A/SKILL.md"]).unwrap_err();
        assert!(twice.contains("`files` has skills/A/SKILL.md twice"), "{twice}");
        assert!(new(&["README.md"]).unwrap_err().contains("does not name agents.yaml"));
    }

    #[test]
    fn manifest_with_a_mistake_is_refused() {
        let files = "files = [\"agents.yaml\"]\n";
        for (text, says) in [
            (format!("id = \"A b\"\nversion = \"1.0.0\"\n{files}"), "its id `A b` is not 1 to 64 of a-z"),
            (format!("id = \"a\"\nversion = \"1\"\n{files}"), "its version `1` is not in the form 1.2.3"),
            (format!("id = \"a\"\nversion = \"1.0.0\"\nrun = \"x\"\n{files}"), "unknown field `run`"),
            ("id = ".to_owned(), "agent.toml: TOML parse error"),
        ] {
            let report = AgentPackageFiles::new("here", text.into_bytes()).unwrap_err().report();
            assert!(report.to_string().contains(says), "{report}");
        }
    }

    #[test]
    fn package_beyond_a_bound_is_refused() {
        let many: Vec<_> = (0..limits::AGENT_PACKAGE_FILES).map(|at| format!("skills/s/{at}")).collect();
        let many: Vec<_> = many.iter().map(String::as_str).collect();
        assert!(new(&many).unwrap_err().contains("it has more than 256 files"));
        let mut package = new(&["agents.yaml", "plugins/a/a.wasm", "plugins/b/b.wasm", "skills/s/SKILL.md"]).unwrap();
        let text = vec![b'x'; usize::try_from(limits::AGENT_PACKAGE_TEXT_BYTES).unwrap() + 1];
        let error = package.add("skills/s/SKILL.md", text).unwrap_err();
        assert_eq!(error.to_string(), "skills/s/SKILL.md has more than 262144 bytes");
        let half = usize::try_from(limits::AGENT_PACKAGE_BYTES / 2).unwrap();
        package.add("plugins/a/a.wasm", vec![0; half]).unwrap();
        let error = package.add("plugins/b/b.wasm", vec![0; half]).unwrap_err();
        assert_eq!(error.to_string(), "here has more than 268435456 bytes");
        let error = package.add("README.md", Vec::new()).unwrap_err().report();
        assert_eq!(error.causes, ["agent.toml does not name the file README.md"]);
        assert!(matches!(package.add("agents.yaml", vec![0xff]), Err(PackageError::NotText { .. })));
    }

    #[test]
    fn contained_plugin_has_a_manifest_and_one_component() {
        let plugins = |paths: &[&str]| {
            let mut package = new(&[&["agents.yaml"][..], paths].concat()).unwrap();
            paths.iter().for_each(|path| package.add(path, b"x".to_vec()).unwrap());
            package.plugins().map_err(|error| error.report().causes.remove(0))
        };
        let toml = "plugins/p/plugin.toml";
        for (paths, says) in [
            (&[toml][..], "plugins/p has 0 components in place of one"),
            (&[toml, "plugins/p/a.wasm", "plugins/p/b.wasm"], "plugins/p has 2 components in place of one"),
            (&["plugins/p/a.wasm"], "plugins/p has no plugin.toml; name it in `files`"),
            (
                &[toml, "plugins/p/a.wasm", "plugins/p/b.wit"],
                "plugins/p/b.wit is not the WIT file of its component a.wasm",
            ),
        ] {
            assert_eq!(plugins(paths), Err(says.to_owned()));
        }
        let found = plugins(&[toml, "plugins/p/a.wasm", "plugins/p/a.wit", "plugins/p/SHA256SUMS.minisig"]).unwrap();
        assert_eq!((found[0].files.wit(), found[0].signature.as_deref()), (Some("x"), Some("x")));
    }
}
