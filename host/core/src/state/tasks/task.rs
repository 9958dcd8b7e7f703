use std::{borrow::Cow, collections::BTreeMap};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Open-ended facts about a task, by name.
pub type TaskMetadata = BTreeMap<String, Value>;

/// The status of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// The task has no assignee.
    Pending,
    /// The assignee works on the task.
    InProgress,
    /// The task was completed.
    Completed,
    /// The task failed.
    Failed,
    /// The task was canceled.
    Canceled,
}

impl TaskStatus {
    /// All statuses.
    pub const ALL: [Self; 5] = [Self::Pending, Self::InProgress, Self::Completed, Self::Failed, Self::Canceled];

    /// Returns `true` if the task has ended, unless it is reopened.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// Returns the name of the status, as in JSON.
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

/// Lists only the words: the derived schema has an object for each variant, and every token costs money.
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

/// The actor that changes a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskActor<'a> {
    /// The host, which may change every task.
    Host,
    /// The agent of this instance name, which may change tasks that it created or is assigned to.
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

/// A task for one agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The id: `task-<n>`, counted from 1 on each board.
    pub id: String,
    /// The title, on one line.
    pub title: String,
    /// The description of the work.
    pub description: String,
    /// The status.
    pub status: TaskStatus,
    /// The instance name of the present or former assignee; `None` while the task is pending, and if it was canceled before
    /// a claim.
    pub assignee: Option<String>,
    /// The tasks that must be completed before it can be claimed.
    pub blocked_by: Vec<String>,
    /// Open-ended facts.
    pub metadata: TaskMetadata,
    /// The instance name of the agent that created it; `None` for the host.
    pub created_by: Option<String>,
}

/// The parameters of a new task. It begins as pending and without an assignee.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewTask {
    /// The title, on one line.
    pub title: String,
    /// The description of the work.
    pub description: String,
    /// The tasks that must be completed before it can be claimed.
    pub blocked_by: Vec<String>,
    /// Open-ended facts.
    pub metadata: TaskMetadata,
}

/// Changes of a task; a field that is `None` stays unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskUpdate {
    /// The new title.
    pub title: Option<String>,
    /// The new description.
    pub description: Option<String>,
    /// The new status; `pending` gives the task back or reopens it.
    pub status: Option<TaskStatus>,
    /// The new dependencies; only for a task that is pending, or becomes pending.
    pub blocked_by: Option<Vec<String>>,
    /// Facts to add or replace; a null value removes the fact.
    pub metadata: TaskMetadata,
}

/// A filter for tasks; a field that is `None` matches every task.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TaskFilter {
    /// Matches tasks of this status.
    pub status: Option<TaskStatus>,
    /// Matches tasks of this assignee.
    pub assignee: Option<String>,
    /// `true` matches pending tasks with unfinished dependencies, `false` pending tasks without.
    pub blocked: Option<bool>,
}

/// An unfinished dependency of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskBlocker {
    /// The id of the dependency.
    pub id: String,
    /// The status of the dependency.
    pub status: TaskStatus,
    /// The failed or canceled task that makes this dependency impossible: the dependency itself, or one of its own
    /// dependencies.
    pub dead_end: Option<String>,
}

/// A completed dependency of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskDependency {
    /// The id of the dependency.
    pub id: String,
    /// The title of the dependency.
    pub title: String,
}

/// The result of claiming a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClaimedTask {
    /// The task, now in progress.
    #[serde(flatten)]
    pub task: Task,
    /// The completed dependencies.
    pub builds_on: Vec<TaskDependency>,
    /// The previous assignee from whom the task was taken over.
    pub taken_from: Option<String>,
}

/// The effect of a change on a task and on its dependents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TaskStatusReport {
    /// The id of the task.
    pub id: String,
    /// The new status.
    pub status: TaskStatus,
    /// The previous status.
    pub previous: TaskStatus,
    /// The present or former assignee.
    pub assignee: Option<String>,
    /// The agent that made the change; `None` for the host.
    pub by: Option<String>,
    /// Tasks that can be claimed because of the change.
    pub unblocked: Vec<String>,
    /// Pending dependents that cannot proceed because the task failed or was canceled.
    pub stuck: Vec<String>,
}
