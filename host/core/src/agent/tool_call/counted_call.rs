use std::sync::Arc;

use futures_util::FutureExt;

use crate::{
    agent::{context::RunState, journal::JournalRecord},
    chat::ToolCall,
    error::Fault,
    tool::{CallStartHook, DispatchOutcome, ToolBox, ToolCx},
};

/// Makes a call within the budget, and returns whether it counts for that. `is_again`: the call had begun when the host was
/// interrupted.
pub(super) async fn make(
    me: &Arc<RunState>,
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    is_again: bool,
) -> (DispatchOutcome, bool) {
    let counts = tools.counts(&call.name);
    if counts && let Err(exhausted) = me.budget_account.take_call() {
        return (DispatchOutcome::refused(call, &Fault::from(exhausted)), false);
    }
    let recorded = me.log.is_some().then(|| Box::new(ToolCx { begin: begin(me, call).again(is_again), ..cx.clone() }));
    (tools.dispatch_whole(recorded.as_deref().unwrap_or(cx), call).await, counts)
}

/// Returns the hook that records that a call is about to be made, and waits until the record is on disk. After an
/// interruption it must be known that the call may have been made.
fn begin(me: &Arc<RunState>, call: &ToolCall) -> CallStartHook {
    let (me, id, tool) = (Arc::clone(me), call.id.clone(), call.name.clone());
    CallStartHook::new(move || {
        let (me, call, tool) = (Arc::clone(&me), id.clone(), tool.clone());
        async move {
            let mark = me.write(|| JournalRecord::CallBegan { call, tool });
            me.kept(mark).await.map_err(|error| Fault::Unavailable { message: error.in_full(), after: None })
        }
        .boxed()
    })
}
