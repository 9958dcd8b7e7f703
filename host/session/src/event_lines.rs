//! The lines of a file of recorded events.

use std::{io, mem};

use serde::Deserialize;

use super::{StoredFile, message_place::MessagePlace};
use shelly_core::limits;

/// The number of bytes read at once.
const CHUNK: usize = 256 << 10;

/// The complete lines of a file of events, in order. Lines that are too long are skipped, as is an incomplete last one.
pub(super) struct EventLines {
    file: Box<dyn StoredFile>,
    /// The bytes that were read, the length of the consumed part, and the file offset of their end.
    buffer: Vec<u8>,
    looked_at: usize,
    read_to: u64,
    /// The offset at which reading ends, although a process may append more.
    end: u64,
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

/// The part of a file of events to which further ones are appended.
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
    /// Returns the lines that the file has now.
    pub fn of(file: Box<dyn StoredFile>) -> io::Result<Self> {
        let end = file.len()?;
        Ok(Self { file, buffer: Vec::new(), looked_at: 0, read_to: 0, end })
    }

    /// Returns the offset of the next line.
    pub fn at(&self) -> u64 {
        self.read_to - (self.buffer.len() - self.looked_at) as u64
    }

    pub fn into_file(self) -> Box<dyn StoredFile> {
        self.file
    }

    /// Returns the next complete line without its line end; `None` at the end.
    pub fn next_line(&mut self) -> io::Result<Option<Vec<u8>>> {
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
            let old = self.buffer.len();
            let left = usize::try_from(self.end - self.read_to).unwrap_or(CHUNK);
            self.buffer.resize(old + left.min(CHUNK), 0);
            let read = self.file.read_full_at(&mut self.buffer[old..], self.read_to)?;
            self.buffer.truncate(old + read);
            self.read_to += read as u64;
            if read == 0 {
                return Ok(None);
            }
        }
    }

    /// Determines the part of the file that belongs to the first `last` lines of the journal. Nearly always the last line
    /// decides; otherwise the whole file is read.
    pub fn intact(&mut self, last: u64) -> io::Result<IntactEvents> {
        let from = self.end.saturating_sub(limits::SESSION_EVENT_BYTES as u64 + 2);
        let mut tail = vec![0; usize::try_from(self.end - from).unwrap_or_default()];
        let read = self.file.read_full_at(&mut tail, from)?;
        tail.truncate(read);
        if let Some(end) = memchr::memrchr(b'\n', &tail) {
            let before = memchr::memrchr(b'\n', &tail[..end]).map(|at| at + 1);
            let start = before.or((from == 0).then_some(0));
            let envelope = start.and_then(|start| EventLineEnvelope::of(&tail[start..end]));
            if let Some(EventLineEnvelope { sequence, is_last: is_full, .. }) = envelope.filter(|there| there.n <= last)
            {
                return Ok(IntactEvents { end: from + end as u64 + 1, sequence, is_full });
            }
        }
        let mut intact = IntactEvents::default();
        while let Some(line) = self.next_line()? {
            // A damaged line in the middle does not make the others worthless.
            let Some(envelope) = EventLineEnvelope::of(&line) else { continue };
            if envelope.n > last {
                break;
            }
            intact = IntactEvents { end: self.at(), sequence: envelope.sequence, is_full: envelope.is_last };
        }
        Ok(intact)
    }
}
