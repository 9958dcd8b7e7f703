//! The events of a session as lines of the stream of events, in which `run --output events` printed them.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    journal_events::{JournalEvents, is_told, says_something},
    line_members::{json, members},
};
use shelly_core::{
    agent::journal::JournalRecord,
    chat::Message,
    event::{EVENT_STREAM_VERSION, Event, StreamStart},
    limits,
};
use shelly_session::{JournalLineContent, RecordedEvent, SessionError, SessionEvents, SessionHeader, SessionStore};

/// The lines of a session's trace: one JSON object each, without a line end. They are read and put together one by one, so
/// that a large session takes little memory.
///
/// Events that were not recorded follow from the journal: those of a session of an earlier release, and those after the last
/// one that reached the disk before a crash.
pub struct TraceLines {
    events: SessionEvents,
    /// The name of the session as JSON.
    session: String,
    /// The number of the last line.
    sequence: u64,
    /// The last line of the journal whose events were passed on.
    told: u64,
    /// The last line of the journal up to which no message is looked for: it was passed on, or comes before the next event.
    message_told: u64,
    /// The last line of the journal whose events come before the next recorded event.
    fill_to: u64,
    /// The runs that have not finished, by the instance of their agent.
    runs: HashMap<String, String>,
    /// The instances whose runs had not finished when their stream ended, and that have begun no run since.
    interrupted: HashSet<String>,
    /// The last line of the journal that was looked at for new runs of such instances.
    begun_to: u64,
    /// Set if the last line begins a run that continues an interrupted one.
    is_continuation: bool,
    journal: JournalEvents,
    /// Lines that come before the next event: their members, without the session and the number.
    due: VecDeque<String>,
    /// The event that follows them.
    next: Option<RecordedEvent>,
    state: TraceLinesState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceLinesState {
    Beginning,
    Events,
    End,
}

impl TraceLines {
    /// Opens the trace of a session; a process may be writing to it.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the session does not exist, its header is damaged, or the disk fails.
    pub fn open(store: &SessionStore, session: &str) -> Result<Self, SessionError> {
        let events = store.events(session)?;
        let session = json(&events.header().id);
        Ok(Self {
            events,
            session,
            sequence: 0,
            // The header is line 1.
            told: 1,
            message_told: 1,
            fill_to: 1,
            runs: HashMap::new(),
            interrupted: HashSet::new(),
            begun_to: 1,
            is_continuation: false,
            journal: JournalEvents::default(),
            due: VecDeque::new(),
            next: None,
            state: TraceLinesState::Beginning,
        })
    }

    /// Returns the header of the session's journal.
    pub fn header(&self) -> &SessionHeader {
        self.events.header()
    }

    /// Returns `true` if the events of the session were recorded. Otherwise all lines follow from the journal, which knows
    /// neither middleware, plugins and effects nor exact times.
    pub fn is_recorded(&self) -> bool {
        self.events.is_recorded()
    }

    /// Returns the number of damaged events that were skipped so far.
    pub fn damaged_events(&self) -> u64 {
        self.events.damaged_lines()
    }

    /// Returns `true` if the last line begins a run that continues an interrupted run of the same instance.
    pub(crate) fn is_continuation(&self) -> bool {
        self.is_continuation
    }

    fn next_line(&mut self) -> Result<Option<String>, SessionError> {
        self.is_continuation = false;
        loop {
            if let Some(members) = self.due.pop_front() {
                return Ok(Some(self.framed(&members)));
            }
            if self.told < self.fill_to {
                self.fill_line()?;
                continue;
            }
            if let Some(event) = self.next.take() {
                self.note(&event)?;
                return self.line_of(&event).map(Some);
            }
            match self.state {
                TraceLinesState::Beginning => self.begin()?,
                TraceLinesState::Events => match self.events.next_event()? {
                    Some(event) => self.follow_with(event)?,
                    None => {
                        self.fill_before(self.events.last_journal_line())?;
                        self.state = TraceLinesState::End;
                    }
                },
                TraceLinesState::End => return Ok(None),
            }
        }
    }

    /// Begins the stream, unless its first recorded line does.
    fn begin(&mut self) -> Result<(), SessionError> {
        self.state = TraceLinesState::Events;
        let first = self.events.next_event()?;
        let begins_itself = match &first {
            Some(event) if event.is_stream_start() => !self.is_gap_told(event.journal_line)?,
            _ => false,
        };
        if !begins_itself {
            let host = self.events.header().host.clone();
            self.due.push_back(members(&StreamStart { version: EVENT_STREAM_VERSION, host: &host, session: None }));
        }
        match first {
            Some(event) => self.follow_with(event),
            None => {
                if !self.events.is_recorded() {
                    let message = "no events were recorded in this session; the trace follows from its journal, without \
                                   plugins, middleware and effects";
                    self.due.push_back(members(&Event::Warning { message: message.into() }));
                }
                Ok(())
            }
        }
    }

    /// Takes the next recorded event. What the journal has had before a new stream comes first.
    fn follow_with(&mut self, event: RecordedEvent) -> Result<(), SessionError> {
        if event.is_stream_start() {
            self.fill_before(event.journal_line)?;
        }
        self.next = Some(event);
        Ok(())
    }

