//! The paths inside a process.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use shelly_host::{
    agent::{AgentGroup, AgentRegistry, Effect},
    chat::{Chat, ToolCall, ToolHints},
    event::{EventSink, RunCx},
    plugin::{Plugin, PluginEngine, PluginPackage, PluginSettings, PluginTool},
    session::{DiskStorage, NewSession, SessionStore, SessionStoreOptions},
    tool::{self, ToolBox, ToolCx},
};
use tokio::runtime::Runtime;

use crate::{
    PATH,
    acting::{self, plugin},
    counts::Costs,
    delegation, programs,
    stage::{self, Says},
};

/// A path whose rounds are counted.
pub struct Route {
    pub name: &'static str,
    pub about: &'static str,
    kind: Kind,
    /// The number of rounds; the other measurement has twice as many.
    rounds: u32,
}

#[derive(Clone, Copy)]
enum Kind {
    ToolCall,
    EffectStep,
    Iteration,
    RecordedIteration,
    Delegation,
}

pub const PATHS: [Route; 5] = [
    Route { name: "tool_call", about: "a call of a sandboxed tool", kind: Kind::ToolCall, rounds: 500 },
    Route { name: "effect_step", about: "a step of a sandboxed effect", kind: Kind::EffectStep, rounds: 500 },
    Route { name: "iteration", about: "an iteration of an agent", kind: Kind::Iteration, rounds: 500 },
    Route { name: "recorded_iteration", about: "the same with a session", kind: Kind::RecordedIteration, rounds: 100 },
    Route { name: "delegation", about: "a task that is delegated", kind: Kind::Delegation, rounds: 100 },
];

/// Returns the cost of one round of a path.
pub fn costs(path: &Route, folder: &Path) -> Result<Costs, Box<dyn Error>> {
    let command = |rounds: u32| -> Result<Command, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([PATH, path.name, &rounds.to_string()]).arg(folder);
        Ok(command)
    };
    // How much a session writes at once depends on how long the disk takes.
    let is_alone = !matches!(path.kind, Kind::RecordedIteration);
    // Components are compiled now and not while something is counted: under valgrind once more, because it shows another
    // processor.
    go(path, 1, folder)?;
    if is_alone {
        programs::instructions(&command(1)?)?;
    }
    let measure = |rounds: u32| -> Result<Costs, Box<dyn Error>> {
        let mut command = command(rounds)?;
        let output = programs::output(&mut command)?;
        let allocations = String::from_utf8(output.stdout)?.trim().parse()?;
        let bytes_on_disk = size_of(&sessions(folder))?;
        let calls = programs::system_calls(&command, folder)?;
        let instructions = if is_alone { programs::instructions(&command)? } else { None };
        Ok(Costs {
            instructions,
            allocations: is_alone.then_some(allocations),
            system_calls: calls.map(|(all, _)| all).filter(|_| is_alone),
            syncs: calls.map(|(_, syncs)| syncs),
            bytes_on_disk: Some(bytes_on_disk as f64),
        })
    };
    Ok(Costs::per_round(measure(path.rounds)?, measure(path.rounds * 2)?, path.rounds))
}

/// Goes a path so often, in this process.
pub fn go(path: &Route, rounds: u32, folder: &Path) -> Result<(), Box<dyn Error>> {
    let _ = fs::remove_dir_all(sessions(folder));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match path.kind {
        Kind::ToolCall => runtime.block_on(tool_calls(rounds, folder)),
        Kind::EffectStep => runtime.block_on(effect_steps(rounds, folder)),
        Kind::Iteration => runtime.block_on(iterations(rounds, None)),
        Kind::RecordedIteration => runtime.block_on(iterations(rounds, Some(folder))),
        Kind::Delegation => {
            delegations(&runtime, rounds);
            Ok(())
        }
    }
}

fn engine(folder: &Path) -> Result<Arc<PluginEngine>, Box<dyn Error>> {
    Ok(Arc::new(PluginEngine::new(Some(folder.join("cache")))?))
}

