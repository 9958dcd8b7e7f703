//! Agents three levels deep, with tools, effects, middleware and a board. Every reply follows from the conversation, so that
//! an interrupted run can be compared with an undisturbed one.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use shelly_host::{
    agent::{
        AfterRunDecision, Agent, AgentEntry, AgentGroup, AgentRegistry, BeforeRunDecision, Effect, EffectAction,
        EffectEdit, EffectInput, EffectPhase, EffectStep, InteractionMode, ModelQuery, RunAnswer, RunError,
        RunMiddleware, RunOutcome,
        journal::{JournalState, Recorder},
    },
    capability::{Budget, Power, Powers, Price, Usd},
    chat::{Chat, ChatSnapshot, Message, Role, ToolHints, ToolSpec},
    error::Fault,
    event::RunCx,
    model::CompletionRequest,
    state::{Blackboard, TaskBoard, blackboard_tools, task_tools},
    tool,
};

use crate::script::{Asked, Mind, Reply, act, acts, said, text};

/// The side effects of a run: they cannot be undone, and must not happen twice.
pub type Outside = Arc<Mutex<Vec<String>>>;

/// Does it.
pub type Doing = Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

pub struct World {
    pub agent_group: Arc<AgentGroup>,
    pub lead: Agent,
    pub board: TaskBoard,
    pub blackboard: Blackboard,
}

#[derive(Deserialize, JsonSchema)]
struct Say {
    what: String,
}

impl World {
    /// A world that writes down what happens, and goes on from `past`, whose conversation is `chat`.
    pub fn new(recorder: Arc<dyn Recorder>, past: Option<(JournalState, &Chat)>, outside: Outside) -> Self {
        let send = move |what| {
            outside.lock().unwrap().push(what);
            Box::pin(std::future::ready(())) as _
        };
        Self::that_sends(recorder, past, Arc::new(send))
    }

    /// One that sends so.
    pub fn that_sends(recorder: Arc<dyn Recorder>, past: Option<(JournalState, &Chat)>, doing: Doing) -> Self {
        let (board, blackboard) = (TaskBoard::new(), Blackboard::new());
        if let Some((past, _)) = &past {
            board.restore(past.tasks().iter().cloned()).unwrap();
            blackboard.restore(past.blackboards().get("team").cloned().unwrap_or_default()).unwrap();
        }
        let registry = AgentRegistry::new();
        for name in ["mid", "leaf", "deep"] {
            let agent = agent(name, &doing, &board, &blackboard);
            registry.register(AgentEntry::new(name, "helps"), move || agent.clone());
        }
        let agent_group = AgentGroup::new(registry).with_board(board.clone());
        let agent_group = match past {
            None => agent_group.with_recorder(recorder),
            Some((past, chat)) => agent_group.resuming(recorder, past, chat),
        };
        agent_group.add_blackboard("team", &blackboard);
        let agent_group = Arc::new(agent_group);
        let lead = agent("lead", &doing, &board, &blackboard).with_agent_group(Arc::clone(&agent_group), 3);
        Self { agent_group, lead, board, blackboard }
    }

    /// From the beginning.
    pub async fn run(&self, chat: &Chat) -> Result<RunAnswer, RunError> {
        self.lead.run(&RunCx::new("lead"), chat, vec![Message::user("Do it all.")]).await
    }

    /// From where it was interrupted; from the beginning if that was before it began.
    pub async fn go_on(&self, chat: &Chat) -> Result<RunAnswer, RunError> {
        match self.lead.resume(&RunCx::new("lead"), chat, Vec::new()).await {
            Some(outcome) => outcome,
            None => self.run(chat).await,
        }
    }

    /// Returns the observable final state.
    pub fn state(&self, chat: &Chat) -> String {
        let mut state = String::new();
        for entry in chat.snapshot().iter().filter(|entry| entry.message.role != Role::System) {
            state.push_str(&format!("{:?} {}\n", entry.message.role, said(&entry.message)));
        }
        for task in self.board.list(&Default::default()) {
            state.push_str(&format!("{} {} {:?}\n", task.id, task.status.as_str(), task.assignee));
        }
        for (key, entry) in self.blackboard.snapshot() {
            state.push_str(&format!("{key} = {}\n", entry.value));
        }
        state.push_str(&serde_json::to_string(&self.agent_group.ledger()).unwrap());
        state
    }
}

fn agent(name: &str, doing: &Doing, board: &TaskBoard, blackboard: &Blackboard) -> Agent {
    let price = Price { input: usd("1"), output: usd("2"), cache_read: usd("1"), cache_write: usd("1") };
    let model = Arc::new(Mind::new(think).priced(price));
    let does = Arc::clone(doing);
    let send =
        tool::function("send", "Sends something that cannot be taken back.", move |cx: tool::ToolCx, say: Say| {
            let sent = does(format!("{}: {}", cx.run.agent, say.what));
            async move {
                sent.await;
                Ok(format!("sent {}", say.what))
            }
        });
    let look = tool::function("look", "Looks.", |_, say: Say| async move { Ok(format!("saw {}", say.what)) });
    let mut agent = Agent::new(name, "", model)
        .with_tool(send)
        .with_tool(look.with_hints(ToolHints { read_only: true, ..ToolHints::default() }))
        .with_effect(Counts::default())
        .with_budget(Budget { tokens: Some(1_000_000), tool_calls: Some(1_000), ..Budget::default() });
    agent.tools.extend(task_tools(board));
    agent.tools.extend(blackboard_tools(blackboard, "team").unwrap());
    // Who has middleware cannot ask: what it may still take out of a question must not be seen.
    if name != "deep" {
        agent = agent.with_middleware(TwiceIsBetter);
    }
    agent.options.behavioral_hints = false;
    agent.options.max_delegation_depth = 3;
    agent.options.max_handoffs = 2;
    agent.options.interaction = InteractionMode::Auto;
    agent
}

