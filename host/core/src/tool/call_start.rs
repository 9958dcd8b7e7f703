use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use crate::error::Fault;

/// A hook that a call awaits right before it does what must not be repeated; by default it does nothing.
#[derive(Clone, Default)]
pub struct CallStartHook {
    callback: Option<Arc<CallStartCallback>>,
    is_again: bool,
}

type CallStartCallback = dyn Fn() -> BoxFuture<'static, Result<(), Fault>> + Send + Sync;

impl CallStartHook {
    /// Creates a hook from a callback whose future the call awaits. If that fails, the call is not made, and its result is
    /// the fault.
    pub fn new(callback: impl Fn() -> BoxFuture<'static, Result<(), Fault>> + Send + Sync + 'static) -> Self {
        Self { callback: Some(Arc::new(callback)), is_again: false }
    }

    /// Returns the hook for a call that was under way when the host was interrupted, and is repeated.
    pub fn again(self, is_again: bool) -> Self {
        Self { is_again, ..self }
    }

    /// Returns `true` if the call may have been made, wholly or in part, before the host was interrupted.
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// Calls the callback, if there is one.
    pub(super) async fn call(&self) -> Result<(), Fault> {
        match &self.callback {
            Some(callback) => callback().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for CallStartHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { callback, is_again } = self;
        f.debug_struct("CallStartHook")
            .field("has_callback", &callback.is_some())
            .field("is_again", is_again)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::BoxFuture;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        chat::{ToolCall, ToolHints},
        error::Fault,
        event::RunCx,
        tool::{FnTool, ToolBox, ToolCallId, ToolCx, ToolOutput, function},
    };

    #[derive(Deserialize, JsonSchema)]
    struct NoArgs {}

    /// Returns a tool that counts its calls and answers with the id of the call.
    fn tool(
        ran: &Arc<AtomicU32>,
    ) -> FnTool<NoArgs, impl Fn(ToolCx, NoArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> + use<>> {
        let ran = Arc::clone(ran);
        function("t", "", move |cx, NoArgs {}| -> BoxFuture<'static, Result<ToolOutput, Fault>> {
            ran.fetch_add(1, Ordering::Relaxed);
            let ToolCallId { agent, call } = cx.call_id();
            Box::pin(async move { Ok(format!("{agent} {call}").into()) })
        })
    }

    async fn call(tools: &ToolBox, begin: CallStartHook) -> String {
        let cx = ToolCx { begin, ..ToolCx::new(RunCx::new("ada")) };
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
                    Box::pin(async move { if fails { Err(Fault::other("the disk is full")) } else { Ok(()) } })
                });
                let runs = !(is_told && fails);
                let text = if runs { "ada c7" } else { "the disk is full" };
                assert_eq!(call(&tools, begin).await, text, "{hints:?}");
                assert_eq!(told.load(Ordering::Relaxed), u32::from(is_told), "{hints:?}");
                assert_eq!(ran.load(Ordering::Relaxed), u32::from(runs), "{hints:?}");
            }
        }
    }
}
