//! The two ways to write a journal: under a lease, and into a draft that becomes a session.

use std::{path::PathBuf, time::Duration};

use super::SessionError;
use shelly_core::digest::Sha256Digest;

/// A long string of a record, stored beside the journal under its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalAttachment {
    /// The digest of the bytes.
    pub digest: Sha256Digest,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// Consecutive lines of a journal, written at once.
#[derive(Debug, Clone, Copy)]
pub struct JournalBatch<'a> {
    /// The number of the line that these follow: the sequence that the writer expects to be the last. 0 before the header.
    pub after: u64,
    /// The number of the last of these lines.
    pub last: u64,
    /// The complete lines, each with its line end.
    pub lines: &'a [u8],
    /// The attachments that the lines name and that this writer has not stored yet.
    pub attachments: &'a [JournalAttachment],
}

/// The end of the recorded events of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventLogEnd {
    /// The number of bytes of all events.
    pub bytes: u64,
    /// The last of these bytes. If they hold the whole last line, which is at most
    /// [`SESSION_EVENT_BYTES`](shelly_core::limits::SESSION_EVENT_BYTES) long, the events need not be read to continue them.
    pub tail: Vec<u8>,
}

/// The right to write to one session, which one process holds at a time. Dropping it releases the session. Every call
/// blocks.
pub trait JournalLease: Send {
    /// Continues after the line `last`, which ends at the byte `end`. Anything after it is incomplete, or was
    /// [set aside](JournalLease::set_aside), and is discarded. Called once, before the first line is appended.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails, or cannot discard what follows.
    fn continue_after(&mut self, last: u64, end: u64) -> Result<(), SessionError>;

    /// Keeps a copy of the whole journal before a part of it is discarded, and returns its place.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails or keeps no copies.
    fn set_aside(&mut self) -> Result<PathBuf, SessionError>;

    /// Replaces the mark of the session, durably.
    ///
    /// # Errors
    ///
    /// [`SessionError::LeaseLost`] if another process has taken the session; other errors if the storage fails.
    fn set_mark(&mut self, mark: &str) -> Result<(), SessionError>;

    /// Stores the attachments of a batch, durably, and then appends its lines. After a call that succeeds the lines survive
    /// the end of this process.
    ///
    /// # Errors
    ///
    /// [`SessionError::LeaseLost`] if the last line of the journal is not [`JournalBatch::after`], or if another process has
    /// taken the session: nothing is appended then. Other errors if the storage fails; a part may have been appended then.
    fn append(&mut self, batch: &JournalBatch<'_>) -> Result<(), SessionError>;

    /// Returns once everything that was appended survives a power loss.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if that cannot be known.
    fn sync(&mut self) -> Result<(), SessionError>;

    /// Discards what a failed call left after the last synced line, as far as the storage allows it. Readers skip an
    /// incomplete last line in any case.
    fn discard_unsynced(&mut self) {}

    /// Opens the recorded events for writing, and returns their end. Called once, before the first event is appended.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails: no event is recorded then, and the journal goes on.
    fn open_events(&mut self) -> Result<EventLogEnd, SessionError>;

    /// Continues the recorded events after the byte `end`. Anything after it is discarded. Called once, after
    /// [`JournalLease::open_events`].
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails, or cannot discard what follows.
    fn continue_events(&mut self, end: u64) -> Result<(), SessionError>;

    /// Appends complete lines to the recorded events. They may be lost when the power is.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails. An incomplete line at the end is removed, as far as the storage allows it.
    fn append_events(&mut self, lines: &[u8]) -> Result<(), SessionError>;

    /// Returns `true` if events are gathered [for a while](shelly_core::limits::SESSION_EVENTS_DELAY), because each call
    /// takes long, and `false` if they are written with the next lines of the journal.
    fn gathers_events(&self) -> bool {
        false
    }

    /// Prolongs the lease.
    ///
    /// # Errors
    ///
    /// [`SessionError::LeaseLost`] if another process has taken the session.
    fn refresh(&mut self) -> Result<(), SessionError> {
        Ok(())
    }

    /// Returns the time after which the lease must be refreshed; `None` if it lasts as long as the process.
    fn refresh_interval(&self) -> Option<Duration> {
        None
    }
}

/// A session that is being created. It is not listed and cannot be read until it is published; dropping it leaves nothing.
/// Every call blocks.
pub trait JournalDraft: Send {
    /// Appends lines, from the header on, and stores their attachments.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn append(&mut self, batch: &JournalBatch<'_>) -> Result<(), SessionError>;

    /// Takes over an attachment of a session of this storage.
    ///
    /// # Errors
    ///
    /// [`AttachmentError`] if there is none, or if the storage fails.
    fn share_attachment(&mut self, from: &str, digest: &Sha256Digest) -> Result<(), AttachmentError>;

    /// Appends complete lines to the recorded events.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn append_events(&mut self, lines: &[u8]) -> Result<(), SessionError>;

    /// Sets the mark of the session.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the storage fails.
    fn set_mark(&mut self, mark: &str) -> Result<(), SessionError>;

    /// Gives the session its name once its content is durable, and returns the lease on it, which continues after the last
    /// line.
    ///
    /// # Errors
    ///
    /// [`SessionError::Exists`] if the name was taken meanwhile; other errors if the storage fails.
    fn publish(self: Box<Self>) -> Result<Box<dyn JournalLease>, SessionError>;
}

/// The reason for which an attachment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum AttachmentError {
    /// The session has no attachment of this digest.
    #[error("is missing")]
    Missing,
    /// Another object stands in its place. The text completes a sentence that begins with the attachment.
    #[error("{0}")]
    Unusable(&'static str),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] SessionError),
}

impl AttachmentError {
    /// Returns the error of the storage, or what `wrong` makes of a sentence about the attachment.
    pub(super) fn into_session_error(
        self,
        digest: &Sha256Digest,
        wrong: impl FnOnce(String) -> SessionError,
    ) -> SessionError {
        match self {
            Self::Storage(error) => error,
            defect => wrong(format!("attachment {digest} {defect}")),
        }
    }
}
