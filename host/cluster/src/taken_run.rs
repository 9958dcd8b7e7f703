//! A run that a worker has taken.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Instant, SystemTime},
};

use async_nats::jetstream::{AckKind, message::Acker};
use bytes::Bytes;
use shelly_core::limits;
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterConnection, ClusterHandles},
    run_entry::{QueuedRunEnd, RunEndState, RunEntry, RunPhase},
};

/// A run that a worker has taken. A task keeps it by heartbeats until this is dropped. Dropping it writes nothing, as if the
/// host had died: after the lease another worker takes the run, which counts as a death.
pub struct TakenRun {
    connection: Arc<ClusterConnection>,
    entry: RunEntry,
    pub(crate) held: Arc<HeldRun>,
    lost: CancellationToken,
    cancelled: CancellationToken,
    pub(crate) heartbeat: Option<AbortOnDropHandle<()>>,
}

/// The facts by which a worker has a run.
pub(crate) struct HeldRun {
    pub id: String,
    pub attempt: u32,
    /// The value of the lease, which no other taker has.
    pub holder: String,
    pub lease_revision: AtomicU64,
    /// Answers the message of the queue.
    pub acker: Acker,
}

/// The answer of the server to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeartbeatOutcome {
    /// The worker has the run; `true` if it is to stop it.
    Held(bool),
    /// Another worker has it, or it has ended.
    Lost,
}

impl TakenRun {
    /// Creates the handle of a run whose entry says that this holder has it, and starts its heartbeats.
    pub(crate) fn new(connection: Arc<ClusterConnection>, entry: RunEntry, held: HeldRun) -> Self {
        let (held, lost, cancelled) = (Arc::new(held), CancellationToken::new(), CancellationToken::new());
        if entry.cancel_requested {
            cancelled.cancel();
        }
        let beats = keep(connection.handles().clone(), Arc::clone(&held), lost.clone(), cancelled.clone());
        let heartbeat = connection.spawn(beats);
        Self { connection, entry, held, lost, cancelled, heartbeat }
    }

    /// Returns the entry as it was when the run was taken.
    pub fn entry(&self) -> &RunEntry {
        &self.entry
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        &self.held.id
    }

    /// Returns the number of this attempt.
    pub fn attempt(&self) -> u32 {
        self.held.attempt
    }

    /// Returns the token that is cancelled when the run is lost: another worker has it, it was ended by somebody else, or no
    /// server was reached for longer than both the lease and the time for which calls are repeated. Then the run is to be
    /// dropped at once.
    ///
    /// While no server is reached, nobody else can take the run either, unless this host alone is cut off. Its session,
    /// which is fenced by the server, keeps it from doing anything twice until it knows.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Returns the token that is cancelled when somebody asks for the run to be cancelled.
    pub fn cancelled(&self) -> CancellationToken {
        self.cancelled.clone()
    }

    /// Adds a remark to the entry.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Lost`], or if the server fails.
    pub async fn warn(&self, warning: &str) -> Result<(), ClusterError> {
        let warning = warning.to_owned();
        self.change("change the entry of", move |entry| entry.add_warning(&warning)).await
    }

    /// Ends the run.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Lost`] if another worker has it or it has ended, or if the server fails. Then the run is not ended by
    /// this worker.
    pub async fn finish(self, ending: QueuedRunEnd) -> Result<(), ClusterError> {
        self.change("end", move |entry| entry.end(ending.clone())).await?;
        self.release(AckKind::Ack).await;
        Ok(())
    }

    /// Gives the run back to the queue, such as when the worker is told to stop. The next worker continues it.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Lost`] if another worker has it or it has ended, or if the server fails: then it goes back after the
    /// lease.
    pub async fn give_back(self) -> Result<(), ClusterError> {
        let change = |entry: &mut RunEntry| {
            entry.phase = RunPhase::Queued { waits_for: None };
            // This worker had accepted it.
            (entry.declined, entry.declines) = (None, 0);
        };
        self.change("give back", change).await?;
        self.release(AckKind::Nak(None)).await;
        Ok(())
    }

    /// Gives the run back because this worker has lost its session, which counts as a death. Returns `true` if it was the last
    /// one, and the run ended as poisoned.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] as [`TakenRun::give_back`].
    pub async fn give_back_lost(self, reason: &str) -> Result<bool, ClusterError> {
        let reason = shelly_core::error::cut(reason, limits::CLUSTER_REASON_CHARS / 2);
        // Only the worker that has the run counts deaths.
        let deaths = self.entry.deaths.saturating_add(1);
        let is_last = deaths >= limits::CLUSTER_RUN_DEATHS;
        let change = move |entry: &mut RunEntry| {
            entry.deaths = deaths;
            match is_last {
                true => {
                    let detail = format!("{deaths} workers died with the run, or lost it; the last one: {reason}");
                    entry.end(QueuedRunEnd::because(RunEndState::Poisoned, "poisoned", &detail));
                }
                false => entry.phase = RunPhase::Queued { waits_for: None },
            }
        };
        self.change("give back", change).await?;
        self.release(if is_last { AckKind::Ack } else { AckKind::Nak(None) }).await;
        Ok(is_last)
    }

