use std::sync::{Arc, atomic::AtomicU64};

/// The clock of an instance that is not granted the time. It advances by [`FROZEN_STEP`](shelly_core::limits::FROZEN_STEP)
/// with each reading, so that a loop that waits for a time ends, and by the duration of each completed wait.
#[derive(Default)]
pub struct FrozenClock {
    /// The reading. Timers of the instance share it.
    pub nanos: Arc<AtomicU64>,
}
