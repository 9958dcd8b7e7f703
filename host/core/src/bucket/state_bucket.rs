use std::{fmt, sync::Arc};

use super::BucketError;
use crate::limits;

/// A value in a bucket with its revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketEntry {
    /// The value.
    pub value: Vec<u8>,
    /// The revision: it grows with every write to the bucket and never repeats.
    pub revision: u64,
}

/// A callback that is told that something has changed. It must not block and must not use the bucket.
pub type BucketChangeFn = Arc<dyn Fn() + Send + Sync>;

/// The right to be told of changes; dropping it ends them.
pub trait BucketWatch: Send + Sync + fmt::Debug {}

/// A map from keys to values that several hosts share. All calls block.
///
/// A key has 1 to [`limits::BUCKET_KEY_BYTES`] bytes: parts of letters, digits, `-`, `_` and `=`, with dots between them.
/// [`bucket_key_part`](super::bucket_key_part) makes a part of any text. A value has at most
/// [`limits::BUCKET_VALUE_BYTES`].
pub trait StateBucket: Send + Sync + fmt::Debug {
    /// Returns the value of a key.
    ///
    /// # Errors
    ///
    /// [`BucketError`].
    fn get(&self, key: &str) -> Result<Option<BucketEntry>, BucketError>;

    /// Writes a value if the present one has the revision `expected` (`None`: if there is none), or removes the present
    /// one; returns the revision of the write, or `None` if the present value is another one. Of several hosts that expect
    /// the same revision, one succeeds.
    ///
    /// # Errors
    ///
    /// [`BucketError`]; after [`BucketError::Unavailable`] the write may have been done.
    fn write(&self, key: &str, expected: Option<u64>, value: Option<&[u8]>) -> Result<Option<u64>, BucketError>;

    /// Returns the keys below `prefix`, which are those that begin with it and a dot, sorted.
    ///
    /// # Errors
    ///
    /// [`BucketError`], also if there are more than [`limits::BUCKET_KEYS`].
    fn keys(&self, prefix: &str) -> Result<Vec<String>, BucketError>;

    /// Calls `changed` at least once after each change of this key, until the returned watch is dropped. While the server is
    /// away nothing is told; once it is back, `changed` is called.
    ///
    /// # Errors
    ///
    /// [`BucketError`] if the key is none, or the server was never reached.
    fn watch(&self, key: &str, changed: BucketChangeFn) -> Result<Box<dyn BucketWatch>, BucketError>;
}

/// Replaces the value of a key by the one that `change` returns for the present one, which is repeated if another host was
/// faster; without a value nothing is written.
///
/// # Errors
///
/// The errors of `change` and of the bucket; [`BucketError::Busy`] after [`limits::BUCKET_ATTEMPTS`] attempts.
pub fn change_entry<R, E: From<BucketError>>(
    bucket: &dyn StateBucket,
    key: &str,
    mut change: impl FnMut(Option<&[u8]>) -> Result<(Option<Vec<u8>>, R), E>,
) -> Result<R, E> {
    for _ in 0..limits::BUCKET_ATTEMPTS {
        let there = bucket.get(key)?;
        let (new, result) = change(there.as_ref().map(|entry| &entry.value[..]))?;
        let Some(new) = new else { return Ok(result) };
        if bucket.write(key, there.map(|entry| entry.revision), Some(&new))?.is_some() {
            return Ok(result);
        }
    }
    Err(BucketError::Busy { key: key.to_owned() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::MemoryBucket;

    /// A bucket in which another host is always faster.
    #[derive(Debug)]
    struct OutpacedBucket(MemoryBucket);

    impl StateBucket for OutpacedBucket {
        fn get(&self, key: &str) -> Result<Option<BucketEntry>, BucketError> {
            self.0.get(key)
        }

        fn write(&self, _: &str, _: Option<u64>, _: Option<&[u8]>) -> Result<Option<u64>, BucketError> {
            Ok(None)
        }

        fn keys(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
            self.0.keys(prefix)
        }

        fn watch(&self, key: &str, changed: BucketChangeFn) -> Result<Box<dyn BucketWatch>, BucketError> {
            self.0.watch(key, changed)
        }
    }

    #[test]
    fn change_gives_up_if_others_are_always_faster() {
        let mut attempts = 0;
        let changed = change_entry(&OutpacedBucket(MemoryBucket::new()), "a", |_| {
            attempts += 1;
            Ok::<_, BucketError>((Some(Vec::new()), ()))
        });
        assert_eq!(changed, Err(BucketError::Busy { key: "a".into() }));
        assert_eq!(attempts, limits::BUCKET_ATTEMPTS);
    }

    #[test]
    fn change_without_a_value_writes_nothing() {
        let bucket = MemoryBucket::new();
        assert_eq!(change_entry(&bucket, "a", |there| Ok::<_, BucketError>((None, there.is_none()))), Ok(true));
        assert_eq!(bucket.get("a"), Ok(None));
    }
}
