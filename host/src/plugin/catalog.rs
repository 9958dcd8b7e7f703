//! The plugins of some directories: which are there, and what is wrong with them. Nothing is run here, and a
//! component is not read before its plugin is asked for.

use std::{
    borrow::Cow,
    collections::HashSet,
    fs, io, iter,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use futures_util::future::join_all;
use indexmap::IndexMap;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::{
    anatomy::{Anatomy, PluginKind},
    compile::{CompileStep, ComponentCompiler},
    error::PluginError,
    functions::FunctionToolset,
    imports::{self, ImportRequirement},
    manifest::{self, PluginManifest},
    plugin_candidate::{ComponentBytes, PluginCandidate, read_bounded, read_inside},
    shipped_plugins,
};
use crate::{
    error::{ErrorKind, Report, why_unreadable},
    limits,
};

/// A plugin folder that holds what it says: manifest and component agree, and this host can run it.
#[derive(Debug, Clone)]
pub struct PluginPackage {
    /// What it says of itself.
    pub manifest: PluginManifest,
    /// What its component exports and imports.
    pub anatomy: Anatomy,
    /// Of kind `functions`: the tools that its functions are.
    pub offer: FunctionToolset,
    /// The folder.
    pub folder: PathBuf,
    /// Whether it is a component alone, without a manifest: the folder is not its own.
    pub is_lone: bool,
    /// Bytes of the component.
    pub size: u64,
    /// SHA-256 of the component.
    pub digest: ComponentDigest,
}

/// SHA-256 of a component.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ComponentDigest([u8; 32]);

impl ComponentDigest {
    /// Its 32 bytes.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// Returns the digest as it is written down and compared: `sha256:` and the digits.
    pub fn named(self) -> String {
        format!("sha256:{self}")
    }

    pub(super) fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl std::fmt::Display for ComponentDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ComponentDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl Serialize for ComponentDigest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl PluginPackage {
    /// Reads a plugin folder and checks that it can be run here. Its component is validated in this process, without a bound:
    /// for those whose components are known. [`PluginPackage::open`] is for those of strangers.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub fn read(folder: &Path) -> Result<Self, PluginError> {
        let unread = PluginCandidate::of_folder(folder)?;
        unread.look_into(&unread.read()?)
    }

    /// Reads a component without a folder: its manifest is made of what it exports and imports. Like
    /// [`PluginPackage::read`] in this process, without a bound.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub fn read_file(path: &Path) -> Result<Self, PluginError> {
        if let Some(unread) = PluginCandidate::of_folder_around(path)
            && let Ok(package) = unread.read().and_then(|component| unread.look_into(&component))
        {
            return Ok(package);
        }
        let unread = PluginCandidate::of_file(path);
        unread.look_into(&unread.read()?)
    }

    /// Reads a plugin folder, or a component without one, once a compiler has found its component valid.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub async fn open(path: &Path, compiler: &ComponentCompiler, step: CompileStep) -> Result<Self, PluginError> {
        if path.is_dir() {
            return PluginCandidate::of_folder(path)?.open(compiler, step).await;
        }
        if let Some(unread) = PluginCandidate::of_folder_around(path)
            && let Ok(package) = unread.open(compiler, step).await
        {
            return Ok(package);
        }
        PluginCandidate::of_file(path).open(compiler, step).await
    }

    pub(super) fn checked(
        manifest: PluginManifest,
        anatomy: Anatomy,
        folder: &Path,
        component: &ComponentBytes,
        is_lone: bool,
    ) -> Result<Self, PluginError> {
        check(&manifest, &anatomy, is_lone)?;
        let id = || manifest.id.clone();
        let offer = FunctionToolset::new(&anatomy.exported, &manifest.functions)
            .map_err(|message| PluginError::Functions { id: id(), message, is_lone })?;
        if let Some(why) = offer.why_nothing().filter(|_| manifest.kinds.contains(&PluginKind::Functions)) {
            return Err(PluginError::NoFunction { id: id(), why });
        }
        let (size, digest) = (component.bytes.len() as u64, component.digest);
        Ok(Self { manifest, anatomy, offer, folder: folder.into(), is_lone, size, digest })
    }

    /// What lies in a directory of plugins: its folder, or the component alone.
    pub fn place(&self) -> PathBuf {
        if self.is_lone { self.folder.join(&self.manifest.component) } else { self.folder.clone() }
    }

    /// Its digest as it is written down and compared: see [`ComponentDigest::named`].
    pub fn named_digest(&self) -> String {
        self.digest.named()
    }

    /// The component's bytes, if they are still those that were checked.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, PluginError> {
        let path = self.folder.join(&self.manifest.component);
        let bytes = match self.is_lone {
            true => read_bounded(&path, limits::COMPONENT_BYTES)?,
            false => read_inside(&path, &self.folder, limits::COMPONENT_BYTES)?,
        };
        if ComponentDigest::of(&bytes) != self.digest {
            return Err(PluginError::Changed { path });
        }
        Ok(bytes)
    }
}

