use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use shelly_core::limits;

/// The clock of an instance that is not granted the time, or whose time is fixed. It advances by
/// [`FROZEN_STEP`](shelly_core::limits::FROZEN_STEP) with each reading, so that a loop that waits for a time ends, and by
/// the duration of each completed wait.
#[derive(Default)]
pub struct FrozenClock {
    /// The reading. Timers of the instance share it.
    pub nanos: Arc<AtomicU64>,
}

impl FrozenClock {
    /// Returns the step of the clock in nanoseconds.
    pub fn step() -> u64 {
        u64::try_from(limits::FROZEN_STEP.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Returns the reading, and advances by one step.
    pub fn read(&self) -> u64 {
        self.nanos.fetch_add(Self::step(), Relaxed)
    }

    /// Returns the nanoseconds until this reading.
    pub fn until(&self, reading: u64) -> u64 {
        reading.saturating_sub(self.nanos.load(Relaxed))
    }

    /// Returns the clock and its reading after a wait that begins now.
    pub fn after(&self, nanos: u64) -> (Arc<AtomicU64>, u64) {
        (Arc::clone(&self.nanos), self.nanos.load(Relaxed).saturating_add(nanos))
    }
}
