//! The connection to a server, and calls that wait for its replies.

use std::{
    fmt::{self, Display},
    future::Future,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    time::{Duration, Instant},
};

use async_nats::{
    ConnectOptions,
    jetstream::{
        self, Context,
        context::UpdateStreamError,
        kv::{self, Store, UpdateErrorKind},
        object_store::ObjectStore,
        stream::{Config, DiscardPolicy, LastRawMessageErrorKind, RawMessageError, Stream},
    },
};
use bytes::Bytes;
use shelly_core::{error::cut, hex, limits};
use shelly_session::{SessionError, SessionStore};
use tokio::{
    runtime::{Builder, Handle, Runtime, RuntimeFlavor},
    sync::OnceCell,
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    ClusterOptions, cluster_error::ClusterError, encryption::ContentSeals, lease_watch::LeaseWatch,
    offer_watch::OfferWatch, seal_error::SealError,
};

/// A connection. Its tasks run on a thread of its own: the client's streams and consumers need timers and tasks of the
/// runtime in which they are polled, and heartbeats must go on while the host's own threads are busy.
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
    /// Seals what is stored, and opens it.
    pub seals: Arc<ContentSeals>,
    /// The maximum bytes of a message.
    pub message_bytes: usize,
    /// The streams and buckets of runs, created when they are used for the first time.
    pub parts: Arc<ClusterParts>,
}

/// The streams and buckets that not each user of a connection needs.
#[derive(Default)]
pub(crate) struct ClusterParts {
    pub runs: OnceCell<RunStreams>,
    pub objects: OnceCell<ObjectStore>,
    pub workers: OnceCell<Store>,
    pub lease_watch: LeaseWatch,
}

/// The streams and buckets of runs.
pub(crate) struct RunStreams {
    /// The queue, of which each message is the id of a run.
    pub queue: Stream,
    /// The entries of runs.
    pub entries: Store,
    /// Reservations, and the place up to which entries were looked at for runs that are not queued.
    pub counters: Store,
    /// The time at which this host looked for such runs last; held by the look.
    pub repaired: Arc<tokio::sync::Mutex<Option<Instant>>>,
    /// The reason for which the last look failed, until somebody was told.
    pub repair_failure: Mutex<Option<ClusterCallError>>,
    /// The runs that were offered and that nobody has.
    pub offers: Mutex<OfferWatch>,
    /// The run after which the next look at reservations begins; empty: with the first one.
    pub checked: Mutex<String>,
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
    /// Connects to a server, and creates the streams of sessions that are missing. Blocks.
    pub fn open(options: ClusterOptions) -> Result<Self, ClusterError> {
        let servers = options.shown_servers();
        let failed = |reason: String| ClusterError::Unreachable {
            servers: servers.clone(),
            reason: cut(&reason, limits::CLUSTER_REASON_CHARS),
        };
        if !ClusterOptions::is_namespace(&options.namespace) {
            let most = limits::CLUSTER_NAMESPACE_BYTES;
            return Err(failed(format!(
                "the namespace must have 1 to {most} letters, digits, underscores and hyphens"
            )));
        }
        let seals = ContentSeals::load(&options)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("cluster").enable_all().build();
        let runtime = ConnectionRuntime(Some(runtime.map_err(|error| failed(error.to_string()))?));
        let opened = runtime.wait(open(options, seals));
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

    /// Starts a task on the runtime of the connection, which ends when the connection is dropped.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Option<AbortOnDropHandle<T>> {
        self.runtime.0.as_ref().map(|runtime| AbortOnDropHandle::new(runtime.spawn(task)))
    }

