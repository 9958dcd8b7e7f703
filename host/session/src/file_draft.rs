//! The files of a session that is being created. Its folder gets its name once its content is on disk.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    SessionError, SessionStorage, StorageEntryKind, StoredFile,
    error::disk,
    file_lease::{FileLease, copy, is_locked, keep, write_mark},
    file_names::{ATTACHMENTS, EVENTS, JOURNAL, LOCK},
    journal_lease::{AttachmentError, JournalBatch, JournalDraft, JournalLease},
    storage::remove_all,
};
use shelly_core::{digest::Sha256Digest, limits};

/// A folder beside the sessions. It is removed unless it is published.
pub(super) struct FileDraft {
    storage: Arc<dyn SessionStorage>,
    id: String,
    /// The folder of all sessions.
    sessions: PathBuf,
    /// The folder of this one until it has its name.
    beside: PathBuf,
    lock: Option<Box<dyn StoredFile>>,
    journal: Option<Box<dyn StoredFile>>,
    last: u64,
    end: u64,
    /// The recorded events and their end, if there are any.
    events: Option<(Box<dyn StoredFile>, u64)>,
    is_published: bool,
}

impl FileDraft {
    /// Creates the folder `beside` for the session of this name, and locks it.
    pub fn create(
        storage: Arc<dyn SessionStorage>,
        id: &str,
        sessions: &Path,
        beside: PathBuf,
    ) -> Result<Self, SessionError> {
        let mut draft = Self {
            storage,
            id: id.to_owned(),
            sessions: sessions.to_owned(),
            beside,
            lock: None,
            journal: None,
            last: 0,
            end: 0,
            events: None,
            is_published: false,
        };
        draft.make_folder(&draft.beside)?;
        let path = draft.beside.join(LOCK);
        let lock = draft.storage.open_or_create(&path).map_err(disk("make", &path))?;
        if !lock.try_lock().map_err(disk("lock", &path))? {
            return Err(SessionError::InUse { id: id.to_owned() });
        }
        draft.lock = Some(lock);
        draft.make_folder(&draft.beside.join(ATTACHMENTS))?;
        Ok(draft)
    }

    fn make_folder(&self, folder: &Path) -> Result<(), SessionError> {
        self.storage.create_folder(folder).map(drop).map_err(disk("make", folder))
    }
}

impl JournalDraft for FileDraft {
    fn append(&mut self, batch: &JournalBatch<'_>) -> Result<(), SessionError> {
        let path = self.beside.join(JOURNAL);
        let attachments = self.beside.join(ATTACHMENTS);
        for attachment in batch.attachments {
            keep(&*self.storage, &attachments, attachment)?;
        }
        if self.journal.is_none() {
            let journal = self.storage.open_or_create(&path).map_err(disk("write", &path))?;
            journal.truncate(0).map_err(disk("write", &path))?;
            self.journal = Some(journal);
        }
        if let Some(journal) = &self.journal {
            journal.write_all_at(batch.lines, self.end).map_err(disk("write", &path))?;
            self.end += batch.lines.len() as u64;
            self.last = batch.last;
        }
        Ok(())
    }

    fn share_attachment(&mut self, from: &str, digest: &Sha256Digest) -> Result<(), AttachmentError> {
        let from = self.sessions.join(from).join(ATTACHMENTS).join(digest.hex());
        let to = self.beside.join(ATTACHMENTS).join(digest.hex());
        match self.storage.entry(&from) {
            Ok(entry) if entry.kind == StorageEntryKind::File => {}
            Ok(_) => return Err(AttachmentError::Unusable("is not a file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(AttachmentError::Missing),
            Err(error) => return Err(disk("read", &from)(error).into()),
        }
        match self.storage.link(&from, &to) {
            Ok(()) => Ok(()),
            Err(_) => copy(&*self.storage, &from, &to).map_err(AttachmentError::Storage),
        }
    }

    fn append_events(&mut self, lines: &[u8]) -> Result<(), SessionError> {
        let path = self.beside.join(EVENTS);
        if self.events.is_none() {
            self.events = Some((self.storage.open_or_create(&path).map_err(disk("write", &path))?, 0));
        }
        if let Some((file, end)) = &mut self.events {
            file.write_all_at(lines, *end).map_err(disk("write", &path))?;
            *end += lines.len() as u64;
        }
        Ok(())
    }

    fn set_mark(&mut self, mark: &str) -> Result<(), SessionError> {
        write_mark(&*self.storage, &self.beside, mark)
    }

    fn publish(mut self: Box<Self>) -> Result<Box<dyn JournalLease>, SessionError> {
        let path = self.beside.join(JOURNAL);
        let (Some(lock), Some(journal)) = (self.lock.take(), self.journal.take()) else {
            return Err(disk("write", &path)(io::Error::other("the session has no header")));
        };
        journal.sync().map_err(disk("write", &path))?;
        for folder in [&self.beside.join(ATTACHMENTS), &self.beside] {
            self.storage.sync_folder(folder).map_err(disk("write", folder))?;
        }
        let folder = self.sessions.join(&self.id);
        match self.storage.rename(&self.beside, &folder) {
            Err(error) if is_taken(&error) => {
                return Err(SessionError::Exists { id: self.id.clone(), in_use: is_locked(&*self.storage, &folder) });
            }
            renamed => renamed.map_err(disk("write", &folder))?,
        }
        self.is_published = true;
        if let Err(error) = self.storage.sync_folder(&self.sessions) {
            let _ = remove_all(&*self.storage, &folder, limits::SESSION_FOLDERS_DEEP);
            return Err(disk("write", &self.sessions)(error));
        }
        let lease = FileLease::new(Arc::clone(&self.storage), &self.id, folder, lock);
        Ok(Box::new(lease.with_journal(journal, self.last, self.end)))
    }
}

impl Drop for FileDraft {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = remove_all(&*self.storage, &self.beside, limits::SESSION_FOLDERS_DEEP);
        }
    }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty)
}
