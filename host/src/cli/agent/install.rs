//! `shelly-host agent install`.

use clap::Args;

use super::{
    agent_acceptance::AgentAcceptanceArgs, agent_candidate::AgentPackageInspector, agent_growth::InstalledVersion,
    package_names::named_package,
};
use crate::{
    cli::{
        command_runtime::runtime,
        plugin::packages::{
            IndexedKind, PackageFetcher, PackageIndexArgs, PackagePlaceArgs, check_indexed, guard, is_index_name,
            restore,
        },
        render::{name, print},
    },
    config::Config,
    error::{ErrorKind, Report},
    packages::{PackagePlace, PackageSource},
};

/// Install agents of somebody else into the project, or get everything that its lock file names.
///
/// A package brings agents and teams with their instructions, skills and plugins. You are shown what they reach, and are asked; without
/// a terminal it needs --yes. The files are stored under the digest of the package and written into shelly.lock. Nothing of the package
/// runs. Its agents use your default model, or the one of --model, and can be named like those of the config.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host agent install oci://ghcr.io/me/reviewer:1.0.0
  shelly-host agent install https://agents.example.com/reviewer/agent.toml
  shelly-host agent install ./reviewer --yes
  shelly-host agent install")]
pub struct AgentInstallArgs {
    /// A package's folder, its agent.toml, an https:// URL of that, oci://REGISTRY/NAME:TAG, or a name of the index (default: everything that the lock file names).
    #[arg(value_name = "SOURCE")]
    source: Option<String>,
    /// The model of your config that the agents use (default: the default model).
    #[arg(long, value_name = "NAME", requires = "source")]
    model: Option<String>,
    #[command(flatten)]
    index: PackageIndexArgs,
    #[command(flatten)]
    place: PackagePlaceArgs,
    #[command(flatten)]
    acceptance: AgentAcceptanceArgs,
}

impl AgentInstallArgs {
    /// Installs the package, or everything that the lock file names.
    pub fn install(&self) -> Result<u8, Report> {
        let (config, place) = self.place.open()?;
        let _guard = guard(&place, self.source.is_some())?;
        let Some(source) = &self.source else {
            return runtime()?.block_on(restore(&place, "agent", self.place.shown()));
        };
        runtime()?.block_on(self.add(source, &config, &place))
    }

    /// Gets a package, asks about it, and installs it. `named` is the source as the person has written it.
    async fn add(&self, named: &str, config: &Config, place: &PackagePlace) -> Result<u8, Report> {
        let fetcher = PackageFetcher::new()?;
        let source = if is_index_name(named) {
            self.index.find(IndexedKind::AgentPackage, named, config, &fetcher).await?
        } else {
            PackageSource::parse_agent(named).map_err(|error| error.report())?
        };
        let mut lock = place.read_lock().map_err(|error| error.report())?;
        let fetched = fetcher.fetch_agent(&source).await?;
        let inspector = AgentPackageInspector { place, config, lock: &lock };
        let candidate = inspector.inspect(&source, fetched, self.model.as_deref()).await?;
        let now = candidate.locked.clone();
        check_indexed("agent package", named, &now.id, &source)?;
        let before = lock.agent(&now.id).cloned();
        let is_accepted = match &before {
            Some(before) if before.digest == now.digest => true,
            Some(before) => {
                let installed = InstalledVersion::read(&inspector, before);
                self.acceptance.accepts((before, &installed), &candidate).await?
            }
            None => self.acceptance.accepts_new(&candidate).await?,
        };
        if !is_accepted {
            print(&format!("nothing was installed: the agent package {} was declined", named_package(&now)))?;
            return Ok(ErrorKind::Run.exit_code());
        }
        let mut described = candidate.described();
        candidate.install(place, &mut lock)?;
        let lock = name(&place.lock_file().display().to_string());
        described.insert(0, format!("installed    {} ({lock} names it; nothing of it has run)", named_package(&now)));
        print(&described.join("\n"))?;
        Ok(0)
    }
}
