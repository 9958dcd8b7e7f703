//! The runs of a namespace, from their submission to their end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_nats::jetstream::kv::Watch;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use shelly_core::limits;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles, random_token},
    millis_since_epoch,
    run_bus::{RunCommand, command_subject, seal_command},
    run_entry::{QueuedRunEnd, RunEndState, RunEntry, RunPhase, StoredRun},
    run_offer::{RunOffer, run_take_task},
    run_spec::{QueueName, RunPriority, RunSpec, not_an_id},
    run_streams::{NAME_SEPARATOR, ScannedValue},
    run_taking::{LeftRunPolicy, WorkerIdentity},
    shared_connection::SharedConnection,
    taken_run::TakenRun,
    unreadable_runs::UnreadableRuns,
};

/// The runs of a namespace. Clones share one connection.
#[derive(Debug, Clone)]
pub struct RunQueue {
    shared: SharedConnection,
    /// The number of looks at the queues, by which they take turns.
    turn: Arc<AtomicU64>,
}

/// The result of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission {
    /// The run is new.
    New,
    /// The run was submitted before.
    Known,
}

/// The length of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDepth {
    /// The priority of its runs.
    pub priority: RunPriority,
    /// The labels that its runs ask for.
    pub labels: BTreeSet<String>,
    /// The runs that no worker was offered yet.
    pub waiting: u64,
    /// The runs at work, and those that were given back with a delay.
    pub taken: u64,
}

/// The runs of a namespace that a host can read, and a count of the others.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunListing {
    /// The newest runs come first.
    pub runs: Vec<RunEntry>,
    /// The runs whose entries cannot be read.
    pub unreadable: UnreadableRuns,
}

impl RunQueue {
    pub(crate) fn new(shared: SharedConnection) -> Self {
        Self { shared, turn: Arc::default() }
    }

    pub(crate) fn shared(&self) -> &SharedConnection {
        &self.shared
    }

    /// Submits a run. Submitting the same run again does nothing, so a submitter that does not know whether it succeeded
    /// repeats it.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Conflict`] if another run has this id, [`ClusterError::Invalid`] and [`ClusterError::TooLarge`] as
    /// [`RunSpec::check`], [`ClusterError::Refused`] if the queue is full, and if the server fails: then the run may be
    /// submitted or not.
    pub async fn submit(&self, spec: RunSpec) -> Result<Submission, ClusterError> {
        spec.check()?;
        let place = format!("run {}", spec.id);
        let task = |handles: ClusterHandles| async move { handles.submit_run(spec).await };
        self.shared.call("submit", &place, task).await
    }

    /// Returns the entry of a run; `None` if there is no such run.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Newer`] or another case if the entry cannot be read, and if the server fails.
    pub async fn entry(&self, id: &str) -> Result<Option<RunEntry>, ClusterError> {
        let id = checked(id)?;
        let place = format!("run {id}");
        let task =
            |handles: ClusterHandles| async move { Ok(handles.stored_run(&id).await?.map(|(stored, _)| stored.entry)) };
        self.shared.call("read", &place, task).await
    }

