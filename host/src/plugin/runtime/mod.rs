//! The engine that plugins run in, and one call of one plugin.

mod cache;
mod call;
mod engine;
mod guest_memory;
mod kept;
mod limiter;
mod limits;
mod machine_memory;
mod meter;
mod share;
mod state;

pub(super) use call::{CallSetup, Lane, PROBE};
pub(super) use engine::precompile;
pub use engine::{PluginEngine, engine_config};
pub use guest_memory::GuestMemoryUse;
pub(super) use guest_memory::{
    GuestMemoryBudget, MemoryAccount, MemoryRefusal, MemoryReservation, MemoryShare, MemoryShortage, RefusalReason,
};
pub(super) use kept::KeptInstances;
pub(super) use limiter::{Bound, Limiter};
pub use limits::Limits;
pub use machine_memory::MemorySource;
pub(super) use meter::Meter;
pub(super) use share::Share;
pub(super) use state::{ChatView, PluginState, Progress};
