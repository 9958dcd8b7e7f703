use std::time::SystemTime;

use super::{
    SessionDiskUsage, SessionError, SessionHeader, SessionStore, file_names::is_name, journal_status::SessionStatus,
    journal_storage::JournalStat,
};
use shelly_core::error::without_number;

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

    /// Returns one session as [`list`](Self::list) does; `None` if no session has this whole name.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the folder cannot be read.
    pub fn summary_of(&self, id: &str) -> Result<Option<SessionSummary>, SessionError> {
        let found = self.journals.stats()?.into_iter().find(|stat| stat.id == id && is_name(&stat.id));
        Ok(found.map(|found| self.summary(found)))
    }

    /// Returns the disk usage of all sessions.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the folder cannot be read.
    pub fn usage(&self) -> Result<SessionDiskUsage, SessionError> {
        self.journals.usage()
    }

    /// Returns all sessions, the newest first, including unreadable ones.
    pub(super) fn newest(&self) -> Result<Vec<JournalStat>, SessionError> {
        let mut all = self.journals.stats()?;
        all.retain(|stat| is_name(&stat.id));
        all.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
        Ok(all)
    }

    fn summary(&self, found: JournalStat) -> SessionSummary {
        let JournalStat { id, modified, journal_bytes } = found;
        let content = self.journals.describe(&id).map(|(mut header, status)| {
            header.id.clone_from(&id);
            (header, status)
        });
        let content = content.map_err(|error| without_number(&error.report().to_string()));
        SessionSummary { in_use: self.is_in_use(&id), bytes: self.bytes_of(&id), id, modified, journal_bytes, content }
    }

    /// Returns `true` if no process writes to the session and its last run has not ended.
    pub(super) fn could_go_on(&self, id: &str) -> bool {
        let status = self.journals.status(id).ok();
        status == Some(SessionStatus::Unfinished) && !self.is_in_use(id)
    }

    /// Returns `true` if a process writes to the session; `false` if that cannot be determined.
    pub fn is_in_use(&self, id: &str) -> bool {
        self.journals.is_taken(id)
    }

    /// Returns the size of the journal of a session in bytes; `None` if it cannot be determined.
    pub fn journal_bytes(&self, id: &str) -> Option<u64> {
        self.journals.journal_bytes(id)
    }

    /// Returns the size of a session in bytes. Unreadable parts are not counted, so that they do not make the other sessions
    /// unusable.
    pub(super) fn bytes_of(&self, id: &str) -> u64 {
        self.journals.bytes_of(id)
    }
}
