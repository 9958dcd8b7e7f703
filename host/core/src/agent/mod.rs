//! An agent: a model, its tools and its middleware, in a loop that runs until there is an answer.
//!
//! [`Agent::run`] (`agent_run.rs`) starts the driver (`run.rs`), which passes through the run middleware, outermost first,
//! into the loop (`agent_loop.rs`), and back. Each line uses only those above it:
//!
//! | layer | contains |
//! |---|---|
//! | `text.rs`, `outcome/`, `effect.rs`, `middleware/` | how a run ends; the traits of effects and of middleware |
//! | `journal/` | the records of runs, and the state that they add up to |
//! | `context/` | a run's identity, budget, journal and options; the group that agents work in; the trait [`Runner`] |
//! | `model_call/`, `tool_call/`, `effects/` | one request to the model, the calls of one reply, the effects of one turn |
//! | `agent.rs`, `run.rs`, `agent_loop.rs` | an agent, the driver of a run, and the loop inside it |
//! | `delegate/` | runs for other runs: members, agents as tools, delegated tasks |
//! | `agent_run.rs`, `resume.rs`, `prompt.rs` | an agent's run put together |

#[expect(clippy::module_inception, reason = "the type that the module is named after")]
mod agent;
mod agent_loop;
mod agent_run;
mod bounded_state;
mod context;
mod delegate;
mod effect;
mod effects;
pub mod journal;
mod middleware;
mod model_call;
mod outcome;
mod prompt;
mod resume;
mod run;
mod run_toolbox;
#[cfg(test)]
pub(crate) mod testing;
mod text;
mod tool_call;
mod window_shortening;

pub use crate::error::OnFailure;
pub use agent::{Agent, DEFAULT_PREFIX};
pub(crate) use bounded_state::bounded_state;
pub use context::{
    AgentEntry, AgentFactory, AgentGroup, AgentRefusal, AgentRegistry, AgentRunOptions, CostTier, GrantDecisions,
    InteractionMode, RemoteTaskOwner, RunLimits, RunParams, Runner, RunnerProfile, SendError, budget_left, ceiling_of,
    record_remote_task, remote_task,
};
pub(crate) use context::{AgentModels, RunState, in_time};
pub use delegate::{AgentTool, AgentToolError, AgentToolOptions, ConversationMode, DELEGATE_TOOL, RUN_TOOLS};
pub(crate) use delegate::{MemberAllocations, MemberFailure, MemberRun, begin_members};
pub use effect::{Effect, EffectAction, EffectEdit, EffectFn, EffectInput, EffectPhase, EffectStep, ModelQuery, Wake};
pub use effects::{EffectEditOutcome, EffectEditor, check_edits};
pub use middleware::{
    AfterRunDecision, BeforeRunDecision, InputGuardrail, LOGGER_TARGET, LoggingMiddleware, OutputGuardrail,
    RecoveryMiddleware, RunMiddleware, RunOutcome, TimeoutMiddleware,
};
pub(crate) use model_call::ask_for;
pub use model_call::sample;
pub use outcome::{RunAnswer, RunEnding, RunError, WindowExceeded};
pub(crate) use run::{Run, RunWork, RunnerInfo};
