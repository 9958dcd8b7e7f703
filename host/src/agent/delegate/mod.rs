//! Delegation: how agents give each other tasks. Everything here is tools; the loop knows none of them.
//!
//! [`equip`] decides which of them a run has. `tools.rs` is what a model sees, `errand.rs` one task from its order to its
//! entry in the result, `instance.rs` the run that delegates, and the children that wait for its answers.

mod delegate_tools;
mod delegation;
mod delegation_report;
mod run_state;

pub use delegate_tools::RUN_TOOLS;
pub(crate) use delegate_tools::equip;
pub(crate) use delegation::DelegationContext;
pub(super) use delegation::in_tags;
pub use delegation_report::DelegationReport;
pub(super) use delegation_report::cut;
pub(crate) use run_state::RunState;
