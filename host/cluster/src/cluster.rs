//! Everything of a namespace, over one connection.

use std::time::Duration;

use shelly_core::limits;

use super::{
    ClusterOptions,
    cluster_error::ClusterError,
    cluster_journals::ClusterJournals,
    connection::{ClusterCallError, ClusterHandles},
    namespace_counters::NamespaceCounters,
    object_storage::ObjectStorage,
    run_bus::RunBus,
    run_queue::RunQueue,
    shared_connection::SharedConnection,
    worker_registry::WorkerRegistry,
};

/// A namespace on the servers of one cluster: sessions, runs, objects, workers. Clones share one connection, which is
/// made at the first use; a failed attempt is repeated at the next use. Its async functions may be awaited in any runtime.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(crate) shared: SharedConnection,
}

/// The size of a stream or bucket on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSize {
    /// The name of the stream.
    pub name: String,
    /// The number of messages.
    pub messages: u64,
    /// The bytes of all messages.
    pub bytes: u64,
}

impl Cluster {
    /// Creates a cluster that is not connected yet.
    pub fn new(options: ClusterOptions) -> Self {
        Self { shared: SharedConnection::new(options) }
    }

    /// Returns the options.
    pub fn options(&self) -> &ClusterOptions {
        self.shared.options()
    }

    /// Connects, if that is not done yet.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Unreachable`] if the namespace is invalid, no server can be reached, or one refuses the credentials
    /// or has no JetStream.
    pub async fn connect(&self) -> Result<(), ClusterError> {
        self.shared.get().await.map(drop)
    }

    /// Returns the lease of the namespace, which all hosts keep: another host may have created it with another one than that
    /// of the options.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] as from [`Cluster::connect`].
    pub async fn lease(&self) -> Result<Duration, ClusterError> {
        Ok(self.shared.get().await?.handles().options.lease)
    }

    /// Returns the sessions.
    pub fn journals(&self) -> ClusterJournals {
        ClusterJournals::shared(self.shared.clone())
    }

    /// Returns the queue of runs.
    pub fn runs(&self) -> RunQueue {
        RunQueue::new(self.shared.clone())
    }

    /// Returns the storage of config bundles and input files.
    pub fn objects(&self) -> ObjectStorage {
        ObjectStorage::new(self.shared.clone())
    }

    /// Returns the workers that are there.
    pub fn workers(&self) -> WorkerRegistry {
        WorkerRegistry::new(self.shared.clone())
    }

    /// Returns the commands to runs and their live events.
    pub fn bus(&self) -> RunBus {
        RunBus::new(self.shared.clone())
    }

    /// Returns what the runs at work have reserved of the limits of the namespace.
    pub fn counters(&self) -> NamespaceCounters {
        NamespaceCounters::new(self.shared.clone())
    }

    /// Returns the number of sessions, at most [`limits::SESSIONS`].
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn session_count(&self) -> Result<usize, ClusterError> {
        let task = |handles: ClusterHandles| async move { Ok(handles.keys().await?.len()) };
        self.shared.call("count the sessions of", &self.options().namespace, task).await
    }

    /// Returns the sizes of the streams and buckets of the namespace that are there.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn sizes(&self) -> Result<Vec<StreamSize>, ClusterError> {
        let task = |handles: ClusterHandles| async move { sizes(&handles).await };
        self.shared.call("read the sizes of", &self.options().namespace, task).await
    }
}

async fn sizes(handles: &ClusterHandles) -> Result<Vec<StreamSize>, ClusterCallError> {
    let name = format!("shelly-{}", handles.options.namespace);
    let buckets = ["sessions", "leases", "runs", "counters", "workers", "kv", "notes", "boards", "rates"]
        .map(|part| format!("KV_{name}-{part}"));
    let names =
        [name.clone(), format!("{name}-queue")].into_iter().chain(buckets).chain([format!("OBJ_{name}-objects")]);
    let mut all = Vec::new();
    for name in names {
        // A stream that is missing was never used; one that fails is not shown either.
        let found = tokio::time::timeout(limits::CLUSTER_CALL, handles.context.get_stream(&name)).await;
        if let Ok(Ok(stream)) = found {
            let state = &stream.cached_info().state;
            all.push(StreamSize { name, messages: state.messages, bytes: state.bytes });
        }
    }
    match all.is_empty() {
        true => Err(ClusterCallError::Failed("no stream answers".into())),
        false => Ok(all),
    }
}
