//! The calls on a cluster that a run needs which waits for runs on other workers.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream::BoxStream;
use shelly_core::digest::Sha256Digest;

use super::{
    cluster::Cluster,
    cluster_error::ClusterError,
    run_bus::{RunCommand, RunReply},
    run_entry::RunEntry,
    run_queue::Submission,
    run_spec::RunSpec,
    worker_registry::WorkerEntry,
};

/// The runs that other workers do for a run. [`Cluster`] is the one there is; tests have another.
#[async_trait]
pub trait ChildRuns: Send + Sync {
    /// Stores the bytes of a file of a task.
    ///
    /// # Errors
    ///
    /// A [`ClusterError`].
    async fn store(&self, bytes: Bytes) -> Result<Sha256Digest, ClusterError>;

    /// Puts a run into the queue, as [`RunQueue::submit`](super::RunQueue::submit) does.
    ///
    /// # Errors
    ///
    /// A [`ClusterError`].
    async fn submit(&self, spec: RunSpec) -> Result<Submission, ClusterError>;

    /// Returns the entry of a run; `None` if there is no such run.
    ///
    /// # Errors
    ///
    /// A [`ClusterError`].
    async fn entry(&self, id: &str) -> Result<Option<RunEntry>, ClusterError>;

    /// Returns the entry of a run and its changes, as [`RunQueue::watch`](super::RunQueue::watch) does.
    ///
    /// # Errors
    ///
    /// A [`ClusterError`].
    async fn watch(&self, id: &str) -> Result<BoxStream<'static, Result<RunEntry, ClusterError>>, ClusterError>;

    /// Cancels a run.
    ///
    /// # Errors
    ///
    /// A [`ClusterError`].
    async fn cancel(&self, id: &str) -> Result<RunEntry, ClusterError>;

    /// Sends a command to the worker that has the run.
    ///
    /// # Errors
    ///
    /// A [`ClusterError`].
    async fn ask(&self, id: &str, command: &RunCommand) -> Result<RunReply, ClusterError>;

    /// Returns the workers that are there.
    ///
    /// # Errors
    ///
    /// A [`ClusterError`].
    async fn workers(&self) -> Result<Vec<WorkerEntry>, ClusterError>;
}

#[async_trait]
impl ChildRuns for Cluster {
    async fn store(&self, bytes: Bytes) -> Result<Sha256Digest, ClusterError> {
        self.objects().put(bytes).await
    }

    async fn submit(&self, spec: RunSpec) -> Result<Submission, ClusterError> {
        self.runs().submit(spec).await
    }

    async fn entry(&self, id: &str) -> Result<Option<RunEntry>, ClusterError> {
        self.runs().entry(id).await
    }

    async fn watch(&self, id: &str) -> Result<BoxStream<'static, Result<RunEntry, ClusterError>>, ClusterError> {
        self.runs().watch(id).await
    }

    async fn cancel(&self, id: &str) -> Result<RunEntry, ClusterError> {
        self.runs().cancel(id).await
    }

    async fn ask(&self, id: &str, command: &RunCommand) -> Result<RunReply, ClusterError> {
        self.bus().ask(id, command).await
    }

    async fn workers(&self) -> Result<Vec<WorkerEntry>, ClusterError> {
        self.workers().list().await
    }
}
