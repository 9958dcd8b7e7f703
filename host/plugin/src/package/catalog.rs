//! The catalog of the plugins in some directories, and what is wrong with each. It runs no plugin code. A component is read
//! when its plugin is first requested, or when its manifest equals that of a plugin that comes with the host, so that the two
//! have to be compared.

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures_util::future::join_all;
use indexmap::IndexMap;

use super::{
    catalog_entry::CatalogEntry,
    locked_plugin::LockedPlugin,
    manifest::{file_id, is_id},
    plugin_location::PluginLocation,
    plugin_package::PluginPackage,
    shipped_plugins::ShippedPlugins,
};
use crate::{
    compile::{CompileStep, ComponentCompiler},
    contract::MANIFEST_FILE,
    error::PluginError,
};
use shelly_core::{
    error::{ErrorKind, Report, why_unreadable},
    limits,
};

/// The plugins of some directories, by id.
///
/// Manifests are read when a directory is scanned, components when a plugin is first asked for: a run that uses five
/// plugins of a directory of fifty hashes and validates five. Apart from them, only possible copies of shipped plugins are
/// read. A clone shares what was read of them.
#[derive(Debug, Clone)]
pub struct PluginCatalog {
    /// Validates components before they are inspected.
    compiler: Arc<ComponentCompiler>,
    plugins: IndexMap<String, Arc<CatalogEntry>>,
    /// The plugins that come with the host.
    shipped: ShippedPlugins,
    /// The directories where the person keeps plugins, among them copies of shipped ones.
    personal_dirs: Vec<PathBuf>,
    /// The plugins that lock files name.
    locked: Vec<Arc<LockedPlugin>>,
    /// Plugins that were found under the id of a shipped one, and are not used.
    outranked: Vec<OutrankedPlugin>,
}

/// A plugin that is not used, since one that comes with the host has its id and nobody named the plugin's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutrankedPlugin {
    /// The id of both.
    pub id: String,
    /// The folder or the component file of the plugin that is not used.
    pub path: PathBuf,
}

