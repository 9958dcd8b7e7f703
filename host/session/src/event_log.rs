//! The recorded events, written beside the journal by the same thread.
//!
//! A trace must not endanger a session: an error of the storage ends the recording of events and nothing else. Nothing is
//! synced.

use std::sync::Arc;

use super::{
    SessionError,
    event_body::own_members,
    event_lines::{EventLines, IntactEvents},
    journal_lease::JournalLease,
    journal_storage::JournalStorage,
};
use shelly_core::{event::Event, limits};

/// The events that wait to be written: the members of each line, without its number.
#[derive(Default)]
pub(super) struct PendingEvents {
    lines: Vec<u8>,
    /// The number of events that were left out since the last line.
    missed: u64,
}

impl PendingEvents {
    /// Adds an event that happened when the journal had `n` lines. An event that is too long is left out and counted, as is
    /// one for which there is no room.
    pub fn add(&mut self, n: u64, members: &[u8]) {
        let bytes = self.lines.len() + members.len();
        if members.len() > limits::SESSION_EVENT_BYTES - LINE_FRAME || bytes > limits::SESSION_PENDING_EVENTS_BYTES {
            self.missed += 1;
            return;
        }
        self.add_missed(n);
        self.push(n, members);
    }

    fn add_missed(&mut self, n: u64) {
        let count = std::mem::take(&mut self.missed);
        if count > 0 {
            self.push(n, &own_members(Event::Missed { count }));
        }
    }

    fn push(&mut self, n: u64, members: &[u8]) {
        self.lines.extend_from_slice(format!("\"n\":{n},").as_bytes());
        self.lines.extend_from_slice(members);
        self.lines.push(b'\n');
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.missed == 0
    }

    /// Takes the lines out. `n` is the last line of the journal.
    pub fn take(&mut self, n: u64) -> Vec<u8> {
        self.add_missed(n);
        std::mem::take(&mut self.lines)
    }
}

/// The bytes that are kept free for what is added to the members of an event: its number, and that of the journal line.
const LINE_FRAME: usize = 128;
/// The bytes at the end of a full log that only the line that says so may use.
const LAST_LINE_BYTES: u64 = 512;

/// Appends events to those of a session.
pub(super) struct EventLogWriter {
    journals: Arc<dyn JournalStorage>,
    id: String,
    /// The last line of the journal when the session was opened.
    last: u64,
    /// The maximum bytes of all events.
    most: u64,
    state: EventLogState,
}

enum EventLogState {
    /// Nothing was written yet.
    Unopened,
    Open(IntactEvents),
    /// There is no room for more, or the storage has failed.
    Stopped,
}

impl EventLogWriter {
    /// Creates the writer of the session of this name, whose journal has `last` lines. The storage is not used yet: a
    /// session without events has no log of them.
    pub fn new(journals: Arc<dyn JournalStorage>, id: &str, (last, most): (u64, u64)) -> Self {
        Self { journals, id: id.to_owned(), last, most, state: EventLogState::Unopened }
    }

    /// Appends lines that [`PendingEvents::take`] has returned, under the lease on the session.
    pub fn append(&mut self, lease: &mut dyn JournalLease, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        if let EventLogState::Unopened = self.state {
            self.state = self.open(lease).unwrap_or(EventLogState::Stopped);
        }
        let EventLogState::Open(written) = &mut self.state else { return };
        let (mut text, start) = (Vec::with_capacity(lines.len() + lines.len() / 8), written.end);
        for members in lines.split(|byte| *byte == b'\n').filter(|members| !members.is_empty()) {
            let is_full = start + (text.len() + members.len() + LINE_FRAME) as u64 + LAST_LINE_BYTES > self.most;
            // A number that was read may be any.
            written.sequence = written.sequence.saturating_add(1);
            let number = format!("{{\"sequence\":{},", written.sequence);
            text.extend_from_slice(number.as_bytes());
            if is_full {
                text.extend_from_slice(&last_members(members, self.most));
                text.extend_from_slice(b"}\n");
                written.is_full = true;
                break;
            }
            text.extend_from_slice(members);
            text.extend_from_slice(b"}\n");
        }
        written.end += text.len() as u64;
        let is_full = written.is_full;
        if lease.append_events(&text).is_err() || is_full {
            self.state = EventLogState::Stopped;
        }
    }

    /// Opens the log and cuts off what belongs to no line of the journal. Nearly always the last line decides; otherwise all
    /// are read.
    fn open(&self, lease: &mut dyn JournalLease) -> Result<EventLogState, SessionError> {
        let end = lease.open_events()?;
        let intact = match IntactEvents::of_end(&end, self.last) {
            Some(intact) => intact,
            None if end.bytes == 0 => IntactEvents::default(),
            None => match self.journals.events(&self.id)? {
                Some(source) => IntactEvents::of_lines(EventLines::of(source), self.last)?,
                None => IntactEvents::default(),
            },
        };
        lease.continue_events(intact.end)?;
        Ok(match intact.is_full {
            true => EventLogState::Stopped,
            false => EventLogState::Open(intact),
        })
    }
}

/// Returns the members of the line after which nothing is recorded, in place of an event with these members.
fn last_members(members: &[u8], most: u64) -> Vec<u8> {
    let n = members.split_inclusive(|byte| *byte == b',').next().unwrap_or_default();
    let message =
        format!("the recorded events have reached their maximum of {most} bytes; no further event is recorded");
    [n, &b"\"is_last\":true,"[..], own_members(Event::Warning { message }).as_slice()].concat()
}
