use std::{
    collections::VecDeque,
    future::Future,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use futures_util::{stream, stream::BoxStream};
use serde_json::Value;
use shelly_core::{
    agent::{
        Agent, AgentGroup, RunAnswer, RunError,
        journal::{JournalPosition, JournalRecord, JournalState, JournalWriteError, Recorder},
    },
    approval::{HeadlessPolicy, OpenQuestionAnswer, TrustedSubjects},
    capability::{BudgetAccount, BudgetUsage, Ceiling, CeilingBound, Grant},
    chat::{Chat, Message},
    event::EventSink,
};
use tokio::sync::Semaphore;

use super::*;
use crate::{
    child_run_guard::spent_by_runs_left, job_places::JobPlaces, job_slot::RunJob, run_entry::RunEntry,
    run_queue::Submission, worker_registry::WorkerEntry,
};

/// A cluster in memory, whose only worker is the test.
#[derive(Default)]
struct FakeRuns(Mutex<FakeState>);

#[derive(Default)]
struct FakeState {
    entries: Vec<RunEntry>,
    questions: VecDeque<Value>,
    commands: Vec<RunCommand>,
    workers: Vec<WorkerEntry>,
    /// The state of a run after it was submitted.
    next: Option<RunPhase>,
    /// `true`: a run that is cancelled ends at once.
    obeys: bool,
    /// `true`: nobody can watch a run.
    is_away: bool,
    /// The number of answers that do not arrive.
    lost_answers: usize,
    /// The number of messages whose replies do not arrive.
    lost_replies: usize,
}

impl FakeRuns {
    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ending_next(ending: QueuedRunEnd) -> Arc<Self> {
        let fake = Self::default();
        fake.state().next = Some(RunPhase::Ended(ending));
        Arc::new(fake)
    }

    fn specs(&self) -> Vec<RunSpec> {
        self.state().entries.iter().map(|entry| entry.spec.clone()).collect()
    }
}

fn found<'a>(state: &'a mut FakeState, id: &str) -> Result<&'a mut RunEntry, ClusterError> {
    let entry = state.entries.iter_mut().find(|entry| entry.spec.id == id);
    entry.ok_or_else(|| ClusterError::NotFound { what: format!("run {id}") })
}

#[async_trait]
impl ChildRuns for FakeRuns {
    async fn store(&self, bytes: bytes::Bytes) -> Result<Sha256Digest, ClusterError> {
        Ok(Sha256Digest::of(bytes))
    }

    async fn submit(&self, spec: RunSpec) -> Result<Submission, ClusterError> {
        let mut state = self.state();
        let phase = state.next.clone().unwrap_or(RunPhase::Queued { waits_for: None });
        state.entries.push(RunEntry {
            spec,
            phase,
            starts: 0,
            deaths: 0,
            cancel_requested: false,
            warnings: Vec::new(),
            declined: None,
            declines: 0,
            all_declines: 0,
        });
        Ok(Submission::New)
    }

    async fn entry(&self, id: &str) -> Result<Option<RunEntry>, ClusterError> {
        Ok(found(&mut self.state(), id).ok().cloned())
    }

    async fn watch(&self, id: &str) -> Result<BoxStream<'static, Result<RunEntry, ClusterError>>, ClusterError> {
        if self.state().is_away {
            return Err(ClusterError::Unreachable { servers: "nats://a:1".into(), reason: "refused".into() });
        }
        let entry = found(&mut self.state(), id)?.clone();
        let is_ended = entry.ending().is_some();
        let first = stream::iter([Ok(entry)]);
        // The watch ends, so that the next one sees the next state.
        let rest = stream::once(sleep(limits::CLUSTER_WATCH_CHECK)).filter_map(|()| async { None });
        Ok(if is_ended { first.boxed() } else { first.chain(rest).boxed() })
    }

    async fn cancel(&self, id: &str) -> Result<RunEntry, ClusterError> {
        let mut state = self.state();
        let obeys = state.obeys;
        let entry = found(&mut state, id)?;
        entry.cancel_requested = true;
        if obeys {
            entry.phase = RunPhase::Ended(ended(RunEndState::Cancelled, 7));
        }
        Ok(entry.clone())
    }

    async fn ask(&self, id: &str, command: &RunCommand) -> Result<RunReply, ClusterError> {
        let mut state = self.state();
        state.commands.push(command.clone());
        match command {
            RunCommand::Questions => Ok(RunReply::Questions { questions: state.questions.iter().cloned().collect() }),
            RunCommand::Message { .. } if state.lost_replies > 0 => {
                state.lost_replies -= 1;
                Err(ClusterError::NotAtWork { run: id.to_owned() })
            }
            RunCommand::Answer { .. } if state.lost_answers > 0 => {
                state.lost_answers -= 1;
                Err(ClusterError::NotAtWork { run: id.to_owned() })
            }
            RunCommand::Answer { .. } => {
                state.questions.pop_front();
                if state.questions.is_empty() {
                    found(&mut state, id)?.phase = RunPhase::Ended(completed("Asked and done.", 5));
                }
                Ok(RunReply::Done)
            }
            _ => Ok(RunReply::Done),
        }
    }

    async fn workers(&self) -> Result<Vec<WorkerEntry>, ClusterError> {
        Ok(self.state().workers.clone())
    }
}

