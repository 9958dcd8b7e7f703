//! The context of a run: its identity, its budget, its journal, and the agents that it works with.
//!
//! [`RunParams`] is what a run starts with, [`RunState`] what it shares with its tools. An [`AgentGroup`] is shared by all
//! runs that work together.

mod agent_entry;
mod agent_group;
mod agent_handle;
mod agent_models;
mod agent_registry;
mod allocated_calls;
mod caller_context;
mod concurrency_permit;
mod delegated_children;
mod grant_decisions;
mod in_time;
mod remote_tasks;
mod run_limits;
mod run_options;
mod run_origin;
mod run_state;
mod run_tasks;
mod runner;

pub use agent_entry::{AgentEntry, AgentRefusal, CostTier};
pub(crate) use agent_entry::{is_same_name, no_agent};
pub use agent_group::{AgentFactory, AgentGroup, AgentRegistry};
pub(crate) use agent_group::{SpawnError, SpawnedAgent, refusal};
pub(crate) use agent_handle::AgentHandle;
pub use agent_handle::SendError;
pub(crate) use agent_models::AgentModels;
pub(crate) use allocated_calls::{AgentCall, AgentCalls, AllocatedCalls};
pub(crate) use caller_context::CallerContext;
pub(crate) use concurrency_permit::ConcurrencyPermit;
pub(crate) use delegated_children::{
    ChildDelegation, ChildProgress, DelegatedChildren, ParkedDelegation, ParkedQuestion,
};
pub use grant_decisions::GrantDecisions;
pub(crate) use in_time::in_time;
pub use remote_tasks::{RemoteTaskOwner, budget_left, ceiling_of, record_remote_task, remote_task};
pub use run_limits::RunLimits;
pub use run_options::{AgentRunOptions, InteractionMode};
pub(crate) use run_origin::{DelegateQuestion, DelegationContext, QuestionRoute, RunOrigin};
pub(crate) use run_state::RunState;
pub(crate) use run_tasks::RunTasks;
pub use runner::{RunParams, Runner, RunnerProfile};
