//! A bucket on a NATS server.

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_nats::jetstream::{
    consumer::{DeliverPolicy, ReplayPolicy, push},
    kv::{self, Store, UpdateErrorKind},
};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use shelly_core::{
    bucket::{BucketChangeFn, BucketEntry, BucketError, BucketWatch, StateBucket},
    error::cut,
    limits,
};
use shelly_session::SessionError;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use super::{
    bucket_kind::ClusterBucketKind,
    stored_value::{StoredContent, StoredParts, StoredValue},
};
use crate::{
    ClusterJournals,
    connection::{ClusterCallError, ClusterConnection, ClusterHandles, bucket_of, random_token},
    encryption::{SealKind, SealPlace},
    seal_error::SealError,
};

/// The beginning of the keys of parts. No key of the host begins so: an `=` there is followed by two hexadecimal digits.
const PARTS: &str = "=parts";
/// The header of a message that removes a key.
const OPERATION: &str = "KV-Operation";

/// A bucket on a NATS server, which is created when it is used for the first time. Clones share it, and the connection of
/// the sessions.
#[derive(Clone)]
pub struct ClusterBucket {
    journals: ClusterJournals,
    kind: ClusterBucketKind,
    /// The time for which a call is repeated; `None`: the time of the connection.
    retry: Option<Duration>,
    state: Arc<ClusterBucketState>,
}

#[derive(Default)]
struct ClusterBucketState {
    /// `None` until the first use.
    store: Mutex<Option<Store>>,
    /// The tokens of the values in parts that were seen, by revision.
    large: Mutex<HashMap<u64, String>>,
}

impl fmt::Debug for ClusterBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterBucket({})", self.kind.name())
    }
}

impl ClusterBucket {
    /// Creates the bucket of one kind in the namespace of these sessions. Nothing is sent before its first use.
    pub fn new(journals: &ClusterJournals, kind: ClusterBucketKind) -> Self {
        let retry = (kind == ClusterBucketKind::Rates).then_some(limits::RATE_SHARE_RETRY);
        Self { journals: journals.clone(), kind, retry, state: Arc::default() }
    }

    /// Runs a task on the bucket while this thread waits.
    pub(super) fn on<T, F>(&self, task: impl FnOnce(ClusterHandles, Store) -> F) -> Result<T, BucketError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, BucketError>> + Send + 'static,
    {
        let connection = self.journals.connection().map_err(unavailable)?;
        let store = self.store(&connection)?;
        let done = connection.wait("use", PathBuf::new, |mut handles| {
            if let Some(retry) = self.retry {
                let options = handles.options.as_ref().clone();
                handles.options = Arc::new(crate::ClusterOptions { retry, ..options });
            }
            let done = task(handles, store);
            async move { Ok(done.await) }
        });
        done.map_err(unavailable)?
    }

    fn store(&self, connection: &ClusterConnection) -> Result<Store, BucketError> {
        let mut store = self.state.store.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = &*store {
            return Ok(store.clone());
        }
        let kind = self.kind;
        let opened = connection.wait("open", PathBuf::new, |handles| async move {
            let config = kv::Config {
                bucket: kind.bucket(&handles.options.namespace),
                history: 1,
                max_age: kind.max_age(),
                num_replicas: handles.options.replicas,
                ..kv::Config::default()
            };
            bucket_of(&handles.context, config).await.map_err(ClusterCallError::Failed)
        });
        Ok(store.insert(opened.map_err(unavailable)?).clone())
    }

    /// Remembers that the value of this revision has parts.
    fn remember(&self, revision: u64, token: Option<String>) {
        if let Some(token) = token {
            let mut large = self.state.large.lock().unwrap_or_else(PoisonError::into_inner);
            if large.len() >= limits::BUCKET_LARGE_KNOWN {
                // Parts that are forgotten take room on the server, and nothing else.
                large.clear();
            }
            large.insert(revision, token);
        }
    }

    /// Returns the token of a value whose parts are not needed any more.
    fn forget(&self, revision: Option<u64>) -> Option<String> {
        self.state.large.lock().unwrap_or_else(PoisonError::into_inner).remove(&revision?)
    }

