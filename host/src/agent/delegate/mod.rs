//! Delegation: how agents give each other tasks. Everything here is tools; the loop knows none of them.
//!
//! [`equip`] decides which of them a run has. `tools.rs` is what a model sees, `errand.rs` one task from its order to its
//! entry in the result, `instance.rs` the run that delegates, and the children that wait for its answers.

mod entry;
mod errand;
mod instance;
mod tools;

pub use entry::DelegationReport;
pub(super) use entry::cut;
pub(crate) use errand::DelegationContext;
pub(super) use errand::in_tags;
pub(crate) use instance::RunState;
pub use tools::RUN_TOOLS;
pub(crate) use tools::equip;
