//! The agent: a model, its tools and what stands around them, in a loop until there is an answer.
//!
//! [`Agent::run`] goes through the run middlewares (`runner.rs`), outermost first, into the loop (`react.rs`), and back.

#[expect(clippy::module_inception, reason = "the type that the room is named after")]
mod agent;
mod around;
mod as_tool;
mod at_work;
mod calls;
mod chain;
mod completion;
mod crew;
mod delegate;
mod effect;
mod error;
mod fitting;
mod grants;
mod guard;
pub mod journal;
mod member;
mod memory;
mod middleware;
mod place;
mod prompt;
mod react;
mod read_on;
mod refused_tool;
mod registry;
mod resume;
mod run;
mod run_limits;
mod runner;
mod sampled;
mod schedule;
mod stint;
mod tasks;

pub use crate::error::OnFailure;
pub use agent::{Agent, AgentRunOptions, DEFAULT_PREFIX, InteractionMode};
pub use as_tool::{AgentTool, AgentToolError, AgentToolOptions, ConversationMode};
pub(crate) use completion::in_time;
pub use crew::{AgentGroup, SendError};
pub use delegate::RUN_TOOLS;
pub(crate) use delegate::RunState;
pub use effect::{Effect, EffectAction, EffectEdit, EffectFn, EffectInput, EffectPhase, EffectStep, ModelQuery, Wake};
pub(crate) use effect::{EffectModelReply, ask_for, bounded_state};
pub use error::RunError;
pub use fitting::WindowExceeded;
pub use grants::GrantDecisions;
pub use guard::{
    InputGuardrail, LOGGER_TARGET, LoggingMiddleware, OutputGuardrail, RecoveryMiddleware, TimeoutMiddleware,
};
pub(crate) use journal::RecordedRun;
pub(crate) use member::{MemberAllocations, MemberFailure, MemberRun, begin as begin_members};
pub(crate) use middleware::may_replace_answers;
pub use middleware::{AfterRunDecision, BeforeRunDecision, RunMiddleware, RunOutcome};
pub use registry::{AgentEntry, AgentFactory, AgentRefusal, AgentRegistry, CostTier};
pub(crate) use run::{Run, RunLoop, RunnerInfo};
pub use run_limits::RunLimits;
pub use runner::{RunAnswer, RunEnding, RunParams, Runner};
pub use sampled::sample;
