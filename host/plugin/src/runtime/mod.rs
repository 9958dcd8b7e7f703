//! The engine that plugins run in, and the execution of one call: limits, metering, memory.

mod cache;
mod call;
mod engine;
mod guest_memory;
mod limiter;
mod limits;
mod machine_memory;
mod meter;
mod quotas;
mod run_instances;
mod state;

pub(super) use call::{CallSetup, Lane, PROBE};
pub(super) use engine::precompile;
pub use engine::{PluginEngine, engine_config};
pub use guest_memory::GuestMemoryUse;
pub(super) use guest_memory::{
    GuestMemoryBudget, MemoryAccount, MemoryRefusal, MemoryRefusalReason, MemoryReservation, MemoryShare,
    MemoryShortage,
};
pub(super) use limiter::{GuestLimit, InstanceLimiter};
pub use limits::Limits;
pub use machine_memory::MemorySource;
pub(super) use meter::CallMeter;
pub(super) use quotas::PluginQuota;
pub(super) use run_instances::RunInstances;
pub(super) use state::{ChatView, PluginState, ToolProgressThrottle};
