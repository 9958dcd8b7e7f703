//! The contract of stores, held by those in memory, on disk and in a bucket.

use std::sync::{Arc, Mutex};

use super::{
    disk::DiskKvBackend,
    kv_contract::{KV_CHECK_QUOTA, KvFixture, failed_kv_checks},
    memory::{KvMemoryPool, MemoryKvBackend},
    *,
};
use crate::{bucket::MemoryBucket, limits};

/// A handle of a store in memory.
struct InMemory(Arc<Mutex<MemoryKvBackend>>);

impl KvBackend for InMemory {
    fn get(&mut self, key: &str) -> Result<Option<KvEntry>, KvError> {
        self.0.lock().unwrap().get(key)
    }

    fn write(&mut self, key: &str, expected: KvPrecondition, value: Option<&[u8]>) -> Result<bool, KvError> {
        self.0.lock().unwrap().write(key, expected, value)
    }

    fn keys(&mut self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, KvError> {
        self.0.lock().unwrap().keys(prefix, after)
    }
}

impl KvFixture for InMemory {
    fn store(&self) -> Box<dyn KvBackend> {
        Box::new(Self(Arc::clone(&self.0)))
    }
}

impl KvFixture for tempfile::TempDir {
    fn store(&self) -> Box<dyn KvBackend> {
        Box::new({
            let folder = self.path().to_owned();
            DiskKvBackend::new(Arc::new(move || Ok(folder.clone())), vec!["p.kv".into()], KV_CHECK_QUOTA)
        })
    }
}

impl KvFixture for MemoryBucket {
    fn store(&self) -> Box<dyn KvBackend> {
        Box::new(BucketKvBackend::new(Arc::new(self.clone()), "plugin.p".into(), KV_CHECK_QUOTA))
    }
}

#[test]
fn every_kv_backend_passes_all_checks() {
    let pool = || Arc::new(KvMemoryPool::new(limits::KV_MEMORY_BYTES));
    let in_memory = || MemoryKvBackend::new(KV_CHECK_QUOTA, pool());
    assert_eq!(failed_kv_checks(|| Box::new(InMemory(Arc::new(Mutex::new(in_memory()))))), []);
    assert_eq!(failed_kv_checks(|| Box::new(tempfile::tempdir().unwrap())), []);
    assert_eq!(failed_kv_checks(|| Box::new(MemoryBucket::new())), []);
}
