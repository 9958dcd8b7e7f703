use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    agent::journal::BoardTaskOutcome,
    state::{TaskActor, TaskBoard, TaskError, TaskStatus},
};

/// A claim on the board task that a delegation works on. If it is dropped unsettled, the board task has failed, since
/// nobody works on it.
pub(super) struct BoardTaskClaim {
    of: Option<(TaskBoard, String)>,
    /// The agent of this delegation that holds the task. A task that it gave back belongs to the delegation no more.
    holder: Mutex<Option<Arc<str>>>,
}

impl BoardTaskClaim {
    /// Creates the claim of a delegation on the task `id` of a board, if there are both.
    pub fn new(board: Option<TaskBoard>, id: Option<String>) -> Self {
        Self { of: board.zip(id), holder: Mutex::default() }
    }

    /// Claims the board task for an agent of this delegation, in the name of the agent `from` that gave it the task.
    pub fn claim(&self, instance: &Arc<str>, from: &str) -> Result<(), String> {
        let Some((board, id)) = &self.of else { return Ok(()) };
        board.claim_for(id, instance, from).map_err(|error| error.to_string())?;
        *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(instance));
        Ok(())
    }

    /// Restores the claim of an agent that held the task when the delegating run was interrupted.
    pub fn reclaim(&self, instance: &Arc<str>) {
        let has_it = |(board, id): &(TaskBoard, String)| board.is_assigned_to(id, instance);
        if self.of.as_ref().is_some_and(has_it) {
            *self.holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(instance));
        }
    }

    /// Returns the outcome for the board task if the delegation ends with `status`.
    pub fn outcome(&self, status: TaskStatus) -> Option<BoardTaskOutcome> {
        let holder = self.holder.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let ((_, id), holder) = self.of.clone().zip(holder)?;
        Some(BoardTaskOutcome { id, holder, status })
    }

    /// Waits until the task is cancelled on the board.
    pub async fn cancelled(&self) {
        match &self.of {
            // A task that does not exist is refused when it is claimed.
            Some((board, id)) if Box::pin(board.canceled(id)).await.is_ok() => {}
            _ => std::future::pending().await,
        }
    }

    pub fn settle(mut self, status: TaskStatus) -> Result<(), TaskError> {
        self.set_status(status)
    }

    fn set_status(&mut self, status: TaskStatus) -> Result<(), TaskError> {
        let holder = self.holder.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(((board, id), holder)) = self.of.take().zip(holder) else { return Ok(()) };
        board.set_status(&id, status, TaskActor::Agent(&holder)).map(drop)
    }
}

impl Drop for BoardTaskClaim {
    fn drop(&mut self) {
        // It may have been canceled, or another agent may hold it by now.
        let _ = self.set_status(TaskStatus::Failed);
    }
}
