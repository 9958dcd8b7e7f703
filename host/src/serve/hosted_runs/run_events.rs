use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::de::IgnoredAny;
use tokio::sync::Notify;

use crate::{
    event::StreamEvent,
    limits,
    session::{EventRedactor, Secrets},
};

/// The newest events of a run, for readers that come late or again: at most [`limits::SERVE_RUN_EVENTS`], of
/// [`limits::SERVE_RUN_EVENT_BYTES`] together.
#[derive(Default)]
pub(super) struct RunEvents {
    ring: Mutex<EventRing>,
    /// Notified when an event is added, and at the end.
    changed: Notify,
}

#[derive(Default)]
struct EventRing {
    records: VecDeque<RunEventRecord>,
    bytes: usize,
    /// The number of records that were dropped: the position of the oldest one that is there.
    dropped: u64,
    /// The sequence of the newest event that was dropped.
    dropped_to: u64,
    /// The sequence of the newest event.
    last: u64,
    has_ended: bool,
}

/// One event of a run.
#[derive(Debug, Clone)]
pub struct RunEventRecord {
    /// The event, without credentials in replies.
    pub event: Arc<StreamEvent>,
    /// The event as JSON, without any credential.
    pub json: Arc<str>,
    /// `false` if another record of the same sequence follows: a reader that resumes after this sequence would miss it.
    pub completes_sequence: bool,
}

/// The next step of a reader.
#[derive(Debug, Clone)]
pub enum RunEventStep {
    /// The next event.
    Event(RunEventRecord),
    /// Events that this reader wanted are not in memory any more. The events after them follow.
    Gap {
        /// The sequence of the first one.
        from: u64,
        /// The sequence of the last one.
        to: u64,
    },
    /// This reader was too slow: the event after the sequence `after` was dropped before it was read.
    Behind {
        /// The sequence of the last event that was read.
        after: u64,
    },
    /// The run has ended, and all of its events were read.
    End,
}

/// Reads the events of a run from any sequence on. It never delays the run.
pub struct RunEventReader {
    events: Arc<RunEvents>,
    /// The position of the next record.
    next: u64,
    /// The sequence of the last event that was read, or after which the reader began.
    after: u64,
    /// The step before the first event.
    first: Option<RunEventStep>,
}

impl RunEvents {
    /// Adds the records of one event.
    pub fn push(&self, event: &StreamEvent, redactor: &mut EventRedactor, secrets: &Secrets) {
        let shown = redactor.pass_numbered(secrets, event);
        let count = shown.len();
        let record = |(at, event): (usize, StreamEvent)| {
            let json = serde_json::to_vec(&event).unwrap_or_default();
            let json = secrets.clean_json(json, |json| serde_json::from_slice::<IgnoredAny>(json).is_ok());
            let json = String::from_utf8_lossy(&json).into();
            RunEventRecord { event: Arc::new(event), json, completes_sequence: at + 1 == count }
        };
        let records: Vec<_> = shown.into_iter().enumerate().map(record).collect();
        let mut ring = self.ring();
        records.into_iter().for_each(|record| ring.push(record));
        drop(ring);
        self.changed.notify_waiters();
    }

    /// Tells readers that no event will be added.
    pub fn end(&self) {
        self.ring().has_ended = true;
        self.changed.notify_waiters();
    }

    /// Returns the sequence of the newest event; 0 if there is none.
    pub fn last(&self) -> u64 {
        self.ring().last
    }

    /// Returns the number of records that were dropped.
    pub fn dropped(&self) -> u64 {
        self.ring().dropped
    }

    /// Returns a reader that begins after this sequence; 0: at the first event.
    pub fn reader(self: &Arc<Self>, after: u64) -> RunEventReader {
        let ring = self.ring();
        let skipped = ring.records.partition_point(|record| record.event.sequence <= after);
        let next = ring.dropped + skipped as u64;
        let gap = || RunEventStep::Gap { from: after.saturating_add(1), to: ring.dropped_to };
        let first = (ring.dropped_to > after).then(gap);
        RunEventReader { events: Arc::clone(self), next, after, first }
    }

    fn ring(&self) -> MutexGuard<'_, EventRing> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventRing {
    fn push(&mut self, record: RunEventRecord) {
        self.last = record.event.sequence;
        self.bytes += record.json.len();
        self.records.push_back(record);
        let is_over =
            |ring: &Self| ring.records.len() > limits::SERVE_RUN_EVENTS || ring.bytes > limits::SERVE_RUN_EVENT_BYTES;
        // The newest one stays, whatever its size is.
        while self.records.len() > 1 && is_over(self) {
            let Some(oldest) = self.records.pop_front() else { return };
            self.bytes -= oldest.json.len();
            self.dropped += 1;
            self.dropped_to = oldest.event.sequence;
        }
    }
}

impl RunEventReader {
    /// Returns the next step. After [`RunEventStep::Behind`] and [`RunEventStep::End`] it returns the same step again.
    /// Cancel safe.
    pub async fn next(&mut self) -> RunEventStep {
        let events = Arc::clone(&self.events);
        loop {
            let changed = events.changed.notified();
            if let Some(step) = self.step() {
                return step;
            }
            changed.await;
        }
    }

