//! The `delegate` calls of a run: starts agents on their tasks, gathers the reports, passes answers on to those that ask,
//! and restores those that waited when the run was interrupted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    delegate_args::{DelegateCall, DelegationRequest},
    delegation::Delegation,
    instance_name::instance_name,
    sub_run::ParentRun,
};
use crate::{
    agent::{
        context::{
            AgentGroup, ChildDelegation, ChildProgress, DelegateQuestion, DelegatedChildren, ParkedDelegation,
            ParkedQuestion, QuestionRoute, RunState,
        },
        journal::{
            DelegatedTask, DelegationReport, DelegationState, JournalRecord, PendingQuestion, QuestionResult,
            RecordedDelegateCall, RecordedQuestion, RecordedToolCall, RunJournal, is_open_call,
        },
    },
    capability::{BudgetAllocation, RestoredAllocation},
    event::Event,
};

/// Runs agents on the tasks of a call, all at once. Returns a report for each task, in order, once all have ended or asked.
/// Work that the call had begun before the run was interrupted continues.
pub(super) async fn delegate_tasks(
    me: &Arc<RunState>,
    agent_group: &Arc<AgentGroup>,
    call: &str,
    delegation: DelegateCall,
) -> Vec<DelegationReport> {
    let children = start_children(me, agent_group, call, delegation, |_| true);
    me.permit.wait_for(gather(me, children)).await
}

/// Passes answers on to children that wait for them. Returns their next reports; the other children keep waiting.
///
/// # Errors
///
/// The text for the model if one of the delegations does not wait, or is named twice.
pub(super) async fn answer_children(
    me: &RunState,
    call: &str,
    answers: Vec<(String, String)>,
) -> Result<Vec<DelegationReport>, String> {
    let parked = me.children.take(answers.iter().map(|(id, _)| id.as_str()))?;
    let answered = parked.into_iter().zip(answers).map(|(parked, (delegation, answer))| {
        let ParkedDelegation { mut child, question } = parked;
        me.write(|| JournalRecord::Answered { delegation, answered_by: call.to_owned(), answer: answer.clone() });
        child.answer(question, answer);
        child
    });
    let children = answered.collect();
    Ok(me.permit.wait_for(gather(me, children)).await)
}

/// A task of a call that is about to start, with its state from before the run was interrupted.
struct PendingDelegation {
    at: usize,
    request: DelegationRequest,
    /// The id of the delegation.
    id: String,
    /// The instance name of the agent that works on it first.
    instance: Arc<str>,
    past_state: DelegationState,
}

