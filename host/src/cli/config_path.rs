//! Finds and reads the configs of a command: the user-wide one, and the one that the command line names or that is found in
//! the project.

use std::path::{Path, PathBuf};

use super::{
    host_environment::plugin_dirs,
    project_search::{CandidateStatus, ProjectSearch},
    render::{name, tell},
    user_config_path::{home, user_config},
};
use crate::{
    config::{Config, ConfigErrors},
    error::Report,
    plugin::{PluginCatalog, PluginDirs},
};

/// Reads the config that is named, or that is found, over the user-wide config. Without any of them it is empty.
pub fn read_config(named: Option<&PathBuf>) -> Result<Config, Report> {
    read_over_user_config(config_path(named.cloned()).as_deref()).map_err(ConfigErrors::first)
}

/// Reads the config of a command that runs an agent, in the same way. If nothing names agents, the one that runs has the
/// default toolboxes, for the files of the project too, unless that is a person's home folder or contains it.
pub fn read_runner_config(named: Option<&PathBuf>) -> Result<Config, Report> {
    let config = read_config(named)?;
    let (config, has_files) = with_default_toolboxes(config);
    if !has_files {
        tell(
            "no agent is configured, and this folder contains all of your files: the default agent cannot read them; start it \
             in the folder of a project\n",
        );
    }
    Ok(config)
}

/// Gives the agent of a config that names none the default toolboxes. Returns `false` beside it if they leave out the files,
/// because the folder contains everything that the person has.
pub fn with_default_toolboxes(config: Config) -> (Config, bool) {
    // Most configs do, and a start need not look for what they do not use.
    if config.names_runners_or_toolboxes() {
        return (config, true);
    }
    let folder = std::env::current_dir().unwrap_or_default().join(&config.root);
    let folder = folder.canonicalize().unwrap_or(folder);
    let home = home().map(|home| home.canonicalize().unwrap_or(home));
    let contains_home = folder.parent().is_none() || home.is_some_and(|home| home.starts_with(&folder));
    let PluginDirs { shipped, standard, .. } = plugin_dirs(&[]);
    let installed = PluginCatalog::ids_in(&standard);
    let is_installed = |id: &str| shipped.has(id) || installed.iter().any(|one| one == id);
    let config = config.with_default_toolboxes((!contains_home).then_some(&*folder), is_installed);
    (config, !contains_home)
}

/// Does the same as [`read_config`] without a message about what was found: the command that follows prints one.
pub fn read_config_silently(named: Option<&PathBuf>) -> Result<Config, Report> {
    let path = named.cloned().or_else(|| search().used().map(|found| found.path.clone()));
    read_over_user_config(path.as_deref()).map_err(ConfigErrors::first)
}

/// Reads the config of a project over the user-wide config; without a path, the user-wide config for the current folder.
pub fn read_over_user_config(path: Option<&Path>) -> Result<Config, ConfigErrors> {
    let user = user_config()?;
    match (path, user) {
        (Some(path), user) => Config::read_with_user(path, user),
        (None, Some(user)) => Config::of_user(user, std::env::current_dir().unwrap_or_default()),
        (None, None) => Ok(Config::default()),
    }
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
