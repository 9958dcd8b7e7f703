use std::sync::{Arc, OnceLock};

use tokio::time::{Instant, timeout_at};

use super::{
    ClaimedTask, NewTask, Task, TaskActor, TaskBlocker, TaskError, TaskFilter, TaskStatus, TaskStatusReport,
    TaskUpdate, board::TaskBoardState,
};
use crate::{
    bucket::StateBucket,
    limits,
    state::{
        shared_board::{SharedBoard, member_name},
        watched_value::{StateChangeFn, StateChangeHook, StateRestoreError, WatchedValue},
    },
    tool::ToolCallId,
};

/// A board of tasks with their assignees and dependencies. Clones are the same board.
///
/// | from | to | condition |
/// |---|---|---|
/// | pending | in progress | an agent claims the task or is assigned it; all its dependencies must be completed |
/// | in progress | completed, failed | |
/// | in progress | pending | the task is given back and loses its assignee |
/// | pending, in progress | canceled | |
/// | completed, failed, canceled | pending | the task is reopened and loses its assignee |
///
/// No other transition exists. Only the creator of a task, its assignee and the host may change it in any way. Once it has
/// ended, only its metadata can change until it is reopened.
#[derive(Debug, Clone, Default)]
pub struct TaskBoard {
    board: Arc<WatchedValue<TaskBoardState>>,
    /// The tool call that changes through this handle are attributed to.
    author: Option<Arc<ToolCallId>>,
    /// The document of the board, if several hosts have it.
    shared: Arc<OnceLock<SharedTaskBoard>>,
}

#[derive(Debug)]
struct SharedTaskBoard {
    board: SharedBoard<TaskBoardState>,
    /// The session of the agents on this host; `None` if it is the session that the board belongs to.
    session: Option<String>,
}

impl TaskBoard {
    /// Creates a board without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the callback for each task that is created or changed from now on, in the order of the changes, replacing an
    /// earlier callback. It is called while the board is locked: it must not block and must not use the board.
    pub fn on_change(&self, hook: Arc<StateChangeFn<Task>>) {
        self.board.set(|board| board.hook = StateChangeHook::new(hook));
    }

    /// Returns a handle of the same board whose changes the callback is told to be of this tool call.
    pub fn attributed_to(&self, call: ToolCallId) -> Self {
        Self { board: Arc::clone(&self.board), author: Some(Arc::new(call)), shared: Arc::clone(&self.shared) }
    }

    /// Makes this the board that several hosts have at `key` of a bucket: a task is claimed once among all of them. Its
    /// content is written if nobody has shared it yet, and replaced otherwise. From then on each change waits for the
    /// server, and changes of other hosts arrive by themselves; the callback is told of them as of changes of the host.
    /// `session` becomes a part of the names of this host's agents, unless the board belongs to their session. Blocks, on a
    /// thread of a tokio runtime. Only the first call has an effect.
    ///
    /// # Errors
    ///
    /// [`TaskError::Cluster`] if the server fails, or what it has is damaged.
    pub fn share(&self, bucket: Arc<dyn StateBucket>, key: String, session: Option<String>) -> Result<(), TaskError> {
        if self.shared.get().is_none() {
            let board = SharedBoard::begin(&self.board, bucket, key)?;
            let _ = self.shared.set(SharedTaskBoard { board, session });
        }
        Ok(())
    }

    /// Takes over the changes that other hosts made before this call, which arrive by themselves only some time later. Does
    /// nothing on a board of this host alone.
    ///
    /// # Errors
    ///
    /// [`TaskError::Cluster`] if the server fails, or what it has is damaged; the board can be read as it was.
    pub async fn refresh(&self) -> Result<(), TaskError> {
        match self.shared.get() {
            Some(shared) => Ok(shared.board.refresh().await?),
            None => Ok(()),
        }
    }

    /// Returns `true` if several hosts have the board: then a change waits for the server.
    pub fn is_shared(&self) -> bool {
        self.shared.get().is_some()
    }

    /// Returns `true` if an agent of this host is the assignee of a task.
    pub fn is_assigned_to(&self, id: &str, agent: &str) -> bool {
        self.get(id).is_ok_and(|task| task.assignee == Some(self.name_of(agent)))
    }

    fn name_of(&self, agent: &str) -> String {
        member_name(agent, self.shared.get().and_then(|shared| shared.session.as_deref()))
    }

    /// Replaces the content with the result of replaying these changes on an empty board. The change callback is not called
    /// for them. Assignees keep their tasks and can claim them again.
    ///
    /// # Errors
    ///
    /// [`StateRestoreError`] if the changes are inconsistent; the board is unchanged then.
    pub fn restore(&self, changes: impl IntoIterator<Item = Task>) -> Result<(), StateRestoreError> {
        let mut restored = TaskBoardState::restored(changes)?;
        self.board.set(|board| {
            restored.hook = std::mem::take(&mut board.hook);
            *board = restored;
        });
        Ok(())
    }

    /// Adds a pending task without an assignee.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if it depends on an unknown task or exceeds a limit.
    pub fn create(&self, task: NewTask, by: TaskActor<'_>) -> Result<Task, TaskError> {
        let name = self.actor_name(by);
        self.change(|board| board.create(task.clone(), actor(&name)))
    }

    /// Returns the task of this id.
    ///
    /// # Errors
    ///
    /// [`TaskError::Unknown`].
    pub fn get(&self, id: &str) -> Result<Task, TaskError> {
        self.board.read(|board| board.slot(id).map(|slot| slot.task.clone()))
    }