    /// Gives the run back because this worker does not accept it. Returns `true` if no worker has accepted it for the time
    /// that the [options](super::ClusterOptions::decline) say, and it ended as refused.
    ///
    /// # Errors
    ///
    /// [`ClusterError`] as [`TakenRun::give_back`].
    pub async fn decline(self, reason: &str) -> Result<bool, ClusterError> {
        let reason = shelly_core::error::cut(reason, limits::CLUSTER_REASON_CHARS);
        // Not by the clock of this host, which may have jumped: the offers are a pause apart.
        let is_refused = self.entry.declines >= limits::CLUSTER_DECLINE_OFFERS;
        // The first ones soon: another worker may be there that accepts it.
        let most = self.connection.handles().options.decline / limits::CLUSTER_DECLINE_OFFERS;
        let pause = (most / 10).saturating_mul(2_u32.saturating_pow(self.entry.declines)).min(most);
        let change = move |entry: &mut RunEntry| {
            entry.all_declines = entry.refusals().saturating_add(1);
            match is_refused {
                true => entry.end(QueuedRunEnd::because(RunEndState::Refused, "not_accepted", &reason)),
                false => {
                    entry.phase = RunPhase::Queued { waits_for: Some(reason.clone()) };
                    entry.declined = entry.declined.or_else(|| Some(SystemTime::now()));
                    entry.declines = entry.declines.saturating_add(1);
                }
            }
        };
        self.change("give back", change).await?;
        let answer = if is_refused { AckKind::Ack } else { AckKind::Nak(Some(pause)) };
        self.release(answer).await;
        Ok(is_refused)
    }

    /// Gives the run back on the runtime of the connection: nobody is there to wait for it.
    pub(crate) fn give_back_alone(self) {
        let connection = Arc::clone(&self.connection);
        let giving = connection.spawn(async move { self.give_back().await });
        drop(giving.map(AbortOnDropHandle::detach));
    }

    async fn change(
        &self,
        doing: &'static str,
        change: impl Fn(&mut RunEntry) + Send + Sync + 'static,
    ) -> Result<(), ClusterError> {
        let held = Arc::clone(&self.held);
        let task = |handles: ClusterHandles| async move { handles.change_held(&held, change).await };
        let changed = self.connection.call((doing, &format!("run {}", self.held.id)), task).await;
        if matches!(changed, Err(ClusterError::Lost { .. })) {
            self.lost.cancel();
        }
        changed
    }

    /// Gives up the reservation, the lease and the message, after the entry was changed. What fails is made good by others:
    /// the lease ends by itself, the message is offered again, and whoever gets it removes the reservation.
    async fn release(mut self, answer: AckKind) {
        // A heartbeat after the release would take the lease again.
        if let Some(heartbeat) = self.heartbeat.take() {
            heartbeat.abort();
            let _ = heartbeat.await;
        }
        let held = Arc::clone(&self.held);
        let task = |handles: ClusterHandles| async move {
            let _ = timeout(limits::CLUSTER_CALL, handles.release_held(&held, answer)).await;
            Ok(())
        };
        let _ = self.connection.call(("release", &self.held.id), task).await;
    }
}

/// Keeps a run until it is lost.
async fn keep(handles: ClusterHandles, held: Arc<HeldRun>, lost: CancellationToken, cancelled: CancellationToken) {
    let interval = handles.options.lease / limits::CLUSTER_LEASE_REFRESHES;
    let patience = handles.options.lease.max(handles.options.retry);
    let (mut reached, mut pause) = (Instant::now(), interval);
    loop {
        sleep(pause).await;
        let left = patience.saturating_sub(reached.elapsed()).max(limits::CLUSTER_CALL);
        match timeout(left, handles.heartbeat(&held)).await {
            Ok(Ok(HeartbeatOutcome::Held(is_cancelled))) => {
                (reached, pause) = (Instant::now(), interval);
                if is_cancelled {
                    cancelled.cancel();
                }
            }
            Ok(Ok(HeartbeatOutcome::Lost)) => return lost.cancel(),
            Ok(Err(_)) | Err(_) if reached.elapsed() >= patience => return lost.cancel(),
            Ok(Err(_)) | Err(_) => pause = limits::CLUSTER_RETRY_PAUSE,
        }
    }
}

