//! The recorded events of a session, read back.

use std::{collections::HashMap, sync::Arc};

use super::{
    JournalLine, JournalLineContent, JournalReader, SessionError, SessionHeader, SessionStore,
    event_body::STREAM_STARTED,
    event_lines::{EventLineEnvelope, EventLines},
    message_place::MessagePlace,
};
use shelly_core::{chat::Message, limits};

/// The recorded events of a session and the journal that they refer to. Nothing in them is verified: they are for people who
/// look at a run, and no run continues from them.
pub struct SessionEvents {
    header: SessionHeader,
    /// The lines; `None` if no event was recorded.
    lines: Option<EventLines>,
    journal: JournalIndex,
    /// The number of events so far that had the message at a place of the journal.
    named: HashMap<MessagePlace, u32>,
    damaged_lines: u64,
}

/// An event as it was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The number of the event in the session, from 1 on.
    pub sequence: u64,
    /// The number of the last journal line at the time of the event.
    pub journal_line: u64,
    /// The kind of the event, as in JSON.
    pub event: String,
    /// The id of the run that it is about.
    pub run: Option<String>,
    /// The instance name of the agent that it is about.
    pub agent: Option<String>,
    /// The members of the event's JSON, without its number and that of the journal line. A message may be missing.
    pub members: String,
    place: Option<MessagePlace>,
}

/// The lines of a journal by their number. Their content is read when it is needed.
struct JournalIndex {
    reader: JournalReader,
    /// The offsets of the lines, from line 2 on, and of the end.
    starts: Vec<u64>,
    /// The line that was read last.
    newest: Option<JournalLine>,
}

impl SessionStore {
    /// Opens the recorded events of a session; a process may be writing to it. The journal is read once, up to damage.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist, its header is damaged, or the storage fails.
    pub fn events(&self, given: &str) -> Result<SessionEvents, SessionError> {
        let id = self.resolve(given)?;
        // Before the journal is read, so that it has every line that the events refer to.
        let lines = self.journals.events(&id)?.map(EventLines::of);
        let mut reader = JournalReader::open(Arc::clone(&self.journals), &id)?;
        let mut starts = Vec::new();
        while let Some(line) = reader.next_before_damage()? {
            starts.push(line.start);
        }
        starts.push(reader.at());
        let header = SessionHeader { id, ..reader.header().clone() };
        let journal = JournalIndex { reader, starts, newest: None };
        Ok(SessionEvents { header, lines, journal, named: HashMap::new(), damaged_lines: 0 })
    }
}

impl SessionEvents {
    /// Returns the header of the journal.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Returns `true` if the session has recorded events. A session of an earlier release has none.
    pub fn is_recorded(&self) -> bool {
        self.lines.is_some()
    }

    /// Returns the number of the last line of the journal.
    pub fn last_journal_line(&self) -> u64 {
        self.journal.starts.len() as u64
    }

    /// Returns the number of damaged lines that were skipped.
    pub fn damaged_lines(&self) -> u64 {
        self.damaged_lines
    }

    /// Returns the next event; `None` after the last complete one. A damaged line is skipped.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    pub fn next_event(&mut self) -> Result<Option<RecordedEvent>, SessionError> {
        let Some(lines) = &mut self.lines else { return Ok(None) };
        loop {
            let Some(line) = lines.next_line()? else { return Ok(None) };
            match String::from_utf8(line).ok().and_then(|line| recorded(&line)) {
                Some(event) => return Ok(Some(event)),
                None => self.damaged_lines += 1,
            }
        }
    }

    /// Returns the message of an event that the journal holds; `None` if the event has none there, or
    /// [`limits::SESSION_MESSAGE_EVENTS`] events before it had the same message. Such an event counts as damaged.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the line of the journal is damaged, or the storage fails.
    pub fn message_of(&mut self, event: &RecordedEvent) -> Result<Option<Arc<Message>>, SessionError> {
        let Some(place) = event.place else { return Ok(None) };
        if self.named.get(&place).is_some_and(|events| *events >= limits::SESSION_MESSAGE_EVENTS) {
            self.damaged_lines += 1;
            return Ok(None);
        }
        let message = match self.journal.line(place.line)?.map(|line| &line.what) {
            Some(JournalLineContent::Record(record)) => place.message_in(record),
            Some(JournalLineContent::Opened { .. }) | None => None,
        };
        if message.is_some() {
            *self.named.entry(place).or_default() += 1;
        }
        Ok(message)
    }

    /// Returns the line of the journal with this number; `None` if there is none, or if it is the header.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the line is damaged, or the storage fails.
    pub fn journal_line(&mut self, n: u64) -> Result<Option<&JournalLine>, SessionError> {
        self.journal.line(n)
    }
}

impl RecordedEvent {
    /// Returns `true` if a line begins the events of a sink.
    pub fn is_stream_start(&self) -> bool {
        self.event == STREAM_STARTED
    }

    /// Returns `true` if the journal holds the message of the event.
    pub fn has_message(&self) -> bool {
        self.place.is_some()
    }

    /// Returns the number of the journal line that has the message of the event.
    pub fn message_line(&self) -> Option<u64> {
        self.place.map(|place| place.line)
    }
}

/// Parses a line; `None` if it is damaged.
fn recorded(line: &str) -> Option<RecordedEvent> {
    let EventLineEnvelope { sequence, n, event, run, agent, recorded: place, .. } =
        EventLineEnvelope::of(line.as_bytes())?;
    let members = line.strip_prefix(&*format!("{{\"sequence\":{sequence},\"n\":{n},"))?.strip_suffix('}')?.to_owned();
    Some(RecordedEvent { sequence, journal_line: n, event, run, agent, members, place })
}

impl JournalIndex {
    fn line(&mut self, n: u64) -> Result<Option<&JournalLine>, SessionError> {
        let bounds = n.checked_sub(2).and_then(|at| usize::try_from(at).ok()).and_then(|at| {
            let [start, end] = self.starts.get(at..at.checked_add(2)?)? else { return None };
            Some((*start, *end))
        });
        let Some((start, end)) = bounds else { return Ok(None) };
        if self.newest.as_ref().is_none_or(|newest| newest.n != n) {
            self.newest = Some(self.reader.line_between(n, start, end)?);
        }
        Ok(self.newest.as_ref())
    }
}
