//! Plugins that attack the host, each run for real. Whatever one does, the run goes on, the next call of the same plugin
//! works, and so does every other plugin.

mod around;
mod cache;
mod call;
mod chance;
mod compile;
mod files;
mod grants;
pub mod guest;
mod killed;
mod kv;
mod limits;
mod load;
mod memory;
mod names;
mod powers;
mod recovery;
mod steps;
mod structure;
mod terminal;
mod twins;
mod versions;
mod wasi;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use guest::Guest;
use shelly_host::{
    agent::{Agent, RunAnswer, RunError},
    capability::Grant,
    chat::{Chat, Message, ToolCall, ToolResult},
    event::{Event, EventSink, EventStream, RunCx},
    model::{Completion, ScriptedCompleter},
    plugin::{
        FolderMount, Limits, Plugin, PluginEngine, PluginError, PluginPackage, PluginSettings, PluginTool, resolved,
    },
    tool::{ToolBox, ToolCx},
};

use crate::support::Place;

/// An engine, and the limits of the plugins that are loaded into it.
struct House {
    engine: Arc<PluginEngine>,
    limits: Limits,
}

impl House {
    fn new(limits: Limits) -> Self {
        Self { engine: Arc::new(PluginEngine::new(None).unwrap()), limits }
    }
}

impl std::ops::Deref for House {
    type Target = Arc<PluginEngine>;

    fn deref(&self) -> &Arc<PluginEngine> {
        &self.engine
    }
}

/// Returns an engine with the default limits of the host.
fn engine() -> &'static House {
    static ENGINE: OnceLock<House> = OnceLock::new();
    ENGINE.get_or_init(|| House::new(Limits::default()))
}

/// Returns an engine with short time limits, for guests that never end.
fn hasty_engine() -> &'static House {
    static ENGINE: OnceLock<House> = OnceLock::new();
    const SHORT: Duration = Duration::from_millis(200);
    let limits = Limits {
        probe_time: 2 * SHORT,
        tool_time: SHORT,
        step_time: SHORT,
        completion_time: SHORT,
        ..Limits::default()
    };
    ENGINE.get_or_init(|| House::new(limits))
}

/// A plugin on disk.
struct Packed {
    place: Place,
    package: Result<Arc<PluginPackage>, PluginError>,
}

/// Packs a component with a manifest that asks for all of these.
fn pack(kinds: &[&str], wants: &str, component: &[u8]) -> Packed {
    let place = Place::new();
    let kinds: Vec<_> = kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
    place.plugin_bytes("hostile", &format!("kinds = [{}]\n{wants}", kinds.join(", ")), component);
    let package = PluginPackage::read(&place.path().join("plugins/hostile")).map(Arc::new);
    Packed { place, package }
}

impl Packed {
    /// Loads the plugin with all that it wants; its files are the folder `files` of its place.
    async fn load(&self, house: &House) -> Result<Arc<Plugin>, String> {
        let files = self.place.path().join("files");
        std::fs::create_dir_all(&files).unwrap();
        let package = self.package.as_ref().map_err(told)?;
        let grant = Grant::all_of(&package.manifest.wants, resolved(&files));
        let settings = PluginSettings { limits: house.limits, ..settings(grant) };
        Plugin::load(&house.engine, package, &settings).await.map(Arc::new).map_err(|error| told(&error))
    }
}

/// Returns settings with this grant, with each folder mounted as `.`.
fn settings(grant: Grant) -> PluginSettings {
    let mounts = grant.files.iter().map(|(path, _)| FolderMount { path: path.into(), name: ".".into() }).collect();
    PluginSettings { grant, mounts, ..PluginSettings::new("helper", "agents.helper.plugins.hostile") }
}

/// Loads the plugin of a folder, for an agent that grants it this.
async fn load_from(folder: &Path, grant: Grant) -> Result<Arc<Plugin>, String> {
    let package = PluginPackage::read(folder).map_err(|error| told(&error))?;
    Plugin::load(engine(), &Arc::new(package), &settings(grant)).await.map(Arc::new).map_err(|error| told(&error))
}

/// Loads a plugin with a tool, with all that it wants.
async fn tool(house: &House, guest: &Guest) -> Arc<Plugin> {
    const WANTS: &str = "wants = { clock = true, random = true, chat = true, files = \"write\" }";
    pack(&["tool"], WANTS, &guest.component()).load(house).await.unwrap()
}

/// Returns the message, the causes and the hint of an error.
fn told(error: &PluginError) -> String {
    let report = error.report();
    [std::slice::from_ref(&report.message), &report.causes, report.hint.as_slice()].concat().join("\n")
}

fn cx(events: EventSink) -> RunCx {
    RunCx::new("helper").with_events(events)
}

/// Calls a tool the way an agent does.
async fn call(plugin: &Arc<Plugin>, name: &str, arguments: &str) -> ToolResult {
    call_watched(plugin, name, arguments, EventSink::none()).await
}

async fn call_watched(plugin: &Arc<Plugin>, name: &str, arguments: &str, events: EventSink) -> ToolResult {
    call_as(cx(events), plugin, name, arguments).await
}

/// Calls a tool in this run.
async fn call_as(run: RunCx, plugin: &Arc<Plugin>, name: &str, arguments: &str) -> ToolResult {
    let mut tools = ToolBox::new();
    for tool in PluginTool::all(plugin) {
        tools.register(tool).unwrap();
    }
    let cx = ToolCx::new(run);
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into(), meta: vec![] };
    tools.dispatch(&cx, &call).await.result
}

/// Runs the attack of a guest, and asserts that the plugin and another one still work.
async fn attack(house: &House, guest: &Guest) -> ToolResult {
    let (hostile, neighbour) = (tool(house, guest).await, tool(house, &Guest::tool()).await);
    let result = call(&hostile, "t", ATTACK).await;
    for plugin in [&hostile, &neighbour] {
        let after = call(plugin, "t", "{}").await;
        assert_eq!((after.is_error, after.text().as_str()), (false, "ok"));
    }
    result
}

/// Arguments that make a guest attack.
const ATTACK: &str = r#"{"a":1}"#;

/// Returns all events, to the end of the stream.
async fn all(mut stream: EventStream) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = stream.next_event().await {
        events.push(event);
    }
    events
}

/// Returns a model with these replies, and an agent with this model and nothing else.
fn agent(
    replies: impl IntoIterator<Item = Result<Completion, shelly_host::error::Fault>>,
) -> (Arc<ScriptedCompleter>, Agent) {
    let model = Arc::new(ScriptedCompleter::new(replies));
    (Arc::clone(&model), Agent::new("helper", "", model))
}

/// Runs an agent, and returns its answer, the chat and the events.
async fn run(agent: &Agent) -> (Result<RunAnswer, RunError>, Chat, Vec<Event>) {
    let (sink, stream) = EventSink::channel();
    let chat = Chat::new();
    let running = async {
        let cx = cx(sink);
        agent.run(&cx, &chat, vec![Message::user("go")]).await
    };
    let (answer, events) = tokio::join!(running, all(stream));
    (answer, chat, events)
}
