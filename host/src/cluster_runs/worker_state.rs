//! A worker as the runs of one namespace see it.

use std::{
    collections::BTreeSet,
    mem,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;

use super::{
    bundle_hosts::{AcceptPolicy, BundleEnvironment, BundleHosts},
    worker_status::WorkerStatus,
};
use crate::{
    cluster::{Cluster, NamespaceLimits, WorkerEntry, WorkerIdentity, WorkerState},
    error::Report,
    serve::hosted_runs::RunHost,
};

/// The options of a worker.
#[derive(Debug, Clone)]
pub struct ClusterWorkerOptions {
    /// Its id in each namespace.
    pub id: String,
    /// The name of its host, for people.
    pub host: String,
    /// The labels that runs may ask for.
    pub labels: BTreeSet<String>,
    /// The number of runs at work at once, of all namespaces together.
    pub jobs: usize,
    /// The runs that it accepts, by their config.
    pub accept: AcceptPolicy,
    /// The time for which a run waits here for a session that another process has, before it goes back to the queue.
    pub session_wait: Duration,
}

/// A namespace whose runs a worker does.
pub struct ServedNamespace {
    /// The namespace, on the connection of its runs.
    pub cluster: Cluster,
    /// The host of runs with the worker's own config, whose sessions and state are in this namespace.
    pub host: RunHost,
    /// The limits of the namespace.
    pub limits: NamespaceLimits,
    /// The folder in which configs of others are unpacked. No two namespaces have the same one: runs of one could use what
    /// those of the other have brought.
    pub cache: PathBuf,
}

/// The parts of a worker that the runs of one namespace need.
pub(super) struct ClusterWorkerState {
    pub cluster: Cluster,
    pub hosts: BundleHosts,
    /// The counts of all namespaces.
    pub status: Arc<WorkerStatus>,
    /// Cancelled when the worker is to take no more runs and give back those at work.
    pub stop: CancellationToken,
    pub options: ClusterWorkerOptions,
    limits: NamespaceLimits,
    started: SystemTime,
    /// The ids of the runs of the namespace at work.
    at_work: Mutex<BTreeSet<String>>,
    warned: LastWarning,
    /// The last failure of the namespace as a whole.
    failed: LastWarning,
    notices: OperatorNotices,
}

/// A notice for the operator of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerNotice {
    /// The worker is announced in a namespace, and takes its runs.
    TakesRuns {
        /// The name of the namespace.
        namespace: String,
    },
    /// A namespace that failed works again.
    Recovery {
        /// The line for the operator.
        message: String,
    },
    /// Something failed.
    Warning {
        /// The text for the operator.
        message: String,
    },
}

/// Tells the operator of a worker.
#[derive(Clone)]
pub(super) struct OperatorNotices {
    pub notify: Arc<dyn Fn(WorkerNotice) + Send + Sync>,
    /// If `true`, messages name their namespace.
    pub names_namespace: bool,
}

/// The last warning, which is not repeated.
#[derive(Debug, Default)]
struct LastWarning(Mutex<String>);

impl LastWarning {
    /// Returns `true` if the last warning was another one, and remembers this one.
    fn is_new(&self, message: &str) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *last != message;
        if is_new {
            message.clone_into(&mut last);
        }
        is_new
    }

    /// Forgets it. Returns `true` if there was one.
    fn forget(&self) -> bool {
        !mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)).is_empty()
    }
}

impl ClusterWorkerState {
    /// Creates the state of a namespace, whose counts are a part of `status`, and which ends with `stop`.
    pub fn new(
        served: ServedNamespace,
        options: ClusterWorkerOptions,
        environment: Arc<dyn BundleEnvironment>,
        (status, stop): (&Arc<WorkerStatus>, &CancellationToken),
        notices: OperatorNotices,
    ) -> Result<Self, Report> {
        let ServedNamespace { cluster, host, limits, cache } = served;
        let hosts = BundleHosts::new(host, options.accept, environment, cluster.objects(), cache)?;
        status.set_at_work(&cluster.options().namespace, 0);
        Ok(Self {
            cluster,
            hosts,
            status: Arc::clone(status),
            stop: stop.clone(),
            options,
            limits,
            started: SystemTime::now(),
            at_work: Mutex::default(),
            warned: LastWarning::default(),
            failed: LastWarning::default(),
            notices,
        })
    }

    /// Returns the name of the namespace.
    pub fn namespace(&self) -> &str {
        &self.cluster.options().namespace
    }

    /// Returns the worker as the queue knows it.
    pub fn identity(&self) -> WorkerIdentity {
        let ClusterWorkerOptions { id, labels, .. } = &self.options;
        WorkerIdentity { id: id.clone(), labels: labels.clone(), limits: self.limits }
    }

    /// Returns the servers as they are shown to the operator.
    pub fn servers(&self) -> String {
        self.cluster.options().shown_servers()
    }

    /// Tells the operator that the worker takes runs of the namespace, which has this lease.
    pub fn note_begin(&self, lease: Duration) {
        self.note_recovery();
        let config = self.hosts.own().app().config.cluster.as_ref();
        if let Some(warning) = config.and_then(|config| config.lease_warning(lease)) {
            self.warn(&warning);
        }
        (self.notices.notify)(WorkerNotice::TakesRuns { namespace: self.namespace().to_owned() });
    }

    /// Notes that the namespace works, and says so if the operator was told that it fails. If it fails again, the operator
    /// hears it again.
    pub fn note_recovery(&self) {
        if self.failed.forget() {
            let message = self.named(&format!("the server answers again: runs are taken from {}", self.servers()));
            (self.notices.notify)(WorkerNotice::Recovery { message });
        }
    }

    /// Warns the operator that the namespace fails, unless the same was said since it worked.
    pub fn warn_of_failure(&self, message: &str) {
        if self.failed.is_new(message) {
            self.tell_warning(message);
        }
    }

    /// Warns the operator, unless the same was said just before.
    pub fn warn(&self, message: &str) {
        if self.warned.is_new(message) {
            self.tell_warning(message);
        }
    }

    fn tell_warning(&self, message: &str) {
        (self.notices.notify)(WorkerNotice::Warning { message: self.named(message) });
    }

    /// Returns a message with its namespace, if the worker has others.
    fn named(&self, message: &str) -> String {
        match self.notices.names_namespace {
            true => format!("namespace {}: {message}", self.namespace()),
            false => message.to_owned(),
        }
    }

    /// Returns the ids of the runs at work.
    pub fn running(&self) -> Vec<String> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Adds a run to those at work, or removes it.
    pub fn note(&self, id: &str, is_at_work: bool) {
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        match is_at_work {
            true => at_work.insert(id.to_owned()),
            false => at_work.remove(id),
        };
        self.status.set_at_work(self.namespace(), at_work.len());
    }

    /// Returns the worker as others see it.
    pub fn entry(&self) -> WorkerEntry {
        WorkerEntry {
            id: self.options.id.clone(),
            host: self.options.host.clone(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            labels: self.options.labels.clone(),
            jobs: u32::try_from(self.options.jobs).unwrap_or(u32::MAX),
            running: self.running(),
            state: WorkerState::Working,
            started: self.started,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_after_a_recovery_is_told_again() {
        let last = LastWarning::default();
        assert_eq!(["away", "away", "full"].map(|message| last.is_new(message)), [true, false, true]);
        assert!(last.forget() && !last.forget(), "one recovery for one failure");
        assert!(last.is_new("full"));
    }
}
