//! A worker: it takes runs out of the queues of its namespaces and does them, until it is told to stop.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;

use super::{
    bundle_hosts::BundleEnvironment,
    served_namespace::serve,
    worker_state::{ClusterWorkerOptions, ClusterWorkerState, OperatorNotices, ServedNamespace, WorkerNotice},
    worker_status::WorkerStatus,
};
use crate::{cluster::JobPlaces, error::Report};

/// A worker of a cluster, for one namespace or several. Clones are the same worker.
///
/// A place that is free goes to the namespace that has the fewest runs at work here, of those with runs that wait. A
/// namespace that fails is tried again, and does not keep the others from being served.
#[derive(Clone)]
pub struct ClusterWorker(Arc<WorkerParts>);

struct WorkerParts {
    namespaces: Vec<Arc<ClusterWorkerState>>,
    places: JobPlaces,
    status: Arc<WorkerStatus>,
    stop: CancellationToken,
}

impl ClusterWorker {
    /// Creates a worker that does the runs of these namespaces. `notify` tells its operator.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the config cannot be packed, which tells runs with the same one.
    pub fn new(
        namespaces: Vec<ServedNamespace>,
        environment: &Arc<dyn BundleEnvironment>,
        options: &ClusterWorkerOptions,
        notify: impl Fn(WorkerNotice) + Send + Sync + 'static,
    ) -> Result<Self, Report> {
        let (status, stop) = (Arc::<WorkerStatus>::default(), CancellationToken::new());
        let notices = OperatorNotices { notify: Arc::new(notify), names_namespace: namespaces.len() > 1 };
        let state = |served| {
            let environment = Arc::clone(environment);
            ClusterWorkerState::new(served, options.clone(), environment, (&status, &stop), notices.clone())
                .map(Arc::new)
        };
        let namespaces = namespaces.into_iter().map(state).collect::<Result<Vec<_>, Report>>()?;
        Ok(Self(Arc::new(WorkerParts { namespaces, places: JobPlaces::new(options.jobs), status, stop })))
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
    /// A [`Report`] if the worker has one namespace and its server cannot be reached at the start. Other failures are
    /// warnings, and the worker tries again.
    pub async fn work(&self) -> Result<(), Report> {
        let WorkerParts { namespaces, places, .. } = &*self.0;
        let is_alone = namespaces.len() == 1;
        let served = namespaces.iter().map(|namespace| serve(namespace, places.of(namespace.namespace()), is_alone));
        join_all(served).await.into_iter().collect()
    }
}