    /// Returns the next step if there is one now.
    fn step(&mut self) -> Option<RunEventStep> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let ring = self.events.ring();
        let Some(at) = self.next.checked_sub(ring.dropped) else {
            return Some(RunEventStep::Behind { after: self.after });
        };
        match ring.records.get(usize::try_from(at).unwrap_or(usize::MAX)) {
            Some(record) => {
                self.next += 1;
                self.after = record.event.sequence;
                Some(RunEventStep::Event(record.clone()))
            }
            None => ring.has_ended.then_some(RunEventStep::End),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::UNIX_EPOCH};

    use futures_util::poll;

    use super::*;
    use crate::{
        chat::ReplyDelta,
        event::{Event, RequestTokens},
    };

    fn push(events: &RunEvents, sequence: u64, message: &str) {
        let event = Event::Warning { message: message.into() };
        let event = StreamEvent { sequence, time: UNIX_EPOCH, run: None, parent: None, event };
        events.push(&event, &mut EventRedactor::default(), &Secrets::default());
    }

    /// Returns the sequences of the events that can be read now, and the step after them.
    async fn read(reader: &mut RunEventReader) -> (Vec<u64>, Option<RunEventStep>) {
        let mut sequences = Vec::new();
        loop {
            match poll!(pin!(reader.next())) {
                std::task::Poll::Ready(RunEventStep::Event(record)) => sequences.push(record.event.sequence),
                std::task::Poll::Ready(other) => return (sequences, Some(other)),
                std::task::Poll::Pending => return (sequences, None),
            }
        }
    }

    #[tokio::test]
    async fn reader_goes_on_after_any_sequence() {
        let events = Arc::<RunEvents>::default();
        (1..=5).for_each(|n| push(&events, n, "so"));
        for (after, expected) in [(0, vec![1, 2, 3, 4, 5]), (3, vec![4, 5]), (5, vec![]), (99, vec![])] {
            let (sequences, rest) = read(&mut events.reader(after)).await;
            assert_eq!(sequences, expected, "after {after}");
            assert!(rest.is_none(), "the run is at work");
        }
        let mut reader = events.reader(4);
        assert_eq!(read(&mut reader).await.0, [5]);
        let mut waiting = Box::pin(reader.next());
        assert!(poll!(waiting.as_mut()).is_pending());
        push(&events, 6, "so");
        assert!(matches!(waiting.await, RunEventStep::Event(record) if record.json.contains("\"sequence\":6")));
        events.end();
        assert!(matches!(read(&mut reader).await, (none, Some(RunEventStep::End)) if none.is_empty()));
        assert_eq!(events.last(), 6);
    }

    #[tokio::test]
    async fn ring_is_bounded_and_says_what_it_lost() {
        let events = Arc::<RunEvents>::default();
        let mut slow = events.reader(0);
        let most = limits::SERVE_RUN_EVENTS as u64;
        (1..=most).for_each(|n| push(&events, n, ""));
        assert!(matches!(slow.next().await, RunEventStep::Event(_)));
        (most + 1..=most + 7).for_each(|n| push(&events, n, ""));
        assert_eq!(events.dropped(), 7);
        assert!(matches!(slow.next().await, RunEventStep::Behind { after: 1 }));
        let mut late = events.reader(3);
        assert!(matches!(late.next().await, RunEventStep::Gap { from: 4, to: 7 }));
        assert_eq!(read(&mut late).await.0.len(), limits::SERVE_RUN_EVENTS);
        let mut in_time = events.reader(7);
        assert!(matches!(in_time.next().await, RunEventStep::Event(record) if record.event.sequence == 8));
    }

    #[tokio::test]
    async fn ring_is_bounded_in_bytes() {
        let events = Arc::<RunEvents>::default();
        push(&events, 1, "so");
        push(&events, 2, &"x".repeat(limits::SERVE_RUN_EVENT_BYTES));
        assert_eq!(events.dropped(), 1, "the newest one stays, and no other one beside it");
        push(&events, 3, "so");
        assert_eq!(read(&mut events.reader(2)).await.0, [3]);
    }

    #[tokio::test]
    async fn credentials_are_in_no_event() {
        let (events, secrets) = (Arc::<RunEvents>::default(), Secrets::new([("KEY", "sk-12345")]));
        let mut redactor = EventRedactor::default();
        let delta = |text: &str| Event::ModelDelta { agent: "a".into(), delta: ReplyDelta::Text(text.into()) };
        let all = [
            Event::Warning { message: "sk-12345".into() },
            delta("sk-1"),
            Event::ModelStarted {
                agent: "a".into(),
                iteration: 1,
                tokens: 1,
                parts: RequestTokens::default(),
                window: None,
            },
            delta("sk-12"),
            delta("345"),
        ];
        for (at, event) in all.into_iter().enumerate() {
            let event = StreamEvent { sequence: at as u64 + 1, time: UNIX_EPOCH, run: None, parent: None, event };
            events.push(&event, &mut redactor, &secrets);
        }
        events.end();
        let (mut reader, mut seen) = (events.reader(0), Vec::new());
        while let RunEventStep::Event(record) = reader.next().await {
            assert!(!record.json.contains("12345"), "{}", record.json);
            seen.push((record.event.sequence, record.completes_sequence));
        }
        // The held text comes with the event that shows that it begins no credential.
        assert_eq!(seen, [(1, true), (2, true), (3, false), (3, true), (4, true), (5, true)]);
    }
}
