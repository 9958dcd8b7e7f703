//! Taking runs from the queues of a namespace.

use std::{
    collections::BTreeSet,
    sync::atomic::AtomicU64,
    time::{Duration, Instant, SystemTime},
};

use async_nats::{
    Subscriber,
    jetstream::{
        AckKind, Message,
        consumer::{Consumer, FromConsumer, Info, pull},
        message::Acker,
    },
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use shelly_core::limits;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles, RunStreams, random_token},
    namespace_counters::{NamespaceLimits, ReservationOutcome},
    run_entry::{QueuedRunEnd, RunEndState, RunEntry, RunPhase, StoredRun},
    run_spec::{QueueName, RunPriority, RunSpec, check_labels, not_an_id},
    run_streams::NAME_SEPARATOR,
    taken_run::{HeldRun, run_lease_key},
};

/// The worker that takes runs.
#[derive(Debug, Clone)]
pub struct WorkerIdentity {
    /// The id, which no other worker of the namespace has, in the form of a run's id.
    pub id: String,
    /// The labels that the worker has: it takes runs that ask for some of them, or for none.
    pub labels: BTreeSet<String>,
    /// The limits of the namespace.
    pub limits: NamespaceLimits,
}

impl WorkerIdentity {
    /// Checks the id and the labels.
    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        match RunSpec::is_id(&self.id) {
            true => check_labels(&self.labels, limits::CLUSTER_WORKER_LABELS),
            false => Err(not_an_id("worker", &self.id)),
        }
    }
}

/// A queue with messages, and its name.
pub(crate) type NamedQueue = (QueueName, Consumer<pull::Config>);

/// The handling of runs whose workers seem to have died. To take one waits for its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftRunPolicy {
    Take,
    Report,
}

/// A run that a look at the queues has found.
pub(crate) enum FoundRun {
    /// The worker has it.
    Taken(Box<(RunEntry, HeldRun)>),
    /// The worker that had it seems to have died.
    Left(Box<OfferedMessage>),
}

/// A message of a queue, which offers a run. It says no more than an id: the entry decides.
pub(crate) struct OfferedMessage {
    id: String,
    subject: String,
    /// The number of times that it was offered.
    offers: i64,
    acker: Acker,
}

impl OfferedMessage {
    fn new(message: Message) -> Self {
        let offers = message.info().map_or(1, |info| info.delivered);
        let (message, acker) = message.split();
        let id = std::str::from_utf8(&message.payload).unwrap_or_default().to_owned();
        Self { id, subject: message.subject.into_string(), offers, acker }
    }

    /// Returns the id of the run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Answers the message. A lost answer means that it is offered once more after the lease.
    async fn answer(&self, answer: AckKind) {
        let _ = self.acker.ack_with(answer).await;
    }
}

impl ClusterHandles {
    /// Finds a run that this worker may have; waits for one for this time, or until nobody waits for the result.
    ///
    /// The queues are asked one after another, without waiting at any: a request that waits at the server may be answered
    /// after nobody listens, and the run would lie there until its lease ends.
    pub async fn find_run(
        &self,
        (worker, policy): (&WorkerIdentity, LeftRunPolicy),
        turn: u64,
        wait: Duration,
        abandoned: &CancellationToken,
    ) -> Result<Option<FoundRun>, ClusterCallError> {
        let streams = self.run_streams().await?;
        // New messages are seen as they are published. The server does not say when one is offered again.
        let mut published = match wait.is_zero() {
            true => None,
            false => self.context.client().subscribe(format!("{}>", self.queue_prefix())).await.ok(),
        };
        let (began, mut turn) = (Instant::now(), turn);
        loop {
            self.repair_now_and_then(streams);
            for (_, consumer) in ordered(self.queues(streams, &worker.labels).await?, turn) {
                if abandoned.is_cancelled() {
                    return Ok(None);
                }
                if let Some(found) = self.find_in(streams, &consumer, (worker, policy), abandoned).await? {
                    return Ok(Some(found));
                }
            }
            turn = turn.wrapping_add(1);
            let left = wait.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            let pause = left.min(limits::CLUSTER_TAKE_POLL);
            tokio::select! {
                () = abandoned.cancelled() => return Ok(None),
                () = wait_for_message(&mut published, pause) => {}
            }
        }
    }

