use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::metering::Limits;

/// The log quota of one call, whichever interface it logs through. Clones count together.
#[derive(Clone, Default)]
pub struct PluginLogQuota(Arc<Mutex<PluginLogCounts>>);

#[derive(Default)]
struct PluginLogCounts {
    entries: u32,
    bytes: usize,
    dropped: u32,
}

impl PluginLogQuota {
    /// Counts an entry of `bytes` bytes, and returns `true` if it is logged. After one dropped entry all later ones are
    /// dropped too, so that the log is a gapless beginning.
    pub fn admits(&self, bytes: usize, limits: &Limits) -> bool {
        let mut count = self.count();
        let bytes = count.bytes.saturating_add(bytes);
        let admits = count.dropped == 0 && count.entries < limits.log_entries && bytes <= limits.log_bytes;
        if admits {
            count.entries += 1;
            count.bytes = bytes;
        } else {
            count.dropped = count.dropped.saturating_add(1);
        }
        admits
    }

    /// Returns the number of dropped entries.
    pub fn dropped(&self) -> u32 {
        self.count().dropped
    }

    fn count(&self) -> MutexGuard<'_, PluginLogCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
