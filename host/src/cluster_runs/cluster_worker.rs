//! A worker: it takes runs out of the queue and does them, until it is told to stop.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    bundle_hosts::{BundleEnvironment, BundleHosts},
    queued_run_work::perform,
    worker_state::{ClusterWorkerOptions, ClusterWorkerState},
    worker_status::WorkerStatus,
};
use crate::{
    cluster::{Cluster, RunJob, WorkerIdentity, WorkerPresence, WorkerState},
    error::Report,
    limits,
    serve::hosted_runs::RunHost,
};

/// A worker of a cluster. Clones are the same worker.
#[derive(Clone)]
pub struct ClusterWorker(Arc<ClusterWorkerState>);

impl ClusterWorker {
    /// Creates a worker that does runs with the worker's own config by `own`. `warn` tells its operator.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the config cannot be packed, which tells runs with the same one.
    pub fn new(
        cluster: Cluster,
        own: RunHost,
        environment: Arc<dyn BundleEnvironment>,
        options: ClusterWorkerOptions,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, Report> {
        let hosts = BundleHosts::new(own, options.accept, environment, cluster.objects(), options.cache.clone())?;
        Ok(Self(Arc::new(ClusterWorkerState::new(cluster, hosts, options, Box::new(warn)))))
    }

    /// Returns the counts of the worker.
    pub fn status(&self) -> Arc<WorkerStatus> {
        Arc::clone(&self.0.status)
    }

    /// Tells the worker to take no more runs. Those at work are interrupted as by a crash and given back, so that another
    /// worker goes on with them.
    pub fn stop(&self) {
        self.0.status.set_draining();
        self.0.stop.cancel();
    }

    /// Works until [`stop`](Self::stop) is called and no run is at work any more.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the server cannot be reached at the start. Later failures are warnings, and the worker tries again.
    pub async fn work(&self) -> Result<(), Report> {
        let worker = &self.0;
        worker.cluster.connect().await.map_err(|error| error.report())?;
        let presence = worker.cluster.workers().announce(worker.entry()).await.map_err(|error| error.report())?;
        let presence = Arc::new(presence);
        let _cleaning = AbortOnDropHandle::new(tokio::spawn(remove_old_runs(Arc::clone(worker))));
        let mut at_work = JoinSet::new();
        self.take_runs(&presence, &mut at_work).await;
        presence.update(|entry| entry.state = WorkerState::Draining);
        worker.hosts.own().shut_down().await;
        // Each run is interrupted within this time, and its entry written.
        let ending = async { while at_work.join_next().await.is_some() {} };
        let _ = timeout(limits::CLUSTER_CALL + limits::SERVE_INTERRUPT_TIME, ending).await;
        // Whatever is left is given up as by a crash.
        drop(at_work);
        if let Some(presence) = Arc::into_inner(presence) {
            let _ = timeout(limits::CLUSTER_CALL, presence.leave()).await;
        }
        Ok(())
    }

    /// Takes runs until the worker is told to stop.
    async fn take_runs(&self, presence: &Arc<WorkerPresence>, at_work: &mut JoinSet<()>) {
        let worker = &self.0;
        let (runs, permits) = (worker.cluster.runs(), Arc::new(Semaphore::new(worker.options.jobs)));
        // A run that waits for runs on other workers is at work no longer: those may come to this worker.
        let waiting = Arc::new(Semaphore::new(limits::CLUSTER_WAITING_RUNS));
        let ClusterWorkerOptions { id, labels, limits: of_namespace, .. } = &worker.options;
        let identity = WorkerIdentity { id: id.clone(), labels: labels.clone(), limits: *of_namespace };
        loop {
            let permit = tokio::select! {
                biased;
                () = worker.stop.cancelled() => return,
                permit = Arc::clone(&permits).acquire_owned() => permit,
            };
            // The semaphore is never closed.
            let Ok(permit) = permit else { return };
            while at_work.try_join_next().is_some() {}
            let taken = tokio::select! {
                biased;
                () = worker.stop.cancelled() => return,
                taken = runs.take(&identity, limits::CLUSTER_TAKE_WAIT) => taken,
            };
            match taken {
                Ok(None) => {}
                Ok(Some(taken)) => {
                    let (worker, presence) = (Arc::clone(worker), Arc::clone(presence));
                    let job = RunJob::new(Arc::clone(&permits), permit, Arc::clone(&waiting));
                    at_work.spawn(async move {
                        let id = taken.id().to_owned();
                        worker.status.note_taken();
                        let _at_work = RunAtWork::begin(&worker, &presence, &id);
                        perform(&worker, taken, job.slot()).await;
                        drop(job);
                    });
                }
                Err(error) => {
                    worker.warn(&format!("cannot take runs: {}", error.report()));
                    tokio::select! {
                        () = worker.stop.cancelled() => return,
                        () = sleep(limits::CLUSTER_TAKE_PAUSE) => {}
                    }
                }
            }
        }
    }
}

/// Removes the entries of runs that ended long ago, now and then.
async fn remove_old_runs(worker: Arc<ClusterWorkerState>) {
    // A wall clock that jumps meanwhile must not make all of them old.
    let (began, since) = (SystemTime::now(), Instant::now());
    loop {
        let now = began.checked_add(since.elapsed()).unwrap_or(began);
        let kept_since = now.checked_sub(limits::CLUSTER_ENDED_KEPT).unwrap_or(SystemTime::UNIX_EPOCH);
        if let Err(error) = worker.cluster.runs().remove_ended_before(kept_since).await {
            worker.warn(&format!("cannot remove old runs: {}", error.report()));
        }
        sleep(limits::CLUSTER_CLEANUP).await;
    }
}

/// A run in the list of those at work, until it is dropped.
struct RunAtWork<'a> {
    worker: &'a ClusterWorkerState,
    presence: &'a WorkerPresence,
    id: &'a str,
}

impl<'a> RunAtWork<'a> {
    fn begin(worker: &'a ClusterWorkerState, presence: &'a WorkerPresence, id: &'a str) -> Self {
        let at_work = Self { worker, presence, id };
        at_work.note(true);
        at_work
    }

    fn note(&self, is_at_work: bool) {
        self.worker.note(self.id, is_at_work);
        let running = self.worker.running();
        self.presence.update(|entry| entry.running = running);
    }
}

impl Drop for RunAtWork<'_> {
    fn drop(&mut self) {
        self.note(false);
    }
}
