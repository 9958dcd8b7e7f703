//! A namespace of a worker: its runs are taken as places of the worker are free.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{queued_run_work::perform, worker_state::ClusterWorkerState};
use crate::{
    cluster::{
        ClusterError, JobPlace, NamespaceJobs, QueueWatch, RunJob, RunOffer, TakenRun, WorkerPresence, WorkerState,
    },
    error::{ErrorKind, Report},
    limits,
};

/// Does the runs of a namespace until the worker is told to stop and none is at work any more.
///
/// # Errors
///
/// A [`Report`] if the server cannot be reached at the start, and the worker has no other namespace.
pub(super) async fn serve(worker: &Arc<ClusterWorkerState>, jobs: NamespaceJobs, is_alone: bool) -> Result<(), Report> {
    let Some((presence, watch)) = begin(worker, is_alone).await? else { return Ok(()) };
    let presence = Arc::new(presence);
    let _cleaning = AbortOnDropHandle::new(tokio::spawn(remove_old_runs(Arc::clone(worker))));
    let mut at_work = JoinSet::new();
    take_runs(worker, &jobs, (&presence, &watch), &mut at_work).await;
    presence.update(|entry| entry.state = WorkerState::Draining);
    worker.hosts.own().shut_down().await;
    // Each run is interrupted within this time, and its entry written.
    let ending = async { while at_work.join_next().await.is_some() {} };
    let _ = timeout(limits::CLUSTER_CALL + limits::SERVE_INTERRUPT_TIME, ending).await;
    // Whatever is left is given up as by a crash.
    drop(at_work);
    if let Some(presence) = Arc::into_inner(presence) {
        let _ = timeout(limits::CLUSTER_CALL, presence.leave()).await;
    }
    Ok(())
}

/// Connects, announces the worker, and tells its operator; `None` if it is told to stop before that succeeds.
async fn begin(worker: &ClusterWorkerState, is_alone: bool) -> Result<Option<(WorkerPresence, QueueWatch)>, Report> {
    let mut failures = 0;
    loop {
        let announced = async {
            let lease = worker.cluster.lease().await?;
            let watch = worker.cluster.runs().watch_messages().await?;
            Ok::<_, ClusterError>((worker.cluster.workers().announce(worker.entry()).await?, watch, lease))
        };
        let announced = tokio::select! {
            biased;
            () = worker.stop.cancelled() => return Ok(None),
            announced = announced => announced,
        };
        match announced {
            Ok((presence, watch, lease)) => {
                worker.note_begin(lease);
                return Ok(Some((presence, watch)));
            }
            Err(error) if is_alone => return Err(error.report()),
            Err(error) => {
                failures += 1;
                let from = match &error {
                    // It names the servers.
                    ClusterError::Unreachable { .. } => String::new(),
                    _ => format!(" from {}", worker.servers()),
                };
                worker.warn_of_failure(&format!("its runs cannot be taken{from}: {}", error.report()));
                if !pause(worker, failures).await {
                    return Ok(None);
                }
            }
        }
    }
}

/// Takes runs until the worker is told to stop.
async fn take_runs(
    worker: &Arc<ClusterWorkerState>,
    jobs: &NamespaceJobs,
    (presence, watch): (&Arc<WorkerPresence>, &QueueWatch),
    at_work: &mut JoinSet<()>,
) {
    // A run that waits for runs on other workers is at work no longer: those may come to this worker.
    let waiting = Arc::new(Semaphore::new(limits::CLUSTER_WAITING_RUNS));
    let mut failures = 0;
    loop {
        while at_work.try_join_next().is_some() {}
        let taken = tokio::select! {
            biased;
            () = worker.stop.cancelled() => return,
            taken = next_run(worker, jobs, watch) => taken,
        };
        match taken {
            Ok((place, offer, most)) => {
                failures = 0;
                worker.note_recovery();
                let (worker, presence) = (Arc::clone(worker), Arc::clone(presence));
                let job = RunJob::new(jobs.clone(), place, Arc::clone(&waiting));
                at_work.spawn(async move {
                    let Some(taken) = accept_offer(&worker, offer, most).await else { return };
                    let id = taken.id().to_owned();
                    worker.status.note_taken();
                    let _at_work = RunAtWork::begin(&worker, &presence, &id);
                    perform(&worker, taken, job.slot()).await;
                    drop(job);
                });
            }
            Err(report) => {
                failures += 1;
                worker.warn_of_failure(&format!("cannot take runs from {}: {}", worker.servers(), report.with_hint()));
                if !pause(worker, failures).await {
                    return;
                }
            }
        }
    }
}

/// Takes a run that was offered. Several whose workers seem to have died are taken at the same time, one in each place.
async fn accept_offer(worker: &ClusterWorkerState, offer: RunOffer, most: Duration) -> Option<TakenRun> {
    let left = match offer {
        RunOffer::Taken(run) => return Some(*run),
        RunOffer::Left(left) => left,
    };
    let id = left.id().to_owned();
    // A worker that is told to stop leaves it to others; a run that it had just taken is given back by the work on it.
    let failure = match timeout(most, left.take(&worker.stop)).await {
        Ok(Ok(taken)) => return taken,
        Ok(Err(error)) => error.report().with_hint(),
        Err(_) => format!("the server did not give it within {} s", most.as_secs()),
    };
    // It is about this run: the loop that takes runs says whether the namespace fails.
    worker.warn(&format!("cannot take over run {id} from {}: {failure}", worker.servers()));
    None
}

