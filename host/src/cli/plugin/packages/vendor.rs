//! `shelly-host plugin vendor`.

use std::{collections::BTreeSet, path::PathBuf};

use clap::Args;

use super::{
    package_candidate::named,
    place_args::{guard, project_and_person},
    restore::restore,
};
use crate::{
    cli::{command_runtime::runtime, render::print},
    config::{AgentConfig, Config},
    error::{ErrorKind, Report},
    packages::{LockedPluginPackage, PackageError, PackageLock, PackagePlace, PackageSource},
};

/// Put every installed plugin that the config names into the project, so that it needs no network and nothing of yours.
///
/// Plugins that you have in all projects are copied into the project's store and lock file. Then everything that the lock file
/// names is got, as `plugin install` does without a source.
#[derive(Args)]
pub struct PluginVendorArgs {
    /// The config file of the project (default: .shelly/config.yaml or shelly.yaml).
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl PluginVendorArgs {
    /// Copies the plugins, and gets those that are missing.
    pub fn vendor(&self) -> Result<u8, Report> {
        let (config, project, person) = project_and_person(self.config.as_ref())?;
        let _guard = guard(&project, person.is_some())?;
        let mut lock = project.read_lock().map_err(|error| error.report())?;
        let mut copied = Vec::new();
        if let Some(person) = &person {
            let own = person.read_lock().map_err(|error| error.report())?;
            let used = used_plugins(&config);
            // A plugin of an agent package stays with it.
            let is_wanted = |locked: &&LockedPluginPackage| locked.agent.is_none() && used.contains(locked.id.as_str());
            for locked in own.iter().filter(is_wanted).filter(|locked| lock.get(&locked.id).is_none()) {
                copied.push(copy(locked, person, &project)?);
            }
        }
        if !copied.is_empty() {
            let lines: Vec<_> = copied.iter().map(|locked| format!("copied       {}", named(locked))).collect();
            add(copied, &mut lock, &project)?;
            print(&lines.join("\n"))?;
        }
        runtime()?.block_on(restore(&project, "plugin", ""))
    }
}

/// Copies a plugin into the store of the project. Returns its entry there.
fn copy(
    locked: &LockedPluginPackage,
    person: &PackagePlace,
    project: &PackagePlace,
) -> Result<LockedPluginPackage, Report> {
    let report = |error: PackageError| error.report();
    let files = person.store.read(locked).map_err(report)?.ok_or_else(|| {
        let message = format!("the plugin {} is not in {}", named(locked), person.store.root().display());
        Report::new(ErrorKind::Plugin, message).hint("get it with `shelly-host plugin install --user`")
    })?;
    project.store.stage(&files).and_then(|staged| staged.install()).map_err(report)?;
    let source = PackageSource::parse(&locked.source).map_err(report)?.of_lock_in(person.lock_folder());
    Ok(LockedPluginPackage { source: source.relative_to(project.lock_folder()).to_string(), ..locked.clone() })
}

fn add(copied: Vec<LockedPluginPackage>, lock: &mut PackageLock, project: &PackagePlace) -> Result<(), Report> {
    copied.into_iter().for_each(|locked| lock.insert(locked));
    project.write_lock(lock).map_err(|error| error.report())
}

/// Returns the ids of the plugins that a config names.
fn used_plugins(config: &Config) -> BTreeSet<&str> {
    let of_agents = config.everyone().flat_map(AgentConfig::all_plugins).map(|(_, id, _)| id);
    of_agents.chain(config.providers.iter().filter_map(|provider| provider.plugin.as_deref())).collect()
}
