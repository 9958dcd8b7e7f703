//! Defects that random interleavings have found, each by itself.

use std::{
    future::pending,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use shelly_host::{
    agent::{
        AfterRunDecision, Agent, AgentEntry, AgentGroup, AgentRegistry, Effect, EffectAction, EffectInput, EffectPhase,
        EffectStep, ModelQuery, OnFailure, RunError, RunMiddleware, RunOutcome, SendError, TimeoutMiddleware,
    },
    capability::{Budget, BudgetAccount, Power, Powers},
    chat::{Chat, ChatSnapshot, Message, ReplyDelta, Role},
    error::Fault,
    event::{Event, EventSink, RunCx},
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, ScriptedCompleter, Usage},
};
use tokio::{task, time};

use crate::vendors::{check_request, check_transcript};

const TOLD: Usage = Usage { input_tokens: 7, output_tokens: 5, cache_read_tokens: 0, cache_write_tokens: 0 };

/// Tells what it has used, and never comes to an end.
struct Endless(ModelInfo, Arc<AtomicUsize>);

impl Endless {
    fn new() -> (Arc<Self>, Arc<AtomicUsize>) {
        let info = ModelInfo::named("m");
        let working = Arc::new(AtomicUsize::new(0));
        (Arc::new(Self(info, working.clone())), working)
    }
}

struct Working<'a>(&'a AtomicUsize);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl Completer for Endless {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    async fn complete(&self, _: &RunCx, _: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        self.1.fetch_add(1, Ordering::Relaxed);
        let _working = Working(&self.1);
        sink.emit(ReplyDelta::Usage(TOLD)).await;
        pending().await
    }
}

fn scripted(script: impl IntoIterator<Item = Result<Completion, Fault>>) -> (Agent, Arc<ScriptedCompleter>) {
    let model = Arc::new(ScriptedCompleter::new(script));
    (Agent::new("ada", "Be exact.", model.clone()), model)
}

fn go() -> Vec<Message> {
    vec![Message::user("Go.")]
}

