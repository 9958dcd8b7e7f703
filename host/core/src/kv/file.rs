use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{
    KvEntry, KvError,
    backend::listed,
    log::{self, HEAD, KvRecord, MAGIC, NextKvRecord},
};
use crate::limits;

/// The number of bytes read at once while a file is scanned.
const READ_BYTES: usize = 128 << 10;

/// The file of a store and an index of its records. The caller holds the store's lock.
#[derive(Debug)]
pub(super) struct KvLogFile {
    path: PathBuf,
    file: fs::File,
    index: BTreeMap<String, KvIndexSlot>,
    /// The total bytes of all keys and values.
    bytes: u64,
    /// The newest assigned revision.
    last: u64,
    /// The offset up to which the file was read.
    end: u64,
}

#[derive(Debug, Clone, Copy)]
struct KvIndexSlot {
    revision: u64,
    /// The offset of the record.
    at: u64,
    /// The length of the record in bytes.
    len: u64,
    value: u64,
}

impl KvIndexSlot {
    /// Returns the bytes of key and value.
    fn bytes(self, key: &str) -> u64 {
        key.len() as u64 + self.value
    }
}

impl KvLogFile {
    /// Opens the file, and creates it if it is missing.
    pub fn open(path: &Path) -> Result<Self, KvError> {
        let disk = disk("open", path);
        if !is_file(path).map_err(&disk)? {
            write_anew(path, |_| Ok(()), || Ok(())).map_err(&disk)?;
        }
        let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(&disk)?;
        let (path, index) = (path.to_owned(), BTreeMap::new());
        let mut log = Self { path, file, index, bytes: 0, last: 0, end: 0 };
        let mut magic = [0; MAGIC.len()];
        let is_whole = match log.file.read_exact(&mut magic) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
            Err(error) => return Err(disk(error)),
        };
        if !is_whole || magic != *MAGIC {
            return Err(log.damaged("unknown file header, or written by a newer shelly-host"));
        }
        log.end = MAGIC.len() as u64;
        log.catch_up()?;
        Ok(log)
    }

    /// Reads records that other processes have appended. The remains of an interrupted write are truncated: the lock
    /// excludes other writers.
    pub fn catch_up(&mut self) -> Result<(), KvError> {
        let len = self.file.metadata().map_err(disk("read", &self.path))?.len();
        if len == self.end {
            return Ok(());
        }
        if len < self.end {
            return Err(self.damaged("the file was truncated while it was in use"));
        }
        if len > limits::KV_FILE_BYTES {
            return Err(self.damaged("the file is larger than the maximum of a store"));
        }
        let path = self.path.clone();
        let disk = disk("read", &path);
        (&self.file).seek(SeekFrom::Start(self.end)).map_err(&disk)?;
        let mut reader = BufReader::with_capacity(READ_BYTES, self.file.try_clone().map_err(&disk)?);
        loop {
            match log::next(&mut reader, len - self.end).map_err(&disk)? {
                NextKvRecord::Record(record) => {
                    self.apply(record);
                    if self.index.len() > limits::KV_STORE_KEYS {
                        return Err(self.damaged("the file has more keys than the maximum of a store"));
                    }
                }
                NextKvRecord::End => return Ok(()),
                NextKvRecord::Torn => {
                    return self.file.set_len(self.end).and_then(|()| self.file.sync_data()).map_err(disk);
                }
                NextKvRecord::Damaged(reason) => return Err(self.damaged(reason)),
            }
        }
    }

    fn apply(&mut self, record: KvRecord) {
        let KvRecord { revision, key, value, len } = record;
        let at = self.end;
        self.end += len;
        self.last = self.last.max(revision);
        if let Some(gone) = self.index.remove(&key) {
            self.bytes -= gone.bytes(&key);
        }
        if let Some(value) = value {
            let slot = KvIndexSlot { revision, at, len, value: value.len() as u64 };
            self.bytes += slot.bytes(&key);
            self.index.insert(key, slot);
        }
    }

    /// Returns the total bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the revision of a key, and the bytes of the key and its value.
    pub fn about(&self, key: &str) -> Option<(u64, u64)> {
        self.index.get(key).map(|slot| (slot.revision, slot.bytes(key)))
    }

    /// Returns the keys with `prefix` after `after`.
    pub fn keys(&self, prefix: &str, after: Option<&str>) -> Vec<String> {
        listed(&self.index, prefix, after)
    }

    /// Reads a value and verifies it.
    pub fn read(&mut self, key: &str) -> Result<Option<KvEntry>, KvError> {
        let Some(slot) = self.index.get(key).copied() else { return Ok(None) };
        let bytes = self.record(slot).map_err(disk("read", &self.path))?;
        match checked(&bytes, slot) {
            Some(KvRecord { value: Some(value), revision, .. }) => Ok(Some(KvEntry { value, revision })),
            _ => Err(KvError::Damaged { path: self.path.clone(), at: slot.at, reason: CHANGED }),
        }
    }

    fn record(&self, slot: KvIndexSlot) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; slot.len as usize];
        (&self.file).seek(SeekFrom::Start(slot.at))?;
        (&self.file).read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Writes durably; without a value, removes the key.
    pub fn write(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), KvError> {
        let Some(revision) = self.last.checked_add(1) else {
            return Err(self.damaged("the revision number has reached its maximum"));
        };
        let bytes = log::encode(revision, key, value);
        let written = self.add(&bytes);
        if let Err(error) = written {
            // Undoes the write; if that fails too, the checksum or the next reader decides.
            let _ = self.file.set_len(self.end);
            return Err(disk("write", &self.path)(error));
        }
        let (key, len) = (key.to_owned(), bytes.len() as u64);
        self.apply(KvRecord { revision, key, value: value.map(<[u8]>::to_vec), len });
        Ok(())
    }

    fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        (&self.file).seek(SeekFrom::Start(self.end))?;
        (&self.file).write_all(bytes)?;
        self.file.sync_data()
    }

    /// Returns `true` if so much of the file is out of date that it should be rewritten before a value of `more` bytes is
    /// added.
    pub fn is_wasteful(&self, more: usize) -> bool {
        let in_use = self.bytes + (self.index.len() * (HEAD + 2)) as u64;
        self.end + more as u64 > 2 * in_use + limits::KV_WASTE_BYTES
    }

    /// Rewrites the file with the live records. `before` is called before the new file replaces the old one, which must not
    /// be used from then on.
    pub fn compact(&mut self, before: impl FnOnce() -> io::Result<()>) -> Result<(), KvError> {
        let mark = log::encode(self.last, "", None);
        let fill = |file: &mut dyn Write| {
            file.write_all(&mark)?;
            let mut slots: Vec<_> = self.index.values().collect();
            slots.sort_unstable_by_key(|slot| slot.at);
            slots.into_iter().try_for_each(|slot| {
                let record = self.record(*slot)?;
                checked(&record, *slot).ok_or_else(|| io::Error::other(CHANGED))?;
                file.write_all(&record)
            })
        };
        write_anew(&self.path, fill, before).map_err(disk("write", &self.path))?;
        *self = Self::open(&self.path)?;
        Ok(())
    }

    fn damaged(&self, reason: &'static str) -> KvError {
        KvError::Damaged { path: self.path.clone(), at: self.end, reason }
    }
}

