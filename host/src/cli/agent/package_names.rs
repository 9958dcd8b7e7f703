//! Names of agent packages in messages.

use crate::{
    cli::render::name,
    config::nearest,
    error::{ErrorKind, Report},
    packages::{LockedAgentPackage, PackageLock},
};

/// Returns the id and version of an agent package, as messages show them.
pub(super) fn named_package(locked: &LockedAgentPackage) -> String {
    format!("`{}` {}", locked.id, name(&locked.version))
}

/// Returns the report for an id that a lock file does not have.
pub(super) fn not_installed(id: &str, lock: &PackageLock) -> Report {
    let known: Vec<_> = lock.agents().map(|package| package.id.as_str()).collect();
    let report = Report::new(ErrorKind::Usage, format!("the agent package `{}` is not installed", id.escape_debug()));
    // An agent may have another name than its package.
    let of_agent = lock.agents().find(|package| package.runners.iter().any(|name| name == id));
    match (of_agent, nearest(id, &known)) {
        (Some(package), _) => report.hint(format!("the agent comes with the package `{}`", package.id)),
        (None, Some(near)) => report.hint(format!("did you mean `{near}`?")),
        (None, None) if known.is_empty() => {
            report.hint("no agent package is installed here; --user means those that you have in all projects")
        }
        (None, None) => report.hint(format!("installed are: {}", known.join(", "))),
    }
}
