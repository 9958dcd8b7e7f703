//! The plugins of some directories: what is there, what is wrong with it. Nothing is compiled here.

use std::{
    collections::HashSet,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use indexmap::IndexMap;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{
    anatomy::Anatomy,
    error::PluginError,
    imports,
    manifest::{self, Manifest},
};
use crate::{
    error::{ErrorKind, Report, why_unreadable},
    limits,
};

/// A plugin folder that holds what it says: manifest and component agree, and this host can run it.
#[derive(Debug, Clone)]
pub struct PluginPackage {
    /// What it says of itself.
    pub manifest: Manifest,
    /// What its component exports and imports.
    pub anatomy: Anatomy,
    /// The folder.
    pub folder: PathBuf,
    /// Bytes of the component.
    pub size: u64,
    /// SHA-256 of the component.
    pub digest: Digest,
}

/// SHA-256 of a component.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Its 32 bytes.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PluginPackage {
    /// Reads a plugin folder and checks that it can be run here.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub fn read(folder: &Path) -> Result<Self, PluginError> {
        let manifest = Manifest::read(folder)?;
        let bytes = read_bounded(&folder.join(&manifest.component), limits::COMPONENT_BYTES)?;
        let anatomy = Anatomy::read(&bytes)
            .map_err(|source| PluginError::Component { path: folder.join(&manifest.component), source })?;
        check(&manifest, &anatomy)?;
        Ok(Self { manifest, anatomy, folder: folder.into(), size: bytes.len() as u64, digest: Digest::of(&bytes) })
    }

    /// Reads a component without a folder: its manifest is made of what it exports and imports.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub fn read_file(path: &Path) -> Result<Self, PluginError> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if let Ok(package) = Self::read(folder)
            && path.file_name() == Some(package.manifest.component.as_ref())
        {
            return Ok(package);
        }
        let bytes = read_bounded(path, limits::COMPONENT_BYTES)?;
        let anatomy = Anatomy::read(&bytes).map_err(|source| PluginError::Component { path: path.into(), source })?;
        let name = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let manifest = Manifest::of_anatomy(name(path.file_stem()), name(path.file_name()), &anatomy);
        check(&manifest, &anatomy)?;
        Ok(Self { manifest, anatomy, folder: folder.into(), size: bytes.len() as u64, digest: Digest::of(&bytes) })
    }

    /// Its digest as it is written down and compared: `sha256:` and the digits.
    pub fn named_digest(&self) -> String {
        format!("sha256:{}", self.digest)
    }

    /// The component's bytes, if they are still those that were checked.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, PluginError> {
        let path = self.folder.join(&self.manifest.component);
        let bytes = read_bounded(&path, limits::COMPONENT_BYTES)?;
        if Digest::of(&bytes) != self.digest {
            let source = io::Error::other("it was changed after it was checked; run again");
            return Err(PluginError::Unreadable { path, source });
        }
        Ok(bytes)
    }
}

