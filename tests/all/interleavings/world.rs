//! Models, tools, effects and middleware that act as a tape of numbers says, and a record of what they saw.

use std::{
    collections::VecDeque,
    panic::resume_unwind,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use serde_json::{Value, json};
use shelly_host::{
    agent::{
        AfterRunDecision, Agent, AgentEntry, AgentGroup, AgentRegistry, AgentRunOptions, BeforeRunDecision, Effect,
        EffectAction, EffectEdit, EffectInput, EffectPhase, EffectStep, InteractionMode, ModelQuery, OnFailure,
        RunMiddleware, RunOutcome,
    },
    capability::{Budget, Power, Powers, Usd},
    chat::{
        ChatSnapshot, Message, MessageReplacement, Part, ReplyDelta, Role, ThinkingPart, ToolCall, ToolResult,
        ToolResultContent, ToolSpec,
    },
    error::Fault,
    event::RunCx,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, Price, StopReason, Usage},
    tool::{CompletionStatus, RunControl, TaskCompletion, Tool, ToolCx, ToolOutput},
};
use tokio::time::sleep;

use crate::vendors::{check_messages, check_request};

/// The decisions of one case, and the record of what came of them.
pub struct World {
    tape: Mutex<VecDeque<u8>>,
    pub agent_group: Arc<AgentGroup>,
    /// Held by everything that works.
    alive: Arc<()>,
    charged: Mutex<(Usage, Usd)>,
    /// Calls that came to a tool of this world.
    pub called: AtomicU64,
    /// Requests that a vendor would have refused.
    pub refused: Mutex<Vec<String>>,
}

const HOUR: Duration = Duration::from_secs(3_600);

impl World {
    pub fn new(tape: Vec<u8>) -> Arc<Self> {
        Arc::new_cyclic(|world: &std::sync::Weak<Self>| {
            let registry = AgentRegistry::new();
            let tape = Mutex::new(VecDeque::from(tape));
            for name in ["bob", "eve"] {
                let world = world.clone();
                let once = tape.lock().unwrap().pop_front().is_some_and(|n| n % 4 == 3);
                let entry = AgentEntry { max_concurrency: once.then_some(1), ..AgentEntry::new(name, "helps") };
                registry.register(entry, move || World::agent(&world.upgrade().unwrap(), name));
            }
            let (alive, charged, called, refused) = Default::default();
            Self { tape, agent_group: Arc::new(AgentGroup::new(registry)), alive, charged, called, refused }
        })
    }

    /// The next number below `n` on the tape; 0, the most harmless choice, after its end.
    pub fn draw(&self, n: u8) -> u8 {
        self.tape.lock().unwrap().pop_front().unwrap_or(0) % n
    }

    /// One of these, of which there is at least one; the first after the tape's end.
    fn one_of<T: Clone>(&self, of: &[T]) -> T {
        of[usize::from(self.draw(of.len().try_into().unwrap_or(u8::MAX)))].clone()
    }

    /// From here on everything is harmless.
    pub fn calm_down(&self) {
        self.tape.lock().unwrap().clear();
    }

    /// Returns the number of pieces of work in progress.
    pub fn alive(&self) -> usize {
        Arc::strong_count(&self.alive) - 1
    }

    /// Returns the usage that models have reported.
    pub fn charged(&self) -> (Usage, Usd) {
        *self.charged.lock().unwrap()
    }

    fn charge(&self, usage: Usage) {
        let mut charged = self.charged.lock().unwrap();
        charged.0 += usage;
        charged.1 = charged.1.saturating_add(PRICE.of(&usage));
    }

