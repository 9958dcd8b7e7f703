use std::{
    fmt, fs,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use super::{
    KvEntry, KvError, KvPrecondition, KvQuota,
    backend::KvBackend,
    file::{KvLogFile, disk, is_file, options},
};
use crate::{error::without_number, files, limits};

/// A function that creates the folder above the stores, if it is missing, and returns its path, or the reason for the
/// failure.
pub type KvFolderFn = Arc<dyn Fn() -> Result<PathBuf, String> + Send + Sync>;

/// A store in a file. A second file next to it is locked for each operation; it holds a generation number that changes when
/// the store file is rewritten.
pub(super) struct DiskKvBackend {
    folder: KvFolderFn,
    /// The folders below it, then the file name.
    names: Vec<String>,
    quota: KvQuota,
    open: Option<OpenKvFile>,
}

struct OpenKvFile {
    path: PathBuf,
    lock: fs::File,
    /// The open store file with its generation; `None`: it must be opened.
    log: Option<(u64, KvLogFile)>,
}

impl fmt::Debug for DiskKvBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskKvBackend({})", self.names.join("/"))
    }
}

impl DiskKvBackend {
    pub fn new(folder: KvFolderFn, names: Vec<String>, quota: KvQuota) -> Self {
        Self { folder, names, quota, open: None }
    }

    /// Creates the folders, and opens the lock file.
    fn prepare(&self) -> Result<OpenKvFile, KvError> {
        let mut path = PathBuf::from(self.names.join("/"));
        let failed = |path: &PathBuf, reason: String| KvError::Disk { what: "open", path: path.clone(), reason };
        let folder = (self.folder)().map_err(|reason| failed(&path, reason))?;
        path.clone_from(&folder);
        let Some((file, folders)) = self.names.split_last() else {
            return Err(failed(&path, "the store has no name".into()));
        };
        for name in folders {
            path.push(name);
            make_folder(&path).map_err(|error| failed(&path, without_number(&error.to_string())))?;
        }
        path.push(file);
        let lock = path.with_extension("lock");
        let opened = is_file(&lock).and_then(|_| options().create(true).truncate(false).open(&lock));
        Ok(OpenKvFile { lock: opened.map_err(disk("lock", &lock))?, path, log: None })
    }

    /// Runs an operation under the lock that excludes other users of the store in all processes.
    fn with<R>(
        &mut self,
        work: impl FnOnce(&mut KvLogFile, &mut dyn FnMut() -> io::Result<()>) -> Result<R, KvError>,
    ) -> Result<R, KvError> {
        let mut open = match self.open.take() {
            Some(open) => open,
            None => self.prepare()?,
        };
        let done = open.locked(work);
        if done.as_ref().is_err_and(KvError::is_of_operator) {
            // The next operation opens the file again and finds out its state.
            open.log = None;
        }
        self.open = Some(open);
        done
    }
}

impl OpenKvFile {
    fn locked<R>(
        &mut self,
        work: impl FnOnce(&mut KvLogFile, &mut dyn FnMut() -> io::Result<()>) -> Result<R, KvError>,
    ) -> Result<R, KvError> {
        lock(&self.lock, &self.path, limits::KV_LOCK_TIME)?;
        let done = self.while_locked(work);
        let unlocked = self.lock.unlock().map_err(disk("unlock", &self.path));
        done.and_then(|done| unlocked.map(|()| done))
    }

    fn while_locked<R>(
        &mut self,
        work: impl FnOnce(&mut KvLogFile, &mut dyn FnMut() -> io::Result<()>) -> Result<R, KvError>,
    ) -> Result<R, KvError> {
        let now = generation(&self.lock).map_err(disk("read", &self.path))?;
        let next = now.checked_add(1).ok_or_else(|| KvError::Damaged {
            path: self.path.with_extension("lock"),
            at: 0,
            reason: "the generation number has reached its maximum",
        })?;
        let (number, log) = match self.log.take() {
            Some((number, mut log)) if number == now => {
                log.catch_up()?;
                self.log.insert((number, log))
            }
            _ => self.log.insert((now, KvLogFile::open(&self.path)?)),
        };
        let mut written_anew = || {
            *number = next;
            set_generation(&self.lock, next)
        };
        work(log, &mut written_anew)
    }
}

/// Creates a folder durably.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    match files::create_folder(path)? {
        true => files::sync_folder(path),
        false => Ok(()),
    }
}

impl KvBackend for DiskKvBackend {
    fn get(&mut self, key: &str) -> Result<Option<KvEntry>, KvError> {
        self.with(|log, _| log.read(key))
    }

    fn write(&mut self, key: &str, expected: KvPrecondition, value: Option<&[u8]>) -> Result<bool, KvError> {
        let quota = self.quota;
        self.with(|log, written_anew| {
            let there = log.about(key);
            if !expected.holds(there.map(|(revision, _)| revision)) {
                return Ok(false);
            }
            match value {
                None if there.is_none() => return Ok(true),
                None => {}
                Some(value) => {
                    let new = (key.len() + value.len()) as u64;
                    quota.check(log.bytes(), log.len(), there.map(|(_, bytes)| bytes), new)?;
                }
            }
            if log.is_wasteful(value.map_or(0, <[u8]>::len)) {
                log.compact(written_anew)?;
            }
            log.write(key, value).map(|()| true)
        })
    }

    fn keys(&mut self, prefix: &str, after: Option<&str>) -> Result<Vec<String>, KvError> {
        self.with(|log, _| Ok(log.keys(prefix, after)))
    }
}

pub(super) fn lock(file: &fs::File, path: &Path, patience: Duration) -> Result<(), KvError> {
    let started = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(fs::TryLockError::Error(error)) => return Err(disk("lock", path)(error)),
            Err(fs::TryLockError::WouldBlock) if started.elapsed() >= patience => {
                return Err(KvError::InUse { path: path.to_owned() });
            }
            Err(fs::TryLockError::WouldBlock) => thread::sleep(limits::KV_LOCK_PAUSE),
        }
    }
}

/// Reads the generation from the lock file; only processes that have the store open use it.
fn generation(mut lock: &fs::File) -> io::Result<u64> {
    lock.seek(SeekFrom::Start(0))?;
    let mut number = Vec::new();
    lock.take(8).read_to_end(&mut number)?;
    Ok(number.try_into().map_or(0, u64::from_le_bytes))
}

fn set_generation(mut lock: &fs::File, number: u64) -> io::Result<()> {
    lock.seek(SeekFrom::Start(0))?;
    lock.write_all(&number.to_le_bytes())
}