fn usage(tokens: u64) -> Usage {
    Usage { input_tokens: tokens, ..Usage::default() }
}

fn ended(state: RunEndState, tokens: u64) -> QueuedRunEnd {
    QueuedRunEnd { usage: usage(tokens), tool_calls: 2, cost_usd: Some(0.25), ..QueuedRunEnd::new(state) }
}

fn completed(answer: &str, tokens: u64) -> QueuedRunEnd {
    QueuedRunEnd { answer: Some(answer.into()), ..ended(RunEndState::Completed, tokens) }
}

fn running() -> RunPhase {
    RunPhase::Running { worker: "w".into(), attempt: 1, since: SystemTime::UNIX_EPOCH }
}

fn broker() -> ApprovalBroker {
    ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default())
}

fn model(runs: &Arc<FakeRuns>, broker: &ApprovalBroker) -> PlacedAgentModel {
    PlacedAgentModel::new(PlacedAgentOptions {
        name: "painter".into(),
        labels: ["gpu".to_owned()].into(),
        model: None,
        runs: Arc::clone(runs) as Arc<dyn ChildRuns>,
        parent: QueuedRunContext {
            run: Some("parent".into()),
            session: Some("s".into()),
            ..QueuedRunContext::default()
        },
        session: Arc::default(),
        root: "/project".into(),
        submitter: "me".into(),
        broker: broker.clone(),
        cancellations: TaskTracker::new(),
    })
}

fn agent(model: PlacedAgentModel) -> Agent {
    Agent::new("painter", "", Arc::new(model)).with_agent_group(Arc::new(AgentGroup::default()), 0)
}

/// Runs the agent with a budget. Returns its answer or failure, and the account.
async fn run(model: PlacedAgentModel, budget: Budget) -> (Result<String, String>, Arc<BudgetAccount>) {
    let account = BudgetAccount::new(&budget, Instant::now());
    let (cx, chat) = (RunCx { depth: 2, ..RunCx::new("painter") }, Chat::new());
    let answer = agent(model).run_on(&cx, &chat, vec![Message::user("Paint a cat.")], &account).await;
    (answer.map(|answer| answer.message.text_content()).map_err(|error| error.in_full()), account)
}

#[tokio::test(start_paused = true)]
async fn answer_of_a_worker_is_charged_as_that_of_a_child() {
    let runs = FakeRuns::ending_next(completed("A cat.", 40));
    let budget = Budget { tokens: Some(1_000), tool_calls: Some(9), ..Budget::default() };
    let (answer, account) = run(model(&runs, &broker()), budget).await;
    assert_eq!(answer.unwrap(), "A cat.");
    let spent = account.spent();
    let of_child = BudgetUsage { usage: usage(40), usd: "0.25".parse().unwrap(), tool_calls: 2 };
    assert_eq!((spent.own, spent.of_children), (BudgetUsage::default(), of_child));
    let specs = runs.specs();
    let [spec] = &specs[..] else { panic!("one run was submitted: {specs:?}") };
    assert_eq!((spec.task.as_deref(), spec.agent.as_deref()), (Some("Paint a cat."), Some("painter")));
    assert_eq!((spec.budget, &spec.session), (budget, &spec.id));
    let parent = spec.parent.as_ref().unwrap();
    assert_eq!((parent.run.as_deref(), parent.session.as_str(), parent.depth), (Some("parent"), "s", 2));
    let ceiling = Ceiling::from_json(spec.ceiling.as_ref().unwrap(), "/project".as_ref());
    assert_eq!(ceiling, Ok(Ceiling::default()), "nobody bounds the agent of a person");
}

