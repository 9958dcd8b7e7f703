//! Serves an app to MCP clients: the tools of an agent, agents as tools, and skills as prompts. They are rebuilt when the
//! folders of plugins or skills change.

mod agents;
mod elicitors;
mod folder_watcher;

use std::sync::{Arc, PoisonError, RwLock};

use agents::ServedAgentTool;
use async_trait::async_trait;
use elicitors::ElicitorRegistry;
use serde::de::IgnoredAny;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use self::folder_watcher::FolderWatcher;
use super::{App, ModelCache, RunResources, StartupNotices, archive::AttachmentArchive, extend};
use crate::{
    agent::Agent,
    approval::ApprovalInbox,
    chat::{ChatSnapshot, ToolCall, ToolResult, ToolResultContent},
    config::RunnerConfig,
    error::Report,
    event::{Event, EventSink, RunCx},
    limits,
    mcp::serve::{McpCatalog, McpPrompt, McpResourceProvider, McpServerSetup, McpToolCaller, ServedCallContext},
    model::ScriptedCompleter,
    session::Secrets,
    skill::Skill,
    tool::{CallStartHook, ToolBox, ToolCx},
};

/// Options for serving an app.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The agent whose tools are served; `None`: the entry agent, or [`DEFAULT_AGENT`](super::DEFAULT_AGENT).
    pub agent: Option<String>,
    /// The model of agents that are called as tools; `None`: each has its own.
    pub model: Option<String>,
    /// Records their runs, unless the config says otherwise.
    pub record: bool,
    /// Receives events that belong to no client's call.
    pub events: EventSink,
}

/// Rebuilds the app from the present content of its folders. After an error the old app is served.
pub type AppReloader = Arc<dyn Fn() -> Result<App, Report> + Send + Sync>;

/// An app that is being served. Dropping it stops the routing of questions and the watching of folders.
pub struct AppServer {
    house: Arc<AppServerState>,
    served: McpServerSetup,
    /// Choices that the host made without being told to.
    pub notes: Vec<String>,
    /// Problems that do not keep the app from being served.
    pub warnings: Vec<String>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

/// The state that calls use.
struct AppServerState {
    options: ServeOptions,
    now: RwLock<Arc<AppServerSnapshot>>,
    people: ElicitorRegistry,
}

/// An app at one point in time, with what is served of it.
struct AppServerSnapshot {
    app: Arc<App>,
    /// The agent whose tools are served. It is never run.
    agent: Agent,
    /// The agents, as tools.
    agents: ToolBox,
    /// The tools of each of the agent's sources when this was built.
    of_sources: Vec<ToolBox>,
    shelf: Arc<McpCatalog>,
}

impl AppServer {
    /// Starts to serve an app; `remake` rebuilds it when its folders change. Questions from `inbox` go to the persons
    /// behind the clients.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such agent, or a plugin that it needs cannot be loaded.
    pub async fn start(
        app: App,
        remake: AppReloader,
        inbox: Option<ApprovalInbox>,
        options: ServeOptions,
    ) -> Result<Self, Report> {
        let mut notices = StartupNotices::default();
        let made = AppServerSnapshot::new(app, &options, &mut notices).await?;
        let archive: Arc<dyn McpResourceProvider> = Arc::new(AttachmentArchive { store: made.app.sessions() });
        let (shelf, traces) = (watch::Sender::new(Arc::clone(&made.shelf)), FolderWatcher::of(&made.app));
        let (events, people) = (options.events.clone(), ElicitorRegistry::default());
        let house = Arc::new(AppServerState { options, now: RwLock::new(Arc::new(made)), people: people.clone() });
        let served = McpServerSetup {
            name: "shelly-host".into(),
            instructions: instructions(&house.now()).into(),
            shelf: shelf.subscribe(),
            caller: Arc::clone(&house) as _,
            archive: Some(archive),
            events,
        };
        let watching = keep_up(Arc::clone(&house), remake, shelf, traces);
        let mut tasks = vec![AbortOnDropHandle::new(tokio::spawn(watching))];
        tasks.extend(inbox.map(|inbox| AbortOnDropHandle::new(tokio::spawn(people.attend(inbox)))));
        let StartupNotices { notes, warnings } = notices;
        Ok(Self { house, served, notes, warnings, _tasks: tasks })
    }

    /// Returns the setup for the MCP server.
    pub fn served(&self) -> McpServerSetup {
        self.served.clone()
    }

    /// Returns the credentials that are known by now, which no client is sent.
    pub fn secrets(&self) -> Secrets {
        self.house.now().app.secrets()
    }

