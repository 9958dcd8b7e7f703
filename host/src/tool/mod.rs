//! Tools: what a model can call, whoever made it.

mod concurrency;
mod current_call;
mod described;
#[cfg(test)]
mod finished_event_tests;
mod function;
mod lookalike;
mod middleware;
mod need;
mod output;
mod result_size;
mod schema;
mod toolbox;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

pub use concurrency::{ConcurrencyDomain, ToolConcurrency};
pub(crate) use current_call::outside_of_calls;
pub use current_call::{CallStartHook, CurrentCall, current_call};
pub use described::described;
pub use function::{FnTool, function, spec};
pub use lookalike::looks_like;
pub use middleware::{ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget};
pub use need::ToolNeed;
pub use output::{ChangeProposalPart, CompletionStatus, RunControl, TaskCompletion, TaskHandoff, ToolOutput};
pub(crate) use result_size::{beginning, result_bytes};
pub use schema::InputSchema;
pub use toolbox::{DispatchOutcome, ToolBox, ToolNameConflict};
pub(crate) use toolbox::{READ_RESULT, kept};

use crate::{
    chat::{ChatSnapshot, ToolCall, ToolSpec},
    error::Fault,
    event::RunCx,
    limits,
};

/// Something that a model can call. The agent cannot tell a plugin's tool from one written in Rust.
#[async_trait]
pub trait Tool: Send + Sync {
    /// The tool as a model is told of it; always the same.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Who made it: a plugin's id, or `host`.
    fn origin(&self) -> &str {
        "host"
    }

    /// Wall time that one call may take.
    fn time_limit(&self) -> Duration {
        limits::TOOL_TIME
    }

    /// Whether its calls count for the budget of a run. Those that end a run do not: it must be able to end.
    fn is_counted(&self) -> bool {
        true
    }

    /// Whether those who watch a run are not shown the arguments of its calls.
    fn hides_arguments(&self) -> bool {
        false
    }

    /// Whether a call that was interrupted may simply be made again.
    fn is_repeatable(&self) -> bool {
        let hints = &self.spec().hints;
        hints.idempotent || hints.read_only
    }

    /// Whether its calls say themselves when they begin to do what cannot be done twice, see [`ToolCx::begin`]: there is
    /// something to wait for before that.
    fn begins_itself(&self) -> bool {
        false
    }

    /// How its calls may run beside the other calls of one reply. A tool that says nothing could touch anything.
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Anything { changes: !self.spec().hints.read_only }
    }

    /// Whether its calls are runs of other agents, which share what the one that calls may still spend.
    fn runs_agents(&self) -> bool {
        false
    }

    /// Characters of a result that a model is shown; the rest is cut.
    fn result_chars(&self) -> usize {
        limits::TOOL_RESULT_CHARS
    }

    /// Runs it. Several calls may run at once, as far as [`Tool::concurrency`] allows within one reply. Dropping the future
    /// cancels the call.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which the model reads as an error result.
    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault>;
}

/// Tools that come and go while agents work.
pub trait ToolSource: Send + Sync {
    /// Those that are there now. As long as nothing changes it is [the same object](ToolBox::is_same).
    fn tools(&self) -> ToolBox;
}

/// What a tool call is made in.
#[derive(Debug, Clone)]
pub struct ToolCx {
    /// In whose name.
    pub run: RunCx,
    /// The conversation up to the reply that made the call.
    pub chat: ChatSnapshot,
    /// All the agent's tools.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Who is told that the call begins.
    pub begin: CallStartHook,
}
