//! Remembers the options with which a session began, so that they need not be repeated to resume it.

use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use serde::{Deserialize, Serialize};

use super::{
    command_words::words_of,
    config_path::project_root,
    render::{self, DIM, PLAIN, name},
    session_name::named,
    session_projects::SessionProjects,
    trust,
};
use crate::{
    app,
    config::Config,
    error::Report,
    files, limits,
    session::{LaunchOptions, SessionStore},
};

/// The options of the command line that select a run's config, plugins and model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaunchFlags {
    pub config: Option<PathBuf>,
    pub plugins: Vec<PathBuf>,
    pub model: Option<String>,
}

impl LaunchFlags {
    /// Returns the options as a session in the project folder `root` stores them. If a path is not UTF-8, no option is
    /// stored, since a partial command line would have another meaning.
    pub fn to_options(&self, root: &Path) -> LaunchOptions {
        let Self { config, plugins, model } = self;
        let kept = |path: &PathBuf| kept_path(path, root);
        let paths = || {
            Some((
                config.as_ref().map(kept).transpose().ok()?,
                plugins.iter().map(kept).collect::<Result<_, _>>().ok()?,
            ))
        };
        let Some((config, plugins)) = paths() else { return LaunchOptions::default() };
        LaunchOptions { config, plugins, model: model.clone() }
    }

    /// Adds the stored options where none were given. A stored model belongs to the stored config.
    fn add(&mut self, options: &LaunchOptions, root: &Path) -> Self {
        let mut added = Self::default();
        if self.config.is_none() {
            added.config = options.config.as_ref().map(|path| shown_path(&root.join(path)));
            if self.model.is_none() {
                added.model.clone_from(&options.model);
            }
        }
        if self.plugins.is_empty() {
            added.plugins = options.plugins.iter().map(|path| shown_path(&root.join(path))).collect();
        }
        self.config = self.config.take().or_else(|| added.config.clone());
        self.model = self.model.take().or_else(|| added.model.clone());
        self.plugins.extend(added.plugins.iter().cloned());
        added
    }

    /// Adds the options with which the session `given` began, where none were given, and prints them. Options of a session
    /// that this user did not make here are left out: it may have come with the project.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the session's mark cannot be checked. A session that cannot be read is reported where it is opened.
    pub fn recall(&mut self, given: &str, is_whole_name: bool) -> Result<(), Report> {
        let Ok(here) = std::path::absolute(project_root()) else { return Ok(()) };
        let (store, located) = match &self.config {
            Some(config) => match Config::root_of(config) {
                Ok(root) => (store(&root), None),
                Err(_) => return Ok(()),
            },
            None if is_whole_name => (store(&here), None),
            None => locate(given),
        };
        let Ok(id) = named(&store, given) else { return Ok(()) };
        if is_whole_name && id != given {
            return Ok(());
        }
        let Ok(journal) = store.read(&id) else { return Ok(()) };
        let mut options = journal.header().options.clone();
        let config = self.config.as_ref().or(located.as_ref());
        let root = config.map_or(Ok(here), |config| Config::root_of(config)).unwrap_or_default();
        if !store.is_created_here(&id).map_err(|error| error.report())? {
            if !options.is_empty() {
                let mut theirs = Self::default();
                let words = theirs.add(&options, &root).words();
                render::warn(&format!(
                    "the session was not made here by you, so its stored options are ignored: {}",
                    name(&words)
                ));
            }
            return Ok(());
        }
        // A session of an earlier release has no stored options.
        if options.config.is_none() {
            options.config = located.as_ref().and_then(|config| kept_path(config, &root).ok());
        }
        let added = self.add(&options, &root);
        if added != Self::default() {
            render::tell(&format!("{DIM}options stored in the session: {}{PLAIN}\n", name(&added.words())));
        }
        Ok(())
    }

    fn words(&self) -> String {
        let Self { config, plugins, model } = self;
        words_of(config.as_deref(), plugins, model.as_deref()).trim_start().to_owned()
    }
}

