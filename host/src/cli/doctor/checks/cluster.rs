//! The check of the cluster: its servers are asked for each namespace of the config.

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use crate::{
    app,
    cli::doctor::{doctor_context::DoctorContext, finding::UnnamedFinding},
    cluster::{Cluster, ClusterError},
    config::ClusterConfig,
    error::{ErrorKind, Report, count},
    limits,
};

pub(super) fn cluster(context: &DoctorContext) -> Vec<UnnamedFinding> {
    let Some(config) = context.config() else {
        return vec![UnnamedFinding::note("unknown: the config cannot be used")];
    };
    let Some(cluster) = &config.cluster else {
        return vec![UnnamedFinding::ok("the config names no cluster")];
    };
    let not_asked = |why: &str| vec![UnnamedFinding::note(format!("the servers of the cluster were not asked: {why}"))];
    if context.is_offline {
        return not_asked("--offline");
    }
    if let Err(why) = context.app_if_trusted() {
        return not_asked(why);
    }
    // Each namespace may have credentials and keys of its own.
    let namespaces = cluster.served_namespaces();
    let clusters = namespaces.iter().filter_map(|namespace| app::cluster_of(&config.in_namespace(namespace)?));
    let asked = clusters.map(|of_namespace| async move { findings_of(&of_namespace, cluster).await });
    context.block_on(join_all(asked)).into_iter().flatten().collect()
}

/// Asks the servers for a namespace: they must answer within the time for it. Its counts are shown if they come in the
/// rest of that time.
async fn findings_of(cluster: &Cluster, config: &ClusterConfig) -> Vec<UnnamedFinding> {
    let (namespace, servers) = (&cluster.options().namespace, cluster.options().shown_servers());
    let deadline = Instant::now() + limits::DOCTOR_CLUSTER_TIME;
    let asked = timeout_at(deadline, cluster.lease()).await;
    let answer = asked.map_or_else(|_| Err(too_slow(&servers)), |lease| lease.map_err(|error| error.report()));
    let lease = match answer {
        Ok(lease) => lease,
        Err(mut report) => {
            report.message = format!("namespace `{namespace}`: {}", report.message);
            return vec![UnnamedFinding::of_report(&report)];
        }
    };
    let answers = format!("namespace `{namespace}`: {servers} answers with JetStream");
    let finding = match timeout_at(deadline, counts(cluster)).await {
        Ok(Ok((sessions, workers))) => {
            let (sessions, workers) = (count(sessions, "session", "sessions"), count(workers, "worker", "workers"));
            UnnamedFinding::ok(format!("{answers}: {sessions}, {workers}"))
        }
        Ok(Err(error)) => UnnamedFinding::note(format!("{answers}, but {error}")).maybe_hint(error.report().hint),
        // They are many, or the server is busy; neither is a problem.
        Err(_) => UnnamedFinding::ok(answers),
    };
    let lease = config.lease_warning(lease).map(|warning| {
        let there = humantime::format_duration(lease);
        UnnamedFinding::note(format!("namespace `{namespace}`: {warning}")).hint(format!(
            "write `lease: {there}` under cluster, or leave it out; only a new namespace has another lease"
        ))
    });
    [finding].into_iter().chain(lease).collect()
}

/// Returns the numbers of sessions and of workers.
async fn counts(cluster: &Cluster) -> Result<(u64, u64), ClusterError> {
    let registry = cluster.workers();
    let (sessions, workers) = tokio::try_join!(cluster.session_count(), registry.list())?;
    Ok((sessions as u64, workers.len() as u64))
}

/// Reports that no server has answered in time.
fn too_slow(servers: &str) -> Report {
    let time = limits::DOCTOR_CLUSTER_TIME.as_secs();
    Report::new(ErrorKind::Run, format!("no answer from {servers} within {time} s"))
        .hint("check cluster.nats, and that a server runs there with JetStream and can be reached from this host")
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::{cli::doctor::finding::DoctorStatus, cluster::ClusterOptions, config::Config};

    #[tokio::test(start_paused = true)]
    async fn silent_server_is_given_up_in_time() {
        // It accepts connections, and never greets.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = format!("cluster: {{nats: 'nats://{address}', namespace: team-a}}");
        let config = Config::parse(&text, "/project".into()).unwrap_or_else(|report| panic!("{report}"));
        let cluster = Cluster::new(ClusterOptions::new(format!("nats://me:secret@{address}"), "team-a"));
        let began = Instant::now();
        let found = findings_of(&cluster, config.cluster.as_ref().unwrap()).await;
        assert!(began.elapsed() >= limits::DOCTOR_CLUSTER_TIME && found.len() == 1, "{found:?}");
        let finding = found[0].clone().of_check("cluster");
        let says = format!("namespace `team-a`: no answer from nats://{address} within 10 s");
        assert_eq!((finding.status, finding.message), (DoctorStatus::Problem, says));
        assert!(finding.hint.is_some_and(|hint| hint.contains("cluster.nats")));
    }
}
