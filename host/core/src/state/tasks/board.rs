use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::Instant;

use super::{
    ClaimedTask, NewTask, Task, TaskActor, TaskBlocker, TaskDependency, TaskError, TaskFilter, TaskMetadata,
    TaskStatus, TaskStatusReport, TaskUpdate,
};
use crate::{
    limits,
    state::{
        shared_board::BoardState,
        shown_name::shown_name,
        watched_value::{StateChangeHook, StateRestoreError},
    },
    tool::ToolCallId,
};

/// The state of a task board and its rules. No method blocks, and one that returns an error has changed nothing.
#[derive(Debug, Default)]
pub(super) struct TaskBoardState {
    /// The tasks in order of creation. None is ever removed, so that every id in `blocked_by` exists.
    slots: IndexMap<String, TaskSlot>,
    pub(super) hook: StateChangeHook<Task>,
}

#[derive(Debug)]
pub(super) struct TaskSlot {
    pub(super) task: Task,
    /// The time since which the task has no assignee; only meaningful while it has none.
    pub(super) unassigned_since: Instant,
    /// The number of cancellations. A reopened task is no longer canceled, but its former assignee was told to stop.
    pub(super) cancellations: u64,
}

/// A board in a bucket: its tasks in order of creation.
#[derive(Serialize, Deserialize)]
struct TaskBoardDocument {
    version: u32,
    tasks: Vec<Task>,
}

impl BoardState for TaskBoardState {
    fn copy(&self) -> Self {
        let slot = |slot: &TaskSlot| TaskSlot { task: slot.task.clone(), ..*slot };
        let slots = self.slots.iter().map(|(id, of)| (id.clone(), slot(of))).collect();
        Self { slots, hook: StateChangeHook::default() }
    }

    fn to_document(&self) -> Vec<u8> {
        let tasks = self.slots.values().map(|slot| slot.task.clone()).collect();
        // Tasks always serialize.
        serde_json::to_vec(&TaskBoardDocument { version: 1, tasks }).unwrap_or_default()
    }

    fn of_document(document: &[u8]) -> Result<Self, String> {
        let document: TaskBoardDocument = serde_json::from_slice(document).map_err(|error| error.to_string())?;
        if document.version != 1 {
            return Err(format!("it has version {}, written by a newer shelly-host", document.version));
        }
        Self::restored(document.tasks).map_err(|error| error.to_string())
    }

    fn adopt(&mut self, newer: Self, author: Option<Arc<ToolCallId>>) {
        self.hook.author = author;
        for (id, slot) in newer.slots {
            if self.slots.contains_key(&id) {
                self.put(slot.task);
            } else {
                self.add(slot.task.clone());
                self.hook.tell(|| slot.task);
            }
        }
    }
}

impl TaskBoardState {
    pub(super) fn slot(&self, id: &str) -> Result<&TaskSlot, TaskError> {
        self.slots.get(id).ok_or_else(|| TaskError::Unknown { id: shown_name(id) })
    }

    pub(super) fn create(&mut self, new: NewTask, by: TaskActor<'_>) -> Result<Task, TaskError> {
        if self.slots.len() >= limits::TASKS {
            return Err(TaskError::Full);
        }
        let mut task = Task {
            id: format!("task-{}", self.slots.len() + 1),
            title: new.title,
            description: new.description,
            status: TaskStatus::Pending,
            assignee: None,
            blocked_by: self.dependencies(new.blocked_by)?,
            metadata: TaskMetadata::new(),
            created_by: by.name(),
        };
        merge(&mut task.metadata, new.metadata);
        check(&task)?;
        self.add(task.clone());
        self.hook.tell(|| task.clone());
        Ok(task)
    }

    pub(super) fn list(&self, filter: &TaskFilter) -> Vec<Task> {
        let passes = |task: &Task| {
            filter.status.is_none_or(|status| task.status == status)
                && filter.assignee.as_ref().is_none_or(|assignee| task.assignee.as_ref() == Some(assignee))
                && filter.blocked.is_none_or(|blocked| {
                    task.status == TaskStatus::Pending && blocked == self.unfinished(task).next().is_some()
                })
        };
        self.slots.values().map(|slot| &slot.task).filter(|task| passes(task)).cloned().collect()
    }

