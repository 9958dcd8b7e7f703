use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::{
    KvEntry, KvError, KvPrecondition, KvQuota,
    backend::{KvBackend, listed},
};
use crate::limits;

/// The memory shared by all in-memory stores.
#[derive(Debug)]
pub(super) struct KvMemoryPool {
    used: AtomicUsize,
    most: usize,
}

impl KvMemoryPool {
    pub fn new(most: usize) -> Self {
        Self { used: AtomicUsize::new(0), most }
    }

    fn take(&self, bytes: usize) -> Result<(), KvError> {
        let taken = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.most);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken) {
            Ok(_) => Ok(()),
            Err(_) => Err(KvError::NoMemory { most: self.most }),
        }
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// An in-memory store.
#[derive(Debug)]
pub(super) struct MemoryKvBackend {
    entries: BTreeMap<String, KvEntry>,
    bytes: usize,
    /// The newest assigned revision.
    last: u64,
    quota: KvQuota,
    pool: Arc<KvMemoryPool>,
}

impl MemoryKvBackend {
    pub fn new(quota: KvQuota, pool: Arc<KvMemoryPool>) -> Self {
        Self { entries: BTreeMap::new(), bytes: 0, last: 0, quota, pool }
    }

    fn remove(&mut self, key: &str) {
        if let Some(gone) = self.entries.remove(key) {
            let bytes = key.len() + gone.value.len();
            self.bytes -= bytes;
            self.pool.give_back(bytes + limits::KV_ENTRY_BYTES);
        }
    }
}

impl KvBackend for MemoryKvBackend {
    fn get(&mut self, key: &str) -> Result<Option<KvEntry>, KvError> {
        Ok(self.entries.get(key).cloned())
    }

    fn write(&mut self, key: &str, expected: KvPrecondition, value: Option<&[u8]>) -> Result<bool, KvError> {
        let there = self.entries.get(key);
        if !expected.holds(there.map(|entry| entry.revision)) {
            return Ok(false);
        }
        let Some(value) = value else {
            self.remove(key);
            return Ok(true);
        };
        let (old, new) = (there.map(|entry| key.len() + entry.value.len()), key.len() + value.len());
        self.quota.check(self.bytes as u64, self.entries.len(), old.map(|old| old as u64), new as u64)?;
        match old {
            Some(old) if old >= new => self.pool.give_back(old - new),
            Some(old) => self.pool.take(new - old)?,
            None => self.pool.take(new + limits::KV_ENTRY_BYTES)?,
        }
        self.bytes = self.bytes - old.unwrap_or(0) + new;
        self.last += 1;
        self.entries.insert(key.to_owned(), KvEntry { value: value.into(), revision: self.last });
        Ok(true)
    }

    fn keys(&mut self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, KvError> {
        Ok(listed(&self.entries, prefix, after))
    }
}

impl Drop for MemoryKvBackend {
    fn drop(&mut self) {
        self.pool.give_back(self.bytes + self.entries.len() * limits::KV_ENTRY_BYTES);
    }
}
