//! The choice between the plugins of a project and those of a person.

use std::{fs::File, path::PathBuf};

use clap::Args;

use crate::{
    cli::{config_path::read_config_to_install, host_environment::plugin_dirs},
    config::{Config, nearest},
    error::{ErrorKind, Report},
    files,
    packages::{LockedPluginPackage, PackageLock, PackagePlace},
};

/// The options that say where plugins and agent packages are installed.
#[derive(Args)]
pub struct PackagePlaceArgs {
    /// Use what you have installed for all projects, instead of what this project has.
    #[arg(long)]
    user: bool,
    /// The config file of the project (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl PackagePlaceArgs {
    /// Returns the config, and the lock file and store that the options choose.
    pub fn open(&self) -> Result<(Config, PackagePlace), Report> {
        let config = read_config_to_install(self.config.as_ref())?;
        let place = match self.user {
            true => place_of_person()?,
            false => PackagePlace::of_project(&config.root),
        };
        Ok((config, place))
    }

    /// Returns the options as they are written on a command line, for a hint.
    pub fn shown(&self) -> &'static str {
        if self.user { " --user" } else { "" }
    }
}

/// Keeps other processes from changing what is installed until the result is dropped. Nothing is created where nothing is
/// installed, unless `is_first` says that something will be.
pub fn guard(place: &PackagePlace, is_first: bool) -> Result<Option<File>, Report> {
    match is_first || place.lock_file().exists() {
        true => place.store.lock().map_err(|error| error.report()),
        false => Ok(None),
    }
}

/// Returns the config, with the lock files and stores of the project and of the person.
pub fn project_and_person(config: Option<&PathBuf>) -> Result<(Config, PackagePlace, Option<PackagePlace>), Report> {
    let config = read_config_to_install(config)?;
    let of_person = plugin_dirs(&[]).installed.map(|folder| PackagePlace::of_person(&folder));
    let of_project = PackagePlace::of_project(&config.root);
    Ok((config, of_project, of_person))
}

/// Returns the lock file and store of the person, whose folder is created.
fn place_of_person() -> Result<PackagePlace, Report> {
    let folder = plugin_dirs(&[]).installed.ok_or_else(|| {
        Report::new(ErrorKind::Usage, "there is no folder for the plugins that you have in all projects")
            .hint("set HOME, or XDG_DATA_HOME to an absolute path")
    })?;
    files::create_private_folders(&folder)
        .map_err(|error| Report::new(ErrorKind::Usage, format!("cannot create {}", folder.display())).cause(error))?;
    Ok(PackagePlace::of_person(&folder))
}

/// Refuses to change or remove a plugin that an agent package contains.
pub(super) fn refuse_contained(locked: &LockedPluginPackage) -> Result<(), Report> {
    let Some(agent) = &locked.agent else { return Ok(()) };
    let message = format!("the plugin `{}` comes with the agent package `{agent}`", locked.id);
    Err(Report::new(ErrorKind::Usage, message).hint(format!(
        "change it with the package: shelly-host agent update {agent}; or remove both: shelly-host agent remove {agent}"
    )))
}

/// Returns the report for an id that a lock file does not have.
pub(super) fn not_installed(id: &str, lock: &PackageLock) -> Report {
    let known: Vec<_> = lock.iter().map(|package| package.id.as_str()).collect();
    let report = Report::new(ErrorKind::Usage, format!("the plugin `{}` is not installed", id.escape_debug()));
    match (nearest(id, &known), known.is_empty()) {
        (Some(near), _) => report.hint(format!("did you mean `{near}`?")),
        (None, true) => report.hint("no plugin is installed here; --user means those that you have in all projects"),
        (None, false) => report.hint(format!("installed are: {}", known.join(", "))),
    }
}
