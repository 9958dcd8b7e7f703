//! The place of a run among the jobs of its worker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::job_places::{JobPlace, NamespaceJobs};

/// The place of a run among the jobs of its worker, which is free once this is dropped.
#[derive(Debug)]
pub struct RunJob(Arc<JobSlotState>);

/// The place of a run among the jobs of its worker, for the agents in the run. It is free while the run waits for runs on
/// other workers, so that a worker whose runs all wait can take the runs that they wait for.
#[derive(Debug, Clone)]
pub struct JobSlot(Weak<JobSlotState>);

#[derive(Debug)]
struct JobSlotState {
    /// The places of the worker.
    jobs: NamespaceJobs,
    /// One permit for each run that waits.
    waiting: Arc<Semaphore>,
    held: Mutex<HeldJob>,
    /// Held by whoever gets the run a place again: two waits that have ended would otherwise each get one.
    resuming: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct HeldJob {
    job: Option<JobPlace>,
    waiting: Option<OwnedSemaphorePermit>,
    /// The number of runs on other workers that it waits for.
    waits: usize,
}

/// A wait for a run on another worker. Dropping it ends the wait, also if it is cancelled: then the run, which goes on, gets
/// its place again once one is free.
#[derive(Debug)]
pub struct JobWait(Weak<JobSlotState>);

impl RunJob {
    /// Creates the place of a run that has the place `job` of `jobs`, and takes a permit of `waiting` while it waits.
    pub fn new(jobs: NamespaceJobs, job: JobPlace, waiting: Arc<Semaphore>) -> Self {
        let held = Mutex::new(HeldJob { job: Some(job), waiting: None, waits: 0 });
        Self(Arc::new(JobSlotState { jobs, waiting, held, resuming: tokio::sync::Mutex::default() }))
    }

    /// Returns the place for the agents in the run.
    pub fn slot(&self) -> JobSlot {
        JobSlot(Arc::downgrade(&self.0))
    }
}

impl JobSlot {
    /// Begins a wait; `None`: as many runs of the worker wait already as may. A run that held its place instead could wait
    /// for one that never gets a place.
    pub fn begin_wait(&self) -> Option<JobWait> {
        if let Some(state) = self.0.upgrade() {
            let mut held = state.held();
            if held.waiting.is_none() {
                held.waiting = Some(Arc::clone(&state.waiting).try_acquire_owned().ok()?);
            }
            held.waits += 1;
            held.job = None;
        }
        Some(JobWait(self.0.clone()))
    }
}

impl JobWait {
    /// Ends the wait. Returns once the run has its place again, or still waits for something else.
    pub async fn end(self) {
        let state = self.0.clone();
        drop(self);
        if let Some(state) = state.upgrade() {
            state.resume().await;
        }
    }
}

impl Drop for JobWait {
    fn drop(&mut self) {
        let Some(state) = self.0.upgrade() else { return };
        let needs_job = {
            let mut held = state.held();
            held.waits = held.waits.saturating_sub(1);
            if held.waits == 0 {
                held.waiting = None;
            }
            held.needs_job()
        };
        // Whoever ends the wait may be cancelled meanwhile. Without a runtime no run is at work.
        if needs_job && let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { state.resume().await });
        }
    }
}

impl JobSlotState {
    fn held(&self) -> MutexGuard<'_, HeldJob> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets the run its place again, unless it has one or waits for something else.
    async fn resume(&self) {
        let _resuming = self.resuming.lock().await;
        if !self.held().needs_job() {
            return;
        }
        let job = self.jobs.acquire().await;
        let mut held = self.held();
        if held.needs_job() {
            held.job = Some(job);
        }
    }
}

impl HeldJob {
    fn needs_job(&self) -> bool {
        self.waits == 0 && self.job.is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::poll;
    use tokio::task::yield_now;

    use super::*;
    use crate::job_places::JobPlaces;

    async fn taken(jobs: &JobPlaces, waiting: &Arc<Semaphore>) -> RunJob {
        let jobs = jobs.of("team-a");
        let job = jobs.acquire().await;
        RunJob::new(jobs, job, Arc::clone(waiting))
    }

    #[tokio::test]
    async fn place_is_free_while_the_run_waits() {
        let (jobs, waiting) = (JobPlaces::new(1), Arc::new(Semaphore::new(1)));
        let parent = taken(&jobs, &waiting).await;
        let (one, other) = (parent.slot().begin_wait().unwrap(), parent.slot().begin_wait().unwrap());
        // The run that it waits for has its place.
        let child = taken(&jobs, &waiting).await;
        assert!(child.slot().begin_wait().is_none(), "one run may wait, and one does");
        one.end().await;
        assert_eq!(jobs.free(), 0, "it waits for something else, and takes no place");
        let mut ended = pin!(other.end());
        assert!(poll!(&mut ended).is_pending(), "the place is taken");
        drop(child);
        ended.await;
        assert_eq!((jobs.free(), waiting.available_permits()), (0, 1));
        // Two waits end while another run has the place: one place is enough for both.
        let one = parent.slot().begin_wait().unwrap();
        let child = taken(&jobs, &waiting).await;
        let mut first = pin!(one.end());
        assert!(poll!(&mut first).is_pending());
        let mut second = pin!(parent.slot().begin_wait().unwrap().end());
        assert!(poll!(&mut second).is_pending());
        drop(child);
        first.await;
        assert!(poll!(&mut second).is_ready(), "it waits for a place that its own run has");
        // The agents of a run that has ended may still be there.
        let slot = parent.slot();
        drop(slot.begin_wait());
        drop(parent);
        assert!(slot.begin_wait().is_some());
        assert_eq!((jobs.free(), waiting.available_permits()), (1, 1), "nothing is held any more");
    }

    #[tokio::test]
    async fn cancelled_wait_leaves_no_run_without_a_place() {
        let (jobs, waiting) = (JobPlaces::new(1), Arc::new(Semaphore::new(1)));
        let parent = taken(&jobs, &waiting).await;
        let wait = parent.slot().begin_wait().unwrap();
        assert_eq!(jobs.free(), 1);
        drop(wait);
        yield_now().await;
        assert_eq!(jobs.free(), 0, "its run is at work");
        let wait = parent.slot().begin_wait().unwrap();
        let child = taken(&jobs, &waiting).await;
        {
            let mut ended = pin!(wait.end());
            assert!(poll!(&mut ended).is_pending(), "the place is taken");
        }
        drop(child);
        yield_now().await;
        assert_eq!(jobs.free(), 0, "the end of the wait was cancelled, its run was not");
        drop(parent);
        assert_eq!((jobs.free(), waiting.available_permits()), (1, 1));
    }
}
