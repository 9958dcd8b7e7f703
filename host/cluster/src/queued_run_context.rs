//! A run of the queue, as far as the agents in it depend on that.

use shelly_core::{capability::Ceiling, digest::Sha256Digest};
use tokio_util::sync::CancellationToken;

use super::{job_slot::JobSlot, run_spec::RunPriority};

/// The run of the queue to which the agents of a run belong. The default is that of a run that is not in the queue.
#[derive(Debug, Clone, Default)]
pub struct QueuedRunContext {
    /// The id of the run; `None`: it is not in the queue.
    pub run: Option<String>,
    /// The session of the run.
    pub session: Option<String>,
    /// The config bundle of the run; `None`: the worker's own config.
    pub bundle: Option<Sha256Digest>,
    /// The priority, which runs have too that this one submits.
    pub priority: RunPriority,
    /// The delegation depth of the agent that the run begins with.
    pub depth: u32,
    /// The bounds that the parent run sets on everything in the run.
    pub ceiling: Ceiling,
    /// The place among the jobs of the worker, which is free while the run waits for runs on other workers.
    pub slot: Option<JobSlot>,
    /// Cancelled when this host leaves the run to another one. The runs on other workers that it waits for go on then;
    /// whoever continues the run finds them. Otherwise they are cancelled when nobody waits for them any more.
    pub left: CancellationToken,
}

impl QueuedRunContext {
    /// Returns `true` if another host goes on with the run.
    pub(crate) fn is_left(&self) -> bool {
        self.left.is_cancelled()
    }
}