    /// Returns the unfinished dependencies of a pending task.
    pub(super) fn blockers(&self, task: &Task) -> Vec<TaskBlocker> {
        if task.status != TaskStatus::Pending {
            return Vec::new();
        }
        let blocker = |on: &Task| TaskBlocker { id: on.id.clone(), status: on.status, dead_end: self.dead_end(on) };
        self.unfinished(task).map(blocker).collect()
    }

    pub(super) fn claim(&mut self, id: &str, agent: &str, from: Option<&str>) -> Result<ClaimedTask, TaskError> {
        let mut task = self.slot(id)?.task.clone();
        let held_by = task.assignee.clone();
        match (task.status, held_by.as_deref()) {
            (TaskStatus::Pending, _) => {
                let blockers = self.blockers(&task);
                if !blockers.is_empty() {
                    return Err(TaskError::Blocked { id: task.id, blockers });
                }
            }
            (TaskStatus::InProgress, Some(holder)) if holder != agent && Some(holder) != from => {
                return Err(TaskError::Taken { id: task.id, by: holder.into() });
            }
            (TaskStatus::InProgress, _) => {}
            (status, _) => return Err(TaskError::Finished { id: task.id, status }),
        }
        task.status = TaskStatus::InProgress;
        task.assignee = Some(agent.into());
        let builds_on =
            self.waits_for(&task).map(|on| TaskDependency { id: on.id.clone(), title: on.title.clone() }).collect();
        self.put(task.clone());
        Ok(ClaimedTask { task, builds_on, taken_from: held_by.filter(|holder| holder != agent) })
    }

    pub(super) fn cancel(&mut self, id: &str, by: TaskActor<'_>) -> Result<TaskStatusReport, TaskError> {
        let task = &self.slot(id)?.task;
        if task.status.is_terminal() {
            return Err(TaskError::Finished { id: task.id.clone(), status: task.status });
        }
        self.update(id, TaskUpdate { status: Some(TaskStatus::Canceled), ..TaskUpdate::default() }, by)
    }

    pub(super) fn update(
        &mut self,
        id: &str,
        update: TaskUpdate,
        by: TaskActor<'_>,
    ) -> Result<TaskStatusReport, TaskError> {
        let mut task = self.slot(id)?.task.clone();
        let (previous, by) = (task.status, allowed(&task, by)?);
        if let Some(status) = update.status {
            move_to(&mut task, status)?;
        }
        let changes_work = update.title.is_some() || update.description.is_some();
        if changes_work && previous.is_terminal() && task.status.is_terminal() {
            return Err(TaskError::Finished { id: task.id, status: task.status });
        }
        if let Some(blocked_by) = update.blocked_by {
            if task.status != TaskStatus::Pending {
                return Err(TaskError::NotPending { id: task.id, status: task.status });
            }
            task.blocked_by = self.dependencies(blocked_by)?;
            self.check_cycle(&task)?;
        }
        task.title = update.title.unwrap_or(task.title);
        task.description = update.description.unwrap_or(task.description);
        merge(&mut task.metadata, update.metadata);
        check(&task)?;
        self.put(task.clone());
        Ok(self.report(task, previous, by))
    }

    fn add(&mut self, task: Task) {
        let slot = TaskSlot { task, unassigned_since: Instant::now(), cancellations: 0 };
        self.slots.insert(slot.task.id.clone(), slot);
    }

    /// Replaces a task, if it has changed.
    fn put(&mut self, task: Task) {
        let Some(slot) = self.slots.get_mut(&task.id).filter(|slot| slot.task != task) else { return };
        if slot.task.assignee.is_some() && task.assignee.is_none() {
            slot.unassigned_since = Instant::now();
        }
        if slot.task.status != TaskStatus::Canceled && task.status == TaskStatus::Canceled {
            slot.cancellations += 1;
        }
        slot.task = task;
        self.hook.tell(|| slot.task.clone());
    }