    /// Returns the newest runs by their time of submission, at most `most` and [`limits::CLUSTER_RUNS_LISTED`], and no more
    /// than [`limits::CLUSTER_LIST_BYTES`] of them. Entries that cannot be read are left out.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn list(&self, most: usize) -> Result<Vec<RunEntry>, ClusterError> {
        Ok(self.listing(most).await?.runs)
    }

    /// Returns the runs of [`RunQueue::list`], and a count of those whose entries cannot be read.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn listing(&self, most: usize) -> Result<RunListing, ClusterError> {
        let task = move |handles: ClusterHandles| async move { handles.list_runs(most).await };
        self.shared.call("list the runs of", &self.shared.options().namespace, task).await
    }

    /// Returns the entry of a run as it is and after each change; changes that follow one another quickly may be one.
    /// The stream ends after the end of the run, if the run is removed, and after an error. It survives a server that is
    /// away for a while.
    ///
    /// # Errors
    ///
    /// [`ClusterError::NotFound`], and if the server fails.
    pub async fn watch(&self, id: &str) -> Result<BoxStream<'static, Result<RunEntry, ClusterError>>, ClusterError> {
        let id = checked(id)?;
        let not_found = || ClusterError::NotFound { what: format!("run {id}") };
        self.entry(&id).await?.ok_or_else(not_found)?;
        let connection = self.shared.get().await?;
        let (sender, receiver) = mpsc::channel(1);
        let task = connection.spawn(watch_run(connection.handles().clone(), id, sender));
        // The connection lives as long as the stream.
        let state = (receiver, task, connection);
        let next = |mut state: (mpsc::Receiver<_>, Option<AbortOnDropHandle<()>>, Arc<_>)| async move {
            state.0.recv().await.map(|entry| (entry, state))
        };
        Ok(stream::unfold(state, next).boxed())
    }

    /// Waits for the end of a run.
    ///
    /// # Errors
    ///
    /// [`ClusterError::NotFound`] if there is no such run, or if it is removed, and if the server fails.
    pub async fn ended(&self, id: &str) -> Result<QueuedRunEnd, ClusterError> {
        let mut entries = self.watch(id).await?;
        while let Some(entry) = entries.next().await {
            if let RunPhase::Ended(ending) = entry?.phase {
                return Ok(ending);
            }
        }
        Err(ClusterError::NotFound { what: format!("run {id}") })
    }

    /// Cancels a run and returns its entry: one that waits ends at once, one at work is asked to stop, and one that has
    /// ended stays as it is.
    ///
    /// # Errors
    ///
    /// [`ClusterError::NotFound`], and if the server fails.
    pub async fn cancel(&self, id: &str) -> Result<RunEntry, ClusterError> {
        let id = checked(id)?;
        let place = format!("run {id}");
        let task = |handles: ClusterHandles| async move { handles.cancel_run(&id).await };
        self.shared.call("cancel", &place, task).await
    }

    /// Removes the entries of runs that ended longer ago than this, and returns their number. The clock of the server
    /// counts: that of this host may be wrong.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn remove_ended(&self, older_than: Duration) -> Result<usize, ClusterError> {
        let task = move |handles: ClusterHandles| async move { handles.remove_ended(older_than).await };
        self.shared.call("remove runs of", &self.shared.options().namespace, task).await
    }

    /// Returns the queues and their lengths, those of high priority first.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] if the server fails.
    pub async fn depths(&self) -> Result<Vec<QueueDepth>, ClusterError> {
        let task = |handles: ClusterHandles| async move { handles.queue_depths().await };
        self.shared.call("read the queues of", &self.shared.options().namespace, task).await
    }

    /// Takes a run that this worker may have; waits for one at most for this time. If the returned future is dropped, a run
    /// that was just taken is given back.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Invalid`] if the id or a label of the worker is not one, and if the server fails.
    pub async fn take(&self, worker: &WorkerIdentity, wait: Duration) -> Result<Option<TakenRun>, ClusterError> {
        Ok(self.offer(worker, wait, LeftRunPolicy::Take).await?.and_then(RunOffer::taken))
    }

    /// Looks once at the queues for a run that this worker may have. A run whose worker seems to have died is returned
    /// before it is taken: a worker with several free places waits for the workers of several such runs at the same time.
    ///
    /// # Errors
    ///
    /// The errors of [`RunQueue::take`].
    pub async fn next_offer(&self, worker: &WorkerIdentity) -> Result<Option<RunOffer>, ClusterError> {
        self.offer(worker, Duration::ZERO, LeftRunPolicy::Report).await
    }

    async fn offer(
        &self,
        worker: &WorkerIdentity,
        wait: Duration,
        policy: LeftRunPolicy,
    ) -> Result<Option<RunOffer>, ClusterError> {
        worker.check()?;
        let connection = self.shared.get().await?;
        let (worker, turn) = (worker.clone(), self.turn.fetch_add(1, Ordering::Relaxed));
        let abandoned = CancellationToken::new();
        let _abandon = abandoned.clone().drop_guard();
        let of_task = Arc::clone(&connection);
        let task = async move {
            let found = of_task.handles().find_run((&worker, policy), turn, wait, &abandoned).await?;
            Ok(found.map(|found| RunOffer::new(of_task, worker, found)))
        };
        let offer = run_take_task(&connection, task).await;
        offer.map_err(|error| error.in_cluster("take a run of", &self.shared.options().namespace))
    }
}

