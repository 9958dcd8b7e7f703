use std::{
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::FutureExt;

use super::{RunControl, Tool, ToolBox, ToolCx, ToolOutput, result_cut::kept};
use crate::{
    chat::{Media, ToolCall, ToolResult, ToolResultContent},
    error::{Fault, cut, seconds},
    event::{Event, NO_ORIGIN},
    limits,
};

/// The outcome of a dispatched call.
#[derive(Debug, Clone)]
pub struct DispatchOutcome {
    /// The result for the model.
    pub result: ToolResult,
    /// The effect on the run.
    pub control: Option<RunControl>,
    /// The time that the tool took.
    pub took: Duration,
}

impl DispatchOutcome {
    /// Answers a call with an error instead of running it.
    pub(crate) fn refused(call: &ToolCall, why: &Fault) -> Self {
        Self::of(call, Err(why.clone()))
    }

    /// Answers a call with this content instead of running it.
    pub(crate) fn answered(call: &ToolCall, content: Vec<ToolResultContent>) -> Self {
        Self::of(call, Ok(ToolOutput::Reply(content)))
    }

    fn of(call: &ToolCall, outcome: Result<ToolOutput, Fault>) -> Self {
        let (result, control) = whole(call, outcome);
        Self { result, control, took: Duration::ZERO }
    }
}

impl ToolBox {
    /// Runs a call. Never fails: any error becomes a result for the model.
    pub async fn dispatch(&self, cx: &ToolCx, call: &ToolCall) -> DispatchOutcome {
        let mut dispatched = self.dispatch_whole(cx, call).await;
        self.cut(call, &mut dispatched.result);
        self.tell_finished(cx, call, &dispatched).await;
        dispatched
    }

    /// Runs a call like [`dispatch`](Self::dispatch), but returns as much of the result as [can be
    /// kept](limits::KEPT_RESULT_CHARS), which is more than a model is shown at once. The caller reports the result with
    /// [`tell_finished`](Self::tell_finished) once it is as the model is shown it.
    pub(crate) async fn dispatch_whole(&self, cx: &ToolCx, call: &ToolCall) -> DispatchOutcome {
        let (agent, events, started) = (&cx.run.agent, &cx.run.events, Instant::now());
        if events.is_watched() {
            let tool = self.get(&call.name);
            let origin = tool.map_or(NO_ORIGIN, |tool| tool.origin()).to_owned();
            let hidden = tool.is_some_and(|tool| tool.hides_arguments());
            let arguments = if hidden { String::new() } else { cut(&call.arguments, 200) };
            let (agent, call, tool) = (Arc::clone(agent), call.id.clone(), cut(&call.name, 100));
            events.emit(Event::ToolStarted { agent, call, tool, origin, arguments }).await;
        }
        let outcome = match self.find(call) {
            Ok((tool, call)) => run(tool, cx, &call).await,
            Err(fault) => Err(fault),
        };
        DispatchOutcome { took: started.elapsed(), ..DispatchOutcome::of(call, outcome) }
    }

    /// Emits the event for a result as the model is shown it.
    pub(crate) async fn tell_finished(&self, cx: &ToolCx, call: &ToolCall, dispatched: &DispatchOutcome) {
        let (agent, events) = (&cx.run.agent, &cx.run.events);
        if !events.is_watched() {
            return;
        }
        let DispatchOutcome { result, took: duration, .. } = dispatched;
        let bytes = result.content.iter().map(|content| content.bytes(Media::bytes)).sum();
        // An error may quote the arguments.
        let is_shown = result.is_error && !self.get(&call.name).is_some_and(|tool| tool.hides_arguments());
        let reason = is_shown.then(|| cut(&result.text(), limits::FAILURE_SHOWN_CHARS));
        let (agent, id, tool) = (Arc::clone(agent), call.id.clone(), cut(&call.name, 100));
        let (is_error, duration) = (result.is_error, *duration);
        events.emit(Event::ToolFinished { agent, call: id, tool, is_error, reason, bytes, duration }).await;
    }
}

/// Marks the call as begun and runs it.
async fn run(tool: &Arc<dyn Tool>, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
    let mut cx = ToolCx { call: call.id.as_str().into(), ..cx.clone() };
    cx.run.events.enter_call(&cx.call);
    cx.begin(&**tool).await?;
    run_contained(tool, &cx, call).await
}

/// Runs a tool with its time limit, and contains its panics.
async fn run_contained(tool: &Arc<dyn Tool>, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
    let limit = tool.time_limit();
    let contained = AssertUnwindSafe(tokio::time::timeout(limit, tool.call(cx, call))).catch_unwind();
    match contained.await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Fault::Timeout { message: format!("the call took longer than {}", seconds(limit)) }),
        Err(_) => Err(Fault::other("the tool crashed; its other calls are not affected")),
    }
}

/// The text for the model if a tool proposes changes and nothing around it makes them.
const NO_CHANGES: &str =
    "The tool proposed file changes, but this host has nothing that makes them: no file was changed.";

/// Returns the result as it can be kept: bounded, and with an error as its text.
fn whole(call: &ToolCall, outcome: Result<ToolOutput, Fault>) -> (ToolResult, Option<RunControl>) {
    let (content, is_error, control) = match outcome {
        Ok(ToolOutput::Reply(content)) => (content, false, None),
        Ok(ToolOutput::Failed(content)) => (content, true, None),
        Ok(ToolOutput::Control(content, control)) => (content, false, Some(control)),
        Ok(ToolOutput::Needs(need)) => {
            let text = format!(
                "the tool needs access to {need}, and no person can be asked for it here; continue without it, or \
                 report what is missing"
            );
            (vec![ToolResultContent::Text(text)], true, None)
        }
        Ok(ToolOutput::Propose(_)) => (vec![ToolResultContent::Text(NO_CHANGES.into())], true, None),
        Err(fault) => (vec![ToolResultContent::Text(fault.to_string())], true, None),
    };
    (kept(call, content, is_error), control)
}