async fn tool_calls(rounds: u32, folder: &Path) -> Result<(), Box<dyn Error>> {
    let engine = engine(folder)?;
    let package = Path::new(plugin::COUNT_TEXT).parent().ok_or("a plugin has a folder")?;
    let package = Arc::new(PluginPackage::read(package)?);
    let plugin = Arc::new(Plugin::load(&engine, &package, &PluginSettings::new("gate", "gate")).await?);
    let mut toolbox = ToolBox::new();
    for tool in PluginTool::all(&plugin) {
        toolbox.register(tool)?;
    }
    let arguments = format!(r#"{{"text":"{}"}}"#, "word ".repeat(48).trim_end());
    let call = ToolCall { id: "call-1".into(), name: "count_text".into(), arguments, meta: vec![] };
    let run = RunCx::new("gate").with_events(EventSink::none());
    let cx = ToolCx::new(run);
    for _ in 0..rounds {
        let result = toolbox.dispatch(&cx, &call).await.result;
        assert!(!result.is_error, "{result:?}");
    }
    Ok(())
}

async fn effect_steps(rounds: u32, folder: &Path) -> Result<(), Box<dyn Error>> {
    let engine = engine(folder)?;
    let (component, params) = &acting::effects()[0];
    let effect = acting::load(&engine, component, params).await?;
    let chat = acting::chat_of(100).snapshot();
    let (cx, moment, tools) = (RunCx::new("gate"), acting::moment(&chat), [].into());
    for _ in 0..rounds {
        effect.eval(&cx, &moment, &chat, &tools, Vec::new()).await?;
    }
    Ok(())
}

/// An agent that calls a tool of this process in each iteration. With a session, the tool cannot be called twice, so each
/// call waits until it is on the disk that it is about to be made.
async fn iterations(rounds: u32, folder: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let calls = rounds as usize;
    let model = stage::Model::completer(Duration::ZERO, move |request| match request.messages.len() / 2 > calls {
        true => Says::Answer("It stands there four times."),
        false => Says::Call("look", r#"{"where":"in the documentation"}"#.into()),
    });
    let look = tool::function("look", "Looks something up.", |_: ToolCx, _: Value| async { Ok("there".to_owned()) });
    let look = look.with_hints(ToolHints { read_only: folder.is_none(), ..ToolHints::default() });
    let mut agent = shelly_host::agent::Agent::new("worker", "Report what you found.", model).with_tool(look);
    agent.options.max_iterations = rounds + 1;
    let session = match folder {
        Some(folder) => {
            let store = SessionStore::new(Arc::new(DiskStorage), sessions(folder), SessionStoreOptions::default());
            Some(Arc::new(store.create(NewSession::default())?))
        }
        None => None,
    };
    let (agent_group, chat) = match &session {
        Some(session) => (AgentGroup::new(AgentRegistry::new()).with_recorder(session.clone()), Chat::recorded()),
        None => (AgentGroup::new(AgentRegistry::new()), Chat::new()),
    };
    agent.with_agent_group(Arc::new(agent_group), 1).run(&RunCx::new("worker"), &chat, stage::task()).await?;
    if let Some(session) = session {
        session.close().await?;
    }
    Ok(())
}

/// Ten tasks in each call of `delegate`.
fn delegations(runtime: &Runtime, rounds: u32) {
    let agent_group = delegation::agent_group(10, "answer", Duration::ZERO);
    for _ in 0..rounds.div_ceil(10) {
        runtime.block_on(delegation::delegate(&agent_group, 10));
    }
}

fn sessions(folder: &Path) -> PathBuf {
    folder.join("sessions")
}

/// The bytes of all files below a folder; none if there is no such folder.
fn size_of(folder: &Path) -> Result<u64, Box<dyn Error>> {
    let mut size = 0;
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry?;
        size += if entry.file_type()?.is_dir() { size_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(size)
}
