//! `shelly-host plugin install`.

use clap::Args;

use super::{
    acceptance::AcceptanceArgs,
    index_args::{IndexedKind, PackageIndexArgs, check_indexed, is_index_name},
    package_candidate::{PackageInspector, described, named},
    package_fetch::PackageFetcher,
    place_args::{PackagePlaceArgs, guard, refuse_contained},
    restore::restore,
};
use crate::{
    cli::{
        command_runtime::runtime,
        render::{name, print},
    },
    config::Config,
    error::{ErrorKind, Report},
    packages::{PackageError, PackagePlace, PackageSource},
};

/// Install a plugin into the project, or get everything that its lock file names.
///
/// The plugin is checked, stored under the digest of its files, and written into shelly.lock with what it wants, imports and
/// offers. Nothing of it runs. Runs use it if a config names it, and only as long as its files are those of the lock file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin install build/dice
  shelly-host plugin install words.wasm --user
  shelly-host plugin install oci://ghcr.io/me/dice:1.0.0
  shelly-host plugin install https://plugins.example.com/dice/plugin.toml
  shelly-host plugin install")]
pub struct PluginInstallArgs {
    /// A plugin's folder, a component file, an https:// URL, oci://REGISTRY/NAME:TAG, or a name of the index (default: everything that the lock file names).
    #[arg(value_name = "SOURCE")]
    source: Option<String>,
    #[command(flatten)]
    index: PackageIndexArgs,
    #[command(flatten)]
    place: PackagePlaceArgs,
    #[command(flatten)]
    acceptance: AcceptanceArgs,
}

impl PluginInstallArgs {
    /// Installs the plugin, or everything that the lock file names.
    pub fn install(&self) -> Result<u8, Report> {
        let (config, place) = self.place.open()?;
        let _guard = guard(&place, self.source.is_some())?;
        runtime()?.block_on(async {
            match &self.source {
                Some(source) => self.add(&config, &place, source).await,
                None => restore(&place, "plugin", self.place.shown()).await,
            }
        })
    }

    /// Gets a plugin and installs it. `named_source` is what the person has written.
    async fn add(&self, config: &Config, place: &PackagePlace, named_source: &str) -> Result<u8, Report> {
        let report = |error: PackageError| error.report();
        let mut lock = place.read_lock().map_err(report)?;
        let fetcher = PackageFetcher::new()?;
        let source = match is_index_name(named_source) {
            true => self.index.find(IndexedKind::Plugin, named_source, config, &fetcher).await?,
            false => PackageSource::parse(named_source).map_err(report)?,
        };
        let fetched = fetcher.fetch(&source).await?;
        let candidate = PackageInspector::new(place, config).inspect(&source, fetched).await?;
        let now = candidate.locked.clone();
        check_indexed("plugin", named_source, &now.id, &source)?;
        let before = lock.get(&now.id).filter(|before| before.digest != now.digest).cloned();
        before.as_ref().map_or(Ok(()), refuse_contained)?;
        if let Some(before) = before
            && !self.acceptance.accepts_plugin(&before, &now).await?
        {
            print(&format!("the plugin {} was left as it is", named(&before)))?;
            return Ok(ErrorKind::Run.exit_code());
        }
        candidate.install(place, &mut lock)?;
        let lock = name(&place.lock_file().display().to_string());
        let mut lines = vec![format!("installed    {} ({lock} names it; nothing of it has run)", named(&now))];
        lines.extend(described(&now));
        print(&lines.join("\n"))?;
        Ok(0)
    }
}
