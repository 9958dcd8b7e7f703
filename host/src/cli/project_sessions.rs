//! The sessions of a project: its files, or those of the cluster that its config names.

use std::path::Path;

use super::{config_path::read_over_user_config, trust};
use crate::{
    app,
    config::Config,
    error::{ErrorKind, Report},
    session::SessionStore,
};

/// Returns the sessions of the project with this config. `is_trusted`: the person has named the config, or has consented
/// to it.
///
/// # Errors
///
/// A [`Report`] if the config names a cluster to which the person has not consented: nothing is sent there.
pub fn sessions_of(config: &Config, is_trusted: bool) -> Result<SessionStore, Report> {
    check_cluster_trust(config, is_trusted)?;
    Ok(app::sessions_of(config, trust::own_key()))
}

/// Checks that the person has consented to the cluster of a config, if it names one.
///
/// # Errors
///
/// A [`Report`] if not, or if that cannot be looked up.
pub fn check_cluster_trust(config: &Config, is_trusted: bool) -> Result<(), Report> {
    let Some(fact) = config.cluster_fact().filter(|_| !is_trusted) else { return Ok(()) };
    let answered = trust::store().of(&config.root).map_err(|error| error.report())?;
    if answered.facts.contains(&fact) {
        return Ok(());
    }
    let what = "the sessions of this project are in a cluster that you have not trusted yet";
    let hint = "look at it and trust it with `shelly-host config trust`";
    Err(Report::new(ErrorKind::Usage, what).cause(fact).hint(hint))
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
