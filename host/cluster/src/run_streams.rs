//! The queue and the buckets of runs, and the messages of the queue.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use async_nats::jetstream::{
    self, ErrorCode,
    consumer::{AckPolicy, DeliverPolicy, Info, pull},
    context::{PublishError, PublishErrorKind},
    kv::Store,
    message::PublishMessage,
    stream::{Config, DiscardPolicy, RetentionPolicy},
};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use shelly_core::limits;
use tokio::time::timeout;

use super::{
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterHandles, RunStreams, bucket, bucket_of, is_answer, random_token},
    encryption::{SealKind, SealPlace},
    run_entry::{RunPhase, StoredRun},
    run_spec::RunSpec,
    taken_run::run_lease_key,
};

/// The separator in the names of consumers: no priority has it.
pub(crate) const NAME_SEPARATOR: char = '_';

/// The key in the bucket of counters under which the revision stands up to which entries were looked at.
const REPAIRED: &str = "repaired";

/// The key in the bucket of counters under which the ids of runs stand for which the queue had no room at the last look.
const WITHOUT_ROOM: &str = "without_room";

/// A value of a bucket that is read with others.
pub(crate) struct ScannedValue {
    pub key: String,
    pub value: Bytes,
    pub revision: u64,
    /// The time at which the values began to be read, by the clock of the server.
    pub read: SystemTime,
}

impl ClusterHandles {
    /// Returns the queue and the buckets of runs, which are created if they are missing.
    pub async fn run_streams(&self) -> Result<&RunStreams, ClusterCallError> {
        let open = || self.retry(|| self.open_run_streams(), |_| false);
        self.parts.runs.get_or_try_init(open).await.map_err(ClusterCallError::Failed)
    }

    async fn open_run_streams(&self) -> Result<RunStreams, String> {
        let name = format!("shelly-{}-queue", self.options.namespace);
        let config = Config {
            name: name.clone(),
            subjects: vec![format!("{}>", self.queue_prefix())],
            retention: RetentionPolicy::WorkQueue,
            // A full queue refuses what is new; it never forgets.
            discard: DiscardPolicy::New,
            max_messages: limits::CLUSTER_QUEUED_RUNS as i64,
            max_consumers: limits::CLUSTER_QUEUES as i32,
            num_replicas: self.options.replicas,
            ..Config::default()
        };
        let queue = self.context.get_or_create_stream(config).await;
        let queue = queue.map_err(|error| format!("the stream {name}: {error}"))?;
        let entries = bucket_of(&self.context, bucket(&self.options, "runs", Duration::ZERO)).await?;
        let counters = bucket_of(&self.context, bucket(&self.options, "counters", Duration::ZERO)).await?;
        let (repaired, offers, checked) = (Arc::default(), Mutex::default(), Mutex::default());
        Ok(RunStreams { queue, entries, counters, repaired, repair_failure: Mutex::default(), offers, checked })
    }

    /// Returns the beginning of the subjects of all queues.
    pub fn queue_prefix(&self) -> String {
        format!("shelly.{}.queue.", self.options.namespace)
    }

    /// Returns the subject of the one message that a run has in its queue.
    pub fn queue_subject(&self, spec: &RunSpec) -> String {
        format!("{}{}.{}", self.queue_prefix(), spec.queue_name().text('.'), spec.id)
    }

