use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use serde::{Deserialize, Serialize};

use super::{
    KvEntry, KvError, KvPrecondition, KvQuota,
    backend::{KvBackend, listed},
};
use crate::{
    bucket::{BucketEntry, BucketError, StateBucket, bucket_key_part, change_entry, text_of_key_part},
    limits,
};

/// A store in a bucket that several hosts share. A value is at `OWNER.key.KEY`; the bytes and the number of all are at
/// `OWNER.total`, where a write reserves its growth before it is done.
#[derive(Debug)]
pub struct BucketKvBackend {
    bucket: Arc<dyn StateBucket>,
    /// The beginning of all keys.
    owner: String,
    quota: KvQuota,
    /// The time of the last count of all entries.
    counted: Mutex<Option<Instant>>,
}

/// The content of a store. A host that dies between reserving and writing leaves too much of it, which the next count
/// corrects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct KvTotal {
    bytes: u64,
    keys: usize,
}

impl KvTotal {
    /// Reads a total; what is none counts as nothing, and is corrected with the next count.
    fn parse(bytes: Option<&[u8]>) -> Self {
        let most = Self { bytes: u64::MAX / 2, keys: usize::MAX / 2 };
        let total: Self = bytes.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
        Self { bytes: total.bytes.min(most.bytes), keys: total.keys.min(most.keys) }
    }

    fn to_bytes(self) -> Vec<u8> {
        // Two numbers always serialize.
        serde_json::to_vec(&self).unwrap_or_default()
    }
}

impl From<BucketError> for KvError {
    fn from(error: BucketError) -> Self {
        Self::Cluster { reason: error.to_string() }
    }
}

impl BucketKvBackend {
    /// Creates the store of this owner, which is the beginning of its keys in the bucket.
    pub fn new(bucket: Arc<dyn StateBucket>, owner: String, quota: KvQuota) -> Self {
        Self { bucket, owner, quota, counted: Mutex::default() }
    }

    fn key(&self, key: &str) -> String {
        format!("{}.key.{}", self.owner, bucket_key_part(key))
    }

    /// Replaces `old` bytes of an entry by `new` ones in the total; `None`: there is no entry.
    fn change_total(&self, old: Option<u64>, new: Option<u64>, is_checked: bool) -> Result<(), KvError> {
        let quota = self.quota;
        change_entry(&*self.bucket, &format!("{}.total", self.owner), |there| {
            let total = KvTotal::parse(there);
            if let Some(new) = new.filter(|_| is_checked) {
                // A total that is too small is no reason to refuse.
                quota.check(total.bytes.max(old.unwrap_or(0)), total.keys, old, new)?;
            }
            let bytes = total.bytes.saturating_sub(old.unwrap_or(0)) + new.unwrap_or(0);
            let keys = (total.keys + usize::from(new.is_some())).saturating_sub(usize::from(old.is_some()));
            Ok::<_, KvError>((Some(KvTotal { bytes, keys }.to_bytes()), ()))
        })
    }

    /// Reserves the change of an entry. A store that seems to be full is counted before it refuses, but not often.
    fn reserve(&self, old: Option<u64>, new: u64) -> Result<(), KvError> {
        match self.change_total(old, Some(new), true) {
            Err(KvError::Full { .. } | KvError::TooManyKeys { .. }) if self.may_count() => {
                self.count()?;
                self.change_total(old, Some(new), true)
            }
            done => done,
        }
    }

