//! `shelly-host plugin update`.

use clap::Args;

use super::{
    acceptance::AcceptanceArgs,
    package_candidate::{PackageInspector, named},
    package_fetch::PackageFetcher,
    place_args::{PackagePlaceArgs, guard, not_installed, refuse_contained},
};
use crate::{
    cli::{
        command_runtime::runtime,
        render::{name, print},
    },
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
        let (config, place) = self.place.open()?;
        let _guard = guard(&place, false)?;
        let mut lock = place.read_lock().map_err(|error| error.report())?;
        let mut wanted = Vec::new();
        for id in &self.ids {
            let locked = lock.get(id).cloned().ok_or_else(|| not_installed(id, &lock))?;
            refuse_contained(&locked)?;
            wanted.push(locked);
        }
        if self.ids.is_empty() {
            wanted.extend(lock.iter().filter(|locked| locked.agent.is_none()).cloned());
        }
        if wanted.is_empty() {
            return Err(Report::new(ErrorKind::Usage, "no plugin is installed")
                .hint(format!("install one: shelly-host plugin install SOURCE{}", self.place.shown())));
        }
        let fetcher = PackageFetcher::new()?;
        runtime()?.block_on(async {
            let mut code = 0;
            for before in &wanted {
                let line = self.update_one(before, (&config, &place), &mut lock, &fetcher).await?;
                code = code.max(if line.is_some() { 0 } else { ErrorKind::Run.exit_code() });
                print(&line.unwrap_or_else(|| format!("left as is   {}", named(before))))?;
            }
            Ok(code)
        })
    }

    /// Updates a plugin. Returns the line that says what has become of it; `None` if the person has declined.
    async fn update_one(
        &self,
        before: &LockedPluginPackage,
        (config, place): (&Config, &PackagePlace),
        lock: &mut PackageLock,
        fetcher: &PackageFetcher,
    ) -> Result<Option<String>, Report> {
        let Some(source) = fetcher.newer_source(before, place).await? else {
            return Ok(Some(format!("up to date   {}", named(before))));
        };
        let candidate = PackageInspector::new(place, config).inspect(&source, fetcher.fetch(&source).await?).await?;
        let now = candidate.locked.clone();
        if now.id != before.id {
            let message = format!("{} now has the plugin `{}`, not `{}`", name(&source.to_string()), now.id, before.id);
            return Err(Report::new(ErrorKind::Plugin, message)
                .hint("nothing was changed; `shelly-host plugin install` installs the other plugin"));
        }
        if !self.acceptance.accepts(before, &now).await? {
            return Ok(None);
        }
        candidate.install(place, lock)?;
        Ok(Some(format!("updated      {} (was {})", named(&now), named(before))))
    }
}
