//! The storage of sessions, as a trait.

use std::{fmt, path::PathBuf, time::SystemTime};

use super::{
    SessionDiskUsage, SessionError, SessionHeader,
    journal_lease::{AttachmentError, JournalDraft, JournalLease},
    journal_source::JournalSource,
    journal_start::describe_source,
    journal_status::SessionStatus,
};
use shelly_core::{digest::Sha256Digest, error::Report};

/// A storage of sessions: their journals, recorded events, marks, attachments and leases.
///
/// The host has two: [`FileJournals`](super::FileJournals), a folder for each session, and
/// [`MemoryJournals`](super::MemoryJournals). A program that embeds the host can bring another one; the
/// [contract suite](super::storage_contract) says whether it does what a [`SessionStore`](super::SessionStore) relies on.
///
/// A journal is a sequence of lines, numbered from 1; the first is the header. Lines are appended in order by the process
/// that holds the lease, never changed, and read by any process at any time. The content of a storage is not trusted: the
/// session store verifies each line and each attachment that it reads.
///
/// Recorded events are a second sequence of lines, which only people read. They may be lost, and nothing depends on them:
/// they are appended without being synced, cut back to what the journal holds when a session continues, and removed with
/// it. The session store keeps them within [`SESSION_EVENTS_BYTES`](shelly_core::limits::SESSION_EVENTS_BYTES).
///
/// Every method blocks, and is called from a thread that may block. Names are those of sessions: 1 to 64 letters, digits,
/// dots, underscores and hyphens, of which the first is a letter, a digit or an underscore.
pub trait JournalStorage: Send + Sync + fmt::Debug {
    /// Returns the path or the address of a session's journal, for messages. Its last folder is the session's name.
    fn location(&self, id: &str) -> PathBuf;

    /// Prepares the storage for a new session, before its limits are checked.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn prepare(&self) -> Result<(), SessionError> {
        Ok(())
    }

    /// Returns the names of all sessions, in any order. Other names are ignored.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn names(&self) -> Result<Vec<String>, SessionError>;

    /// Returns `true` if there is a session of exactly this name.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn contains(&self, id: &str) -> Result<bool, SessionError> {
        Ok(self.names()?.iter().any(|name| name == id))
    }

    /// Returns the times and sizes of all journals, in any order. A session that is removed meanwhile may be missing.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn stats(&self) -> Result<Vec<JournalStat>, SessionError>;

    /// Returns the size of a journal in bytes; `None` if it cannot be determined.
    fn journal_bytes(&self, id: &str) -> Option<u64>;

    /// Returns the size of a session in bytes, with its attachments and recorded events, as far as it can be determined. It
    /// may lag behind until the session's lease is refreshed or released.
    fn bytes_of(&self, id: &str) -> u64;

    /// Returns the size of the recorded events of a session in bytes, as [`JournalStorage::bytes_of`] counts them; 0 if
    /// there are none.
    fn events_bytes(&self, id: &str) -> u64;

    /// Returns the number and the size of all sessions.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn usage(&self) -> Result<SessionDiskUsage, SessionError> {
        let names = self.names()?;
        let bytes = names.iter().map(|id| self.bytes_of(id)).sum();
        Ok(SessionDiskUsage { sessions: names.len(), bytes })
    }

    /// Returns the header and the status of a session. The provided method reads the whole journal.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the header is damaged or the storage fails.
    fn describe(&self, id: &str) -> Result<(SessionHeader, SessionStatus), SessionError> {
        describe_source(&mut *self.read(id, 1)?, &self.location(id))
    }

    /// Returns the status of a session.
    ///
    /// # Errors
    ///
    /// The errors of [`JournalStorage::describe`].
    fn status(&self, id: &str) -> Result<SessionStatus, SessionError> {
        self.describe(id).map(|(_, status)| status)
    }

    /// Opens a journal for reading, from the line `from` on, counted from 1. A journal with fewer lines has no bytes to
    /// read.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if there is no such session or the storage fails.
    fn read(&self, id: &str, from: u64) -> Result<Box<dyn JournalSource>, SessionError>;

    /// Opens the recorded events of a session for reading, as far as they go now: what is appended later is not read. `None`
    /// if there are none.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails, or notices that there is no such session.
    fn events(&self, id: &str) -> Result<Option<Box<dyn JournalSource>>, SessionError>;

    /// Returns the mark of a session; `None` if it has none, or one that is not a short text.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn mark(&self, id: &str) -> Result<Option<String>, SessionError>;

    /// Lists the attachments of a session as digest and size in bytes, in any order; at most `most`.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn attachments(&self, id: &str, most: usize) -> Result<Vec<(Sha256Digest, u64)>, SessionError>;

    /// Reads an attachment of at most [`SESSION_RECORD_BYTES`](shelly_core::limits::SESSION_RECORD_BYTES). The caller checks
    /// the digest of the bytes.
    ///
    /// # Errors
    ///
    /// [`AttachmentError`] if it cannot be read.
    fn attachment(&self, id: &str, digest: &Sha256Digest) -> Result<Vec<u8>, AttachmentError>;

    /// Begins a session of this name. `is_first`: there is no session yet.
    ///
    /// # Errors
    ///
    /// [`SessionError::Exists`] if there is a session of this name; other errors if the storage fails.
    fn draft(&self, id: &str, is_first: bool) -> Result<Box<dyn JournalDraft>, SessionError>;

    /// Takes the lease on a session; returns `None` if another holder has it.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFound`] if there is no such session; other errors if the storage fails.
    fn take(&self, id: &str) -> Result<Option<Box<dyn JournalLease>>, SessionError>;

    /// Returns `true` if a process holds the lease on a session; `false` if that cannot be determined.
    fn is_taken(&self, id: &str) -> bool;

    /// Removes a session on which nobody holds the lease.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails; a part of the session may be gone then.
    fn remove(&self, id: &str) -> Result<JournalRemoval, SessionError>;

    /// Removes the leftovers of drafts and removals that a crash interrupted, and returns those that cannot be removed.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the leftovers cannot be listed.
    fn remove_leftovers(&self) -> Result<Vec<(String, Report)>, SessionError> {
        Ok(Vec::new())
    }

    /// Makes removals durable as far as the storage allows it. Called once after several removals.
    fn sync_removals(&self) {}
}

/// The name of a session, and the time and size of its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalStat {
    /// The name.
    pub id: String,
    /// The time of the last write.
    pub modified: SystemTime,
    /// The size of the journal in bytes, without attachments.
    pub journal_bytes: u64,
}

/// The outcome of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalRemoval {
    /// The session was removed.
    Removed,
    /// A process holds the lease on the session.
    InUse,
    /// There is no such session, or another process has removed it.
    Missing,
}
