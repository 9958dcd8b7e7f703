//! `shelly-host plugin update`.

use clap::Args;

use super::{
    acceptance::AcceptanceArgs,
    package_candidate::{PackageInspector, named},
    package_fetch::PackageFetcher,
    package_updater::{PackageUpdater, UpdateOutcome},
    place_args::{PackagePlaceArgs, not_installed, refuse_contained},
};
use crate::{
    cli::render::name,
    config::Config,
    error::{ErrorKind, Report},
    packages::{LockedPluginPackage, PackageLock, PackagePlace},
};

/// Update installed plugins from where they came from, after showing what changes.
///
/// A plugin from a tag that is a version, such as 1.0.0, goes to the newest release of its repository; from another tag, to what
/// that names now. You are shown new imports, wants and tools, changed descriptions and schemas, and the size, and are asked.
/// Without a terminal a plugin that can do more is refused, unless --yes is given.
#[derive(Args)]
pub struct PluginUpdateArgs {
    /// The plugins' ids (default: all that are installed).
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    place: PackagePlaceArgs,
    #[command(flatten)]
    acceptance: AcceptanceArgs,
}

impl PluginUpdateArgs {
    /// Updates the plugins, one after the other.
    pub fn update(&self) -> Result<u8, Report> {
        self.update_all(&self.ids, &self.place)
    }
}

impl PackageUpdater for PluginUpdateArgs {
    type Locked = LockedPluginPackage;
    const KIND: &'static str = "plugin";
    const COMMAND: &'static str = "plugin";

    fn find(id: &str, lock: &PackageLock) -> Result<LockedPluginPackage, Report> {
        let locked = lock.get(id).cloned().ok_or_else(|| not_installed(id, lock))?;
        refuse_contained(&locked)?;
        Ok(locked)
    }

    fn all(lock: &PackageLock) -> Vec<LockedPluginPackage> {
        lock.iter().filter(|locked| locked.agent.is_none()).cloned().collect()
    }

    fn named(locked: &LockedPluginPackage) -> String {
        named(locked)
    }

    async fn update_one(
        &self,
        before: &LockedPluginPackage,
        (config, place): (&Config, &PackagePlace),
        lock: &mut PackageLock,
        fetcher: &PackageFetcher,
    ) -> Result<UpdateOutcome, Report> {
        let Some(source) = fetcher.newer_source(before, place).await? else { return Ok(UpdateOutcome::UpToDate) };
        let candidate = PackageInspector::new(place, config).inspect(&source, fetcher.fetch(&source).await?).await?;
        let now = candidate.locked.clone();
        if now.id != before.id {
            let message = format!("{} now has the plugin `{}`, not `{}`", name(&source.to_string()), now.id, before.id);
            return Err(Report::new(ErrorKind::Plugin, message)
                .hint("nothing was changed; `shelly-host plugin install` installs the other plugin"));
        }
        if !self.acceptance.accepts_plugin(before, &now).await? {
            return Ok(UpdateOutcome::Declined);
        }
        candidate.install(place, lock)?;
        Ok(UpdateOutcome::Updated(named(&now)))
    }
}