    fn check(key: &str) -> Result<(), BucketError> {
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte))
        };
        match key.len() <= limits::BUCKET_KEY_BYTES && key.split('.').all(is_part) && !key.starts_with(PARTS) {
            true => Ok(()),
            false => Err(BucketError::BadKey { key: cut(key, limits::NAME_SHOWN_CHARS) }),
        }
    }
}

impl StateBucket for ClusterBucket {
    fn get(&self, key: &str) -> Result<Option<BucketEntry>, BucketError> {
        Self::check(key)?;
        let key = key.to_owned();
        let read = self.on(|handles, store| async move { read(&handles, &store, &key).await })?;
        Ok(read.map(|(entry, token)| {
            self.remember(entry.revision, token);
            entry
        }))
    }

    fn write(&self, key: &str, expected: Option<u64>, value: Option<&[u8]>) -> Result<Option<u64>, BucketError> {
        Self::check(key)?;
        if let Some(bytes) = value.map(<[u8]>::len).filter(|bytes| *bytes > limits::BUCKET_VALUE_BYTES) {
            return Err(BucketError::TooLarge { bytes });
        }
        let (key, value) = (key.to_owned(), value.map(Bytes::copy_from_slice));
        let written = self.on(|handles, store| async move {
            match (value, expected) {
                (Some(value), _) => write(&handles, &store, &key, expected, value).await,
                (None, Some(revision)) => {
                    Ok(remove(&handles, &store, &key, revision).await?.map(|revision| (revision, None)))
                }
                (None, None) => Ok(None),
            }
        })?;
        let Some((revision, token)) = written else { return Ok(None) };
        self.remember(revision, token);
        if let Some(token) = self.forget(expected) {
            // The value is replaced; what cannot be removed now stays on the server.
            let _ = self.on(|handles, store| async move {
                remove_parts(&handles, &store, &token).await;
                Ok(())
            });
        }
        Ok(Some(revision))
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
        Self::check(prefix)?;
        let filter = format!("{prefix}.>");
        self.on(|handles, store| async move {
            let listed = handles.retry(|| keys(&handles, &store, &filter), |error| *error == BucketError::TooManyKeys);
            let mut keys = listed.await?;
            keys.sort();
            Ok(keys)
        })
    }

    fn watch(&self, key: &str, changed: BucketChangeFn) -> Result<Box<dyn BucketWatch>, BucketError> {
        Self::check(key)?;
        let connection = self.journals.connection().map_err(unavailable)?;
        let (store, key) = (self.store(&connection)?, key.to_owned());
        let task = connection.spawn(async move {
            loop {
                if let Ok(mut watch) = store.watch_with_history(&key).await {
                    // Anything may have happened before.
                    changed();
                    while let Some(Ok(_)) = watch.next().await {
                        changed();
                    }
                }
                sleep(limits::CLUSTER_RETRY_PAUSE).await;
            }
        });
        let task = task.ok_or_else(|| BucketError::Unavailable { reason: "the connection has ended".into() })?;
        Ok(Box::new(ClusterWatch { _task: task, _connection: connection }))
    }
}

/// A task that follows a key.
struct ClusterWatch {
    _task: AbortOnDropHandle<()>,
    _connection: Arc<ClusterConnection>,
}

impl fmt::Debug for ClusterWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterWatch")
    }
}

impl BucketWatch for ClusterWatch {}

fn unavailable(error: SessionError) -> BucketError {
    let reason = match error {
        SessionError::Storage { reason, .. } => reason,
        error => error.to_string(),
    };
    BucketError::Unavailable { reason: cut(&reason, limits::CLUSTER_REASON_CHARS) }
}

fn failed(error: ClusterCallError) -> BucketError {
    unavailable(error.report_on("use", Path::new("")))
}

fn part_key(token: &str, part: usize) -> String {
    format!("{PARTS}.{token}.{part}")
}

/// Opens what the server has under a key. A value without its key is left alone; one that was changed is damaged.
fn open(
    handles: &ClusterHandles,
    store: &Store,
    key: &str,
    revision: u64,
    value: &Bytes,
) -> Result<Bytes, BucketError> {
    let name = format!("{}{key}", store.prefix);
    handles.seals.open(SealPlace::new(SealKind::State, &name), value).map_err(|error| match error {
        SealError::Changed { .. } | SealError::Plain { .. } => {
            BucketError::Damaged { key: key.to_owned(), revision, reason: error.to_string() }
        }
        error => failed(error.into()),
    })
}

