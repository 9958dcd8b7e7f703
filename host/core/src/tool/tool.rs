use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::{CallStartHook, ToolCallId, ToolConcurrency, ToolOutput};
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

/// The context of a tool call.
#[derive(Debug, Clone)]
pub struct ToolCx {
    /// The run that makes the call.
    pub run: RunCx,
    /// The id of the call in its conversation. [`ToolBox::dispatch`](super::ToolBox::dispatch) sets it; empty before.
    pub call: Arc<str>,
    /// The conversation up to the reply that made the call.
    pub chat: ChatSnapshot,
    /// All the agent's tools.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The hook that is called when the call begins.
    pub begin: CallStartHook,
}

impl ToolCx {
    /// Creates the context of calls in a run, with an empty conversation, without other tools, and with a hook that does
    /// nothing.
    pub fn new(run: RunCx) -> Self {
        Self { run, call: "".into(), chat: ChatSnapshot::default(), tools: [].into(), begin: CallStartHook::default() }
    }

    /// Returns the call that is under way.
    pub fn call_id(&self) -> ToolCallId {
        ToolCallId { agent: Arc::clone(&self.run.agent), call: (*self.call).to_owned() }
    }

    /// Reports that the call begins; the host awaits it right before it calls the tool. Does nothing for a tool that is
    /// [repeatable](Tool::is_repeatable), or that [begins itself](Tool::begins_itself) and reports later.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if the tool must not be called.
    pub async fn begin(&self, tool: &dyn Tool) -> Result<(), Fault> {
        match !tool.is_repeatable() && !tool.begins_itself() {
            true => self.begin_now().await,
            false => Ok(()),
        }
    }

    /// Reports that the call begins, whatever the tool declares: for a tool that is repeatable only because it knows what
    /// it has done.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolCx::begin`].
    pub async fn begin_now(&self) -> Result<(), Fault> {
        self.begin.call().await
    }
}
