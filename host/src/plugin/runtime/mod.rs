//! The engine that plugins run in, and one call of one plugin.

mod cache;
mod call;
mod engine;
mod kept;
mod limiter;
mod limits;
mod meter;
mod share;
mod state;

pub(super) use call::{CallSetup, Lane, PROBE};
pub use engine::{PluginEngine, engine_config};
pub(super) use kept::KeptInstances;
pub(super) use limiter::{Bound, Limiter};
pub use limits::Limits;
pub(super) use meter::Meter;
pub(super) use share::Share;
pub(super) use state::{ChatView, PluginState, Progress};
