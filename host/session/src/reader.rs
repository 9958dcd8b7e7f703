use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    SessionError, SessionHeader, SessionPart, SessionStorage, StorageEntryKind, StoredFile,
    attachments::restore,
    error::disk,
    file_names::{ATTACHMENTS, JOURNAL},
    journal_verifier::JournalVerifier,
    line_format::{AttachmentRef, LineEnvelope, checked},
    session_header::{SessionHeaderError, read_header},
    session_record::{OPENED, SessionRecord},
};
use shelly_core::{agent::journal::JournalRecord, digest::Sha256Digest, limits};

/// A reader of a journal, line by line. A truncated last line is skipped with a warning. After an error the reader is
/// exhausted.
pub struct JournalReader {
    storage: Arc<dyn SessionStorage>,
    folder: PathBuf,
    file: Box<dyn StoredFile>,
    header: SessionHeader,
    /// The bytes that were read, the length of the consumed part, and the file offset of their end.
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

/// The number of bytes read at once.
const CHUNK: usize = 256 << 10;

impl JournalReader {
    /// Opens the journal in this folder and reads its first line.
    pub(super) fn open(storage: Arc<dyn SessionStorage>, folder: PathBuf) -> Result<Self, SessionError> {
        let path = folder.join(JOURNAL);
        let file = storage.open(&path).map_err(disk("read", &path))?;
        let (header, end) = header(&*file, &path)?;
        Ok(Self {
            storage,
            folder,
            file,
            header,
            buffer: Vec::new(),
            looked_at: 0,
            read_to: end,
            n: 1,
            warnings: Vec::new(),
            is_done: false,
            watch: JournalVerifier::Unmarked,
        })
    }

    /// Opens the journal in this folder with a verifier; authorship is known after the lines are read.
    pub(super) fn open_watched(
        storage: Arc<dyn SessionStorage>,
        folder: PathBuf,
        watch: impl FnOnce(&SessionHeader, &[u8]) -> Result<JournalVerifier, SessionError>,
    ) -> Result<Self, SessionError> {
        let mut journal = Self::open(storage, folder)?;
        let path = journal.path();
        let mut line = vec![0; usize::try_from(journal.read_to).unwrap_or_default()];
        journal.file.read_full_at(&mut line, 0).map_err(disk("read", &path))?;
        let mut watch = watch(&journal.header, &line)?;
        line.pop();
        watch.see(1, &line);
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

    /// Returns the warnings about skipped lines, once all lines are read.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(JOURNAL)
    }

    /// Returns the offset of the next line; once all lines are read, the end of the intact part.
    pub(super) fn at(&self) -> u64 {
        self.read_to - (self.buffer.len() - self.looked_at) as u64
    }

    /// Returns the number of the last line that was read.
    pub(super) fn line(&self) -> u64 {
        self.n
    }

    pub(super) fn into_file(self) -> Box<dyn StoredFile> {
        self.file
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
                let end = start + length as u64 + 1;
                // Only the last line can be incomplete because of a crash.
                if self.file.len().map_err(disk("read", &self.path()))? > end {
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

    /// Reads the line with this number, which lies between two offsets, once more.
    pub(super) fn line_between(&self, n: u64, start: u64, end: u64) -> Result<JournalLine, SessionError> {
        let length = usize::try_from(end.saturating_sub(start)).unwrap_or_default();
        let mut line = vec![0; length];
        let read = self.file.read_full_at(&mut line, start).map_err(disk("read", &self.path()))?;
        line.truncate(read);
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
            let old = self.buffer.len();
            self.buffer.resize(old + CHUNK, 0);
            let read = self.file.read_full_at(&mut self.buffer[old..], self.read_to);
            let read = read.map_err(disk("read", &self.folder.join(JOURNAL)))?;
            self.buffer.truncate(old + read);
            self.read_to += read as u64;
            if read == 0 {
                return Ok(None);
            }
        }
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
        attachment(&*self.storage, &self.folder, digest, wrong)
    }
}

/// Reads an attachment of the session in this folder; `wrong` turns a defect of it into an error.
pub(super) fn attachment(
    storage: &dyn SessionStorage,
    folder: &Path,
    digest: &Sha256Digest,
    wrong: &impl Fn(String) -> SessionError,
) -> Result<Vec<u8>, SessionError> {
    let path = folder.join(ATTACHMENTS).join(digest.hex());
    match storage.entry(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(wrong(format!("attachment {digest} is missing"))),
        Err(error) => Err(disk("read", &path)(error)),
        Ok(entry) if entry.kind != StorageEntryKind::File || entry.len > limits::SESSION_RECORD_BYTES as u64 => {
            Err(wrong(format!("attachment {digest} is not a file, or is larger than a record can be")))
        }
        Ok(entry) => {
            let mut bytes = vec![0; usize::try_from(entry.len).unwrap_or_default()];
            let file = storage.open(&path).map_err(disk("read", &path))?;
            let read = file.read_full_at(&mut bytes, 0).map_err(disk("read", &path))?;
            bytes.truncate(read);
            match Sha256Digest::of(&bytes) == *digest {
                true => Ok(bytes),
                false => Err(wrong(format!("attachment {digest} does not match its digest"))),
            }
        }
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

/// Reads the header of a journal, and returns it with the offset of the second line.
pub(super) fn header(file: &dyn StoredFile, path: &Path) -> Result<(SessionHeader, u64), SessionError> {
    let mut buffer = vec![0; 4 << 10];
    let mut read = file.read_full_at(&mut buffer, 0).map_err(disk("read", path))?;
    if memchr::memchr(b'\n', &buffer[..read]).is_none() && read == buffer.len() {
        buffer.resize(limits::SESSION_HEADER_BYTES, 0);
        read += file.read_full_at(&mut buffer[read..], read as u64).map_err(disk("read", path))?;
    }
    let damaged = |reason: String| SessionError::Damaged { path: path.to_owned(), line: 1, byte: 0, reason };
    let end = memchr::memchr(b'\n', &buffer[..read]).ok_or_else(|| damaged("the header has no end".into()))?;
    match read_header(&buffer[..end]) {
        Ok(header) => Ok((header, end as u64 + 1)),
        Err(SessionHeaderError::Newer(version)) => Err(SessionError::Newer { path: path.to_owned(), version }),
        Err(SessionHeaderError::Damaged(reason)) => Err(damaged(reason)),
    }
}

impl fmt::Debug for JournalReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("folder", &self.folder).field("n", &self.n).finish_non_exhaustive()
    }
}