    /// Waits until pending batches are cancelled and MCP servers are closed, before the program ends.
    pub async fn settled(&self) {
        let app = Arc::clone(&self.house.now().app);
        tokio::join!(app.settled(), app.close_servers());
    }
}

/// Returns the server's instructions for the client's model.
fn instructions(made: &AppServerSnapshot) -> String {
    if made.agents.is_empty() {
        return String::new();
    }
    "Tools that begin with `agent_` give a task to an agent, which has tools of its own: say all that it must know."
        .into()
}

impl AppServerState {
    fn now(&self) -> Arc<AppServerSnapshot> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl McpToolCaller for AppServerState {
    async fn call(&self, making: ServedCallContext, call: ToolCall) -> ToolResult {
        let ServedCallContext { run, events, person } = making;
        let _there = self.people.enter(&run, person);
        // A call ends on the snapshot on which it began.
        let made = self.now();
        let cx = RunCx::new(Arc::clone(&made.agent.name)).with_run(run).with_events(events);
        let result = match made.agents.contains(&call.name) {
            false => made.agent.call(&cx, &call).await,
            true => {
                let (tools, begin) = (made.agents.specs(), CallStartHook::default());
                let cx = ToolCx { run: cx, chat: ChatSnapshot::default(), tools, begin };
                made.agents.dispatch(&cx, &call).await.result
            }
        };
        without_secrets(result, &made.app.secrets())
    }

    fn shown(&self, text: &str) -> String {
        self.now().app.secrets().clean_text(text)
    }
}

/// Removes credentials from a result for a client, by the same rules as for the journal.
fn without_secrets(mut result: ToolResult, secrets: &Secrets) -> ToolResult {
    let is_json = |json: &[u8]| serde_json::from_slice::<IgnoredAny>(json).is_ok();
    for content in &mut result.content {
        match content {
            ToolResultContent::Text(text) => *text = secrets.clean_text(text),
            ToolResultContent::Json(json) => {
                let clean = secrets.clean_json(json.clone().into_bytes(), is_json);
                *json = String::from_utf8_lossy(&clean).into_owned();
            }
            ToolResultContent::Other(other) => {
                let clean = secrets.clean_json(other.json.clone().into_bytes(), is_json);
                other.json = String::from_utf8_lossy(&clean).into_owned();
            }
            ToolResultContent::Media(_) => {}
        }
    }
    result
}

impl AppServerSnapshot {
    async fn new(app: App, options: &ServeOptions, notices: &mut StartupNotices) -> Result<Self, Report> {
        notices.warnings.extend(app.project.warnings().iter().cloned());
        let (mut agent, skills) = app.toolbox(options.agent.as_deref(), notices).await?;
        // A client has its own way to ask its person.
        agent.tools = agent.tools.without(&["ask_user".to_owned()]);
        let app = Arc::new(app);
        let agents = app.agents_as_tools(options, notices).await;
        notices.warnings.extend(app.engine_warnings());
        // If names clash or look alike, the agent's own tool is kept.
        let own = agent.toolbox();
        let mut all = own.clone();
        extend(&mut all, agents.clone(), "agents", &mut notices.warnings);
        let left: Vec<_> = agents.names().filter(|name| own.contains(name)).map(str::to_owned).collect();
        let agents = agents.without(&left);
        let prompts = skills.iter().map(|skill| prompt(skill, &app)).collect();
        let (shelf, of_sources) = (Arc::new(McpCatalog { tools: all.specs(), prompts }), agent.of_sources());
        Ok(Self { app, agent, agents, of_sources, shelf })
    }

    /// Rebuilds the catalog with the present tools of the agent's sources; `None` if they have not changed.
    fn refreshed(&self) -> Option<Self> {
        if self.agent.has_same_tools(&self.of_sources) {
            return None;
        }
        let of_sources = self.agent.of_sources();
        let (app, agent, agents) = (Arc::clone(&self.app), self.agent.clone(), self.agents.clone());
        let mut all = agent.toolbox();
        // Clashes with the agents' names were reported before, and are dropped here in the same way.
        all.extend(agents.clone());
        let shelf = Arc::new(McpCatalog { tools: all.specs(), prompts: Arc::clone(&self.shelf.prompts) });
        Some(Self { app, agent, agents, of_sources, shelf })
    }
}

fn prompt(skill: &Skill, app: &App) -> McpPrompt {
    let (name, description) = (skill.name.clone(), skill.description.clone());
    McpPrompt { name, description, text: skill.document(&app.config.root) }
}

impl App {
    /// Builds an agent for its tools alone, which needs no model, and returns it with its skills.
    async fn toolbox(&self, name: Option<&str>, notices: &mut StartupNotices) -> Result<(Agent, Vec<Skill>), Report> {
        self.open_plugins(name, None).await?;
        notices.warnings.extend(self.recover_changes());
        let default;
        let config = match self.is_default(name) {
            true => {
                default = self.default_agent(&mut notices.warnings);
                &default
            }
            // A team has no tools; only its skills are served.
            false => name.map_or_else(|| self.config.entry(), |name| self.config.who(name))?.own(),
        };
        let servers = self.reach_servers(&[config], notices).await;
        let shared = RunResources::new(&self.project, &self.broker, self.changes()).with_servers(servers);
        // The agent is never run.
        let none = Arc::new(ScriptedCompleter::new([]));
        let blueprint = self.dress(config, none, &shared, notices).await?;
        let agent = blueprint.agent(&mut notices.warnings)?;
        Ok((agent, blueprint.skills))
    }

