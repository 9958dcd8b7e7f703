//! The catalog of the plugins in some directories, and what is wrong with each. It runs no plugin code, and reads a
//! component only when its plugin is first requested.

use std::{
    borrow::Cow,
    collections::HashSet,
    fs, io, iter,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use futures_util::future::join_all;
use indexmap::IndexMap;
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
use shelly_core::{
    digest::Sha256Digest,
    error::{ErrorKind, Report, why_unreadable},
    limits,
};

/// A plugin folder whose manifest and component agree and that this host can run.
#[derive(Debug, Clone)]
pub struct PluginPackage {
    /// The manifest of the plugin.
    pub manifest: PluginManifest,
    /// The exports and imports of the component.
    pub anatomy: Anatomy,
    /// The tools that the exported functions become, for kind `functions`.
    pub offer: FunctionToolset,
    /// The folder that contains the component.
    pub folder: PathBuf,
    /// `true` for a component file without a manifest: the folder does not belong to it.
    pub is_lone: bool,
    /// Size of the component in bytes.
    pub size: u64,
    /// SHA-256 of the component.
    pub digest: Sha256Digest,
}

impl PluginPackage {
    /// Reads a plugin folder and checks that this host can run it. Validates the component in this process, without a
    /// bound on time and memory: use it for trusted components, and [`PluginPackage::open`] for untrusted ones.
    ///
    /// # Errors
    ///
    /// [`PluginError`].
    pub fn read(folder: &Path) -> Result<Self, PluginError> {
        let unread = PluginCandidate::of_folder(folder)?;
        unread.look_into(&unread.read()?)
    }

    /// Reads a component file and derives its manifest from its exports and imports; a file that a manifest beside it
    /// names as its component is read as that plugin. Validates in this process, without a bound, like
    /// [`PluginPackage::read`].
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

    /// Reads a plugin folder, or a component file, once a compiler has validated the component.
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

    /// Returns the path of the plugin in a plugin directory: its folder, or the component file without a folder.
    pub fn place(&self) -> PathBuf {
        if self.is_lone { self.folder.join(&self.manifest.component) } else { self.folder.clone() }
    }

    /// Returns the digest in the form that is stored and compared: `sha256:` and the hexadecimal digits.
    pub fn named_digest(&self) -> String {
        self.digest.to_string()
    }

    /// Reads the component's bytes again and checks that they are those that were checked before.
    pub(super) fn bytes(&self) -> Result<Vec<u8>, PluginError> {
        let path = self.folder.join(&self.manifest.component);
        let bytes = match self.is_lone {
            true => read_bounded(&path, limits::COMPONENT_BYTES)?,
            false => read_inside(&path, &self.folder, limits::COMPONENT_BYTES)?,
        };
        if Sha256Digest::of(&bytes) != self.digest {
            return Err(PluginError::Changed { path });
        }
        Ok(bytes)
    }
}

/// Checks that manifest and component agree and that this host provides every import.
fn check(manifest: &PluginManifest, anatomy: &Anatomy, is_lone: bool) -> Result<(), PluginError> {
    let id = || manifest.id.clone();
    if manifest.kinds != anatomy.kinds {
        let list = |kinds: &[PluginKind]| kinds.iter().map(|kind| format!("\"{kind}\"")).collect::<Vec<_>>().join(", ");
        let (said, exported) = (list(&manifest.kinds), list(&anatomy.kinds));
        return Err(PluginError::KindsDiffer { id: id(), said, exported });
    }
    // The first mismatch is reported, and some imports explain more than others.
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
    /// Validates components before they are inspected.
    compiler: Arc<ComponentCompiler>,
    plugins: IndexMap<String, CatalogEntry>,
    /// The directories of the plugins that come with the host, resolved.
    shipped: Vec<PathBuf>,
    /// The directories where the person installed plugins, among them copies of shipped ones, resolved.
    installed: Vec<PathBuf>,
}

/// One plugin of a [`PluginCatalog`].
#[derive(Debug)]
pub struct CatalogEntry {
    compiler: Arc<ComponentCompiler>,
    place: PathBuf,
    /// `None` for a component file without a manifest, and for a folder whose manifest cannot be read.
    manifest: Option<PluginManifest>,
    /// Empty until the package is first requested.
    package: OnceLock<Result<Arc<PluginPackage>, PluginError>>,
    /// Empty until the descriptor is first requested; `None` if the component cannot be read.
    sealed: OnceLock<Option<ComponentDescriptor>>,
}

/// The size and digest of a component: enough to ask a person for approval before the component is inspected.
#[derive(Debug, Clone, Copy)]
pub struct ComponentDescriptor {
    /// Size of the component in bytes.
    pub size: u64,
    /// SHA-256 of the component.
    pub digest: Sha256Digest,
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

    /// Returns the folder that contains the component. A component file without a manifest may share it with others.
    pub fn folder(&self) -> &Path {
        match self.manifest {
            None if !self.place.is_dir() => self.place.parent().unwrap_or(Path::new("")),
            _ => &self.place,
        }
    }

    /// Returns the plugin; the first call reads and validates its component. Blocks the caller while a process of its
    /// own validates the component: async callers use [`open`](Self::open).
    ///
    /// # Errors
    ///
    /// The same [`PluginError`] at each call.
    pub fn package(&self) -> Result<&Arc<PluginPackage>, &PluginError> {
        let package = self.package.get_or_init(|| {
            let unread = self.to_unread();
            let component = unread.read()?;
            unread.admit_blocking(&component, &self.compiler)?;
            self.fitting(unread.look_into(&component)?)
        });
        package.as_ref()
    }

    /// Reads and validates the component, and compiles it if `step` says so, unless that was done before. Errors are
    /// returned by [`package`](Self::package) afterwards. Dropping the future ends the compiler process.
    pub async fn open(&self, step: CompileStep) {
        /// Bounds the components in memory to the number that can be compiled at once.
        static OPENING: Semaphore = Semaphore::const_new(limits::COMPILE_CHILDREN);
        // The semaphore is never closed.
        let _place = OPENING.acquire().await;
        if self.package.get().is_none() {
            let package = self.to_unread().open(&self.compiler, step).await.and_then(|package| self.fitting(package));
            // A concurrent call may have set it first, with the same result.
            let _ = self.package.set(package);
        }
    }

    fn to_unread(&self) -> PluginCandidate<'_> {
        PluginCandidate { manifest: self.manifest.as_ref().map(Cow::Borrowed), place: &self.place }
    }

    /// Refuses a component that is not the one that a person was asked about, and an effect without a manifest, since
    /// only a manifest says when an effect is called.
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

    /// Reads the component without inspecting its content; `None` if it cannot be read. From then on
    /// [`package`](Self::package) refuses any other component.
    pub fn sealed(&self) -> Option<ComponentDescriptor> {
        if let Some(Ok(package)) = self.package.get() {
            return Some(ComponentDescriptor { size: package.size, digest: package.digest });
        }
        *self.sealed.get_or_init(|| {
            let component = self.to_unread().read().ok()?;
            Some(ComponentDescriptor { size: component.bytes.len() as u64, digest: component.digest })
        })
    }

    /// Returns the path of the component file.
    fn component(&self) -> PathBuf {
        self.to_unread().path()
    }

    /// Returns the path of the plugin: its folder, or the component file without a folder.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// Returns the `plugin.toml`; `None` for a component file without one, and if it cannot be read.
    pub fn written_manifest(&self) -> Option<&PluginManifest> {
        self.manifest.as_ref()
    }

    /// Returns the manifest. Reads the component only if there is no `plugin.toml`. The component in a folder may still
    /// turn out to disagree with the manifest.
    ///
    /// # Errors
    ///
    /// [`PluginError`] if there is neither a readable manifest nor a component to derive one from.
    pub fn manifest(&self) -> Result<&PluginManifest, &PluginError> {
        match &self.manifest {
            Some(manifest) => Ok(manifest),
            None => self.package().map(|package| &package.manifest),
        }
    }
}