/// Returns the key of the lease on a run. No session's key has a dot.
pub(crate) fn run_lease_key(id: &str) -> String {
    format!("run.{id}")
}

impl ClusterHandles {
    /// Refreshes the lease on a run, and looks whether the worker still has it.
    ///
    /// The lease alone does not say so. A worker that was stopped for longer than the lease may find no lease, since its
    /// successor has ended the run and given the lease back. So the entry decides, and a lease that was taken anew for a run
    /// that is gone is given back. The lease comes first: while it is held, no other worker takes the run.
    pub async fn heartbeat(&self, held: &HeldRun) -> Result<HeartbeatOutcome, ClusterCallError> {
        let (key, holder) = (run_lease_key(&held.id), Bytes::from(held.holder.clone()));
        let revision = held.lease_revision.load(Ordering::Relaxed);
        let refreshed = match self.update(&self.leases, &key, &holder, revision).await? {
            // It may have run out without anybody else taking it, such as while the server was away.
            None => self.create(&self.leases, &key, &holder).await?,
            refreshed => refreshed,
        };
        let Some(revision) = refreshed else { return Ok(HeartbeatOutcome::Lost) };
        held.lease_revision.store(revision, Ordering::Relaxed);
        match self.stored_run(&held.id).await {
            Ok(Some((stored, _))) if stored.is_held_by(&held.holder) => {
                // A lost one is made up for by the next, or the message is offered to another worker, which sees the lease.
                let _ = held.acker.ack_with(AckKind::Progress).await;
                Ok(HeartbeatOutcome::Held(stored.entry.cancel_requested))
            }
            Err(ClusterCallError::Failed(reason)) => Err(ClusterCallError::Failed(reason)),
            // Ended, taken, removed, or rewritten in a form that this version does not read.
            _ => {
                self.release_run_lease(&held.id, &held.holder).await;
                Ok(HeartbeatOutcome::Lost)
            }
        }
    }

    /// Changes the entry of a run that the worker has.
    ///
    /// Only others who ask for a cancel, and the worker itself, change it meanwhile: then it is read and changed again. So
    /// an end that races with a cancel stands, and the cancel finds an ended run. A worker that lost the run finds another
    /// holder, or the end, and changes nothing.
    pub async fn change_held(
        &self,
        held: &HeldRun,
        change: impl Fn(&mut RunEntry) + Send + Sync,
    ) -> Result<(), ClusterCallError> {
        for _ in 0..limits::CLUSTER_CHANGE_TRIES {
            let lost = || ClusterError::Lost { run: held.id.clone() };
            let (mut stored, revision) = self.stored_run(&held.id).await?.ok_or_else(lost)?;
            if !stored.is_held_by(&held.holder) {
                return Err(lost().into());
            }
            change(&mut stored.entry);
            if self.store_run(&mut stored, revision).await?.is_some() {
                return Ok(());
            }
        }
        Err(ClusterCallError::Failed("others change the entry all the time".into()))
    }

    /// Gives up what a worker has of a run whose entry says that it no longer has it.
    ///
    /// The message is answered last, and only by the worker that changed the entry. An answer that was lost, or that comes
    /// when the message was offered to another worker already, does no harm: an acknowledged run has ended for good, and a
    /// message that is given back too late is offered to a worker that sees the lease of the one that has it.
    async fn release_held(&self, held: &HeldRun, answer: AckKind) {
        let is_ended = matches!(answer, AckKind::Ack);
        // Nobody has a run that has ended: a part that another worker reserved for it when that was late goes too.
        let holder = (!is_ended).then_some(held.holder.as_str());
        let removed = self.remove_reservation(&held.id, holder).await;
        self.release_run_lease(&held.id, &held.holder).await;
        // Whoever is offered an ended run removes its reservation; one that is acknowledged is offered to nobody.
        if removed.is_ok() || !is_ended {
            let _ = held.acker.double_ack_with(answer).await;
        }
    }

    /// Gives back a lease if this holder has it.
    pub async fn release_run_lease(&self, id: &str, holder: &str) {
        let key = run_lease_key(id);
        for _ in 0..limits::CLUSTER_LEASE_REFRESHES {
            match self.leader_value(&self.leases, &key).await {
                Ok(Some((value, revision))) if value == holder.as_bytes() => {
                    // A heartbeat that was on its way may have refreshed it in between.
                    if self.leases.delete_expect_revision(&key, Some(revision)).await.is_ok() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }
}

impl fmt::Debug for TakenRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakenRun")
            .field("id", &self.held.id)
            .field("attempt", &self.held.attempt)
            .finish_non_exhaustive()
    }
}
