//! New messages of a queue, as a worker hears of them.

use std::{
    fmt,
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures_util::StreamExt;
use tokio::{sync::Notify, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterConnection, ClusterHandles},
    run_queue::RunQueue,
    run_taking::WorkerIdentity,
};

/// New messages in the queues of a namespace, until this is dropped.
pub struct QueueWatch {
    published: Arc<Notify>,
    _listening: Option<AbortOnDropHandle<()>>,
    _connection: Arc<ClusterConnection>,
}

impl RunQueue {
    /// Begins to listen for messages that are published in the queues.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server cannot be reached.
    pub async fn watch_messages(&self) -> Result<QueueWatch, ClusterError> {
        let connection = self.shared().get().await?;
        let subscribe = |handles: ClusterHandles| async move {
            let subject = format!("{}>", handles.queue_prefix());
            handles.context.client().subscribe(subject).await.map_err(ClusterCallError::failed)
        };
        let namespace = &self.shared().options().namespace;
        let mut messages = connection.call(("listen to the queues of", namespace), subscribe).await?;
        let published = Arc::new(Notify::new());
        let notified = Arc::clone(&published);
        let listening = connection.spawn(async move {
            // Messages that come together are one reason to look.
            while messages.next().await.is_some() {
                notified.notify_one();
            }
        });
        Ok(QueueWatch { published, _listening: listening, _connection: connection })
    }

    /// Returns `true` if a queue that this worker may take from has messages: of runs that wait, or of runs at work. Now and
    /// then it begins to look for what others have left behind, such as runs whose submitter died before it had queued them.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Invalid`] if the id or a label of the worker is not one, and if the server fails.
    pub async fn has_messages(&self, worker: &WorkerIdentity) -> Result<bool, ClusterError> {
        worker.check()?;
        let labels = worker.labels.clone();
        let task = |handles: ClusterHandles| async move {
            let streams = handles.run_streams().await?;
            handles.repair_now_and_then(streams);
            Ok(!handles.queues(streams, &labels).await?.is_empty())
        };
        self.shared().call("look at the queues of", &self.shared().options().namespace, task).await
    }

    /// Returns the reason for which the last look for what others have left behind failed, once: runs whose submitter died may
    /// not be queued, and runs that the server has forgotten not offered.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server cannot be reached.
    pub async fn repair_failure(&self) -> Result<Option<ClusterError>, ClusterError> {
        let connection = self.shared().get().await?;
        let streams = connection.handles().parts.runs.get();
        let failure =
            streams.and_then(|streams| streams.repair_failure.lock().unwrap_or_else(PoisonError::into_inner).take());
        let namespace = &self.shared().options().namespace;
        Ok(failure.map(|error| error.in_cluster("look for what others have left behind in", namespace)))
    }
}

impl QueueWatch {
    /// Waits until a message was published since the last call, or for this time: the server does not say when one is
    /// offered again.
    pub async fn changed(&self, most: Duration) {
        let _ = timeout(most, self.published.notified()).await;
    }
}

impl fmt::Debug for QueueWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueWatch").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use shelly_core::limits;

    use super::*;
    use crate::{NamespaceLimits, QueuedRunEnd, RunEndState, RunSpec, nats_server::NatsServer};

    fn worker(labels: &[&str]) -> WorkerIdentity {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        WorkerIdentity { id: "w".into(), labels, limits: NamespaceLimits::default() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn new_message_is_heard_of_at_once() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(limits::CLUSTER_LEASE).runs();
        let watch = runs.watch_messages().await.unwrap();
        assert!(!runs.has_messages(&worker(&[])).await.unwrap());
        runs.submit(RunSpec::new("a", "s", None)).await.unwrap();
        let began = Instant::now();
        watch.changed(limits::CLUSTER_RETRY).await;
        assert!(began.elapsed() < limits::CLUSTER_RETRY, "the time was over");
        assert!(runs.has_messages(&worker(&[])).await.unwrap());
        let run = runs.take(&worker(&[]), Duration::ZERO).await.unwrap().unwrap();
        run.finish(QueuedRunEnd::new(RunEndState::Completed)).await.unwrap();
        assert!(!runs.has_messages(&worker(&[])).await.unwrap(), "it has ended");
        let labels = ["gpu".to_owned()].into();
        runs.submit(RunSpec { labels, ..RunSpec::new("b", "s", None) }).await.unwrap();
        assert!(!runs.has_messages(&worker(&["eu"])).await.unwrap(), "it is for others");
        assert!(runs.has_messages(&worker(&["eu", "gpu"])).await.unwrap());
    }
}