    /// Runs a task on the server, from whichever runtime. The task ends when the returned future is dropped: then it may be
    /// done in part, as if the host had died.
    pub async fn call<T, F>(
        &self,
        (doing, place): (&'static str, &str),
        task: impl FnOnce(ClusterHandles) -> F,
    ) -> Result<T, ClusterError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterCallError>> + Send + 'static,
    {
        let ended = || ClusterCallError::Failed(ENDED.into());
        let result = match self.spawn(task(self.handles.clone())) {
            Some(task) => task.await.unwrap_or_else(|_| Err(ended())),
            None => Err(ended()),
        };
        result.map_err(|error| error.in_cluster(doing, place))
    }
}

const ENDED: &str = "the connection has ended";

/// The reason for which a call failed.
#[derive(Debug)]
pub(crate) enum ClusterCallError {
    /// The session is not in the expected state.
    Session(SessionError),
    /// A run, an object or a worker is not in the expected state.
    Cluster(ClusterError),
    /// The server did not do it.
    Failed(String),
}

impl From<ClusterError> for ClusterCallError {
    fn from(error: ClusterError) -> Self {
        Self::Cluster(error)
    }
}

impl From<SealError> for ClusterCallError {
    fn from(error: SealError) -> Self {
        Self::Cluster(error.into())
    }
}

impl Display for ClusterCallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(error) => Display::fmt(&error.report(), f),
            Self::Cluster(error) => Display::fmt(error, f),
            Self::Failed(reason) => f.write_str(reason),
        }
    }
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
            other => {
                let (mend, is_unusable) = match &other {
                    Self::Cluster(ClusterError::Sealed(error)) => (error.mend(), true),
                    Self::Cluster(ClusterError::Invalid { .. }) => (
                        "update shelly-host; if another program has written it, remove the session, and find out who may \
                         publish in the namespace",
                        true,
                    ),
                    _ => ("check that the NATS server runs and has room", false),
                };
                SessionError::Storage {
                    doing,
                    place: place.display().to_string(),
                    reason: cut(&other.to_string(), limits::CLUSTER_REASON_CHARS),
                    mend: mend.into(),
                    is_unusable,
                }
            }
        }
    }

    /// Returns the error of a call on something else than a session.
    pub fn in_cluster(self, doing: &'static str, place: &str) -> ClusterError {
        match self {
            Self::Cluster(error) => error,
            other => ClusterError::Unavailable {
                doing,
                place: place.to_owned(),
                reason: cut(&other.to_string(), limits::CLUSTER_REASON_CHARS),
            },
        }
    }

    /// Returns the error of a writer that lost its session.
    pub fn lease_lost(id: &str) -> Self {
        Self::Session(SessionError::LeaseLost { id: id.to_owned() })
    }
}

async fn open(options: ClusterOptions, seals: ContentSeals) -> Result<ClusterHandles, String> {
    let mut connecting = ConnectOptions::new()
        .name("shelly-host")
        // So that whoever may use one namespace of an account cannot listen to the replies in another one.
        .custom_inbox_prefix(format!("_INBOX.shelly-{}", options.namespace))
        .connection_timeout(limits::CLUSTER_CONNECT)
        .request_timeout(Some(limits::CLUSTER_CALL));
    if let Some(path) = &options.credentials {
        connecting = connecting
            .credentials_file(path)
            .await
            .map_err(|error| format!("the credentials file {} cannot be used: {error}", path.display()))?;
    }
    if let Some(path) = &options.root_certificates {
        // The client reads it once a server has answered, and does not name it.
        tokio::fs::File::open(path)
            .await
            .map_err(|error| format!("the certificates file {} cannot be used: {error}", path.display()))?;
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
            subjects: session_subjects(&options.namespace),
            // A full stream refuses what is new; it never forgets.
            discard: DiscardPolicy::New,
            num_replicas: options.replicas,
            ..Config::default()
        })
        .await
        .map_err(|error| format!("the stream {name}: {error}"))?;
    narrow(&context, &stream, &options.namespace).await.map_err(|error| format!("the stream {name}: {error}"))?;
    let entries = bucket_of(&context, bucket(&options, "sessions", Duration::ZERO)).await?;
    let leases = bucket_of(&context, bucket(&options, "leases", options.lease)).await?;
    // All hosts keep the lease of the namespace: one that refreshed its own by a longer one would lose it.
    let lease = leases.stream.cached_info().config.max_age;
    let lease = if lease.is_zero() { options.lease } else { lease };
    let (options, seals, parts) = (Arc::new(ClusterOptions { lease, ..options }), Arc::new(seals), Arc::default());
    Ok(ClusterHandles { context, stream, entries, leases, options, seals, message_bytes, parts })
}

/// Returns the subjects of the stream of sessions.
fn session_subjects(namespace: &str) -> Vec<String> {
    SESSION_PARTS.iter().map(|part| format!("shelly.{namespace}.{part}.>")).collect()
}

