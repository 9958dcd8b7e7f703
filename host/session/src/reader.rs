use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use super::{
    SessionError, SessionHeader, SessionPart,
    attachments::restore,
    journal_lease::AttachmentError,
    journal_source::JournalSource,
    journal_start::{CHUNK, read_start},
    journal_storage::JournalStorage,
    journal_verifier::JournalVerifier,
    line_format::{AttachmentRef, LineEnvelope, checked},
    session_record::{OPENED, SessionRecord},
};
use shelly_core::{agent::journal::JournalRecord, digest::Sha256Digest, limits};

/// A reader of a journal, line by line. A truncated last line is skipped with a warning. After an error the reader is
/// exhausted.
pub struct JournalReader {
    journals: Arc<dyn JournalStorage>,
    /// The name of the session.
    id: String,
    source: Box<dyn JournalSource>,
    header: SessionHeader,
    /// The bytes that were read, the length of the consumed part, and the offset of their end in the journal.
    buffer: Vec<u8>,
    looked_at: usize,
    read_to: u64,
    /// The number of the last consumed line.
    n: u64,
    warnings: Vec<String>,
    is_done: bool,
    /// Verifies the lines against the mark while they are read.
    watch: JournalVerifier,
}

/// A line of a journal.
#[derive(Debug, Clone, PartialEq)]
pub struct JournalLine {
    /// The number, from 2 on: the header is line 1.
    pub n: u64,
    /// The time of writing, in milliseconds since 1970.
    pub t: u64,
    /// The run that the line belongs to; 0 for the session itself.
    pub run: u64,
    /// The content.
    pub what: JournalLineContent,
}

/// The content of a journal line.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are records")]
pub enum JournalLineContent {
    /// An event in a run.
    Record(JournalRecord),
    /// A process opened the session for writing.
    Opened {
        /// The process id.
        pid: u32,
        /// The release of the host.
        host: String,
        /// The agents, teams, plugins and models in use.
        parts: Vec<SessionPart>,
    },
}

/// A line with a correct checksum whose content is not parsed yet.
pub(super) struct RawJournalLine {
    /// The offset of its first byte.
    pub start: u64,
    /// The text, without its line end.
    pub text: String,
    pub n: u64,
    pub t: u64,
    pub run: u64,
    pub is_own: bool,
    pub attached: BTreeMap<String, AttachmentRef>,
}

impl JournalReader {
    /// Opens the journal of the session of this name and reads its first line.
    pub(super) fn open(journals: Arc<dyn JournalStorage>, id: &str) -> Result<Self, SessionError> {
        let mut source = journals.read(id, 1)?;
        let mut buffer = Vec::new();
        let (header, looked_at) = read_start(&mut *source, &mut buffer, &journals.location(id))?;
        Ok(Self {
            journals,
            id: id.to_owned(),
            source,
            header,
            read_to: buffer.len() as u64,
            buffer,
            looked_at,
            n: 1,
            warnings: Vec::new(),
            is_done: false,
            watch: JournalVerifier::Unmarked,
        })
    }

    /// Opens the journal of the session of this name with a verifier; authorship is known after the lines are read.
    pub(super) fn open_watched(
        journals: Arc<dyn JournalStorage>,
        id: &str,
        watch: impl FnOnce(&SessionHeader, &[u8]) -> Result<JournalVerifier, SessionError>,
    ) -> Result<Self, SessionError> {
        let mut journal = Self::open(journals, id)?;
        let line = &journal.buffer[..journal.looked_at];
        let mut watch = watch(&journal.header, line)?;
        watch.see(1, &line[..line.len() - 1]);
        journal.watch = watch;
        Ok(journal)
    }

    /// Returns the verifier, which knows the authorship of the lines read and the chain for further ones.
    pub(super) fn watch(&self) -> &JournalVerifier {
        &self.watch
    }

    /// Returns the header.
    pub fn header(&self) -> &SessionHeader {
        &self.header
    }

    /// Returns the first line with its line end. Nothing else has been read yet.
    pub(super) fn first_line(&self) -> &[u8] {
        &self.buffer[..self.looked_at]
    }