/// Returns a value as the server is given it under a key.
fn seal(handles: &ClusterHandles, store: &Store, key: &str, value: Bytes) -> Result<Bytes, BucketError> {
    let name = format!("{}{key}", store.prefix);
    handles.seals.seal(SealPlace::new(SealKind::State, &name), value).map_err(|error| failed(error.into()))
}

/// Reads a value, and the token of its parts if it has some.
async fn read(
    handles: &ClusterHandles,
    store: &Store,
    key: &str,
) -> Result<Option<(BucketEntry, Option<String>)>, BucketError> {
    let mut last = 0;
    for _ in 0..limits::BUCKET_READS {
        // A server that lags behind would tell of a value that this host has replaced.
        let Some((bytes, revision)) = handles.leader_value(store, key).await.map_err(failed)? else { return Ok(None) };
        let damaged = |reason: String| BucketError::Damaged { key: key.to_owned(), revision, reason };
        last = revision;
        let opened = open(handles, store, key, revision, &bytes)?;
        if StoredValue::is_newer(&opened) {
            // One that is damaged may be replaced; this one is not.
            let reason = format!("a newer shelly-host has written `{key}`; update this one");
            return Err(BucketError::Unavailable { reason });
        }
        let StoredValue { token, content } = StoredValue::parse(&opened).map_err(damaged)?;
        let parts = match content {
            StoredContent::Whole(value) => {
                return Ok(Some((BucketEntry { value: value.to_vec(), revision }, None)));
            }
            StoredContent::Parts(parts) => parts,
        };
        let Some(value) = read_parts(handles, store, &token, &parts).await? else {
            // Another host has replaced the value, and removed the parts.
            sleep(limits::CLUSTER_RETRY_PAUSE / 10).await;
            continue;
        };
        if !parts.describes(&value) {
            return Err(damaged("its parts have another digest".into()));
        }
        return Ok(Some((BucketEntry { value, revision }, Some(token))));
    }
    Err(BucketError::Damaged { key: key.to_owned(), revision: last, reason: "parts of it are missing".into() })
}

/// Reads the parts of a value; `None` if one is missing or they are too long.
async fn read_parts(
    handles: &ClusterHandles,
    store: &Store,
    token: &str,
    parts: &StoredParts,
) -> Result<Option<Vec<u8>>, BucketError> {
    let mut value = Vec::new();
    for part in 0..parts.parts {
        let key = part_key(token, part);
        let Some((bytes, revision)) = handles.leader_value(store, &key).await.map_err(failed)? else { return Ok(None) };
        let bytes = open(handles, store, &key, revision, &bytes)?;
        if value.len() + bytes.len() > parts.bytes {
            return Ok(None);
        }
        value.extend_from_slice(&bytes);
    }
    Ok(Some(value))
}

/// Writes a value, and returns its revision and the token of its parts; `None` if the present value is not the expected one.
async fn write(
    handles: &ClusterHandles,
    store: &Store,
    key: &str,
    expected: Option<u64>,
    value: Bytes,
) -> Result<Option<(u64, Option<String>)>, BucketError> {
    let token = random_token().map_err(failed)?;
    let has_parts = value.len() + StoredValue::HEAD > handles.message_bytes;
    let content = match has_parts {
        false => StoredContent::Whole(value),
        true => {
            let parts = StoredParts::of(&value, handles.message_bytes);
            for part in 0..parts.parts {
                let from = part * handles.message_bytes;
                let bytes = value.slice(from..value.len().min(from + handles.message_bytes));
                let key = part_key(&token, part);
                let bytes = seal(handles, store, &key, bytes)?;
                let put = handles.retry(|| store.put(key.clone(), bytes.clone()), |_| false).await;
                put.map_err(|error| failed(ClusterCallError::failed(error)))?;
            }
            StoredContent::Parts(parts)
        }
    };
    let bytes = seal(handles, store, key, StoredValue { token: token.clone(), content }.to_bytes())?;
    let written = match expected {
        None => handles.create(store, key, &bytes).await,
        Some(revision) => handles.update(store, key, &bytes, revision).await,
    };
    if has_parts && matches!(written, Ok(None)) {
        remove_parts(handles, store, &token).await;
    }
    Ok(written.map_err(failed)?.map(|revision| (revision, has_parts.then_some(token))))
}

