//! The calls of one reply: in order where it matters, else side by side; within the budget, each with its result.

use std::{sync::Arc, time::Duration};

use super::{
    Agent, RunError,
    agent_loop::{AgentRun, TurnReply},
    call_schedule::CallSchedule,
    caller_context,
    completion::in_time,
    delegate::RunState,
    journal::{JournalRecord, RecordedToolCall},
    runner::{RunEnding, RunParams},
    tool_middleware_chain,
};
use crate::{
    capability::BudgetAccount,
    chat::{ChatSnapshot, ToolCall, ToolResult},
    error::Fault,
    event::RunCx,
    limits,
    tool::{CallStartHook, DispatchOutcome, RunControl, ToolBox, ToolConcurrency, ToolCx, ToolMiddleware},
};
use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use tokio::time::Instant;

impl Agent {
    /// Makes one tool call outside of any run: through the middleware around the agent's calls, and within a budget of its
    /// own. Never fails: any error is in the result. Dropping the future cancels the call.
    pub async fn call(&self, cx: &RunCx, call: &ToolCall) -> ToolResult {
        let budget_account = BudgetAccount::new(&self.budget, Instant::now());
        let start = RunParams::of_a_person(self.agent_group.as_ref(), cx, &budget_account, None);
        let me = Arc::new(RunState::new(&self.name, &self.options, &self.delegable, *start));
        caller_context::begin(self, &me, None);
        let tools = self.toolbox();
        let (run, begin) = (me.cx.clone(), CallStartHook::default());
        let cx = ToolCx { run, chat: ChatSnapshot::default(), tools: tools.specs(), begin };
        let made = make_through(&me, &self.tool_middleware, &tools, &cx, call, false);
        match in_time(&budget_account, made).await {
            Ok((mut dispatched, _)) => {
                tools.cut(call, &mut dispatched.result);
                tools.tell_finished(&cx, call, &dispatched).await;
                dispatched.result
            }
            Err(error) => ToolResult::error(&call.id, error.in_full()),
        }
    }
}