/// The directories that are searched for plugins.
#[derive(Debug, Clone, Default)]
pub struct PluginDirs {
    /// Directories that a person names for this run. All of their plugins are listed, and errors in them are reported.
    pub named: Vec<PathBuf>,
    /// Directories that need not exist. They are searched in order for an id that is found nowhere else. The project's
    /// own folder precedes them.
    pub standard: Vec<PathBuf>,
    /// Those of the directories above that contain the plugins of the host, which may be granted what they want without
    /// asking.
    pub shipped: Vec<PathBuf>,
    /// `true` if an agent without a config gets all plugins of `standard` that need no grant, since no directory was
    /// named.
    pub offers_standard: bool,
}

impl<T: AsRef<[PathBuf]>> From<T> for PluginDirs {
    /// Names these directories, and no others.
    fn from(named: T) -> Self {
        Self { named: named.as_ref().to_vec(), ..Self::default() }
    }
}

impl PluginCatalog {
    /// Returns an empty catalog. `compiler` validates components before they are inspected.
    pub fn new(compiler: &Arc<ComponentCompiler>) -> Self {
        let (plugins, shipped, installed) = Default::default();
        Self { compiler: Arc::clone(compiler), plugins, shipped, installed }
    }

    /// Reads plugin directories: folders with a `plugin.toml`, and component files. An invalid plugin is listed under
    /// its id (or the name of its folder) and fails only when it is used.
    ///
    /// # Errors
    ///
    /// A [`Report`] for a directory that is not a plugin directory.
    pub fn scan(directories: &[PathBuf], compiler: &Arc<ComponentCompiler>) -> Result<Self, Report> {
        let mut catalog = Self::new(compiler);
        let mut seen = HashSet::new();
        for directory in directories {
            for place in plugins_in(directory)? {
                // A directory may be named twice, by config and command line.
                if seen.insert(place.canonicalize().unwrap_or_else(|_| place.clone())) {
                    catalog.add(&place);
                }
            }
        }
        Ok(catalog)
    }