/// Returns a path relative to `root` if it lies below, and an absolute one otherwise.
fn kept_path(path: &Path, root: &Path) -> io::Result<String> {
    // An empty root, which belongs to no config, means the current directory.
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let (path, root) = (std::path::absolute(path)?, std::path::absolute(root)?);
    let kept = path.strip_prefix(&root).unwrap_or(&path);
    kept.to_str().map(str::to_owned).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns a path as a person would type it here.
fn shown_path(path: &Path) -> PathBuf {
    let below = std::env::current_dir().ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    below.filter(|path| !path.as_os_str().is_empty()).unwrap_or_else(|| path.to_owned())
}

fn store(root: &Path) -> SessionStore {
    app::sessions(root, trust::own_key())
}

/// Returns the store that contains the session `given`: that of the project of the current folder, or that of a config with
/// which a session was begun here, together with that config. `last` is the newest session of all of them. If no store has
/// it, returns the project's.
pub fn locate(given: &str) -> (SessionStore, Option<PathBuf>) {
    let here = (store(&project_root()), None);
    let others = configs_begun_here().into_iter().filter_map(|config| {
        let root = Config::root_of(&config).ok()?;
        Some((store(&root), Some(config)))
    });
    let newest = |store: &SessionStore| {
        let some = store.list(limits::NAMES_SHOWN).ok()?;
        some.into_iter().find(|session| session.content.is_ok()).map(|newest| (newest.modified, newest.id))
    };
    let is_created_here = |store: &SessionStore, id: &str| store.is_created_here(id).unwrap_or(false);
    if given == "last" {
        let at = newest(&here.0).map_or(SystemTime::UNIX_EPOCH, |(modified, _)| modified);
        let other = others.filter_map(|other| {
            let (modified, _) = newest(&other.0).filter(|(_, id)| is_created_here(&other.0, id))?;
            (modified > at).then_some((modified, other))
        });
        return other.max_by_key(|(modified, _)| *modified).map_or(here, |(_, other)| other);
    }
    if here.0.resolve(given).is_ok() {
        return here;
    }
    let mut others = others;
    let has_it = |other: &(SessionStore, _)| other.0.resolve(given).is_ok_and(|id| is_created_here(&other.0, &id));
    others.find(has_it).unwrap_or(here)
}

/// The configs of other folders with which sessions were begun in each folder, the newest last.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SessionConfigHistory {
    folders: Vec<FolderConfigs>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FolderConfigs {
    folder: String,
    configs: Vec<String>,
}

impl SessionConfigHistory {
    fn read(path: &Path) -> Self {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let text = files::read(path, folder, limits::SESSION_FOLDERS_BYTES).ok();
        text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
    }

    /// Makes the config the newest of the folder, and the folder the newest of all. Returns `false` if both already were.
    fn add(&mut self, folder: &str, config: &str) -> bool {
        let is_newest = self
            .folders
            .last()
            .is_some_and(|last| last.folder == folder && last.configs.last().is_some_and(|newest| newest == config));
        if is_newest {
            return false;
        }
        let at = self.folders.iter().position(|begun| begun.folder == folder);
        let mut begun = at.map(|at| self.folders.remove(at));
        let begun_here = begun.get_or_insert_with(|| FolderConfigs { folder: folder.to_owned(), configs: Vec::new() });
        begun_here.configs.retain(|known| known != config);
        begun_here.configs.push(config.to_owned());
        let over = begun_here.configs.len().saturating_sub(limits::SESSION_FOLDER_CONFIGS);
        begun_here.configs.drain(..over);
        self.folders.extend(begun);
        let over = self.folders.len().saturating_sub(limits::SESSION_FOLDERS);
        self.folders.drain(..over);
        true
    }
}

/// Returns the path of the history file, and the current folder.
fn begun_sessions() -> Option<(PathBuf, String)> {
    let here = std::env::current_dir().ok()?.canonicalize().ok()?;
    Some((trust::kept("sessions.json")?, here.to_str()?.to_owned()))
}

/// Returns the configs of other folders with which sessions were begun in this one, the newest first.
pub fn configs_begun_here() -> Vec<PathBuf> {
    let Some((path, here)) = begun_sessions() else { return Vec::new() };
    let begun = SessionConfigHistory::read(&path).folders.into_iter().find(|begun| begun.folder == here);
    begun.map_or(Vec::new(), |begun| begun.configs.iter().rev().map(|config| shown_path(Path::new(config))).collect())
}

/// Remembers that the project in the folder `root` has a session, and that it was begun here with this config.
pub fn remember_session(root: &Path, config: Option<&Path>) {
    SessionProjects::of_person().add(root);
    config.into_iter().for_each(keep_config_begun_here);
}

/// Stores that a session was begun here with a config of another folder. Errors are ignored: without the entry, the user
/// names the config again.
fn keep_config_begun_here(config: &Path) {
    let Some((path, here)) = begun_sessions() else { return };
    let (Ok(root), Ok(config)) = (Config::root_of(config), std::path::absolute(config)) else { return };
    let Some(config) = config.to_str() else { return };
    if files::resolved(&root) == Path::new(&here) {
        return;
    }
    let mut begun = SessionConfigHistory::read(&path);
    if begun.add(&here, config) {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let _ = files::create_private_folders(folder)
            .and_then(|()| files::replace(&path, serde_json::json!(begun).to_string().as_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_paths_survive_a_move_of_the_project() {
        let named = LaunchFlags {
            config: Some("/p/shelly.yaml".into()),
            plugins: vec!["/p/target/plugins".into(), "/else/where".into()],
            model: Some("large".into()),
        };
        let options = named.to_options(Path::new("/p"));
        assert_eq!(options.config.as_deref(), Some("shelly.yaml"));
        assert_eq!(options.plugins, ["target/plugins", "/else/where"]);
        let mut resumed = LaunchFlags::default();
        resumed.add(&options, Path::new("/q"));
        assert_eq!(resumed.config.as_deref(), Some(Path::new("/q/shelly.yaml")));
        assert_eq!(resumed.plugins, [Path::new("/q/target/plugins"), Path::new("/else/where")]);
        assert_eq!(resumed.model.as_deref(), Some("large"));
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStrExt;
            let odd = PathBuf::from(std::ffi::OsStr::from_bytes(b"/p/\xff"));
            assert!(LaunchFlags { plugins: vec![odd], ..named }.to_options(Path::new("/p")).is_empty());
        }
    }

    #[test]
    fn named_options_win_over_those_of_the_session() {
        let options =
            LaunchOptions { config: Some("a.yaml".into()), plugins: vec!["p".into()], model: Some("m".into()) };
        let mut named = LaunchFlags { config: Some("b.yaml".into()), ..LaunchFlags::default() };
        named.add(&options, Path::new("/q"));
        assert_eq!((named.config, named.model), (Some("b.yaml".into()), None), "a model is one of its config");
        assert_eq!(named.plugins, [Path::new("/q/p")]);
        let mut named = LaunchFlags { model: Some("n".into()), plugins: vec!["o".into()], config: None };
        named.add(&options, Path::new("/q"));
        let all = LaunchFlags { config: Some("/q/a.yaml".into()), plugins: vec!["o".into()], model: Some("n".into()) };
        assert_eq!(named, all);
    }

    #[test]
    fn without_a_config_paths_are_relative_to_this_folder() {
        let named = LaunchFlags { plugins: vec!["target/plugins".into()], ..LaunchFlags::default() };
        assert_eq!(named.to_options(Path::new("")).plugins, ["target/plugins"]);
    }

    #[test]
    fn folders_and_configs_are_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sessions.json");
        let mut whole = SessionConfigHistory::default();
        whole.add("f", "c");
        let padded = |more: u64| {
            let mut text = serde_json::json!(whole).to_string();
            let size = usize::try_from(limits::SESSION_FOLDERS_BYTES + more).unwrap();
            text.extend(std::iter::repeat_n(' ', size - text.len()));
            std::fs::write(&path, text).unwrap();
            SessionConfigHistory::read(&path).folders.len()
        };
        assert_eq!((padded(0), padded(1)), (1, 0), "a larger file is not read");
        let mut begun = SessionConfigHistory::default();
        for folder in 0..=limits::SESSION_FOLDERS {
            assert!(begun.add(&folder.to_string(), "c"));
        }
        assert_eq!(begun.folders.len(), limits::SESSION_FOLDERS);
        assert_eq!(begun.folders[0].folder, "1", "the oldest has gone");
        for config in 0..=limits::SESSION_FOLDER_CONFIGS {
            assert!(begun.add("1", &config.to_string()));
        }
        let last = begun.folders.last().unwrap();
        assert_eq!((&*last.folder, last.configs.len()), ("1", limits::SESSION_FOLDER_CONFIGS));
        assert_eq!(&*last.configs[0], "1");
        assert!(!begun.add("1", &limits::SESSION_FOLDER_CONFIGS.to_string()), "it is the newest already");
    }
}
