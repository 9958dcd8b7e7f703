use super::{TaskBlocker, TaskStatus};
use crate::{bucket::BucketError, error::Fault, limits};

/// The reason for which a task board operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum TaskError {
    /// No task has this id.
    #[error("there is no task `{id}`; list the tasks to see their ids")]
    Unknown { id: String },
    /// The board is full.
    #[error(
        "the board has reached its maximum of {} tasks; reopen and change one that is no longer needed",
        limits::TASKS
    )]
    Full,
    /// The title is empty or too long.
    #[error(
        "the title has {chars} characters; use 1 to {}, and put the rest into the description",
        limits::TASK_TITLE_CHARS
    )]
    Title { chars: usize },
    /// The description is too long.
    #[error(
        "the description has {bytes} bytes, the maximum is {}; put the rest into a file or a note and name it",
        limits::TASK_DESCRIPTION_BYTES
    )]
    Description { bytes: usize },
    /// The metadata is too large.
    #[error(
        "the metadata would have {keys} facts and {bytes} bytes, the maximum is {} facts and {} bytes",
        limits::TASK_METADATA_KEYS,
        limits::TASK_METADATA_BYTES
    )]
    Metadata { keys: usize, bytes: usize },
    /// The metadata is nested too deeply.
    #[error(
        "the metadata is nested more than {} levels deep; make it flatter, or write it as text",
        limits::TASK_METADATA_DEPTH
    )]
    TooDeep,
    /// The task would have too many dependencies.
    #[error(
        "the task has {count} dependencies, the maximum is {}; put some of them behind one task",
        limits::TASK_DEPENDENCIES
    )]
    TooManyDependencies { count: usize },
    /// The task would depend on itself.
    #[error("circular dependency of tasks: {}", .path.join(" → "))]
    Cycle { path: Vec<String> },
    /// The dependencies of a task can change only while it is pending.
    #[error("`{id}` is {}; its dependencies can change only while it is pending", .status.as_str())]
    NotPending { id: String, status: TaskStatus },
    /// The task was neither created by the agent nor assigned to it.
    #[error("`{id}` can be changed only by its creator ({}) and its assignee ({})", name(.created_by), name(.assignee))]
    NotYours { id: String, created_by: Option<String>, assignee: Option<String> },
    /// Another agent works on the task.
    #[error("`{id}` is already assigned to {by}; take another task, or wait for this one")]
    Taken { id: String, by: String },
    /// The task has unfinished dependencies.
    #[error("`{id}` cannot be started: {}", list(.blockers))]
    Blocked { id: String, blockers: Vec<TaskBlocker> },
    /// The task has ended.
    #[error("`{id}` is already {}; its creator or assignee can reopen it by setting it to pending", .status.as_str())]
    Finished { id: String, status: TaskStatus },
    /// The task has no assignee.
    #[error("`{id}` is pending and cannot become {}; claim it first", .status.as_str())]
    NotClaimed { id: String, status: TaskStatus },
    /// No agent claimed the task while a caller waited for it.
    #[error(
        "nobody claimed `{id}` for {} seconds{}; claim it, delegate it, or wait again later",
        limits::TASK_UNCLAIMED.as_secs(),
        after(.blockers)
    )]
    Unclaimed { id: String, blockers: Vec<TaskBlocker> },
    /// The board is in a cluster that does not do it.
    #[error("the shared board cannot be used: {cause}")]
    Cluster { cause: String },
}

impl From<BucketError> for TaskError {
    fn from(error: BucketError) -> Self {
        Self::Cluster { cause: error.to_string() }
    }
}

fn name(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("nobody but the host")
}

fn after(blocking: &[TaskBlocker]) -> String {
    if blocking.is_empty() { String::new() } else { format!(" ({})", list(blocking)) }
}

fn list(blockers: &[TaskBlocker]) -> String {
    let describe = |blocker: &TaskBlocker| {
        let TaskBlocker { id, status, dead_end } = blocker;
        let status = status.as_str();
        match dead_end {
            None => format!("it waits for {id}, which is {status}"),
            Some(dead) if dead == id => {
                format!("it waits for {id}, which is {status}; reopen {id}, or remove the dependency")
            }
            Some(dead) => format!(
                "it waits for {id}, which is {status} and waits for {dead}, which failed or was canceled; reopen {dead}"
            ),
        }
    };
    blockers.iter().map(describe).collect::<Vec<_>>().join("; ")
}

impl From<TaskError> for Fault {
    fn from(error: TaskError) -> Self {
        let message = error.to_string();
        match error {
            TaskError::Unknown { .. } => Self::NotFound { message },
            TaskError::Full => Self::Exhausted { message },
            TaskError::Description { .. } | TaskError::Metadata { .. } => Self::TooLarge { message },
            TaskError::NotYours { .. } | TaskError::Taken { .. } => Self::Denied { message },
            TaskError::Blocked { .. } | TaskError::Cluster { .. } => Self::Unavailable { message, after: None },
            TaskError::Unclaimed { .. } => Self::Timeout { message },
            _ => Self::Invalid { message },
        }
    }
}