/// Starts those tasks of a call that are `wanted`. They are stopped at once if they fail together and one has failed before
/// the run was interrupted.
fn start_children(
    me: &Arc<RunState>,
    agent_group: &Arc<AgentGroup>,
    call: &str,
    DelegateCall { requests, fail_fast, arguments_from_middleware, reply }: DelegateCall,
    wanted: impl Fn(usize) -> bool,
) -> Vec<ChildDelegation> {
    let (past_call, stop) = (me.children.recorded_call(call), CancellationToken::new());
    let had_failed =
        |log: &RunJournal| (0..requests.len()).any(|at| log.journal.has_failed(&log.delegation_key(call, at)));
    if fail_fast && past_call.is_some() && me.log.as_ref().is_some_and(had_failed) {
        stop.cancel();
    }
    let past_task = |at: usize| past_call.and_then(|call| call.tasks.get(at));
    let past_state = |at: usize| {
        let log = me.log.as_ref().filter(|_| past_call.is_some())?;
        log.journal.take_delegation(&log.delegation_key(call, at))
    };
    let instance = |agent: &str, task: &str| instance_name(agent_group, agent, task);
    let named = requests.iter().map(|request| (request.agent.clone(), request.task.clone()));
    let names = match past_call {
        None => me.children.names(&reply, call, named, instance),
        Some(_) => Vec::new(),
    };
    let (mut names, requests) = (names.into_iter(), requests.into_iter().enumerate().filter(|(at, _)| wanted(*at)));
    let task = |(at, request): (usize, DelegationRequest)| {
        let (id, instance) = match (past_task(at), names.next()) {
            (Some(task), _) => (task.id.clone(), Arc::clone(&task.instance)),
            (None, Some(names)) => (Some(names.id), names.instance),
            (None, None) => (None, instance(&request.agent, &request.task)),
        };
        let id = id.unwrap_or_else(|| me.children.next_id());
        PendingDelegation { id, instance, past_state: past_state(at).unwrap_or_default(), at, request }
    };
    let tasks: Vec<_> = requests.map(task).collect();
    // A returned task needs no share.
    let unreturned = tasks.iter().filter(|task| task.past_state.returned.is_none());
    let shares = match past_call {
        None => {
            let budgets: Vec<_> = unreturned.map(|task| task.request.budget).collect();
            me.allocated_calls.allocate(&me.budget_account, &reply, call, &budgets)
        }
        Some(_) => {
            let allocated = |task: &PendingDelegation| RestoredAllocation {
                bounds: past_task(task.at).map(|task| task.bounds).unwrap_or_default(),
                time: task.request.budget.time,
                start: Instant::now(),
                spent: task.past_state.spent,
            };
            let shares: Vec<_> = unreturned.map(allocated).collect();
            me.allocated_calls.restore(&me.budget_account, call, &shares)
        }
    };
    if past_call.is_none() {
        me.write(|| {
            let delegated = |(task, share): (&PendingDelegation, &BudgetAllocation)| DelegatedTask {
                id: Some(task.id.clone()),
                agent: task.request.agent.as_str().into(),
                instance: task.instance.clone(),
                bounds: share.bounds(),
            };
            let delegated = tasks.iter().zip(&shares).map(delegated).collect();
            JournalRecord::Delegated { call: call.into(), tasks: delegated, arguments: arguments_from_middleware }
        });
    }
    let mut shares = shares.into_iter();
    let child = |task: PendingDelegation| {
        let (call_id, position) = (call.to_owned(), task.at);
        let (id, agent) = (task.id.clone(), task.request.agent.clone());
        let (work, questions) = match task.past_state.returned {
            Some((report, board)) => {
                agent_group.settle(board);
                (me.spawned.spawn(async { report }), None)
            }
            None => {
                let share = shares.next().expect("one was allocated for each that has not returned");
                let (delegation, questions) = delegation(me, agent_group, call, task, share, stop.clone());
                (me.spawned.spawn(delegation.run()), questions)
            }
        };
        let stop = fail_fast.then(|| stop.clone());
        ChildDelegation {
            id,
            agent,
            questions_put: 0,
            work,
            questions,
            stop,
            call: call_id,
            position,
            owed: None,
            late: None,
        }
    };
    tasks.into_iter().map(child).collect()
}

/// Returns a task that is ready to run, and the receiver of its questions if it may ask.
fn delegation(
    me: &RunState,
    agent_group: &Arc<AgentGroup>,
    call: &str,
    PendingDelegation { at, request, instance, past_state, .. }: PendingDelegation,
    share: BudgetAllocation,
    stop: CancellationToken,
) -> (Box<Delegation>, Option<mpsc::Receiver<DelegateQuestion>>) {
    let (sender, questions) = request.may_ask_delegator.then(|| mpsc::channel(1)).unzip();
    let delegation = Delegation {
        parent_run: ParentRun { spawned: me.spawned.below(), ..ParentRun::from(me) },
        agent_group: Arc::clone(agent_group),
        delegator: Arc::clone(&me.agent),
        call: call.into(),
        handoffs: me.options.handoffs_of_delegated_task(),
        instance,
        request,
        share,
        question_route: sender.map_or(QuestionRoute::Context, QuestionRoute::Parent),
        question_time: me.options.question_timeout,
        stop,
        delegation_key: me.log.as_ref().map(|log| log.delegation_key(call, at)),
        past_runs: past_state.runs,
    };
    (Box::new(delegation), questions)
}