    /// Notes which runs there are after an event.
    fn note(&mut self, event: &RecordedEvent) -> Result<(), SessionError> {
        let line = event.journal_line.min(self.events.last_journal_line());
        self.told = self.told.max(line);
        if event.event == "message_added" {
            self.message_told =
                self.message_told.max(event.message_line().map_or(line, |of_message| of_message.min(line)));
        }
        if event.is_stream_start() {
            // The journal knows those whose beginning was not recorded as an event.
            let begun = self.journal.unfinished().map(str::to_owned);
            let unfinished = self.runs.drain().map(|(agent, _)| agent).chain(begun);
            let room = limits::TRACE_OPEN_RUNS.saturating_sub(self.interrupted.len());
            self.interrupted.extend(unfinished.take(room));
            self.begun_to = self.begun_to.max(line);
        }
        if let (Some(agent), Some(run)) = (&event.agent, &event.run) {
            match &*event.event {
                "run_started" => {
                    self.is_continuation = self.continues_interrupted(agent, line)?;
                    self.runs.insert(agent.clone(), run.clone());
                }
                "run_finished" => drop(self.runs.remove(agent)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns `true` if a run of this instance that begins at the line `last` continues an interrupted one. A new run has a
    /// record of its beginning, which is written before the event.
    fn continues_interrupted(&mut self, agent: &str, last: u64) -> Result<bool, SessionError> {
        if !self.interrupted.contains(agent) {
            return Ok(false);
        }
        for n in self.begun_to + 1..=last {
            if let Some(line) = self.events.journal_line(n)?
                && let JournalLineContent::Record(record) = &line.what
                && let JournalRecord::Began { instance, .. } = record
            {
                self.interrupted.remove(&**instance);
            }
        }
        self.begun_to = self.begun_to.max(last);
        Ok(self.interrupted.remove(agent))
    }

    /// Returns `true` if the journal has a line up to `last` whose event was not passed on.
    fn is_gap_told(&mut self, last: u64) -> Result<bool, SessionError> {
        // An event may name a line that the journal never had.
        for n in self.told + 1..=last.min(self.events.last_journal_line()) {
            if let Some(line) = self.events.journal_line(n)?
                && let JournalLineContent::Record(record) = &line.what
                && is_told(record)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lets the events that follow from the journal up to the line `last` come first, if there are any.
    fn fill_before(&mut self, last: u64) -> Result<(), SessionError> {
        let last = last.min(self.events.last_journal_line());
        self.told = self.told.min(self.line_before_lost_message()?);
        match self.is_gap_told(last)? {
            true => self.fill_to = last,
            false => self.told = self.told.max(last),
        }
        self.message_told = self.message_told.max(last);
        Ok(())
    }

    /// Returns the last line before one whose message is not among the events that were passed on, though events after that line
    /// were. The number of the last line that was passed on if there is none.
    fn line_before_lost_message(&mut self) -> Result<u64, SessionError> {
        for n in self.message_told + 1..=self.told {
            if let Some(line) = self.events.journal_line(n)?
                && let JournalLineContent::Record(record) = &line.what
                && says_something(record)
            {
                return Ok(n - 1);
            }
            // A line without a message is not read again, however many streams begin.
            self.message_told = n;
        }
        Ok(self.told)
    }

    /// Adds the events of the next line of the journal. Those of lines that were passed on say only which runs there are.
    fn fill_line(&mut self) -> Result<(), SessionError> {
        let n = self.journal.next_line();
        if let Some(line) = self.events.journal_line(n)? {
            let events = self.journal.add(line, &self.runs);
            if n > self.told {
                self.due.extend(events);
            }
        }
        self.journal.advance();
        self.told = self.told.max(n);
        Ok(())
    }

    /// Returns the line of a recorded event, with the message that the journal holds.
    fn line_of(&mut self, event: &RecordedEvent) -> Result<String, SessionError> {
        if !event.has_message() {
            return Ok(self.framed(&event.members));
        }
        let message = self.events.message_of(event)?;
        let line = serde_json::from_str::<MessageLine>(&format!("{{{}}}", event.members));
        let Ok(line) = line else { return Ok(self.framed(&event.members)) };
        Ok(self.framed(&members(&MessageLine { message, ..line })))
    }

    /// Returns the next line with these members.
    fn framed(&mut self, members: &str) -> String {
        self.sequence += 1;
        format!("{{\"session\":{},\"sequence\":{},{members}}}", self.session, self.sequence)
    }
}

impl Iterator for TraceLines {
    type Item = Result<String, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.next_line().transpose();
        if matches!(line, Some(Err(_))) {
            // Nothing is tried again: the same line would fail for ever.
            self.state = TraceLinesState::End;
            (self.fill_to, self.next) = (self.told, None);
            self.due.clear();
        }
        line
    }
}

/// The line of an added message, in the order of its members.
#[derive(Serialize, Deserialize)]
struct MessageLine {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<Value>,
    event: Value,
    agent: Value,
    role: Value,
    #[serde(default)]
    message: Option<Arc<Message>>,
}
