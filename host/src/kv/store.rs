use std::{
    collections::BTreeMap,
    fmt,
    ops::Bound,
    sync::{Arc, Mutex, PoisonError},
};

use super::{KvError, disk::DiskKvBackend, memory::MemoryKvBackend};
use crate::limits;

/// A value and which one it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KvEntry {
    /// The bytes.
    pub value: Vec<u8>,
    /// Changes with every write of the key; never returns to an earlier one.
    pub revision: u64,
}

/// What must be under a key for a write to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KvPrecondition {
    /// Whatever is there.
    Anything,
    /// Nothing.
    Nothing,
    /// This revision.
    Revision(u64),
}

impl KvPrecondition {
    pub(super) fn holds(self, there: Option<u64>) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => there.is_none(),
            Self::Revision(revision) => there == Some(revision),
        }
    }
}

/// What a store can do wherever it is. Keys and values are within their bounds.
pub(super) trait KvBackend: Send {
    fn get(&mut self, key: &str) -> Result<Option<KvEntry>, KvError>;
    /// No value removes. `false`: what was expected is not there, and nothing is done.
    fn write(&mut self, key: &str, expected: KvPrecondition, value: Option<&[u8]>) -> Result<bool, KvError>;
    fn keys(&mut self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, KvError>;
}

/// A store. Clones are the same one.
#[derive(Clone)]
pub struct KvStore(Arc<KvStoreInner>);

struct KvStoreInner {
    kind: KvStoreKind,
    /// What somebody was told of why it cannot be used: how often, and what last.
    told: Mutex<(u32, Option<KvError>)>,
}

enum KvStoreKind {
    Memory(Mutex<MemoryKvBackend>),
    /// Whoever has its turn may block a thread: one thread a store.
    Disk(Arc<tokio::sync::Mutex<DiskKvBackend>>),
}

impl fmt::Debug for KvStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.kind {
            KvStoreKind::Memory(_) => "Store in memory",
            KvStoreKind::Disk(_) => "Store on disk",
        })
    }
}

impl KvStore {
    pub(super) fn in_memory(memory: MemoryKvBackend) -> Self {
        Self::new(KvStoreKind::Memory(Mutex::new(memory)))
    }

    pub(super) fn on_disk(disk: DiskKvBackend) -> Self {
        Self::new(KvStoreKind::Disk(Arc::new(tokio::sync::Mutex::new(disk))))
    }

    fn new(kind: KvStoreKind) -> Self {
        Self(Arc::new(KvStoreInner { kind, told: Mutex::default() }))
    }

    /// Reads. Keys have 1 to [`limits::KV_KEY_BYTES`] bytes.
    ///
    /// # Errors
    ///
    /// [`KvError`].
    pub async fn get(&self, key: String) -> Result<Option<KvEntry>, KvError> {
        check_key(&key)?;
        self.on(move |backend| backend.get(&key)).await
    }

    /// Writes (none removes) if what is `expected` is there; says whether it was. Once it has begun it is done, also if
    /// nobody waits for it any more.
    ///
    /// # Errors
    ///
    /// [`KvError`]: then nothing is written, but for a disk that fails and cannot be asked whether it has written.
    pub async fn write(&self, key: String, expected: KvPrecondition, value: Option<Vec<u8>>) -> Result<bool, KvError> {
        check_key(&key)?;
        if let Some(bytes) = value.as_ref().map(Vec::len).filter(|bytes| *bytes > limits::KV_VALUE_BYTES) {
            return Err(KvError::ValueTooLarge { bytes });
        }
        self.on(move |backend| backend.write(&key, expected, value.as_deref())).await
    }

    /// Keys that start with `prefix` and come after `after`, in byte order: the first [`limits::KV_KEYS_LISTED`].
    ///
    /// # Errors
    ///
    /// [`KvError`]: no key can be so long.
    pub async fn keys(&self, prefix: String, after: Option<String>) -> Result<Vec<String>, KvError> {
        let longest = prefix.len().max(after.as_ref().map_or(0, String::len));
        if longest > limits::KV_KEY_BYTES {
            return Err(KvError::BadKey { bytes: longest });
        }
        self.on(move |backend| backend.keys(&prefix, after.as_deref())).await
    }

    /// Whether this is not what it was last time. For whoever tells of what is in the way, once and not for each call; after
    /// [`limits::KV_WARNINGS`] times nothing is news any more.
    pub fn is_news(&self, error: &KvError) -> bool {
        let mut told = self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        let (times, last) = &mut *told;
        if *times >= limits::KV_WARNINGS || last.as_ref() == Some(error) {
            return false;
        }
        *times += 1;
        *last = Some(error.clone());
        true
    }

    async fn on<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut dyn KvBackend) -> Result<R, KvError> + Send + 'static,
    ) -> Result<R, KvError> {
        match &self.0.kind {
            KvStoreKind::Memory(memory) => work(&mut *memory.lock().unwrap_or_else(PoisonError::into_inner)),
            KvStoreKind::Disk(disk) => {
                let mut disk = Arc::clone(disk).lock_owned().await;
                match tokio::task::spawn_blocking(move || work(&mut *disk)).await {
                    Ok(done) => done,
                    Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
                }
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), KvError> {
    match key.len() {
        1..=limits::KV_KEY_BYTES => Ok(()),
        bytes => Err(KvError::BadKey { bytes }),
    }
}

/// The keys that [`KvStore::keys`] names.
pub(super) fn listed<V>(entries: &BTreeMap<String, V>, prefix: &str, after: Option<&str>) -> Vec<String> {
    let from = match after {
        Some(after) if after >= prefix => Bound::Excluded(after),
        _ => Bound::Included(prefix),
    };
    let keys = entries.range::<str, _>((from, Bound::Unbounded)).map(|(key, _)| key);
    keys.take_while(|key| key.starts_with(prefix)).take(limits::KV_KEYS_LISTED).cloned().collect()
}