/// Checks the id of a run, which becomes a key.
fn checked(id: &str) -> Result<String, ClusterError> {
    match RunSpec::is_id(id) {
        true => Ok(id.to_owned()),
        false => Err(not_an_id("run", id)),
    }
}

/// Sends the entry of a run and its changes until the run ends or nobody listens.
async fn watch_run(handles: ClusterHandles, id: String, sender: mpsc::Sender<Result<RunEntry, ClusterError>>) {
    let (mut watch, mut seen) = (None, 0);
    loop {
        // The announcements begin before the entry is read, so that no change falls in between.
        if watch.is_none() {
            watch = handles.watch_entry(&id).await;
        }
        let found = handles.stored_run(&id).await;
        match found.map_err(|error| error.in_cluster("watch", &format!("run {id}"))) {
            Ok(Some((_, revision))) if revision == seen => {}
            Ok(Some((stored, revision))) => {
                seen = revision;
                let is_ended = stored.entry.ending().is_some();
                if sender.send(Ok(stored.entry)).await.is_err() || is_ended {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                let _ = sender.send(Err(error)).await;
                return;
            }
        }
        // An announcement may be lost with the server: now and then the entry is read without one.
        let announced = async {
            match &mut watch {
                Some(watch) => watch.next().await.is_some_and(|change| change.is_ok()),
                None => std::future::pending().await,
            }
        };
        let is_alive = tokio::select! {
            () = sender.closed() => return,
            announced = timeout(limits::CLUSTER_WATCH_CHECK, announced) => announced.unwrap_or(true),
        };
        if !is_alive {
            watch = None;
            tokio::time::sleep(limits::CLUSTER_RETRY_PAUSE).await;
        }
    }
}

/// The newest runs among those that were added, within the bounds of a list.
struct NewestRuns {
    most: usize,
    /// Each entry with the bytes of its value, by the time of submission and the id.
    runs: BTreeMap<(u64, String), (RunEntry, usize)>,
    /// The bytes of all values.
    bytes: usize,
}

impl NewestRuns {
    /// Creates a list of at most `most` runs and [`limits::CLUSTER_RUNS_LISTED`].
    fn new(most: usize) -> Self {
        Self { most: most.min(limits::CLUSTER_RUNS_LISTED), runs: BTreeMap::new(), bytes: 0 }
    }

    /// Adds a run whose value has this many bytes, and removes the oldest runs for which there is no room.
    fn add(&mut self, entry: RunEntry, bytes: usize) {
        let order = (millis_since_epoch::of(entry.spec.submitted), entry.spec.id.clone());
        self.bytes += bytes;
        // One that changes meanwhile is read twice, and the later one counts.
        if let Some((_, before)) = self.runs.insert(order, (entry, bytes)) {
            self.bytes -= before;
        }
        while self.runs.len() > self.most || self.bytes > limits::CLUSTER_LIST_BYTES {
            let Some((_, (_, removed))) = self.runs.pop_first() else { break };
            self.bytes -= removed;
        }
    }

    /// Returns the runs, the newest first.
    fn into_list(self) -> Vec<RunEntry> {
        self.runs.into_values().rev().map(|(entry, _)| entry).collect()
    }
}

impl ClusterHandles {
    async fn watch_entry(&self, id: &str) -> Option<Watch> {
        let streams = self.run_streams().await.ok()?;
        timeout(limits::CLUSTER_CALL, streams.entries.watch(id)).await.ok()?.ok()
    }

    /// Writes the entry, then the message. Whatever dies in between, the run is neither lost nor done twice: the same
    /// submission again, or [`ClusterHandles::repair_queue`] of any worker, puts the message.
    async fn submit_run(&self, spec: RunSpec) -> Result<Submission, ClusterCallError> {
        let streams = self.run_streams().await?;
        let id = spec.id.clone();
        let value = Bytes::from(StoredRun::new(spec.clone()).stamped(random_token()?));
        let value = self.seal_run(&id, value)?;
        for _ in 0..limits::CLUSTER_CHANGE_TRIES {
            if let Some(revision) = self.create(&streams.entries, &id, &value).await? {
                let queued = self.publish_run(&spec).await;
                if matches!(queued, Err(ClusterCallError::Cluster(ClusterError::Refused { .. }))) {
                    // The queue is full. The submitter hears it, so the run must not begin when there is room.
                    self.remove_run(&id, revision).await?;
                }
                return queued.map(|()| Submission::New);
            }
            // It may have been removed meanwhile.
            let Some((there, _)) = self.stored_run(&id).await? else { continue };
            if !there.entry.spec.is_same_run(&spec) {
                let reason = "another run has this id".into();
                return Err(ClusterError::Conflict { what: format!("run {id}"), reason }.into());
            }
            if there.entry.ending().is_none() {
                self.publish_run(&spec).await?;
            }
            return Ok(Submission::Known);
        }
        Err(ClusterCallError::Failed("others change the entry all the time".into()))
    }

    /// Asks for the end of a run.
    ///
    /// A run that waits ends here, and its message is acknowledged by the worker that is offered it. A worker that takes it
    /// at the same moment changes the same revision: one of both writes fails and looks again.
    async fn cancel_run(&self, id: &str) -> Result<RunEntry, ClusterCallError> {
        for _ in 0..limits::CLUSTER_CHANGE_TRIES {
            let not_found = || ClusterError::NotFound { what: format!("run {id}") };
            let (mut stored, revision) = self.stored_run(id).await?.ok_or_else(not_found)?;
            let is_at_work = match &stored.entry.phase {
                RunPhase::Ended(_) => return Ok(stored.entry),
                RunPhase::Queued { .. } => {
                    stored.entry.end(QueuedRunEnd::new(RunEndState::Cancelled));
                    false
                }
                RunPhase::Running { .. } => true,
            };
            let is_new = !stored.entry.cancel_requested;
            stored.entry.cancel_requested = true;
            if (is_at_work && !is_new) || self.store_run(&mut stored, revision).await?.is_some() {
                if is_at_work {
                    // The worker hears it at once; otherwise with its next heartbeat.
                    if let Ok((command, _)) = seal_command(&self.seals, id, &RunCommand::Cancel) {
                        let subject = command_subject(&self.options.namespace, id);
                        let client = self.context.client();
                        let _ = client.publish(subject, command).await;
                        // The process may end as soon as this returns.
                        let _ = timeout(limits::CANCEL_GRACE, client.flush()).await;
                    }
                }
                return Ok(stored.entry);
            }
        }
        Err(ClusterCallError::Failed("others change the entry all the time".into()))
    }

    /// Removes an entry if it has this revision. Unlike a key that is deleted, nothing of it stays in the bucket.
    pub async fn remove_run(&self, id: &str, revision: u64) -> Result<(), ClusterCallError> {
        let entries = &self.run_streams().await?.entries;
        let subject = format!("{}{id}", entries.prefix);
        // Of this subject the messages before the sequence: one of a run that was submitted since has a later one.
        let purge = || entries.stream.purge().sequence(revision.saturating_add(1)).filter(&subject).into_future();
        self.retry(purge, |_| false).await.map(drop).map_err(ClusterCallError::failed)
    }

    async fn list_runs(&self, most: usize) -> Result<RunListing, ClusterCallError> {
        let streams = self.run_streams().await?;
        let (mut newest, mut unreadable) = (NewestRuns::new(most), UnreadableRuns::default());
        let mut each = |found: ScannedValue| {
            match self.open_run(&found.key, &found.value) {
                Ok(stored) => newest.add(stored.entry, found.value.len()),
                Err(error) => unreadable.note(&found.key, &error),
            }
            true
        };
        self.scan(&streams.entries, 0, &mut each).await?;
        Ok(RunListing { runs: newest.into_list(), unreadable })
    }

    async fn remove_ended(&self, older_than: Duration) -> Result<usize, ClusterCallError> {
        let streams = self.run_streams().await?;
        let mut old = Vec::new();
        let mut each = |found: ScannedValue| {
            let parsed = self.open_run(&found.key, &found.value);
            let time = found.read.checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
            if parsed.is_ok_and(|stored| stored.entry.ending().is_some_and(|ending| ending.finished < time)) {
                old.push((found.key, found.revision));
            }
            true
        };
        self.scan(&streams.entries, 0, &mut each).await?;
        for (id, revision) in &old {
            self.remove_run(id, *revision).await?;
        }
        Ok(old.len())
    }

    async fn queue_depths(&self) -> Result<Vec<QueueDepth>, ClusterCallError> {
        let streams = self.run_streams().await?;
        let list = || async { streams.queue.consumers().take(limits::CLUSTER_QUEUES).try_collect::<Vec<_>>().await };
        let infos = self.retry(list, |_| false).await.map_err(ClusterCallError::failed)?;
        let mut all: Vec<(QueueName, u64, u64)> = infos
            .into_iter()
            .filter_map(|info| {
                let name = QueueName::parse(&info.name, NAME_SEPARATOR)?;
                Some((name, info.num_pending, info.num_ack_pending as u64))
            })
            .collect();
        all.sort();
        let depth = |(name, waiting, taken): (QueueName, u64, u64)| QueueDepth {
            priority: name.priority,
            labels: name.labels,
            waiting,
            taken,
        };
        Ok(all.into_iter().map(depth).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number and the oldest of the runs that a list keeps of so many, each of so many bytes.
    fn kept_of(count: usize, bytes: usize) -> (usize, String) {
        let mut newest = NewestRuns::new(usize::MAX);
        for n in (0..count).rev() {
            let submitted = SystemTime::UNIX_EPOCH + limits::CLUSTER_CALL * u32::try_from(n).unwrap();
            let spec = RunSpec { submitted, ..RunSpec::new(format!("a{n}"), "s", None) };
            newest.add(StoredRun::new(spec).entry, bytes);
        }
        let list = newest.into_list();
        assert_eq!(list[0].spec.id, format!("a{}", count - 1), "the newest is the first");
        (list.len(), list[list.len() - 1].spec.id.clone())
    }

    #[test]
    fn list_keeps_the_newest_runs_within_its_bounds() {
        let most = limits::CLUSTER_RUNS_LISTED;
        assert_eq!(kept_of(most, 1), (most, "a0".into()));
        assert_eq!(kept_of(most + 1, 1), (most, "a1".into()));
        let most = limits::CLUSTER_LIST_BYTES / limits::CLUSTER_RUN_BYTES;
        assert_eq!(kept_of(most, limits::CLUSTER_RUN_BYTES), (most, "a0".into()));
        assert_eq!(kept_of(most + 1, limits::CLUSTER_RUN_BYTES), (most, "a1".into()));
        let (mut newest, entry) = (NewestRuns::new(9), StoredRun::new(RunSpec::new("a", "s", None)).entry);
        (0..3).for_each(|_| newest.add(entry.clone(), limits::CLUSTER_LIST_BYTES));
        assert_eq!(newest.into_list(), [entry], "one that was read again has its bytes once");
    }
}