const CHANGED: &str = "a record has changed since it was read";

/// Returns the record if it is still the one that was indexed.
fn checked(bytes: &[u8], slot: KvIndexSlot) -> Option<KvRecord> {
    match log::next(&mut &bytes[..], slot.len) {
        Ok(NextKvRecord::Record(record)) if record.revision == slot.revision => Some(record),
        _ => None,
    }
}

/// Writes a file next to `path`, and renames it when all of it is on disk.
fn write_anew(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    before: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = io::BufWriter::with_capacity(READ_BYTES, options().create_new(true).open(&new)?);
    file.write_all(MAGIC)?;
    fill(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    before()?;
    fs::rename(&new, path)?;
    #[cfg(unix)]
    fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(())
}

/// Returns options for a file that only its owner may read.
pub(super) fn options() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Returns `true` if a regular file exists. The check precedes opening: opening follows links, and opening a pipe waits for
/// a writer.
pub(super) fn is_file(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(true),
        Ok(_) => Err(io::Error::other("the path is not a regular file")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns a function that converts I/O errors on this file.
pub(super) fn disk(what: &'static str, path: &Path) -> impl Fn(io::Error) -> KvError {
    move |error| KvError::Disk { what, path: path.to_owned(), reason: crate::error::without_number(&error.to_string()) }
}