    /// Returns the warnings about skipped lines, once all lines are read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn path(&self) -> PathBuf {
        self.journals.location(&self.id)
    }

    /// Returns the offset of the next line; once all lines are read, the end of the intact part.
    pub(super) fn at(&self) -> u64 {
        self.read_to - (self.buffer.len() - self.looked_at) as u64
    }

    /// Returns the number of the last line that was read.
    pub(super) fn line(&self) -> u64 {
        self.n
    }

    fn damaged(&self, line: u64, byte: u64, reason: impl Into<String>) -> SessionError {
        SessionError::Damaged { path: self.path(), line, byte, reason: reason.into() }
    }

    /// Returns the next line; `None` at the end.
    pub(super) fn next_checked(&mut self) -> Result<Option<RawJournalLine>, SessionError> {
        if self.is_done {
            return Ok(None);
        }
        let line = self.advance();
        self.is_done = !matches!(line, Ok(Some(_)));
        line
    }

    /// Returns the next line; `None` at the end and at damage.
    pub(super) fn next_before_damage(&mut self) -> Result<Option<RawJournalLine>, SessionError> {
        match self.next_checked() {
            Err(SessionError::Damaged { .. }) => Ok(None),
            line => line,
        }
    }

    /// Reads the next line that the session's mark covers; returns `false` if there is none.
    pub(super) fn next_covered(&mut self) -> Result<bool, SessionError> {
        Ok(matches!(self.watch, JournalVerifier::Covered { .. }) && self.next_before_damage()?.is_some())
    }

    fn advance(&mut self) -> Result<Option<RawJournalLine>, SessionError> {
        let (start, n) = (self.at(), self.n + 1);
        let Some(length) = self.find_end()? else {
            let rest = self.buffer.len() - self.looked_at;
            if rest > 0 {
                self.warnings.push(format!("line {n} was cut off after {rest} bytes and is left out"));
            }
            return Ok(None);
        };
        if length > limits::SESSION_LINE_BYTES + limits::SESSION_HEADER_BYTES {
            let most = limits::SESSION_LINE_BYTES;
            return Err(self.damaged(n, start, format!("the line has more than {most} bytes")));
        }
        let line = &self.buffer[self.looked_at..self.looked_at + length];
        let text = match checked(line) {
            Ok(text) => text.to_owned(),
            Err(reason) => {
                // Only the last line can be incomplete because of a crash.
                if self.buffer.len() > self.looked_at + length + 1 || self.read_chunk()? > 0 {
                    return Err(self.damaged(n, start, reason));
                }
                self.warnings.push(format!("the last line, {n}, is incomplete and is left out: {reason}"));
                return Ok(None);
            }
        };
        let line = self.raw(start, n, text)?;
        self.watch.see(n, line.text.as_bytes());
        self.looked_at += length + 1;
        self.n = n;
        Ok(Some(line))
    }

    /// Parses the envelope of the line with this number.
    fn raw(&self, start: u64, n: u64, text: String) -> Result<RawJournalLine, SessionError> {
        let envelope: LineEnvelope<'_> = serde_json::from_str(&text)
            .map_err(|error| self.damaged(n, start, format!("not a line of a session: {error}")))?;
        if envelope.n != n {
            return Err(self.damaged(n, start, format!("the line has the number {}", envelope.n)));
        }
        let LineEnvelope { t, run, ref kind, .. } = envelope;
        let is_own = kind == OPENED;
        let attached = envelope.attached;
        Ok(RawJournalLine { start, text, n, t, run, is_own, attached })
    }

    /// Reads the line with this number, which lies between two offsets, once more. All lines were read before.
    pub(super) fn line_between(&mut self, n: u64, start: u64, end: u64) -> Result<JournalLine, SessionError> {
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or_default();
        let mut line = Vec::new();
        self.source.seek(start)?;
        while line.len() < length {
            let left = length - line.len();
            if self.source.read_more(&mut line, left)? == 0 {
                break;
            }
        }
        let text =
            checked(line.strip_suffix(b"\n").unwrap_or(&line)).map_err(|reason| self.damaged(n, start, reason))?;
        self.understood(self.raw(start, n, text.to_owned())?)
    }

    /// Buffers the next line and returns its length without its line end; `None` if the file ends before.
    fn find_end(&mut self) -> Result<Option<usize>, SessionError> {
        let most = limits::SESSION_LINE_BYTES + limits::SESSION_HEADER_BYTES;
        let mut searched = 0;
        loop {
            let there = &self.buffer[self.looked_at..];
            if let Some(found) = memchr::memchr(b'\n', &there[searched..]) {
                return Ok(Some(searched + found));
            }
            searched = there.len();
            if searched > most {
                return Ok(Some(searched));
            }
            self.buffer.drain(..self.looked_at);
            self.looked_at = 0;
            if self.read_chunk()? == 0 {
                return Ok(None);
            }
        }
    }

    /// Buffers bytes that follow, and returns their number; 0 at the present end.
    fn read_chunk(&mut self) -> Result<usize, SessionError> {
        let read = self.source.read_more(&mut self.buffer, CHUNK)?;
        self.read_to += read as u64;
        Ok(read)
    }

    /// Parses a line, with its attachments.
    pub(super) fn understood(&self, line: RawJournalLine) -> Result<JournalLine, SessionError> {
        let RawJournalLine { start, ref text, n, t, run, is_own, ref attached, .. } = line;
        let wrong = |reason: String| self.damaged(n, start, reason);
        let whole = match attached.is_empty() {
            true => None,
            false => Some(restore(text, attached, |digest| self.attachment(digest, &wrong), wrong)?),
        };
        let text = whole.as_ref().unwrap_or(text);
        let unreadable = |error: serde_json::Error| wrong(format!("not a record: {error}"));
        let what = match is_own {
            true => {
                let SessionRecord::Opened { pid, host, parts } = serde_json::from_str(text).map_err(unreadable)?;
                JournalLineContent::Opened { pid, host, parts }
            }
            false => JournalLineContent::Record(serde_json::from_str(text).map_err(unreadable)?),
        };
        Ok(JournalLine { n, t, run, what })
    }

    fn attachment(
        &self,
        digest: &Sha256Digest,
        wrong: &impl Fn(String) -> SessionError,
    ) -> Result<Vec<u8>, SessionError> {
        attachment(&*self.journals, &self.id, digest).map_err(|error| error.into_session_error(digest, wrong))
    }
}

/// Reads an attachment of the session of this name, and checks its digest.
pub(super) fn attachment(
    journals: &dyn JournalStorage,
    id: &str,
    digest: &Sha256Digest,
) -> Result<Vec<u8>, AttachmentError> {
    let bytes = journals.attachment(id, digest)?;
    match Sha256Digest::of(&bytes) == *digest {
        true => Ok(bytes),
        false => Err(AttachmentError::Unusable("does not match its digest")),
    }
}

impl Iterator for JournalReader {
    type Item = Result<JournalLine, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.next_checked() {
            Ok(line) => line?,
            Err(error) => return Some(Err(error)),
        };
        let line = self.understood(line);
        self.is_done = line.is_err();
        Some(line)
    }
}

impl fmt::Debug for JournalReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("id", &self.id).field("n", &self.n).finish_non_exhaustive()
    }
}
