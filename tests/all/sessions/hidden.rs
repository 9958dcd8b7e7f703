//! Tools that an effect hides: they stay hidden when they are added later, be it during a run, between runs, or after the
//! config has changed.

use std::sync::{
    Arc, LazyLock, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use async_trait::async_trait;
use serde_json::json;
use shelly_host::{
    agent::{
        Agent, AgentGroup, Effect, EffectAction, EffectEdit, EffectInput, EffectPhase, EffectStep, Wake,
        journal::{JournalRecord, JournalState},
    },
    capability::{Power, Powers},
    chat::{Chat, ChatSnapshot, Message, ToolSpec},
    error::{Fault, OnFailure},
    event::RunCx,
    tool::{ToolBox, ToolSource},
};

use super::{Memory, memory};
use crate::script::{Mind, act, acts, text, tool};

/// Hides the tools whose names begin with a text, and sleeps for the rest of the run. It fails in as many of its calls as it
/// is told to.
struct Excludes {
    prefix: &'static str,
    failures: Mutex<Vec<bool>>,
    looks: Arc<AtomicUsize>,
}

impl Excludes {
    fn new(prefix: &'static str) -> Self {
        Self { prefix, failures: Mutex::default(), looks: Arc::default() }
    }
}

#[async_trait]
impl Effect for Excludes {
    fn name(&self) -> &str {
        "excludes"
    }

    fn phases(&self) -> &[EffectPhase] {
        &[EffectPhase::BeforeModel]
    }

    fn powers(&self) -> &Powers {
        static POWERS: LazyLock<Powers> = LazyLock::new(|| [Power::HideTools].into_iter().collect());
        &POWERS
    }

    fn setup(&self) -> Option<&str> {
        Some(self.prefix)
    }

    fn on_failure(&self) -> OnFailure {
        OnFailure::Skip
    }

    async fn eval(
        &self,
        _: &RunCx,
        _: &EffectInput,
        _: &ChatSnapshot,
        tools: &Arc<[Arc<ToolSpec>]>,
        state: Vec<u8>,
    ) -> Result<EffectStep, Fault> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        if self.failures.lock().unwrap().pop() == Some(true) {
            return Err(Fault::other("it is ill"));
        }
        let names = tools.iter().map(|tool| tool.name.clone()).filter(|name| name.starts_with(self.prefix));
        Ok(EffectStep {
            state,
            action: EffectAction::Edits(vec![EffectEdit::HideTools(names.collect())]),
            wake: Some(Wake::default()),
        })
    }
}

/// Tools that come while an agent works, or while nothing does.
struct Server {
    has_grown: Arc<AtomicUsize>,
    small: ToolBox,
    grown: ToolBox,
    /// Calls of the tool that is to stay hidden.
    writes: Arc<AtomicUsize>,
}

impl Server {
    fn new() -> Arc<Self> {
        let (has_grown, writes) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (grows, written) = (Arc::clone(&has_grown), Arc::clone(&writes));
        let small = ToolBox::new()
            .with(tool("grow", move |_| {
                grows.store(1, Ordering::Relaxed);
                async { Ok("grown".into()) }
            }))
            .with(tool("fs_read", |_| async { Ok("read".into()) }));
        let grown =
            small.clone().with(tool("more", |_| async { Ok("more".into()) })).with(tool("fs_write", move |_| {
                written.fetch_add(1, Ordering::Relaxed);
                async { Ok("wrote".into()) }
            }));
        Arc::new(Self { has_grown, small, grown, writes })
    }
}

impl ToolSource for Server {
    fn tools(&self) -> ToolBox {
        match self.has_grown.load(Ordering::Relaxed) {
            0 => self.small.clone(),
            _ => self.grown.clone(),
        }
    }
}

/// Tries the hidden tools in every turn.
fn stubborn() -> Arc<Mind> {
    let tries = || acts(&[("fs_write", json!({})), ("fs_read", json!({})), ("more", json!({}))]);
    Arc::new(Mind::steps([tries(), act("grow", json!({})), tries(), tries(), text("done")]))
}

fn agent(mind: &Arc<Mind>, server: &Arc<Server>, effects: Vec<Excludes>, agent_group: AgentGroup) -> Agent {
    let agent =
        Agent::new("lead", "", mind.clone()).with_source(server.clone()).with_agent_group(Arc::new(agent_group), 0);
    effects.into_iter().fold(agent, |agent, effect| agent.with_effect(effect))
}