    /// Returns the agents and teams of the config whose models can be resolved, as tools.
    async fn agents_as_tools(self: &Arc<Self>, options: &ServeOptions, notices: &mut StartupNotices) -> ToolBox {
        let shared = RunResources::new(&self.project, &self.broker, self.changes());
        let (models, mut tools) = (ModelCache::new(&shared.stores), ToolBox::new());
        let (model, record) = (options.model.as_deref(), options.record && self.config.sessions.record);
        for who in self.config.runners() {
            let own = who.own();
            let has_models = self.have_models(who, model, &models, notices).await.map_err(|report| report.to_string());
            let made = has_models.and_then(|()| ServedAgentTool::new(self, own, model, record));
            let named = made.and_then(|tool| tools.register(Arc::new(tool)).map_err(|clash| clash.to_string()));
            if let Err(why) = named {
                notices.notes.push(format!("the {} `{}` is not offered: {why}", own.word(), own.name.escape_debug()));
            }
        }
        tools
    }

    /// Checks that the models of a runner and of those that it needs can be resolved.
    async fn have_models(
        &self,
        who: RunnerConfig<'_>,
        model: Option<&str>,
        models: &ModelCache,
        notices: &mut StartupNotices,
    ) -> Result<(), Report> {
        for inner in self.config.needed_by(who) {
            if !matches!(inner, RunnerConfig::Team(team) if !team.asks()) {
                self.model(inner.own(), model, models, notices).await?;
            }
        }
        Ok(())
    }
}

/// Waits until the tools of a connected server change, and returns the new snapshot.
async fn sources_changed(house: &AppServerState) -> AppServerSnapshot {
    loop {
        tokio::time::sleep(limits::MCP_SERVE_LOOK).await;
        if let Some(made) = house.now().refreshed() {
            return made;
        }
    }
}

/// Rebuilds the snapshot whenever the folders have changed and come to rest, or the tools of a server have changed.
async fn keep_up(
    house: Arc<AppServerState>,
    remake: AppReloader,
    shelf: watch::Sender<Arc<McpCatalog>>,
    mut traces: FolderWatcher,
) {
    let tell = async |message: String| house.options.events.emit(Event::Warning { message }).await;
    // The last reason why the new state is not served. It is retried, because consent changes no file in the folders.
    let mut refused: Option<String> = None;
    loop {
        tokio::select! {
            () = traces.changed() => {}
            () = tokio::time::sleep(limits::MCP_SERVE_LOOK_AGAIN), if refused.is_some() => {}
            made = sources_changed(&house) => {
                let new = Arc::clone(&made.shelf);
                *house.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
                shelf.send_replace(new);
                continue;
            }
        }
        let remake = Arc::clone(&remake);
        let made = match tokio::task::spawn_blocking(move || remake()).await {
            Ok(Ok(app)) => {
                let mut notices = StartupNotices::default();
                let app = app.with_engine_of(&house.now().app);
                let made = AppServerSnapshot::new(app, &house.options, &mut notices).await;
                for told in notices.notes.into_iter().chain(notices.warnings) {
                    tell(told).await;
                }
                made
            }
            Ok(Err(report)) => Err(report),
            Err(_) => continue,
        };
        match made {
            Ok(made) => {
                refused = None;
                let new = Arc::clone(&made.shelf);
                traces.look_at(&made.app);
                *house.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
                shelf.send_replace(new);
            }
            Err(report) => {
                let why = format!("what has changed is not served: {}", report.with_hint());
                if refused.as_ref() != Some(&why) {
                    tell(why.clone()).await;
                }
                refused = Some(why);
            }
        }
    }
}
