use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use async_trait::async_trait;

use crate::{
    agent::RunError,
    app::{App, PreparedRun},
    approval::ApprovalInbox,
    config::McpServerConfig,
    error::Report,
    event::EventSink,
    session::{LaunchOptions, SessionStore},
    task::TaskInput,
};

/// The options of serving editors.
pub struct AcpOptions {
    /// Opens the project of a conversation.
    pub open: ProjectOpener,
    /// Returns the sessions of the project of a folder.
    pub sessions: SessionFinder,
    /// The agent or team of new conversations; `None`: the entry agent of the config.
    pub agent: Option<String>,
    /// The model of all agents; `None`: each has its own.
    pub model: Option<String>,
    /// Records conversations in sessions, unless the config says otherwise.
    pub record: bool,
    /// Resumes sessions that somebody else may have made.
    pub trusts_sessions: bool,
    /// The names of the MCP servers that an editor may bring.
    pub allowed_servers: Vec<String>,
    /// Explains why a run has failed, and what to do about it.
    pub explain: fn(&PreparedRun, &RunError) -> Report,
    /// Returns the name of a new run.
    pub run_id: fn() -> String,
    /// The folder of a list of sessions for which the editor names none.
    pub folder: PathBuf,
    /// Receives the events of all runs.
    pub events: EventSink,
}

/// Opens a project. It reads files, and checks that the person has consented to what they name.
pub type ProjectOpener = Arc<dyn Fn(ProjectRequest) -> Result<OpenedProject, Report> + Send + Sync>;

/// Returns the sessions of the project of a folder.
pub type SessionFinder = Arc<dyn Fn(&Path) -> Result<SessionStore, Report> + Send + Sync>;

/// A project that an editor wants to open.
pub struct ProjectRequest {
    /// The absolute path of a folder in the project.
    pub folder: PathBuf,
    /// The MCP servers that its agents get in addition to their own.
    pub servers: Vec<McpServerConfig>,
}

/// A project that is open for one conversation.
pub struct OpenedProject {
    /// The app, which no other conversation uses.
    pub app: App,
    /// The questions of its agents; `None` if a policy decides them.
    pub inbox: Option<ApprovalInbox>,
    /// The commands that a person may type.
    pub commands: Arc<dyn CommandSource>,
    /// The options that a new session stores.
    pub launch: LaunchOptions,
    /// Problems that do not keep it from being used.
    pub warnings: Vec<String>,
}

/// The commands of a conversation: each stands for a message.
#[async_trait]
pub trait CommandSource: Send + Sync {
    /// Returns the commands that are known now.
    fn commands(&self) -> Vec<EditorCommand>;

    /// Learns the commands that come with the servers to which runs of this app have connected.
    async fn learn(&self, app: &App);

    /// Returns the task for which a command stands; `None` if there is no such command.
    async fn task(&self, app: &App, name: &str, arguments: &str) -> Option<Result<TaskInput, Report>>;
}

/// A command as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditorCommand {
    /// The name, without a slash.
    pub name: String,
    /// The description.
    pub description: String,
    /// The words that may follow it; empty if there are none.
    pub hint: String,
}