    /// Returns the tasks that pass the filter, in order of creation.
    pub fn list(&self, filter: &TaskFilter) -> Vec<Task> {
        let mut filter = filter.clone();
        // An agent of this host, or one of another host by its whole name.
        let names = filter.assignee.take().map(|agent| [self.name_of(&agent), agent]);
        let mut tasks = self.board.read(|board| board.list(&filter));
        if let Some(names) = names {
            tasks.retain(|task| task.assignee.as_ref().is_some_and(|assignee| names.contains(assignee)));
        }
        tasks
    }

    /// Returns the unfinished dependencies of a pending task; empty if it can be claimed or is not pending.
    ///
    /// # Errors
    ///
    /// [`TaskError::Unknown`].
    pub fn why_blocked(&self, id: &str) -> Result<Vec<TaskBlocker>, TaskError> {
        self.board.read(|board| board.slot(id).map(|slot| board.blockers(&slot.task)))
    }

    /// Makes an agent the assignee of a pending task. A repeated claim by the same agent changes nothing; of several agents
    /// one succeeds.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if the task has unfinished dependencies, has ended, or is assigned to another agent.
    pub fn claim(&self, id: &str, agent: &str) -> Result<ClaimedTask, TaskError> {
        let agent = self.name_of(agent);
        self.change(|board| board.claim(id, &agent, None))
    }

    /// Like [`claim`](Self::claim), for the host: `agent` may also take over a task that is assigned to `from`, which
    /// delegates it or hands it over. A task of a third agent stays with that agent.
    ///
    /// # Errors
    ///
    /// The errors of [`claim`](Self::claim).
    pub fn claim_for(&self, id: &str, agent: &str, from: &str) -> Result<ClaimedTask, TaskError> {
        let (agent, from) = (self.name_of(agent), self.name_of(from));
        self.change(|board| board.claim(id, &agent, Some(&from)))
    }

    /// Changes a task: all requested changes are made, or none.
    ///
    /// # Errors
    ///
    /// [`TaskError`] if `by` has no permission, the transition is not allowed, a dependency cycle would arise, or a limit is
    /// exceeded.
    pub fn update(&self, id: &str, update: TaskUpdate, by: TaskActor<'_>) -> Result<TaskStatusReport, TaskError> {
        let name = self.actor_name(by);
        self.change(|board| board.update(id, update.clone(), actor(&name)))
    }

    /// Changes only the status. Setting the current status is not an error.
    ///
    /// # Errors
    ///
    /// The errors of [`update`](Self::update).
    pub fn set_status(&self, id: &str, status: TaskStatus, by: TaskActor<'_>) -> Result<TaskStatusReport, TaskError> {
        self.update(id, TaskUpdate { status: Some(status), ..TaskUpdate::default() }, by)
    }

    /// Cancels a task that has not ended, and notifies its assignee: see [`canceled`](Self::canceled).
    ///
    /// # Errors
    ///
    /// [`TaskError`] if `by` has no permission or the task has ended.
    pub fn cancel(&self, id: &str, by: TaskActor<'_>) -> Result<TaskStatusReport, TaskError> {
        let name = self.actor_name(by);
        self.change(|board| board.cancel(id, actor(&name)))
    }

    /// Waits until a task has ended with any status.
    ///
    /// # Errors
    ///
    /// [`TaskError::Unknown`]; [`TaskError::Unclaimed`] once it was without an assignee for [`limits::TASK_UNCLAIMED`]
    /// during the wait.
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
            // Waits until the task is claimed, even if it was given back at once, or until it ends.
            let taken = self.board.until(|board| match board.slot(id) {
                Ok(slot) if slot.task.status == TaskStatus::Pending && slot.unassigned_since == since => None,
                _ => Some(()),
            });
            if timeout_at(since.max(started) + limits::TASK_UNCLAIMED, taken).await.is_err() {
                return Err(TaskError::Unclaimed { id: id.into(), blockers: self.why_blocked(id)? });
            }
        }
    }

    /// Waits until a task is canceled, whereupon its assignee should stop. Returns at once if it is canceled.
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

    /// Returns the revision, which grows with each change of the board.
    pub fn revision(&self) -> u64 {
        self.board.revision()
    }

    /// Waits until the board has changed since `revision`; returns the new revision.
    pub async fn changed(&self, revision: u64) -> u64 {
        self.board.changed(revision).await
    }

    /// Applies a change in the name of this handle's author.
    fn change<R>(&self, change: impl Fn(&mut TaskBoardState) -> Result<R, TaskError>) -> Result<R, TaskError> {
        if let Some(shared) = self.shared.get() {
            return shared.board.document.change(self.author.as_ref(), change);
        }
        self.board.change(|board| {
            board.hook.author = self.author.clone();
            change(board)
        })
    }

    /// Returns the name of an actor on the board; `None` for the host.
    fn actor_name(&self, by: TaskActor<'_>) -> Option<String> {
        match by {
            TaskActor::Host => None,
            TaskActor::Agent(agent) => Some(self.name_of(agent)),
        }
    }
}

fn actor(name: &Option<String>) -> TaskActor<'_> {
    name.as_deref().map_or(TaskActor::Host, TaskActor::Agent)
}

/// The state of a watched task.
enum WatchedTaskState {
    Ended(Task),
    Unassigned(Instant),
}
