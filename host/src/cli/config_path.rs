//! Finds and reads the configs of a command: the user-wide one, and the one that the command line names or that is found in
//! the project.

use std::path::{Path, PathBuf};

use super::{
    host_environment::plugin_dirs,
    project_search::{CandidateStatus, ProjectSearch},
    render::{name, tell},
    user_config_path::{contains_home, home, user_config},
};
use crate::{
    config::{Config, ConfigErrors, InstalledAgents},
    error::Report,
    plugin::{ComponentCompiler, PluginCatalog, PluginDirs},
    project::ProjectLayout,
};

/// The default toolboxes of the agent of a config that names no agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultToolboxes {
    /// The config names agents, teams or toolboxes, and no others are added.
    NotUsed,
    /// The agent has them.
    Added,
    /// The agent has those that need no files, because the folder contains everything that the person has.
    WithoutFiles,
}

/// Reads the config that is named, or that is found, over the user-wide config. Without any of them it is empty.
pub fn read_config(named: Option<&PathBuf>) -> Result<Config, Report> {
    read_over_user_config(config_path(named.cloned()).as_deref()).map_err(ConfigErrors::first)
}

/// Does the same as [`read_config_with_toolboxes`] without plugin directories that the command line names.
pub fn read_runner_config(named: Option<&PathBuf>) -> Result<Config, Report> {
    read_config_with_toolboxes(named, &[])
}

/// Reads the config of a command that runs an agent, like [`read_config`]. If nothing names agents, the one that runs has the
/// default toolboxes, for the files of the project too, unless that is a person's home folder or contains it. `plugins` are
/// the plugin directories that the command line names.
pub fn read_config_with_toolboxes(named: Option<&PathBuf>, plugins: &[PathBuf]) -> Result<Config, Report> {
    let config = read_config(named)?;
    let (config, toolboxes) = with_default_toolboxes(config, plugins);
    if toolboxes == DefaultToolboxes::WithoutFiles {
        tell(
            "no agent is configured, and this folder contains all of your files: the default agent cannot read them; start it \
             in the folder of a project\n",
        );
    }
    Ok(config)
}

/// Gives the agent of a config that names none the default toolboxes. `plugins` are the plugin directories that the command
/// line names.
pub fn with_default_toolboxes(config: Config, plugins: &[PathBuf]) -> (Config, DefaultToolboxes) {
    // Most configs do, and a start need not look for what they do not use.
    if config.names_runners_or_toolboxes() {
        return (config, DefaultToolboxes::NotUsed);
    }
    let folder = std::env::current_dir().unwrap_or_default().join(&config.root);
    let folder = folder.canonicalize().unwrap_or(folder);
    let is_found = plugin_finder(&config, plugin_dirs(plugins));
    match contains_home(&folder) {
        true => (config.with_default_toolboxes(None, is_found), DefaultToolboxes::WithoutFiles),
        false => (config.with_default_toolboxes(Some(&folder), is_found), DefaultToolboxes::Added),
    }
}

/// Returns a function that returns `true` for the id of a plugin which the default agent can use: one that comes with the
/// host, or of a directory that is named or the person's own. No component is read.
fn plugin_finder(config: &Config, directories: PluginDirs) -> impl Fn(&str) -> bool + use<> {
    let PluginDirs { named, shipped, standard, .. } = directories;
    let mut of_named = PluginCatalog::new(&ComponentCompiler::in_process());
    of_named.add_all(&named);
    let personal = PluginCatalog::ids_in(&config.personal_plugin_directories(&standard));
    move |id| of_named.entry(id).is_some() || shipped.has(id) || personal.iter().any(|one| one == id)
}

/// Does the same as [`read_config`] without a message about what was found: the command that follows prints one.
pub fn read_config_silently(named: Option<&PathBuf>) -> Result<Config, Report> {
    let path = named.cloned().or_else(|| search().used().map(|found| found.path.clone()));
    read_over_user_config(path.as_deref()).map_err(ConfigErrors::first)
}

/// Does the same as [`read_config`] for a command that installs what a project or the person is to have: agent packages whose files
/// are missing are no error, and of all of them only the names of their agents are taken.
pub fn read_config_to_install(named: Option<&PathBuf>) -> Result<Config, Report> {
    let agents = InstalledAgents { names_alone: true, ..agents_of_person() };
    read_with_agents(config_path(named.cloned()).as_deref(), &agents).map_err(ConfigErrors::first)
}

/// Reads the config of a command that runs an agent in this folder, which is absolute, like [`read_config_with_toolboxes`] does
/// in the current one, and without a message about what was found.
pub fn read_config_of(folder: &Path, named: Option<&PathBuf>, plugins: &[PathBuf]) -> Result<Config, Report> {
    let path = named.cloned().or_else(|| search_in(folder).used().map(|found| found.path.clone()));
    let config = read_in_folder(path.as_deref(), folder.to_owned(), &agents_of_person());
    Ok(with_default_toolboxes(config.map_err(ConfigErrors::first)?, plugins).0)
}