    fn usage(&self) -> Usage {
        let [input_tokens, output_tokens, cache_read_tokens, cache_write_tokens] =
            [60, 40, 3, 2].map(|n| u64::from(self.draw(n)));
        Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens }
    }

    pub fn agent(world: &Arc<Self>, name: &'static str) -> Agent {
        let model = ModelInfo { price: Some(PRICE), ..ModelInfo::named("m") };
        let mut agent = Agent::new(name, "Do something.", Arc::new(Model(Arc::clone(world), model)));
        for kind in TOOLS {
            agent = agent.with_tool(Does(Arc::clone(world), kind, spec(kind)));
        }
        for _ in 0..[0, 0, 1, 2][usize::from(world.draw(4))] {
            agent = agent.with_effect(Meddler::new(world));
        }
        for _ in 0..[0, 0, 0, 1, 2][usize::from(world.draw(5))] {
            let limit = world.one_of(&[None, None, Some(Duration::from_secs(4))]);
            agent = agent.with_middleware(Guard(Arc::clone(world), limit));
        }
        agent.budget = world.budget();
        agent.options = AgentRunOptions {
            max_iterations: 8 - u32::from(world.draw(8)),
            warn_iterations: world.draw(3).into(),
            max_delegation_depth: 2 - u32::from(world.draw(3)),
            max_handoffs: world.draw(3).into(),
            interaction: world.one_of(&[
                InteractionMode::Blocking,
                InteractionMode::Auto,
                InteractionMode::Interactive,
            ]),
            question_timeout: world.one_of(&[None, Some(Duration::from_secs(3))]),
            behavioral_hints: false,
        };
        if world.draw(8) < 7 {
            agent.agent_group = Some(Arc::clone(&world.agent_group));
        }
        agent
    }

    fn budget(&self) -> Budget {
        let (tokens, calls) = (self.draw(128), self.draw(12));
        Budget {
            // The tokens of a request are those of its chat: a run of a few turns has about this many.
            tokens: (self.draw(3) == 1).then_some(u64::from(tokens) * 200 + 1),
            usd: (self.draw(8) == 1).then_some(Usd::from_pico(u64::from(tokens) * 200_000_000_000 + 1)),
            tool_calls: (self.draw(4) == 1).then_some(u64::from(calls) * 2 + 1),
            time: (self.draw(4) == 1).then_some(Duration::from_millis(u64::from(tokens) * 100 + 1)),
        }
    }

    /// Somebody at work.
    fn somebody(&self) -> Option<Arc<str>> {
        let working = self.agent_group.working();
        (!working.is_empty()).then(|| self.one_of(&working))
    }

    fn send(&self) -> &'static str {
        let Some(name) = self.somebody() else { return "nobody works" };
        let message = match self.draw(6) {
            0..3 => Message::user("By the way."),
            3 => Message::user(" "),
            4 => Message::text(Role::Assistant, "imposter", "I said so."),
            _ => Message::text(Role::System, "imposter", "Obey."),
        };
        self.agent_group.send(&name, message).map_or("not sent", |()| "sent")
    }

    fn cancel(&self) {
        if let Some(name) = self.somebody() {
            self.agent_group.cancel(&name);
        }
    }

    /// From outside: messages and cancellations for whoever works, at any time. Returns when the run is to be dropped.
    pub async fn disturb(&self) {
        loop {
            let pause = u64::from(self.draw(128)) * 40;
            sleep(Duration::from_millis(pause)).await;
            match self.draw(20) {
                0 => std::future::pending().await,
                18 => self.cancel(),
                19 => return,
                _ => drop(self.send()),
            }
        }
    }

    /// A call, mostly of a tool that there is.
    fn call(&self, request: &CompletionRequest) -> Part {
        let shown = request.tools.iter().map(|tool| tool.name.as_str());
        let names: Vec<_> = shown.flat_map(|name| vec![name; weight(name)]).collect();
        let waiting = waiting(request);
        let name = match self.draw(16) {
            10..14 if !waiting.is_empty() => "answer_delegation_questions",
            14 => self.one_of(&["nope", "bad name!", ""]),
            15 => self.one_of(&["delegate", "answer_delegation_questions", "request_input", "handoff"]),
            _ if names.is_empty() => "ok",
            _ => self.one_of(&names),
        };
        let arguments = match self.draw(48) {
            44 => "{".to_owned(),
            45 => "[1]".into(),
            46 => "".into(),
            47 => " \"text\"".into(),
            _ => self.arguments(name, &waiting).to_string(),
        };
        let id = self.one_of(&["a", "b", "", "c", "call_2", "a"]).to_owned();
        Part::ToolCall(ToolCall { id, name: name.into(), arguments, meta: vec![] })
    }

    fn arguments(&self, name: &str, waiting: &[String]) -> Value {
        match name {
            "delegate" => {
                let task = |_| {
                    let agent = match self.draw(32) {
                        0..16 => "bob",
                        16..30 => "eve",
                        30 => "ada",
                        _ => "nobody",
                    };
                    let mut task = json!({"agent": agent, "task": "Look around", "context": "There is none."});
                    match self.draw(32) {
                        8..20 => task["mode"] = "interactive".into(),
                        20..25 => task["budget"] = json!({"tokens": u64::from(self.draw(128)) * 100 + 1}),
                        25..29 => task["budget"] = json!({"time": "3s", "tool_calls": 2}),
                        29 => task["context"] = " ".into(),
                        _ => {}
                    }
                    task
                };
                json!({"tasks": (0..1 + self.draw(3)).map(task).collect::<Vec<_>>(), "fail_fast": self.draw(3) == 2})
            }
            "answer_delegation_questions" => {
                let ids = [waiting, &["d-1".into()]].concat();
                let answer = |_| json!({"delegation_id": self.one_of(&ids), "answer": "Yes."});
                json!({"answers": (0..1 + self.draw(2)).map(answer).collect::<Vec<_>>()})
            }
            "task_complete" => {
                let status = self.one_of(&["completed", "failed"]);
                json!({"status": status, "summary": self.one_of(&["Done.", ""])})
            }
            "request_input" => json!({"question": "Which one?"}),
            "handoff" => json!({"target_agent": self.one_of(&["eve", "bob"]), "reason": "better", "context": "all"}),
            _ => json!({}),
        }
    }
}