#[tokio::test(start_paused = true)]
async fn bounds_of_the_parent_go_to_the_worker() {
    let runs = FakeRuns::ending_next(completed("A cat.", 1));
    let clock = CeilingBound { grant: Some(Grant { clock: true, ..Grant::default() }), ..CeilingBound::default() };
    let mut agent = agent(model(&runs, &broker()));
    agent.delegable = Ceiling::of("agents.lead.delegable", clock);
    agent.run(&RunCx::new("painter"), &Chat::new(), vec![Message::user("Paint.")]).await.unwrap();
    let sent = Ceiling::from_json(runs.specs()[0].ceiling.as_ref().unwrap(), "/project".as_ref()).unwrap();
    let all = Grant { clock: true, random: true, ..Grant::default() };
    assert_eq!(sent.narrow(&all), Grant { clock: true, ..Grant::default() });
}

#[tokio::test(start_paused = true)]
async fn failure_of_a_worker_is_named_and_charged() {
    for (state, says) in [
        (RunEndState::Failed, "has failed: no paint"),
        (RunEndState::Refused, "no worker accepts"),
        (RunEndState::Poisoned, "too many workers died"),
        (RunEndState::Cancelled, "was cancelled by somebody else"),
        (RunEndState::Completed, "ended without an answer"),
    ] {
        let runs =
            FakeRuns::ending_next(QueuedRunEnd { error: Some(json!({"message": "no paint"})), ..ended(state, 3) });
        let (answer, account) = run(model(&runs, &broker()), Budget::default()).await;
        let failure = answer.unwrap_err();
        assert!(failure.contains(says) && failure.contains("`painter`"), "{failure}, not {says}");
        assert_eq!(account.spent().of_children.usage, usage(3), "{state:?}");
    }
}

/// The records of a run, in memory.
#[derive(Debug, Default)]
struct RecordList(Mutex<Vec<(u64, JournalRecord)>>);

impl Recorder for RecordList {
    fn write(&self, run: u64, record: &JournalRecord) -> JournalPosition {
        let mut records = self.0.lock().unwrap();
        records.push((run, record.clone()));
        JournalPosition(records.len() as u64)
    }

