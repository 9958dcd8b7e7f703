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
        plugin::packages::{PackageFetcher, PackagePlaceArgs, PackageUpdater, UpdateOutcome},
        render::name,
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
        self.update_all(&self.ids, &self.place)
    }
}

impl PackageUpdater for AgentUpdateArgs {
    type Locked = LockedAgentPackage;
    const KIND: &'static str = "agent package";
    const COMMAND: &'static str = "agent";

    fn find(id: &str, lock: &PackageLock) -> Result<LockedAgentPackage, Report> {
        lock.agent(id).cloned().ok_or_else(|| not_installed(id, lock))
    }

    fn all(lock: &PackageLock) -> Vec<LockedAgentPackage> {
        lock.agents().cloned().collect()
    }

    fn named(locked: &LockedAgentPackage) -> String {
        named_package(locked)
    }

    async fn update_one(
        &self,
        before: &LockedAgentPackage,
        (config, place): (&Config, &PackagePlace),
        lock: &mut PackageLock,
        fetcher: &PackageFetcher,
    ) -> Result<UpdateOutcome, Report> {
        let Some(source) = fetcher.newer_agent_source(before, place).await? else {
            return Ok(UpdateOutcome::UpToDate);
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
            return Ok(UpdateOutcome::Declined);
        }
        candidate.install(place, lock)?;
        Ok(UpdateOutcome::Updated(named_package(&now)))
    }
}