/// Waits until each of these children has ended or asked. Those that asked wait for their answer from then on.
async fn gather(me: &RunState, children: Vec<ChildDelegation>) -> Vec<DelegationReport> {
    let mut reports = Vec::with_capacity(children.len());
    let of_children: Vec<_> = children.iter().map(|child| (child.id.clone(), child.stop.clone())).collect();
    let mut working: FuturesUnordered<_> =
        children.into_iter().enumerate().map(async |(at, child)| (at, child.next().await)).collect();
    while let Some((at, next)) = working.next().await {
        let (id, stop) = &of_children[at];
        let report = match next {
            ChildProgress::Done(report) => {
                DelegationReport { delegation_id: me.tells_ids().then(|| id.clone()), ..report }
            }
            ChildProgress::Asked(child, question) => park(me, child, question),
        };
        if let Some(stop) = stop
            && report.has_failed()
        {
            stop.cancel();
        }
        reports.push((at, report));
    }
    reports.sort_unstable_by_key(|(at, _)| *at);
    reports.into_iter().map(|(_, report)| report).collect()
}

/// Lets a child wait for the answer to its question. Returns the report with the question.
fn park(me: &RunState, mut child: ChildDelegation, question: DelegateQuestion) -> DelegationReport {
    let (call, position, id) = (child.call.clone(), child.position, child.id.clone());
    let question_id = match child.questions_put {
        0 => id.replacen('d', "q", 1),
        earlier => format!("{}.{}", id.replacen('d', "q", 1), earlier + 1),
    };
    child.questions_put += 1;
    let (agent, content) = (question.agent.clone(), question.question.clone());
    let pending = PendingQuestion { id: question_id, agent, content };
    me.write(|| JournalRecord::Parked { call, position, delegation: id.clone(), asking_call: question.call.clone() });
    let mut report = DelegationReport {
        delegation_id: Some(id.clone()),
        pending_question: Some(pending),
        ..DelegationReport::of(&child.agent)
    };
    if let Some(why) = child.late.take() {
        report.warn(why.into());
    }
    me.children.park(id, ParkedDelegation { child, question: ParkedQuestion::Open(question) });
    report
}

/// A child that waited for an answer when the run was interrupted.
struct InterruptedQuestion {
    id: String,
    /// The id of the call that asked.
    asking_call: String,
    /// The result of that call.
    result: Option<QuestionResult>,
    /// The number of questions that it had asked before that one.
    earlier: usize,
}

/// Restores the delegations of an interrupted run. `calls` is the recorded state of the calls of its last reply: those
/// without a result are repeated, and restore their children themselves.
pub(crate) fn restore_delegations(
    me: &Arc<RunState>,
    parked: BTreeMap<String, Vec<RecordedQuestion>>,
    delegated: HashMap<String, RecordedDelegateCall>,
    calls: &HashMap<String, Box<RecordedToolCall>>,
) {
    let interrupted = delegated.iter().filter(|(call, _)| is_open_call(calls, call));
    let bounds = |(call, recorded): (&String, &RecordedDelegateCall)| {
        let has_returned =
            |at: usize| me.log.as_ref().is_some_and(|log| log.journal.has_returned(&log.delegation_key(call, at)));
        let tasks = recorded.tasks.iter().enumerate().filter(|(at, _)| !has_returned(*at));
        (call.clone(), tasks.map(|(_, task)| task.bounds).collect())
    };
    me.allocated_calls.note_interrupted(interrupted.map(bounds));
    me.children.restore(delegated, parked.keys());
    for (call, tasks) in interrupted_questions(parked, calls) {
        let arguments = me.children.recorded_call(&call).map(|recorded| recorded.arguments.as_str());
        let delegation = arguments.and_then(|arguments| DelegateCall::read(me, arguments));
        match me.delegates_to().zip(delegation) {
            Some((agent_group, delegation)) => restore_children(me, agent_group, &call, delegation, tasks),
            None => fail_children(me, &call, tasks),
        }
    }
}

