use std::{collections::BTreeMap, io, path::Path, time::SystemTime};

use serde::{Deserialize, de::IgnoredAny};

use super::{
    SessionDiskUsage, SessionError, SessionHeader, SessionStore, StorageEntryKind, StoredFile,
    error::disk,
    file_names::{ATTACHMENTS, JOURNAL, LOCK},
    line_format::{LineEnvelope, checked},
    reader,
};
use shelly_core::{error::without_number, limits};

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The name.
    pub id: String,
    /// The time of the last write.
    pub modified: SystemTime,
    /// The size of the journal in bytes, without attachments.
    pub journal_bytes: u64,
    /// The size of the session in bytes, as far as it can be determined.
    pub bytes: u64,
    /// `true` if a process writes to it.
    pub in_use: bool,
    /// The header and status, or the reason for which they cannot be read.
    pub content: Result<(SessionHeader, SessionStatus), String>,
}

/// The status of the last run that a person started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// No run has begun.
    Empty,
    /// A run is active, or was interrupted.
    Unfinished,
    /// The last run ended with an answer.
    Finished,
    /// The last run ended with an error.
    Failed,
}

/// The name of a session and the file status of its journal.
pub(super) struct JournalStat {
    pub id: String,
    pub modified: SystemTime,
    pub journal_bytes: u64,
}

impl SessionStore {
    /// Lists at most `most` sessions, the newest first. Only the beginning and the end of each journal are read.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the folder cannot be read. An unreadable session is listed with its error.
    pub fn list(&self, most: usize) -> Result<Vec<SessionSummary>, SessionError> {
        let newest = self.newest()?;
        Ok(newest.into_iter().take(most).map(|found| self.summary(found)).collect())
    }

    /// Returns the disk usage of all sessions.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the folder cannot be read.
    pub fn usage(&self) -> Result<SessionDiskUsage, SessionError> {
        let mut usage = SessionDiskUsage::default();
        for id in self.names()? {
            usage.sessions += 1;
            usage.bytes += self.bytes_of(&id);
        }
        Ok(usage)
    }

    /// Returns all sessions, the newest first, including unreadable ones.
    pub(super) fn newest(&self) -> Result<Vec<JournalStat>, SessionError> {
        let mut all = Vec::new();
        for id in self.names()? {
            let path = self.folder.join(&id).join(JOURNAL);
            let (modified, journal_bytes) = match self.storage.entry(&path) {
                Ok(entry) if entry.kind == StorageEntryKind::File => (entry.modified, entry.len),
                Ok(entry) => (entry.modified, 0),
                // The folder belongs to something else, or the session was removed at this moment.
                Err(error) if is_absent(&error) => continue,
                Err(_) => match self.storage.entry(&self.folder.join(&id)) {
                    Ok(entry) => (entry.modified, 0),
                    Err(_) => continue,
                },
            };
            all.push(JournalStat { id, modified, journal_bytes });
        }
        all.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
        Ok(all)
    }

    fn summary(&self, found: JournalStat) -> SessionSummary {
        let JournalStat { id, modified, journal_bytes } = found;
        let path = self.folder.join(&id).join(JOURNAL);
        let content = self.storage.open(&path).map_err(disk("read", &path)).and_then(|file| {
            self.has_its_folder(&id)?;
            let (mut header, start) = reader::header(&*file, &path)?;
            header.id.clone_from(&id);
            let status = status(&*file, start).map_err(disk("read", &path))?;
            Ok((header, status))
        });
        let content = content.map_err(|error| without_number(&error.report().to_string()));
        SessionSummary { in_use: self.is_in_use(&id), bytes: self.bytes_of(&id), id, modified, journal_bytes, content }
    }

