//! An agent: a model, its tools and its middleware, in a loop that runs until there is an answer.
//!
//! [`Agent::run`] passes through the run middleware (`run.rs`), outermost first, into the loop (`agent_loop.rs`), and back.

#[expect(clippy::module_inception, reason = "the type that the room is named after")]
mod agent;
mod agent_group;
mod agent_loop;
mod as_tool;
mod builtin_middleware;
mod call_schedule;
mod caller_context;
mod completion;
mod concurrency_permit;
mod delegate;
mod effect;
mod effect_memory;
mod error;
mod grant_decisions;
pub mod journal;
mod member_runs;
mod model_middleware_chain;
mod model_sampling;
mod prompt;
mod read_result_tool;
mod refused_tool;
mod registry;
mod resume;
mod run;
mod run_limits;
mod run_middleware;
mod run_tasks;
mod runner;
mod sub_run;
mod tool_calls;
mod tool_middleware_chain;
mod window_check;

pub use crate::error::OnFailure;
pub use agent::{Agent, AgentRunOptions, DEFAULT_PREFIX, InteractionMode};
pub use agent_group::{AgentGroup, SendError};
pub use as_tool::{AgentTool, AgentToolError, AgentToolOptions, ConversationMode};
pub use builtin_middleware::{
    InputGuardrail, LOGGER_TARGET, LoggingMiddleware, OutputGuardrail, RecoveryMiddleware, TimeoutMiddleware,
};
pub(crate) use completion::in_time;
pub use delegate::RUN_TOOLS;
pub(crate) use delegate::RunState;
pub use effect::{Effect, EffectAction, EffectEdit, EffectFn, EffectInput, EffectPhase, EffectStep, ModelQuery, Wake};
pub(crate) use effect::{EffectModelReply, ask_for, bounded_state};
pub use error::RunError;
pub use grant_decisions::GrantDecisions;
pub(crate) use journal::RecordedRun;
pub(crate) use member_runs::{MemberAllocations, MemberFailure, MemberRun, begin as begin_members};
pub use model_sampling::sample;
pub use registry::{AgentEntry, AgentFactory, AgentRefusal, AgentRegistry, CostTier};
pub(crate) use run::{Run, RunLoop, RunnerInfo};
pub use run_limits::RunLimits;
pub(crate) use run_middleware::may_replace_answers;
pub use run_middleware::{AfterRunDecision, BeforeRunDecision, RunMiddleware, RunOutcome};
pub use runner::{RunAnswer, RunEnding, RunParams, Runner};
pub use window_check::WindowExceeded;