/// Manifest and component agree, and this host has what they need.
fn check(manifest: &PluginManifest, anatomy: &Anatomy, is_lone: bool) -> Result<(), PluginError> {
    let id = || manifest.id.clone();
    if manifest.kinds != anatomy.kinds {
        let list = |kinds: &[PluginKind]| kinds.iter().map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(", ");
        let (said, exported) = (list(&manifest.kinds), list(&anatomy.kinds));
        return Err(PluginError::KindsDiffer { id: id(), said, exported });
    }
    // What is missed first is told, and some imports say more of that than others.
    let mut imports: Vec<_> = anatomy.imports.iter().collect();
    imports.sort_by_key(|import| imports::need_of_import(import).map(ImportRequirement::says_little));
    for import in imports {
        match imports::need_of_import(import) {
            None => return Err(PluginError::ImportUnsupported { id: id(), import: import.clone() }),
            Some(ImportRequirement::Kind(kind)) if !manifest.kinds.contains(&kind) => {
                return Err(PluginError::OfAnotherKind {
                    id: id(),
                    import: import.clone(),
                    kinds: vec![kind],
                    is_lone,
                });
            }
            Some(ImportRequirement::Chat) if !imports::reads_chat(&manifest.kinds) => {
                let kinds = imports::CHAT_KINDS.to_vec();
                return Err(PluginError::OfAnotherKind { id: id(), import: import.clone(), kinds, is_lone });
            }
            Some(need) if !need.is_asked_for_by(manifest) => {
                let (import, line) = (import.clone(), need.manifest_line());
                return Err(PluginError::NotAskedFor { id: id(), import, line, is_lone });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// The plugins of some directories, by id.
///
/// Manifests are read when a directory is scanned, components when a plugin is first asked for: a run that uses five
/// plugins of a directory of fifty reads, hashes and validates five.
#[derive(Debug)]
pub struct PluginCatalog {
    /// Finds components valid before they are looked into.
    compiler: Arc<ComponentCompiler>,
    plugins: IndexMap<String, CatalogEntry>,
    /// Where plugins lie that come with the host, as they are.
    shipped: Vec<PathBuf>,
    /// Where the person has put plugins, copies of those among them.
    installed: Vec<PathBuf>,
}

/// One plugin of a [`PluginCatalog`].
#[derive(Debug)]
pub struct CatalogEntry {
    compiler: Arc<ComponentCompiler>,
    place: PathBuf,
    /// `None` for a component alone, and for a folder whose manifest cannot be read.
    manifest: Option<PluginManifest>,
    /// Empty until somebody asks for it.
    package: OnceLock<Result<Arc<PluginPackage>, PluginError>>,
    /// The same; `None` if the component cannot be read.
    sealed: OnceLock<Option<ComponentDescriptor>>,
}

/// The component of a plugin as a closed box: enough to ask a person about it before any of it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct ComponentDescriptor {
    /// Bytes of the component.
    pub size: u64,
    /// SHA-256 of the component.
    pub digest: ComponentDigest,
}

impl CatalogEntry {
    fn unread(compiler: &Arc<ComponentCompiler>, place: &Path, manifest: Option<PluginManifest>) -> Self {
        let (package, sealed) = Default::default();
        Self { compiler: Arc::clone(compiler), place: place.into(), manifest, package, sealed }
    }

    fn unusable(compiler: &Arc<ComponentCompiler>, place: &Path, error: PluginError) -> Self {
        let (package, sealed) = (OnceLock::from(Err(error)), OnceLock::from(None));
        Self { compiler: Arc::clone(compiler), place: place.into(), manifest: None, package, sealed }
    }

    fn is_unusable(&self) -> bool {
        self.package.get().is_some_and(Result::is_err)
    }

    /// The folder that holds the component. A component alone does not have it to itself.
    pub fn folder(&self) -> &Path {
        match self.manifest {
            None if !self.place.is_dir() => self.place.parent().unwrap_or(Path::new("")),
            _ => &self.place,
        }
    }

    /// Returns the plugin; the first call reads and validates its component. Where a component is validated in a process of
    /// its own the caller is blocked meanwhile: [`open`](Self::open) is for those that can wait.
    ///
    /// # Errors
    ///
    /// [`PluginError`], the same at each call.
    pub fn package(&self) -> Result<&Arc<PluginPackage>, &PluginError> {
        let package = self.package.get_or_init(|| {
            let unread = self.to_unread();
            let component = unread.read()?;
            unread.admit_blocking(&component, &self.compiler)?;
            self.fitting(unread.look_into(&component)?)
        });
        package.as_ref()
    }

    /// Reads and validates the component, and compiles it if that is the step, unless that was done before. What is wrong with
    /// it [`package`](Self::package) says from then on. Dropping the future ends the process that it waits for.
    pub async fn open(&self, step: CompileStep) {
        /// No more components are in memory than can be compiled.
        static OPENING: Semaphore = Semaphore::const_new(limits::COMPILE_CHILDREN);
        // It is never closed.
        let _place = OPENING.acquire().await;
        if self.package.get().is_none() {
            let package = self.to_unread().open(&self.compiler, step).await.and_then(|package| self.fitting(package));
            // Somebody else may have been quicker, and has found the same.
            let _ = self.package.set(package);
        }
    }

    fn to_unread(&self) -> PluginCandidate<'_> {
        PluginCandidate { manifest: self.manifest.as_ref().map(Cow::Borrowed), place: &self.place }
    }

    /// Refuses one that is not what a person was asked about, and what cannot be used as it is: nothing but a manifest says
    /// when an effect is called.
    fn fitting(&self, package: PluginPackage) -> Result<Arc<PluginPackage>, PluginError> {
        if package.is_lone && package.manifest.kinds.contains(&PluginKind::Effect) {
            return Err(PluginError::EffectAlone { id: package.manifest.id });
        }
        match self.sealed.get() {
            Some(Some(sealed)) if sealed.digest != package.digest => {
                Err(PluginError::Changed { path: self.component() })
            }
            _ => Ok(Arc::new(package)),
        }
    }

    /// Reads the component and nothing of what is in it; `None` if it cannot be read. From then on it is the only one that
    /// [`package`](Self::package) gives.
    pub fn sealed(&self) -> Option<ComponentDescriptor> {
        if let Some(Ok(package)) = self.package.get() {
            return Some(ComponentDescriptor { size: package.size, digest: package.digest });
        }
        *self.sealed.get_or_init(|| {
            let component = self.to_unread().read().ok()?;
            Some(ComponentDescriptor { size: component.bytes.len() as u64, digest: component.digest })
        })
    }

    /// The file of the component.
    fn component(&self) -> PathBuf {
        self.to_unread().path()
    }

    /// Where it lies: its folder, or the component alone.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Its plugin.toml; `None` for a component alone, and where it cannot be read.
    pub fn written_manifest(&self) -> Option<&PluginManifest> {
        self.manifest.as_ref()
    }

    /// Returns its manifest without reading the component where there is a `plugin.toml`. The component of a plugin in
    /// a folder may still turn out to disagree with it.
    ///
    /// # Errors
    ///
    /// [`PluginError`], if there is neither a readable manifest nor a component to make one of.
    pub fn manifest(&self) -> Result<&PluginManifest, &PluginError> {
        match &self.manifest {
            Some(manifest) => Ok(manifest),
            None => self.package().map(|package| &package.manifest),
        }
    }
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
    /// Whether an agent without a config has all plugins of `standard` that need no grant: nobody has named a directory.
    pub offers_standard: bool,
}

impl<T: AsRef<[PathBuf]>> From<T> for PluginDirs {
    /// Those that are named, and no others.
    fn from(named: T) -> Self {
        Self { named: named.as_ref().to_vec(), ..Self::default() }
    }
}

impl PluginCatalog {
    /// Returns a catalogue without a plugin, whose components this compiler will find valid before they are looked into.
    pub fn new(compiler: &Arc<ComponentCompiler>) -> Self {
        let (plugins, shipped, installed) = Default::default();
        Self { compiler: Arc::clone(compiler), plugins, shipped, installed }
    }

    /// Reads directories of plugins: folders with a `plugin.toml`, and components that lie there alone. One bad plugin is kept as
    /// such under its id (or its folder's name), and stops only who needs it.
    ///
    /// # Errors
    ///
    /// A [`Report`] for a directory that is no directory of plugins at all.
    pub fn scan(directories: &[PathBuf], compiler: &Arc<ComponentCompiler>) -> Result<Self, Report> {
        let mut catalog = Self::new(compiler);
        let mut seen = HashSet::new();
        for directory in directories {
            for place in plugins_in(directory)? {
                // A directory that is named twice, by config and command line, holds no plugin twice.
                if seen.insert(place.canonicalize().unwrap_or_else(|_| place.clone())) {
                    catalog.add(&place);
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
            let places = directories.iter().flat_map(|directory| {
                // What compilers for Rust and C make has `_` in place of `-`.
                let files = [id.to_owned(), id.replace('-', "_")].map(|stem| directory.join(format!("{stem}.wasm")));
                iter::once(directory.join(id)).chain(files)
            });
            if let Some(place) = places.into_iter().find(|place| is_plugin(place)) {
                self.add(&place);
            }
        }
    }

    /// Adds all that lies in these directories, as far as they are there, and nothing that has the id of one that is there.
    pub fn add_all(&mut self, directories: &[PathBuf]) {
        for place in directories.iter().filter_map(|directory| plugins_in(directory).ok()).flatten() {
            if !id_of(&place).is_some_and(|id| self.plugins.contains_key(&id)) {
                self.add(&place);
            }
        }
    }

    /// The ids under which [`add_by_id`](Self::add_by_id) finds something in these directories, as far as they are there.
    pub fn ids_in(directories: &[PathBuf]) -> Vec<String> {
        let places = directories.iter().filter_map(|directory| plugins_in(directory).ok()).flatten();
        places
            .filter_map(|place| if place.is_dir() { Some(place.file_name()?.to_str()?.into()) } else { id_of(&place) })
            .collect()
    }

    /// Says which plugins come with the host: those that lie in the directories `shipped`, and their copies in the
    /// directories `installed`, where the person has put them. A copy that a project brings is somebody else's.
    pub fn mark_shipped(&mut self, shipped: &[PathBuf], installed: &[PathBuf]) {
        let real = |directories: &[PathBuf]| directories.iter().filter_map(|it| it.canonicalize().ok()).collect();
        (self.shipped, self.installed) = (real(shipped), real(installed));
    }

    /// Returns `true` if a plugin comes with the host, as [`mark_shipped`](Self::mark_shipped) has said. Nothing of what is in
    /// its component is looked at.
    pub fn is_shipped(&self, plugin: &CatalogEntry) -> bool {
        let place = plugin.place.canonicalize().ok();
        let Some(parent) = place.as_deref().and_then(Path::parent) else { return false };
        let lies_in = |directories: &[PathBuf]| directories.iter().any(|directory| directory == parent);
        let is_copy = || {
            let (manifest, sealed) = (plugin.written_manifest(), plugin.sealed());
            manifest
                .zip(sealed)
                .is_some_and(|(manifest, sealed)| shipped_plugins::is_copy(manifest, sealed.digest, &self.shipped))
        };
        lies_in(&self.shipped) || lies_in(&self.installed) && is_copy()
    }

    fn add(&mut self, place: &Path) {
        let (id, entry) = match place.is_dir() {
            true => match PluginManifest::read(place) {
                Ok(manifest) => (manifest.id.clone(), CatalogEntry::unread(&self.compiler, place, Some(manifest))),
                Err(error) => (self.name_without_manifest(place), CatalogEntry::unusable(&self.compiler, place, error)),
            },
            false => (file_id(place), CatalogEntry::unread(&self.compiler, place, None)),
        };
        let entry = match self.plugins.get(&id) {
            None => entry,
            // It cannot be used for a reason that has been found already.
            Some(first) if first.is_unusable() => return,
            Some(first) => {
                let (first, second) = (first.place.clone(), place.into());
                let error = PluginError::SameId { id: id.clone(), first, second };
                CatalogEntry::unusable(&self.compiler, place, error)
            }
        };
        self.plugins.insert(id, entry);
    }

    /// The name under which a folder without a readable manifest is listed: it must not take the id of a known plugin.
    fn name_without_manifest(&self, folder: &Path) -> String {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.plugins.contains_key(&name) { folder.display().to_string() } else { name }
    }

    /// The entry of this id; `None` if there is none. Nothing is read.
    pub fn entry(&self, id: &str) -> Option<&CatalogEntry> {
        self.plugins.get(id)
    }

    /// The plugin of this id; `None` if there is none. The first call reads and validates its component.
    pub fn get(&self, id: &str) -> Option<Result<&Arc<PluginPackage>, &PluginError>> {
        self.plugins.get(id).map(CatalogEntry::package)
    }

    /// Has another compiler look at what has not been looked at.
    pub fn set_compiler(&mut self, compiler: &Arc<ComponentCompiler>) {
        self.compiler = Arc::clone(compiler);
        self.plugins.values_mut().for_each(|plugin| plugin.compiler = Arc::clone(compiler));
    }

    /// [Opens](CatalogEntry::open) the plugins of these ids that are there: as many at once as processes may compile, and no
    /// more components than those are in memory.
    pub async fn open<'a>(&self, ids: impl IntoIterator<Item = &'a str>, step: CompileStep) {
        let entries = ids.into_iter().filter_map(|id| self.plugins.get(id));
        join_all(entries.map(|entry| entry.open(step))).await;
    }

    /// All plugins in the order of discovery, unusable ones included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CatalogEntry)> {
        self.plugins.iter().map(|(id, plugin)| (id.as_str(), plugin))
    }
}

/// Whether it is a plugin's folder, or a component alone. A folder with a component in it is meant as a plugin, also without
/// a manifest.
fn is_plugin(place: &Path) -> bool {
    let is_component = |path: &Path| path.extension().is_some_and(|end| end == "wasm") && path.is_file();
    let holds_component = || {
        let names = fs::read_dir(place).into_iter().flatten().take(limits::PLUGINS_PER_DIRECTORY);
        names.flatten().any(|entry| is_component(&entry.path()))
    };
    place.join(manifest::FILE).is_file() || is_component(place) || holds_component()
}

/// The id of what lies there, if it says one; of a component alone its file's name is one.
fn id_of(place: &Path) -> Option<String> {
    match place.is_dir() {
        true => PluginManifest::read(place).map(|manifest| manifest.id).ok(),
        false => Some(file_id(place)),
    }
}

/// The id of a component alone.
pub(super) fn file_id(file: &Path) -> String {
    manifest::id_of_file(&file.file_stem().unwrap_or_default().to_string_lossy())
}

/// The plugins in a directory: folders with a manifest, and components alone.
fn plugins_in(directory: &Path) -> Result<Vec<PathBuf>, Report> {
    let usage = |message: String| Report::new(ErrorKind::Usage, message);
    const HINT: &str = "name the directory that holds the plugins' folders, each with a plugin.toml and a component; a \
                        component may also lie in it alone, as NAME.wasm";
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
        if is_plugin(&path) {
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
