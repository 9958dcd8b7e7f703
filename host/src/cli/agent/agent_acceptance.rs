//! The decision if an agent package may be installed, or take the place of the installed version.

use clap::Args;

use super::{agent_candidate::AgentCandidate, agent_growth::InstalledVersion, package_names::named_package};
use crate::{
    cli::{
        ask,
        plugin::packages::{AcceptanceArgs, VersionChange, is_confirmed},
        render::escaped,
    },
    error::{ErrorKind, Report},
    packages::LockedAgentPackage,
};

/// The options that say which agent packages are accepted.
#[derive(Args)]
pub struct AgentAcceptanceArgs {
    /// Accept the package without a question, after you have read what it brings.
    #[arg(long)]
    yes: bool,
    /// Accept a version that is older than the installed one.
    #[arg(long)]
    allow_downgrade: bool,
}

impl AgentAcceptanceArgs {
    /// Returns `true` if a package may be installed that was not there before. A person at a terminal is shown what it brings, and
    /// is asked.
    ///
    /// # Errors
    ///
    /// A [`Report`] if nobody can be asked.
    pub(super) async fn accepts_new(&self, candidate: &AgentCandidate) -> Result<bool, Report> {
        let head = format!("the agent package {}", named_package(&candidate.locked));
        let lines = candidate.described();
        match (self.yes, ask::is_attended()) {
            (true, _) => Ok(true),
            (false, true) => Ok(is_confirmed(&format!("{head}\n{}\ninstall it?", lines.join("\n"))).await),
            (false, false) => {
                let report = Report::new(ErrorKind::Plugin, format!("{head} is installed only with your consent"));
                let lines = lines.iter().flat_map(|line| line.lines());
                let report = lines.fold(report, |report, line| report.cause(line.trim()));
                Err(report.hint("nobody can be asked here; --yes accepts it, after you have read what it brings"))
            }
        }
    }

    /// Returns `true` if a package may take the place of the installed version. A person at a terminal is shown what changes, and
    /// is asked.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the version is older, or nobody can be asked about one that reaches more or tells its agents something else.
    pub(super) async fn accepts(
        &self,
        before: (&LockedAgentPackage, &InstalledVersion),
        candidate: &AgentCandidate,
    ) -> Result<bool, Report> {
        let ((locked, installed), now) = (before, &candidate.locked);
        let grown = installed.changes_to(candidate).into_iter().filter(|change| change.is_growth);
        let change = VersionChange {
            package: format!("the agent package `{}`", locked.id),
            before: &locked.version,
            now: &now.version,
            growth: grown.map(|change| escaped(&change.line)).collect(),
            growth_text: format!(
                "the agent package {} reaches more, or tells its agents something else, than {}",
                named_package(now),
                locked.version
            ),
            to_read: "what changes",
        };
        let of_versions = AcceptanceArgs { yes: self.yes, allow_downgrade: self.allow_downgrade };
        of_versions.accepts(&change, || installed.shown_changes(locked, candidate)).await
    }
}
