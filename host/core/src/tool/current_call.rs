use std::{future::Future, sync::Arc};

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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures_util::future::BoxFuture;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        chat::{ChatSnapshot, ToolCall, ToolHints},
        error::Fault,
        event::RunCx,
        tool::{CallStartHook, FnTool, ToolBox, ToolCx, ToolOutput, function},
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
