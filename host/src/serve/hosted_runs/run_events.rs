use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::de::IgnoredAny;
use tokio::sync::{Notify, futures::Notified};

use super::{
    RunEventRecord,
    run_event_file::{RunEventFile, RunFileSpace},
};
use crate::{
    event::StreamEvent,
    limits,
    session::{EventRedactor, Secrets},
};

/// The events of a run, for readers that come late or again: the newest ones in memory, at most
/// [`limits::SERVE_RUN_EVENTS`], of [`limits::SERVE_RUN_EVENT_BYTES`] together, and those before them in a file.
pub(super) struct RunEvents {
    ring: Mutex<EventRing>,
    /// Notified when an event is added, and at the end.
    changed: Notify,
    file: Arc<RunEventFile>,
}

#[derive(Default)]
struct EventRing {
    records: VecDeque<RunEventRecord>,
    bytes: usize,
    /// The number of records that have left memory: the position of the oldest one that is there.
    left: u64,
    /// The sequence of the newest event that has left memory.
    left_to: u64,
    /// The sequence of the newest event.
    last: u64,
    has_ended: bool,
}

/// The place of an event.
pub(super) enum EventPlace {
    /// The file or nowhere: the event has left memory.
    Left,
    Memory(RunEventRecord),
    /// None yet: the event has not happened.
    Future,
    /// The run has ended without it.
    End,
}

/// The next step of a reader of the events in memory.
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
    /// This reader was too slow: the event after the sequence `after` left memory before it was read.
    Behind {
        /// The sequence of the last event that was read.
        after: u64,
    },
    /// The run has ended, and all of its events were read.
    End,
}

