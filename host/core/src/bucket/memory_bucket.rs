use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use super::{BucketChangeFn, BucketEntry, BucketError, BucketWatch, StateBucket, bucket_key::check_key};
use crate::limits;

/// A bucket in memory. Clones are the same bucket.
#[derive(Debug, Clone, Default)]
pub struct MemoryBucket(Arc<Mutex<MemoryBucketState>>);

#[derive(Debug, Default)]
struct MemoryBucketState {
    entries: BTreeMap<String, BucketEntry>,
    last: u64,
    watches: Vec<Weak<MemoryWatch>>,
    is_away: bool,
}

struct MemoryWatch {
    key: String,
    changed: BucketChangeFn,
}

impl fmt::Debug for MemoryWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryWatch({})", self.key)
    }
}

impl BucketWatch for Arc<MemoryWatch> {}

impl MemoryBucket {
    /// Creates an empty bucket.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes all calls fail, as if the server were away, or succeed again.
    pub fn set_away(&self, is_away: bool) {
        self.lock().is_away = is_away;
    }

    fn lock(&self) -> MutexGuard<'_, MemoryBucketState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reach(&self) -> Result<MutexGuard<'_, MemoryBucketState>, BucketError> {
        let state = self.lock();
        match state.is_away {
            true => Err(BucketError::Unavailable { reason: "the bucket is set to be away".into() }),
            false => Ok(state),
        }
    }
}

impl StateBucket for MemoryBucket {
    fn get(&self, key: &str) -> Result<Option<BucketEntry>, BucketError> {
        check_key(key)?;
        Ok(self.reach()?.entries.get(key).cloned())
    }

    fn write(&self, key: &str, expected: Option<u64>, value: Option<&[u8]>) -> Result<Option<u64>, BucketError> {
        check_key(key)?;
        if let Some(bytes) = value.map(<[u8]>::len).filter(|bytes| *bytes > limits::BUCKET_VALUE_BYTES) {
            return Err(BucketError::TooLarge { bytes });
        }
        let mut state = self.reach()?;
        let there = state.entries.get(key).map(|entry| entry.revision);
        if there != expected || (there.is_none() && value.is_none()) {
            return Ok(None);
        }
        state.last += 1;
        let revision = state.last;
        match value {
            Some(value) => drop(state.entries.insert(key.to_owned(), BucketEntry { value: value.into(), revision })),
            None => drop(state.entries.remove(key)),
        }
        state.watches.retain(|watch| watch.strong_count() > 0);
        let watches: Vec<_> = state.watches.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        watches.iter().filter(|watch| watch.key == key).for_each(|watch| (watch.changed)());
        Ok(Some(revision))
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
        check_key(prefix)?;
        let below = format!("{prefix}.");
        let state = self.reach()?;
        let keys: Vec<_> = state
            .entries
            .range(below.clone()..)
            .map(|(key, _)| key)
            .take_while(|key| key.starts_with(&below))
            .take(limits::BUCKET_KEYS + 1)
            .cloned()
            .collect();
        if keys.len() > limits::BUCKET_KEYS {
            return Err(BucketError::TooManyKeys);
        }
        Ok(keys)
    }

    fn watch(&self, key: &str, changed: BucketChangeFn) -> Result<Box<dyn BucketWatch>, BucketError> {
        check_key(key)?;
        let watch = Arc::new(MemoryWatch { key: key.to_owned(), changed });
        self.lock().watches.push(Arc::downgrade(&watch));
        Ok(Box::new(watch))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::bucket_contract::{BucketFixture, failed_bucket_checks},
        *,
    };

    impl BucketFixture for MemoryBucket {
        fn bucket(&self) -> Arc<dyn StateBucket> {
            Arc::new(self.clone())
        }
    }

    #[test]
    fn memory_bucket_passes_all_checks() {
        assert_eq!(failed_bucket_checks(|| Box::new(MemoryBucket::new())), []);
    }

    #[test]
    fn too_many_keys_are_not_listed() {
        let bucket = MemoryBucket::new();
        for n in 0..=limits::BUCKET_KEYS {
            bucket.write(&format!("a.{n}"), None, Some(b"")).unwrap();
        }
        assert_eq!(bucket.keys("a"), Err(BucketError::TooManyKeys));
        assert!(bucket.keys("b").unwrap().is_empty());
    }

    #[test]
    fn bucket_that_is_away_does_nothing() {
        let bucket = MemoryBucket::new();
        bucket.set_away(true);
        assert!(matches!(bucket.write("a", None, Some(b"1")), Err(BucketError::Unavailable { .. })));
        bucket.set_away(false);
        assert_eq!(bucket.get("a"), Ok(None));
    }
}
