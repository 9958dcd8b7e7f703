//! The files of a session that is open for writing.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    SessionError, SessionStorage, StorageEntryKind, StoredFile,
    error::disk,
    file_names::{ATTACHMENTS, EVENTS, JOURNAL, LOCK, MARK},
    journal_lease::{EventLogEnd, JournalAttachment, JournalBatch, JournalLease},
    storage::write_new,
};
use shelly_core::limits;

/// The right to write to a session's files: its lock, held as long as this value lives.
pub(super) struct FileLease {
    storage: Arc<dyn SessionStorage>,
    id: String,
    /// The session's folder.
    folder: PathBuf,
    /// The journal, once it is known where to continue; its content is complete up to `end` and synced up to `kept`.
    journal: Option<Box<dyn StoredFile>>,
    last: u64,
    end: u64,
    kept: u64,
    /// The recorded events and their end, once they are open.
    events: Option<(Box<dyn StoredFile>, u64)>,
    /// `false` until the names of the attachments are durable: an earlier process may not have synced them.
    is_folder_synced: bool,
    _lock: Box<dyn StoredFile>,
}

impl FileLease {
    /// Creates the lease of the session in this folder; its lock is held.
    pub fn new(storage: Arc<dyn SessionStorage>, id: &str, folder: PathBuf, lock: Box<dyn StoredFile>) -> Self {
        Self {
            storage,
            id: id.to_owned(),
            folder,
            journal: None,
            last: 0,
            end: 0,
            kept: 0,
            events: None,
            is_folder_synced: false,
            _lock: lock,
        }
    }

    /// Continues after this line and byte of the open journal, which are durable.
    pub fn with_journal(mut self, journal: Box<dyn StoredFile>, last: u64, end: u64) -> Self {
        (self.journal, self.last, self.end, self.kept) = (Some(journal), last, end, end);
        self
    }

    fn journal_path(&self) -> PathBuf {
        self.folder.join(JOURNAL)
    }

    fn events_path(&self) -> PathBuf {
        self.folder.join(EVENTS)
    }
}

impl JournalLease for FileLease {
    fn continue_after(&mut self, last: u64, end: u64) -> Result<(), SessionError> {
        // A tool that copies sessions may omit empty folders.
        let attachments = self.folder.join(ATTACHMENTS);
        self.storage.create_folder(&attachments).map_err(disk("make", &attachments))?;
        let path = self.journal_path();
        let journal = self.storage.open(&path).map_err(disk("write", &path))?;
        if journal.len().map_err(disk("read", &path))? > end {
            journal.truncate(end).and_then(|()| journal.sync()).map_err(disk("write", &path))?;
        }
        (self.journal, self.last, self.end, self.kept) = (Some(journal), last, end, end);
        Ok(())
    }

    fn set_aside(&mut self) -> Result<PathBuf, SessionError> {
        let mut to = (1..).map(|n: u32| self.folder.join(format!("journal.damaged-{n}.jsonl")));
        let to = to.find(|path| self.storage.entry(path).is_err()).unwrap_or_default();
        copy(&*self.storage, &self.journal_path(), &to)?;
        self.storage.sync_folder(&self.folder).map_err(disk("write", &self.folder))?;
        Ok(to)
    }

    fn set_mark(&mut self, mark: &str) -> Result<(), SessionError> {
        write_mark(&*self.storage, &self.folder, mark)?;
        self.storage.sync_folder(&self.folder).map_err(disk("write", &self.folder))
    }

    fn append(&mut self, batch: &JournalBatch<'_>) -> Result<(), SessionError> {
        if batch.after != self.last {
            return Err(SessionError::LeaseLost { id: self.id.clone() });
        }
        let path = self.journal_path();
        let Some(journal) = &self.journal else { return Err(not_open(&path)) };
        let folder = self.folder.join(ATTACHMENTS);
        for attachment in batch.attachments {
            self.is_folder_synced &= !keep(&*self.storage, &folder, attachment)?;
        }
        if !batch.attachments.is_empty() && !self.is_folder_synced {
            self.storage.sync_folder(&folder).map_err(disk("write", &folder))?;
            self.is_folder_synced = true;
        }
        journal.write_all_at(batch.lines, self.end).map_err(disk("write", &path))?;
        self.end += batch.lines.len() as u64;
        self.last = batch.last;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SessionError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.sync().map_err(|error| disk("write", &self.journal_path())(error))?;
        self.kept = self.end;
        Ok(())
    }

