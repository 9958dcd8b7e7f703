//! Sessions as files: a folder for each, as `docs/session-format.md` describes it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use super::{
    SessionError, SessionHeader, SessionStorage, StorageEntryKind, StoredFile,
    error::disk,
    file_draft::FileDraft,
    file_lease::{FileLease, is_locked},
    file_names::{ATTACHMENTS, EVENTS, GONE, JOURNAL, LOCK, MARK, NEW, is_name},
    journal_lease::{AttachmentError, JournalDraft, JournalLease},
    journal_source::JournalSource,
    journal_start::{CHUNK, HEADER_CHUNK, parse_start},
    journal_status::SessionStatus,
    journal_storage::{JournalRemoval, JournalStat, JournalStorage},
    storage::remove_all,
};
use shelly_core::{digest::Sha256Digest, error::Report, hex, limits};

/// The number of bytes of a mark file that are read: more than any mark has.
const MARK_BYTES: usize = 128;

/// Sessions as files in a folder, on a disk.
#[derive(Debug, Clone)]
pub struct FileJournals {
    storage: Arc<dyn SessionStorage>,
    folder: PathBuf,
    root: Option<PathBuf>,
}

impl FileJournals {
    /// Creates the storage of the sessions in this folder; `root` is
    /// [`SessionStoreOptions::root`](super::SessionStoreOptions::root). No disk access.
    pub fn new(storage: Arc<dyn SessionStorage>, folder: impl Into<PathBuf>, root: Option<PathBuf>) -> Self {
        Self { storage, folder: folder.into(), root }
    }

    /// Locks a session; returns `None` if another process holds the lock. Fails if the session has been removed.
    fn lock(&self, id: &str) -> Result<Option<Box<dyn StoredFile>>, SessionError> {
        let (folder, path) = (self.folder.join(id), self.folder.join(id).join(LOCK));
        let gone = || SessionError::NotFound { given: id.to_owned() };
        let lock = match self.storage.open_or_create(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(gone()),
            lock => lock.map_err(disk("lock", &path))?,
        };
        for attempt in 0..limits::SESSION_LOCK_TRIES {
            if attempt > 0 {
                thread::sleep(limits::SESSION_LOCK_PAUSE);
            }
            if lock.try_lock().map_err(disk("lock", &path))? {
                // Another process may have removed the session before the lock was taken.
                return match self.storage.entry(&folder) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Err(gone()),
                    there => there.map(|_| Some(lock)).map_err(disk("read", &folder)),
                };
            }
        }
        Ok(None)
    }

    /// Returns the folders between the root and the sessions, the outermost first.
    fn folders(&self) -> Vec<&Path> {
        let Some(root) = &self.root else { return vec![&self.folder] };
        let mut folders: Vec<_> = self.folder.ancestors().take_while(|folder| folder != root).collect();
        folders.reverse();
        folders
    }

    /// Returns once the folders themselves are durable across power loss.
    fn sync_folders(&self) -> Result<(), SessionError> {
        self.folders().into_iter().filter_map(Path::parent).try_for_each(|above| {
            // The path may be relative.
            let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
            self.storage.sync_folder(above).map_err(disk("write", above))
        })
    }

    /// Returns `true` if the sessions folder exists.
    fn is_there(&self) -> Result<bool, SessionError> {
        for path in self.folders() {
            match self.storage.entry(path) {
                Ok(entry) if entry.kind == StorageEntryKind::Folder => {}
                Ok(_) => return Err(no_folder(path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(disk("read", path)(error)),
            }
        }
        Ok(true)
    }

    /// Returns the names of all folders in the sessions folder, in any order: sessions, and folders that begin with a dot.
    fn all_names(&self) -> Result<Vec<String>, SessionError> {
        if !self.is_there()? {
            return Ok(Vec::new());
        }
        let most = 2 * limits::SESSIONS;
        let entries = self.storage.entries(&self.folder, most).map_err(disk("read", &self.folder))?;
        Ok(entries.into_iter().filter(|entry| entry.kind == StorageEntryKind::Folder).map(|entry| entry.name).collect())
    }

    /// Checks that no other object stands in the place of a session's attachment folder.
    fn check_attachments(&self, id: &str) -> Result<(), SessionError> {
        let path = self.folder.join(id).join(ATTACHMENTS);
        match self.storage.entry(&path) {
            Ok(entry) if entry.kind != StorageEntryKind::Folder => Err(no_folder(&path)),
            Err(error) if !is_absent(&error) => Err(disk("read", &path)(error)),
            _ => Ok(()),
        }
    }

    /// Unreadable parts are not counted, so that they do not make the other sessions unusable.
    fn bytes_below(&self, folder: &Path, deep: u32) -> u64 {
        let entries = self.storage.entries(folder, limits::SESSION_FILES).unwrap_or_default();
        let bytes = entries.into_iter().map(|entry| match entry.kind {
            StorageEntryKind::File => entry.len,
            StorageEntryKind::Folder if deep > 0 => self.bytes_below(&folder.join(entry.name), deep - 1),
            StorageEntryKind::Folder | StorageEntryKind::Other => 0,
        });
        bytes.sum()
    }

    /// Returns the path of a folder of this prefix that does not exist.
    fn new_folder(&self, prefix: &str) -> Result<PathBuf, SessionError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| disk("create a name in", &self.folder)(io::Error::other(error)))?;
        Ok(self.folder.join(format!("{prefix}{}", hex::encode(random))))
    }
}

