use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use serde::de::IgnoredAny;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use super::{
    app_server_snapshot::AppServerSnapshot, attachment_archive::AttachmentArchive, elicitors::ElicitorRegistry,
    folder_watcher::FolderWatcher, serve_options::ServeOptions,
};
use crate::{
    app::{App, TelemetryFlush},
    approval::ApprovalInbox,
    assemble::StartupNotices,
    chat::{ToolCall, ToolResult, ToolResultContent},
    error::Report,
    event::{Event, RunCx},
    limits,
    mcp::serve::{McpCatalog, McpResourceProvider, McpServerSetup, McpToolCaller, ServedCallContext},
    session::Secrets,
    tool::{CallStartHook, ToolCx},
};

/// Rebuilds the app from the present content of its folders. After an error the old app is served.
pub type AppReloader = Arc<dyn Fn() -> Result<App, Report> + Send + Sync>;

/// An app that is being served. Dropping it stops the routing of questions and the watching of folders.
pub struct AppServer {
    state: Arc<AppServerState>,
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
    elicitors: ElicitorRegistry,
}

impl AppServer {
    /// Starts to serve an app; `reload` rebuilds it when its folders change. Questions from `inbox` go to the persons
    /// behind the clients.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such agent, or a plugin that it needs cannot be loaded.
    pub async fn start(
        app: App,
        reload: AppReloader,
        inbox: Option<ApprovalInbox>,
        options: ServeOptions,
    ) -> Result<Self, Report> {
        let mut notices = StartupNotices::default();
        let made = AppServerSnapshot::new(app, &options, &mut notices).await?;
        let archive: Arc<dyn McpResourceProvider> = Arc::new(AttachmentArchive { store: made.app.sessions() });
        let (shelf, watcher) = (watch::Sender::new(Arc::clone(&made.shelf)), FolderWatcher::of(&made.app));
        let (events, elicitors) = (options.events.clone(), ElicitorRegistry::default());
        let state =
            Arc::new(AppServerState { options, now: RwLock::new(Arc::new(made)), elicitors: elicitors.clone() });
        let served = McpServerSetup {
            name: "shelly-host".into(),
            instructions: instructions(&state.now()).into(),
            shelf: shelf.subscribe(),
            caller: Arc::clone(&state) as _,
            archive: Some(archive),
            events,
        };
        let watching = keep_up(Arc::clone(&state), reload, shelf, watcher);
        let mut tasks = vec![AbortOnDropHandle::new(tokio::spawn(watching))];
        tasks.extend(inbox.map(|inbox| AbortOnDropHandle::new(tokio::spawn(elicitors.attend(inbox)))));
        let StartupNotices { notes, warnings } = notices;
        Ok(Self { state, served, notes, warnings, _tasks: tasks })
    }

    /// Returns the setup for the MCP server.
    pub fn served(&self) -> McpServerSetup {
        self.served.clone()
    }

    /// Returns the credentials that are known by now, which no client is sent.
    pub fn secrets(&self) -> Secrets {
        self.state.now().app.secrets()
    }

    /// Returns the end of telemetry, which the program waits for before it ends.
    pub fn telemetry_flush(&self) -> TelemetryFlush {
        self.state.now().app.telemetry_flush()
    }

    /// Waits until pending batches are cancelled and MCP servers are closed, before the program ends.
    pub async fn settled(&self) {
        let app = Arc::clone(&self.state.now().app);
        tokio::join!(app.settled(), app.close_servers());
    }
}

/// Returns the server's instructions for the client's model.
fn instructions(made: &AppServerSnapshot) -> String {
    if made.agents.is_empty() {
        return String::new();
    }
    "Tools that begin with `agent_` give a task to an agent that has its own tools. Include everything that the agent must \
     know."
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
        let _there = self.elicitors.enter(&run, person);
        // A call ends on the snapshot on which it began.
        let made = self.now();
        let cx = RunCx::new(Arc::clone(&made.agent.name)).with_run(run).with_events(events);
        let result = match made.agents.contains(&call.name) {
            false => made.agent.call(&cx, &call).await,
            true => {
                let (tools, begin) = (made.agents.specs(), CallStartHook::default());
                let cx = ToolCx { tools, begin, ..ToolCx::new(cx) };
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

/// Waits until the tools of a connected server change, and returns the new snapshot.
async fn sources_changed(state: &AppServerState) -> AppServerSnapshot {
    loop {
        tokio::time::sleep(limits::MCP_SERVE_LOOK).await;
        if let Some(made) = state.now().refreshed() {
            return made;
        }
    }
}

/// Rebuilds the snapshot whenever the folders have changed and come to rest, or the tools of a server have changed.
async fn keep_up(
    state: Arc<AppServerState>,
    reload: AppReloader,
    shelf: watch::Sender<Arc<McpCatalog>>,
    mut watcher: FolderWatcher,
) {
    let tell = async |message: String| state.options.events.emit(Event::Warning { message }).await;
    // The last reason why the new state is not served. It is retried, because consent changes no file in the folders.
    let mut refused: Option<String> = None;
    loop {
        tokio::select! {
            () = watcher.changed() => {}
            () = tokio::time::sleep(limits::MCP_SERVE_LOOK_AGAIN), if refused.is_some() => {}
            made = sources_changed(&state) => {
                let new = Arc::clone(&made.shelf);
                *state.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
                shelf.send_replace(new);
                continue;
            }
        }
        let reload = Arc::clone(&reload);
        let made = match tokio::task::spawn_blocking(move || reload()).await {
            Ok(Ok(app)) => {
                let mut notices = StartupNotices::default();
                let app = app.with_engine_of(&state.now().app);
                let made = AppServerSnapshot::new(app, &state.options, &mut notices).await;
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
                watcher.look_at(&made.app);
                *state.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(made);
                shelf.send_replace(new);
            }
            Err(report) => {
                let why = format!("the changes are not served: {}", report.with_hint());
                if refused.as_ref() != Some(&why) {
                    tell(why.clone()).await;
                }
                refused = Some(why);
            }
        }
    }
}