    /// Puts the message of a run into its queue, unless it is there.
    ///
    /// The message is expected to be the first of its subject. So a run has at most one message, however often this is done
    /// and by whomever: by a submitter whose reply was lost, by one that submits the same run again, by workers that repair.
    pub async fn publish_run(&self, spec: &RunSpec) -> Result<(), ClusterCallError> {
        let streams = self.run_streams().await?;
        let name = spec.queue_name();
        let consumer = pull::Config {
            durable_name: Some(name.text(NAME_SEPARATOR)),
            filter_subject: format!("{}{}.*", self.queue_prefix(), name.text('.')),
            deliver_policy: DeliverPolicy::All,
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.options.lease,
            // Deaths are counted in the entry: a message is offered as often as it takes.
            max_deliver: -1,
            // One that waits for room in the namespace counts as unanswered.
            max_ack_pending: limits::CLUSTER_QUEUED_RUNS as i64,
            ..pull::Config::default()
        };
        let consumer_name = name.text(NAME_SEPARATOR);
        let created = self
            .retry(|| streams.queue.get_or_create_consumer(&consumer_name, consumer.clone()), |error| is_full(error))
            .await;
        created.map_err(|error| refused_or_failed(&error, is_full(&error)))?;
        let (subject, id) = (self.queue_subject(spec), Bytes::from(spec.id.clone()));
        let publish = || async {
            let message = PublishMessage::build().payload(id.clone()).expected_last_subject_sequence(0);
            self.context.send_publish(subject.clone(), message).await?.await
        };
        let is_final = |error: &PublishError| error.kind() == PublishErrorKind::WrongLastSequence || is_full(error);
        match self.retry(publish, is_final).await {
            Ok(_) => Ok(()),
            // It is there: another call put it, or this one, whose reply was lost.
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(()),
            Err(error) => {
                let is_refused = is_full(&error);
                // Several servers look at the length of the queue before they look for the message.
                match is_refused && self.is_queued(spec).await? {
                    true => Ok(()),
                    false => Err(refused_or_failed(&error, is_refused)),
                }
            }
        }
    }

    /// Returns `true` if the queue has the message of a run.
    async fn is_queued(&self, spec: &RunSpec) -> Result<bool, ClusterCallError> {
        let (streams, subject) = (self.run_streams().await?, self.queue_subject(spec));
        let found = self.retry(|| streams.queue.get_last_raw_message_by_subject(&subject), is_answer).await;
        match found {
            Ok(_) => Ok(true),
            Err(error) if is_answer(&error) => Ok(false),
            Err(error) => Err(ClusterCallError::failed(error)),
        }
    }