impl JournalStorage for FileJournals {
    fn location(&self, id: &str) -> PathBuf {
        self.folder.join(id).join(JOURNAL)
    }

    fn prepare(&self) -> Result<(), SessionError> {
        self.folders()
            .into_iter()
            .try_for_each(|folder| self.storage.create_folder(folder).map(|_| ()).map_err(disk("make", folder)))
    }

    fn names(&self) -> Result<Vec<String>, SessionError> {
        let mut names = self.all_names()?;
        names.retain(|name| is_name(name));
        Ok(names)
    }

    fn contains(&self, id: &str) -> Result<bool, SessionError> {
        if !self.is_there()? {
            return Ok(false);
        }
        let path = self.folder.join(id);
        match self.storage.entry(&path) {
            Ok(entry) if entry.kind == StorageEntryKind::Folder => Ok(true),
            Ok(_) => Err(no_folder(&path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(disk("read", &path)(error)),
        }
    }

    fn stats(&self) -> Result<Vec<JournalStat>, SessionError> {
        let mut all = Vec::new();
        for id in self.names()? {
            let path = self.location(&id);
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
        Ok(all)
    }

    fn journal_bytes(&self, id: &str) -> Option<u64> {
        self.storage.entry(&self.location(id)).ok().map(|entry| entry.len)
    }

    fn bytes_of(&self, id: &str) -> u64 {
        self.bytes_below(&self.folder.join(id), limits::SESSION_FOLDERS_DEEP)
    }

    fn events_bytes(&self, id: &str) -> u64 {
        let entry = self.storage.entry(&self.folder.join(id).join(EVENTS));
        entry.ok().filter(|entry| entry.kind == StorageEntryKind::File).map_or(0, |entry| entry.len)
    }

    /// Reads only the beginning and the end of the journal.
    fn describe(&self, id: &str) -> Result<(SessionHeader, SessionStatus), SessionError> {
        let path = self.location(id);
        let file = self.storage.open(&path).map_err(disk("read", &path))?;
        self.check_attachments(id)?;
        let (header, start) = header(&*file, &path)?;
        let status = status(&*file, start).map_err(disk("read", &path))?;
        Ok((header, status))
    }

    fn status(&self, id: &str) -> Result<SessionStatus, SessionError> {
        let path = self.location(id);
        let file = self.storage.open(&path).map_err(disk("read", &path))?;
        let (_, start) = header(&*file, &path)?;
        status(&*file, start).map_err(disk("read", &path))
    }

    fn read(&self, id: &str, from: u64) -> Result<Box<dyn JournalSource>, SessionError> {
        let path = self.location(id);
        let file = self.storage.open(&path).map_err(disk("read", &path))?;
        let mut source = FileSource { file, path, begin: 0, at: 0, end: u64::MAX };
        source.skip_lines(from.saturating_sub(1))?;
        source.begin = source.at;
        Ok(Box::new(source))
    }

    fn events(&self, id: &str) -> Result<Option<Box<dyn JournalSource>>, SessionError> {
        let path = self.folder.join(id).join(EVENTS);
        match self.storage.entry(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(disk("read", &path)(error)),
            Ok(entry) if entry.kind == StorageEntryKind::File => {
                let file = self.storage.open(&path).map_err(disk("read", &path))?;
                let end = file.len().map_err(disk("read", &path))?;
                Ok(Some(Box::new(FileSource { file, path, begin: 0, at: 0, end })))
            }
            Ok(_) => {
                let reason = "expected a file, found a link or a folder".into();
                Err(SessionError::NotOurs { path, reason })
            }
        }
    }

    fn mark(&self, id: &str) -> Result<Option<String>, SessionError> {
        let path = self.folder.join(id).join(MARK);
        match self.storage.entry(&path) {
            Ok(entry) if entry.kind == StorageEntryKind::File => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(disk("read", &path)(error)),
        }
        let mut mark = vec![0; MARK_BYTES];
        let file = self.storage.open(&path).map_err(disk("read", &path))?;
        let read = file.read_full_at(&mut mark, 0).map_err(disk("read", &path))?;
        mark.truncate(read);
        Ok(String::from_utf8(mark).ok())
    }

    fn attachments(&self, id: &str, most: usize) -> Result<Vec<(Sha256Digest, u64)>, SessionError> {
        let folder = self.folder.join(id).join(ATTACHMENTS);
        let entries = match self.storage.entries(&folder, most) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            entries => entries.map_err(disk("read", &folder))?,
        };
        let files = entries.into_iter().filter(|entry| entry.kind == StorageEntryKind::File);
        Ok(files.filter_map(|file| Some((Sha256Digest::of_hex(&file.name)?, file.len))).collect())
    }

    fn attachment(&self, id: &str, digest: &Sha256Digest) -> Result<Vec<u8>, AttachmentError> {
        let path = self.folder.join(id).join(ATTACHMENTS).join(digest.hex());
        match self.storage.entry(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(AttachmentError::Missing),
            Err(error) => Err(disk("read", &path)(error).into()),
            Ok(entry) if entry.kind != StorageEntryKind::File || entry.len > limits::SESSION_RECORD_BYTES as u64 => {
                Err(AttachmentError::Unusable("is not a file, or is larger than a record can be"))
            }
            Ok(entry) => {
                let mut bytes = vec![0; usize::try_from(entry.len).unwrap_or_default()];
                let file = self.storage.open(&path).map_err(disk("read", &path))?;
                let read = file.read_full_at(&mut bytes, 0).map_err(disk("read", &path))?;
                bytes.truncate(read);
                Ok(bytes)
            }
        }
    }

    fn draft(&self, id: &str, is_first: bool) -> Result<Box<dyn JournalDraft>, SessionError> {
        if is_first {
            self.sync_folders()?;
        }
        if self.storage.entry(&self.folder.join(id)).is_ok() {
            return Err(SessionError::Exists { id: id.to_owned(), in_use: self.is_taken(id) });
        }
        let beside = self.new_folder(NEW)?;
        Ok(Box::new(FileDraft::create(Arc::clone(&self.storage), id, &self.folder, beside)?))
    }

    fn take(&self, id: &str) -> Result<Option<Box<dyn JournalLease>>, SessionError> {
        let Some(lock) = self.lock(id)? else { return Ok(None) };
        let lease = FileLease::new(Arc::clone(&self.storage), id, self.folder.join(id), lock);
        Ok(Some(Box::new(lease)))
    }

    fn is_taken(&self, id: &str) -> bool {
        is_locked(&*self.storage, &self.folder.join(id))
    }

    /// Renames the folder before its first file is removed.
    fn remove(&self, id: &str) -> Result<JournalRemoval, SessionError> {
        let (folder, gone) = (self.folder.join(id), self.new_folder(GONE)?);
        let lock = match self.storage.entry(&folder.join(LOCK)) {
            // A lock that is not a file cannot be held.
            Ok(entry) if entry.kind != StorageEntryKind::File => None,
            _ => match self.lock(id) {
                Ok(None) => return Ok(JournalRemoval::InUse),
                Err(SessionError::NotFound { .. }) => return Ok(JournalRemoval::Missing),
                lock => lock?,
            },
        };
        match self.storage.rename(&folder, &gone) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(JournalRemoval::Missing),
            renamed => renamed.map_err(disk("remove", &folder))?,
        }
        drop(lock);
        let removed = remove_all(&*self.storage, &gone, limits::SESSION_FOLDERS_DEEP);
        removed.map(|()| JournalRemoval::Removed).map_err(disk("remove", &gone))
    }

    fn remove_leftovers(&self) -> Result<Vec<(String, Report)>, SessionError> {
        let mut failed = Vec::new();
        for name in self.all_names()? {
            let path = self.folder.join(&name);
            let is_old = || {
                let age = self.storage.entry(&path).ok().and_then(|entry| entry.modified.elapsed().ok());
                age.is_some_and(|age| age >= limits::SESSION_LEFTOVER_AGE) && !self.is_taken(&name)
            };
            if name.starts_with(GONE) || (name.starts_with(NEW) && is_old()) {
                let removed = remove_all(&*self.storage, &path, limits::SESSION_FOLDERS_DEEP);
                let error = removed.map_err(disk("remove", &path)).err();
                failed.extend(error.map(|error| (name, error.report())));
            }
        }
        Ok(failed)
    }

    /// Without this, some sessions would reappear intact after a power loss.
    fn sync_removals(&self) {
        let _ = self.storage.sync_folder(&self.folder);
    }
}

/// The journal or the recorded events of a session that are read.
struct FileSource {
    file: Box<dyn StoredFile>,
    path: PathBuf,
    /// The offset at which reading began.
    begin: u64,
    /// The offset of the next byte.
    at: u64,
    /// The offset at which reading ends, although a process may append more.
    end: u64,
}

impl FileSource {
    fn skip_lines(&mut self, mut lines: u64) -> Result<(), SessionError> {
        let mut buffer = Vec::new();
        while lines > 0 {
            buffer.clear();
            let start = self.at;
            if self.read_more(&mut buffer, CHUNK)? == 0 {
                return Ok(());
            }
            for end in memchr::memchr_iter(b'\n', &buffer) {
                lines -= 1;
                if lines == 0 {
                    self.at = start + end as u64 + 1;
                    break;
                }
            }
        }
        Ok(())
    }
}

impl JournalSource for FileSource {
    fn read_more(&mut self, buffer: &mut Vec<u8>, most: usize) -> Result<usize, SessionError> {
        let old = buffer.len();
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        buffer.resize(old + most.min(left), 0);
        let read = self.file.read_full_at(&mut buffer[old..], self.at);
        buffer.truncate(old + *read.as_ref().unwrap_or(&0));
        let read = read.map_err(disk("read", &self.path))?;
        self.at += read as u64;
        Ok(read)
    }