/// Reads a file of at most `most` bytes. What is no file, such as a pipe that nobody writes to, is not opened.
pub(crate) fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, PluginError> {
    let unreadable = |source| PluginError::Unreadable { path: path.into(), source };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(io::Error::other("it is not a file")));
    }
    if metadata.len() > most {
        return Err(PluginError::TooLarge { path: path.into(), size: metadata.len(), most });
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    let file = fs::File::open(path).map_err(unreadable)?;
    file.take(most).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

/// Manifest and component agree, and this host has what they need.
fn check(manifest: &Manifest, anatomy: &Anatomy) -> Result<(), PluginError> {
    let id = || manifest.id.clone();
    if manifest.kinds != anatomy.kinds {
        let list =
            |kinds: &[super::Kind]| kinds.iter().map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(", ");
        let (said, exported) = (list(&manifest.kinds), list(&anatomy.kinds));
        return Err(PluginError::KindsDiffer { id: id(), said, exported });
    }
    if let Some(kind) = manifest.kinds.iter().find(|kind| !kind.is_supported()) {
        return Err(PluginError::KindUnsupported { id: id(), kind: *kind });
    }
    for import in &anatomy.imports {
        match imports::need_of_import(import) {
            None => return Err(PluginError::ImportUnsupported { id: id(), import: import.clone() }),
            Some(imports::Need::Kind(kind)) if !manifest.kinds.contains(&kind) => {
                return Err(PluginError::OfAnotherKind { id: id(), import: import.clone(), kinds: vec![kind] });
            }
            Some(imports::Need::Chat) if !imports::reads_chat(&manifest.kinds) => {
                let kinds = imports::CHAT_KINDS.to_vec();
                return Err(PluginError::OfAnotherKind { id: id(), import: import.clone(), kinds });
            }
            Some(need) if !need.is_asked_for_by(manifest) => {
                return Err(PluginError::NotAskedFor { id: id(), import: import.clone(), line: need.manifest_line() });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The plugins of some directories, by id.
#[derive(Debug, Default)]
pub struct PluginCatalog {
    plugins: IndexMap<String, Result<Arc<PluginPackage>, PluginError>>,
    /// Where plugins lie that come with the host, as they are.
    shipped: Vec<PathBuf>,
}

/// Where plugins are looked for.
#[derive(Debug, Clone, Default)]
pub struct PluginDirs {
    /// What a person names for this run: all that lies there is there, and what is wrong with them is told.
    pub named: Vec<PathBuf>,
    /// What need not be there: a plugin that is asked for by its id, and is nowhere else, is the first one here. The
    /// project's own folder comes before them.
    pub standard: Vec<PathBuf>,
    /// Of those, or of the named ones, where plugins lie that come with the host: what they ask for they may be given
    /// unasked.
    pub shipped: Vec<PathBuf>,
}

impl<T: AsRef<[PathBuf]>> From<T> for PluginDirs {
    /// Those that are named, and no others.
    fn from(named: T) -> Self {
        Self { named: named.as_ref().to_vec(), ..Self::default() }
    }
}

impl PluginCatalog {
    /// Reads directories of plugin folders. A folder without a `plugin.toml` is passed over; one bad plugin is kept as
    /// such under its id (or its folder's name), and stops only who needs it.
    ///
    /// # Errors
    ///
    /// A [`Report`] for a directory that is no directory of plugins at all.
    pub fn scan(directories: &[PathBuf]) -> Result<Self, Report> {
        let mut catalog = Self::default();
        let mut seen = HashSet::new();
        for directory in directories {
            for folder in plugin_folders(directory)? {
                // A directory that is named twice, by config and command line, holds no plugin twice.
                if seen.insert(folder.canonicalize().unwrap_or_else(|_| folder.clone())) {
                    catalog.add(&folder);
                }
            }
        }
        Ok(catalog)
    }

    /// Adds those of these ids that are not there yet, each from the first of these directories that has a folder of its
    /// name.
    pub fn add_by_id<'a>(&mut self, directories: &[PathBuf], ids: impl IntoIterator<Item = &'a str>) {
        for id in ids {
            // It stands in a config: it must not lead out of the directory.
            let is_name = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if !is_name || self.plugins.contains_key(id) {
                continue;
            }
            let folders = directories.iter().map(|directory| directory.join(id));
            if let Some(folder) = folders.into_iter().find(|folder| folder.join(manifest::FILE).is_file()) {
                self.add(&folder);
            }
        }
    }

    /// Adds all that lies in these directories, as far as they are there, and nothing that has the id of one that is there.
    pub fn add_all(&mut self, directories: &[PathBuf]) {
        for folder in directories.iter().filter_map(|directory| plugin_folders(directory).ok()).flatten() {
            let id = Manifest::read(&folder).map(|manifest| manifest.id);
            if !id.is_ok_and(|id| self.plugins.contains_key(&id)) {
                self.add(&folder);
            }
        }
    }

    /// The ids under which [`add_by_id`](Self::add_by_id) finds something in these directories, as far as they are there.
    pub fn ids_in(directories: &[PathBuf]) -> Vec<String> {
        let folders = directories.iter().filter_map(|directory| plugin_folders(directory).ok()).flatten();
        folders.filter_map(|folder| Some(folder.file_name()?.to_str()?.to_owned())).collect()
    }

    /// Those that lie in these directories come with the host.
    pub fn mark_shipped(&mut self, directories: &[PathBuf]) {
        self.shipped = directories.iter().filter_map(|directory| directory.canonicalize().ok()).collect();
    }

    /// Whether a plugin comes with the host.
    pub fn is_shipped(&self, package: &PluginPackage) -> bool {
        let folder = package.folder.canonicalize().ok();
        folder.as_deref().and_then(Path::parent).is_some_and(|parent| self.shipped.iter().any(|there| there == parent))
    }

    fn add(&mut self, folder: &Path) {
        let read = PluginPackage::read(folder);
        let id = match &read {
            Ok(package) => package.manifest.id.clone(),
            // What cannot be read has no id: its folder names it.
            Err(_) => match Manifest::read(folder) {
                Ok(manifest) => manifest.id,
                Err(_) => {
                    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    // It must not take the name of one that is known.
                    if self.plugins.contains_key(&name) { folder.display().to_string() } else { name }
                }
            },
        };
        let plugin = match self.plugins.get(&id) {
            Some(Ok(first)) => {
                Err(PluginError::SameId { id: id.clone(), first: first.folder.clone(), second: folder.into() })
            }
            Some(Err(_)) => return,
            None => read.map(Arc::new),
        };
        self.plugins.insert(id, plugin);
    }

    /// The plugin of this id; none if there is none.
    pub fn get(&self, id: &str) -> Option<Result<&Arc<PluginPackage>, &PluginError>> {
        self.plugins.get(id).map(Result::as_ref)
    }

    /// All of them in the order of discovery, the bad ones too.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Result<&Arc<PluginPackage>, &PluginError>)> {
        self.plugins.iter().map(|(id, plugin)| (id.as_str(), plugin.as_ref()))
    }
}

fn plugin_folders(directory: &Path) -> Result<Vec<PathBuf>, Report> {
    let usage = |message: String| Report::new(ErrorKind::Usage, message);
    const HINT: &str =
        "name the directory that holds the plugins' folders; each of those holds a plugin.toml and a component";
    let unreadable = |error: io::Error| {
        usage(format!("cannot read the plugin directory {}", directory.display()))
            .cause(why_unreadable(&error))
            .hint("correct --plugins, or `plugin_dirs` in the config")
    };
    if directory.is_file() {
        return Err(usage(format!("{} is a file, not a plugin directory", directory.display())).hint(HINT));
    }
    if directory.join(manifest::FILE).is_file() {
        let parent = directory.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
        let hint =
            parent.map_or(HINT.to_owned(), |parent| format!("name the directory around it: {}", parent.display()));
        return Err(usage(format!("{} is itself a plugin folder", directory.display())).hint(hint));
    }
    let mut folders = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.join(manifest::FILE).is_file() {
            folders.push(path);
        }
        if folders.len() > limits::PLUGINS_PER_DIRECTORY {
            let most = limits::PLUGINS_PER_DIRECTORY;
            return Err(usage(format!("{} holds more than {most} plugins", directory.display())));
        }
    }
    if folders.is_empty() {
        return Err(usage(format!("there is no plugin in {}", directory.display())).hint(HINT));
    }
    // Directory order differs from machine to machine.
    folders.sort();
    Ok(folders)
}