    fn report(&self, task: Task, previous: TaskStatus, by: Option<String>) -> TaskStatusReport {
        let waiting: Vec<_> = match task.status.is_terminal() && task.status != previous {
            true => self.slots.values().map(|slot| &slot.task).filter(|other| waits(other, &task.id)).collect(),
            false => Vec::new(),
        };
        let ids = |tasks: Vec<&Task>| tasks.into_iter().map(|task| task.id.clone()).collect();
        let (unblocked, stuck) = match task.status {
            TaskStatus::Completed => {
                (waiting.into_iter().filter(|other| self.unfinished(other).next().is_none()).collect(), vec![])
            }
            _ => (vec![], waiting),
        };
        let Task { id, status, assignee, .. } = task;
        TaskStatusReport { id, status, previous, assignee, by, unblocked: ids(unblocked), stuck: ids(stuck) }
    }

    /// Rebuilds a board from recorded tasks, which are untrusted input.
    pub(super) fn restored(changes: impl IntoIterator<Item = Task>) -> Result<Self, StateRestoreError> {
        let wrong =
            |id: &str, cause: String| StateRestoreError { position: format!("task `{}`", shown_name(id)), cause };
        let mut board = Self::default();
        for task in changes {
            let next = format!("task-{}", board.slots.len() + 1);
            if !board.slots.contains_key(&task.id) && task.id != next {
                return Err(wrong(&task.id, format!("expected `{next}`")));
            }
            if !board.slots.contains_key(&task.id) && board.slots.len() >= limits::TASKS {
                return Err(wrong(&task.id, TaskError::Full.to_string()));
            }
            check(&task).map_err(|error| wrong(&task.id, error.to_string()))?;
            let is_assigned = task.assignee.is_some();
            match task.status {
                TaskStatus::Pending if is_assigned => {
                    return Err(wrong(&task.id, "pending with an assignee".into()));
                }
                TaskStatus::InProgress | TaskStatus::Completed | TaskStatus::Failed if !is_assigned => {
                    return Err(wrong(&task.id, format!("{} without an assignee", task.status.as_str())));
                }
                _ => board.add(task),
            }
        }
        // A task may depend on one that was created later.
        for slot in board.slots.values() {
            board
                .dependencies(slot.task.blocked_by.clone())
                .map_err(|error| wrong(&slot.task.id, error.to_string()))?;
        }
        for task in board.never_free() {
            board.check_cycle(task).map_err(|error| wrong(&task.id, error.to_string()))?;
        }
        Ok(board)
    }

    /// Returns the tasks in a dependency cycle, and those that depend on them.
    fn never_free(&self) -> Vec<&Task> {
        let mut waiting: Vec<_> = self.slots.values().map(|slot| &slot.task).collect();
        let mut free = HashSet::new();
        loop {
            let before = waiting.len();
            waiting.retain(|task| {
                let is_free = task.blocked_by.iter().all(|on| free.contains(on.as_str()));
                !(is_free && free.insert(task.id.as_str()))
            });
            if waiting.len() == before {
                return waiting;
            }
        }
    }

    /// Returns the tasks in `blocked_by`.
    fn waits_for<'a>(&'a self, task: &'a Task) -> impl Iterator<Item = &'a Task> {
        task.blocked_by.iter().filter_map(|id| self.slots.get(id)).map(|slot| &slot.task)
    }

    fn unfinished<'a>(&'a self, task: &'a Task) -> impl Iterator<Item = &'a Task> {
        self.waits_for(task).filter(|on| on.status != TaskStatus::Completed)
    }

    /// Returns the first failed or canceled task among this one and its dependencies.
    fn dead_end(&self, task: &Task) -> Option<String> {
        let (mut seen, mut open) = (HashSet::new(), vec![task]);
        while let Some(task) = open.pop() {
            match task.status {
                TaskStatus::Failed | TaskStatus::Canceled => return Some(task.id.clone()),
                TaskStatus::Pending => open.extend(self.unfinished(task).filter(|on| seen.insert(on.id.as_str()))),
                TaskStatus::InProgress | TaskStatus::Completed => {}
            }
        }
        None
    }

    /// Validates ids for `blocked_by`: each task must exist; duplicates are removed.
    fn dependencies(&self, ids: Vec<String>) -> Result<Vec<String>, TaskError> {
        if ids.len() > limits::TASK_DEPENDENCIES {
            return Err(TaskError::TooManyDependencies { count: ids.len() });
        }
        let mut known: Vec<String> = Vec::new();
        for id in ids {
            self.slot(&id)?;
            if !known.contains(&id) {
                known.push(id);
            }
        }
        Ok(known)
    }