    /// Returns the queues that have messages and that this worker may take from.
    pub async fn queues(
        &self,
        streams: &RunStreams,
        labels: &BTreeSet<String>,
    ) -> Result<Vec<NamedQueue>, ClusterCallError> {
        let list = || async { streams.queue.consumers().take(limits::CLUSTER_QUEUES).try_collect::<Vec<_>>().await };
        let infos = self.retry(list, |_| false).await.map_err(ClusterCallError::failed)?;
        let queue = |info: Info| {
            // Those waiting to be offered again are not counted apart from those at work.
            let has_messages = info.num_pending > 0 || info.num_ack_pending > 0;
            let name = QueueName::parse(&info.name, NAME_SEPARATOR)?;
            let config = pull::Config::try_from_consumer_config(info.config.clone()).ok()?;
            let is_for_worker = has_messages && name.labels.is_subset(labels);
            is_for_worker.then(|| (name, Consumer::new(config, info, self.context.clone())))
        };
        Ok(infos.into_iter().filter_map(queue).collect())
    }

    /// Takes a run that was found, after its worker had the time to come back; `None` if it is not to be taken, or if nobody
    /// wants it any more.
    pub async fn take_left(
        &self,
        worker: &WorkerIdentity,
        message: OfferedMessage,
        abandoned: &CancellationToken,
    ) -> Result<Option<Box<(RunEntry, HeldRun)>>, ClusterCallError> {
        let streams = self.run_streams().await?;
        match self.look_at_offer(streams, message, (worker, LeftRunPolicy::Take), abandoned).await? {
            Some(FoundRun::Taken(taken)) => Ok(Some(taken)),
            Some(FoundRun::Left(_)) | None => Ok(None),
        }
    }

