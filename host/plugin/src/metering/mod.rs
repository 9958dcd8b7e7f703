//! The bounds of a call, and their use so far: limits, permits, processor time, memory.

mod guest_memory;
mod lane;
mod limiter;
mod limits;
mod limits_place;
mod machine_memory;
mod meter;
mod quotas;

pub use guest_memory::{
    GuestMemoryBudget, GuestMemoryUse, MemoryAccount, MemoryRefusal, MemoryRefusalReason, MemoryShare, MemoryShortage,
};
pub use lane::Lane;
pub use limiter::{GuestLimit, InstanceLimiter, MemoryRequester};
pub use limits::Limits;
pub use limits_place::LimitsPlace;
pub use machine_memory::{MemorySource, total_guest_memory};
pub use meter::{CallMeter, ExceededTimeLimit};
pub use quotas::{ComponentPool, CpuQueue, PluginQuota};