impl AgentRun<'_> {
    /// Runs the calls of a reply, side by side as far as their [concurrency](ToolConcurrency) allows, and answers them in
    /// the order of the reply. A failed call does not stop those after it.
    pub(super) async fn run_calls(
        &mut self,
        cx: &ToolCx,
        reply: Box<TurnReply>,
    ) -> Result<Option<RunControl>, RunError> {
        let TurnReply { open, tools, .. } = *reply;
        let window = self.work.agent.completer.info().context_window.tokens();
        let tools = tools.for_calls(open.calls().len(), window);
        let (calls, beyond) = open.calls().split_at(open.calls().len().min(limits::CALLS_PER_REPLY));
        let mut before = std::mem::take(&mut self.work.calls);
        let dispatched = match calls {
            [call] => {
                let before = before.remove(&call.id);
                let around = &self.work.agent.tool_middleware;
                in_time(&self.me.budget_account, async {
                    vec![dispatch(&self.me, around, &tools, cx, call, before).await]
                })
                .await
            }
            calls => {
                let around = Arc::clone(&self.work.agent.tool_middleware);
                let shared = Arc::new((Arc::clone(&self.me), around, tools.clone(), cx.clone()));
                let me = &self.me;
                let begin = |at: usize| {
                    let (shared, call) = (Arc::clone(&shared), calls[at].clone());
                    let before = before.remove(&call.id);
                    let work = async move {
                        let (me, around, tools, cx) = &*shared;
                        dispatch(me, around, tools, cx, &call, before).await
                    };
                    // Spawned when its turn has come, so that no more than the allowed number run.
                    me.tasks.spawn(work).map(move |ended| (at, ended.unwrap_or_else(|_| crashed(me, &calls[at]))))
                };
                let concurrency: Vec<_> = calls.iter().map(|call| tools.concurrency(&call.name)).collect();
                // Boxed to keep a run with one call at a time small.
                Box::pin(in_time(&self.me.budget_account, in_order(&concurrency, begin))).await
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

/// Begins each call of a reply when the calls that it waits for have ended, up to [`limits::PARALLEL_TOOL_CALLS`] at once.
/// Returns the outcomes in the order of the calls. A waiting call does not count as running.
async fn in_order<T, F>(calls: &[ToolConcurrency], mut begin: impl FnMut(usize) -> F) -> Vec<T>
where
    F: Future<Output = (usize, T)>,
{
    let mut schedule = CallSchedule::new(calls);
    let mut running = FuturesUnordered::new();
    let mut outcomes: Vec<_> = calls.iter().map(|_| None).collect();
    loop {
        while running.len() < limits::PARALLEL_TOOL_CALLS
            && let Some(call) = schedule.begin_next()
        {
            running.push(begin(call));
        }
        let Some((call, outcome)) = running.next().await else { break };
        schedule.end(call);
        outcomes[call] = Some(outcome);
    }
    // Every call has begun: a call waits only for calls before it.
    outcomes.into_iter().flatten().collect()
}

/// Returns the result of a call whose task has panicked outside of the tool, such as in middleware around calls.
fn crashed(me: &RunState, call: &ToolCall) -> (DispatchOutcome, Option<String>) {
    let result = ToolResult::error(&call.id, CRASHED);
    me.write(|| JournalRecord::CallEnded { result: result.clone(), control: None, counted: false });
    (DispatchOutcome { result, control: None, took: Duration::ZERO }, None)
}

impl From<RunControl> for RunEnding {
    fn from(control: RunControl) -> Self {
        match control {
            RunControl::Complete(completed) => Self::Completed(completed),
            RunControl::HandOver(to) => Self::HandedOver(to),
        }
    }
}

/// Makes one call within the budget. Also returns the whole text of its result if the model is shown only the beginning.
/// `before` is the recorded state of the call from before the run was interrupted.
async fn dispatch(
    me: &Arc<RunState>,
    around: &[Arc<dyn ToolMiddleware>],
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    mut before: Option<Box<RecordedToolCall>>,
) -> (DispatchOutcome, Option<String>) {
    if let Some((result, control)) = before.as_mut().and_then(|before| before.ended.take()) {
        return (DispatchOutcome { result, control, took: Duration::ZERO }, None);
    }
    // The call may have been made, whatever is left of the budget and whatever middleware would decide now.
    let is_again = before.as_ref().is_some_and(|before| before.began);
    let interrupted = before.and_then(|before| before.why_not_again(tools.can_repeat(&call.name)));
    let (mut dispatched, counted) = match interrupted {
        Some(why_not) => {
            let counted = tools.counts(&call.name) && me.budget_account.take_call().is_ok();
            (DispatchOutcome::refused(call, &why_not), counted)
        }
        None => make_through(me, around, tools, cx, call, is_again).await,
    };
    let whole = tools.cut_to_read_on(call, &mut dispatched.result);
    tools.tell_finished(cx, call, &dispatched).await;
    me.write(|| {
        let (result, control) = (dispatched.result.clone(), dispatched.control.clone());
        JournalRecord::CallEnded { result, control, counted }
    });
    (dispatched, whole)
}

/// Makes a call through the middleware around calls, and returns whether it counts for the budget. `is_again`: see
/// [`make`].
async fn make_through(
    me: &Arc<RunState>,
    around: &[Arc<dyn ToolMiddleware>],
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    is_again: bool,
) -> (DispatchOutcome, bool) {
    match around {
        [] => make(me, tools, cx, call, is_again).await,
        around => Box::pin(tool_middleware_chain::call(me, around, tools, cx, call, is_again)).await,
    }
}

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

impl RecordedToolCall {
    /// Returns the reason why an interrupted call is not simply repeated.
    fn why_not_again(&self, can_repeat: bool) -> Option<Fault> {
        match self {
            Self { changed: true, .. } => Some(Fault::other(INTERRUPTED_AFTER)),
            Self { began: true, .. } if !can_repeat => Some(Fault::other(INTERRUPTED)),
            _ => None,
        }
    }
}

/// The text for the model in place of a second call in one reply that would end its turn.
const TOO_LATE: &str =
    "another call of the same reply, before this one, has ended your turn already: this one did nothing";

/// The text for the model if the host itself failed during a call.
const CRASHED: &str =
    "The host failed during this call. It is not known whether it took effect: look before you call it again.";

/// The text for the model if an interrupted call may have been made.
const INTERRUPTED: &str = "The host was interrupted during this call. It is not known whether it took effect: look before \
                           you call it again.";

/// The text for the model if an interrupted call is known to have taken effect.
const INTERRUPTED_AFTER: &str =
    "The host was interrupted during this call. It took effect, but what it answered is lost.";

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

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        capability::Budget,
        chat::{Chat, Message, ToolResultContent},
        model::ScriptedCompleter,
        tool::{ToolCallDecision, ToolCallVerdict, ToolTarget, function},
    };

    /// A middleware that denies calls of `danger` and marks all results.
    struct Guard;

    #[async_trait]
    impl ToolMiddleware for Guard {
        fn name(&self) -> &str {
            "guard"
        }

        async fn before(&self, _: &RunCx, call: &ToolCall, _: &ToolTarget) -> Result<ToolCallDecision, Fault> {
            let verdict = match &*call.name {
                "danger" => ToolCallVerdict::Deny("no".into()),
                _ => ToolCallVerdict::Allow,
            };
            Ok(ToolCallDecision { verdict, arguments: None, state: Vec::new() })
        }

        async fn after(
            &self,
            _: &RunCx,
            _: &ToolCall,
            outcome: Result<&[ToolResultContent], &Fault>,
            _: Vec<u8>,
        ) -> Result<Option<Vec<ToolResultContent>>, Fault> {
            Ok(outcome.is_ok().then(|| vec![ToolResultContent::Text("seen".into())]))
        }
    }

    #[derive(Deserialize, JsonSchema)]
    struct NoArgs {}

    /// A middleware that panics at calls of `danger`.
    struct Panics;

    #[async_trait]
    impl ToolMiddleware for Panics {
        fn name(&self) -> &str {
            "panics"
        }

        async fn before(&self, _: &RunCx, call: &ToolCall, _: &ToolTarget) -> Result<ToolCallDecision, Fault> {
            assert!(call.name != "danger", "on purpose");
            Ok(ToolCallDecision { verdict: ToolCallVerdict::Allow, arguments: None, state: Vec::new() })
        }

        async fn after(
            &self,
            _: &RunCx,
            _: &ToolCall,
            _: Result<&[ToolResultContent], &Fault>,
            _: Vec<u8>,
        ) -> Result<Option<Vec<ToolResultContent>>, Fault> {
            Ok(None)
        }
    }

    #[tokio::test]
    async fn call_has_a_result_when_middleware_panics() {
        let tool = |name| function(name, "", |_, NoArgs {}| async { Ok("done") });
        let model = ScriptedCompleter::new([
            ScriptedCompleter::calls(&[("1", "safe", "{}"), ("2", "danger", "{}"), ("3", "safe", "{}")]),
            ScriptedCompleter::text("over"),
        ]);
        let agent = Agent::new("ada", "", Arc::new(model)).with_tool(tool("safe")).with_tool(tool("danger"));
        let agent = agent.with_tool_middleware(Panics);
        let chat = Chat::new();
        agent.run(&RunCx::new("ada"), &chat, vec![Message::user("go")]).await.unwrap();
        let chat = chat.snapshot();
        let results: Vec<_> =
            chat.iter().flat_map(|entry| entry.message.tool_results().map(ToolResult::text)).collect();
        assert_eq!(results, ["done", CRASHED, "done"], "it does not hold those up that wait for it");
    }

    #[tokio::test(start_paused = true)]
    async fn call_outside_a_run_passes_tool_middleware() {
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
            // Each call has its own budget.
            for _ in 0..2 {
                let result = agent.call(&RunCx::new("ada"), &call).await;
                let text = result.text();
                assert!(result.is_error == is_error && text.contains(says), "{name} {budget:?}: {text}");
                assert_eq!(result.call_id, "c1");
            }
        }
    }
}