    /// Finds the first run of a queue that this worker may have.
    async fn find_in(
        &self,
        streams: &RunStreams,
        consumer: &Consumer<pull::Config>,
        taker: (&WorkerIdentity, LeftRunPolicy),
        abandoned: &CancellationToken,
    ) -> Result<Option<FoundRun>, ClusterCallError> {
        for _ in 0..limits::CLUSTER_TAKE_SKIPPED {
            let fetch = async {
                let mut batch = consumer.fetch().max_messages(1).messages().await.ok()?;
                batch.try_next().await.ok().flatten()
            };
            // A queue that fails is asked again later.
            let Ok(Some(message)) = timeout(limits::CLUSTER_CALL, fetch).await else { return Ok(None) };
            let found = self.look_at_offer(streams, OfferedMessage::new(message), taker, abandoned).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Looks at a message of a queue; returns its run, or answers it.
    ///
    /// The lease decides between workers that are offered the same run at the same time, so that no two of them change the
    /// entry.
    async fn look_at_offer(
        &self,
        streams: &RunStreams,
        message: OfferedMessage,
        taker: (&WorkerIdentity, LeftRunPolicy),
        abandoned: &CancellationToken,
    ) -> Result<Option<FoundRun>, ClusterCallError> {
        if !RunSpec::is_id(&message.id) {
            // A later version may say more than an id.
            message.answer(AckKind::Nak(Some(limits::CLUSTER_UNREADABLE_DELAY))).await;
            return Ok(None);
        }
        let holder = random_token()?;
        match self.try_to_take(streams, &message, (taker, &holder), abandoned).await {
            Ok(OfferDecision::Taken(entry, lease_revision)) => {
                let attempt = match entry.phase {
                    RunPhase::Running { attempt, .. } => attempt,
                    RunPhase::Queued { .. } | RunPhase::Ended(_) => entry.starts,
                };
                let OfferedMessage { id, acker, .. } = message;
                let held = HeldRun { id, attempt, holder, lease_revision: AtomicU64::new(lease_revision), acker };
                Ok(Some(FoundRun::Taken(Box::new((*entry, held)))))
            }
            Ok(OfferDecision::Left) => Ok(Some(FoundRun::Left(Box::new(message)))),
            Ok(OfferDecision::Answered(answer)) => {
                self.release_run_lease(&message.id, &holder).await;
                message.answer(answer).await;
                Ok(None)
            }
            Err(error) => {
                // The message is offered again after the lease; nothing of this worker is to be in the way then.
                self.release_run_lease(&message.id, &holder).await;
                Err(error)
            }
        }
    }

    async fn try_to_take(
        &self,
        streams: &RunStreams,
        OfferedMessage { id, subject, offers, .. }: &OfferedMessage,
        ((worker, policy), holder): ((&WorkerIdentity, LeftRunPolicy), &str),
        abandoned: &CancellationToken,
    ) -> Result<OfferDecision, ClusterCallError> {
        let answered = |answer| Ok(OfferDecision::Answered(answer));
        let mut lease = None;
        for _ in 0..limits::CLUSTER_CHANGE_TRIES {
            let Some((value, revision)) = self.leader_value(&streams.entries, id).await? else {
                // It was removed after it had ended. A server that just became the leader may lag behind.
                return answered(match *offers < limits::CLUSTER_MISSING_OFFERS {
                    true => AckKind::Nak(Some(limits::CLUSTER_MISSING_DELAY)),
                    false => AckKind::Ack,
                });
            };
            let Ok(mut stored) = self.open_run(id, &value) else {
                // A later version may read it, a host with its key, or a person. It is not touched.
                return answered(AckKind::Nak(Some(limits::CLUSTER_UNREADABLE_DELAY)));
            };
            if stored.entry.ending().is_some() {
                // The worker that ended it could not say so, or it was cancelled while it waited.
                self.remove_reservation(id, None).await?;
                return answered(AckKind::Ack);
            }
            if self.queue_subject(&stored.entry.spec) != *subject {
                // The message is of an earlier run with this id, which was removed.
                self.publish_run(&stored.entry.spec).await?;
                return answered(AckKind::Ack);
            }
            if stored.is_held_by(holder) {
                // The reply to the write below was lost, and another change has followed.
                return Ok(OfferDecision::Taken(Box::new(stored.entry), lease.unwrap_or(0)));
            }
            if lease.is_none() {
                let key = run_lease_key(id);
                let is_held = match (&stored.entry.phase, policy) {
                    (RunPhase::Running { .. }, LeftRunPolicy::Report) => match self.is_lease_held(&key).await? {
                        true => true,
                        false => return Ok(OfferDecision::Left),
                    },
                    (RunPhase::Running { .. }, LeftRunPolicy::Take) => tokio::select! {
                        biased;
                        // Another worker gets it at once.
                        () = abandoned.cancelled() => return answered(AckKind::Nak(None)),
                        is_left = self.is_left_for_good(&key) => !is_left?,
                    },
                    (RunPhase::Queued { .. } | RunPhase::Ended(_), _) => false,
                };
                if !is_held {
                    lease = self.create_lease(&key, &Bytes::from(holder.to_owned())).await?;
                }
                if lease.is_none() {
                    // A worker has it: the message is offered although its heartbeats go on, such as when they were late or
                    // when an answer of an earlier worker came now. This is no death.
                    return answered(AckKind::Nak(Some(self.options.lease / limits::CLUSTER_LEASE_REFRESHES)));
                }
                // The entry may have been read before the lease was free.
                continue;
            }
            let before = stored.clone();
            let answer = self.decide(&mut stored, (worker, holder)).await?;
            if let Some(answer) = answer.filter(|_| stored == before) {
                // It still waits for the same.
                return answered(answer);
            }
            let is_taken = matches!(stored.entry.phase, RunPhase::Running { .. });
            if self.store_run(&mut stored, revision).await?.is_some() {
                if stored.entry.ending().is_some() {
                    // Nobody has it any more: what a worker that died with it had reserved goes too.
                    self.remove_reservation(id, None).await?;
                } else if !is_taken {
                    for former in [holder, before.holder.as_str()] {
                        self.remove_reservation(id, Some(former)).await?;
                    }
                }
                return match answer {
                    None => Ok(OfferDecision::Taken(Box::new(stored.entry), lease.unwrap_or(0))),
                    Some(answer) => answered(answer),
                };
            }
            // Somebody cancelled it in between: it is looked at again.
        }
        Err(ClusterCallError::Failed(format!("others change the entry of run {id} all the time")))
    }

    /// Gives the worker of a run, which seems to have died, the time to come back. Returns `true` if nobody had the lease with
    /// this key at the beginning.
    async fn is_left_for_good(&self, key: &str) -> Result<bool, ClusterCallError> {
        if !self.is_lease_free(key).await? {
            return Ok(false);
        }
        // After the server was away, all leases have ended, and workers that live renew theirs: they come first.
        sleep(self.options.lease / limits::CLUSTER_TAKEOVER_WAITS).await;
        Ok(true)
    }

    /// Changes the entry of a run whose lease this worker has, and returns the answer to the message; `None` if the run is
    /// taken.
    async fn decide(
        &self,
        stored: &mut StoredRun,
        (worker, holder): (&WorkerIdentity, &str),
    ) -> Result<Option<AckKind>, ClusterCallError> {
        let entry = &mut stored.entry;
        if entry.cancel_requested {
            // The worker that was to stop it is gone.
            entry.end(QueuedRunEnd::new(RunEndState::Cancelled));
            return Ok(Some(AckKind::Ack));
        }
        if matches!(entry.phase, RunPhase::Running { .. }) {
            // Its worker has neither renewed the lease nor given the run back.
            entry.deaths = entry.deaths.saturating_add(1);
            if entry.deaths >= limits::CLUSTER_RUN_DEATHS {
                let detail = format!("{} workers died with the run, or lost it", entry.deaths);
                entry.end(QueuedRunEnd::because(RunEndState::Poisoned, "poisoned", &detail));
                return Ok(Some(AckKind::Ack));
            }
        }
        let id = entry.spec.id.clone();
        let parent = entry.spec.parent.as_ref().and_then(|parent| parent.run.as_deref());
        match self.reserve(&id, parent, (&worker.id, holder), &entry.spec.budget, &worker.limits).await? {
            ReservationOutcome::Reserved => {
                entry.starts = entry.starts.saturating_add(1);
                let (worker, attempt) = (worker.id.clone(), entry.starts);
                entry.phase = RunPhase::Running { worker, attempt, since: SystemTime::now() };
                stored.holder = holder.to_owned();
                Ok(None)
            }
            ReservationOutcome::Full(reason) => {
                entry.phase = RunPhase::Queued { waits_for: Some(reason) };
                Ok(Some(AckKind::Nak(Some(limits::CLUSTER_LIMIT_DELAY))))
            }
            ReservationOutcome::NeverFits(reason) => {
                entry.end(QueuedRunEnd::because(RunEndState::Refused, "namespace_limit", &reason));
                Ok(Some(AckKind::Ack))
            }
        }
    }
}

/// The decision about an offered run.
enum OfferDecision {
    /// The worker has it, with a lease of this revision.
    Taken(Box<RunEntry>, u64),
    /// Its worker seems to have died.
    Left,
    /// The run is not to be taken now, and the message is answered so.
    Answered(AckKind),
}

/// Waits until a message is published, or for this time.
async fn wait_for_message(published: &mut Option<Subscriber>, pause: Duration) {
    let Some(messages) = published else { return sleep(pause).await };
    let next = timeout(pause, messages.next()).await;
    match next {
        // Others that came with it are seen by the same look.
        Ok(Some(_)) => while let Some(Some(_)) = messages.next().now_or_never() {},
        Ok(None) => {
            *published = None;
            sleep(pause).await;
        }
        Err(_) => {}
    }
}

/// Returns queues in the order in which they are asked: those of high priority first, but at one turn in
/// [`limits::CLUSTER_TAKE_TURNS`] those of low priority. Within a priority each is the first in its turn.
fn ordered<C>(mut queues: Vec<(QueueName, C)>, turn: u64) -> Vec<(QueueName, C)> {
    queues.sort_by(|(one, _), (other, _)| one.cmp(other));
    let begins_low = turn % limits::CLUSTER_TAKE_TURNS == limits::CLUSTER_TAKE_TURNS - 1;
    let mut groups = Vec::new();
    for priority in RunPriority::ALL {
        let mut group: Vec<(QueueName, C)>;
        (group, queues) = queues.into_iter().partition(|(name, _)| name.priority == priority);
        if !group.is_empty() {
            let by = usize::try_from(turn % group.len() as u64).unwrap_or_default();
            group.rotate_left(by);
        }
        groups.push(group);
    }
    if begins_low {
        groups.reverse();
    }
    groups.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_with_wrong_id_or_labels_is_refused() {
        let worker = |id: &str, labels: usize| WorkerIdentity {
            id: id.into(),
            labels: (0..labels).map(|n| format!("l{n}")).collect(),
            limits: NamespaceLimits::default(),
        };
        assert_eq!(worker("w", limits::CLUSTER_WORKER_LABELS).check(), Ok(()));
        assert!(worker("w", limits::CLUSTER_WORKER_LABELS + 1).check().is_err());
        assert!(worker("W", 0).check().unwrap_err().to_string().contains("worker `W`"));
    }

    #[test]
    fn low_priority_is_first_now_and_then() {
        let queue = |text: &str| (QueueName::parse(text, '.').unwrap(), text.to_owned());
        let queues = || ["low.-", "normal.b", "high.-", "normal.-", "normal.a"].map(queue).to_vec();
        let first = |turn: u64| ordered(queues(), turn).remove(0).1;
        let firsts: Vec<String> = (0..limits::CLUSTER_TAKE_TURNS).map(first).collect();
        assert_eq!(firsts.iter().filter(|first| *first == "high.-").count() as u64, limits::CLUSTER_TAKE_TURNS - 1);
        assert_eq!(firsts.iter().filter(|first| *first == "low.-").count(), 1);
        let normal = |turn: u64| ordered(queues(), turn)[1].1.clone();
        let seen: BTreeSet<String> = (0..3).map(normal).collect();
        assert_eq!(seen.len(), 3, "each set of labels is the first in its turn: {seen:?}");
        assert_eq!(ordered(queues(), 5).len(), 5);
    }
}
