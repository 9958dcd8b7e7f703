//! Random chains of middleware around model requests and tool calls. The run always ends, every call has exactly one result,
//! and what was charged is what the models used.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use proptest::{
    collection::vec,
    prelude::*,
    test_runner::{RngAlgorithm, TestCaseError, TestRng, TestRunner},
};
use schemars::JsonSchema;
use serde::Deserialize;
use shelly_host::{
    agent::{
        Agent, AgentGroup, AgentRegistry, Effect, EffectAction, EffectInput, EffectPhase, EffectStep, ModelQuery,
        journal::{JournalRecord, JournalState, Recorder},
    },
    capability::{Budget, BudgetAccount, NameSet, Power, Powers, Price, Usd},
    chat::{Chat, ChatSnapshot, Message, ToolCall, ToolResultContent, ToolSpec},
    error::{Fault, OnFailure},
    event::RunCx,
    model::{
        Completer, Completion, CompletionRequest, DeltaSink, Ledger, ModelInfo, ModelMiddleware, ModelRequestAttempt,
        ReplyDelta, ReplyVerdict, RequestVerdict, ScriptedCompleter, Usage, UsageTracker,
    },
    tool::{self, ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget},
};
use tokio::time::Instant;

use crate::sessions::{chance, memory};

const CASES: u32 = 400;

/// The next actions; the default one once all are used up.
struct Deeds(Mutex<VecDeque<u8>>);

impl Deeds {
    fn of(deeds: &[u8]) -> Self {
        Self(Mutex::new(deeds.iter().copied().collect()))
    }

    fn next(&self) -> u8 {
        self.0.lock().unwrap().pop_front().unwrap_or(0)
    }
}

fn says(text: &str) -> Completion {
    ScriptedCompleter::text(text).unwrap()
}

fn calls(count: usize) -> Completion {
    ScriptedCompleter::calls(&vec![("c", "look", "{}"); count]).unwrap()
}

fn broken() -> Fault {
    Fault::other("it is broken")
}

/// A model that counts what it used, failed replies included.
struct Vendor {
    info: ModelInfo,
    deeds: Deeds,
    used: Arc<UsageTracker>,
    paid: Arc<Mutex<Usd>>,
}

#[async_trait]
impl Completer for Vendor {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, _: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        assert_eq!(request.messages.check(), Ok(()));
        let deed = self.deeds.next();
        let usage = Usage {
            input_tokens: 3 + u64::from(deed),
            output_tokens: 7,
            cache_read_tokens: u64::from(deed / 16),
            cache_write_tokens: 1,
        };
        let reply = match deed % 8 {
            0 | 1 => Ok(says("done")),
            2..5 => Ok(calls(1)),
            5 => Ok(calls(3)),
            6 => return Err(broken()),
            // It fails when it has said how much it took; half of these may be asked for again at once.
            _ if deed < 128 => Err(broken()),
            _ => Err(Fault::Unavailable { message: "it broke off".into(), after: None }),
        };
        sink.emit(ReplyDelta::Usage(usage)).await;
        self.used.add(usage);
        let paid = &mut *self.paid.lock().unwrap();
        *paid = paid.saturating_add(self.info.price.as_ref().unwrap().of(&usage));
        reply.map(|reply| Completion { usage, ..reply })
    }
}

/// Around requests.
struct Requests {
    name: String,
    deeds: Deeds,
    skips: bool,
    models: NameSet,
}

#[async_trait]
impl ModelMiddleware for Requests {
    fn name(&self) -> &str {
        &self.name
    }

    fn models(&self) -> &NameSet {
        &self.models
    }

    fn on_failure(&self) -> OnFailure {
        if self.skips { OnFailure::Skip } else { OnFailure::Stop }
    }

    async fn before(&self, _: &RunCx, sending: &ModelRequestAttempt<'_>) -> Result<RequestVerdict, Fault> {
        let proceed = |model: Option<&str>, request| {
            Ok(RequestVerdict::Proceed { model: model.map(Into::into), request, state: vec![1] })
        };
        match self.deeds.next() % 16 {
            0..8 => proceed(None, None),
            8 | 9 => proceed(Some("other"), None),
            // Nobody has it.
            10 => proceed(Some("none"), None),
            11 => proceed(None, Some(CompletionRequest { temperature: Some(0.5), ..sending.request.clone() })),
            12 => Ok(RequestVerdict::Answer(says("mine"))),
            13 => Ok(RequestVerdict::Answer(calls(2))),
            14 => Ok(RequestVerdict::Reject(broken())),
            _ => Err(broken()),
        }
    }

    async fn after(
        &self,
        _: &RunCx,
        _: &ModelRequestAttempt<'_>,
        _: Result<&Completion, &Fault>,
        _: Vec<u8>,
    ) -> Result<ReplyVerdict, Fault> {
        let again = |model: Option<&str>| {
            let delay = Duration::from_nanos(1);
            Ok(ReplyVerdict::Retry { model: model.map(Into::into), delay, state: vec![] })
        };
        match self.deeds.next() % 16 {
            0..8 => Ok(ReplyVerdict::Accept),
            8 => Ok(ReplyVerdict::Replace(says("mine"))),
            9 => Ok(ReplyVerdict::Replace(calls(1))),
            10 | 11 => again(None),
            12 => again(Some("other")),
            13 => again(Some("none")),
            14 => Ok(ReplyVerdict::Reject(broken())),
            _ => Err(broken()),
        }
    }
}