/// The directories that are searched for plugins.
#[derive(Debug, Clone, Default)]
pub struct PluginDirs {
    /// Directories that a person names for this run. All of their plugins are listed, and errors in them are reported.
    pub named: Vec<PathBuf>,
    /// The plugins that come with the host, which may be granted what they want without asking. An id that is in no named
    /// directory is looked up here first.
    pub shipped: ShippedPlugins,
    /// Directories in which a person's plugins lie without being named anywhere. They need not exist, and are searched last,
    /// in order, for an id that is found nowhere else.
    pub standard: Vec<PathBuf>,
    /// The folder of the plugins that a person has installed for all projects, with their lock file. It need not exist.
    pub installed: Option<PathBuf>,
    /// `true` if an agent without a config gets all plugins of `shipped` and `standard` that need no grant, since no
    /// directory was named.
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
        let (plugins, shipped, personal_dirs, locked, outranked) = Default::default();
        Self { compiler: Arc::clone(compiler), plugins, shipped, personal_dirs, locked, outranked }
    }

    /// Adds plugins that a lock file names. Those of a project are looked up before the directories that are searched, those of
    /// the person before the directories of the person.
    pub fn with_locked(mut self, locked: impl IntoIterator<Item = LockedPlugin>) -> Self {
        self.locked.extend(locked.into_iter().map(Arc::new));
        self
    }

    /// Returns the plugins that lock files name.
    pub fn locked(&self) -> impl Iterator<Item = &LockedPlugin> {
        self.locked.iter().map(|locked| &**locked)
    }

    /// Adds the plugins that lock files name and that are wanted, except those whose id is already in the catalog.
    pub fn add_locked(&mut self, is_wanted: impl Fn(&LockedPlugin) -> bool) {
        let wanted: Vec<_> = self.locked.iter().filter(|locked| is_wanted(locked)).cloned().collect();
        for locked in wanted {
            if !self.plugins.contains_key(&locked.id) {
                let found = self.read_locked_entry(&locked);
                self.add_found(&locked.id, Some(found));
            }
        }
    }

    /// Sets the plugins that come with the host, which the methods below look up first, and the directories where the
    /// person keeps plugins: a copy of a shipped plugin counts as one there, but not in a project.
    pub fn with_shipped(mut self, shipped: ShippedPlugins, personal_dirs: Vec<PathBuf>) -> Self {
        (self.shipped, self.personal_dirs) = (shipped, personal_dirs);
        self
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
                    catalog.add(PluginLocation::at(&place));
                }
            }
        }
        Ok(catalog)
    }

    /// Adds each of these ids that is not in the catalog: the plugin that comes with the host, or else the one that a lock file
    /// names, or else that of the first of these directories that contains a plugin folder or component file of that name. What
    /// belongs to a project comes before what the person has. A folder whose manifest has another id is listed as unusable.
    pub fn add_by_id<'a>(&mut self, directories: &[PathBuf], ids: impl IntoIterator<Item = &'a str>) {
        for id in ids {
            // The id comes from a config: it must not lead out of the directory.
            if !is_id(id) || self.plugins.contains_key(id) {
                continue;
            }
            // What a project has comes before what the person has in all projects.
            let found = [false, true].into_iter().find_map(|is_personal| self.find(id, directories, is_personal));
            self.add_found(id, found);
        }
    }

    /// Finds the plugin of this id that a lock file names, or else that of one of these directories: those of a project, or those
    /// of the person.
    fn find(&self, id: &str, directories: &[PathBuf], is_personal: bool) -> Option<CatalogEntry> {
        let locked = self.locked.iter().find(|locked| locked.id == id && locked.is_personal == is_personal);
        if let Some(locked) = locked {
            return Some(self.read_locked_entry(locked));
        }
        let directories = directories.iter().filter(|directory| self.personal_dirs.contains(directory) == is_personal);
        let place = directories.flat_map(|directory| places_of(id, directory)).find(|place| is_plugin(place))?;
        Some(self.read_entry_of(id, PluginLocation::at(&place)))
    }

    /// Adds the plugin of this id that comes with the host, or else the one that was found.
    fn add_found(&mut self, id: &str, found: Option<CatalogEntry>) {
        match (self.shipped.find(id), found) {
            (Some(shipped), found) => {
                let shipped = self.read_entry_of(id, shipped);
                self.plugins.insert(id.to_owned(), Arc::new(shipped));
                found.iter().for_each(|found| self.note_if_outranked(id, found));
            }
            (None, Some(found)) => drop(self.plugins.insert(id.to_owned(), Arc::new(found))),
            (None, None) => {}
        }
    }

    /// Adds all plugins that come with the host, then all in those of these directories that exist, except those whose id
    /// is already in the catalog.
    pub fn add_all(&mut self, directories: &[PathBuf]) {
        let of_directories = directories.iter().filter_map(|directory| plugins_in(directory).ok()).flatten();
        let of_directories = of_directories.map(|place| PluginLocation::at(&place));
        for location in self.shipped.all().chain(of_directories).collect::<Vec<_>>() {
            let entry = self.read_entry(location);
            let id = entry.id().to_owned();
            match self.plugins.contains_key(&id) {
                true => self.note_if_outranked(&id, &entry),
                false => drop(self.plugins.insert(id, Arc::new(entry))),
            }
        }
    }

    /// Notes that a plugin which was found under this id is not used, if the one in the catalog comes with the host and is
    /// another one.
    fn note_if_outranked(&mut self, id: &str, found: &CatalogEntry) {
        let is_shipped_used = self.plugins.get(id).is_some_and(|used| self.shipped.contains(used.location()));
        if !is_shipped_used || self.shipped.contains(found.location()) || self.shipped.has_copy_of(found) {
            return;
        }
        let Some(path) = found.location().path() else { return };
        let outranked = OutrankedPlugin { id: id.to_owned(), path: path.to_owned() };
        // A directory may be searched twice: for ids, and for all of its plugins.
        if !self.outranked.contains(&outranked) {
            self.outranked.push(outranked);
        }
    }

    /// Returns the plugins that were found under the id of a shipped one, and are not used.
    pub fn outranked(&self) -> &[OutrankedPlugin] {
        &self.outranked
    }

    /// Removes a plugin, so that one of the same id in another directory can be added. Returns the location of the removed
    /// plugin.
    pub fn remove(&mut self, id: &str) -> Option<PluginLocation> {
        self.plugins.shift_remove(id).map(|plugin| plugin.location().clone())
    }

    /// Returns the ids under which [`add_by_id`](Self::add_by_id) finds plugins in those of these directories that
    /// exist. A plugin whose folder or file has another name is not among them.
    pub fn ids_in(directories: &[PathBuf]) -> Vec<String> {
        let places = directories.iter().filter_map(|directory| plugins_in(directory).ok()).flatten();
        let id = |place: PathBuf| {
            let id = match place.is_dir() {
                true => place.file_name()?.to_str()?.to_owned(),
                false => file_id(&place),
            };
            (is_id(&id) && places_of(&id, place.parent()?).contains(&place)).then_some(id)
        };
        places.filter_map(id).collect()
    }

    /// Returns `true` if [`scan`](Self::scan) finds a plugin in this directory.
    pub fn has_plugin_in(directory: &Path) -> bool {
        plugins_in(directory).is_ok()
    }

    /// Returns `true` if a plugin comes with the host, as set by [`with_shipped`](Self::with_shipped). Does not inspect
    /// the component.
    pub fn is_shipped(&self, plugin: &CatalogEntry) -> bool {
        let location = plugin.location();
        self.shipped.contains(location)
            || location.really_lies_in(&self.personal_dirs) && self.shipped.has_copy_of(plugin)
    }

    fn add(&mut self, location: PluginLocation) {
        let entry = self.read_entry(location);
        let id = entry.id().to_owned();
        let entry = match self.plugins.get(&id) {
            None => entry,
            // The first one is unusable anyway, and its error is already recorded.
            Some(first) if first.is_unusable() => return,
            Some(first) => {
                let path = |entry: &CatalogEntry| entry.location().component_path(None);
                let (first, second) = (path(first), path(&entry));
                let error = PluginError::SameId { id: id.clone(), first, second };
                CatalogEntry::unusable(&self.compiler, entry.location().clone(), id.clone(), error)
            }
        };
        self.plugins.insert(id, Arc::new(entry));
    }

    /// Reads the manifest of a plugin, once.
    fn read_entry(&self, location: PluginLocation) -> CatalogEntry {
        match location.read_manifest() {
            Ok((id, manifest)) => CatalogEntry::unread(&self.compiler, location, id, manifest),
            Err(error) => {
                let name = self.name_without_manifest(&location);
                CatalogEntry::unusable(&self.compiler, location, name, error)
            }
        }
    }

    /// Reads the manifest of a plugin that lies where one of this id is looked for. With another id it must not take the
    /// place of the plugin of that id, nor be used as this one.
    fn read_entry_of(&self, id: &str, location: PluginLocation) -> CatalogEntry {
        let entry = self.read_entry(location);
        if entry.id() == id || entry.is_unusable() {
            return entry;
        }
        let (location, path) = (entry.location().clone(), entry.location().component_path(None));
        let error = PluginError::OtherId { id: id.to_owned(), own_id: entry.id().to_owned(), path };
        CatalogEntry::unusable(&self.compiler, location, id.to_owned(), error)
    }

    /// Reads the manifest of a plugin that a lock file names. One whose files are not the locked ones is unusable.
    fn read_locked_entry(&self, locked: &Arc<LockedPlugin>) -> CatalogEntry {
        let (id, location) = (locked.id.clone(), PluginLocation::Folder(locked.folder.clone()));
        match locked.open() {
            Ok((_, Some(manifest))) if manifest.id != id => {
                let path = location.component_path(None);
                let error = PluginError::OtherId { id: id.clone(), own_id: manifest.id, path };
                CatalogEntry::unusable(&self.compiler, location, id, error)
            }
            Ok((location, manifest)) => CatalogEntry::unread(&self.compiler, location, id, manifest).with_lock(locked),
            Err(error) => CatalogEntry::unusable(&self.compiler, location, id, error).with_lock(locked),
        }
    }

    /// Returns the name under which a folder without a readable manifest is listed: it must not take the id of a known
    /// plugin.
    fn name_without_manifest(&self, location: &PluginLocation) -> String {
        let name = location.path().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        if self.plugins.contains_key(&name) { location.to_string() } else { name }
    }

    /// Returns the entry of this id, or `None`. Reads nothing.
    pub fn entry(&self, id: &str) -> Option<&CatalogEntry> {
        self.plugins.get(id).map(|plugin| &**plugin)
    }

    /// Returns the plugin of this id, or `None`. The first call reads and validates its component.
    pub fn get(&self, id: &str) -> Option<Result<&Arc<PluginPackage>, &PluginError>> {
        self.plugins.get(id).map(|plugin| plugin.package())
    }

    /// Sets the compiler that validates the components that have not been read yet, except those of plugins that another
    /// catalog has too.
    pub fn set_compiler(&mut self, compiler: &Arc<ComponentCompiler>) {
        self.compiler = Arc::clone(compiler);
        self.plugins.values_mut().filter_map(Arc::get_mut).for_each(|plugin| plugin.set_compiler(compiler));
    }

    /// Reads the manifest of the plugin in a folder that is built again and again.
    pub fn read_rebuilt(&self, folder: &Path) -> CatalogEntry {
        self.read_entry(PluginLocation::at(folder))
    }

    /// Returns this catalog with a plugin in place of the one of its id. The other plugins are those of this catalog, with what
    /// was read of them.
    pub fn with_rebuilt(&self, plugin: CatalogEntry) -> Self {
        let mut catalog = self.clone();
        catalog.plugins.insert(plugin.id().to_owned(), Arc::new(plugin));
        catalog
    }

    /// [Opens](CatalogEntry::open) the plugins of these ids that are in the catalog. No more components are in memory
    /// at once than processes may compile.
    pub async fn open<'a>(&self, ids: impl IntoIterator<Item = &'a str>, step: CompileStep) {
        let entries = ids.into_iter().filter_map(|id| self.plugins.get(id));
        join_all(entries.map(|entry| entry.open(step))).await;
    }

    /// Returns all plugins in the order of discovery, unusable ones included.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &CatalogEntry)> {
        self.plugins.iter().map(|(id, plugin)| (id.as_str(), &**plugin))
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
    place.join(MANIFEST_FILE).is_file() || is_component(place) || holds_component()
}

