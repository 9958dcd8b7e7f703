//! The calls of one reply: side by side, within the budget, each with its result.

use std::{collections::HashMap, sync::Arc, time::Duration};

use super::{
    Agent, RunError, around, at_work,
    completion::in_time,
    delegate::Instance,
    journal::{CallPast, Record},
    react::{Loop, Reply},
    runner::{Ending, Start},
};
use crate::{
    capability::Purse,
    chat::{Snapshot, ToolCall, ToolResult},
    error::Fault,
    event::RunCx,
    limits,
    tool::{Begin, Control, Dispatched, ToolBox, ToolCx, ToolMiddleware},
};
use futures_util::{FutureExt, StreamExt, stream};
use tokio::{sync::oneshot, time::Instant};

impl Agent {
    /// Makes one call of a tool outside of any run, as a run of it alone would: through what stands around the agent's
    /// calls, within its budget. Never fails: whatever goes wrong is in the result. Dropping the future cancels the call.
    pub async fn call(&self, cx: &RunCx, call: &ToolCall) -> ToolResult {
        let purse = Purse::new(&self.budget, Instant::now());
        let start = Start::of_a_person(self.crew.as_ref(), cx, &purse, None);
        let me = Arc::new(Instance::new(&self.name, &self.options, &self.delegable, *start));
        at_work::begin(self, &me, None);
        let tools = self.toolbox();
        let (run, begin) = (me.cx.clone(), Begin::default());
        let cx = ToolCx { run, chat: Snapshot::default(), tools: tools.specs(), begin };
        let made = make_through(&me, &self.tool_middleware, &tools, &cx, call, false);
        match in_time(&purse, made).await {
            Ok((mut dispatched, _)) => {
                tools.cut(call, &mut dispatched.result);
                tools.tell_finished(&cx, call, &dispatched).await;
                dispatched.result
            }
            Err(error) => ToolResult::error(&call.id, error.in_full()),
        }
    }
}

impl Loop<'_> {
    /// Runs the calls of a reply side by side and answers them, in the order of the calls.
    pub(super) async fn run_calls(&mut self, cx: &ToolCx, reply: Box<Reply>) -> Result<Option<Control>, RunError> {
        let Reply { open, tools, .. } = *reply;
        let (calls, beyond) = open.calls().split_at(open.calls().len().min(limits::CALLS_PER_REPLY));
        let mut before = std::mem::take(&mut self.work.calls);
        let dispatched = match calls {
            [call] => {
                let before = before.remove(&call.id);
                let around = &self.work.agent.tool_middleware;
                in_time(&self.me.purse, async { vec![dispatch(&self.me, around, &tools, cx, call, before).await] })
                    .await
            }
            calls => {
                let around = Arc::clone(&self.work.agent.tool_middleware);
                let shared = Arc::new((Arc::clone(&self.me), around, tools.clone(), cx.clone()));
                let (tasks, mut queues) = (&self.me.tasks, Queues::default());
                // Spawned only when there is room, so that no more than that many run.
                let running = stream::iter(calls.to_vec()).map(|call| {
                    let (shared, before) = (Arc::clone(&shared), before.remove(&call.id));
                    let turn = tools.is_one_at_a_time(&call.name).then(|| queues.turn(&call.name));
                    async move {
                        let work = async move {
                            let (me, around, tools, cx) = &*shared;
                            let _until_done = match turn {
                                Some(turn) => Some(turn.come().await),
                                None => None,
                            };
                            dispatch(me, around, tools, cx, &call, before).await
                        };
                        tasks.spawn(work).await.ok()
                    }
                });
                let running = running.buffered(limits::PARALLEL_TOOL_CALLS).filter_map(async |done| done);
                // Boxed, so that a run with one call at a time has no room for it.
                Box::pin(in_time(&self.me.purse, running.collect::<Vec<_>>())).await
            }
        };
        self.usage += self.me.take_used_by_tools();
        let dispatched = match dispatched {
            Ok(dispatched) => dispatched,
            Err(error) => {
                open.abandon(&error.to_string());
                return Err(error);
            }
        };
        let most = limits::CALLS_PER_REPLY;
        let too_many =
            |call: &ToolCall| ToolResult::error(&call.id, format!("at most {most} calls of one reply are run"));
        let too_many: Vec<_> = beyond.iter().map(too_many).collect();
        let mut control = None;
        let results = dispatched.into_iter().map(|(mut dispatched, whole)| {
            match (&control, dispatched.control.take()) {
                (None, first) => control = first,
                (Some(_), None) => {}
                (Some(_), Some(_)) => dispatched.result = ToolResult::error(&dispatched.result.call_id, TOO_LATE),
            }
            whole.into_iter().for_each(|whole| self.chat.keep_result(&dispatched.result.call_id, whole));
            dispatched.result
        });
        let results: Vec<_> = results.chain(too_many).collect();
        if self.me.log.is_some() {
            let ran = results.iter().take(calls.len());
            self.recorded = ran.map(|result| (result.call_id.clone(), result.message_bytes())).collect();
        }
        open.answer(results);
        Ok(control)
    }
}