/// The tools that the model was shown in each turn.
fn shown(mind: &Mind) -> Vec<Vec<String>> {
    let asked = mind.asked();
    asked.iter().map(|(_, request)| request.tools.iter().map(|tool| tool.name.clone()).collect()).collect()
}

fn results(chat: &Chat) -> Vec<String> {
    let results = |message: &Message| message.tool_results().map(|result| result.text()).collect::<Vec<_>>();
    chat.snapshot().iter().flat_map(|entry| results(&entry.message)).collect()
}

async fn run(agent: &Agent, chat: &Chat) {
    agent.run(&RunCx::new("lead"), chat, vec![Message::user("Do it.")]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn tool_added_later_is_hidden_from_its_first_turn() {
    let (mind, server, chat) = (stubborn(), Server::new(), Chat::new());
    let effect = Excludes::new("fs_");
    let looks = Arc::clone(&effect.looks);
    run(&agent(&mind, &server, vec![effect], AgentGroup::default()), &chat).await;
    assert_eq!(
        shown(&mind),
        [vec!["grow"], vec!["grow"], vec!["grow", "more"], vec!["grow", "more"], vec!["grow", "more"]]
    );
    assert_eq!(server.writes.load(Ordering::Relaxed), 0);
    assert_eq!(looks.load(Ordering::Relaxed), 2, "it sleeps where no tool has come");
    assert_eq!(results(&chat).iter().filter(|result| *result == "more").count(), 2);
}

#[tokio::test(start_paused = true)]
async fn tool_stays_hidden_until_a_failing_effect_has_looked() {
    // Its calls in reverse: it looks, fails twice when the tools have come, and looks.
    let (mind, server, chat) = (stubborn(), Server::new(), Chat::new());
    let effect = Excludes::new("fs_");
    *effect.failures.lock().unwrap() = vec![false, true, true, false];
    run(&agent(&mind, &server, vec![effect], AgentGroup::default()), &chat).await;
    assert_eq!(shown(&mind), [vec!["grow"], vec!["grow"], vec!["grow"], vec!["grow"], vec!["grow", "more"]]);
    assert_eq!(server.writes.load(Ordering::Relaxed), 0);
}

/// Goes on from these records with this effect, where the tools have come in between.
async fn go_on(records: &[(u64, JournalRecord)], effect: Excludes) -> (Arc<Mind>, Arc<Server>, Arc<Memory>, usize) {
    let past = JournalState::of(records.iter().cloned()).unwrap();
    let (chat, recorder, mind, server) = (past.chat().unwrap(), memory(), stubborn(), Server::new());
    server.has_grown.store(1, Ordering::Relaxed);
    for (run, record) in records {
        shelly_host::agent::journal::Recorder::write(&*recorder, *run, record);
    }
    let looks = Arc::clone(&effect.looks);
    let agent = agent(&mind, &server, vec![effect], AgentGroup::default().resuming(recorder.clone(), past, &chat));
    agent.resume(&RunCx::new("lead"), &chat, Vec::new()).await.unwrap().unwrap();
    (mind, server, recorder, looks.load(Ordering::Relaxed))
}

async fn recorded(effects: Vec<Excludes>) -> Vec<(u64, JournalRecord)> {
    let (mind, server, recorder, chat) = (stubborn(), Server::new(), memory(), Chat::recorded());
    run(&agent(&mind, &server, effects, AgentGroup::default().with_recorder(recorder.clone())), &chat).await;
    recorder.records()
}

#[tokio::test(start_paused = true)]
async fn tools_added_between_runs_stay_hidden() {
    for effects in [vec![Excludes::new("fs_")], vec![Excludes::new("other")], vec![]] {
        let had = effects.iter().map(|effect| effect.prefix).collect::<Vec<_>>();
        let records = recorded(effects).await;
        for cut in 1..records.len() - 1 {
            let at = format!("{had:?}, after record {cut} ({:?})", records[cut - 1]);
            let (mind, server, recorder, looks) = go_on(&records[..cut], Excludes::new("fs_")).await;
            for tools in shown(&mind) {
                assert_eq!(tools, ["grow", "more"], "{at}");
            }
            assert_eq!(server.writes.load(Ordering::Relaxed), 0, "{at}");
            assert!(looks <= 1, "{at}: it looked {looks} times");
            // And after another interruption.
            let again = recorder.records();
            let (mind, server, ..) = go_on(&again[..(cut + 1).min(again.len() - 1)], Excludes::new("fs_")).await;
            assert!(shown(&mind).iter().all(|tools| tools == &["grow", "more"]), "{at}, once more");
            assert_eq!(server.writes.load(Ordering::Relaxed), 0, "{at}, once more");
        }
    }
}
