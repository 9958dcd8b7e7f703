//! The calls of one reply: in order where it matters, else side by side; within the budget, each with its result.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};

use super::{call_schedule::CallSchedule, tool_middleware_chain::call_through};
use crate::{
    agent::{
        context::{RunState, in_time},
        journal::{JournalRecord, RecordedCallEnd, RecordedToolCall},
        outcome::RunError,
    },
    chat::{ToolCall, ToolResult},
    error::Fault,
    limits,
    tool::{DispatchOutcome, ToolBox, ToolConcurrency, ToolCx, ToolMiddleware},
};

/// The outcome of a call, and the whole text of its result if the model is shown only the beginning.
pub(crate) type CallOutcome = (DispatchOutcome, Option<String>);

/// Runs the calls of a reply, side by side as far as their [concurrency](ToolConcurrency) allows. Returns their outcomes in
/// the order of the reply. A failed call does not stop those after it. `recorded` are their states from before the run was
/// interrupted.
pub(crate) async fn run_calls(
    me: &Arc<RunState>,
    around: &Arc<[Arc<dyn ToolMiddleware>]>,
    tools: &ToolBox,
    cx: &ToolCx,
    calls: &[ToolCall],
    mut recorded: HashMap<String, Box<RecordedToolCall>>,
) -> Result<Vec<CallOutcome>, RunError> {
    if let [call] = calls {
        let recorded = recorded.remove(&call.id);
        let one = async { vec![dispatch(me, around, tools, cx, call, recorded).await] };
        return in_time(&me.budget_account, one).await;
    }
    let shared = Arc::new((Arc::clone(me), Arc::clone(around), tools.clone(), cx.clone()));
    let begin = |at: usize| {
        let (shared, call) = (Arc::clone(&shared), calls[at].clone());
        let recorded = recorded.remove(&call.id);
        let work = async move {
            let (me, around, tools, cx) = &*shared;
            dispatch(me, around, tools, cx, &call, recorded).await
        };
        // Spawned when its turn has come, so that no more than the allowed number run.
        me.spawned.spawn(work).map(move |ended| (at, ended.unwrap_or_else(|_| crashed(me, &calls[at]))))
    };
    let concurrency: Vec<_> = calls.iter().map(|call| tools.concurrency(&call.name)).collect();
    // Boxed to keep a run with one call at a time small.
    Box::pin(in_time(&me.budget_account, in_order(&concurrency, begin))).await
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
fn crashed(me: &RunState, call: &ToolCall) -> CallOutcome {
    let result = ToolResult::error(&call.id, CRASHED);
    me.write(|| JournalRecord::CallEnded { result: result.clone(), control: None, counted: false, full_text: None });
    (DispatchOutcome { result, control: None, took: Duration::ZERO }, None)
}

/// Makes one call within the budget. Also returns the whole text of its result if the model is shown only the beginning.
/// `recorded` is the state of the call from before the run was interrupted.
async fn dispatch(
    me: &Arc<RunState>,
    around: &[Arc<dyn ToolMiddleware>],
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    mut recorded: Option<Box<RecordedToolCall>>,
) -> CallOutcome {
    if let Some(ended) = recorded.as_mut().and_then(|recorded| recorded.ended.take()) {
        let RecordedCallEnd { result, control, full_text } = ended;
        return (DispatchOutcome { result, control, took: Duration::ZERO }, full_text);
    }
    // The call may have been made, whatever is left of the budget and whatever middleware would decide now.
    let is_again = recorded.as_ref().is_some_and(|recorded| recorded.began);
    let interrupted = recorded.and_then(|recorded| recorded.why_not_again(tools.can_repeat(&call.name)));
    let (mut dispatched, counted) = match interrupted {
        Some(why_not) => {
            let counted = tools.counts(&call.name) && me.budget_account.take_call().is_ok();
            (DispatchOutcome::refused(call, &why_not), counted)
        }
        None => call_through(me, around, tools, cx, call, is_again).await,
    };
    // Its tool may be gone, or middleware may have denied the call this time.
    me.charge_abandoned(&call.id);
    let whole = tools.cut_to_read_on(call, &mut dispatched.result);
    tools.tell_finished(cx, call, &dispatched).await;
    me.write(|| {
        let (result, control) = (dispatched.result.clone(), dispatched.control.clone());
        // The result promises the full text, which otherwise comes into the journal with the next turn only.
        JournalRecord::CallEnded { result, control, counted, full_text: whole.clone() }
    });
    (dispatched, whole)
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

/// The text for the model if the host itself failed during a call.
const CRASHED: &str =
    "The host failed during this call. It is not known whether the call took effect: check before you repeat it.";

/// The text for the model if an interrupted call may have been made.
const INTERRUPTED: &str = "The host was interrupted during this call. It is not known whether the call took effect: \
                           check before you repeat it.";

/// The text for the model if an interrupted call is known to have taken effect.
const INTERRUPTED_AFTER: &str =
    "The host was interrupted during this call. The call took effect, but its result is lost.";

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        agent::{
            Agent, AgentGroup, AgentRegistry,
            testing::{MemoryRecorder, position_of, recorded_group, resumed_group},
        },
        capability::Budget,
        chat::{Chat, Message, ToolResultContent},
        event::RunCx,
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

    #[tokio::test]
    async fn resumed_run_keeps_the_full_text_of_a_cut_result() {
        let long = || function("long", "", |_, NoArgs {}| async { Ok(format!("{}end", "x".repeat(40_000))) });
        let agent = |group: Arc<AgentGroup>, script: Vec<_>| {
            Agent::new("ada", "", Arc::new(ScriptedCompleter::new(script))).with_tool(long()).with_agent_group(group, 0)
        };
        let (recorder, registry, cx) = (Arc::<MemoryRecorder>::default(), AgentRegistry::new(), RunCx::new("ada"));
        let script = vec![ScriptedCompleter::calls(&[("c1", "long", "{}")]), ScriptedCompleter::text("done")];
        let whole = agent(recorded_group(&recorder, &registry), script);
        whole.run(&cx, &Chat::recorded(), vec![Message::user("go")]).await.unwrap();
        let records = recorder.records();
        let ended = position_of(&records, |record| matches!(record, JournalRecord::CallEnded { .. }));
        let (group, chat) = resumed_group(&records[..=ended], &registry);
        let read = ScriptedCompleter::calls(&[("c2", "read_result", r#"{"call":"c1","offset":40000}"#)]);
        let resumed = agent(group, vec![read, ScriptedCompleter::text("done")]);
        resumed.resume(&cx, &chat, vec![]).await.unwrap().unwrap();
        let chat = chat.snapshot();
        let results: Vec<_> = chat.iter().flat_map(|entry| entry.message.tool_results()).collect();
        assert!(results[0].text().contains("[8003 more characters"), "{}", results[0].text());
        assert!(results[1].text().ends_with("end"), "{}", results[1].text());
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
            ("none", Budget::default(), true, "tool not found: none; available tools: safe, danger, hang"),
            ("hang", soon, true, "time"),
            ("hang", Budget::default(), true, "the call took longer than 60 seconds"),
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
