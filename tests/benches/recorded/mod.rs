//! Agents with a session: the cost of an iteration that is recorded, and the time to resume a long session.

use std::{
    error::Error,
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use shelly_host::{
    agent::{
        Agent, AgentGroup, AgentRegistry,
        journal::{JournalState, Recorder},
    },
    chat::{Chat, ToolHints},
    event::RunCx,
    model::Completer,
    session::{DiskStorage, NewSession, OpenedSession, SessionOpenOptions, SessionStore, SessionStoreOptions},
    tool::{self, ToolCx},
};

use crate::{
    disk::{CountedDisk, Death},
    stage::{self, Says},
};

/// Calls that each agent makes, one a turn.
const CALLS: usize = 100;

/// Rounds of each kind of run; the median counts.
const ROUNDS: usize = 7;

/// The kind of run: whether it is recorded, and whether the tool can be called twice. If it cannot, each call waits until
/// the record that announces it is on the disk.
#[derive(Debug, Clone, Copy)]
struct Way {
    recorded: bool,
    repeatable: bool,
}

/// The cost of an iteration, the median of the rounds.
struct Cost {
    wall: Duration,
    cpu: Duration,
    syncs: f64,
    bytes: u64,
}

/// Agents that call a tool of this process, alone and a hundred at once in one session.
pub async fn iterations(folder: &Path, smoke: bool) -> Result<(), Box<dyn Error>> {
    let title = "one iteration, a request and a tool call";
    println!("\n{title:54} {:>9} {:>9} {:>6} {:>6}", "wall", "CPU", "syncs", "bytes");
    for agents in [1, 100] {
        for (name, recorded, repeatable) in [
            ("not written down", false, true),
            ("written down, the tool can be repeated", true, true),
            ("written down, the tool cannot be repeated", true, false),
        ] {
            let (calls, rounds) = if smoke { (2, 1) } else { (CALLS, ROUNDS) };
            let mut costs = Vec::new();
            for _ in 0..rounds {
                costs.push(round(folder, agents, calls, Way { recorded, repeatable }).await?);
            }
            costs.sort_by_key(|cost| cost.wall);
            let Cost { wall, cpu, syncs, bytes } = &costs[costs.len() / 2];
            let (wall, cpu) = (format!("{wall:.1?}"), format!("{cpu:.1?}"));
            println!("{agents:3} at once, {name:41} {wall:>9} {cpu:>9} {syncs:6.2} {bytes:6}");
        }
    }
    Ok(())
}

/// So many agents that make so many calls each, in a session of their own; the cost of one iteration.
async fn round(folder: &Path, agents: usize, calls: usize, way: Way) -> Result<Cost, Box<dyn Error>> {
    let disk = CountedDisk::new(Death::never());
    let store = SessionStore::new(Arc::new(disk.clone()), folder.join("iterations"), SessionStoreOptions::default());
    let session = match way.recorded {
        true => Some(Arc::new(store.create(NewSession::default())?)),
        false => None,
    };
    let agent_group = AgentGroup::new(AgentRegistry::new());
    let agent_group = match &session {
        Some(session) => agent_group.with_recorder(session.clone()),
        None => agent_group,
    };
    let agent = worker(calls, "hello, how are you today?", way.repeatable).with_agent_group(Arc::new(agent_group), 1);
    let (before, start, cpu) = (disk.syncs(), Instant::now(), stage::cpu());
    let runs: Vec<_> = (0..agents)
        .map(|_| {
            let (agent, chat) = (agent.clone(), if way.recorded { Chat::recorded() } else { Chat::new() });
            tokio::spawn(async move { agent.run(&RunCx::new("worker"), &chat, stage::task()).await })
        })
        .collect();
    for run in runs {
        let answer = run.await??;
        assert_eq!(answer.iterations as usize, calls + 1);
    }
    let (wall, cpu, syncs) = (start.elapsed(), stage::cpu() - cpu, disk.syncs() - before);
    let mut bytes = 0;
    if let Some(session) = session {
        session.close().await?;
        bytes = fs::metadata(session.folder().join("journal.jsonl"))?.len();
        let id = session.id().to_owned();
        drop((agent, session));
        store.remove(&id)?;
    }
    let count = (agents * calls) as u32;
    Ok(Cost {
        wall: wall / count,
        cpu: cpu / count,
        syncs: syncs as f64 / f64::from(count),
        bytes: bytes / u64::from(count),
    })
}

/// An agent that calls its tool so often and then answers.
fn worker(calls: usize, says: &'static str, repeatable: bool) -> Agent {
    let hints = ToolHints { read_only: repeatable, ..ToolHints::default() };
    let look = tool::function("look", "Looks something up.", move |_: ToolCx, _: serde_json::Value| async move {
        Ok(says.to_owned())
    });
    let mut agent = Agent::new("worker", "Report what you found.", model(calls)).with_tool(look.with_hints(hints));
    agent.options.max_iterations = 10_000;
    agent
}

fn model(calls: usize) -> Arc<dyn Completer> {
    stage::Model::completer(Duration::ZERO, move |request| {
        // The prompt and the task, then a call and its result each.
        match request.messages.len() / 2 > calls {
            true => Says::Answer("It stands there four times."),
            false => Says::Call("look", r#"{"where":"in the documentation"}"#.into()),
        }
    })
}

/// Opens a session of a run of so many messages, and makes of it what a run goes on from.
pub async fn gone_on_with(folder: &Path, messages: usize) -> Result<(), Box<dyn Error>> {
    let title = format!("a session of {messages} messages");
    println!("\n{title:30} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8}", "disk", "of text", "read", "fold", "restore", "all");
    for size in [25, 1_000] {
        let store = SessionStore::new(Arc::new(DiskStorage), folder.join("long"), SessionStoreOptions::default());
        let session = Arc::new(store.create(NewSession { id: Some(format!("s{size}")), ..NewSession::default() })?);
        let agent_group = AgentGroup::new(AgentRegistry::new()).with_recorder(session.clone());
        let text: &'static str = "It is so. ".repeat(size / 10 + 1)[..size].to_owned().leak();
        let agent = worker(messages / 2 - 1, text, true).with_agent_group(Arc::new(agent_group), 1);
        let chat = Chat::recorded();
        agent.run(&RunCx::new("worker"), &chat, stage::task()).await?;
        session.close().await?;
        let said: usize = chat.snapshot().iter().map(|entry| entry.message.bytes()).sum();
        let (id, path) = (session.id().to_owned(), session.folder().join("journal.jsonl"));
        drop((agent, session));
        let disk = fs::metadata(path)?.len() as usize;

        let start = Instant::now();
        let OpenedSession { session, records, .. } = store.open(&id, SessionOpenOptions::default())?;
        let read = start.elapsed();
        let past = JournalState::of(records)?;
        let fold = start.elapsed() - read;
        let chat = past.chat()?;
        let restore = start.elapsed() - read - fold;
        let session: Arc<dyn Recorder> = Arc::new(session);
        std::hint::black_box(AgentGroup::new(AgentRegistry::new()).resuming(session, past, &chat));
        let all = start.elapsed();
        let [read, fold, restore, all] = [read, fold, restore, all].map(|time| format!("{time:.1?}"));
        let (megabytes, share) = (disk as f64 / 1e6, disk as f64 / said as f64);
        println!(
            "{:30} {megabytes:6.2} MB {share:7.2}× {read:>8} {fold:>8} {restore:>8} {all:>8}",
            format!("results of {size} bytes")
        );
        assert!(chat.snapshot().len() >= messages, "{}", chat.snapshot().len());
    }
    Ok(())
}