    fn may_count(&self) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let may = counted.is_none_or(|counted| counted.elapsed() >= limits::KV_COUNT_PAUSE);
        if may {
            *counted = Some(Instant::now());
        }
        may
    }

    /// Counts all entries. Changes that other hosts make meanwhile go before.
    fn count(&self) -> Result<(), KvError> {
        let key = format!("{}.total", self.owner);
        let there = self.bucket.get(&key)?;
        let mut total = KvTotal::default();
        for key in self.all_keys()? {
            if let Some((_, bytes)) = self.revision_and_bytes(&key)? {
                total.bytes += bytes;
                total.keys += 1;
            }
        }
        self.bucket.write(&key, there.map(|entry| entry.revision), Some(&total.to_bytes()))?;
        Ok(())
    }

    /// Returns the keys of the store; foreign ones are skipped.
    fn all_keys(&self) -> Result<Vec<String>, KvError> {
        let below = format!("{}.key", self.owner);
        let is_key = |key: &String| (1..=limits::KV_KEY_BYTES).contains(&key.len());
        let of_store = |key: &str| text_of_key_part(key.get(below.len() + 1..)?).filter(is_key);
        Ok(self.bucket.keys(&below)?.iter().filter_map(|key| of_store(key)).collect())
    }

    /// Returns the revision of an entry, and the bytes that it counts.
    fn revision_and_bytes(&self, key: &str) -> Result<Option<(u64, u64)>, KvError> {
        match self.bucket.get(&self.key(key)) {
            Ok(there) => Ok(there.map(|BucketEntry { value, revision }| (revision, (key.len() + value.len()) as u64))),
            // A plugin mends it when it writes the key again.
            Err(BucketError::Damaged { revision, .. }) => Ok(Some((revision, key.len() as u64))),
            Err(error) => Err(error.into()),
        }
    }

    fn entry(&self, key: &str) -> Result<Option<KvEntry>, KvError> {
        let Some(BucketEntry { value, revision }) = self.bucket.get(&self.key(key))? else { return Ok(None) };
        if value.len() > limits::KV_VALUE_BYTES {
            return Err(KvError::Cluster { reason: format!("the value of `{}` is too large", key.escape_debug()) });
        }
        Ok(Some(KvEntry { value, revision }))
    }
}

impl KvBackend for BucketKvBackend {
    fn get(&mut self, key: &str) -> Result<Option<KvEntry>, KvError> {
        self.entry(key)
    }

    fn write(&mut self, key: &str, expected: KvPrecondition, value: Option<&[u8]>) -> Result<bool, KvError> {
        for _ in 0..limits::BUCKET_ATTEMPTS {
            let there = self.revision_and_bytes(key)?;
            let (revision, old) = (there.map(|(revision, _)| revision), there.map(|(_, bytes)| bytes));
            if !expected.holds(revision) {
                return Ok(false);
            }
            if old.is_none() && value.is_none() {
                return Ok(true);
            }
            let new = value.map(|value| (key.len() + value.len()) as u64);
            if let Some(new) = new {
                self.reserve(old, new)?;
            }
            let written = self.bucket.write(&self.key(key), revision, value);
            let is_written = matches!(written, Ok(Some(_)));
            match (new, is_written) {
                (Some(_), true) => return Ok(true),
                // A total that cannot be corrected now is corrected by the next count.
                (None, true) => drop(self.change_total(old, None, false)),
                (Some(_), false) => drop(self.change_total(new, old, false)),
                (None, false) => {}
            }
            if written?.is_some() {
                return Ok(true);
            }
        }
        Err(BucketError::Busy { key: key.escape_debug().to_string() }.into())
    }

