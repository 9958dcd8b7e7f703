//! Delegation: tools with which agents give each other tasks. The agent loop does not know these tools.
//!
//! [`equip`] selects the tools of a run. `delegate_tools.rs` has the tools that a model sees, `delegation.rs` one task from
//! its request to its report, `delegation_report.rs` the report, and `run_state.rs` the state of a run, with its child agents that
//! wait for answers.

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