/// For each tool whose calls are made one after the other, the end of the last one so far.
#[derive(Default)]
struct Queues(HashMap<String, oneshot::Receiver<()>>);

/// A call's turn: when the one before it has ended, however it did.
struct Turn {
    before: Option<oneshot::Receiver<()>>,
    done: oneshot::Sender<()>,
}

impl Queues {
    fn turn(&mut self, tool: &str) -> Turn {
        let (done, until) = oneshot::channel();
        Turn { before: self.0.insert(tool.to_owned(), until), done }
    }
}

impl Turn {
    /// Waits until it is there. It lasts as long as what this returns.
    async fn come(self) -> oneshot::Sender<()> {
        if let Some(before) = self.before {
            // Nothing is ever sent: it goes away.
            let _ = before.await;
        }
        self.done
    }
}

impl From<Control> for Ending {
    fn from(control: Control) -> Self {
        match control {
            Control::Complete(completed) => Self::Completed(completed),
            Control::HandOver(to) => Self::HandedOver(to),
        }
    }
}

/// One call, if the budget allows it, and the text of its result where the model is shown only the beginning. `before` is
/// what is known of it from before the run was interrupted.
async fn dispatch(
    me: &Arc<Instance>,
    around: &[Arc<dyn ToolMiddleware>],
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    mut before: Option<Box<CallPast>>,
) -> (Dispatched, Option<String>) {
    if let Some((result, control)) = before.as_mut().and_then(|before| before.ended.take()) {
        return (Dispatched { result, control, took: Duration::ZERO }, None);
    }
    // Whatever is left of the budget, and whatever would be decided about it now, it may have been made.
    let is_again = before.as_ref().is_some_and(|before| before.began);
    let interrupted = before.and_then(|before| before.why_not_again(tools.can_repeat(&call.name)));
    let (mut dispatched, counted) = match interrupted {
        Some(why_not) => {
            let counted = tools.counts(&call.name) && me.purse.take_call().is_ok();
            (Dispatched::refused(call, &why_not), counted)
        }
        None => make_through(me, around, tools, cx, call, is_again).await,
    };
    let whole = tools.cut_to_read_on(call, &mut dispatched.result);
    tools.tell_finished(cx, call, &dispatched).await;
    me.write(|| {
        let (result, control) = (dispatched.result.clone(), dispatched.control.clone());
        Record::CallEnded { result, control, counted }
    });
    (dispatched, whole)
}

/// Makes a call through what stands around calls; and whether it counts for the budget. `is_again`: as in [`make`].
async fn make_through(
    me: &Arc<Instance>,
    around: &[Arc<dyn ToolMiddleware>],
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    is_again: bool,
) -> (Dispatched, bool) {
    match around {
        [] => make(me, tools, cx, call, is_again).await,
        around => Box::pin(around::call(me, around, tools, cx, call, is_again)).await,
    }
}

/// Makes a call, if the budget allows it; and whether it counts for that. `is_again`: it had begun when the host was
/// interrupted.
pub(super) async fn make(
    me: &Arc<Instance>,
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    is_again: bool,
) -> (Dispatched, bool) {
    let counts = tools.counts(&call.name);
    if counts && let Err(exhausted) = me.purse.take_call() {
        return (Dispatched::refused(call, &Fault::from(exhausted)), false);
    }
    let recorded = me.log.is_some().then(|| Box::new(ToolCx { begin: begin(me, call).again(is_again), ..cx.clone() }));
    (tools.dispatch_whole(recorded.as_deref().unwrap_or(cx), call).await, counts)
}