/// Reads the events of a run that are in memory, from any sequence on. It never delays the run.
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
    /// Returns the events of a new run, whose file uses this space.
    pub fn new(space: &RunFileSpace) -> Self {
        let file = Arc::new(RunEventFile::new(space));
        Self { ring: Mutex::default(), changed: Notify::new(), file }
    }

    /// Adds the records of one event. [`Self::make_room`] is to follow.
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

    /// Moves the oldest records to the file while there are too many in memory. Only one task may add records.
    pub async fn make_room(&self) {
        loop {
            let leaving = self.ring().leaving();
            let (count, file) = (leaving.len(), Arc::clone(&self.file));
            if count == 0 {
                return;
            }
            // They are in memory until they are in the file, so that a reader finds each.
            let written = tokio::task::spawn_blocking(move || file.append(&leaving)).await;
            if written.is_err() {
                // The runtime ends.
                return;
            }
            self.ring().drop_oldest(count);
        }
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

    /// Returns the number of records that no reader can read any more.
    pub fn lost(&self) -> u64 {
        self.file.lost()
    }

    /// Returns the events that have left memory.
    pub fn file(&self) -> &RunEventFile {
        &self.file
    }

    /// Returns a future that ends when an event is added after this call, and at the end.
    pub fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Returns the position of the first event after this sequence; `None` if the file knows it.
    pub fn position_after(&self, sequence: u64) -> Option<u64> {
        let ring = self.ring();
        (ring.left_to <= sequence).then(|| ring.position_after(sequence))
    }

    /// Returns the place of the event at this position.
    pub fn at(&self, position: u64) -> EventPlace {
        let ring = self.ring();
        let Some(at) = position.checked_sub(ring.left) else { return EventPlace::Left };
        match ring.records.get(usize::try_from(at).unwrap_or(usize::MAX)) {
            Some(record) => EventPlace::Memory(record.clone()),
            None if ring.has_ended => EventPlace::End,
            None => EventPlace::Future,
        }
    }

    /// Returns a reader that begins after this sequence; 0: at the first event.
    pub fn reader(self: &Arc<Self>, after: u64) -> RunEventReader {
        let ring = self.ring();
        let next = ring.position_after(after);
        let gap = || RunEventStep::Gap { from: after.saturating_add(1), to: ring.left_to };
        let first = (ring.left_to > after).then(gap);
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
    }

    /// Returns the position of the first record in memory after this sequence.
    fn position_after(&self, sequence: u64) -> u64 {
        self.left + self.records.partition_point(|record| record.event.sequence <= sequence) as u64
    }

    /// Returns the oldest records, which are to leave memory; none while there is room for more.
    fn leaving(&self) -> Vec<RunEventRecord> {
        let is_over = self.records.len() > limits::SERVE_RUN_EVENTS || self.bytes > limits::SERVE_RUN_EVENT_BYTES;
        let mut bytes = 0;
        let fits = |record: &&RunEventRecord| {
            let has_room = bytes < limits::SERVE_RUN_BLOCK_BYTES;
            bytes += record.json.len();
            has_room
        };
        // The newest one stays, whatever its size is.
        let most = if is_over { (self.records.len() - 1).min(limits::SERVE_RUN_BLOCK_EVENTS) } else { 0 };
        self.records.iter().take(most).take_while(fits).cloned().collect()
    }

    fn drop_oldest(&mut self, count: usize) {
        for oldest in self.records.drain(..count) {
            self.bytes -= oldest.json.len();
            self.left_to = oldest.event.sequence;
        }
        self.left += count as u64;
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
        match self.events.at(self.next) {
            EventPlace::Memory(record) => {
                self.next += 1;
                self.after = record.event.sequence;
                Some(RunEventStep::Event(record))
            }
            EventPlace::Left => Some(RunEventStep::Behind { after: self.after }),
            EventPlace::Future => None,
            EventPlace::End => Some(RunEventStep::End),
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

    fn new() -> Arc<RunEvents> {
        Arc::new(RunEvents::new(&RunFileSpace::new(limits::SERVE_RUN_FILES_BYTES)))
    }

    async fn push(events: &RunEvents, sequence: u64, message: &str) {
        let event = Event::Warning { message: message.into() };
        let event = StreamEvent { sequence, time: UNIX_EPOCH, run: None, parent: None, event };
        events.push(&event, &mut EventRedactor::default(), &Secrets::default());
        events.make_room().await;
    }

    async fn push_all(events: &RunEvents, sequences: impl IntoIterator<Item = u64>) {
        for sequence in sequences {
            push(events, sequence, "").await;
        }
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
        let events = new();
        push_all(&events, 1..=5).await;
        for (after, expected) in [(0, vec![1, 2, 3, 4, 5]), (3, vec![4, 5]), (5, vec![]), (99, vec![])] {
            let (sequences, rest) = read(&mut events.reader(after)).await;
            assert_eq!(sequences, expected, "after {after}");
            assert!(rest.is_none(), "the run is at work");
        }
        let mut reader = events.reader(4);
        assert_eq!(read(&mut reader).await.0, [5]);
        let mut waiting = Box::pin(reader.next());
        assert!(poll!(waiting.as_mut()).is_pending());
        push(&events, 6, "so").await;
        assert!(matches!(waiting.await, RunEventStep::Event(record) if record.json.contains("\"sequence\":6")));
        events.end();
        assert!(matches!(read(&mut reader).await, (none, Some(RunEventStep::End)) if none.is_empty()));
        assert_eq!(events.last(), 6);
    }

    #[tokio::test]
    async fn reader_of_memory_is_told_what_has_left_it() {
        let events = new();
        let mut slow = events.reader(0);
        let (most, block) = (limits::SERVE_RUN_EVENTS as u64, limits::SERVE_RUN_BLOCK_EVENTS as u64);
        push_all(&events, 1..=most).await;
        assert!(matches!(slow.next().await, RunEventStep::Event(_)));
        assert_eq!(events.ring().left, 0, "there is room for them");
        push(&events, most + 1, "").await;
        assert_eq!((events.ring().left, events.lost()), (block, 0), "the oldest ones leave together");
        assert!(matches!(slow.next().await, RunEventStep::Behind { after: 1 }));
        let mut late = events.reader(3);
        assert!(matches!(late.next().await, RunEventStep::Gap { from: 4, to } if to == block));
        assert_eq!(read(&mut late).await.0.len() as u64, most + 1 - block);
        let mut in_time = events.reader(block);
        assert!(matches!(in_time.next().await, RunEventStep::Event(record) if record.event.sequence == block + 1));
    }

    #[tokio::test]
    async fn events_in_memory_are_bounded_in_bytes() {
        let events = new();
        push(&events, 1, "so").await;
        push(&events, 2, &"x".repeat(limits::SERVE_RUN_EVENT_BYTES)).await;
        assert_eq!(events.ring().left, 1, "the newest one stays, and no other one beside it");
        push(&events, 3, "so").await;
        assert_eq!(read(&mut events.reader(2)).await.0, [3]);
    }

    #[tokio::test]
    async fn credentials_are_in_no_event() {
        let (events, secrets) = (new(), Secrets::new([("KEY", "sk-12345")]));
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
