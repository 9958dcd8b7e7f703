//! Edge cases of resuming: a second crash soon after the first, agents that ask twice, tasks that fail together, several
//! conversations, and a system prompt that an effect has edited.

use std::{
    fs,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use serde_json::{Value, json};
use shelly_host::{
    agent::{
        AfterRunDecision, Agent, AgentEntry, AgentGroup, AgentRegistry, EffectEdit, EffectFn, EffectPhase,
        InteractionMode, RunMiddleware, RunOutcome,
        journal::{JournalPosition, JournalRecord, JournalState, JournalWriteError, Recorder},
    },
    capability::Power,
    chat::{Chat, Message, MessageReplacement, Role},
    error::Fault,
    event::{Event, EventSink, RunCx},
    session::{DiskStorage, NewSession, SessionOpenOptions, SessionStore, SessionStoreOptions},
    state::{TaskBoard, task_tools},
};

use super::{
    Memory, memory,
    world::{Outside, World},
};
use crate::{
    script::{Asked, Mind, Reply, act, said, text, tool},
    support::Place,
};

struct Small {
    agent_group: Arc<AgentGroup>,
    lead: Agent,
    board: TaskBoard,
}

fn small(recorder: Arc<dyn Recorder>, past: Option<(JournalState, &Chat)>) -> Small {
    let board = TaskBoard::new();
    if let Some((past, _)) = &past {
        board.restore(past.tasks().iter().cloned()).unwrap();
    }
    let agent = |name: &str| {
        let mut agent = Agent::new(name, "", Arc::new(Mind::new(think)));
        agent.tools.extend(task_tools(&board));
        agent.options.interaction = InteractionMode::Interactive;
        agent
    };
    let registry = AgentRegistry::new();
    for name in ["asker", "fails"] {
        let agent = agent(name);
        registry.register(AgentEntry::new(name, "helps"), move || agent.clone());
    }
    let agent_group = AgentGroup::new(registry).with_board(board.clone());
    let agent_group = Arc::new(match past {
        None => agent_group.with_recorder(recorder),
        Some((past, chat)) => agent_group.resuming(recorder, past, chat),
    });
    Small { lead: agent("lead").with_agent_group(Arc::clone(&agent_group), 2), agent_group, board }
}

fn answer(id: &str, answer: &str) -> Reply {
    act("answer_delegation_questions", json!({"answers": [{"delegation_id": id, "answer": answer}]}))
}

fn order(agent: &str) -> Value {
    json!({"agent": agent, "task": "help", "context": "know this"})
}

fn think(asked: &Asked<'_>) -> Reply {
    let name = asked.agent.split('-').next().unwrap_or_default();
    match (name, asked.turn) {
        ("lead", 0) => act("shared_tasks_create", json!({"title": "first", "description": "do"})),
        ("lead", 1) => {
            let mut asks = order("asker");
            asks["task_id"] = "task-1".into();
            act("delegate", json!({"tasks": [asks]}))
        }
        ("lead", 2) => answer("d-1", "one"),
        ("lead", 3) => answer("d-1", "two"),
        ("lead", 4) => act("delegate", json!({"tasks": [order("fails"), order("fails")], "fail_fast": true})),
        ("lead", 5) => answer("d-2", "fail"),
        ("lead", 6) => answer("d-3", "too late"),
        ("lead", _) => text("All is done."),
        ("asker", turn @ (0 | 1)) => act("request_input", json!({"question": format!("Question {turn}?")})),
        ("asker", _) => text("asker is done"),
        ("fails", 0) => act("request_input", json!({"question": "May I fail?"})),
        _ => act("task_complete", json!({"status": "failed", "summary": "it cannot be done"})),
    }
}

impl Small {
    fn state(&self, chat: &Chat) -> String {
        let mut state = String::new();
        for entry in chat.snapshot().iter().filter(|entry| entry.message.role != Role::System) {
            let line = format!("{:?} {}\n", entry.message.role, said(&entry.message));
            // A task that was made is not made again, but who made it may not be told.
            if !line.starts_with("Tool #call_1 ") {
                state.push_str(&line);
            }
        }
        for task in self.board.list(&Default::default()) {
            state.push_str(&format!("{} {} {:?}\n", task.id, task.status.as_str(), task.assignee));
        }
        state + &serde_json::to_string(&self.agent_group.ledger()).unwrap()
    }
}

/// Goes on from these records to the end: what it came to, and all records.
async fn go_on(records: &[(u64, JournalRecord)], at: &str) -> (String, Vec<(u64, JournalRecord)>) {
    let past = JournalState::of(records.iter().cloned()).unwrap_or_else(|error| panic!("{error}: {at}"));
    let (chat, memory) = (past.chat().unwrap(), memory());
    for (run, record) in records {
        memory.write(*run, record);
    }
    let is_over = past.ended().is_some();
    let again = small(memory.clone(), Some((past, &chat)));
    if !is_over {
        let cx = RunCx::new("lead");
        let outcome = match again.lead.resume(&cx, &chat, Vec::new()).await {
            Some(outcome) => outcome,
            None => again.lead.run(&cx, &chat, vec![Message::user("Do it.")]).await,
        };
        outcome.unwrap_or_else(|error| panic!("{}: {at}", error.in_full()));
    }
    (again.state(&chat), memory.records())
}

fn begun(records: &[(u64, JournalRecord)]) -> usize {
    records.iter().filter(|(_, record)| matches!(record, JournalRecord::Began { .. })).count()
}

#[tokio::test(start_paused = true)]
async fn second_crash_during_a_resume_changes_nothing() {
    let (recorder, chat) = (memory(), Chat::recorded());
    let whole = small(recorder.clone(), None);
    whole.lead.run(&RunCx::new("lead"), &chat, vec![Message::user("Do it.")]).await.unwrap();
    let (records, end) = (recorder.records(), whole.state(&chat));
    assert!(end.contains("d-3") && end.contains("stopped: another task"), "{end}");
    assert_eq!(begun(&records), 4);
    for first in 0..=records.len() {
        let at = format!("after record {first} ({:?})", records.get(first.wrapping_sub(1)));
        let (seen, after) = go_on(&records[..first], &at).await;
        assert!(seen == end, "{seen}\n{at}\nnot\n{end}");
        assert_eq!(begun(&after), 4, "{at}");
        for second in first + 1..=after.len().min(first + 6) {
            let at = format!("{at}, then {second} ({:?})", after[second - 1]);
            let (seen, after) = go_on(&after[..second], &at).await;
            assert!(seen == end, "{seen}\n{at}\nnot\n{end}");
            assert_eq!(begun(&after), 4, "{at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn message_sent_at_run_start_is_recorded() {
    let recorder = memory();
    let registry = AgentRegistry::new();
    registry
        .register(AgentEntry::new("other", "helps"), || Agent::new("other", "", Arc::new(Mind::new(|_| text("so")))));
    let agent_group = Arc::new(AgentGroup::new(registry).with_recorder(recorder.clone()));
    // Its tool clashes with the host's, which is told of before anything else of the run.
    let lead = Agent::new("lead", "", Arc::new(Mind::new(|_| text("done"))))
        .with_tool(tool("delegate", |_| async { Ok(String::new()) }))
        .with_agent_group(Arc::clone(&agent_group), 1);
    let (events, _stream) = EventSink::channel();
    let sent = Arc::new(Mutex::new(0));
    events.tap({
        let (agent_group, sent) = (Arc::clone(&agent_group), Arc::clone(&sent));
        Arc::new(move |event| {
            if matches!(event.event, Event::Warning { .. }) {
                agent_group.send("lead", Message::user("By the way.")).unwrap();
                *sent.lock().unwrap() += 1;
            }
        })
    });
    let chat = Chat::recorded();
    lead.run(&RunCx::new("lead").with_events(events), &chat, vec![Message::user("Do it.")]).await.unwrap();
    assert!(*sent.lock().unwrap() > 0);
    let records = recorder.records();
    let past = JournalState::of(records.iter().cloned()).unwrap();
    let has_it = |chat: &Chat| chat.snapshot().iter().any(|entry| said(&entry.message).contains("By the way."));
    assert!(has_it(&chat) && has_it(&past.chat().unwrap()));
    let is_sent = |(_, record): &(u64, JournalRecord)| matches!(record, JournalRecord::Sent { .. });
    assert_eq!(records.iter().filter(|record| is_sent(record)).count(), *sent.lock().unwrap());
}

#[tokio::test(start_paused = true)]
async fn edited_system_prompt_survives_a_resume() {
    let make = |agent_group: AgentGroup| {
        let powers = [Power::Rewrite, Power::SeeMessages, Power::SeeArguments, Power::SeeResults, Power::SystemPrompt];
        let mind = Arc::new(Mind::steps([act("look", json!({})), act("look", json!({})), text("done")]));
        let agent = Agent::new("lead", "You are lead.", mind.clone())
            .with_tool(tool("look", |_| async { Ok("seen".into()) }))
            .with_effect(EffectFn::new("renames", EffectPhase::BeforeModel, powers, |moment, chat| {
                let first = chat.iter().next().unwrap().id;
                let messages = vec![Message::text(Role::System, "renames", "You are somebody else.")];
                let edit = || EffectEdit::Replace(MessageReplacement { first, last: first, messages });
                Ok((moment.iteration == 0).then(edit).into_iter().collect())
            }))
            .with_agent_group(Arc::new(agent_group), 0);
        (agent, mind)
    };
    let (recorder, chat) = (memory(), Chat::recorded());
    let (lead, mind) = make(AgentGroup::default().with_recorder(recorder.clone()));
    lead.run(&RunCx::new("lead"), &chat, vec![Message::user("Do it.")]).await.unwrap();
    let prompts = mind.prompts();
    assert_eq!(prompts.len(), 1);
    let records = recorder.records();
    for cut in 1..records.len() {
        let past = JournalState::of(records[..cut].iter().cloned()).unwrap();
        let chat = past.chat().unwrap();
        let (lead, mind) = make(AgentGroup::default().resuming(memory(), past, &chat));
        lead.resume(&RunCx::new("lead"), &chat, vec![]).await.unwrap().unwrap();
        let seen = mind.prompts();
        assert!(seen.is_empty() || seen == prompts, "after {cut} ({:?}): {seen:?}", records[cut - 1]);
        assert_eq!(chat.snapshot().system_prompt(), Some(prompts[0].clone()), "after {cut}");
    }
}

fn texts(chat: &Chat) -> Vec<String> {
    let spoken = |role| role != Role::System;
    chat.snapshot().iter().filter(|entry| spoken(entry.message.role)).map(|entry| said(&entry.message)).collect()
}

fn talker(recorder: &Arc<Memory>) -> Agent {
    let agent_group = Arc::new(AgentGroup::default().with_recorder(recorder.clone()));
    Agent::new("lead", "", Arc::new(Mind::new(|asked| text(&format!("heard {}", asked.heard)))))
        .with_agent_group(agent_group, 0)
}

#[tokio::test(start_paused = true)]
async fn journal_records_the_whole_chat_of_any_origin() {
    // One that nobody recorded, one between whose runs another conversation came, and one with an edit.
    let (one, other) = (Chat::new(), Chat::recorded());
    let recorder = memory();
    let lead = talker(&recorder);
    for (chat, says) in [(&one, "a"), (&other, "b"), (&one, "c"), (&other, "d")] {
        lead.run(&RunCx::new("lead"), chat, vec![Message::user(says)]).await.unwrap();
        let past = JournalState::of(recorder.records()).unwrap();
        assert_eq!(texts(&past.chat().unwrap()), texts(chat), "{says}");
        let second = chat.snapshot().iter().nth(1).unwrap().id;
        let messages = vec![Message::user(format!("instead of {says}"))];
        chat.replace(MessageReplacement { first: second, last: second, messages }).unwrap();
    }
    assert_eq!(texts(&other).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn first_record_holds_the_chat_before_the_run() {
    let recorder = memory();
    let (lead, chat) = (talker(&recorder), Chat::recorded());
    lead.run(&RunCx::new("lead"), &chat, vec![Message::user("a")]).await.unwrap();
    chat.append(Message::user("between")).unwrap();
    let before = texts(&chat);
    lead.run(&RunCx::new("lead"), &chat, vec![Message::user("b")]).await.unwrap();
    let records = recorder.records();
    let second = records.iter().rposition(|(_, record)| matches!(record, JournalRecord::Began { .. })).unwrap();
    let past = JournalState::of(records[..=second].iter().cloned()).unwrap();
    assert_eq!(texts(&past.chat().unwrap()), before);
}

#[tokio::test(start_paused = true)]
async fn interrupted_call_is_reported_even_if_its_tool_is_gone() {
    let steps = || Mind::steps([act("send", json!({})), text("done")]);
    let (recorder, chat) = (memory(), Chat::recorded());
    let lead = Agent::new("lead", "", Arc::new(steps()))
        .with_tool(tool("send", |_| async { Ok("sent".into()) }))
        .with_agent_group(Arc::new(AgentGroup::default().with_recorder(recorder.clone())), 0);
    lead.run(&RunCx::new("lead"), &chat, vec![Message::user("Do it.")]).await.unwrap();
    let records = recorder.records();
    let began = records.iter().position(|(_, record)| matches!(record, JournalRecord::CallBegan { .. })).unwrap();
    let past = JournalState::of(records[..=began].iter().cloned()).unwrap();
    let chat = past.chat().unwrap();
    let agent_group = Arc::new(AgentGroup::default().resuming(memory(), past, &chat));
    let lead = Agent::new("lead", "", Arc::new(steps())).with_agent_group(agent_group, 0);
    lead.resume(&RunCx::new("lead"), &chat, vec![]).await.unwrap().unwrap();
    let said = texts(&chat).join("\n");
    assert!(said.contains("The host was interrupted during this call"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn new_run_in_an_interrupted_chat_prevents_a_resume() {
    let (recorder, chat) = (memory(), Chat::recorded());
    talker(&recorder).run(&RunCx::new("lead"), &chat, vec![Message::user("a")]).await.unwrap();
    let records = recorder.records();
    let past = JournalState::of(records[..2].iter().cloned()).unwrap();
    let (chat, again) = (past.chat().unwrap(), memory());
    let agent_group = Arc::new(AgentGroup::default().resuming(again.clone(), past, &chat));
    let lead = Agent::new("lead", "", Arc::new(Mind::new(|_| text("so")))).with_agent_group(agent_group, 0);
    lead.run(&RunCx::new("lead"), &chat, vec![Message::user("b")]).await.unwrap();
    assert!(lead.resume(&RunCx::new("lead"), &chat, vec![]).await.is_none());
}

/// Tells when so many records were written.
#[derive(Debug)]
struct Telling {
    memory: Arc<Memory>,
    written: tokio::sync::watch::Sender<usize>,
}

impl Recorder for Telling {
    fn write(&self, run: u64, record: &JournalRecord) -> JournalPosition {
        self.written.send_modify(|written| *written += 1);
        self.memory.write(run, record)
    }

    fn kept(&self, mark: JournalPosition) -> Pin<Box<dyn Future<Output = Result<(), JournalWriteError>> + Send + '_>> {
        self.memory.kept(mark)
    }

    fn lost(&self) -> Option<JournalWriteError> {
        None
    }
}

#[test]
fn dropped_run_leaves_a_resumable_journal() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    for drop_at in (1..160).step_by(3) {
        runtime.block_on(async {
            let recorder = Arc::new(Telling { memory: memory(), written: Default::default() });
            let mut written = recorder.written.subscribe();
            let (world, chat) = (World::new(recorder.clone(), None, Outside::default()), Chat::recorded());
            tokio::select! {
                biased;
                _ = written.wait_for(|written| *written >= drop_at) => {}
                _ = world.run(&chat) => {}
            }
            let cx = RunCx::new("lead");
            // Whatever comes of it: what was claimed by those that are gone may have failed.
            let outcome = world.lead.run(&cx, &chat, vec![Message::user("Do it all.")]).await;
            let records = recorder.memory.records();
            for cut in 0..=records.len() {
                let at =
                    || format!("dropped at {drop_at}, after record {cut} ({:?})", records.get(cut.wrapping_sub(1)));
                let past = JournalState::of(records[..cut].iter().cloned())
                    .unwrap_or_else(|error| panic!("{error}: {}", at()));
                let restored = past.chat().unwrap_or_else(|error| panic!("{error}: {}", at()));
                if cut == records.len() && outcome.is_ok() {
                    assert_eq!(texts(&restored), texts(&chat), "{}", at());
                }
            }
        });
    }
}

/// Accepts the second attempt, and tells what it was told of the use of tokens.
struct Tells(Arc<Mutex<Vec<u64>>>);

#[async_trait]
impl RunMiddleware for Tells {
    fn name(&self) -> &str {
        "tells"
    }

    async fn after(&self, _: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        self.0.lock().unwrap().push(outcome.usage.total());
        match outcome.attempt {
            0 => Ok(AfterRunDecision::Retry { feedback: None, delay: Default::default(), state }),
            _ => Ok(AfterRunDecision::Accept),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_middleware_sees_the_usage_of_the_whole_attempt() {
    let make = |agent_group: AgentGroup, told: &Arc<Mutex<Vec<u64>>>| {
        let steps = [act("look", json!({})), act("look", json!({})), text("one"), act("look", json!({})), text("two")];
        Agent::new("lead", "", Arc::new(Mind::steps(steps)))
            .with_tool(tool("look", |_| async { Ok("seen".into()) }))
            .with_middleware(Tells(Arc::clone(told)))
            .with_agent_group(Arc::new(agent_group), 0)
    };
    let (recorder, chat, told) = (memory(), Chat::recorded(), Arc::default());
    let lead = make(AgentGroup::default().with_recorder(recorder.clone()), &told);
    lead.run(&RunCx::new("lead"), &chat, vec![Message::user("Do it.")]).await.unwrap();
    let whole = told.lock().unwrap().clone();
    assert!(whole.len() == 2 && whole[0] > whole[1] && whole[1] > 0, "{whole:?}");
    let records = recorder.records();
    for cut in 1..records.len() {
        let past = JournalState::of(records[..cut].iter().cloned()).unwrap();
        let (chat, told) = (past.chat().unwrap(), Arc::default());
        let lead = make(AgentGroup::default().resuming(memory(), past, &chat), &told);
        lead.resume(&RunCx::new("lead"), &chat, vec![]).await.unwrap().unwrap();
        let told = told.lock().unwrap().clone();
        assert!(whole.ends_with(&told) && !told.is_empty(), "{told:?} after {cut} ({:?})", records[cut - 1]);
    }
}

#[cfg(unix)]
#[test]
fn session_store_does_not_write_through_links() {
    let place = Place::new();
    let (folder, elsewhere) = (place.path().join("sessions"), place.path().join("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    let store = SessionStore::new(Arc::new(DiskStorage), &folder, SessionStoreOptions::default());
    drop(store.create(NewSession { id: Some("s".into()), ..NewSession::default() }).unwrap());
    let attachments = folder.join("s/attachments");
    fs::remove_dir(&attachments).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &attachments).unwrap();
    if let Ok(opened) = store.open("s", SessionOpenOptions::default()) {
        opened.session.write(1, &JournalRecord::Sent { message: Message::user("x".repeat(1 << 20)) });
        drop(opened);
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    // One that is missing, since nothing was in it, is made.
    fs::remove_file(&attachments).unwrap();
    let opened = store.open("s", SessionOpenOptions::default()).unwrap();
    opened.session.write(1, &JournalRecord::Sent { message: Message::user("x".repeat(1 << 20)) });
    drop(opened);
    assert_eq!(fs::read_dir(&attachments).unwrap().count(), 1);
}
