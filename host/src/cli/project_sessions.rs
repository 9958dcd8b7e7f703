//! The sessions of a project: its files, or those of the cluster that its config names.

use std::{path::Path, thread};

use super::{
    ask::{self, Consent, ConsentPrompt},
    config_path::read_over_user_config,
    render::name,
    trust,
};
use crate::{
    app,
    config::Config,
    error::{ErrorKind, Report},
    session::SessionStore,
    trust::RiskLevel,
};

/// Returns the sessions of the project with this config. `is_trusted`: the person has named the config, or has consented
/// to it. Otherwise the person is asked about a cluster, where there is one to ask.
///
/// # Errors
///
/// A [`Report`] if the config names a cluster to which the person has not consented: nothing is sent there.
pub fn sessions_of(config: &Config, is_trusted: bool) -> Result<SessionStore, Report> {
    admit_cluster(config, is_trusted)?;
    Ok(app::sessions_of(config, trust::own_key()))
}

/// Checks that the person has consented to the cluster of a config, if it names one.
///
/// # Errors
///
/// A [`Report`] if not, or if that cannot be looked up.
pub fn check_cluster_trust(config: &Config, is_trusted: bool) -> Result<(), Report> {
    untrusted_cluster(config, is_trusted)?.map_or(Ok(()), |fact| Err(not_trusted(fact)))
}

/// Asks the person about the cluster of a config to which nobody has consented. The answer is stored for the project.
///
/// # Errors
///
/// A [`Report`] if the person does not consent, or if nobody can be asked.
pub fn admit_cluster(config: &Config, is_trusted: bool) -> Result<(), Report> {
    let Some(fact) = untrusted_cluster(config, is_trusted)? else { return Ok(()) };
    if !ask::is_attended() {
        return Err(not_trusted(fact));
    }
    let shown = format!("this project names a cluster that you have not trusted yet:\n  {}\n", name(&fact));
    match answer_to(&shown)? {
        Consent::Yes => {
            let kept = trust::store().change(&config.root, |answered| answered.facts.add(RiskLevel::Sends, fact));
            kept.map_err(|error| error.report())
        }
        Consent::Once | Consent::No => Err(not_trusted(fact)),
    }
}

/// Asks on a thread of its own: the caller may be in a runtime, or in none.
fn answer_to(shown: &str) -> Result<Consent, Report> {
    let failed = || Report::new(ErrorKind::Bug, "cannot start the async runtime");
    let asked = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map(|runtime| runtime.block_on(ask::trust(shown, ConsentPrompt::YesOrNo)))
        });
        asking.join()
    });
    asked.map_err(|_| failed())?.map_err(|error| failed().cause(error))
}

/// Returns the line about the cluster of a config, if the person has not consented to it.
fn untrusted_cluster(config: &Config, is_trusted: bool) -> Result<Option<String>, Report> {
    let Some(fact) = config.cluster_fact().filter(|_| !is_trusted) else { return Ok(None) };
    let answered = trust::store().of(&config.root).map_err(|error| error.report())?;
    Ok((!answered.facts.contains(&fact)).then_some(fact))
}

fn not_trusted(fact: String) -> Report {
    let what = "the sessions of this project are in a cluster that you have not trusted yet";
    let hint = "look at it and trust it with `shelly-host config trust`, or for this command with --trust";
    Report::new(ErrorKind::Usage, what).cause(fact).hint(hint)
}

/// Returns the sessions of the cluster that the config at this path names; `None` if they are files. A config that cannot be
/// read names none.
///
/// # Errors
///
/// The errors of [`sessions_of`].
pub fn cluster_sessions(path: Option<&Path>, is_trusted: bool) -> Result<Option<SessionStore>, Report> {
    let config = read_over_user_config(path).ok().filter(|config| config.cluster.is_some());
    config.map(|config| sessions_of(&config, is_trusted)).transpose()
}