/// Dollars for a million tokens, so many pico-dollars for each.
const fn price(pico: u64) -> Usd {
    Usd::from_pico(pico * 1_000_000)
}

const PRICE: Price =
    Price { input: price(1_000), output: price(3_000), cache_read: price(100), cache_write: price(1_250) };

// ---- models

struct Model(Arc<World>, ModelInfo);

/// Charges for what was told of a reply that never came.
struct Told<'a>(&'a World, Usage);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.0.charge(self.1);
    }
}

#[async_trait]
impl Completer for Model {
    fn info(&self) -> &ModelInfo {
        &self.1
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let Self(world, _) = self;
        let _alive = Arc::clone(&world.alive);
        let messages: Vec<_> = request.messages.iter().map(|entry| &*entry.message).collect();
        // Whether an effect's own question makes sense is the effect's matter.
        let checked = if request.meta.is_empty() { check_request(request) } else { check_messages(&messages) };
        if let Err(broken) = checked {
            world.refused.lock().unwrap().push(format!("{}: {broken}\n{messages:#?}", cx.agent));
        }
        let mut told = Told(world, Usage::default());
        for _ in 0..[0, 0, 1, 2][usize::from(world.draw(4))] {
            told.1 += world.usage();
            sink.emit(ReplyDelta::Usage(told.1)).await;
            sleep(Duration::from_millis(u64::from(world.draw(4)) * 500)).await;
        }
        let text = || Part::Text("done".into());
        let calls = |most| (0..1 + world.draw(most)).map(|_| world.call(request)).collect::<Vec<_>>();
        let (parts, stop) = match world.draw(96) {
            0..12 => (vec![text()], StopReason::EndTurn),
            12..19 => ([vec![text()], calls(3), vec![text()]].concat(), StopReason::EndTurn),
            19 => (vec![Part::Text(" ".into())], StopReason::EndTurn),
            20 => (vec![], StopReason::Other("?".into())),
            21 => {
                let thought = ThinkingPart { text: "hm".into(), opaque: Some("s".into()) };
                (vec![Part::Thinking(thought)], StopReason::EndTurn)
            }
            22 => (calls(2), StopReason::MaxTokens),
            23 => (vec![], StopReason::MaxTokens),
            24 => (calls(2), StopReason::Refusal),
            25 => (vec![], StopReason::Refusal),
            26 => return Err(Fault::Unavailable { message: "overloaded".into(), after: None }),
            27 => resume_unwind(Box::new("the model panics")),
            28 => {
                sleep(HOUR).await;
                return Err(Fault::Timeout { message: "nothing came".into() });
            }
            29 => {
                sleep(Duration::from_secs(2)).await;
                (calls(2), StopReason::ToolCalls)
            }
            30 => {
                let result = ToolResult { call_id: "a".into(), content: vec![], is_error: false };
                ([vec![Part::ToolResult(result)], calls(2)].concat(), StopReason::ToolCalls)
            }
            31 => (vec![text()], StopReason::MaxTokens),
            _ => (calls(4), StopReason::ToolCalls),
        };
        // What the reply says counts.
        told.1 = world.usage();
        Ok(Completion { parts, stop, usage: told.1, model: "m".into(), meta: vec![] })
    }
}

// ---- tools

const TOOLS: [&str; 8] = ["ok", "fails", "panics", "slow", "never", "sends", "cancels", "finishes"];

/// Returns how likely models are to call the tool: most of what can go wrong takes several agents.
fn weight(tool: &str) -> usize {
    match tool {
        "delegate" => 8,
        "request_input" => 5,
        "ok" | "sends" | "slow" | "handoff" => 2,
        _ => 1,
    }
}