    fn keys(&mut self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, KvError> {
        let keys: BTreeMap<String, ()> = self.all_keys()?.into_iter().map(|key| (key, ())).collect();
        Ok(listed(&keys, prefix, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{BucketChangeFn, BucketWatch, MemoryBucket};

    const ANY: KvPrecondition = KvPrecondition::Anything;

    fn store(bucket: &MemoryBucket, quota: KvQuota) -> BucketKvBackend {
        BucketKvBackend::new(Arc::new(bucket.clone()), "plugin.p".into(), quota)
    }

    #[test]
    fn wrong_total_is_counted_before_a_write_is_refused() {
        let bucket = MemoryBucket::new();
        let quota = KvQuota { bytes: 20, keys: 3 };
        store(&bucket, quota).write("a", ANY, Some(b"12345")).unwrap();
        for garbage in [&br#"{"bytes":19,"keys":3}"#[..], b"\xff", br#"{"bytes":18446744073709551615,"keys":1}"#] {
            let revision = bucket.get("plugin.p.total").unwrap().map(|entry| entry.revision);
            bucket.write("plugin.p.total", revision, Some(garbage)).unwrap();
            let mut store = store(&bucket, quota);
            assert!(store.write("b", ANY, Some(b"123")).unwrap(), "{}", garbage.escape_ascii());
            assert!(store.write("b", ANY, None).unwrap());
        }
        let mut full = store(&bucket, quota);
        assert_eq!(full.write("b", ANY, Some(&[0; 14])), Err(KvError::Full { would: 21, most: 20 }));
        assert!(!full.may_count(), "a full store is not counted with each write");
    }

    #[test]
    fn foreign_content_of_a_bucket_is_no_value() {
        let bucket = MemoryBucket::new();
        for key in ["plugin.p.key.=61", "plugin.p.key.a.b", "plugin.p.key.=", "plugin.p.other", "plugin.q.key.a"] {
            bucket.write(key, None, Some(b"foreign")).unwrap();
        }
        bucket.write("plugin.p.key.large", None, Some(&vec![0; limits::KV_VALUE_BYTES + 1])).unwrap();
        let mut store = store(&bucket, KvQuota::default());
        assert_eq!(store.keys("", None).unwrap(), ["large"]);
        assert!(matches!(store.get("large"), Err(KvError::Cluster { .. })));
        assert_eq!(store.get("a").unwrap(), None);
        assert!(store.write("large", ANY, Some(b"small")).unwrap(), "it can be replaced");
    }

    /// A bucket whose empty values cannot be read.
    #[derive(Debug)]
    struct DamagedBucket(MemoryBucket);

    impl StateBucket for DamagedBucket {
        fn get(&self, key: &str) -> Result<Option<BucketEntry>, BucketError> {
            match self.0.get(key)? {
                Some(BucketEntry { value, revision }) if value.is_empty() => {
                    Err(BucketError::Damaged { key: key.into(), revision, reason: "it is empty".into() })
                }
                there => Ok(there),
            }
        }

        fn write(&self, key: &str, expected: Option<u64>, value: Option<&[u8]>) -> Result<Option<u64>, BucketError> {
            self.0.write(key, expected, value)
        }

        fn keys(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
            self.0.keys(prefix)
        }

        fn watch(&self, key: &str, changed: BucketChangeFn) -> Result<Box<dyn BucketWatch>, BucketError> {
            self.0.watch(key, changed)
        }
    }

    #[test]
    fn damaged_value_can_be_replaced_and_removed() {
        let quota = KvQuota { bytes: 20, keys: 2 };
        let mut store = BucketKvBackend::new(Arc::new(DamagedBucket(MemoryBucket::new())), "plugin.p".into(), quota);
        for (key, expected, value, is_done) in [
            ("a", KvPrecondition::Nothing, Some(&b"new"[..]), false),
            ("a", ANY, Some(&b"new"[..]), true),
            ("b", ANY, None, true),
        ] {
            store.bucket.write(&store.key(key), None, Some(b"")).unwrap();
            assert!(store.get(key).unwrap_err().to_string().contains("is damaged: it is empty"));
            assert_eq!(store.write(key, expected, value), Ok(is_done), "{key}");
            if !is_done {
                assert!(store.write(key, ANY, None).unwrap());
            }
        }
        assert_eq!(store.get("a").unwrap().unwrap().value, b"new");
        assert_eq!(store.keys("", None).unwrap(), ["a"]);
        // A count does not fail because of it.
        store.bucket.write(&store.key("c"), None, Some(b"")).unwrap();
        let total = store.bucket.get("plugin.p.total").unwrap().map(|entry| entry.revision);
        store.bucket.write("plugin.p.total", total, Some(br#"{"bytes":5,"keys":9}"#)).unwrap();
        assert_eq!(store.write("d", ANY, Some(b"1")), Err(KvError::TooManyKeys { most: 2 }));
        assert!(store.write("c", ANY, Some(b"1")).unwrap());
    }

    #[test]
    fn store_without_its_server_says_so() {
        let bucket = MemoryBucket::new();
        bucket.set_away(true);
        let error = store(&bucket, KvQuota::default()).get("a").unwrap_err();
        assert!(error.is_of_operator());
        let told = error.fault().to_string();
        assert!(told.contains("the cluster does not answer") && !told.contains("set to be away"), "{told}");
    }
}
