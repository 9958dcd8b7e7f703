//! The connection to a server, and calls that wait for its replies.

use std::{
    fmt::Display,
    future::Future,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use async_nats::{
    ConnectOptions,
    jetstream::{
        self, Context,
        kv::{self, Store, UpdateErrorKind},
        stream::{Config, DiscardPolicy, Stream},
    },
};
use bytes::Bytes;
use shelly_core::{error::cut, hex, limits};
use shelly_session::SessionError;
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

use super::ClusterOptions;

/// A connection that is used by threads that block. Its tasks run on a thread of its own.
pub(crate) struct ClusterConnection {
    runtime: ConnectionRuntime,
    handles: ClusterHandles,
}

/// The parts of a connection that its tasks share.
#[derive(Clone)]
pub(crate) struct ClusterHandles {
    pub context: Context,
    /// Journals, recorded events and attachments.
    pub stream: Stream,
    /// The entries of sessions.
    pub entries: Store,
    pub leases: Store,
    pub options: Arc<ClusterOptions>,
    /// The maximum bytes of a message.
    pub message_bytes: usize,
}

/// The runtime of a connection. A runtime must not wait for its tasks when it is dropped in another one.
struct ConnectionRuntime(Option<Runtime>);

impl Drop for ConnectionRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl ConnectionRuntime {
    /// Runs a task to its end while this thread waits, whether or not the thread belongs to a runtime. If it does, other
    /// threads do its other work meanwhile.
    fn wait<T: Send + 'static>(&self, task: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.0.as_ref()?.spawn(async move {
            let _ = sender.send(task.await);
        });
        let wait = || receiver.recv().ok();
        match Handle::try_current().map(|handle| handle.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
            _ => wait(),
        }
    }
}

impl ClusterConnection {
    /// Connects to a server, and creates the streams that are missing.
    pub fn open(options: ClusterOptions) -> Result<Self, SessionError> {
        let place = options.servers.join(", ");
        let failed = |reason: String| SessionError::Storage {
            doing: "connect to",
            place: place.clone(),
            reason,
            mend: "check cluster.nats and cluster.credentials, and that the server runs with JetStream".into(),
        };
        if !ClusterOptions::is_namespace(&options.namespace) {
            let most = limits::CLUSTER_NAMESPACE_BYTES;
            return Err(failed(format!(
                "the namespace must have 1 to {most} letters, digits, underscores and hyphens"
            )));
        }
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("cluster").enable_all().build();
        let runtime = ConnectionRuntime(Some(runtime.map_err(|error| failed(error.to_string()))?));
        let opened = runtime.wait(open(options));
        let handles = opened.unwrap_or_else(|| Err(ENDED.into())).map_err(failed)?;
        Ok(Self { runtime, handles })
    }

    pub fn handles(&self) -> &ClusterHandles {
        &self.handles
    }

    /// Runs a task on the server while this thread waits. `doing` and `place` are named in the error.
    pub fn wait<T, F>(
        &self,
        doing: &'static str,
        place: impl FnOnce() -> PathBuf,
        task: impl FnOnce(ClusterHandles) -> F,
    ) -> Result<T, SessionError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterCallError>> + Send + 'static,
    {
        let result = self.runtime.wait(task(self.handles.clone()));
        result
            .unwrap_or_else(|| Err(ClusterCallError::Failed(ENDED.into())))
            .map_err(|error| error.report_on(doing, &place()))
    }
}

const ENDED: &str = "the connection has ended";

/// The reason for which a call failed.
#[derive(Debug)]
pub(crate) enum ClusterCallError {
    /// The session is not in the expected state.
    Session(SessionError),
    /// The server did not do it.
    Failed(String),
}

impl ClusterCallError {
    /// Returns the error of a call that the server did not do.
    pub fn failed(error: impl Display) -> Self {
        Self::Failed(error.to_string())
    }

    /// Returns the error with what was attempted, and on what.
    pub fn report_on(self, doing: &'static str, place: &Path) -> SessionError {
        match self {
            Self::Session(error) => error,
            Self::Failed(reason) => SessionError::Storage {
                doing,
                place: place.display().to_string(),
                reason: cut(&reason, limits::CLUSTER_REASON_CHARS),
                mend: "check that the NATS server runs and has room".into(),
            },
        }
    }

    /// Returns the error of a writer that lost its session.
    pub fn lease_lost(id: &str) -> Self {
        Self::Session(SessionError::LeaseLost { id: id.to_owned() })
    }
}

async fn open(options: ClusterOptions) -> Result<ClusterHandles, String> {
    let mut connecting = ConnectOptions::new()
        .name("shelly-host")
        .connection_timeout(limits::CLUSTER_CONNECT)
        .request_timeout(Some(limits::CLUSTER_CALL));
    if let Some(path) = &options.credentials {
        connecting = connecting
            .credentials_file(path)
            .await
            .map_err(|error| format!("the credentials file {} cannot be used: {error}", path.display()))?;
    }
    if let Some(path) = &options.root_certificates {
        connecting = connecting.add_root_certificates(path.clone());
    }
    let client = connecting.connect(options.servers.clone()).await.map_err(|error| error.to_string())?;
    let message_bytes = (client.max_payload() / 2).clamp(1, limits::CLUSTER_MESSAGE_BYTES);
    let mut context = jetstream::new(client);
    context.set_timeout(limits::CLUSTER_CALL);
    let name = format!("shelly-{}", options.namespace);
    let stream = context
        .get_or_create_stream(Config {
            name: name.clone(),
            subjects: vec![format!("shelly.{}.>", options.namespace)],
            // A full stream refuses what is new; it never forgets.
            discard: DiscardPolicy::New,
            num_replicas: options.replicas,
            ..Config::default()
        })
        .await
        .map_err(|error| format!("the stream {name}: {error}"))?;
    let bucket = |name: String, max_age: Duration| kv::Config {
        bucket: name,
        history: 1,
        max_age,
        num_replicas: options.replicas,
        ..kv::Config::default()
    };
    let entries = bucket_of(&context, bucket(format!("{name}-sessions"), Duration::ZERO)).await?;
    let leases = bucket_of(&context, bucket(format!("{name}-leases"), options.lease)).await?;
    Ok(ClusterHandles { context, stream, entries, leases, options: Arc::new(options), message_bytes })
}