/// Removes a value of this revision; `None` if there is none.
async fn remove(handles: &ClusterHandles, store: &Store, key: &str, revision: u64) -> Result<Option<u64>, BucketError> {
    let is_other = |error: &kv::DeleteError| error.kind() == UpdateErrorKind::WrongLastRevision;
    let mut attempts = 0;
    let deleted = handles
        .retry(
            || {
                attempts += 1;
                store.delete_expect_revision(key, Some(revision))
            },
            is_other,
        )
        .await;
    let marker = handles.retry(|| store.entry(key), |_| false).await;
    let marker = marker.ok().flatten().filter(|entry| entry.operation != kv::Operation::Put);
    match deleted {
        Ok(()) => {}
        // The reply to a call that had removed it may be lost.
        Err(error) if is_other(&error) && attempts > 1 && marker.is_some() => {}
        Err(error) if is_other(&error) => return Ok(None),
        Err(error) => return Err(failed(ClusterCallError::failed(error))),
    }
    let Some(marker) = marker else { return Ok(Some(revision)) };
    // The marker of the removal has no use: a listing would have to pass over it for ever.
    let subject = format!("{}{key}", store.prefix);
    let _ = store.stream.purge().filter(subject).sequence(marker.revision.saturating_add(1)).into_future().await;
    Ok(Some(marker.revision))
}

async fn remove_parts(handles: &ClusterHandles, store: &Store, token: &str) {
    let subject = format!("{}{PARTS}.{token}.>", store.prefix);
    let _ = handles.retry(|| store.stream.purge().filter(&subject).into_future(), |_| false).await;
}

/// Returns the keys that a pattern matches.
async fn keys(handles: &ClusterHandles, store: &Store, pattern: &str) -> Result<Vec<String>, BucketError> {
    let failed = |error: &dyn fmt::Display| failed(ClusterCallError::failed(error));
    let consumer = store
        .stream
        .create_consumer(push::OrderedConfig {
            deliver_subject: handles.context.client().new_inbox(),
            filter_subject: format!("{}{pattern}", store.prefix),
            headers_only: true,
            replay_policy: ReplayPolicy::Instant,
            deliver_policy: DeliverPolicy::LastPerSubject,
            ..push::OrderedConfig::default()
        })
        .await
        .map_err(|error| failed(&error))?;
    let mut keys = Vec::new();
    if consumer.cached_info().num_pending == 0 {
        return Ok(keys);
    }
    let mut messages = consumer.messages().await.map_err(|error| failed(&error))?;
    loop {
        let next = timeout(limits::CLUSTER_CALL, messages.try_next()).await;
        let next = next.map_err(|_| failed(&"the list of keys stopped"))?.map_err(|error| failed(&error))?;
        let message = next.ok_or_else(|| failed(&"the list of keys ended early"))?;
        let is_removed = message.headers.as_ref().is_some_and(|headers| headers.get(OPERATION).is_some());
        if let Some(key) = message.subject.strip_prefix(store.prefix.as_str()).filter(|_| !is_removed) {
            if keys.len() >= limits::BUCKET_KEYS {
                return Err(BucketError::TooManyKeys);
            }
            keys.push(key.to_owned());
        }
        if message.info().map_err(|error| failed(&error))?.pending == 0 {
            return Ok(keys);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_large_values_are_remembered() {
        // Nothing is sent to this server.
        let journals = ClusterJournals::new(crate::ClusterOptions::new("nats://127.0.0.1:1", "t"));
        let bucket = ClusterBucket::new(&journals, ClusterBucketKind::Boards);
        let most = limits::BUCKET_LARGE_KNOWN as u64;
        for revision in 1..=most {
            bucket.remember(revision, Some(revision.to_string()));
        }
        bucket.remember(most + 1, None);
        assert_eq!(bucket.forget(Some(1)).as_deref(), Some("1"), "a value without parts takes no room");
        assert_eq!((bucket.forget(Some(1)), bucket.forget(None)), (None, None));
        for revision in [most + 1, most + 2] {
            bucket.remember(revision, Some(revision.to_string()));
        }
        assert_eq!(bucket.forget(Some(2)), None, "more than {most} are forgotten");
        assert_eq!(bucket.forget(Some(most + 2)), Some((most + 2).to_string()));
    }
}