    /// Reads values of a bucket whose revision is above `after`, in the order of their revisions. `each` returns `false` to
    /// end.
    pub async fn scan(
        &self,
        store: &Store,
        after: u64,
        each: &mut (dyn FnMut(ScannedValue) -> bool + Send),
    ) -> Result<(), ClusterCallError> {
        let config = || pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: after.saturating_add(1) },
            ack_policy: AckPolicy::None,
            inactive_threshold: limits::CLUSTER_CALL,
            num_replicas: 1,
            memory_storage: true,
            ..pull::Config::default()
        };
        let failed = || ClusterCallError::Failed("the server does not answer".into());
        let created = self.retry(|| store.stream.create_consumer(config()), |_| false).await;
        let consumer = created.map_err(ClusterCallError::failed)?;
        let read = SystemTime::from(consumer.cached_info().created);
        let mut deliveries = 0;
        loop {
            let fetch =
                consumer.fetch().max_messages(limits::CLUSTER_READ_MESSAGES).max_bytes(limits::CLUSTER_READ_BYTES);
            let batch = timeout(limits::CLUSTER_CALL, fetch.messages()).await.map_err(|_| failed())?;
            let mut batch = batch.map_err(ClusterCallError::failed)?;
            let (mut is_empty, mut pending) = (true, 0);
            loop {
                let received = timeout(limits::CLUSTER_CALL, batch.try_next()).await.map_err(|_| failed())?;
                let message = match received {
                    Ok(Some(message)) => message,
                    Ok(None) => break,
                    // Where the next message would exceed the bytes of a batch, the server ends it with an error.
                    Err(_) if !is_empty => break,
                    Err(error) => return Err(ClusterCallError::failed(error)),
                };
                is_empty = false;
                let info = message.info().map_err(ClusterCallError::failed)?;
                let revision = info.stream_sequence;
                (pending, deliveries) = (info.pending, deliveries + 1);
                if info.consumer_sequence != deliveries {
                    return Err(ClusterCallError::Failed("values were lost on their way".into()));
                }
                let is_removed = message.headers.as_ref().is_some_and(|headers| {
                    headers.get("KV-Operation").is_some() || headers.get("Nats-Marker-Reason").is_some()
                });
                let Some(key) = message.subject.as_str().strip_prefix(store.prefix.as_str()).filter(|_| !is_removed)
                else {
                    continue;
                };
                let (key, value) = (key.to_owned(), message.payload.clone());
                if !each(ScannedValue { key, value, revision, read }) {
                    return Ok(());
                }
            }
            if is_empty || pending == 0 {
                return Ok(());
            }
        }
    }

    /// Begins to look for what others have left behind, unless that was done a short time ago: runs whose submitter died
    /// before it had queued them, runs that the server does not offer again, and reservations of runs that have ended.
    /// Nobody waits for it: it takes requests for each run. What fails is done by the next look, and kept as the reason.
    pub fn repair_now_and_then(&self, streams: &RunStreams) {
        // A look under way holds the lock.
        let Ok(mut repaired) = Arc::clone(&streams.repaired).try_lock_owned() else { return };
        if repaired.is_some_and(|at| at.elapsed() < limits::CLUSTER_REPAIR) {
            return;
        }
        let handles = self.clone();
        tokio::spawn(async move {
            // A worker may have given a run back with a delay.
            let patience = handles.options.lease + handles.options.decline / limits::CLUSTER_DECLINE_OFFERS;
            let failed = [
                handles.repair_queue().await.err(),
                handles.offer_forgotten(patience).await.err(),
                handles.remove_ended_reservations().await.err(),
            ];
            if let Ok(streams) = handles.run_streams().await {
                *streams.repair_failure.lock().unwrap_or_else(PoisonError::into_inner) =
                    failed.into_iter().flatten().next();
            }
            *repaired = Some(Instant::now());
        });
    }

    /// Asks the server to offer the runs again that nobody has had for this time, as far as this host has seen: the server
    /// seems to have forgotten them. A run that is offered too often does no harm, since the lease and the entry decide who
    /// has it.
    pub async fn offer_forgotten(&self, patience: Duration) -> Result<(), ClusterCallError> {
        let streams = self.run_streams().await?;
        let watch = || streams.offers.lock().unwrap_or_else(PoisonError::into_inner);
        let list = || async { streams.queue.consumers().take(limits::CLUSTER_QUEUES).try_collect::<Vec<_>>().await };
        let infos = self.retry(list, |_| false).await.map_err(ClusterCallError::failed)?;
        let (first, mut looked, mut next) = (watch().first(), 0, None);
        // The next run of each queue. The oldest one of all is looked at first, so that the next look goes on after it.
        let mut heads = BTreeMap::new();
        for info in infos.iter().filter(|info| info.num_ack_pending > 0) {
            let from = first.max(info.ack_floor.stream_sequence.saturating_add(1));
            if let Some((sequence, id)) = self.offered_from(streams, info, from).await? {
                heads.insert(sequence, (info, id));
            }
        }
        while let Some((sequence, (info, id))) = heads.pop_first() {
            if looked == limits::CLUSTER_OFFERS_WATCHED {
                next = Some(sequence);
                break;
            }
            looked += 1;
            if let Some(id) = id
                && self.is_run_forgotten(streams, (sequence, &id), patience).await?
            {
                let delivered = info.delivered.consumer_sequence;
                let (stream, name) = (&info.stream_name, &info.name);
                // The answer of whoever has given it back: any later delivery of the consumer is accepted.
                let subject = format!("$JS.ACK.{stream}.{name}.1.{sequence}.{delivered}.0.0");
                let _ = self.context.client().publish(subject, Bytes::from_static(b"-NAK")).await;
            }
            if let Some((sequence, id)) = self.offered_from(streams, info, sequence.saturating_add(1)).await? {
                heads.insert(sequence, (info, id));
            }
        }
        watch().end_look(next);
        Ok(())
    }

    /// Returns the first message of a queue from this sequence on that was offered: its sequence, and the id of its run. A
    /// later version may have put something else there than an id.
    async fn offered_from(
        &self,
        streams: &RunStreams,
        info: &Info,
        from: u64,
    ) -> Result<Option<(u64, Option<String>)>, ClusterCallError> {
        let (subject, last) = (&info.config.filter_subject, info.delivered.stream_sequence);
        if from > last {
            return Ok(None);
        }
        let read = || streams.queue.get_first_raw_message_by_subject(subject, from);
        match self.retry(read, is_answer).await {
            Ok(message) if message.sequence <= last => {
                let id = std::str::from_utf8(&message.payload).ok().filter(|id| RunSpec::is_id(id));
                Ok(Some((message.sequence, id.map(str::to_owned))))
            }
            Err(error) if !is_answer(&error) => Err(ClusterCallError::failed(error)),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Returns `true` if nobody has had an offered run, whose message has this sequence, for longer than the server waits.
    async fn is_run_forgotten(
        &self,
        streams: &RunStreams,
        (sequence, id): (u64, &str),
        patience: Duration,
    ) -> Result<bool, ClusterCallError> {
        let watch = || streams.offers.lock().unwrap_or_else(PoisonError::into_inner);
        // A lease that stays is ended by the worker that takes the run: to wait for that here would hold up all others.
        let key = run_lease_key(id);
        if self.is_lease_held(&key).await? {
            watch().note_held(sequence);
            return Ok(false);
        }
        let revision = self.lease_revision(&key).await?;
        let is_forgotten = watch().is_forgotten(sequence, revision, patience);
        // An entry that cannot be read is left to a host that can.
        Ok(is_forgotten && self.stored_run(id).await.is_ok())
    }

    /// Queues runs whose submitter died between writing the entry and putting the message into the queue, or whose message
    /// somebody removed.
    ///
    /// The entry is written first, so a message never arrives for nothing; the price is this. Each revision of an entry is
    /// looked at once in the whole namespace: the revision up to which that was done is itself in a bucket. A submitter that
    /// is between its two steps at this moment is overtaken, which is harmless, since a run has one message at most.
    ///
    /// A run for which the queue has no room holds up no others: its id is kept, and each look tries it again.
    pub async fn repair_queue(&self) -> Result<(), ClusterCallError> {
        let streams = self.run_streams().await?;
        let there = self.leader_value(&streams.counters, REPAIRED).await?;
        let text = there.as_ref().and_then(|(value, _)| std::str::from_utf8(value).ok());
        // A text that is no number, which no host writes, means that nothing was looked at.
        let after: u64 = text.and_then(|text| text.parse().ok()).unwrap_or(0);
        // So does a number that no entry has yet, such as one of a bucket that was removed since.
        let info = self.retry(|| streams.entries.stream.get_info(), |_| false).await;
        let newest = info.map_err(ClusterCallError::failed)?.state.last_sequence;
        let after = if after > newest { 0 } else { after };
        let without_room = self.leader_value(&streams.counters, WITHOUT_ROOM).await?;
        let text = without_room.as_ref().and_then(|(value, _)| std::str::from_utf8(value).ok()).unwrap_or_default();
        let ids = text.split(' ').filter(|id| RunSpec::is_id(id)).take(limits::CLUSTER_READ_MESSAGES);
        let known: BTreeSet<String> = ids.map(str::to_owned).collect();
        let (mut last, mut open) = (after, BTreeMap::new());
        let mut each = |found: ScannedValue| {
            last = found.revision;
            if let Ok(stored) = self.open_run(&found.key, &found.value)
                && !matches!(stored.entry.phase, RunPhase::Ended(_))
            {
                open.insert(found.key, (stored.entry.spec, found.revision));
            }
            open.len() < limits::CLUSTER_READ_MESSAGES
        };
        self.scan(&streams.entries, after, &mut each).await?;
        let mut left = BTreeSet::new();
        for id in &known {
            let is_left = match self.stored_run(id).await {
                Ok(Some((stored, _))) if stored.entry.ending().is_none() => {
                    !self.queue_again(&stored.entry.spec).await?
                }
                Ok(_) => false,
                // An entry that cannot be read is left to a host that can.
                Err(_) => true,
            };
            if is_left {
                left.insert(id.clone());
            }
        }
        for (id, (spec, revision)) in open {
            if self.queue_again(&spec).await? {
                continue;
            }
            if left.len() < limits::CLUSTER_READ_MESSAGES {
                left.insert(id);
            } else if !left.contains(&id) {
                // The next look begins with it.
                last = last.min(revision.saturating_sub(1));
            }
        }
        if left != known {
            let ids: Vec<_> = left.iter().map(String::as_str).collect();
            let value = Bytes::from(ids.join(" "));
            let written = match &without_room {
                Some((_, revision)) => self.update(&streams.counters, WITHOUT_ROOM, &value, *revision).await?,
                None => self.create(&streams.counters, WITHOUT_ROOM, &value).await?,
            };
            if written.is_none() {
                // Another worker has looked meanwhile. The next look sees the same entries again.
                return Ok(());
            }
        }
        if last != after {
            let value = Bytes::from(last.to_string());
            // If another worker has looked meanwhile, its number stays; what both saw is queued.
            match there {
                Some((_, revision)) => self.update(&streams.counters, REPAIRED, &value, revision).await?,
                None => self.create(&streams.counters, REPAIRED, &value).await?,
            };
        }
        Ok(())
    }

    /// Puts the message of a run into its queue, unless it is there; `false`: the queue has no room for it.
    async fn queue_again(&self, spec: &RunSpec) -> Result<bool, ClusterCallError> {
        if self.is_queued(spec).await? {
            return Ok(true);
        }
        match self.publish_run(spec).await {
            Ok(()) => Ok(true),
            Err(ClusterCallError::Cluster(ClusterError::Refused { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Replaces the entry of a run if it has this revision, and returns the next one; `None` if it was changed.
    pub async fn store_run(&self, stored: &mut StoredRun, revision: u64) -> Result<Option<u64>, ClusterCallError> {
        let streams = self.run_streams().await?;
        let (id, value) = (stored.entry.spec.id.clone(), Bytes::from(stored.stamped(random_token()?)));
        if value.len() > limits::CLUSTER_RUN_BYTES {
            let what = format!("the entry of run {id}");
            return Err(ClusterError::too_large(what, value.len(), limits::CLUSTER_RUN_BYTES).into());
        }
        self.update(&streams.entries, &id, &self.seal_run(&id, value)?, revision).await
    }

    /// Returns the entry of a run and its revision; `None` if there is none.
    pub async fn stored_run(&self, id: &str) -> Result<Option<(StoredRun, u64)>, ClusterCallError> {
        let streams = self.run_streams().await?;
        let Some((value, revision)) = self.leader_value(&streams.entries, id).await? else { return Ok(None) };
        Ok(Some((self.open_run(id, &value)?, revision)))
    }

    /// Reads the entry that a server has under the id of a run.
    pub fn open_run(&self, id: &str, value: &Bytes) -> Result<StoredRun, ClusterError> {
        StoredRun::parse(id, &self.seals.open(SealPlace::new(SealKind::Run, id), value)?)
    }

    /// Returns the bytes of an entry as the server is given them.
    pub fn seal_run(&self, id: &str, value: Bytes) -> Result<Bytes, ClusterError> {
        Ok(self.seals.seal(SealPlace::new(SealKind::Run, id), value)?)
    }
}

/// Returns `true` if the server refuses more messages or consumers: asking again does not help.
fn is_full(error: &(dyn Error + 'static)) -> bool {
    let mut source = Some(error);
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<jetstream::Error>() {
            return [ErrorCode::STREAM_STORE_FAILED, ErrorCode::MAXIMUM_CONSUMERS_LIMIT].contains(&error.error_code());
        }
        let text = error.to_string();
        if text.contains("maximum messages exceeded") || text.contains("maximum consumers") {
            return true;
        }
        source = error.source();
    }
    false
}

fn refused_or_failed(error: &dyn Error, is_refused: bool) -> ClusterCallError {
    match is_refused {
        true => ClusterError::Refused {
            doing: "queue",
            place: "the run".into(),
            reason: shelly_core::error::cut(&error.to_string(), limits::CLUSTER_REASON_CHARS),
        }
        .into(),
        false => ClusterCallError::failed(error),
    }
}