/// Parses the config of a command that runs an agent of the project in this folder, over what the person has for all projects.
/// Plugins and default toolboxes are those of this host; the agents that are installed for the project are those of
/// `agents`.
pub fn parse_config_of(text: &str, folder: PathBuf, agents: &Path) -> Result<Config, Report> {
    let agents = InstalledAgents { project: Some(agents.to_owned()), ..agents_of_person() };
    let config = user_config().and_then(|user| Config::of_text(text, folder, user, &agents));
    let mut config = config.map_err(ConfigErrors::first)?;
    config.user.skills = home().map(|home| ProjectLayout::new(home).shared_skills());
    Ok(with_default_toolboxes(config, &[]).0)
}

/// Searches the config of a folder, whose path is absolute and without links.
pub fn search_in(folder: &Path) -> ProjectSearch {
    ProjectSearch::of(folder, folder, home().as_deref())
}

/// Reads the config of a project over the user-wide config; without a path, the user-wide config for the current folder.
pub fn read_over_user_config(path: Option<&Path>) -> Result<Config, ConfigErrors> {
    read_with_agents(path, &agents_of_person())
}

fn read_with_agents(path: Option<&Path>, agents: &InstalledAgents) -> Result<Config, ConfigErrors> {
    read_in_folder(path, std::env::current_dir().unwrap_or_default(), agents)
}

/// Reads the config of a project over what the person has for all projects: the user-wide config, agents and skills.
fn read_in_folder(path: Option<&Path>, folder: PathBuf, agents: &InstalledAgents) -> Result<Config, ConfigErrors> {
    let mut config = Config::of_project_with_agents(path, user_config()?, folder, agents)?;
    config.user.skills = home().map(|home| ProjectLayout::new(home).shared_skills());
    Ok(config)
}

/// Returns the agents that the person has installed for all projects.
pub fn agents_of_person() -> InstalledAgents {
    InstalledAgents { person: plugin_dirs(&[]).installed, ..InstalledAgents::default() }
}

/// Searches the config of the current folder.
pub fn search() -> ProjectSearch {
    let here = std::env::current_dir().unwrap_or_default();
    ProjectSearch::of(Path::new(""), &here, home().as_deref())
}

/// Returns the folder of the project: that of the config which is found above, or else the current one.
pub fn project_root() -> PathBuf {
    let search = search();
    let above = search.used().filter(|found| found.is_above);
    above.and_then(|found| Config::root_of(&found.path).ok()).unwrap_or_else(|| ".".into())
}

/// Returns the path of the config that is named, or that is found. The person did not name one that is found, and it may lie
/// in another person's project, so its path is shown.
pub fn config_path(named: Option<PathBuf>) -> Option<PathBuf> {
    named.or_else(|| {
        let search = search();
        let Some(found) = search.used() else {
            tell_unused(&search);
            return None;
        };
        let shown = name(&found.path.display().to_string());
        tell(&match found.is_above {
            false => format!("config {shown}\n"),
            true => format!("config {shown}, found above this folder: its project is the folder that it lies in\n"),
        });
        Some(found.path.clone())
    })
}

/// Prints that a config is there and was not used.
fn tell_unused(search: &ProjectSearch) {
    let unused = search.candidates.iter().find(|found| found.status != CandidateStatus::Missing);
    if let Some(unused) = unused {
        let shown = name(&unused.path.display().to_string());
        tell(&match &unused.status {
            CandidateStatus::LinkOut if !unused.is_above => {
                format!("the config {shown} is a link out of this folder and was not used: --config {shown}\n")
            }
            CandidateStatus::NoFile => format!("the config {shown} was not used: it is not a file\n"),
            status => format!("the config {shown} was not used, because {status}: --config {shown}\n"),
        });
    } else if let Some(above) = above() {
        let above = name(&above.display().to_string());
        tell(&format!("the config {above} is not of this folder and was not used: --config {above}\n"));
    }
}

/// Returns the config of the nearest ancestor of the current folder that has one, wherever the search has ended.
pub fn above() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    let around = here.ancestors().skip(1).scan(PathBuf::new(), |path, _| {
        path.push("..");
        Some(path.clone())
    });
    around.into_iter().find_map(|folder| {
        let real = folder.canonicalize().ok()?;
        ProjectSearch::of(&folder, &real, Some(&real)).used().map(|found| found.path.clone())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn default_agent_finds_plugins_of_named_and_own_directories() {
        let folder = tempfile::tempdir().unwrap();
        let [named, own, data] = ["named", "own", "data"].map(|name| folder.path().join(name));
        let manifest = |id: &str| format!("id = \"{id}\"\nkinds = [\"tool\"]\ncomponent = \"c.wasm\"\n");
        // A named directory is read as a whole, whatever its folders are called.
        for (directory, name, id) in [(&named, "any", "search"), (&own, "fetch", "fetch"), (&data, "ids", "ids")] {
            fs::create_dir_all(directory.join(name)).unwrap();
            fs::write(directory.join(name).join("plugin.toml"), manifest(id)).unwrap();
        }
        let mut config = Config::default();
        config.user.plugin_dirs = vec![own];
        let dirs = PluginDirs { named: vec![named], standard: vec![data], ..PluginDirs::default() };
        let is_found = plugin_finder(&config, dirs.clone());
        for (id, expected) in [("search", true), ("fetch", true), ("ids", true), ("filesystem", false)] {
            assert_eq!(is_found(id), expected, "{id}");
        }
        let is_found = plugin_finder(&Config::default(), PluginDirs { named: Vec::new(), ..dirs });
        assert!(is_found("ids") && !is_found("search") && !is_found("fetch"), "nothing names the others");
    }
}
