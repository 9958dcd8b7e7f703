//! Tasks for agents of other hosts: the part of a run that a model needs which is such an agent.

use super::RunState;
use crate::{
    agent::journal::{JournalRecord, RemoteTaskRecord},
    capability::Budget,
    error::Fault,
    event::RunCx,
};

/// Returns what is left of the budget of the run to which this context belongs; no bounds outside of a run.
pub fn budget_left(cx: &RunCx) -> Budget {
    RunState::of_caller(cx).map(|me| me.budget_account.left()).unwrap_or_default()
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