/// The delegations whose questions wait, as the newest results tell of them.
fn waiting(request: &CompletionRequest) -> Vec<String> {
    let results = request.messages.iter().rev().take(8).flat_map(|entry| entry.message.tool_results());
    let entries = results.filter_map(|result| serde_json::from_str::<Vec<Value>>(&result.text()).ok()).flatten();
    let waits = entries.filter(|entry| entry["pending_question"].is_object());
    waits.filter_map(|entry| entry["delegation_id"].as_str().map(str::to_owned)).collect()
}

struct Does(Arc<World>, &'static str, Arc<ToolSpec>);

fn spec(name: &str) -> Arc<ToolSpec> {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    shelly_host::tool::spec::<Nothing>(name, "test").into()
}

#[async_trait]
impl Tool for Does {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.2
    }

    async fn call(&self, _: &ToolCx, _: &ToolCall) -> Result<ToolOutput, Fault> {
        let Self(world, kind, _) = self;
        let _alive = Arc::clone(&world.alive);
        world.called.fetch_add(1, Ordering::Relaxed);
        match *kind {
            "ok" => Ok("fine".into()),
            "fails" => Err(Fault::other("it did not work")),
            "panics" => resume_unwind(Box::new("the tool panics")),
            "slow" => {
                sleep(Duration::from_millis(u64::from(world.draw(64)) * 100)).await;
                Ok("at last".into())
            }
            "never" => {
                sleep(HOUR).await;
                Ok("too late".into())
            }
            "sends" => Ok(world.send().into()),
            "cancels" => {
                if world.draw(3) == 2 {
                    world.cancel();
                }
                Ok("perhaps".into())
            }
            _ => {
                let completed = TaskCompletion {
                    status: CompletionStatus::Completed,
                    summary: "finished".into(),
                    files_modified: vec![],
                    tests_run: vec![],
                    caveats: None,
                };
                Ok(ToolOutput::Control(vec![], RunControl::Complete(completed)))
            }
        }
    }
}

// ---- effects

struct Meddler {
    world: Arc<World>,
    phases: Vec<EffectPhase>,
    powers: Powers,
    on_failure: OnFailure,
}

impl Meddler {
    fn new(world: &Arc<World>) -> Self {
        let both = [EffectPhase::BeforeModel, EffectPhase::AfterModel];
        let phases = match world.draw(3) {
            0 => both.to_vec(),
            n => vec![both[usize::from(n) - 1]],
        };
        let mut powers: Powers = [
            Power::SeeMessages,
            Power::SeeArguments,
            Power::SeeResults,
            Power::Note,
            Power::EditResults,
            Power::Rewrite,
            Power::HideTools,
            Power::AskModel,
            Power::Stop,
        ]
        .into_iter()
        .collect();
        if world.draw(2) == 1 {
            powers.insert(Power::SystemPrompt);
        }
        let on_failure = world.one_of(&[OnFailure::Skip, OnFailure::Stop]);
        Self { world: Arc::clone(world), phases, powers, on_failure }
    }

    fn edit(&self, chat: &ChatSnapshot) -> EffectEdit {
        let world = &self.world;
        match world.draw(12) {
            0 | 1 => EffectEdit::Note("Take care.".into()),
            2 => EffectEdit::Note("".into()),
            3 | 4 => {
                let results = chat.iter().flat_map(|entry| entry.message.tool_results());
                let ids: Vec<_> = results.map(|result| &*result.call_id).chain(["nothing"]).collect();
                let content = vec![ToolResultContent::Text("shorter".into())];
                EffectEdit::ReplaceResult { call_id: world.one_of(&ids).into(), content }
            }
            5..10 => {
                // 99 is none of them, unless there are many.
                let ids: Vec<_> = chat.iter().map(|entry| entry.id).chain([99]).collect();
                let [first, last] = [0; 2].map(|_| world.one_of(&ids));
                EffectEdit::Replace(MessageReplacement { first, last, messages: self.messages() })
            }
            10 => EffectEdit::HideTools(vec!["ok".into(), "delegate".into()]),
            _ => EffectEdit::Unknown("dance".into()),
        }
    }

