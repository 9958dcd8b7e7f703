//! The decision if an agent package may be installed, or take the place of the installed version.

use clap::Args;

use super::{agent_candidate::AgentCandidate, agent_growth::InstalledVersion, package_names::named_package};
use crate::{
    cli::{ask, render::escaped},
    error::{ErrorKind, Report},
    packages::{LockedAgentPackage, VersionOrder},
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
            (false, true) => Ok(asked(&format!("{head}\n{}\ninstall it?", lines.join("\n"))).await),
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
        let (locked, installed) = before;
        self.check_order(locked, &candidate.locked)?;
        let grown: Vec<_> = installed.changes_to(candidate).into_iter().filter(|change| change.is_growth).collect();
        match (self.yes, ask::is_attended()) {
            (true, _) => Ok(true),
            (false, true) => {
                let lines = installed.shown_changes(locked, candidate);
                Ok(asked(&format!("{}\nuse it?", lines.join("\n"))).await)
            }
            (false, false) if grown.is_empty() => Ok(true),
            (false, false) => {
                let (now, old) = (named_package(&candidate.locked), &locked.version);
                let message =
                    format!("the agent package {now} reaches more, or tells its agents something else, than {old}");
                let report = Report::new(ErrorKind::Plugin, message);
                let report = grown.iter().fold(report, |report, change| report.cause(escaped(&change.line)));
                Err(report.hint("nobody can be asked here; --yes accepts it, after you have read what changes"))
            }
        }
    }

    /// Refuses an older version.
    fn check_order(&self, before: &LockedAgentPackage, now: &LockedAgentPackage) -> Result<(), Report> {
        let order = VersionOrder::of(&now.version, &before.version);
        if self.allow_downgrade || matches!(order, VersionOrder::Newer | VersionOrder::Same) {
            return Ok(());
        }
        let (id, now, old) = (&before.id, &now.version, &before.version);
        let message = format!("the agent package `{id}` has version {now}, older than the installed {old}");
        Err(Report::new(ErrorKind::Plugin, message).hint("--allow-downgrade accepts it"))
    }
}

async fn asked(shown: &str) -> bool {
    ask::choose(&format!("{shown} 1 no, 2 yes; "), &["no", "yes"]).await == Some(1)
}