/// Returns the questions that still wait: by call, since the tasks of one call may fail together, and then by task.
fn interrupted_questions(
    parked: BTreeMap<String, Vec<RecordedQuestion>>,
    calls: &HashMap<String, Box<RecordedToolCall>>,
) -> BTreeMap<String, BTreeMap<usize, InterruptedQuestion>> {
    let is_open = |call: &str| is_open_call(calls, call);
    // As `RecordedRun::continues` has it for the children whose calls are not repeated.
    let waits =
        |parking: &RecordedQuestion| !is_open(&parking.call) && parking.answered_by.as_deref().is_none_or(is_open);
    let mut waiting: BTreeMap<String, BTreeMap<usize, InterruptedQuestion>> = BTreeMap::new();
    let mut parked: Vec<_> = parked.into_iter().collect();
    parked.sort_by_key(|(id, _)| DelegatedChildren::number(id));
    for (id, questions) in parked {
        // A child that was answered, and asked again before the answering call had its result, waits with its first
        // question: that call is repeated, and then reaches the second question.
        let Some((earlier, parking)) = questions.into_iter().enumerate().find(|(_, parking)| waits(parking)) else {
            continue;
        };
        let tasks = waiting.entry(parking.call).or_default();
        let RecordedQuestion { position, asking_call, result, .. } = parking;
        tasks.entry(position).or_insert(InterruptedQuestion { id, asking_call, result, earlier });
    }
    waiting
}

/// Starts the children of a call that waited for an answer. Each asks again.
fn restore_children(
    me: &Arc<RunState>,
    agent_group: &Arc<AgentGroup>,
    call: &str,
    delegation: DelegateCall,
    mut tasks: BTreeMap<usize, InterruptedQuestion>,
) {
    for child in start_children(me, agent_group, call, delegation, |at| tasks.contains_key(&at)) {
        if let Some(InterruptedQuestion { id, asking_call, result, earlier }) = tasks.remove(&child.position) {
            let child = ChildDelegation { id: id.clone(), questions_put: earlier + 1, ..child };
            me.children
                .park(id, ParkedDelegation { child, question: ParkedQuestion::Recorded { asking_call, result } });
        }
    }
}