fn usd(text: &str) -> Usd {
    text.parse().unwrap()
}

fn order(agent: &str, task: &str) -> Value {
    json!({"agent": agent, "task": task, "context": "know this"})
}

/// Returns the reply of an agent in its turn: its turns are its replies in the conversation.
fn think(asked: &Asked<'_>) -> Reply {
    let name = asked.agent.split('-').next().unwrap_or_default();
    let mine = |key: &str| format!("{key}-{}", asked.agent);
    match (name, asked.turn) {
        _ if asked.heard == "How is it?" => text("all is well"),
        ("lead", 0) => acts(&[
            ("shared_tasks_create", json!({"title": "first", "description": "do"})),
            ("team_state_set", json!({"key": "plan", "value": {"n": 1}})),
            ("send", json!({"what": "hello"})),
            ("look", json!({"what": "sky"})),
        ]),
        ("lead", 1) => {
            let mut first = order("mid", "first thing");
            first["task_id"] = "task-1".into();
            act("delegate", json!({"tasks": [first, order("mid", "second thing")]}))
        }
        ("lead", 2) => {
            let mut asks = order("deep", "question everything");
            asks["mode"] = "interactive".into();
            act("delegate", json!({"tasks": [asks, order("leaf", "hand something over")]}))
        }
        ("lead", 3) => {
            act("answer_delegation_questions", json!({"answers": [{"delegation_id": "d-3", "answer": "42"}]}))
        }
        ("lead", 4) => act("send", json!({"what": "goodbye"})),
        ("lead", _) => text("All is done."),
        ("mid", 0) => act("delegate", json!({"tasks": [order("leaf", "part one"), order("leaf", "part two")]})),
        ("mid", 1) => act("team_state_set", json!({"key": mine("mid"), "value": "done"})),
        ("mid", _) => act("task_complete", json!({"status": "completed", "summary": "mid is done"})),
        ("leaf", 0) if asked.request.messages.iter().any(|entry| said(&entry.message).contains("hand something")) => {
            act("handoff", json!({"target_agent": "deep", "reason": "it knows better", "context": "all of it"}))
        }
        ("leaf", 0) => act("delegate", json!({"tasks": [order("deep", "the smallest part")]})),
        ("leaf", 1) => acts(&[("send", json!({"what": "one"})), ("send", json!({"what": "two"}))]),
        ("leaf", _) => text("leaf is done"),
        ("deep", 0)
            if asked.request.messages.iter().any(|entry| said(&entry.message).contains("question everything")) =>
        {
            act("request_input", json!({"question": "How much?"}))
        }
        ("deep", 0) => act("shared_tasks_create", json!({"title": mine("made"), "description": "by deep"})),
        ("deep", 1) => act("send", json!({"what": "deep"})),
        ("deep", _) => text("deep is done"),
        _ => Err(Fault::other("nobody")),
    }
}

/// Counts its calls, asks the model once and tells of it, and hides a tool in its second turn.
#[derive(Default)]
struct Counts(());

#[async_trait]
impl Effect for Counts {
    fn name(&self) -> &str {
        "counts"
    }

    fn phases(&self) -> &[EffectPhase] {
        &[EffectPhase::BeforeModel, EffectPhase::AfterModel]
    }

    fn powers(&self) -> &Powers {
        static POWERS: std::sync::LazyLock<Powers> =
            std::sync::LazyLock::new(|| [Power::Note, Power::AskModel, Power::HideTools].into_iter().collect());
        &POWERS
    }

    async fn eval(
        &self,
        _: &RunCx,
        moment: &EffectInput,
        _: &ChatSnapshot,
        _: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        let seen = state.first().copied().unwrap_or(0);
        let step =
            |state: u8, edits| Ok(EffectStep { state: vec![state], action: EffectAction::Edits(edits), wake: None });
        match (seen, &moment.reply) {
            (3, None) => {
                let request = CompletionRequest::new(
                    ChatSnapshot::from_messages(vec![Message::user("How is it?")]).unwrap(),
                    [].into(),
                );
                Ok(EffectStep {
                    state,
                    action: EffectAction::AskModel(Box::new(ModelQuery { model: None, request })),
                    wake: None,
                })
            }
            (3, Some(reply)) => {
                let said =
                    reply.as_ref().map(|reply| reply.clone().into_message("").text_content()).unwrap_or_default();
                step(4, vec![EffectEdit::Note(format!("after {seen} looks: {said}"))])
            }
            (1, _) => step(2, vec![EffectEdit::HideTools(vec!["look".into()])]),
            _ => step(seen + 1, vec![]),
        }
    }
}

/// Wants every first answer once more.
struct TwiceIsBetter;

#[async_trait]
impl RunMiddleware for TwiceIsBetter {
    fn name(&self) -> &str {
        "twice-is-better"
    }

    async fn before(&self, _: &RunCx, input: &[Message]) -> Result<BeforeRunDecision, Fault> {
        let input = input.iter().cloned().chain([Message::note("twice-is-better", "Take care.")]).collect();
        Ok(BeforeRunDecision::Proceed { input: Some(input), state: vec![7] })
    }

    async fn after(&self, _: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        match (state.as_slice(), outcome.attempt) {
            ([7], 0) => Ok(AfterRunDecision::Retry {
                feedback: Some("Once more.".into()),
                delay: Default::default(),
                state: vec![8],
            }),
            ([8], 1) => Ok(AfterRunDecision::Accept),
            other => Err(Fault::other(format!("it remembers {other:?}"))),
        }
    }
}