    fn discard_unsynced(&mut self) {
        if let Some(journal) = &self.journal {
            let _ = journal.truncate(self.kept);
        }
    }

    fn open_events(&mut self) -> Result<EventLogEnd, SessionError> {
        let path = self.events_path();
        let file = self.storage.open_or_create(&path).map_err(disk("write", &path))?;
        let bytes = file.len().map_err(disk("read", &path))?;
        let from = bytes.saturating_sub(limits::SESSION_EVENT_BYTES as u64 + 2);
        let mut tail = vec![0; usize::try_from(bytes - from).unwrap_or_default()];
        let read = file.read_full_at(&mut tail, from).map_err(disk("read", &path))?;
        tail.truncate(read);
        self.events = Some((file, bytes));
        Ok(EventLogEnd { bytes, tail })
    }

    fn continue_events(&mut self, end: u64) -> Result<(), SessionError> {
        let path = self.events_path();
        let Some((file, to)) = &mut self.events else { return Err(not_open(&path)) };
        if file.len().map_err(disk("read", &path))? > end {
            file.truncate(end).map_err(disk("write", &path))?;
        }
        *to = end;
        Ok(())
    }

    fn append_events(&mut self, lines: &[u8]) -> Result<(), SessionError> {
        let path = self.events_path();
        let Some((file, end)) = &mut self.events else { return Err(not_open(&path)) };
        if let Err(error) = file.write_all_at(lines, *end) {
            // An incomplete line would be skipped, but its beginning would make the next one unreadable.
            let _ = file.truncate(*end);
            return Err(disk("write", &path)(error));
        }
        *end += lines.len() as u64;
        Ok(())
    }
}

/// Returns the error of a write to a file that was not opened before.
fn not_open(path: &Path) -> SessionError {
    disk("write", path)(io::Error::other("the file is not open"))
}

/// Writes an attachment if it is missing; returns `true` if a file name was created.
pub(super) fn keep(
    storage: &dyn SessionStorage,
    folder: &Path,
    attachment: &JournalAttachment,
) -> Result<bool, SessionError> {
    let path = folder.join(attachment.digest.hex());
    // A file gets its name only when its content is on disk.
    if storage
        .entry(&path)
        .is_ok_and(|there| there.kind == StorageEntryKind::File && there.len == attachment.bytes.len() as u64)
    {
        return Ok(false);
    }
    let beside = folder.join(format!(".{}", attachment.digest.hex()));
    write_new(storage, &beside, &attachment.bytes).map_err(disk("write", &beside))?;
    storage.rename(&beside, &path).map_err(disk("write", &path))?;
    Ok(true)
}

/// Writes the mark of the session in this folder.
pub(super) fn write_mark(storage: &dyn SessionStorage, folder: &Path, text: &str) -> Result<(), SessionError> {
    let (path, beside) = (folder.join(MARK), folder.join(format!(".{MARK}")));
    write_new(storage, &beside, text.as_bytes()).map_err(disk("write", &beside))?;
    storage.rename(&beside, &path).map_err(disk("write", &path))
}

/// Copies a file to a new one.
pub(super) fn copy(storage: &dyn SessionStorage, from: &Path, to: &Path) -> Result<(), SessionError> {
    const AT_ONCE: usize = 1 << 20;
    let (read, write) = (|error| disk("read", from)(error), |error| disk("write", to)(error));
    let source = storage.open(from).map_err(read)?;
    let copy = storage.open_or_create(to).map_err(write)?;
    copy.truncate(0).map_err(write)?;
    let (mut buffer, mut at) = (vec![0; AT_ONCE], 0);
    loop {
        let count = source.read_full_at(&mut buffer, at).map_err(read)?;
        if count == 0 {
            return copy.sync().map_err(write);
        }
        copy.write_all_at(&buffer[..count], at).map_err(write)?;
        at += count as u64;
    }
}

/// Returns `true` if a process holds the lock of the session in this folder; `false` if that cannot be determined.
pub(super) fn is_locked(storage: &dyn SessionStorage, folder: &Path) -> bool {
    let lock = storage.open(&folder.join(LOCK));
    lock.and_then(|lock| lock.try_lock()).is_ok_and(|free| !free)
}