/// Lets the children of a call wait that cannot go on, because this run may not delegate their tasks any more. Each reports
/// that when it is answered.
fn fail_children(me: &RunState, call: &str, tasks: BTreeMap<usize, InterruptedQuestion>) {
    me.charge_abandoned(call);
    let recorded = me.children.recorded_call(call);
    for (at, InterruptedQuestion { id, asking_call, result, earlier }) in tasks {
        let agent = recorded.and_then(|recorded| recorded.tasks.get(at)).map_or("", |task| &*task.agent).to_owned();
        let message =
            format!("{}: delegation `{id}` is lost, because the agent may no longer delegate its task", me.cx.agent);
        me.cx.events.emit_now(Event::Warning { message });
        let lost = "the agent was interrupted and cannot be resumed; delegate the task again as a new task";
        let report = DelegationReport::failed(&agent, lost);
        let work = me.spawned.spawn(async { report });
        let child = ChildDelegation {
            id: id.clone(),
            agent,
            questions_put: earlier + 1,
            work,
            questions: None,
            stop: None,
            call: call.to_owned(),
            position: at,
            owed: None,
            late: None,
        };
        me.children.park(id, ParkedDelegation { child, question: ParkedQuestion::Recorded { asking_call, result } });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        agent::{
            Agent, AgentEntry, AgentRegistry, AgentRunOptions, InteractionMode, RunParams,
            testing::{MemoryRecorder, position_of, recorded_group, resumed_group},
        },
        capability::{AllocationBounds, Budget, BudgetAccount, Ceiling},
        chat::{Chat, Message, ToolCall},
        error::Fault,
        event::{EventSink, RunCx},
        model::{Completion, ScriptedCompleter},
        tool::{self, ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget},
    };

    #[derive(Deserialize, JsonSchema)]
    struct NoArgs {}

    const DELEGATE: &str = r#"{"tasks":[{"agent":"bob","task":"Paint the door","context":"It is old."}]}"#;

    const ANSWER: &str = r#"{"answers":[{"delegation_id":"d-1","answer":"Red."}]}"#;

    fn scripted(name: &str, script: Vec<Result<Completion, Fault>>) -> Agent {
        Agent::new(name, "", Arc::new(ScriptedCompleter::new(script)))
    }

    /// Returns the text of the result of a call.
    fn result_of(chat: &Chat, call: &str) -> String {
        let chat = chat.snapshot();
        let mut results = chat.iter().flat_map(|entry| entry.message.tool_results());
        results.find(|result| result.call_id == call).unwrap().text()
    }

    /// A lead that delegates to `bob`, waits longer than his question, and answers it then. `turns` of that are done.
    fn late_lead(
        agent_group: &Arc<AgentGroup>,
        turns: usize,
        meanwhile: impl Fn(&AgentGroup) + Send + Sync + 'static,
    ) -> Agent {
        let group = Arc::clone(agent_group);
        let wait = tool::function("wait", "", move |_, NoArgs {}| {
            meanwhile(&group);
            async {
                tokio::time::sleep(Duration::from_secs(20)).await;
                Ok("waited")
            }
        });
        let script = [
            ScriptedCompleter::calls(&[("c1", "delegate", DELEGATE)]),
            ScriptedCompleter::calls(&[("c2", "wait", "{}")]),
            ScriptedCompleter::calls(&[("c3", "answer_delegation_questions", ANSWER)]),
            ScriptedCompleter::text("done"),
        ];
        let lead = scripted("lead", script.into_iter().skip(turns).collect());
        let mut lead = lead.with_tool(wait).with_agent_group(Arc::clone(agent_group), 1);
        lead.options.interaction = InteractionMode::Interactive;
        lead.options.question_timeout = Some(Duration::from_secs(10));
        lead
    }

    /// Returns the registry with `bob`, who asks and is then done. `turns` of that are done.
    fn asking_bob(turns: usize) -> AgentRegistry {
        let registry = AgentRegistry::new();
        registry.register(AgentEntry::new("bob", ""), move || {
            let report = r#"{"status":"completed","summary":"Blue."}"#;
            let script = [
                ScriptedCompleter::calls(&[("q1", "request_input", r#"{"question":"Which?"}"#)]),
                ScriptedCompleter::calls(&[("e1", "task_complete", report)]),
            ];
            scripted("bob", script.into_iter().skip(turns).collect())
        });
        registry
    }

    /// Returns the records of the lead to which meanwhile this happens, and what it is told of its answer.
    async fn answer_after(
        meanwhile: impl Fn(&AgentGroup) + Send + Sync + 'static,
    ) -> (Vec<(u64, JournalRecord)>, String) {
        let (recorder, chat) = (Arc::<MemoryRecorder>::default(), Chat::recorded());
        let lead = late_lead(&recorded_group(&recorder, &asking_bob(0)), 0, meanwhile);
        lead.run(&RunCx::new("lead"), &chat, vec![Message::user("Have the door painted.")]).await.unwrap();
        (recorder.records(), result_of(&chat, "c3"))
    }

    /// Returns what the lead is told of its answer after it was interrupted behind these records.
    async fn answer_resumed_after(records: &[(u64, JournalRecord)], turns: usize, of_bob: usize) -> String {
        let (group, chat) = resumed_group(records, &asking_bob(of_bob));
        let lead = late_lead(&group, turns, |_| {});
        lead.resume(&RunCx::new("lead"), &chat, vec![]).await.unwrap().unwrap();
        result_of(&chat, "c3")
    }

    fn ends(call: &str) -> impl Fn(&JournalRecord) -> bool {
        move |record| matches!(record, JournalRecord::CallEnded { result, .. } if result.call_id == call)
    }

    #[tokio::test(start_paused = true)]
    async fn late_answer_is_reported_with_its_reason() {
        let (records, timed_out) = answer_after(|_| {}).await;
        assert!(timed_out.contains("the agent's question had timed out") && timed_out.contains("Blue."), "{timed_out}");
        // The question timed out after the interruption, and before it.
        for (ended, turns, of_bob) in [("c1", 1, 1), ("c2", 2, 1)] {
            let ended = position_of(&records, ends(ended));
            assert_eq!(answer_resumed_after(&records[..=ended], turns, of_bob).await, timed_out, "{ended}");
        }
        let (records, stopped) = answer_after(|agent_group| assert!(agent_group.cancel("bob-paint-1"))).await;
        assert!(stopped.contains("the agent had ended before your answer arrived"), "{stopped}");
        assert!(stopped.contains("task canceled") && !stopped.contains("timed out"), "{stopped}");
        let ended = position_of(&records, ends("c2"));
        assert_eq!(answer_resumed_after(&records[..=ended], 2, 1).await, stopped);
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_may_no_longer_delegate_answers_its_children() {
        let (records, _) = answer_after(|_| {}).await;
        let ended = position_of(&records, ends("c1"));
        for (depth, interaction, says) in
            [(0, InteractionMode::Interactive, "as a new task"), (1, InteractionMode::Blocking, "Blue.")]
        {
            let (group, chat) = resumed_group(&records[..=ended], &asking_bob(1));
            let mut lead = late_lead(&group, 1, |_| {}).with_agent_group(group, depth);
            lead.options.interaction = interaction;
            lead.resume(&RunCx::new("lead"), &chat, vec![]).await.unwrap().unwrap();
            let told = result_of(&chat, "c3");
            assert!(told.contains(says), "{interaction:?}: {told}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answer_that_came_in_time_is_not_reported_as_late() {
        let (recorder, chat, nothing) = (Arc::<MemoryRecorder>::default(), Chat::recorded(), |_: &AgentGroup| {});
        let mut lead = late_lead(&recorded_group(&recorder, &asking_bob(0)), 0, nothing);
        lead.options.question_timeout = None;
        lead.run(&RunCx::new("lead"), &chat, vec![Message::user("Have the door painted.")]).await.unwrap();
        let (records, told) = (recorder.records(), result_of(&chat, "c3"));
        assert!(told.contains("Blue.") && !told.contains("warning"), "{told}");
        // Before and after the agent that asked had its answer.
        let answered = position_of(&records, |record| matches!(record, JournalRecord::Answered { .. }));
        for cut in [answered, position_of(&records, ends("q1"))] {
            assert_eq!(answer_resumed_after(&records[..=cut], 3, 1).await, told, "after {:?}", records[cut]);
        }
    }

    /// A middleware that adds the context to tasks that lack it.
    struct AddsContext;

    #[async_trait]
    impl ToolMiddleware for AddsContext {
        fn name(&self) -> &str {
            "adds-context"
        }

        async fn before(&self, _: &RunCx, call: &ToolCall, _: &ToolTarget) -> Result<ToolCallDecision, Fault> {
            let arguments = (call.name == "delegate").then(|| DELEGATE.into());
            Ok(ToolCallDecision { verdict: ToolCallVerdict::Allow, arguments, state: Vec::new() })
        }
    }

    #[tokio::test]
    async fn resumed_delegation_has_the_arguments_of_middleware() {
        let bob = |script: Vec<_>| {
            let registry = AgentRegistry::new();
            registry.register(AgentEntry::new("bob", ""), move || scripted("bob", script.clone()));
            registry
        };
        let lead = |group, script| {
            let mut lead = scripted("lead", script).with_tool_middleware(AddsContext).with_agent_group(group, 1);
            lead.options.interaction = InteractionMode::Interactive;
            lead
        };
        let (recorder, cx) = (Arc::<MemoryRecorder>::default(), RunCx::new("lead"));
        let asks = ScriptedCompleter::calls(&[("q1", "request_input", r#"{"question":"Which?"}"#)]);
        let delegates = [("c1", "delegate", r#"{"tasks":[{"agent":"bob","task":"Paint the door"}]}"#)];
        let script = vec![ScriptedCompleter::calls(&delegates), ScriptedCompleter::text("It waits.")];
        let whole = lead(recorded_group(&recorder, &bob(vec![asks])), script);
        whole.run(&cx, &Chat::recorded(), vec![Message::user("Have the door painted.")]).await.unwrap();
        let records = recorder.records();
        let ended = position_of(&records, |record| matches!(record, JournalRecord::CallEnded { .. }));
        let report = r#"{"status":"completed","summary":"Blue."}"#;
        let completes = ScriptedCompleter::calls(&[("e1", "task_complete", report)]);
        let answers = ScriptedCompleter::calls(&[("c2", "answer_delegation_questions", ANSWER)]);
        let registry = bob(vec![completes]);
        let (group, chat) = resumed_group(&records[..=ended], &registry);
        let resumed = lead(group, vec![answers, ScriptedCompleter::text("done")]);
        resumed.resume(&cx, &chat, vec![]).await.unwrap().unwrap();
        let told = result_of(&chat, "c2");
        assert!(told.contains("Blue."), "{told}");
    }

    #[tokio::test]
    async fn parked_child_that_cannot_go_on_is_reported_on_resume() {
        let agent_group = Arc::new(AgentGroup::default());
        let (events, mut stream) = EventSink::channel();
        let cx = RunCx::new("lead").with_events(events);
        let budget_account = BudgetAccount::new(&Budget::default(), Instant::now());
        let params = *RunParams::of_a_person(Some(&agent_group), &cx, &budget_account, None);
        let interaction = InteractionMode::Interactive;
        let options = AgentRunOptions { interaction, max_delegation_depth: 1, ..AgentRunOptions::default() };
        let me = RunState::new(&"lead".into(), &options, &Ceiling::default(), params, None);
        let (id, instance) = (Some("d-4".into()), "bob-paint-1".into());
        let task = DelegatedTask { id, agent: "bob".into(), instance, bounds: AllocationBounds::default() };
        // The lead has been given the name of that agent since, and no agent delegates to itself.
        let arguments = r#"{"tasks":[{"agent":"lead","task":"Paint","context":"It is old."}]}"#.into();
        let delegated = [("c1".into(), RecordedDelegateCall { arguments, tasks: vec![task] })].into();
        let question = RecordedQuestion {
            call: "c1".into(),
            position: 0,
            asking_call: "q1".into(),
            answered_by: None,
            result: None,
        };
        restore_delegations(&me, [("d-4".into(), vec![question])].into(), delegated, &HashMap::new());
        let event = stream.next_event().await.unwrap();
        assert!(matches!(&event, Event::Warning { message } if message.contains("`d-4` is lost")), "{event:?}");
        let unknown = answer_children(&me, "c2", vec![("d-1".into(), "Red.".into())]).await.unwrap_err();
        assert!(unknown.contains("with an open question: d-4"), "{unknown}");
        let reports = answer_children(&me, "c2", vec![("d-4".into(), "Red.".into())]).await.unwrap();
        let error = reports[0].error.as_deref().unwrap_or_default();
        assert!(reports[0].agent == "bob" && error.contains("delegate the task again as a new task"), "{reports:?}");
        assert_eq!(me.children.next_id(), "d-5");
    }
}