/// Around calls.
struct Calls {
    name: String,
    deeds: Deeds,
    skips: bool,
}

#[async_trait]
impl ToolMiddleware for Calls {
    fn name(&self) -> &str {
        &self.name
    }

    fn on_failure(&self) -> OnFailure {
        if self.skips { OnFailure::Skip } else { OnFailure::Stop }
    }

    async fn before(&self, _: &RunCx, _: &ToolCall, _: &ToolTarget) -> Result<ToolCallDecision, Fault> {
        let deed = self.deeds.next();
        let verdict = match deed % 16 {
            0..10 => ToolCallVerdict::Allow,
            10 | 11 => ToolCallVerdict::Answer(vec![ToolResultContent::Text("mine".into())]),
            12 => ToolCallVerdict::Deny("no".into()),
            13 => ToolCallVerdict::Ask { text: "May it?".into(), topic: "it".into() },
            _ => return Err(broken()),
        };
        let arguments = match deed / 16 {
            0 => Some("{ }".to_owned()),
            1 => Some("[]".to_owned()),
            _ => None,
        };
        Ok(ToolCallDecision { verdict, arguments, state: vec![] })
    }

    async fn after(
        &self,
        _: &RunCx,
        _: &ToolCall,
        _: Result<&[ToolResultContent], &Fault>,
        _: Vec<u8>,
    ) -> Result<Option<Vec<ToolResultContent>>, Fault> {
        match self.deeds.next() % 8 {
            0..5 => Ok(None),
            5 => Ok(Some(vec![])),
            6 => Ok(Some(vec![ToolResultContent::Text("x".repeat(100_000))])),
            _ => Err(broken()),
        }
    }
}

/// Asks the model once, through the same chain.
struct Asks(Powers);

#[async_trait]
impl Effect for Asks {
    fn name(&self) -> &str {
        "asks"
    }

    fn phases(&self) -> &[EffectPhase] {
        &[EffectPhase::BeforeModel]
    }

    fn powers(&self) -> &Powers {
        &self.0
    }

    fn on_failure(&self) -> OnFailure {
        OnFailure::Skip
    }

    async fn eval(
        &self,
        _: &RunCx,
        moment: &EffectInput,
        _: &ChatSnapshot,
        _: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        let action = match moment.reply {
            None if state.is_empty() => {
                let messages = ChatSnapshot::from_messages(vec![Message::user("How is it?")]).unwrap();
                let request = CompletionRequest::new(messages, [].into());
                EffectAction::AskModel(Box::new(ModelQuery { model: None, request }))
            }
            _ => EffectAction::Edits(vec![]),
        };
        Ok(EffectStep { state: vec![1], action, wake: None })
    }
}

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

/// All that chance decides.
#[derive(Debug, Clone)]
struct Case {
    model: Vec<u8>,
    requests: Vec<(Vec<u8>, bool)>,
    calls: Vec<(Vec<u8>, bool)>,
    asks: bool,
    tokens: Option<u64>,
    /// The point of the interruption.
    cut: u16,
}

fn case() -> impl Strategy<Value = Case> {
    let deeds = || vec(any::<u8>(), 0..24);
    let chain = || vec((deeds(), any::<bool>()), 0..4);
    let tokens = prop_oneof![3 => Just(None), 1 => (1..3_000_u64).prop_map(Some)];
    (deeds(), chain(), chain(), any::<bool>(), tokens, any::<u16>())
        .prop_map(|(model, requests, calls, asks, tokens, cut)| Case { model, requests, calls, asks, tokens, cut })
}

/// The usage of models and its price, counted by the models themselves.
#[derive(Default)]
struct Counted {
    used: Arc<UsageTracker>,
    paid: Arc<Mutex<Usd>>,
}

impl Counted {
    fn total(&self) -> (Usage, Usd) {
        (self.used.total(), *self.paid.lock().unwrap())
    }
}