/// The parts of a namespace that the stream of sessions holds.
const SESSION_PARTS: [&str; 4] = ["session", "events", "attachment", "copy"];

/// Takes the subjects from the stream of sessions that are not of sessions: earlier versions gave it all of the namespace.
/// Messages that are there stay, and hosts of an earlier version work on.
async fn narrow(context: &Context, stream: &Stream, namespace: &str) -> Result<(), UpdateStreamError> {
    let there = &stream.cached_info().config;
    match there.subjects.iter().any(|subject| *subject == format!("shelly.{namespace}.>")) {
        true => {
            context.update_stream(Config { subjects: session_subjects(namespace), ..there.clone() }).await.map(drop)
        }
        false => Ok(()),
    }
}

/// Returns the config of a bucket of the namespace.
pub(crate) fn bucket(options: &ClusterOptions, part: &str, max_age: Duration) -> kv::Config {
    kv::Config {
        bucket: format!("shelly-{}-{part}", options.namespace),
        history: 1,
        max_age,
        num_replicas: options.replicas,
        ..kv::Config::default()
    }
}

/// Returns a bucket, which is created if it is missing.
pub(crate) async fn bucket_of(context: &Context, config: kv::Config) -> Result<Store, String> {
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

    /// Returns the value of a key and its revision as the leader of the bucket's servers has it; `None` if it has none.
    /// [`ClusterHandles::value`] may ask a server that lags behind.
    pub async fn leader_value(&self, store: &Store, key: &str) -> Result<Option<(Bytes, u64)>, ClusterCallError> {
        let subject = format!("{}{key}", store.prefix);
        match self.retry(|| store.stream.get_last_raw_message_by_subject(&subject), is_answer).await {
            Ok(message) => {
                let is_removed = [KV_OPERATION, MARKER_REASON].iter().any(|name| message.headers.get(*name).is_some());
                Ok((!is_removed).then_some((message.payload, message.sequence)))
            }
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }

    /// Creates a key, and returns its revision; `None` if it has a value.
    pub async fn create(&self, store: &Store, key: &str, value: &Bytes) -> Result<Option<u64>, ClusterCallError> {
        let is_there = |error: &kv::CreateError| error.kind() == kv::CreateErrorKind::AlreadyExists;
        match self.retry(|| store.create(key, value.clone()), is_there).await {
            Ok(revision) => Ok(Some(revision)),
            // The reply to a call that had created it may be lost.
            Err(error) if is_there(&error) => {
                let there = self.leader_value(store, key).await?;
                Ok(there.filter(|(there, _)| there == value).map(|(_, revision)| revision))
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
                let there = self.leader_value(store, key).await?;
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

/// The header of a message of a bucket by which a key was removed.
const KV_OPERATION: &str = "KV-Operation";
/// The header of a message by which the server itself removed a key.
const MARKER_REASON: &str = "Nats-Marker-Reason";

/// Returns `true` if a server has answered that there is no such message.
pub(crate) fn is_answer(error: &RawMessageError) -> bool {
    matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound | LastRawMessageErrorKind::InvalidSubject)
}

/// Returns the key and the part of a subject for a session's name. A dot separates the parts of a subject; no name has an
/// equals sign.
pub(crate) fn key_of(id: &str) -> String {
    id.replace('.', "=")
}

/// Returns `true` if a session can have this key. Whoever may publish in the namespace can put a message at any subject,
/// also at one with a wildcard, which the server stores as it is: as a pattern it would be the subjects of all sessions.
pub(crate) fn is_session_key(key: &str) -> bool {
    !key.contains('.') && SessionStore::is_name(&name_of(key))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_keys_of_sessions_become_patterns() {
        for (key, is_one) in [
            (&*key_of("a.b_c-1"), true),
            (&*"a".repeat(limits::SESSION_NAME_BYTES), true),
            (&*"a".repeat(limits::SESSION_NAME_BYTES + 1), false),
            ("", false),
            ("=a", false),
            ("*", false),
            (">", false),
            ("a.b", false),
            ("a b", false),
            ("a\u{1b}", false),
        ] {
            assert_eq!(is_session_key(key), is_one, "{key:?}");
        }
    }
}
