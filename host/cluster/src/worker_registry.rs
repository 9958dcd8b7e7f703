//! The workers of a namespace: entries that end unless they are renewed.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::SystemTime,
};

use async_nats::jetstream::kv::Store;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use shelly_core::limits;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterConnection, ClusterHandles, bucket, bucket_of},
    millis_since_epoch,
    run_spec::{RunSpec, check_labels, not_an_id},
    run_streams::ScannedValue,
    shared_connection::SharedConnection,
};

/// A worker as it describes itself. Nothing in the queue depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerEntry {
    /// The id, in the form of a run's id.
    pub id: String,
    /// The name of the host.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
    /// The labels.
    pub labels: BTreeSet<String>,
    /// The maximum number of runs at once.
    pub jobs: u32,
    /// The ids of the runs at work, at most [`limits::CLUSTER_WORKER_RUNS`].
    pub running: Vec<String>,
    /// The state.
    pub state: WorkerState,
    /// The time of its start.
    #[serde(with = "millis_since_epoch")]
    pub started: SystemTime,
}

impl WorkerEntry {
    /// Returns `true` if the worker takes runs with these labels.
    pub fn takes(&self, labels: &BTreeSet<String>) -> bool {
        self.state == WorkerState::Working && labels.is_subset(&self.labels)
    }
}

/// The state of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerState {
    /// The worker takes runs.
    Working,
    /// The worker takes no more runs, and gives back those that it has.
    Draining,
}

/// The workers of a namespace.
#[derive(Debug, Clone)]
pub struct WorkerRegistry {
    shared: SharedConnection,
}

/// The entry of a worker, which a task renews. Dropping it removes the entry.
pub struct WorkerPresence {
    entry: watch::Sender<WorkerEntry>,
    /// Cancelled when this is dropped.
    leaving: CancellationToken,
    task: Option<AbortOnDropHandle<()>>,
    _connection: Arc<ClusterConnection>,
}

/// The version of an entry's form.
pub(crate) const VERSION: u32 = 1;

/// The entry of a worker in its stored form.
#[derive(Serialize, Deserialize)]
struct StoredWorker {
    version: u32,
    entry: WorkerEntry,
}

impl WorkerEntry {
    /// Checks the id, the labels and the sizes.
    fn check(&self) -> Result<(), ClusterError> {
        if !RunSpec::is_id(&self.id) {
            return Err(not_an_id("worker", &self.id));
        }
        let what = format!("worker {}", self.id);
        if self.running.len() > limits::CLUSTER_WORKER_RUNS || !self.running.iter().all(|run| RunSpec::is_id(run)) {
            return Err(ClusterError::invalid(what, "it names too many runs, or one with an invalid id"));
        }
        for text in [&self.host, &self.version] {
            if text.len() > limits::CLUSTER_SPEC_NAME_BYTES {
                return Err(ClusterError::too_large(what, text.len(), limits::CLUSTER_SPEC_NAME_BYTES));
            }
        }
        check_labels(&self.labels, limits::CLUSTER_WORKER_LABELS)
    }

    fn to_bytes(&self) -> Bytes {
        // Text and numbers alone: serialization cannot fail.
        let stored = StoredWorker { version: VERSION, entry: self.clone() };
        Bytes::from(serde_json::to_vec(&stored).unwrap_or_default())
    }

    /// Parses the entry under a key; `None` if it is none, or one of a later version.
    fn parse(key: &str, value: &[u8]) -> Option<Self> {
        let is_short = value.len() <= limits::CLUSTER_WORKER_BYTES;
        let stored: StoredWorker = is_short.then(|| serde_json::from_slice(value).ok())??;
        let entry = Some(stored.entry).filter(|entry| stored.version == VERSION && entry.id == key)?;
        entry.check().is_ok().then_some(entry)
    }
}

impl WorkerRegistry {
    pub(crate) fn new(shared: SharedConnection) -> Self {
        Self { shared }
    }

    /// Announces a worker until the returned presence is dropped.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Invalid`] if a part of the entry is not in its form, and if the server fails.
    pub async fn announce(&self, entry: WorkerEntry) -> Result<WorkerPresence, ClusterError> {
        entry.check()?;
        let connection = self.shared.get().await?;
        let first = entry.clone();
        let put = |handles: ClusterHandles| async move { handles.put_worker(&first).await };
        connection.call(("announce", &format!("worker {}", entry.id)), put).await?;
        let (sender, receiver) = watch::channel(entry);
        let leaving = CancellationToken::new();
        let task = connection.spawn(keep_presence(connection.handles().clone(), receiver, leaving.clone()));
        Ok(WorkerPresence { entry: sender, leaving, task, _connection: connection })
    }

    /// Returns the workers that have renewed their entries within the lease, by id. Entries that cannot be read are left
    /// out.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn list(&self) -> Result<Vec<WorkerEntry>, ClusterError> {
        let task = |handles: ClusterHandles| async move {
            let mut workers = BTreeMap::new();
            let mut each = |found: ScannedValue| {
                workers.extend(WorkerEntry::parse(&found.key, &found.value).map(|entry| (found.key, entry)));
                workers.len() < limits::CLUSTER_WORKERS
            };
            handles.scan(handles.workers().await?, 0, &mut each).await?;
            Ok(workers.into_values().collect())
        };
        self.shared.call("list the workers of", &self.shared.options().namespace, task).await
    }
}

