//! A session on a server that is being created. Its messages are there, and no entry names them until it is published.

use std::sync::Arc;

use bytes::Bytes;
use shelly_core::digest::Sha256Digest;
use shelly_session::{
    AttachmentError, JournalAttachment, JournalBatch, JournalDraft, JournalLease, SessionError, SessionStatus,
};

use super::{
    cluster_lease::{ClusterLease, TakenLease},
    connection::{ClusterCallError, ClusterConnection, ClusterHandles, key_of, location},
    message_log::MessageLog,
    session_entry::SessionEntry,
};

pub(crate) struct ClusterDraft {
    connection: Arc<ClusterConnection>,
    id: String,
    entry: SessionEntry,
    log: MessageLog,
    last: u64,
    /// The recorded events.
    events: MessageLog,
    is_published: bool,
}

impl ClusterDraft {
    /// Creates the draft of a session of this name; `token` is one that no other session has.
    pub fn new(connection: Arc<ClusterConnection>, id: &str, token: String) -> Self {
        let log = MessageLog::new(connection.handles().journal_subject(id, &token));
        let events = MessageLog::new(connection.handles().events_subject(id, &token));
        let (id, entry) = (id.to_owned(), SessionEntry::new(token));
        Self { connection, id, entry, log, last: 0, events, is_published: false }
    }

    fn wait<T, F>(&self, task: impl FnOnce(ClusterHandles) -> F) -> Result<T, SessionError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterCallError>> + Send + 'static,
    {
        let namespace = &self.connection.handles().options.namespace;
        self.connection.wait("create", || location(namespace, &self.id), task)
    }

    fn store(&mut self, attachment: JournalAttachment) -> Result<(), SessionError> {
        let (id, token) = (self.id.clone(), self.entry.token.clone());
        let stored =
            self.wait(|handles| async move { handles.store_attachment((&id, &token), &token, attachment).await })?;
        self.entry.attachment_bytes = self.entry.attachment_bytes.saturating_add(stored);
        Ok(())
    }
}

impl JournalDraft for ClusterDraft {
    fn append(&mut self, batch: &JournalBatch<'_>) -> Result<(), SessionError> {
        for attachment in batch.attachments {
            self.store(attachment.clone())?;
        }
        if batch.lines.is_empty() {
            return Ok(());
        }
        if self.last == 0 {
            let end = memchr::memchr(b'\n', batch.lines).map_or(batch.lines.len(), |end| end + 1);
            self.entry.header = String::from_utf8_lossy(&batch.lines[..end]).into_owned();
        }
        if let Some(status) = SessionStatus::from_lines(batch.lines) {
            self.entry.set_status(status);
        }
        let (lines, mut log) = (Bytes::copy_from_slice(batch.lines), self.log.clone());
        let (id, token) = (self.id.clone(), self.entry.token.clone());
        self.log = self.wait(|handles| async move {
            match handles.append(&mut log, &token, lines, false).await? {
                true => Ok(log),
                false => Err(ClusterCallError::lease_lost(&id)),
            }
        })?;
        self.last = batch.last;
        self.entry.journal_bytes = self.log.end;
        self.entry.touch();
        Ok(())
    }

    fn share_attachment(&mut self, from: &str, digest: &Sha256Digest) -> Result<(), AttachmentError> {
        let (from, wanted) = (from.to_owned(), *digest);
        let bytes = self.wait(|handles| async move {
            match handles.session_token(&from).await? {
                Some(token) => handles.read_attachment((&from, &token), &wanted).await,
                None => Ok(Err(AttachmentError::Missing)),
            }
        })??;
        self.store(JournalAttachment { digest: *digest, bytes }).map_err(AttachmentError::Storage)
    }

    fn append_events(&mut self, lines: &[u8]) -> Result<(), SessionError> {
        let (lines, mut events) = (Bytes::copy_from_slice(lines), self.events.clone());
        let (id, token) = (self.id.clone(), self.entry.token.clone());
        self.events = self.wait(|handles| async move {
            match handles.append_lines(&mut events, &token, lines).await? {
                true => Ok(events),
                false => Err(ClusterCallError::lease_lost(&id)),
            }
        })?;
        self.entry.events_bytes = self.events.end;
        Ok(())
    }

    fn set_mark(&mut self, mark: &str) -> Result<(), SessionError> {
        self.entry.mark = Some(mark.to_owned());
        Ok(())
    }

    fn publish(mut self: Box<Self>) -> Result<Box<dyn JournalLease>, SessionError> {
        let (id, entry) = (self.id.clone(), self.entry.clone());
        let (taken, revision) = self.wait(|handles| async move {
            let exists = |in_use| ClusterCallError::Session(SessionError::Exists { id: id.clone(), in_use });
            let taken = TakenLease::take(&handles, &id).await?.ok_or_else(|| exists(true))?;
            let key = key_of(&id);
            let created = match handles.seal_entry(&key, &entry) {
                Ok(value) => handles.create(&handles.entries, &key, &value).await,
                Err(error) => Err(error),
            };
            match created {
                Ok(Some(revision)) => Ok((taken, revision)),
                Ok(None) => {
                    taken.release(&handles, &id).await;
                    Err(exists(false))
                }
                Err(error) => {
                    taken.release(&handles, &id).await;
                    Err(error)
                }
            }
        })?;
        self.is_published = true;
        let log = Some((self.log.clone(), self.last));
        let entry = (self.entry.clone(), revision);
        Ok(Box::new(ClusterLease::new(Arc::clone(&self.connection), &self.id, taken, entry, log)))
    }
}

impl Drop for ClusterDraft {
    fn drop(&mut self) {
        if !self.is_published {
            let (id, token) = (self.id.clone(), self.entry.token.clone());
            // What cannot be removed now is a leftover, which `prune` removes.
            let _ = self.wait(|handles| async move { purge_session(&handles, &id, &token).await });
        }
    }
}

/// Removes the messages of a session that no entry names. Those of the journal go last: by them leftovers are found.
pub(crate) async fn purge_session(handles: &ClusterHandles, id: &str, token: &str) -> Result<(), ClusterCallError> {
    for part in ["attachment", "copy"] {
        handles.purge(&format!("{}.>", handles.part_subject(part, id, token))).await?;
    }
    handles.purge(&handles.events_subject(id, token)).await?;
    handles.purge(&handles.journal_subject(id, token)).await
}
