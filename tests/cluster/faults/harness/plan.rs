//! The size of a trial.

use std::{error::Error, time::Duration};

/// A failure of the trial itself.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The size of a trial.
#[derive(Debug, Clone)]
pub struct FaultPlan {
    /// The number of runs.
    pub runs: usize,
    /// The seed from which the faults follow.
    pub seed: u64,
    /// The number of servers, of which each keeps all messages.
    pub servers: usize,
    /// The number of workers.
    pub workers: usize,
    /// The number of runs that a worker does at once.
    pub jobs: usize,
    /// The lease of the namespace.
    pub lease: Duration,
    /// The time that the model takes for a reply.
    pub thinking: Duration,
    /// The time for which faults happen, unless all runs end sooner.
    pub disturbed: Duration,
    /// `true` if agents on other workers and boards are part of it.
    pub has_places: bool,
    /// `true` if lines on standard error say how far it is.
    pub shows_progress: bool,
}

impl FaultPlan {
    /// Returns the plan of a short trial, which takes less than a minute.
    pub fn short() -> Self {
        Self {
            runs: 40,
            // Its first ten faults are of ten kinds, among them a clock that jumps back and a full disk.
            seed: 238,
            servers: 1,
            workers: 3,
            jobs: 4,
            lease: Duration::from_secs(4),
            thinking: Duration::from_millis(500),
            disturbed: Duration::from_secs(25),
            has_places: true,
            shows_progress: false,
        }
    }
}
