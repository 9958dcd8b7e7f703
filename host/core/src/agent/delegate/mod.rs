//! Runs of agents and teams for another run: of team members, of agents that are called as tools, and of agents to which
//! tasks are delegated. The agent loop does not know them.
//!
//! Each of them ends in [`SubRun::execute`](sub_run::SubRun::execute): `sub_run.rs` is one run, and
//! `sub_run_attempts.rs` repeats one that failed. `delegate_tools.rs` has the tools that a model sees, `delegate_calls.rs`
//! their calls, `delegation.rs` one task from its request to its report.

mod agent_tool;
mod board_task_claim;
mod delegate_args;
mod delegate_calls;
mod delegate_tools;
mod delegation;
mod instance_name;
mod member_runs;
mod reply_calls;
mod sub_run;
mod sub_run_attempts;

pub use agent_tool::{AgentTool, AgentToolError, AgentToolOptions, ConversationMode};
pub(crate) use delegate_calls::restore_delegations;
pub use delegate_tools::RUN_TOOLS;
pub(crate) use delegate_tools::run_tools;
pub(crate) use member_runs::{MemberAllocations, MemberFailure, MemberRun, begin_members};