    /// Refuses a task that depends on itself, directly or indirectly. The other tasks must have no cycles.
    fn check_cycle(&self, task: &Task) -> Result<(), TaskError> {
        // Maps each reached task to the task that depends on it.
        let mut waiter: HashMap<&str, &str> = HashMap::new();
        let mut open = vec![task];
        while let Some(at) = open.pop() {
            for on in &at.blocked_by {
                if *on == task.id {
                    let mut path = vec![on.clone(), at.id.clone()];
                    while let Some(before) = waiter.get(path[path.len() - 1].as_str()) {
                        path.push((*before).to_owned());
                    }
                    path.reverse();
                    return Err(TaskError::Cycle { path });
                }
                if !waiter.contains_key(on.as_str()) {
                    waiter.insert(on, &at.id);
                    open.extend(self.slots.get(on).map(|slot| &slot.task));
                }
            }
        }
        Ok(())
    }
}

fn waits(task: &Task, id: &str) -> bool {
    task.status == TaskStatus::Pending && task.blocked_by.iter().any(|on| on == id)
}

/// Returns the actor's name if the actor may change the task.
fn allowed(task: &Task, by: TaskActor<'_>) -> Result<Option<String>, TaskError> {
    let name = by.name();
    if by == TaskActor::Host || name == task.created_by || name == task.assignee {
        return Ok(name);
    }
    let Task { id, created_by, assignee, .. } = task.clone();
    Err(TaskError::NotYours { id, created_by, assignee })
}

/// Applies a status transition if it is allowed. A task in progress has an assignee, and only a claim starts it.
fn move_to(task: &mut Task, to: TaskStatus) -> Result<(), TaskError> {
    use TaskStatus::{Canceled, Completed, Failed, InProgress, Pending};
    let id = || task.id.clone();
    match (task.status, to) {
        (from, to) if from == to => {}
        (Pending, Canceled) | (InProgress, Completed | Failed | Canceled) => task.status = to,
        // The task is given back or reopened.
        (_, Pending) => {
            task.status = Pending;
            task.assignee = None;
        }
        (Pending, status) => return Err(TaskError::NotClaimed { id: id(), status }),
        (status, _) => return Err(TaskError::Finished { id: id(), status }),
    }
    Ok(())
}

fn merge(metadata: &mut TaskMetadata, more: TaskMetadata) {
    for (key, value) in more {
        match value.is_null() {
            true => metadata.remove(&key),
            false => metadata.insert(key, value),
        };
    }
}

/// Returns `true` if lists and objects are nested more than `levels` deep.
fn is_deeper(value: &Value, levels: usize) -> bool {
    match (value, levels.checked_sub(1)) {
        (Value::Array(_) | Value::Object(_), None) => true,
        (Value::Array(values), Some(below)) => values.iter().any(|value| is_deeper(value, below)),
        (Value::Object(values), Some(below)) => values.values().any(|value| is_deeper(value, below)),
        _ => false,
    }
}

fn check(task: &Task) -> Result<(), TaskError> {
    let chars = task.title.chars().count();
    if chars > limits::TASK_TITLE_CHARS || task.title.trim().is_empty() {
        return Err(TaskError::Title { chars: if task.title.trim().is_empty() { 0 } else { chars } });
    }
    let bytes = task.description.len();
    if bytes > limits::TASK_DESCRIPTION_BYTES {
        return Err(TaskError::Description { bytes });
    }
    let keys = task.metadata.len();
    // Values and strings always serialize.
    let bytes = serde_json::to_string(&task.metadata).map_or(usize::MAX, |json| json.len());
    if keys > limits::TASK_METADATA_KEYS || bytes > limits::TASK_METADATA_BYTES {
        return Err(TaskError::Metadata { keys, bytes });
    }
    if task.metadata.values().any(|value| is_deeper(value, limits::TASK_METADATA_DEPTH)) {
        return Err(TaskError::TooDeep);
    }
    Ok(())
}
