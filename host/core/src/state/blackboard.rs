use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    shared_board::SharedBoard,
    shown_name::shown_name,
    watched_value::{StateChangeFn, StateChangeHook, StateRestoreError, WatchedValue},
};
use crate::{
    bucket::{BucketError, StateBucket},
    error::{Fault, acts_on_terminal},
    limits,
    tool::ToolCallId,
};

/// A shared map of JSON values through which agents exchange facts. Clones are the same blackboard.
///
/// Values are copies: a stored value changes only when the key is written again. Each change increments the revision of the
/// whole board, from 1 on, so that no revision occurs twice, not even for a key that was deleted in between.
#[derive(Debug, Clone, Default)]
pub struct Blackboard {
    board: Arc<WatchedValue<BlackboardState>>,
    /// The tool call that changes through this handle are attributed to.
    author: Option<Arc<ToolCallId>>,
    /// The document of the board, if several hosts have it.
    shared: Arc<OnceLock<SharedBoard<BlackboardState>>>,
}

/// A value on a [`Blackboard`].
#[derive(Debug, Clone, Serialize)]
pub struct BlackboardEntry {
    /// The revision of the board at which the value was written; later values have larger ones.
    pub revision: u64,
    /// The value as it was written.
    pub value: Arc<RawValue>,
}

impl BlackboardEntry {
    /// Deserializes the value.
    ///
    /// # Errors
    ///
    /// An error if the value does not have that type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.value.get())
    }
}

/// A change of a [`Blackboard`]: replaying all changes in order rebuilds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlackboardChange {
    /// The key.
    pub key: String,
    /// The revision of the board after the change.
    pub revision: u64,
    /// The new value as JSON; `None`: the key was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// The reason for which a blackboard operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum BlackboardError {
    /// The namespace cannot be part of a tool name.
    #[error("invalid namespace `{namespace}`; use 1 to {} of a-z, 0-9 and _", limits::NAMESPACE_BYTES)]
    Namespace { namespace: String },
    /// The key is invalid.
    #[error("invalid key `{key}`; use 1 to {} bytes without control characters", limits::BLACKBOARD_KEY_BYTES)]
    Key { key: String },
    /// The value is not JSON, or is nested too deeply to be read again.
    #[error("cannot store the value for `{key}`: {cause}")]
    Value { key: String, cause: String },
    /// The value is too large.
    #[error(
        "the value for `{key}` has {bytes} bytes, the maximum is {}; write a summary, or use several keys",
        limits::BLACKBOARD_VALUE_BYTES
    )]
    TooLarge { key: String, bytes: usize },
    /// The blackboard has reached its maximum number of keys.
    #[error("the blackboard has reached its maximum of {} keys; write to an existing key", limits::BLACKBOARD_KEYS)]
    TooManyKeys,
    /// All values together are too large.
    #[error(
        "with this value the blackboard would have {bytes} bytes, the maximum is {}; overwrite values that are no \
         longer needed",
        limits::BLACKBOARD_BYTES
    )]
    Full { bytes: usize },
    /// The key does not have the expected revision.
    #[error("`{key}` is at {}, expected {}; read it again and retry", at(.found), at(.expected))]
    Conflict { key: String, expected: Option<u64>, found: Option<u64> },
    /// The blackboard is in a cluster that does not do it.
    #[error("the shared blackboard cannot be used: {cause}")]
    Cluster { cause: String },
}

impl From<BucketError> for BlackboardError {
    fn from(error: BucketError) -> Self {
        Self::Cluster { cause: error.to_string() }
    }
}

fn at(revision: &Option<u64>) -> String {
    revision.map_or_else(|| "no revision".into(), |revision| format!("revision {revision}"))
}

impl From<BlackboardError> for Fault {
    fn from(error: BlackboardError) -> Self {
        let message = error.to_string();
        match error {
            BlackboardError::TooLarge { .. } => Self::TooLarge { message },
            BlackboardError::Cluster { .. } => Self::Unavailable { message, after: None },
            BlackboardError::TooManyKeys | BlackboardError::Full { .. } => Self::Exhausted { message },
            _ => Self::Invalid { message },
        }
    }
}

impl Blackboard {
    /// Creates an empty blackboard.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the callback for each change from now on, in order, replacing an earlier callback. It is called while the
    /// blackboard is locked: it must not block and must not use the blackboard.
    pub fn on_change(&self, hook: Arc<StateChangeFn<BlackboardChange>>) {
        self.board.set(|board| board.hook = StateChangeHook::new(hook));
    }