async fn bucket_of(context: &Context, config: kv::Config) -> Result<Store, String> {
    if let Ok(there) = context.get_key_value(&config.bucket).await {
        return Ok(there);
    }
    let name = config.bucket.clone();
    context.create_key_value(config).await.map_err(|error| format!("the bucket {name}: {error}"))
}

impl ClusterHandles {
    /// Returns the subject of a session's journal.
    pub fn journal_subject(&self, id: &str, token: &str) -> String {
        format!("shelly.{}.session.{}.{token}", self.options.namespace, key_of(id))
    }

    /// Returns the subject of a session's recorded events.
    pub fn events_subject(&self, id: &str, token: &str) -> String {
        self.part_subject("events", id, token)
    }

    /// Returns the beginning of the subjects of a session's attachments, or of copies of its journal.
    pub fn part_subject(&self, part: &str, id: &str, token: &str) -> String {
        format!("shelly.{}.{part}.{}.{token}", self.options.namespace, key_of(id))
    }

    /// Repeats a call while the server does not answer. `is_final` says whether the error is an answer.
    pub async fn retry<T, E: Display, F: Future<Output = Result<T, E>>>(
        &self,
        mut call: impl FnMut() -> F,
        is_final: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        let began = Instant::now();
        loop {
            match call().await {
                Err(error) if !is_final(&error) && began.elapsed() < self.options.retry => {
                    tokio::time::sleep(limits::CLUSTER_RETRY_PAUSE).await;
                }
                result => return result,
            }
        }
    }

    /// Returns the value of a key and its revision; `None` if it has none.
    pub async fn value(&self, store: &Store, key: &str) -> Result<Option<(Bytes, u64)>, ClusterCallError> {
        let entry = self.retry(|| store.entry(key), |_| false).await.map_err(ClusterCallError::failed)?;
        Ok(entry.filter(|entry| entry.operation == kv::Operation::Put).map(|entry| (entry.value, entry.revision)))
    }

    /// Creates a key, and returns its revision; `None` if it has a value.
    pub async fn create(&self, store: &Store, key: &str, value: &Bytes) -> Result<Option<u64>, ClusterCallError> {
        let is_there = |error: &kv::CreateError| error.kind() == kv::CreateErrorKind::AlreadyExists;
        match self.retry(|| store.create(key, value.clone()), is_there).await {
            Ok(revision) => Ok(Some(revision)),
            // The reply to a call that had created it may be lost.
            Err(error) if is_there(&error) => {
                Ok(self.value(store, key).await?.filter(|(there, _)| there == value).map(|(_, revision)| revision))
            }
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }

    /// Replaces the value of a key if it has this revision, and returns the next one; `None` if it has another revision.
    pub async fn update(
        &self,
        store: &Store,
        key: &str,
        value: &Bytes,
        revision: u64,
    ) -> Result<Option<u64>, ClusterCallError> {
        let is_other = |error: &kv::UpdateError| error.kind() == UpdateErrorKind::WrongLastRevision;
        match self.retry(|| store.update(key, value.clone(), revision), is_other).await {
            Ok(revision) => Ok(Some(revision)),
            // The reply to a call that had replaced it may be lost.
            Err(error) if is_other(&error) => {
                let there = self.value(store, key).await?;
                Ok(there.filter(|(there, _)| there == value).map(|(_, revision)| revision))
            }
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }

    /// Removes all messages of a subject, or of a pattern of subjects.
    pub async fn purge(&self, subject: &str) -> Result<(), ClusterCallError> {
        let purged = self.retry(|| self.stream.purge().filter(subject).into_future(), |_| false).await;
        purged.map(drop).map_err(ClusterCallError::failed)
    }
}

/// Returns the key and the part of a subject for a session's name. A dot separates the parts of a subject; no name has an
/// equals sign.
pub(crate) fn key_of(id: &str) -> String {
    id.replace('.', "=")
}

/// Returns the name of the session with this key.
pub(crate) fn name_of(key: &str) -> String {
    key.replace('=', ".")
}

/// Returns the path that stands for a session in messages.
pub(crate) fn location(namespace: &str, id: &str) -> PathBuf {
    Path::new("cluster").join(namespace).join(id).join("journal")
}

/// Returns random hexadecimal digits, which no other host has.
pub(crate) fn random_token() -> Result<String, ClusterCallError> {
    let mut random = [0; 12];
    getrandom::fill(&mut random).map_err(ClusterCallError::failed)?;
    Ok(hex::encode(random))
}
