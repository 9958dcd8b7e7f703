//! The engine that plugins run in, and the execution of one call: an instance, its limits, its event.

mod engine;
mod executor;
mod run_instances;

pub use engine::{PluginEngine, WASMTIME_VERSION};
pub use executor::{CallSetup, GuestExecutor};
pub use run_instances::RunInstances;