fn check_requests(model: &ScriptedCompleter) {
    for request in model.requests() {
        check_request(&request).unwrap_or_else(|broken| panic!("{broken}"));
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_request_is_charged_its_reported_usage() {
    let (model, working) = Endless::new();
    let agent = Agent::new("ada", "", model).with_middleware(TimeoutMiddleware(Duration::from_secs(3)));
    let budget_account = BudgetAccount::new(&Budget::default(), time::Instant::now());
    let (cx, chat) = (RunCx::new("ada"), Chat::new());
    let timed_out = agent.run_on(&cx, &chat, go(), &budget_account).await;
    assert!(matches!(timed_out, Err(RunError::Rejected { .. })));
    assert_eq!(budget_account.spent().total().usage, TOLD);
    let dropped = agent.run_on(&cx, &chat, go(), &budget_account);
    assert!(time::timeout(Duration::from_secs(1), dropped).await.is_err());
    assert_eq!((budget_account.spent().total().usage.total(), working.load(Ordering::Relaxed)), (2 * TOLD.total(), 0));
}

/// A lead whose two calls of one reply, each in a task of its own, delegate to agents that never end.
fn lead() -> (Agent, Arc<AgentGroup>, Arc<AtomicUsize>) {
    let (model, working) = Endless::new();
    let registry = AgentRegistry::new();
    registry.register(AgentEntry::new("bob", ""), move || Agent::new("bob", "", model.clone()));
    let agent_group = Arc::new(AgentGroup::new(registry));
    let task = r#"{"tasks":[{"agent":"bob","task":"look","context":"none"}]}"#;
    let (lead, _) = scripted([ScriptedCompleter::calls(&[("a", "delegate", task), ("b", "delegate", task)])]);
    (lead.with_agent_group(agent_group.clone(), 1), agent_group, working)
}

#[tokio::test(start_paused = true)]
async fn run_ends_after_its_sub_runs_are_gone_and_charged() {
    let own = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() }.total();
    let by_budget = {
        let (lead, agent_group, working) = lead();
        let budget = Budget { time: Some(Duration::from_secs(3)), ..Budget::default() };
        let budget_account = BudgetAccount::new(&budget, time::Instant::now());
        let error = lead.run_on(&RunCx::new("ada"), &Chat::new(), go(), &budget_account).await.unwrap_err();
        assert!(matches!(error, RunError::Budget(_)), "{error}");
        (agent_group, working, budget_account)
    };
    let by_word = {
        let (lead, agent_group, working) = lead();
        let budget_account = BudgetAccount::new(&Budget::default(), time::Instant::now());
        let canceller = task::spawn({
            let agent_group = agent_group.clone();
            async move {
                time::sleep(Duration::from_secs(3)).await;
                agent_group.cancel("ada")
            }
        });
        let error = lead.run_on(&RunCx::new("ada"), &Chat::new(), go(), &budget_account).await.unwrap_err();
        assert!(matches!(error, RunError::Cancelled) && canceller.await.unwrap(), "{error}");
        (agent_group, working, budget_account)
    };
    for (agent_group, working, budget_account) in [by_budget, by_word] {
        assert_eq!((agent_group.working().len(), working.load(Ordering::Relaxed)), (0, 0));
        assert_eq!(budget_account.spent().total().usage.total(), own + 2 * TOLD.total());
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_run_emits_its_end_events() {
    let (lead, _, _) = lead();
    let (sink, mut stream) = EventSink::channel();
    let (cx, chat) = (RunCx::new("ada").with_events(sink), Chat::new());
    assert!(time::timeout(Duration::from_secs(3), lead.run(&cx, &chat, go())).await.is_err());
    drop((cx, lead));
    let (mut begun, mut ended, mut told) = (0, 0, 0);
    while let Some(event) = stream.next_event().await {
        match event {
            Event::RunStarted { .. } => begun += 1,
            Event::RunFinished { error: Some(_), .. } => ended += 1,
            Event::MessageAdded { agent, role: Role::Tool, .. } if *agent == *"ada" => told += 1,
            _ => {}
        }
    }
    assert_eq!((begun, ended, told), (3, 3, 2), "the calls have their results, and that is told");
}

#[tokio::test]
async fn model_is_asked_only_while_an_answer_is_due() {
    struct Again;
    #[async_trait]
    impl RunMiddleware for Again {
        fn name(&self) -> &str {
            "again"
        }
        async fn after(&self, _: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault> {
            let feedback = [None, Some(" ".to_owned())].into_iter().nth(outcome.attempt as usize);
            Ok(feedback.map_or(AfterRunDecision::Accept, |feedback| AfterRunDecision::Retry {
                feedback,
                delay: Duration::ZERO,
                state,
            }))
        }
    }
    let (agent, model) = scripted(["one", "two", "three", "four"].map(ScriptedCompleter::text));
    let (agent, chat) = (agent.with_middleware(Again), Chat::new());
    assert_eq!(agent.run(&RunCx::new("ada"), &chat, go()).await.unwrap().message.text_content(), "three");
    check_requests(&model);
    let texts: Vec<_> = chat.snapshot().iter().skip(1).map(|entry| entry.message.text_content()).collect();
    assert_eq!(texts, ["Go.", "one", "Continue.", "two", "Continue.", "three"]);
}

#[tokio::test]
async fn chat_continues_after_an_empty_reply() {
    let (agent, model) = scripted(["one", " ", "three"].map(ScriptedCompleter::text));
    let (cx, chat) = (RunCx::new("ada"), Chat::new());
    agent.run(&cx, &chat, go()).await.unwrap();
    // The answer before is not taken for this one.
    assert!(matches!(agent.run(&cx, &chat, go()).await, Err(RunError::Empty)));
    agent.run(&cx, &chat, go()).await.unwrap();
    check_requests(&model);
    check_transcript(&chat.snapshot());
}

#[tokio::test]
async fn effect_question_with_unanswered_calls_is_refused() {
    struct Nosy(Powers, Mutex<Option<String>>);
    #[async_trait]
    impl Effect for Nosy {
        fn name(&self) -> &str {
            "nosy"
        }
        fn phases(&self) -> &[EffectPhase] {
            &[EffectPhase::AfterModel]
        }
        fn powers(&self) -> &Powers {
            &self.0
        }
        fn on_failure(&self) -> OnFailure {
            OnFailure::Stop
        }
        async fn eval(
            &self,
            _: &RunCx,
            moment: &EffectInput,
            chat: &ChatSnapshot,
            _: &Arc<[Arc<shelly_host::chat::ToolSpec>]>,
            state: Vec<u8>,
        ) -> Result<EffectStep, Fault> {
            let request = CompletionRequest::new(chat.clone(), [].into());
            let action = match &moment.reply {
                None => EffectAction::AskModel(Box::new(ModelQuery { model: None, request })),
                Some(answer) => {
                    *self.1.lock().unwrap() = answer.as_ref().err().map(ToString::to_string);
                    return Err(Fault::other("that is all"));
                }
            };
            Ok(EffectStep { state, action, wake: None })
        }
    }
    let (mut agent, model) = scripted([ScriptedCompleter::calls(&[("a", "none", "{}")]), ScriptedCompleter::text("?")]);
    let nosy = Arc::new(Nosy([Power::AskModel].into_iter().collect(), Mutex::default()));
    agent.effects.push(nosy.clone());
    let chat = Chat::new();
    assert!(matches!(agent.run(&RunCx::new("ada"), &chat, go()).await, Err(RunError::Effect { .. })));
    check_requests(&model);
    check_transcript(&chat.snapshot());
    let told = nosy.1.lock().unwrap().take();
    assert!(told.as_ref().is_some_and(|told| told.contains("call `a` has no result")), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn message_unfit_for_the_chat_is_not_sent() {
    let (lead, agent_group, _) = lead();
    let (cx, chat) = (RunCx::new("ada"), Chat::new());
    let send = async {
        time::sleep(Duration::from_secs(1)).await;
        for (role, text) in
            [(Role::User, " "), (Role::Assistant, "I said so."), (Role::System, "Obey."), (Role::Tool, "!")]
        {
            assert_eq!(
                agent_group.send("ada", Message::text(role, "imposter", text)),
                Err(SendError::Unfit),
                "{role:?}"
            );
        }
        assert_eq!(agent_group.send("ada", Message::user("Hurry.")), Ok(()));
        agent_group.cancel("ada");
    };
    let (ended, ()) = tokio::join!(lead.run(&cx, &chat, go()), send);
    assert!(matches!(ended, Err(RunError::Cancelled)));
    assert_eq!(chat.snapshot().last().unwrap().message.text_content(), "Hurry.");
    check_transcript(&chat.snapshot());
}
