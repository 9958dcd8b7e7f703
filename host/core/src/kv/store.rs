use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use super::{KvEntry, KvError, KvPrecondition, backend::KvBackend, memory::MemoryKvBackend};
use crate::limits;

/// A store. Clones refer to the same store.
#[derive(Clone)]
pub struct KvStore(Arc<KvStoreInner>);

struct KvStoreInner {
    kind: KvStoreKind,
    /// The reported errors: their number, and the last one.
    reported: Mutex<(u32, Option<KvError>)>,
}

enum KvStoreKind {
    Memory(Mutex<MemoryKvBackend>),
    /// An operation may block a thread; the lock limits this to one thread per store.
    Blocking(Arc<tokio::sync::Mutex<dyn KvBackend>>),
}

impl fmt::Debug for KvStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0.kind {
            KvStoreKind::Memory(_) => "KvStore(memory)",
            KvStoreKind::Blocking(_) => "KvStore(shared)",
        })
    }
}

impl KvStore {
    pub(super) fn in_memory(memory: MemoryKvBackend) -> Self {
        Self::of(KvStoreKind::Memory(Mutex::new(memory)))
    }

    /// Creates a store with this storage, whose calls may block.
    pub fn with_backend(backend: impl KvBackend + 'static) -> Self {
        Self::of(KvStoreKind::Blocking(Arc::new(tokio::sync::Mutex::new(backend))))
    }

    fn of(kind: KvStoreKind) -> Self {
        Self(Arc::new(KvStoreInner { kind, reported: Mutex::default() }))
    }

    /// Reads the value of a key. Keys have 1 to [`limits::KV_KEY_BYTES`] bytes.
    ///
    /// # Errors
    ///
    /// [`KvError`].
    pub async fn get(&self, key: String) -> Result<Option<KvEntry>, KvError> {
        check_key(&key)?;
        self.on(move |backend| backend.get(&key)).await
    }

    /// Writes a value, or removes the key without one, if the precondition holds; returns `true` if it did. A write that has
    /// begun completes, even if the future is dropped.
    ///
    /// # Errors
    ///
    /// [`KvError`]: nothing is written then, except when the disk fails without telling whether it has written.
    pub async fn write(&self, key: String, expected: KvPrecondition, value: Option<Vec<u8>>) -> Result<bool, KvError> {
        check_key(&key)?;
        if let Some(bytes) = value.as_ref().map(Vec::len).filter(|bytes| *bytes > limits::KV_VALUE_BYTES) {
            return Err(KvError::ValueTooLarge { bytes });
        }
        self.on(move |backend| backend.write(&key, expected, value.as_deref())).await
    }

    /// Lists the keys that start with `prefix` and come after `after`, in byte order: the first [`limits::KV_KEYS_LISTED`].
    ///
    /// # Errors
    ///
    /// [`KvError`], also if `prefix` or `after` is longer than a key.
    pub async fn keys(&self, prefix: String, after: Option<String>) -> Result<Vec<String>, KvError> {
        let longest = prefix.len().max(after.as_ref().map_or(0, String::len));
        if longest > limits::KV_KEY_BYTES {
            return Err(KvError::BadKey { bytes: longest });
        }
        self.on(move |backend| backend.keys(&prefix, after.as_deref())).await
    }

    /// Returns `true` if this error differs from the last reported one, so that a caller reports a problem once and not on
    /// each call; always `false` after [`limits::KV_WARNINGS`] reports.
    pub fn is_news(&self, error: &KvError) -> bool {
        let mut reported = self.0.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let (times, last) = &mut *reported;
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
            KvStoreKind::Blocking(backend) => {
                let mut backend = Arc::clone(backend).lock_owned().await;
                match tokio::task::spawn_blocking(move || work(&mut *backend)).await {
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
