mod board;
mod error;
mod task;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use board::TaskBoardState;
pub use error::TaskError;
pub use task::{
    ClaimedTask, NewTask, Task, TaskActor, TaskBlocker, TaskDependency, TaskFilter, TaskMetadata, TaskStatus,
    TaskStatusReport, TaskUpdate,
};
use tokio::time::{Instant, timeout_at};

use super::watched_value::{StateChangeHook, StateRestoreError, WatchedValue};
use crate::limits;

/// What is to be done, who does it, and what waits for what. Clones are the same board.
///
/// | from | to | how |
/// |---|---|---|
/// | pending | in progress | an agent claims it, or is assigned it; not while a task that it waits for is not completed |
/// | in progress | completed, failed | |
/// | in progress | pending | given back: nobody is the assignee any more |
/// | pending, in progress | canceled | |
/// | completed, failed, canceled | pending | reopened: nobody is the assignee any more |
///
/// Nothing else happens to a status. Only who made a task, its assignee and the host may change it, in this or in
/// anything else. Once it has ended only its metadata can change, until it is reopened.
#[derive(Debug, Clone, Default)]
pub struct TaskBoard {
    board: Arc<WatchedValue<TaskBoardState>>,
}

impl TaskBoard {
    /// A board without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells `hook`, instead of an earlier one, of each task that is made or changed from now on, as it is then, in the
    /// order of the changes. It is told in the midst of them: it must not wait, and must not use the board.
    pub fn on_change(&self, hook: Arc<dyn Fn(&Task) + Send + Sync>) {
        self.board.set(|board| board.hook = StateChangeHook::new(hook));
    }

    /// Makes the board what these changes, in their order, had made of an empty one: what was on it is gone. Nobody is told
    /// of them again. Who worked on a task still does, and can claim it again.
    ///
    /// # Errors
    ///
    /// [`StateRestoreError`] if no board can come to be so; nothing has changed then.
    pub fn restore(&self, changes: impl IntoIterator<Item = Task>) -> Result<(), StateRestoreError> {
        let mut restored = TaskBoardState::restored(changes)?;
        self.board.set(|board| {
            restored.hook = std::mem::take(&mut board.hook);
            *board = restored;
        });
        Ok(())
    }

    /// Adds a task, pending and without an assignee.
    ///
    /// # Errors
    ///
    /// If it waits for a task that is not there, or a bound is passed.
    pub fn create(&self, task: NewTask, by: TaskActor<'_>) -> Result<Task, TaskError> {
        self.board.change(|board| board.create(task, by))
    }

    /// The task of this id.
    ///
    /// # Errors
    ///
    /// [`TaskError::Unknown`].
    pub fn get(&self, id: &str) -> Result<Task, TaskError> {
        self.board.read(|board| board.slot(id).map(|slot| slot.task.clone()))
    }

    /// The tasks that pass the filter, in the order of their creation.
    pub fn list(&self, filter: &TaskFilter) -> Vec<Task> {
        self.board.read(|board| board.list(filter))
    }

    /// What a pending task waits for; nothing if it can be claimed, or is past that.
    ///
    /// # Errors
    ///
    /// [`TaskError::Unknown`].
    pub fn why_blocked(&self, id: &str) -> Result<Vec<TaskBlocker>, TaskError> {
        self.board.read(|board| board.slot(id).map(|slot| board.blockers(&slot.task)))
    }

    /// Makes an agent the assignee of a pending task. Again by the same agent changes nothing; of several agents one
    /// succeeds.
    ///
    /// # Errors
    ///
    /// If the task waits for others, has ended, or another agent works on it.
    pub fn claim(&self, id: &str, agent: &str) -> Result<ClaimedTask, TaskError> {
        self.board.change(|board| board.claim(id, agent, None))
    }

