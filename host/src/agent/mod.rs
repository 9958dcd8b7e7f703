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
pub use agent::{Agent, DEFAULT_PREFIX, Interaction, Options};
pub use as_tool::{AgentTool, AsTool, Conversation, NoTool};
pub(crate) use completion::in_time;
pub use crew::{Crew, SendError};
pub(crate) use delegate::Instance;
pub use delegate::RUN_TOOLS;
pub use effect::{Action, Ask, Edit, Effect, EffectFn, Moment, Phase, Step, Wake};
pub(crate) use effect::{Told, ask_for, bounded_state};
pub use error::RunError;
pub use fitting::WindowExceeded;
pub use grants::Grants;
pub use guard::{InputGuardrail, LOGGER_TARGET, Logger, OutputGuardrail, Recovery, Timeout};
pub(crate) use journal::RunPast;
pub(crate) use member::{Failed, Job, Shares, begin as begin_members};
pub(crate) use middleware::may_replace_answers;
pub use middleware::{AfterDecision, BeforeDecision, Middleware, Outcome};
pub use registry::{Cost, Entry, Factory, Refused, Registry};
pub(crate) use run::{Run, Shell, Work};
pub use run_limits::RunLimits;
pub use runner::{Answer, Ending, Runner, Start};
pub use sampled::sample;