    /// Checks that no other object stands in the place of a session's attachment folder.
    fn has_its_folder(&self, id: &str) -> Result<(), SessionError> {
        let path = self.folder.join(id).join(ATTACHMENTS);
        match self.storage.entry(&path) {
            Ok(entry) if entry.kind != StorageEntryKind::Folder => {
                Err(SessionError::NotOurs { path, reason: "expected a folder, found a link or a file".into() })
            }
            Err(error) if !is_absent(&error) => Err(disk("read", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Returns `true` if no process writes to the session and its last run has not ended.
    pub(super) fn could_go_on(&self, id: &str) -> bool {
        let path = self.folder.join(id).join(JOURNAL);
        let file = self.storage.open(&path).ok();
        let status = file.and_then(|file| status(&*file, reader::header(&*file, &path).ok()?.1).ok());
        status == Some(SessionStatus::Unfinished) && !self.is_in_use(id)
    }

    /// Returns `true` if a process writes to the session; `false` if that cannot be determined.
    pub fn is_in_use(&self, id: &str) -> bool {
        let lock = self.storage.open(&self.folder.join(id).join(LOCK));
        lock.and_then(|lock| lock.try_lock()).is_ok_and(|free| !free)
    }

    /// Returns the size of the journal of a session in bytes; `None` if it cannot be determined.
    pub fn journal_bytes(&self, id: &str) -> Option<u64> {
        self.storage.entry(&self.folder.join(id).join(JOURNAL)).ok().map(|entry| entry.len)
    }

    /// Returns the size of a session in bytes. Unreadable parts are not counted, so that they do not make the other sessions
    /// unusable.
    pub(super) fn bytes_of(&self, id: &str) -> u64 {
        self.bytes_below(&self.folder.join(id), limits::SESSION_FOLDERS_DEEP)
    }

    fn bytes_below(&self, folder: &Path, deep: u32) -> u64 {
        let entries = self.storage.entries(folder, limits::SESSION_FILES).unwrap_or_default();
        let bytes = entries.into_iter().map(|entry| match entry.kind {
            StorageEntryKind::File => entry.len,
            StorageEntryKind::Folder if deep > 0 => self.bytes_below(&folder.join(entry.name), deep - 1),
            StorageEntryKind::Folder | StorageEntryKind::Other => 0,
        });
        bytes.sum()
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the status of a session from the end of its journal, whose header ends at `start`.
fn status(file: &dyn StoredFile, start: u64) -> io::Result<SessionStatus> {
    let end = file.len()?;
    // The end of a run is one of the longer lines: retry with a longer piece if nothing was found.
    for most in [limits::SESSION_TAIL_BYTES, 16 * limits::SESSION_TAIL_BYTES] {
        let from = end.saturating_sub(most as u64).max(start);
        let mut tail = vec![0; usize::try_from(end.saturating_sub(from)).unwrap_or_default()];
        let read = file.read_full_at(&mut tail, from)?;
        let last = lines_from_the_end(&tail[..read]).find_map(of_line);
        match last {
            Some(status) => return Ok(status),
            None if from == start => return Ok(SessionStatus::Empty),
            None => {}
        }
    }
    Ok(SessionStatus::Unfinished)
}

/// Iterates over the lines of a text, the last one first.
fn lines_from_the_end(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut left = Some(text);
    std::iter::from_fn(move || {
        let text = left?;
        let start = memchr::memrchr(b'\n', text);
        left = start.map(|at| &text[..at]);
        Some(&text[start.map_or(0, |at| at + 1)..])
    })
}

/// Returns the status that follows from a line, if it is the beginning or the end of a run that a person started.
fn of_line(line: &[u8]) -> Option<SessionStatus> {
    #[derive(Deserialize)]
    struct RunEndLine {
        outcome: BTreeMap<String, IgnoredAny>,
    }
    // Skips parsing for most lines.
    memchr::memmem::find(line, b"\"top\":true")?;
    let text = checked(line).ok()?;
    let envelope: LineEnvelope<'_> =
        serde_json::from_str(text).ok().filter(|envelope: &LineEnvelope<'_>| envelope.top)?;
    match &*envelope.kind {
        "ended" => {
            let RunEndLine { outcome } = serde_json::from_str(text).ok()?;
            Some(if outcome.contains_key("failed") { SessionStatus::Failed } else { SessionStatus::Finished })
        }
        _ => Some(SessionStatus::Unfinished),
    }
}