    fn kept(&self, _: JournalPosition) -> Pin<Box<dyn Future<Output = Result<(), JournalWriteError>> + Send + '_>> {
        Box::pin(async { Ok(()) })
    }

    fn lost(&self) -> Option<JournalWriteError> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_parent_hears_how_its_run_has_ended() {
    let cx = RunCx::new("painter");
    let agent = |runs: &Arc<FakeRuns>, group: AgentGroup| {
        Agent::new("painter", "", Arc::new(model(runs, &broker()))).with_agent_group(Arc::new(group), 0)
    };
    let said = |answer: Result<RunAnswer, RunError>| match answer {
        Ok(answer) => answer.message.text_content(),
        Err(error) => error.in_full(),
    };
    for ending in [completed("A cat.", 3), ended(RunEndState::Failed, 3), ended(RunEndState::Poisoned, 3)] {
        let (runs, list) = (FakeRuns::ending_next(ending.clone()), Arc::<RecordList>::default());
        let whole = agent(&runs, AgentGroup::default().with_recorder(Arc::clone(&list) as _));
        let expected = said(whole.run(&cx, &Chat::recorded(), vec![Message::user("Paint a cat.")]).await);
        let records = list.0.lock().unwrap().clone();
        let given = |record: &JournalRecord| matches!(record, JournalRecord::GaveRemoteTask { .. });
        let gave: Vec<_> = (0..records.len()).filter(|at| given(&records[*at].1)).collect();
        assert_eq!(gave.len(), 2, "it was named, and its cost recorded");
        // Interrupted before its end was recorded, and after that, when nobody had heard of it.
        for last in gave {
            let state = JournalState::of(records[..=last].iter().cloned()).unwrap();
            let chat = state.chat().unwrap();
            let group = AgentGroup::default().resuming(Arc::<RecordList>::default(), state, &chat);
            let resumed = agent(&runs, group).resume(&cx, &chat, vec![]).await.expect("a run");
            assert_eq!(said(resumed), expected, "{:?} after record {last}", ending.state);
            assert_eq!(runs.specs().len(), 1, "{:?}: it is not done again", ending.state);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn question_of_a_worker_is_answered_at_the_parent() {
    let runs = FakeRuns::default();
    runs.state().next = Some(running());
    runs.state().questions = [json!({"id": 4, "kind": "open", "text": "Which cat?"})].into();
    runs.state().lost_answers = 2;
    let (runs, broker) = (Arc::new(runs), broker());
    let inbox = broker.attend().unwrap();
    let asked = tokio::spawn(async move {
        let open = inbox.other_than(&[]).await.unwrap();
        inbox.answer(open[0].id, OpenQuestionAnswer::Text("The black one.".into())).unwrap();
        inbox
    });
    let (answer, _) = run(model(&runs, &broker), Budget::default()).await;
    assert_eq!(answer.unwrap(), "Asked and done.");
    let _inbox = asked.await.unwrap();
    let answer = RunCommand::Answer { question: "4".into(), reply: json!({"text": "The black one."}) };
    let answers = runs.state().commands.iter().filter(|command| **command == answer).count();
    assert_eq!(answers, 3, "it is sent until it arrives: {:?}", runs.state().commands);
}

#[tokio::test(start_paused = true)]
async fn question_of_an_attempt_that_is_over_is_withdrawn() {
    let runs = FakeRuns::default();
    runs.state().next = Some(running());
    runs.state().questions = [json!({"id": 4, "kind": "open", "text": "Which cat?"})].into();
    let (runs, broker) = (Arc::new(runs), broker());
    let inbox = broker.attend().unwrap();
    let taking_over = Arc::clone(&runs);
    let asked = tokio::spawn(async move {
        let first = inbox.other_than(&[]).await.unwrap();
        {
            let mut state = taking_over.state();
            state.entries[0].phase =
                RunPhase::Running { worker: "v".into(), attempt: 2, since: SystemTime::UNIX_EPOCH };
            state.questions = [json!({"id": 4, "kind": "open", "text": "Which dog?"})].into();
        }
        inbox.closed(first[0].id).await;
        let next = inbox.other_than(&[]).await.unwrap();
        inbox.answer(next[0].id, OpenQuestionAnswer::Text("The black one.".into())).unwrap();
        inbox
    });
    let answered = timeout(limits::CLUSTER_WATCH_CHECK * 3, run(model(&runs, &broker), Budget::default())).await;
    assert_eq!(answered.expect("the next attempt is heard").0.unwrap(), "Asked and done.");
    let _inbox = asked.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn message_to_the_agent_is_passed_on_once() {
    let runs = FakeRuns::default();
    runs.state().next = Some(running());
    runs.state().lost_replies = 1;
    let (runs, group) = (Arc::new(runs), Arc::new(AgentGroup::default()));
    let agent = Agent::new("painter", "", Arc::new(model(&runs, &broker()))).with_agent_group(Arc::clone(&group), 0);
    let telling = Arc::clone(&runs);
    tokio::spawn(async move {
        sleep(limits::CLUSTER_QUESTION_PAUSE / 2).await;
        for _ in 0..2 {
            group.send("painter", Message::user("Make it black.")).unwrap();
        }
        sleep(limits::CLUSTER_QUESTION_PAUSE * 3).await;
        telling.state().entries[0].phase = RunPhase::Ended(completed("A black cat.", 1));
    });
    let answer = agent.run(&RunCx::new("painter"), &Chat::new(), vec![Message::user("Paint.")]).await.unwrap();
    assert_eq!(answer.message.text_content(), "A black cat.");
    let commands = runs.state().commands.clone();
    let told = commands.iter().filter_map(|command| match command {
        RunCommand::Message { id: Some(id), text, .. } if text == "Make it black." => Some(id),
        _ => None,
    });
    let [first, again, second] = told.collect::<Vec<_>>()[..] else { panic!("three messages: {commands:?}") };
    assert_eq!(first, again, "the worker recognizes it");
    assert_ne!(first, second, "somebody has said it twice");
    assert_eq!(runs.specs().len(), 1, "it is no further task");
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_worker_is_told_with_its_labels() {
    let (runs, told) = (Arc::new(FakeRuns::default()), Arc::new(Mutex::new(Vec::new())));
    let (sink, telling, working) = (EventSink::new(), Arc::clone(&told), Arc::clone(&runs));
    sink.record(Arc::new(move |event| {
        if let Event::ModelWaits { wait: ModelWait::Worker, model, detail, .. } = &event.event {
            telling.lock().unwrap().push(format!("{model}: {detail}"));
        }
    }));
    tokio::spawn(async move {
        sleep(limits::CLUSTER_QUESTION_PAUSE).await;
        working.state().entries[0].phase = running();
        sleep(limits::CLUSTER_WATCH_CHECK * 3).await;
        working.state().entries[0].phase = RunPhase::Ended(completed("A cat.", 1));
    });
    let cx = RunCx::new("painter").with_events(sink);
    agent(model(&runs, &broker())).run(&cx, &Chat::new(), vec![Message::user("Paint.")]).await.unwrap();
    let told = told.lock().unwrap();
    assert_eq!(*told, ["worker:painter: waiting for a worker with the labels gpu", "worker:painter: at work on w"]);
}

#[tokio::test(start_paused = true)]
async fn missing_worker_is_named_after_a_while() {
    let runs = Arc::new(FakeRuns::default());
    runs.state().obeys = true;
    let began = Instant::now();
    let (answer, account) = run(model(&runs, &broker()), Budget::default()).await;
    let failure = answer.unwrap_err();
    assert!(failure.contains("no worker was there") && failure.contains("gpu"), "{failure}");
    let waited = began.elapsed();
    assert!(waited >= limits::CLUSTER_PLACE_WAIT && waited < limits::CLUSTER_PLACE_WAIT * 2, "{waited:?}");
    assert!(runs.state().entries[0].cancel_requested, "nobody waits for it any more");
    assert_eq!(account.spent().of_children.usage, usage(7), "the end of the run waits for what it cost");
}

#[tokio::test(start_paused = true)]
async fn bounded_number_of_runs_of_a_worker_wait() {
    let runs = FakeRuns::ending_next(completed("A cat.", 1));
    let most = limits::CLUSTER_WAITING_RUNS;
    let (jobs, waiting) = (JobPlaces::new(most + 1).of("team-a"), Arc::new(Semaphore::new(most)));
    let taken = async || RunJob::new(jobs.clone(), jobs.acquire().await, Arc::clone(&waiting));
    let mut others = Vec::new();
    for _ in 0..most {
        others.push(taken().await);
    }
    let mut waits: Vec<_> = others.iter().map(|job| job.slot().begin_wait().unwrap()).collect();
    let own = taken().await;
    let waiting_model = || {
        let mut model = model(&runs, &broker());
        model.options.parent.slot = Some(own.slot());
        model
    };
    let refused = run(waiting_model(), Budget::default()).await.0.unwrap_err();
    assert!(refused.contains(&format!("{most} runs of this worker wait for others already")), "{refused}");
    assert!(runs.specs().is_empty(), "nothing is submitted that nobody waits for");
    waits.pop();
    assert_eq!(run(waiting_model(), Budget::default()).await.0.unwrap(), "A cat.");
}

#[tokio::test(start_paused = true)]
async fn server_that_stays_away_ends_the_wait() {
    let runs = Arc::new(FakeRuns::default());
    runs.state().is_away = true;
    let began = Instant::now();
    let (answer, _) = run(model(&runs, &broker()), Budget::default()).await;
    let failure = answer.unwrap_err();
    assert!(failure.contains("cannot wait for its end") && failure.contains("nats://a:1"), "{failure}");
    assert!(began.elapsed() >= limits::CLUSTER_TAKE_PAUSE * (limits::CLUSTER_CHILD_FAILURES - 1));
}

#[tokio::test(start_paused = true)]
async fn agent_without_an_end_is_given_up() {
    let runs = FakeRuns::default();
    (runs.state().next, runs.state().obeys) = (Some(running()), true);
    let runs = Arc::new(runs);
    let (answer, _) = run(model(&runs, &broker()), Budget::default()).await;
    assert!(answer.unwrap_err().contains("has no answer after 24 hours"));
    assert!(runs.state().entries[0].cancel_requested);
}

#[tokio::test(start_paused = true)]
async fn run_that_is_removed_is_a_lost_result() {
    let runs = FakeRuns::default();
    runs.state().next = Some(running());
    let runs = Arc::new(runs);
    let removing = Arc::clone(&runs);
    tokio::spawn(async move {
        sleep(limits::CLUSTER_QUESTION_PAUSE).await;
        removing.state().entries.clear();
    });
    let (answer, _) = run(model(&runs, &broker()), Budget::default()).await;
    assert!(answer.unwrap_err().contains("is lost: its run was removed"));
}

#[tokio::test(start_paused = true)]
async fn too_many_questions_end_the_wait() {
    let runs = FakeRuns::default();
    runs.state().next = Some(running());
    let question = |id: usize| json!({"id": id, "kind": "open", "text": format!("And {id}?")});
    runs.state().questions = (0..=limits::CLUSTER_CHILD_QUESTIONS).map(question).collect();
    let (answer, _) = run(model(&Arc::new(runs), &broker()), Budget::default()).await;
    assert!(answer.unwrap_err().contains("has asked more than"));
}

#[tokio::test(start_paused = true)]
async fn dropped_parent_cancels_its_run() {
    for is_left in [false, true] {
        let runs = FakeRuns::default();
        (runs.state().next, runs.state().obeys) = (Some(running()), true);
        let (runs, broker) = (Arc::new(runs), broker());
        let model = model(&runs, &broker);
        let (left, cancellations) = (model.options.parent.left.clone(), model.options.cancellations.clone());
        let mut parent = Box::pin(run(model, Budget::default()));
        let is_waiting = timeout(limits::CLUSTER_QUESTION_PAUSE * 3, &mut parent).await.is_err();
        assert!(is_waiting);
        if is_left {
            left.cancel();
        }
        drop(parent);
        cancellations.close();
        cancellations.wait().await;
        assert_eq!(runs.state().entries[0].cancel_requested, !is_left, "another host goes on with it: {is_left}");
    }
}

#[tokio::test(start_paused = true)]
async fn runs_left_behind_are_cancelled_and_counted() {
    let runs = FakeRuns::default();
    runs.state().next = Some(running());
    for (id, parent) in [("child-1", "parent"), ("child-2", "parent"), ("other", "somebody")] {
        let parent = RunParent { run: Some(parent.into()), session: "s".into(), call: "1".into(), depth: 0 };
        let spec = RunSpec { parent: Some(parent), ..RunSpec::new(id, id, Some("Paint.".into())) };
        runs.submit(spec).await.unwrap();
    }
    let ids = || ["child-1", "child-2", "other", "none"].map(str::to_owned).to_vec();
    let began = Instant::now();
    assert_eq!(spent_by_runs_left(&runs, "parent", ids()).await, BudgetUsage::default(), "they do not end");
    let waited = began.elapsed();
    assert!(waited >= limits::CLUSTER_CHILD_END && waited < limits::CLUSTER_CHILD_END * 2, "{waited:?}");
    let cancelled: Vec<bool> = runs.state().entries.iter().map(|entry| entry.cancel_requested).collect();
    assert_eq!(cancelled, [true, true, false], "the run of somebody else goes on");
    runs.state().obeys = true;
    let spent = spent_by_runs_left(&runs, "parent", ids()).await;
    assert_eq!((spent.usage, spent.tool_calls, spent.usd), (usage(14), 4, "0.5".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn removed_run_is_not_waited_for_at_the_end() {
    let runs = FakeRuns::default();
    runs.state().next = Some(running());
    let parent = RunParent { run: Some("parent".into()), session: "s".into(), call: "1".into(), depth: 0 };
    runs.submit(RunSpec { parent: Some(parent), ..RunSpec::new("a", "a", Some("Paint.".into())) }).await.unwrap();
    let runs = Arc::new(runs);
    let removing = Arc::clone(&runs);
    tokio::spawn(async move {
        sleep(limits::CLUSTER_QUESTION_PAUSE).await;
        removing.state().entries.clear();
    });
    let began = Instant::now();
    assert_eq!(spent_by_runs_left(&*runs, "parent", vec!["a".into()]).await, BudgetUsage::default());
    assert!(began.elapsed() < limits::CLUSTER_CHILD_END, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn used_up_budget_submits_nothing() {
    let runs = FakeRuns::ending_next(completed("A cat.", 1));
    let account = BudgetAccount::new(&Budget { tool_calls: Some(1), ..Budget::default() }, Instant::now());
    account.take_call().unwrap();
    let (cx, chat) = (RunCx::new("painter"), Chat::new());
    let agent = agent(model(&runs, &broker()));
    let failed = agent.run_on(&cx, &chat, vec![Message::user("Paint.")], &account).await.unwrap_err();
    assert!(failed.in_full().contains("no tool calls left"), "{}", failed.in_full());
    assert!(runs.specs().is_empty());
}

#[test]
fn names_of_files_are_plain() {
    for (name, plain) in
        [("a.png", "a.png"), ("", "file-3"), ("..", "file-3"), ("a/b\\c", "a_b_c"), ("a\u{1b}", "a_u{1b}")]
    {
        assert_eq!(file_name(name, 2), plain);
    }
    assert!(file_name(&"ä".repeat(limits::CLUSTER_SPEC_NAME_BYTES), 0).len() <= limits::CLUSTER_SPEC_NAME_BYTES);
}
