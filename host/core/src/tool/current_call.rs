use std::{fmt, future::Future, sync::Arc};

use futures_util::future::BoxFuture;

use super::{Tool, ToolCx};
use crate::error::Fault;

/// A tool call that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentCall {
    /// The instance name of the agent that made it.
    pub agent: Arc<str>,
    /// The id of the call.
    pub call: String,
}

tokio::task_local! {
    static CURRENT: Option<CurrentCall>;
}

/// Returns the call in which this code runs; `None` outside of calls, and in tasks that a call has spawned.
pub fn current_call() -> Option<CurrentCall> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

/// Runs `work` outside of any call, even if one is under way.
pub(crate) fn outside_of_calls<T>(work: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(None, work)
}

impl CurrentCall {
    /// Runs a future as part of this call.
    pub(super) fn of<F: Future>(self, future: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(Some(self), future)
    }
}

/// A hook that a call awaits right before it does what must not be repeated; by default it does nothing.
#[derive(Clone, Default)]
pub struct CallStartHook {
    told: Option<Arc<CallStartCallback>>,
    is_again: bool,
}

type CallStartCallback = dyn Fn() -> BoxFuture<'static, Result<(), Fault>> + Send + Sync;

impl CallStartHook {
    /// Creates a hook from a callback whose future the call awaits. If that fails, the call is not made, and its result is
    /// the fault.
    pub fn new(told: impl Fn() -> BoxFuture<'static, Result<(), Fault>> + Send + Sync + 'static) -> Self {
        Self { told: Some(Arc::new(told)), is_again: false }
    }

    /// Returns the hook for a call that was under way when the host was interrupted, and is repeated.
    pub fn again(self, is_again: bool) -> Self {
        Self { is_again, ..self }
    }

    /// Returns `true` if the call may have been made, wholly or in part, before the host was interrupted.
    pub fn is_again(&self) -> bool {
        self.is_again
    }
}

impl fmt::Debug for CallStartHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.told.is_some() { "Begin(told)" } else { "Begin(untold)" })
    }
}

impl ToolCx {
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
        match &self.begin.told {
            Some(told) => told().await,
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        chat::{ChatSnapshot, ToolCall, ToolHints},
        event::RunCx,
        tool::{FnTool, ToolBox, ToolOutput, function},
    };

    #[derive(Deserialize, JsonSchema)]
    struct NoArgs {}

    /// Returns a tool that counts its calls and answers with the current call.
    fn tool(
        ran: &Arc<AtomicU32>,
    ) -> FnTool<NoArgs, impl Fn(ToolCx, NoArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> + use<>> {
        let ran = Arc::clone(ran);
        function("t", "", move |_, NoArgs {}| -> BoxFuture<'static, Result<ToolOutput, Fault>> {
            ran.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                let CurrentCall { agent, call } = current_call().ok_or_else(|| Fault::other("no call"))?;
                let elsewhere = tokio::spawn(async { current_call() }).await;
                assert_eq!(elsewhere.unwrap(), None, "a task of its own is no call");
                assert_eq!((outside_of_calls(current_call), current_call().is_some()), (None, true));
                Ok(format!("{agent} {call}").into())
            })
        })
    }

    async fn call(tools: &ToolBox, begin: CallStartHook) -> String {
        let cx = ToolCx { run: RunCx::new("ada"), chat: ChatSnapshot::default(), tools: [].into(), begin };
        let call = ToolCall { id: "c7".into(), name: "t".into(), arguments: String::new(), meta: vec![] };
        tools.dispatch(&cx, &call).await.result.text()
    }

    #[tokio::test]
    async fn only_unrepeatable_calls_report_their_start() {
        let hints = |read_only, idempotent| ToolHints { read_only, idempotent, ..ToolHints::default() };
        for (hints, repeatable, is_told) in [
            (hints(false, false), false, true),
            (hints(true, false), false, false),
            (hints(false, true), false, false),
            (hints(false, false), true, false),
        ] {
            for fails in [false, true] {
                let (ran, told) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
                let tool = tool(&ran).with_hints(hints);
                let tools = ToolBox::new().with(if repeatable { tool.repeatable() } else { tool });
                let (count, before) = (Arc::clone(&told), Arc::clone(&ran));
                let begin = CallStartHook::new(move || {
                    count.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(before.load(Ordering::Relaxed), 0, "it has not run yet");
                    assert_eq!(current_call().unwrap().call, "c7");
                    Box::pin(async move { if fails { Err(Fault::other("the disk is full")) } else { Ok(()) } })
                });
                let runs = !(is_told && fails);
                let text = if runs { "ada c7" } else { "the disk is full" };
                assert_eq!(call(&tools, begin).await, text, "{hints:?}");
                assert_eq!(told.load(Ordering::Relaxed), u32::from(is_told), "{hints:?}");
                assert_eq!(ran.load(Ordering::Relaxed), u32::from(runs), "{hints:?}");
            }
        }
        assert_eq!(current_call(), None);
    }
}