fn agent(case: &Case, agent_group: &Arc<AgentGroup>, counted: &Counted) -> Agent {
    let usd = |text: &str| text.parse::<Usd>().unwrap();
    let vendor = |name: &str, input: &str, deeds: &[u8]| {
        let price = Price { input: usd(input), output: usd("2"), cache_read: usd("0.3"), cache_write: usd("1.25") };
        let info = ModelInfo { price: Some(price), ..ModelInfo::named(name) };
        let Counted { used, paid } = counted;
        Arc::new(Vendor { info, deeds: Deeds::of(deeds), used: Arc::clone(used), paid: Arc::clone(paid) })
    };
    let look = tool::function("look", "Looks.", |_, _: Nothing| async { Ok("looked".to_owned()) });
    let mut agent = Agent::new("helper", "", vendor("own", "1", &case.model))
        .with_tool(look)
        .with_agent_group(Arc::clone(agent_group), 0);
    let reversed: Vec<_> = case.model.iter().rev().copied().collect();
    agent.models = Arc::new([("other".to_owned(), vendor("other", "5", &reversed) as _)].into());
    for (at, (deeds, skips)) in case.requests.iter().enumerate() {
        let (name, deeds) = (format!("requests-{at}"), Deeds::of(deeds));
        agent = agent.with_model_middleware(Requests { name, deeds, skips: *skips, models: NameSet::all() });
    }
    for (at, (deeds, skips)) in case.calls.iter().enumerate() {
        let (name, deeds) = (format!("calls-{at}"), Deeds::of(deeds));
        agent = agent.with_tool_middleware(Calls { name, deeds, skips: *skips });
    }
    if case.asks {
        agent = agent.with_effect(Asks([Power::AskModel].into()));
    }
    agent.options.behavioral_hints = false;
    agent.options.max_iterations = 8;
    agent
}

fn is_whole(chat: &Chat) {
    let snapshot = chat.snapshot();
    assert_eq!(snapshot.check(), Ok(()));
    let called = snapshot.iter().flat_map(|entry| entry.message.tool_calls()).map(|call| &call.id);
    let answered = snapshot.iter().flat_map(|entry| entry.message.tool_results()).map(|result| &result.call_id);
    assert!(called.eq(answered), "each call has its result");
}

/// Returns the ledger that these records restore.
fn restored(records: &[(u64, JournalRecord)], chat: &Chat) -> Ledger {
    let past = JournalState::of(records.iter().cloned()).unwrap();
    AgentGroup::new(AgentRegistry::new()).resuming(memory(), past, chat).ledger()
}

/// Returns whether the run came to an answer, and the number of requests that were sent.
async fn holds(case: &Case) -> (bool, u64) {
    let (counted, recorder) = (Counted::default(), memory());
    let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_recorder(recorder.clone()));
    let agent = agent(case, &agent_group, &counted);
    let chat = Chat::recorded();
    let budget_account = BudgetAccount::new(&Budget { tokens: case.tokens, ..Budget::default() }, Instant::now());
    let cx = RunCx::new("helper");
    let running = agent.run_on(&cx, &chat, vec![Message::user("go")], &budget_account);
    let outcome = tokio::time::timeout(Duration::from_secs(3_600), running).await.expect("it ends");

    is_whole(&chat);
    let spent = budget_account.spent().own;
    assert_eq!((spent.usage, spent.usd), counted.total(), "what was paid");
    let told = agent_group.ledger().total();
    assert_eq!((told.usage, told.usd), counted.total(), "what is told of it");
    if let Ok(answer) = &outcome {
        assert_eq!((answer.usage, answer.account.own.usd), counted.total(), "what the answer says");
    }
    let records = recorder.records();
    assert_eq!(restored(&records, &chat), agent_group.ledger(), "what was written down");
    goes_on(case, &records[..usize::from(case.cut) % (records.len() + 1)]).await;
    (outcome.is_ok(), told.completions)
}

/// Interrupted after these records, it goes on, and pays for no more than what it asks from then on.
async fn goes_on(case: &Case, records: &[(u64, JournalRecord)]) {
    let past = JournalState::of(records.iter().cloned()).unwrap();
    let (chat, recorder, counted) = (past.chat().unwrap(), memory(), Counted::default());
    for (run, record) in records {
        recorder.write(*run, record);
    }
    let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).resuming(recorder.clone(), past, &chat));
    let before = agent_group.ledger().total();
    let agent = agent(case, &agent_group, &counted);
    let (cx, waited) = (RunCx::new("helper"), Duration::from_secs(3_600));
    let resumed = tokio::time::timeout(waited, agent.resume(&cx, &chat, vec![])).await.expect("it ends");
    if resumed.is_none() {
        // It had not begun, or had ended.
        return;
    }
    is_whole(&chat);
    let (used, paid) = counted.total();
    let after = agent_group.ledger().total();
    assert_eq!(after.usage - before.usage, used, "what it paid after it was interrupted");
    assert_eq!(after.usd, before.usd.saturating_add(paid));
    assert_eq!(restored(&recorder.records(), &chat), agent_group.ledger(), "what both have written down");
}

#[test]
fn random_middleware_chains_end_and_account_for_usage() {
    let cases = CASES * chance::number("SHELLY_CHANCE_TIMES").unwrap_or(1) as u32;
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let tally = Mutex::new((0, 0, 0));
    let ran = runner.run(&case(), |case| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (is_ok, requests) = runtime.block_on(holds(&case));
        let mut tally = tally.lock().unwrap();
        *tally = (tally.0 + u32::from(is_ok), tally.1 + 1, tally.2 + requests);
        Ok::<(), TestCaseError>(())
    });
    if let Err(error) = ran {
        panic!("{error}");
    }
    // Both happen often, or one of them was not tested.
    let (ok, all, requests) = *tally.lock().unwrap();
    assert!((all / 10..all - all / 10).contains(&ok), "{ok} of {all} runs came to an answer");
    assert!(requests > u64::from(all), "{requests} requests in {all} runs");
}