    /// Adds each of these ids that is not in the catalog, from the first of these directories that contains a plugin
    /// folder or component file of that name.
    pub fn add_by_id<'a>(&mut self, directories: &[PathBuf], ids: impl IntoIterator<Item = &'a str>) {
        for id in ids {
            // The id comes from a config: it must not lead out of the directory.
            let is_name = !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            if !is_name || self.plugins.contains_key(id) {
                continue;
            }
            let places = directories.iter().flat_map(|directory| {
                // Compilers for Rust and C write `_` in place of `-` in file names.
                let files = [id.to_owned(), id.replace('-', "_")].map(|stem| directory.join(format!("{stem}.wasm")));
                iter::once(directory.join(id)).chain(files)
            });
            if let Some(place) = places.into_iter().find(|place| is_plugin(place)) {
                self.add(&place);
            }
        }
    }

    /// Adds all plugins in those of these directories that exist, except those whose id is already in the catalog.
    pub fn add_all(&mut self, directories: &[PathBuf]) {
        for place in directories.iter().filter_map(|directory| plugins_in(directory).ok()).flatten() {
            if !id_of(&place).is_some_and(|id| self.plugins.contains_key(&id)) {
                self.add(&place);
            }
        }
    }

    /// Returns the ids under which [`add_by_id`](Self::add_by_id) finds plugins in those of these directories that
    /// exist.
    pub fn ids_in(directories: &[PathBuf]) -> Vec<String> {
        let places = directories.iter().filter_map(|directory| plugins_in(directory).ok()).flatten();
        places
            .filter_map(|place| if place.is_dir() { Some(place.file_name()?.to_str()?.into()) } else { id_of(&place) })
            .collect()
    }

    /// Marks the plugins that come with the host: those in the directories `shipped`, and their copies in the
    /// directories `installed`, where the person has put them. A copy in a project is not marked.
    pub fn mark_shipped(&mut self, shipped: &[PathBuf], installed: &[PathBuf]) {
        let real = |directories: &[PathBuf]| directories.iter().filter_map(|it| it.canonicalize().ok()).collect();
        (self.shipped, self.installed) = (real(shipped), real(installed));
    }

    /// Returns `true` if a plugin comes with the host, as set by [`mark_shipped`](Self::mark_shipped). Does not inspect
    /// the component.
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
            // The first one is unusable anyway, and its error is already recorded.
            Some(first) if first.is_unusable() => return,
            Some(first) => {
                let (first, second) = (first.place.clone(), place.into());
                let error = PluginError::SameId { id: id.clone(), first, second };
                CatalogEntry::unusable(&self.compiler, place, error)
            }
        };
        self.plugins.insert(id, entry);
    }

    /// Returns the name under which a folder without a readable manifest is listed: it must not take the id of a known
    /// plugin.
    fn name_without_manifest(&self, folder: &Path) -> String {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.plugins.contains_key(&name) { folder.display().to_string() } else { name }
    }

    /// Returns the entry of this id, or `None`. Reads nothing.
    pub fn entry(&self, id: &str) -> Option<&CatalogEntry> {
        self.plugins.get(id)
    }

    /// Returns the plugin of this id, or `None`. The first call reads and validates its component.
    pub fn get(&self, id: &str) -> Option<Result<&Arc<PluginPackage>, &PluginError>> {
        self.plugins.get(id).map(CatalogEntry::package)
    }

    /// Sets the compiler that validates the components that have not been read yet.
    pub fn set_compiler(&mut self, compiler: &Arc<ComponentCompiler>) {
        self.compiler = Arc::clone(compiler);
        self.plugins.values_mut().for_each(|plugin| plugin.compiler = Arc::clone(compiler));
    }

    /// [Opens](CatalogEntry::open) the plugins of these ids that are in the catalog. No more components are in memory
    /// at once than processes may compile.
    pub async fn open<'a>(&self, ids: impl IntoIterator<Item = &'a str>, step: CompileStep) {
        let entries = ids.into_iter().filter_map(|id| self.plugins.get(id));
        join_all(entries.map(|entry| entry.open(step))).await;
    }

    /// Returns all plugins in the order of discovery, unusable ones included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CatalogEntry)> {
        self.plugins.iter().map(|(id, plugin)| (id.as_str(), plugin))
    }
}

/// Returns `true` for a plugin folder and for a component file. A folder that contains a component counts as a plugin
/// even without a manifest.
fn is_plugin(place: &Path) -> bool {
    let is_component = |path: &Path| path.extension().is_some_and(|end| end == "wasm") && path.is_file();
    let holds_component = || {
        let names = fs::read_dir(place).into_iter().flatten().take(limits::PLUGINS_PER_DIRECTORY);
        names.flatten().any(|entry| is_component(&entry.path()))
    };
    place.join(manifest::FILE).is_file() || is_component(place) || holds_component()
}

/// Returns the id of the plugin at `place`, if it has one; a component file is named after its file.
fn id_of(place: &Path) -> Option<String> {
    match place.is_dir() {
        true => PluginManifest::read(place).map(|manifest| manifest.id).ok(),
        false => Some(file_id(place)),
    }
}

/// Returns the id of a component file without a manifest.
pub(super) fn file_id(file: &Path) -> String {
    manifest::id_of_file(&file.file_stem().unwrap_or_default().to_string_lossy())
}

/// Returns the plugins in a directory: folders with a manifest, and component files.
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