    fn seek(&mut self, at: u64) -> Result<(), SessionError> {
        self.at = self.begin.saturating_add(at);
        Ok(())
    }
}

/// Reads the header of a journal, and returns it with the offset of the second line.
fn header(file: &dyn StoredFile, path: &Path) -> Result<(SessionHeader, u64), SessionError> {
    let mut buffer = vec![0; HEADER_CHUNK];
    let mut read = file.read_full_at(&mut buffer, 0).map_err(disk("read", path))?;
    if memchr::memchr(b'\n', &buffer[..read]).is_none() && read == buffer.len() {
        buffer.resize(limits::SESSION_HEADER_BYTES, 0);
        read += file.read_full_at(&mut buffer[read..], read as u64).map_err(disk("read", path))?;
    }
    parse_start(&buffer[..read], path).map(|(header, end)| (header, end as u64))
}

/// Returns the status of a session from the end of its journal, whose header ends at `start`.
fn status(file: &dyn StoredFile, start: u64) -> io::Result<SessionStatus> {
    let end = file.len()?;
    // The end of a run is one of the longer lines: retry with a longer piece if nothing was found.
    for most in [limits::SESSION_TAIL_BYTES, 16 * limits::SESSION_TAIL_BYTES] {
        let from = end.saturating_sub(most as u64).max(start);
        let mut tail = vec![0; usize::try_from(end.saturating_sub(from)).unwrap_or_default()];
        let read = file.read_full_at(&mut tail, from)?;
        match SessionStatus::from_lines(&tail[..read]) {
            Some(status) => return Ok(status),
            None if from == start => return Ok(SessionStatus::Empty),
            None => {}
        }
    }
    Ok(SessionStatus::Unfinished)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn no_folder(path: &Path) -> SessionError {
    SessionError::NotOurs { path: path.to_owned(), reason: "expected a folder, found a link or a file".into() }
}