    /// Returns a handle of the same board whose changes the callback is told to be of this tool call.
    pub fn attributed_to(&self, call: ToolCallId) -> Self {
        Self { board: Arc::clone(&self.board), author: Some(Arc::new(call)), shared: Arc::clone(&self.shared) }
    }

    /// Makes this the blackboard that several hosts have at `key` of a bucket. Its content is written if nobody has shared
    /// it yet, and replaced otherwise. From then on each change waits for the server, and changes of other hosts arrive by
    /// themselves; the callback is told of them as of changes of the host. Of several changes that arrive at once it is
    /// told the last of each key, so revisions may be left out. Blocks, on a thread of a tokio runtime. Only the first call
    /// has an effect.
    ///
    /// # Errors
    ///
    /// [`BlackboardError::Cluster`] if the server fails, or what it has is damaged.
    pub fn share(&self, bucket: Arc<dyn StateBucket>, key: String) -> Result<(), BlackboardError> {
        if self.shared.get().is_none() {
            let _ = self.shared.set(SharedBoard::begin(&self.board, bucket, key)?);
        }
        Ok(())
    }

    /// Takes over the changes that other hosts made before this call, which arrive by themselves only some time later. Does
    /// nothing on a blackboard of this host alone.
    ///
    /// # Errors
    ///
    /// [`BlackboardError::Cluster`] if the server fails, or what it has is damaged; the blackboard can be read as it was.
    pub async fn refresh(&self) -> Result<(), BlackboardError> {
        match self.shared.get() {
            Some(shared) => Ok(shared.refresh().await?),
            None => Ok(()),
        }
    }

    /// Returns `true` if several hosts have the blackboard: then a change waits for the server.
    pub fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Replaces the content with the result of replaying these changes on an empty blackboard. The change callback is not
    /// called for them; revisions continue from the last one.
    ///
    /// # Errors
    ///
    /// [`StateRestoreError`] if the changes are inconsistent; the blackboard is unchanged then.
    pub fn restore(&self, changes: impl IntoIterator<Item = BlackboardChange>) -> Result<(), StateRestoreError> {
        let mut restored = BlackboardState::default();
        for change in changes {
            let BlackboardChange { key, revision, value } = change;
            restored.make(&key, revision, value).map_err(|cause| {
                let position = format!("revision {revision} of the blackboard, `{}`", shown_name(&key).escape_debug());
                StateRestoreError { position, cause }
            })?;
        }
        self.board.set(|board| {
            restored.hook = std::mem::take(&mut board.hook);
            *board = restored;
        });
        Ok(())
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<BlackboardEntry> {
        self.board.read(|board| board.entries.get(key).cloned())
    }

    /// Writes the value of a key, replacing any existing one, and returns its revision.
    ///
    /// # Errors
    ///
    /// [`BlackboardError`] if the key or the value is invalid or too large, or the board is full.
    pub fn set<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Result<u64, BlackboardError> {
        let value = checked(key, value)?;
        self.change(|board| board.put(key, Arc::clone(&value)))
    }

    /// Writes the value of a key if the existing value has the revision `expected`, or if none exists and `expected` is
    /// `None`; returns the new revision. Of several concurrent callers that expect the same revision, one succeeds.
    ///
    /// # Errors
    ///
    /// The errors of [`set`](Self::set), and [`BlackboardError::Conflict`].
    pub fn compare_and_swap<T: Serialize + ?Sized>(
        &self,
        key: &str,
        expected: Option<u64>,
        value: &T,
    ) -> Result<u64, BlackboardError> {
        let value = checked(key, value)?;
        self.change(|board| {
            let found = board.entries.get(key).map(|entry| entry.revision);
            if found != expected {
                return Err(BlackboardError::Conflict { key: key.into(), expected, found });
            }
            board.put(key, Arc::clone(&value))
        })
    }

    /// Removes a key; returns `true` if it existed. In a cluster that does not answer, nothing is removed.
    pub fn delete(&self, key: &str) -> bool {
        let missing = || BlackboardError::Conflict { key: key.into(), expected: None, found: None };
        self.change(|board| board.remove(key).ok_or_else(missing)).is_ok()
    }

    /// Returns the keys, sorted.
    pub fn keys(&self) -> Vec<String> {
        self.board.read(|board| board.entries.keys().cloned().collect())
    }

    /// Returns all keys and values at one moment.
    pub fn snapshot(&self) -> BTreeMap<String, BlackboardEntry> {
        self.board.read(|board| board.entries.clone())
    }

    /// Returns the revision of its last change; 0 if it has never been changed.
    pub fn revision(&self) -> u64 {
        self.board.read(|board| board.revision)
    }

    /// Waits until the key has a value.
    pub async fn watch(&self, key: &str) -> BlackboardEntry {
        self.board.until(|board| board.entries.get(key).cloned()).await
    }

    /// Waits until the value of the key is newer than revision `after`; returns `None` if the key was deleted. With `after`
    /// 0, waits until a value exists.
    pub async fn changed(&self, key: &str, after: u64) -> Option<BlackboardEntry> {
        let look = |board: &BlackboardState| match board.entries.get(key) {
            Some(entry) => (entry.revision > after).then(|| Some(entry.clone())),
            None => (after > 0).then_some(None),
        };
        self.board.until(look).await
    }

    /// Applies a change in the name of this handle's author.
    fn change<R>(
        &self,
        change: impl Fn(&mut BlackboardState) -> Result<R, BlackboardError>,
    ) -> Result<R, BlackboardError> {
        if let Some(shared) = self.shared.get() {
            return shared.document.change(self.author.as_ref(), change);
        }
        self.board.change(|board| {
            board.hook.author = self.author.clone();
            change(board)
        })
    }
}

/// The content of a blackboard and its rules.
#[derive(Debug, Default)]
pub(super) struct BlackboardState {
    pub(super) entries: BTreeMap<String, BlackboardEntry>,
    /// The total bytes of all keys and values.
    pub(super) bytes: usize,
    pub(super) revision: u64,
    pub(super) hook: StateChangeHook<BlackboardChange>,
}

impl BlackboardState {
    /// Replays a recorded change; an error says why it is inconsistent.
    fn make(&mut self, key: &str, revision: u64, value: Option<String>) -> Result<(), String> {
        let next = self.revision.saturating_add(1);
        // A board that hosts share leaves out what was overwritten before it arrived.
        if !(next..=next.saturating_add(limits::BLACKBOARD_SKIPPED)).contains(&revision) {
            return Err(format!("expected revision {next}"));
        }
        self.revision = revision - 1;
        match value.map(RawValue::from_string) {
            Some(Ok(value)) => {
                let value = checked(key, &*value).map_err(|error| error.to_string())?;
                self.put(key, value).map(drop).map_err(|error| error.to_string())
            }
            Some(Err(error)) => Err(format!("the value is not JSON: {error}")),
            None => self.remove(key).map(drop).ok_or_else(|| "the key to delete does not exist".into()),
        }
    }