    /// As [`claim`](Self::claim), for the host: `agent` also takes over what `from` works on, such as who delegates the
    /// task or hands it over. What a third agent works on stays with it.
    ///
    /// # Errors
    ///
    /// As [`claim`](Self::claim).
    pub fn claim_for(&self, id: &str, agent: &str, from: &str) -> Result<ClaimedTask, TaskError> {
        self.board.change(|board| board.claim(id, agent, Some(from)))
    }

    /// Changes a task: all that is asked for, or nothing.
    ///
    /// # Errors
    ///
    /// If `by` may not, the status cannot follow on the one that it has, tasks would wait for each other, or a bound is
    /// passed.
    pub fn update(&self, id: &str, update: TaskUpdate, by: TaskActor<'_>) -> Result<TaskStatusReport, TaskError> {
        self.board.change(|board| board.update(id, update, by))
    }

    /// Changes the status alone. The one that it has already is no error.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    pub fn set_status(&self, id: &str, status: TaskStatus, by: TaskActor<'_>) -> Result<TaskStatusReport, TaskError> {
        self.update(id, TaskUpdate { status: Some(status), ..TaskUpdate::default() }, by)
    }

    /// Cancels a task that has not ended; who works on it is told, see [`canceled`](Self::canceled).
    ///
    /// # Errors
    ///
    /// If `by` may not, or it has ended.
    pub fn cancel(&self, id: &str, by: TaskActor<'_>) -> Result<TaskStatusReport, TaskError> {
        self.board.change(|board| board.cancel(id, by))
    }

    /// Waits until a task has ended, in whichever way.
    ///
    /// # Errors
    ///
    /// [`TaskError::Unknown`]; [`TaskError::Unclaimed`] once it was without an assignee for
    /// [`limits::TASK_UNCLAIMED`] while it was watched.
    pub async fn watch(&self, id: &str) -> Result<Task, TaskError> {
        let started = Instant::now();
        loop {
            let look = |board: &TaskBoardState| match board.slot(id) {
                Ok(slot) if slot.task.status.is_terminal() => Some(Ok(WatchedTaskState::Ended(slot.task.clone()))),
                Ok(slot) if slot.task.assignee.is_none() => {
                    Some(Ok(WatchedTaskState::Unassigned(slot.unassigned_since)))
                }
                Ok(_) => None,
                Err(error) => Some(Err(error)),
            };
            let since = match self.board.until(look).await? {
                WatchedTaskState::Ended(task) => return Ok(task),
                WatchedTaskState::Unassigned(since) => since,
            };
            // Until somebody has taken it, even if it was given back at once, or it was canceled.
            let taken = self.board.until(|board| match board.slot(id) {
                Ok(slot) if slot.task.status == TaskStatus::Pending && slot.unassigned_since == since => None,
                _ => Some(()),
            });
            if timeout_at(since.max(started) + limits::TASK_UNCLAIMED, taken).await.is_err() {
                return Err(TaskError::Unclaimed { id: id.into(), blockers: self.why_blocked(id)? });
            }
        }
    }

    /// Waits until a task is canceled: who works on it should stop. Returns at once if it is.
    ///
    /// # Errors
    ///
    /// [`TaskError::Unknown`].
    pub async fn canceled(&self, id: &str) -> Result<(), TaskError> {
        let before = self.board.read(|board| board.slot(id).map(|slot| slot.cancellations))?;
        let look = |board: &TaskBoardState| match board.slot(id) {
            Ok(slot) => (slot.cancellations > before || slot.task.status == TaskStatus::Canceled).then_some(Ok(())),
            Err(error) => Some(Err(error)),
        };
        self.board.until(look).await
    }

    /// A number that grows with each change of the board.
    pub fn revision(&self) -> u64 {
        self.board.revision()
    }

    /// Waits until the board has changed since `revision`; returns its revision then.
    pub async fn changed(&self, revision: u64) -> u64 {
        self.board.changed(revision).await
    }
}

/// What is seen of a task that is watched.
enum WatchedTaskState {
    Ended(Task),
    Unassigned(Instant),
}
