//! Tasks for agents of other hosts: the part of a run that a model needs which is such an agent.

use std::{fmt, sync::Arc};

use super::RunState;
use crate::{
    agent::journal::{JournalRecord, RemoteTaskRecord},
    capability::{Budget, Ceiling},
    chat::Message,
    error::Fault,
    event::RunCx,
};

/// Returns what is left of the budget of the run to which this context belongs; no bounds outside of a run.
pub fn budget_left(cx: &RunCx) -> Budget {
    RunState::of_caller(cx).map(|me| me.budget_account.left()).unwrap_or_default()
}

/// Returns the upper bound on what the agents may do that the run of this context starts; no bound outside of a run.
pub fn ceiling_of(cx: &RunCx) -> Ceiling {
    RunState::of_caller(cx).map(|me| me.ceiling.clone()).unwrap_or_default()
}

/// Returns the task that this run gave to an agent of another host after this message of its conversation, before it was
/// interrupted.
pub fn remote_task(cx: &RunCx, entry: u64) -> Option<RemoteTaskRecord> {
    RunState::of_caller(cx)?.remote_task(entry)
}

/// Records a task for an agent of another host. Returns once the record would survive a loss of power; without a journal at
/// once.
///
/// # Errors
///
/// [`Fault::Other`] if the journal cannot be written.
pub async fn record_remote_task(cx: &RunCx, given: RemoteTaskRecord) -> Result<(), Fault> {
    let Some(me) = RunState::of_caller(cx) else { return Ok(()) };
    let mark = me.write(|| JournalRecord::GaveRemoteTask { given });
    me.kept(mark).await.map_err(|error| Fault::other(error.in_full()))
}

/// The run that gave a task to an agent of another host, for the end of the task: also after the request of the agent's
/// model was dropped.
#[derive(Clone)]
pub struct RemoteTaskOwner(Arc<RunState>);

impl RemoteTaskOwner {
    /// Returns the run to which this context belongs; `None` outside of a run.
    pub fn of(cx: &RunCx) -> Option<Self> {
        RunState::of_caller(cx).map(Self)
    }

    /// Charges what the task has cost to the budget of the run, as the cost of a child, and records that. Call it once for a
    /// task whose record has no cost yet.
    pub fn charge(&self, ended: RemoteTaskRecord) {
        // The records that follow depend on it, and a journal has no gaps.
        let _ = self.0.end_remote_task(ended);
    }

    /// Returns the messages to the run that it has not read.
    pub fn waiting_messages(&self) -> Vec<Message> {
        self.0.handle.inbox.waiting()
    }

    /// Records that the first of [these messages](Self::waiting_messages) were passed on to the other host, as many as
    /// `given` says: the run does not read them itself.
    pub fn pass_on(&self, given: RemoteTaskRecord) {
        self.0.handle.inbox.remove_first(given.passed_on);
        // One that is passed on and not recorded is read once more after an interruption.
        let _ = self.0.write(|| JournalRecord::GaveRemoteTask { given });
    }

    /// Does something that the end of the run waits for, at most [`limits::CANCEL_GRACE`](crate::limits::CANCEL_GRACE). It
    /// must be called in a runtime.
    pub fn before_end(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawned.spawn(work).detach());
    }
}

impl fmt::Debug for RemoteTaskOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteTaskOwner").field(&self.0.cx.agent).finish()
    }
}