    pub(super) fn put(&mut self, key: &str, value: Arc<RawValue>) -> Result<u64, BlackboardError> {
        let old = self.entries.get(key);
        if old.is_none() && self.entries.len() >= limits::BLACKBOARD_KEYS {
            return Err(BlackboardError::TooManyKeys);
        }
        let bytes = self.bytes - old.map_or(0, |old| bytes_of(key, old)) + key.len() + value.get().len();
        if bytes > limits::BLACKBOARD_BYTES {
            return Err(BlackboardError::Full { bytes });
        }
        self.bytes = bytes;
        self.revision += 1;
        self.hook.tell(|| BlackboardChange {
            key: key.into(),
            revision: self.revision,
            value: Some(value.get().to_owned()),
        });
        self.entries.insert(key.into(), BlackboardEntry { revision: self.revision, value });
        Ok(self.revision)
    }

    fn remove(&mut self, key: &str) -> Option<BlackboardEntry> {
        let gone = self.entries.remove(key)?;
        self.bytes -= bytes_of(key, &gone);
        self.revision += 1;
        self.hook.tell(|| BlackboardChange { key: key.into(), revision: self.revision, value: None });
        Some(gone)
    }
}

fn bytes_of(key: &str, entry: &BlackboardEntry) -> usize {
    key.len() + entry.value.get().len()
}

pub(super) fn checked<T: Serialize + ?Sized>(key: &str, value: &T) -> Result<Arc<RawValue>, BlackboardError> {
    if !(1..=limits::BLACKBOARD_KEY_BYTES).contains(&key.len()) || key.contains(acts_on_terminal) {
        return Err(BlackboardError::Key { key: shown_name(key).escape_debug().to_string() });
    }
    let unfit = |error: serde_json::Error| BlackboardError::Value { key: key.into(), cause: error.to_string() };
    let value = serde_json::value::to_raw_value(value).map_err(unfit)?;
    let bytes = value.get().len();
    if bytes > limits::BLACKBOARD_VALUE_BYTES {
        return Err(BlackboardError::TooLarge { key: key.into(), bytes });
    }
    // Raw JSON may be nested too deeply or contain a lone surrogate, and could not be read again.
    serde_json::from_str::<serde_json::Value>(value.get()).map_err(unfit)?;
    Ok(value.into())
}

#[cfg(test)]
mod tests;