impl WorkerPresence {
    /// Changes the entry; it is sent in the background. A change that makes it invalid is not sent.
    pub fn update(&self, change: impl FnOnce(&mut WorkerEntry)) {
        self.entry.send_modify(change);
    }

    /// Removes the entry, and waits until that is done, as far as the server allows it within the time of a call.
    pub async fn leave(mut self) {
        self.leaving.cancel();
        if let Some(task) = self.task.take() {
            let _ = task.await;
        }
    }
}

impl Drop for WorkerPresence {
    fn drop(&mut self) {
        self.leaving.cancel();
        // The task ends by itself, after it has removed the entry.
        drop(self.task.take().map(AbortOnDropHandle::detach));
    }
}

impl ClusterHandles {
    /// Returns the bucket of workers, which is created if it is missing.
    pub(crate) async fn workers(&self) -> Result<&Store, ClusterCallError> {
        let config = || bucket(&self.options, "workers", self.options.lease);
        let open = || self.retry(|| bucket_of(&self.context, config()), |_| false);
        self.parts.workers.get_or_try_init(open).await.map_err(ClusterCallError::Failed)
    }

    async fn put_worker(&self, entry: &WorkerEntry) -> Result<(), ClusterCallError> {
        let (store, value) = (self.workers().await?, entry.to_bytes());
        if value.len() > limits::CLUSTER_WORKER_BYTES {
            let what = format!("the entry of worker {}", entry.id);
            return Err(ClusterError::too_large(what, value.len(), limits::CLUSTER_WORKER_BYTES).into());
        }
        let put = || store.put(&entry.id, value.clone());
        self.retry(put, |_| false).await.map(drop).map_err(ClusterCallError::failed)
    }
}

/// Renews the entry of a worker until it leaves.
async fn keep_presence(handles: ClusterHandles, mut entry: watch::Receiver<WorkerEntry>, leaving: CancellationToken) {
    let interval = handles.options.lease / limits::CLUSTER_LEASE_REFRESHES;
    loop {
        let renew = async {
            let changed = tokio::select! {
                () = sleep(interval) => true,
                changed = entry.changed() => changed.is_ok(),
            };
            if changed {
                let now = entry.borrow_and_update().clone();
                if now.check().is_ok() {
                    // What fails is tried again after the interval.
                    let _ = handles.put_worker(&now).await;
                }
            }
        };
        tokio::select! {
            () = leaving.cancelled() => break,
            () = renew => {}
        }
    }
    let id = entry.borrow().id.clone();
    let remove = async {
        if let Ok(store) = handles.workers().await {
            let _ = store.delete(&id).await;
        }
    };
    // Otherwise it ends by itself.
    let _ = timeout(limits::CLUSTER_CALL, remove).await;
}

impl fmt::Debug for WorkerPresence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerPresence").field("worker", &self.entry.borrow().id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nats_server::NatsServer;

    fn entry(id: &str) -> WorkerEntry {
        WorkerEntry {
            id: id.into(),
            host: "h".into(),
            pid: 7,
            version: "0.1.0".into(),
            labels: BTreeSet::from(["gpu".to_owned()]),
            jobs: 2,
            running: vec!["a".into()],
            state: WorkerState::Working,
            started: SystemTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn worker_is_read_as_it_was_written() {
        assert_eq!(WorkerEntry::parse("w", &entry("w").to_bytes()), Some(entry("w")));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn list_of_workers_is_bounded() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(limits::CLUSTER_LEASE);
        let announce = |handles: ClusterHandles| async move {
            for n in 0..=limits::CLUSTER_WORKERS {
                handles.put_worker(&entry(&format!("w{n}"))).await?;
            }
            Ok(())
        };
        cluster.shared.call("test", "the server", announce).await.unwrap();
        let listed = cluster.workers().list().await.unwrap();
        let is_listed = |n: usize| listed.iter().any(|worker| worker.id == format!("w{n}"));
        // More of them than one request brings.
        assert_eq!(listed.len(), limits::CLUSTER_WORKERS);
        assert!(is_listed(limits::CLUSTER_WORKERS - 1) && !is_listed(limits::CLUSTER_WORKERS));
    }

    #[test]
    fn worker_that_is_none_is_left_out() {
        let text = String::from_utf8(entry("w").to_bytes().to_vec()).unwrap();
        let many = WorkerEntry { running: vec!["a".into(); limits::CLUSTER_WORKER_RUNS + 1], ..entry("w") };
        for value in [
            String::new(),
            "{}".into(),
            text.replace("\"version\":1", "\"version\":2"),
            text.replace("\"id\":\"w\"", "\"id\":\"v\""),
            text.replace("\"gpu\"", "\"G P U\""),
            text.replace("\"h\"", &format!("\"{}\"", "h".repeat(limits::CLUSTER_SPEC_NAME_BYTES + 1))),
            format!("{text}{}", " ".repeat(limits::CLUSTER_WORKER_BYTES)),
            String::from_utf8(many.to_bytes().to_vec()).unwrap(),
        ] {
            assert_eq!(WorkerEntry::parse("w", value.as_bytes()), None, "{value}");
        }
    }
}
