//! A worker as its runs see it.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;

use super::{
    bundle_hosts::{AcceptPolicy, BundleHosts},
    worker_status::WorkerStatus,
};
use crate::cluster::{Cluster, NamespaceLimits, WorkerEntry, WorkerState};

/// The options of a worker.
#[derive(Debug, Clone)]
pub struct ClusterWorkerOptions {
    /// Its id in the namespace.
    pub id: String,
    /// The name of its host, for people.
    pub host: String,
    /// The labels that runs may ask for.
    pub labels: BTreeSet<String>,
    /// The number of runs at work at once.
    pub jobs: usize,
    /// The limits of the namespace.
    pub limits: NamespaceLimits,
    /// The runs that it accepts, by their config.
    pub accept: AcceptPolicy,
    /// The folder in which configs of others are unpacked.
    pub cache: PathBuf,
    /// The time for which a run waits here for a session that another process has, before it goes back to the queue.
    pub session_wait: Duration,
}

/// The parts of a worker that its runs need.
pub(super) struct ClusterWorkerState {
    pub cluster: Cluster,
    pub hosts: BundleHosts,
    pub status: Arc<WorkerStatus>,
    /// Cancelled when the worker is to take no more runs and give back those at work.
    pub stop: CancellationToken,
    pub options: ClusterWorkerOptions,
    started: SystemTime,
    /// The ids of the runs at work.
    at_work: Mutex<BTreeSet<String>>,
    /// The last warning, which is not repeated.
    warned: Mutex<String>,
    warn: Box<dyn Fn(&str) + Send + Sync>,
}

impl ClusterWorkerState {
    pub fn new(
        cluster: Cluster,
        hosts: BundleHosts,
        options: ClusterWorkerOptions,
        warn: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            cluster,
            hosts,
            status: Arc::default(),
            stop: CancellationToken::new(),
            options,
            started: SystemTime::now(),
            at_work: Mutex::default(),
            warned: Mutex::default(),
            warn,
        }
    }

    /// Warns the operator, unless the same was said just before.
    pub fn warn(&self, message: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if *warned != message {
            message.clone_into(&mut warned);
            (self.warn)(message);
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
        self.status.set_at_work(at_work.len());
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
