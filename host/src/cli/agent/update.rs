//! `shelly-host agent update`.

use clap::Args;

use super::{
    agent_acceptance::AgentAcceptanceArgs,
    agent_candidate::AgentPackageInspector,
    agent_growth::InstalledVersion,
    package_names::{named_package, not_installed},
};
use crate::{
    cli::{
        command_runtime::runtime,
        plugin::packages::{PackageFetcher, PackagePlaceArgs, guard},
        render::{name, print},
    },
    config::Config,
    error::{ErrorKind, Report},
    packages::{LockedAgentPackage, PackageLock, PackagePlace},
};

/// Update installed agent packages from where they came from, after showing what changes.
///
/// A package from a tag that is a version, such as 1.0.0, goes to the newest release of its repository; from another tag, to what
/// that names now. You are shown what the agents reach beyond before, new and changed plugins, and the changed instructions and
/// skills, and are asked. Without a terminal a package that grows is refused, unless --yes is given.
#[derive(Args)]
pub struct AgentUpdateArgs {
    /// The packages' ids (default: all that are installed).
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    place: PackagePlaceArgs,
    #[command(flatten)]
    acceptance: AgentAcceptanceArgs,
}

impl AgentUpdateArgs {
    /// Updates the packages, one after the other.
    pub fn update(&self) -> Result<u8, Report> {
        let (config, place) = self.place.open()?;
        let _guard = guard(&place, false)?;
        let mut lock = place.read_lock().map_err(|error| error.report())?;
        let mut wanted = Vec::new();
        for id in &self.ids {
            wanted.push(lock.agent(id).cloned().ok_or_else(|| not_installed(id, &lock))?);
        }
        if self.ids.is_empty() {
            wanted.extend(lock.agents().cloned());
        }
        if wanted.is_empty() {
            return Err(Report::new(ErrorKind::Usage, "no agent package is installed")
                .hint(format!("install one: shelly-host agent install SOURCE{}", self.place.shown())));
        }
        let fetcher = PackageFetcher::new()?;
        runtime()?.block_on(async {
            let mut code = 0;
            for before in &wanted {
                code = code.max(self.update_one(before, (&config, &place), &mut lock, &fetcher).await?);
            }
            Ok(code)
        })
    }

    /// Updates a package, and prints what has become of it. Returns an exit code that is not 0 if the person has declined.
    async fn update_one(
        &self,
        before: &LockedAgentPackage,
        (config, place): (&Config, &PackagePlace),
        lock: &mut PackageLock,
        fetcher: &PackageFetcher,
    ) -> Result<u8, Report> {
        let old = named_package(before);
        let Some(source) = fetcher.newer_agent_source(before, place).await? else {
            print(&format!("up to date   {old}"))?;
            return Ok(0);
        };
        let fetched = fetcher.fetch_agent(&source).await?;
        let inspector = AgentPackageInspector { place, config, lock };
        let candidate = inspector.inspect(&source, fetched, None).await?;
        let now = candidate.locked.clone();
        if now.id != before.id {
            let source = name(&source.to_string());
            let message = format!("{source} now has the agent package `{}`, not `{}`", now.id, before.id);
            return Err(Report::new(ErrorKind::Plugin, message)
                .hint("nothing was changed; `shelly-host agent install` installs the other package"));
        }
        let installed = InstalledVersion::read(&inspector, before);
        if !self.acceptance.accepts((before, &installed), &candidate).await? {
            print(&format!("left as is   {old}"))?;
            return Ok(ErrorKind::Run.exit_code());
        }
        candidate.install(place, lock)?;
        print(&format!("updated      {} (was {old})", named_package(&now)))?;
        Ok(0)
    }
}
