use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Facts about a task, by name.
pub type TaskMetadata = BTreeMap<String, Value>;

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody works on it.
    Pending,
    /// Its assignee works on it.
    InProgress,
    /// It was done.
    Completed,
    /// It was not done.
    Failed,
    /// It is no longer to be done.
    Canceled,
}

impl TaskStatus {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Pending, Self::InProgress, Self::Completed, Self::Failed, Self::Canceled];

    /// Whether it ends here unless somebody reopens the task.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// The word for it, as in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }
}

/// The words alone: derived it would be an object for each, and a model pays for each word.
impl JsonSchema for TaskStatus {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "TaskStatus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "enum": Self::ALL})
    }
}

/// Who asks for a change of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskActor<'a> {
    /// The host, which may change every task.
    Host,
    /// The agent of this instance name, which may change what it made and what is assigned to it.
    Agent(&'a str),
}

impl TaskActor<'_> {
    pub(super) fn name(self) -> Option<String> {
        match self {
            Self::Host => None,
            Self::Agent(name) => Some(name.to_owned()),
        }
    }
}

/// Something to be done by one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// `task-<n>`, counted from 1 on each board.
    pub id: String,
    /// What it is, in one line.
    pub title: String,
    /// What is to be done.
    pub description: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// The instance name of the agent that works on it or did; none while it is pending, and if it was canceled before.
    pub assignee: Option<String>,
    /// The tasks that must be completed before it can be claimed.
    pub blocked_by: Vec<String>,
    /// What else is known of it.
    pub metadata: TaskMetadata,
    /// The instance name of the agent that made it; none for the host.
    pub created_by: Option<String>,
}

/// What a task is made of. It begins as pending and without an assignee.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewTask {
    /// What it is, in one line.
    pub title: String,
    /// What is to be done.
    pub description: String,
    /// The tasks that must be completed before.
    pub blocked_by: Vec<String>,
    /// What else is known of it.
    pub metadata: TaskMetadata,
}

/// Changes of a task; what is none stays.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskUpdate {
    /// Another title.
    pub title: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Another status; `pending` gives the task back or reopens it.
    pub status: Option<TaskStatus>,
    /// What it waits for instead; only for a task that is pending, or becomes it.
    pub blocked_by: Option<Vec<String>>,
    /// Facts that are added or replaced; one that is null is removed.
    pub metadata: TaskMetadata,
}

/// Which tasks to list; what is none lets all pass.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    /// Of this status.
    pub status: Option<TaskStatus>,
    /// Of this agent.
    pub assignee: Option<String>,
    /// Pending, and waiting for others or not.
    pub blocked: Option<bool>,
}

/// A task that another one waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskBlocker {
    /// The task that is waited for.
    pub id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// A task that failed or was canceled: this one, or one that it waits for itself. While that is so, waiting is in vain.
    pub dead_end: Option<String>,
}

/// A task that is done and that another one builds on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskDependency {
    /// The task.
    pub id: String,
    /// Its title.
    pub title: String,
}

/// What an agent is told that has claimed a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimedTask {
    /// The task, now in progress.
    #[serde(flatten)]
    pub task: Task,
    /// The completed tasks that it builds on.
    pub builds_on: Vec<TaskDependency>,
    /// From whom it was taken over.
    pub taken_from: Option<String>,
}

/// What a change did to a task and to those that wait for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskStatusReport {
    /// The task.
    pub id: String,
    /// Where it stands.
    pub status: TaskStatus,
    /// Where it stood before.
    pub previous: TaskStatus,
    /// Who works on it or did.
    pub assignee: Option<String>,
    /// Who made the change; none for the host.
    pub by: Option<String>,
    /// Tasks that can be claimed because of it.
    pub unblocked: Vec<String>,
    /// Pending tasks that wait for it in vain, because it failed or was canceled.
    pub stuck: Vec<String>,
}
