use super::KvError;
use crate::limits;

/// How much a store may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvQuota {
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Keys.
    pub keys: usize,
}

impl Default for KvQuota {
    fn default() -> Self {
        Self { bytes: limits::KV_STORE_BYTES, keys: limits::KV_STORE_KEYS }
    }
}

impl KvQuota {
    /// Whether a store that holds `bytes` under so many `keys` may have an entry of `old` bytes (none: there is none)
    /// replaced by one of `new`. One that holds more than its quota, because that was larger once, may not grow; it may
    /// shrink.
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
