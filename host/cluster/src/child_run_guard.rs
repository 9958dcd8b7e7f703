//! The end of a run on a worker whose parent run no longer waits for it.

use std::sync::Arc;

use futures_util::{StreamExt, future::join_all};
use shelly_core::{
    agent::{RemoteTaskOwner, journal::RemoteTaskRecord},
    capability::BudgetUsage,
    limits,
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{
    child_runs::ChildRuns,
    queued_run_context::QueuedRunContext,
    run_entry::{QueuedRunEnd, RunPhase},
};

/// Cancels a run on a worker when it is dropped before that run is over, and charges what it has cost until then.
pub(crate) struct ChildRunGuard {
    pub runs: Arc<dyn ChildRuns>,
    pub cancellations: TaskTracker,
    pub owner: Option<RemoteTaskOwner>,
    pub parent: QueuedRunContext,
    /// `None` once the run is over.
    pub given: Option<RemoteTaskRecord>,
}

impl Drop for ChildRunGuard {
    fn drop(&mut self) {
        let Some(mut given) = self.given.take() else { return };
        // Another worker goes on with the parent run, and finds this one.
        if self.parent.is_left() {
            return;
        }
        // Without a runtime nothing can be sent.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (runs, owner) = (Arc::clone(&self.runs), self.owner.take());
        let (done, is_done) = oneshot::channel::<()>();
        let charging = owner.clone();
        let cancelling = async move {
            let ended =
                timeout(limits::CANCEL_GRACE, cancelled(&*runs, given.task.as_deref().unwrap_or_default())).await;
            if let (Ok(Some(ending)), Some(owner), None) = (ended, charging, given.spent) {
                given.spent = Some(spent(&ending));
                owner.charge(given);
            }
            drop(done);
        };
        self.cancellations.spawn_on(cancelling, &runtime);
        if let Some(owner) = owner {
            owner.before_end(async move {
                let _ = is_done.await;
            });
        }
    }
}

/// Cancels the runs on workers that the run `parent` has left behind when it ended, and returns what they have spent. Those
/// that have not ended after [`limits::CLUSTER_CHILD_END`] are left out, and so are runs that `parent` has not submitted,
/// whatever somebody else calls them.
pub async fn spent_by_runs_left(runs: &dyn ChildRuns, parent: &str, ids: Vec<String>) -> BudgetUsage {
    let ending = |id: String| async move {
        let entry = runs.entry(&id).await.ok()??;
        let is_own = entry.spec.parent.is_some_and(|of| of.run.as_deref() == Some(parent));
        if is_own { cancelled(runs, &id).await } else { None }
    };
    let ids = ids.into_iter().take(limits::CLUSTER_WAITING_RUNS);
    let ends = join_all(ids.map(|id| timeout(limits::CLUSTER_CHILD_END, ending(id)))).await;
    let mut sum = BudgetUsage::default();
    for ending in ends.into_iter().filter_map(|end| end.ok().flatten()) {
        sum += spent(&ending);
    }
    sum
}

/// Cancels a run, waits for its end however long that takes, and returns it; `None`: it was never submitted, or the server
/// failed.
async fn cancelled(runs: &dyn ChildRuns, id: &str) -> Option<QueuedRunEnd> {
    let entry = runs.cancel(id).await.ok()?;
    if let RunPhase::Ended(ending) = entry.phase {
        return Some(ending);
    }
    loop {
        let mut entries = runs.watch(id).await.ok()?;
        while let Some(Ok(entry)) = entries.next().await {
            if let RunPhase::Ended(ending) = entry.phase {
                return Some(ending);
            }
        }
        // The run is watched again, as often as the server ends the watch.
        sleep(limits::CLUSTER_RETRY_PAUSE).await;
    }
}

/// Returns what a run has spent.
pub(crate) fn spent(ending: &QueuedRunEnd) -> BudgetUsage {
    BudgetUsage { usage: ending.usage, usd: ending.cost().unwrap_or_default(), tool_calls: ending.tool_calls }
}
