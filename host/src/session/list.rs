use std::{collections::BTreeMap, io, path::Path, time::SystemTime};

use serde::{Deserialize, de::IgnoredAny};

use super::{
    SessionError, SessionHeader, SessionStore, StorageEntryKind, StoredFile,
    error::disk,
    format::{LineEnvelope, checked},
    reader,
    writer::{ATTACHMENTS, JOURNAL, LOCK},
};
use crate::{error::without_number, limits};

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its name.
    pub id: String,
    /// When something was last written.
    pub modified: SystemTime,
    /// Bytes of its journal, without attachments.
    pub journal_bytes: u64,
    /// Bytes of all of it, as far as that can be told.
    pub bytes: u64,
    /// Whether somebody writes to it.
    pub in_use: bool,
    /// What is in it, or why that cannot be told.
    pub content: Result<(SessionHeader, SessionStatus), String>,
}

/// How far the last run that a person started has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionStatus {
    /// No run has begun.
    Empty,
    /// It is under way, or was interrupted.
    Unfinished,
    /// It ended with an answer.
    Finished,
    /// It ended without one.
    Failed,
}

/// What the sessions take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SessionDiskUsage {
    /// How many there are.
    pub sessions: usize,
    /// Their bytes, attachments included, as far as that can be told. What several sessions share is counted for each.
    pub bytes: u64,
}

/// A session's name and what the system says of its journal.
pub(super) struct JournalStat {
    pub id: String,
    pub modified: SystemTime,
    pub journal_bytes: u64,
}

impl SessionStore {
    /// The newest sessions, at most `most`, the newest first. Of each the beginning and the end are read, no more.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: the folder cannot be read. A session that cannot be read is in the list and says so.
    pub fn list(&self, most: usize) -> Result<Vec<SessionSummary>, SessionError> {
        let newest = self.newest()?;
        Ok(newest.into_iter().take(most).map(|found| self.summary(found)).collect())
    }

    /// What the sessions take.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: the folder cannot be read.
    pub fn usage(&self) -> Result<SessionDiskUsage, SessionError> {
        let mut usage = SessionDiskUsage::default();
        for id in self.names()? {
            usage.sessions += 1;
            usage.bytes += self.bytes_of(&id);
        }
        Ok(usage)
    }

    /// All sessions, the newest first, those that cannot be read among them.
    pub(super) fn newest(&self) -> Result<Vec<JournalStat>, SessionError> {
        let mut all = Vec::new();
        for id in self.names()? {
            let path = self.folder.join(&id).join(JOURNAL);
            let (modified, journal_bytes) = match self.storage.entry(&path) {
                Ok(entry) if entry.kind == StorageEntryKind::File => (entry.modified, entry.len),
                Ok(entry) => (entry.modified, 0),
                // Something else has a folder here, or it was removed in this moment.
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

    /// Whether nothing else stands in the place of a session's attachments.
    fn has_its_folder(&self, id: &str) -> Result<(), SessionError> {
        let path = self.folder.join(id).join(ATTACHMENTS);
        match self.storage.entry(&path) {
            Ok(entry) if entry.kind != StorageEntryKind::Folder => {
                Err(SessionError::NotOurs { path, reason: "a link or a file stands where a folder should be".into() })
            }
            Err(error) if !is_absent(&error) => Err(disk("read", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Whether nobody writes to a session whose last run has not ended.
    pub(super) fn could_go_on(&self, id: &str) -> bool {
        let path = self.folder.join(id).join(JOURNAL);
        let file = self.storage.open(&path).ok();
        let status = file.and_then(|file| status(&*file, reader::header(&*file, &path).ok()?.1).ok());
        status == Some(SessionStatus::Unfinished) && !self.is_in_use(id)
    }

    /// Whether somebody writes to a session. What cannot be told is no.
    pub(super) fn is_in_use(&self, id: &str) -> bool {
        let lock = self.storage.open(&self.folder.join(id).join(LOCK));
        lock.and_then(|lock| lock.try_lock()).is_ok_and(|free| !free)
    }

    /// Bytes of a session. What cannot be read is not counted: it must not keep the others from being used.
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

/// How far the session has come, by the end of its journal, whose header ends at `start`.
fn status(file: &dyn StoredFile, start: u64) -> io::Result<SessionStatus> {
    let end = file.len()?;
    // Once more with a longer piece if nothing was found: the end of a run is one of the longer lines.
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

/// The lines of a text, the last one first.
fn lines_from_the_end(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut left = Some(text);
    std::iter::from_fn(move || {
        let text = left?;
        let start = memchr::memrchr(b'\n', text);
        left = start.map(|at| &text[..at]);
        Some(&text[start.map_or(0, |at| at + 1)..])
    })
}

/// What a line tells, if it is the beginning or the end of a run that a person started.
fn of_line(line: &[u8]) -> Option<SessionStatus> {
    #[derive(Deserialize)]
    struct RunEndLine {
        outcome: BTreeMap<String, IgnoredAny>,
    }
    // Most lines are not parsed.
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
