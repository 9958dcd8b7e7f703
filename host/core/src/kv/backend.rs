use std::{collections::BTreeMap, ops::Bound};

use super::KvError;
use crate::limits;

/// A value with its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// The value.
    pub value: Vec<u8>,
    /// The revision: it changes with every write of the key and never repeats.
    pub revision: u64,
}

/// The condition under which a write is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvPrecondition {
    /// Always.
    Anything,
    /// The key has no value.
    Nothing,
    /// The value has this revision.
    Revision(u64),
}

impl KvPrecondition {
    /// Returns `true` if the condition holds for a value of this revision.
    pub fn holds(self, there: Option<u64>) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => there.is_none(),
            Self::Revision(revision) => there == Some(revision),
        }
    }
}

/// The storage of one store. Keys and values are within their bounds. All calls may block.
pub trait KvBackend: Send {
    /// Returns the value of a key.
    ///
    /// # Errors
    ///
    /// [`KvError`].
    fn get(&mut self, key: &str) -> Result<Option<KvEntry>, KvError>;
    /// Writes a value; without one, removes the key. Returns `false` and does nothing if the precondition does not hold.
    ///
    /// # Errors
    ///
    /// [`KvError`], also if the write would exceed the store's quota.
    fn write(&mut self, key: &str, expected: KvPrecondition, value: Option<&[u8]>) -> Result<bool, KvError>;
    /// Lists the keys that start with `prefix` and come after `after`, in byte order: the first
    /// [`limits::KV_KEYS_LISTED`].
    ///
    /// # Errors
    ///
    /// [`KvError`].
    fn keys(&mut self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, KvError>;
}

/// Returns the keys that [`KvBackend::keys`] lists.
pub(super) fn listed<V>(entries: &BTreeMap<String, V>, prefix: &str, after: Option<&str>) -> Vec<String> {
    let from = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let keys = entries.range::<str, _>((from, Bound::Unbounded)).map(|(key, _)| key);
    keys.take_while(|key| key.starts_with(prefix)).take(limits::KV_KEYS_LISTED).cloned().collect()
}
