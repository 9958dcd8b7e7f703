//! Limits of agents that workers of a cluster run for a parent run on another host.

use std::time::Duration;

/// The maximum bytes of the JSON of a ceiling: a third of a run's spec, which holds it beside its task.
pub const CEILING_JSON_BYTES: usize = 64 << 10;
/// The maximum number of bounds in the JSON of a ceiling: two for each level of delegation, with room for teams.
pub const CEILING_JSON_BOUNDS: usize = 64;
/// The maximum number of runs of a namespace on a worker that wait for runs on other workers, beyond those at work: each
/// holds its session and its conversation in memory, and is listed in the entry of the worker.
pub const CLUSTER_WAITING_RUNS: usize = 128;
/// The time between two looks for open questions of a run on another worker: a person does not notice it.
pub const CLUSTER_QUESTION_PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of questions that a run on another worker may ask for one task: more are no conversation.
pub const CLUSTER_CHILD_QUESTIONS: usize = 100;
/// The time between two looks for a worker that can take a run.
pub const CLUSTER_PLACE_CHECK: Duration = Duration::from_secs(5);
/// The time for which a run waits while no worker has its labels: a worker that restarts is back within it.
pub const CLUSTER_PLACE_WAIT: Duration = Duration::from_secs(120);
/// The maximum time of a task on another worker, whatever its budget says.
pub const CLUSTER_CHILD_TIME: Duration = Duration::from_secs(24 * 60 * 60);
/// The maximum wait at the end of a run for the ends of runs on other workers that it has left behind, whose cost is charged
/// to it: their workers hear of the end at once, or when they renew their leases.
pub const CLUSTER_CHILD_END: Duration = Duration::from_secs(30);
/// The number of failures in a row after which a parent run no longer waits for a run on another worker: the server did not
/// answer in any of them for [`CLUSTER_RETRY`](super::CLUSTER_RETRY).
pub const CLUSTER_CHILD_FAILURES: u32 = 5;
