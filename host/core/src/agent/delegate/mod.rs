//! Runs of agents and teams for another run: of team members, of agents that are called as tools, and of agents to which
//! tasks are delegated. The agent loop does not know them.
//!
//! Each of them ends in [`SubRun::execute`](sub_run::SubRun::execute): `sub_run.rs` is one run, and
//! `sub_run_attempts.rs` repeats one that failed. `delegate_tools.rs` has the tools that a model sees, `delegate_calls.rs`
//! their calls, `delegation.rs` one task from its request to its report. `reply_calls.rs` finds the calls of a reply that share a
//! budget.
//!
//! One delegated task is, in the order of its life:
//!
//! 1. a `DelegateTaskArgs`, as the model writes it, and a `DelegationRequest`, once it was checked;
//! 2. a `PendingDelegation`, when it has its id and its agent's instance name, and perhaps a `DelegationState` from before an
//!    interruption;
//! 3. a `DelegatedTask` in the journal, with its share of the budget;
//! 4. a `Delegation` while agents work on it. The delegating run holds it as a `ChildDelegation`, and as a `ParkedDelegation` while
//!    an agent waits for an answer;
//! 5. a `DelegationReport`, which the model reads.
//!
//! After an interruption the journal has a `RecordedDelegateCall` for all tasks of a call. A task is found in the journal by its
//! `DelegationKey`: the run, the call, and the `position` in the call. The id that a model reads, such as `d-1`, is another one.
//!
//! In these files `me` is the state of the delegating run, which has the parameters of the run too ([`RunState`] dereferences to
//! `RunParams`); `log` is its part of the journal; `spawned` are its tokio tasks; `board_task` is a task of the task board. A
//! question here goes from an agent to the one that delegated to it, not to a person, and `asking_call` is the id of the call of
//! `request_input` with which it was asked.
//!
//! [`RunState`]: crate::agent::context::RunState

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
pub use delegate_args::DELEGATE_TOOL;
pub(crate) use delegate_calls::restore_delegations;
pub use delegate_tools::RUN_TOOLS;
pub(crate) use delegate_tools::run_tools;
pub(crate) use member_runs::{MemberAllocations, MemberFailure, MemberRun, begin_members};