/// Returns the paths in a directory at which a plugin is found by its id: its folder, or its component file. Compilers for
/// Rust and C write `_` in place of `-` in file names.
fn places_of(id: &str, directory: &Path) -> [PathBuf; 3] {
    [id.to_owned(), format!("{id}.wasm"), format!("{}.wasm", id.replace('-', "_"))].map(|name| directory.join(name))
}

/// Returns the paths of the plugins in a directory: folders with a manifest or a component, and component files.
pub(super) fn plugins_in(directory: &Path) -> Result<Vec<PathBuf>, Report> {
    let usage = |message: String| Report::new(ErrorKind::Usage, message);
    const HINT: &str = "name a directory of plugin folders, each with a plugin.toml and a component; the directory \
                        can also have components alone, as NAME.wasm";
    let unreadable = |error: io::Error| {
        usage(format!("cannot read the plugin directory {}", directory.display()))
            .cause(why_unreadable(&error))
            .hint("correct --plugins, or `plugin_dirs` in the config")
    };
    if directory.is_file() {
        return Err(usage(format!("{} is a file, not a plugin directory", directory.display())).hint(HINT));
    }
    if directory.join(MANIFEST_FILE).is_file() {
        let parent = directory.canonicalize().ok().and_then(|path| path.parent().map(Path::to_owned));
        let hint = parent.map_or(HINT.to_owned(), |parent| format!("name its parent directory: {}", parent.display()));
        return Err(usage(format!("{} is itself a plugin folder", directory.display())).hint(hint));
    }
    let mut places = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if is_plugin(&path) {
            places.push(path);
        }
        if places.len() > limits::PLUGINS_PER_DIRECTORY {
            let most = limits::PLUGINS_PER_DIRECTORY;
            return Err(usage(format!("{} has more than {most} plugins", directory.display())));
        }
    }
    if places.is_empty() {
        return Err(usage(format!("there is no plugin in {}", directory.display())).hint(HINT));
    }
    // Directory order differs from machine to machine.
    places.sort();
    Ok(places)
}

#[cfg(test)]
mod tests;