    /// Returns the messages that the effect puts into the chat: not all of them are valid.
    fn messages(&self) -> Vec<Message> {
        let call = |id: &str| {
            let call = ToolCall { id: id.into(), name: "ok".into(), arguments: "{}".into(), meta: vec![] };
            Message { parts: vec![Part::ToolCall(call)], ..Message::text(Role::Assistant, "", "") }
        };
        let result =
            |id: &str| Message::results(vec![ToolResult { call_id: id.into(), content: vec![], is_error: false }]);
        match self.world.draw(14) {
            0 => vec![Message::user("In short.")],
            1 => vec![],
            2 => vec![Message::text(Role::Assistant, "", "I have seen all of it.")],
            3 => vec![Message::user("In short:"), call("new"), result("new")],
            4 => vec![call("new"), result("new")],
            5 => vec![Message::user("In short:"), call(""), result("")],
            6 => vec![Message::user("In short:"), call("a"), result("a")],
            7 => vec![Message::user("In short:"), call("x"), call("y"), result("x"), result("y")],
            8 => vec![Message::user("In short:"), call("x")],
            9 => vec![Message::user("In short:"), result("x")],
            10 => vec![Message::text(Role::System, "", "Obey.")],
            11 => vec![Message::user("")],
            12 => vec![Message::user("In short:"), Message::text(Role::Tool, "", "a result")],
            _ => vec![Message::user("In short:"), call("x"), result("x"), result("x")],
        }
    }
}

#[async_trait]
impl Effect for Meddler {
    fn name(&self) -> &str {
        "meddler"
    }
    fn phases(&self) -> &[EffectPhase] {
        &self.phases
    }
    fn powers(&self) -> &Powers {
        &self.powers
    }
    fn on_failure(&self) -> OnFailure {
        self.on_failure
    }
    async fn eval(
        &self,
        _: &RunCx,
        moment: &EffectInput,
        chat: &ChatSnapshot,
        _: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        let world = &self.world;
        let _alive = Arc::clone(&world.alive);
        let step = |action| Ok(EffectStep { state, action, wake: None });
        match world.draw(64) {
            0 | 22.. => step(EffectAction::Edits(vec![])),
            1..18 => step(EffectAction::Edits((0..1 + world.draw(3)).map(|_| self.edit(chat)).collect())),
            18 => {
                sleep(Duration::from_secs(1)).await;
                step(EffectAction::Edits(vec![self.edit(chat)]))
            }
            19 => step(EffectAction::Edits(vec![EffectEdit::Stop {
                code: "enough".into(),
                message: "It is enough.".into(),
            }])),
            20 => Err(Fault::other("out of order")),
            21 if moment.iteration > 0 => resume_unwind(Box::new("the effect panics")),
            _ => {
                let mut request = CompletionRequest::new(chat.clone(), [].into());
                request.meta = vec![("asked-by".into(), "meddler".into())];
                if world.draw(2) == 1 || moment.phase == EffectPhase::BeforeModel {
                    let question = vec![Message::user("What was it about?")];
                    request.messages = ChatSnapshot::from_messages(question).unwrap();
                }
                step(EffectAction::AskModel(Box::new(ModelQuery { model: None, request })))
            }
        }
    }
}

// ---- middleware

struct Guard(Arc<World>, Option<Duration>);

#[async_trait]
impl RunMiddleware for Guard {
    fn name(&self) -> &str {
        "guard"
    }

    fn time_limit(&self) -> Option<Duration> {
        self.1
    }

    async fn before(&self, _: &RunCx, _: &[Message]) -> Result<BeforeRunDecision, Fault> {
        let proceed = |input| Ok(BeforeRunDecision::Proceed { input, state: vec![] });
        match self.0.draw(48) {
            8 => proceed(Some(vec![])),
            9 => proceed(Some(vec![Message::user("Gently.")])),
            10 => proceed(Some(vec![Message::user(" ")])),
            11 => proceed(Some(vec![Message::text(Role::Assistant, "", "I begin.")])),
            12 => Ok(BeforeRunDecision::Answer(Message::text(Role::Assistant, "", "Known."))),
            13 => Ok(BeforeRunDecision::Reject(Fault::other("not that"))),
            14 => Err(Fault::other("out of order")),
            15 => resume_unwind(Box::new("the middleware panics")),
            _ => proceed(None),
        }
    }

    async fn after(&self, _: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        let world = &self.0;
        let _alive = Arc::clone(&world.alive);
        Ok(match world.draw(24) {
            5 => AfterRunDecision::Replace(Message::text(Role::Assistant, "", "Polished.")),
            6 => AfterRunDecision::Reject(Fault::other("not good enough")),
            7 => return Err(Fault::other("out of order")),
            8..12 if outcome.attempt < 2 => {
                let feedback = world.one_of(&[None, Some("Again."), Some(" ")]).map(Into::into);
                let delay = Duration::from_secs(world.draw(3).into());
                AfterRunDecision::Retry { feedback, delay, state }
            }
            _ => AfterRunDecision::Accept,
        })
    }
}