/// Waits for a run of the namespace, and for a place for it.
///
/// Returns them with the time within which the run must be taken. A place is asked for only when the server has answered that there are messages. So a namespace whose server is away keeps
/// no place from others, and one with nothing to do wants none.
async fn next_run(
    worker: &ClusterWorkerState,
    jobs: &NamespaceJobs,
    watch: &QueueWatch,
) -> Result<(JobPlace, RunOffer, Duration), Report> {
    let (runs, identity) = (worker.cluster.runs(), worker.identity());
    loop {
        if let Some(failure) = runs.repair_failure().await.map_err(|error| error.report())? {
            worker.warn(&failure.report().with_hint());
        }
        if runs.has_messages(&identity).await.map_err(|error| error.report())? {
            let most = take_time(worker.cluster.lease().await.map_err(|error| error.report())?);
            let place = jobs.acquire().await;
            match timeout(most, runs.next_offer(&identity)).await {
                Ok(Ok(Some(offer))) => return Ok((place, offer, most)),
                // They are at work, or others were faster.
                Ok(Ok(None)) => {}
                Ok(Err(error)) => return Err(error.report()),
                Err(_) => {
                    let what = format!("the server gave none within {} s", most.as_secs());
                    return Err(Report::new(ErrorKind::Run, what));
                }
            }
        }
        worker.note_recovery();
        watch.changed(pause_before_look()).await;
    }
}

/// Returns the pause before the next look at the queues, which is another one each time. Of workers that look in step, the
/// same one would always be the first to find a run that was given back.
fn pause_before_look() -> Duration {
    let mut random = [0];
    // Without random bytes it is the shortest pause.
    let _ = getrandom::fill(&mut random);
    limits::CLUSTER_TAKE_POLL / 2 + limits::CLUSTER_TAKE_POLL * u32::from(random[0]) / 256
}

/// Returns the time within which the server must give a run: one whose worker died is taken after parts of the lease.
fn take_time(lease: Duration) -> Duration {
    limits::CLUSTER_TAKE_TIME.max(lease / 2)
}

/// Waits before the next attempt at a namespace that failed so many times in a row; `false`: the worker is told to stop.
async fn pause(worker: &ClusterWorkerState, failures: u32) -> bool {
    tokio::select! {
        () = worker.stop.cancelled() => false,
        () = sleep(pause_after(failures)) => true,
    }
}

/// Returns the pause after so many failures in a row: each is twice as long as the one before.
fn pause_after(failures: u32) -> Duration {
    let times = 2_u32.saturating_pow(failures.saturating_sub(1));
    limits::CLUSTER_TAKE_PAUSE.saturating_mul(times).min(limits::CLUSTER_NAMESPACE_PAUSE)
}

/// Removes the entries of runs that ended long ago, now and then.
async fn remove_old_runs(worker: Arc<ClusterWorkerState>) {
    loop {
        if let Err(error) = worker.cluster.runs().remove_ended(limits::CLUSTER_ENDED_KEPT).await {
            worker.warn(&format!("cannot remove old runs: {}", error.report()));
        }
        sleep(limits::CLUSTER_CLEANUP).await;
    }
}

/// A run in the list of those at work, until it is dropped.
struct RunAtWork<'a> {
    worker: &'a ClusterWorkerState,
    presence: &'a WorkerPresence,
    id: &'a str,
}

impl<'a> RunAtWork<'a> {
    fn begin(worker: &'a ClusterWorkerState, presence: &'a WorkerPresence, id: &'a str) -> Self {
        let at_work = Self { worker, presence, id };
        at_work.note(true);
        at_work
    }

    fn note(&self, is_at_work: bool) {
        self.worker.note(self.id, is_at_work);
        let running = self.worker.running();
        self.presence.update(|entry| entry.running = running);
    }
}

impl Drop for RunAtWork<'_> {
    fn drop(&mut self) {
        self.note(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_of_a_dead_worker_can_be_taken_with_any_lease() {
        for lease in [limits::CLUSTER_LEASE_LEAST, limits::CLUSTER_LEASE, limits::CLUSTER_LEASE_CEILING] {
            // A lease that the server does not end, and then the workers that live.
            let waits = lease / limits::CLUSTER_LEASE_REFRESHES + lease / limits::CLUSTER_TAKEOVER_WAITS;
            assert!(waits < take_time(lease), "{lease:?}");
        }
        assert_eq!(take_time(limits::CLUSTER_LEASE), limits::CLUSTER_TAKE_TIME);
    }

    #[test]
    fn pauses_at_a_failing_namespace_grow_to_a_bound() {
        assert_eq!(pause_after(1), limits::CLUSTER_TAKE_PAUSE);
        assert_eq!(pause_after(3), limits::CLUSTER_TAKE_PAUSE * 4);
        assert!([6, 7, 100, u32::MAX].iter().all(|failures| pause_after(*failures) == limits::CLUSTER_NAMESPACE_PAUSE));
    }
}