impl CallPast {
    /// Why a call that was interrupted is not simply made again.
    fn why_not_again(&self, can_repeat: bool) -> Option<Fault> {
        match self {
            Self { changed: true, .. } => Some(Fault::other(INTERRUPTED_AFTER)),
            Self { began: true, .. } if !can_repeat => Some(Fault::other(INTERRUPTED)),
            _ => None,
        }
    }
}

/// What a model is told of a call that would end its turn where one before it has.
const TOO_LATE: &str =
    "another call of the same reply, before this one, has ended your turn already: this one did nothing";

/// What a model is told of a call that may have been made.
const INTERRUPTED: &str = "The host was interrupted during this call. It is not known whether it took effect: look before \
                           you call it again.";

/// The same where it is known that it took effect.
const INTERRUPTED_AFTER: &str =
    "The host was interrupted during this call. It took effect, but what it answered is lost.";

/// Writes down that a call is about to be made, and waits until that is kept: if the host is interrupted now, it must be
/// known that the call may have been made.
fn begin(me: &Arc<Instance>, call: &ToolCall) -> Begin {
    let (me, id, tool) = (Arc::clone(me), call.id.clone(), call.name.clone());
    Begin::new(move || {
        let (me, call, tool) = (Arc::clone(&me), id.clone(), tool.clone());
        async move {
            let mark = me.write(|| Record::CallBegan { call, tool });
            me.kept(mark).await.map_err(|error| Fault::Unavailable { message: error.in_full(), after: None })
        }
        .boxed()
    })
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        capability::Budget,
        chat::Content,
        model::ScriptedCompleter,
        tool::{CallDecision, CallVerdict, Target, function},
    };

    /// Lets nobody call `danger`, and marks all results.
    struct Guard;

    #[async_trait]
    impl ToolMiddleware for Guard {
        fn name(&self) -> &str {
            "guard"
        }

        async fn before(&self, _: &RunCx, call: &ToolCall, _: &Target) -> Result<CallDecision, Fault> {
            let verdict = match &*call.name {
                "danger" => CallVerdict::Deny("no".into()),
                _ => CallVerdict::Allow,
            };
            Ok(CallDecision { verdict, arguments: None, state: Vec::new() })
        }

        async fn after(
            &self,
            _: &RunCx,
            _: &ToolCall,
            outcome: Result<&[Content], &Fault>,
            _: Vec<u8>,
        ) -> Result<Option<Vec<Content>>, Fault> {
            Ok(outcome.is_ok().then(|| vec![Content::Text("seen".into())]))
        }
    }

    #[derive(Deserialize, JsonSchema)]
    struct NoArgs {}

    #[tokio::test(start_paused = true)]
    async fn one_call_goes_through_all_that_stands_around_calls() {
        let tool = |name| function(name, "", |_, NoArgs {}| async { Ok("done") });
        let hangs = function("hang", "", |_, NoArgs {}| std::future::pending::<Result<&str, Fault>>());
        let agent = Agent::new("ada", "", Arc::new(ScriptedCompleter::new([])));
        let agent =
            agent.with_tool(tool("safe")).with_tool(tool("danger")).with_tool(hangs).with_tool_middleware(Guard);
        let few = |tool_calls| Budget { tool_calls: Some(tool_calls), ..Budget::default() };
        let soon = Budget { time: Some(Duration::from_secs(1)), ..Budget::default() };
        for (name, budget, is_error, says) in [
            ("safe", Budget::default(), false, "seen"),
            ("safe", few(1), false, "seen"),
            ("safe", few(0), true, "budget"),
            ("danger", Budget::default(), true, "no"),
            ("none", Budget::default(), true, "tool not found: none; there are: safe, danger, hang"),
            ("hang", soon, true, "time"),
            ("hang", Budget::default(), true, "it took longer than 60 seconds"),
        ] {
            let agent = agent.clone().with_budget(budget);
            let call = ToolCall { id: "c1".into(), name: name.into(), arguments: "{}".into(), meta: vec![] };
            // Each call has the budget for itself.
            for _ in 0..2 {
                let result = agent.call(&RunCx::new("ada"), &call).await;
                let text = result.text();
                assert!(result.is_error == is_error && text.contains(says), "{name} {budget:?}: {text}");
                assert_eq!(result.call_id, "c1");
            }
        }
    }
}
