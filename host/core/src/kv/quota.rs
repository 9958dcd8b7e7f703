use super::KvError;
use crate::limits;

/// The capacity of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvQuota {
    /// The maximum bytes of keys and values.
    pub bytes: u64,
    /// The maximum number of keys.
    pub keys: usize,
}

impl Default for KvQuota {
    fn default() -> Self {
        Self { bytes: limits::KV_STORE_BYTES, keys: limits::KV_STORE_KEYS }
    }
}

impl KvQuota {
    /// Checks that a store that holds `bytes` bytes under `keys` keys may replace an entry of `old` bytes (`None`: a new
    /// entry) by one of `new` bytes. A store above its quota, because the quota was lowered, may shrink but not grow.
    pub(super) fn check(self, bytes: u64, keys: usize, old: Option<u64>, new: u64) -> Result<(), KvError> {
        let would = bytes - old.unwrap_or(0) + new;
        if would > self.bytes && would > bytes {
            return Err(KvError::Full { would, most: self.bytes });
        }
        if old.is_none() && keys >= self.keys {
            return Err(KvError::TooManyKeys { most: self.keys });
        }
        Ok(())
    }
}
