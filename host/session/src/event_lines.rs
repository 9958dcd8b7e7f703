//! The lines of recorded events.

use std::mem;

use serde::Deserialize;

use super::{
    SessionError, journal_lease::EventLogEnd, journal_source::JournalSource, journal_start::CHUNK,
    message_place::MessagePlace,
};
use shelly_core::limits;

/// The complete lines of recorded events, in order. Lines that are too long are skipped, as is an incomplete last one.
pub(super) struct EventLines {
    source: Box<dyn JournalSource>,
    /// The bytes that were read, the length of the consumed part, and the offset of their end in all events.
    buffer: Vec<u8>,
    looked_at: usize,
    read_to: u64,
}

/// The members of a line that concern its place in the session.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct EventLineEnvelope {
    /// The number of the line, from 1 on.
    pub sequence: u64,
    /// The number of the last journal line at the time of the event.
    pub n: u64,
    pub event: String,
    #[serde(default)]
    pub run: Option<String>,
    #[serde(default)]
    pub agent: Option<String>,
    #[serde(default)]
    pub recorded: Option<MessagePlace>,
    /// `true` for the line after which nothing is recorded.
    #[serde(default)]
    pub is_last: bool,
}

impl EventLineEnvelope {
    /// Parses a line; `None` if it is damaged.
    pub fn of(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// The part of the recorded events to which further ones are appended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct IntactEvents {
    /// Its length.
    pub end: u64,
    /// The number of its last line.
    pub sequence: u64,
    /// Set if its last line says that nothing more is recorded.
    pub is_full: bool,
}

impl EventLines {
    /// Returns the lines of a source that is read from its beginning.
    pub fn of(source: Box<dyn JournalSource>) -> Self {
        Self { source, buffer: Vec::new(), looked_at: 0, read_to: 0 }
    }

    /// Returns the offset of the next line.
    pub fn at(&self) -> u64 {
        self.read_to - (self.buffer.len() - self.looked_at) as u64
    }

    /// Returns the next complete line without its line end; `None` at the end.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, SessionError> {
        let mut is_too_long = false;
        loop {
            let there = &self.buffer[self.looked_at..];
            if let Some(end) = memchr::memchr(b'\n', there) {
                let line = (end <= limits::SESSION_EVENT_BYTES).then(|| there[..end].to_vec());
                self.looked_at += end + 1;
                match line {
                    Some(line) if !mem::take(&mut is_too_long) => return Ok(Some(line)),
                    _ => is_too_long = false,
                }
                continue;
            }
            if there.len() > limits::SESSION_EVENT_BYTES {
                is_too_long = true;
                self.looked_at = self.buffer.len();
            }
            self.buffer.drain(..self.looked_at);
            self.looked_at = 0;
            let read = self.source.read_more(&mut self.buffer, CHUNK)?;
            self.read_to += read as u64;
            if read == 0 {
                return Ok(None);
            }
        }
    }
}

impl IntactEvents {
    /// Determines from the last line the part of the events that belongs to the first `last` lines of the journal; `None` if
    /// that line does not decide it.
    pub fn of_end(EventLogEnd { bytes, tail }: &EventLogEnd, last: u64) -> Option<Self> {
        let end = memchr::memrchr(b'\n', tail)?;
        // A line whose beginning is missing is no JSON object.
        let start = memchr::memrchr(b'\n', &tail[..end]).map_or(0, |at| at + 1);
        let EventLineEnvelope { sequence, n, is_last: is_full, .. } = EventLineEnvelope::of(&tail[start..end])?;
        let cut_off = (tail.len() - end - 1) as u64;
        (n <= last).then(|| Self { end: bytes.saturating_sub(cut_off), sequence, is_full })
    }

    /// Determines the same from all lines.
    pub fn of_lines(mut lines: EventLines, last: u64) -> Result<Self, SessionError> {
        let mut intact = Self::default();
        while let Some(line) = lines.next_line()? {
            // A damaged line in the middle does not make the others worthless.
            let Some(envelope) = EventLineEnvelope::of(&line) else { continue };
            if envelope.n > last {
                break;
            }
            intact = Self { end: lines.at(), sequence: envelope.sequence, is_full: envelope.is_last };
        }
        Ok(intact)
    }
}
