//! Tools that a model can call, whether built in or from a plugin.

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
mod wrapped_tool;

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
pub use wrapped_tool::WrappedTool;

use crate::{
    chat::{ChatSnapshot, ToolCall, ToolSpec},
    error::Fault,
    event::RunCx,
    limits,
};

/// A tool that a model can call. The agent cannot tell a plugin's tool from one written in Rust.
#[async_trait]
pub trait Tool: Send + Sync {
    /// Returns the tool as it is described to a model; always the same object.
    fn spec(&self) -> &Arc<ToolSpec>;

    /// Returns the origin of the tool: a plugin's id, or `host`.
    fn origin(&self) -> &str {
        "host"
    }

    /// Returns the wall time that one call may take.
    fn time_limit(&self) -> Duration {
        limits::TOOL_TIME
    }

    /// Returns `true` if its calls count against the budget of a run. Calls that end a run do not, so that a run can always
    /// end.
    fn is_counted(&self) -> bool {
        true
    }

    /// Returns `true` if the arguments of its calls are hidden from those who watch a run.
    fn hides_arguments(&self) -> bool {
        false
    }

    /// Returns `true` if an interrupted call may simply be repeated.
    fn is_repeatable(&self) -> bool {
        let hints = &self.spec().hints;
        hints.idempotent || hints.read_only
    }

    /// Returns `true` if its calls report by themselves when they begin to do what must not be repeated, see
    /// [`ToolCx::begin`]: such a call has something to wait for before that.
    fn begins_itself(&self) -> bool {
        false
    }

    /// Returns the way its calls may run beside the other calls of one reply. By default a call could touch anything.
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::Anything { changes: !self.spec().hints.read_only }
    }

    /// Returns `true` if its calls are runs of other agents, which share the remaining budget of the calling agent.
    fn runs_agents(&self) -> bool {
        false
    }

    /// Returns the number of characters of a result that a model is shown; the rest is cut.
    fn result_chars(&self) -> usize {
        limits::TOOL_RESULT_CHARS
    }

    /// Runs the tool. Several calls may run at once, as far as [`Tool::concurrency`] allows within one reply. Dropping the
    /// future cancels the call.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`], which the model reads as an error result.
    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault>;
}

/// Tools that come and go while agents work.
pub trait ToolSource: Send + Sync {
    /// Returns the tools that exist now. While nothing changes, it returns [the same object](ToolBox::is_same).
    fn tools(&self) -> ToolBox;
}

/// The context of a tool call.
#[derive(Debug, Clone)]
pub struct ToolCx {
    /// The run that makes the call.
    pub run: RunCx,
    /// The conversation up to the reply that made the call.
    pub chat: ChatSnapshot,
    /// All the agent's tools.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The hook that is called when the call begins.
    pub begin: CallStartHook,
}
