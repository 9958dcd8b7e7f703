use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use shelly_core::files;

/// The disk operations on which sessions are built. An embedder may provide another implementation; tests provide failing
/// ones.
///
/// A link at the given path is an error in every operation but [`SessionStorage::remove_file`], which removes the link. All
/// operations block.
pub trait SessionStorage: Send + Sync + fmt::Debug {
    /// Creates a folder in an existing one, accessible only to its owner; returns `false` if it exists.
    fn create_folder(&self, path: &Path) -> io::Result<bool>;

    /// Opens an existing file.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;

    /// Opens a file for writing, and creates it if it is missing, readable only by its owner.
    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;

    /// Lists at most `most` entries of a folder, in any order. Entries that are removed during the listing may be missing.
    fn entries(&self, folder: &Path, most: usize) -> io::Result<Vec<StorageEntry>>;

    /// Returns the entry at this path.
    fn entry(&self, path: &Path) -> io::Result<StorageEntry>;

    /// Renames a file or a folder. An existing file of the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Creates a hard link. On an error the caller copies the file.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file or a link.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Returns once the names in a folder are durable across power loss.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
}

/// An open file.
pub trait StoredFile: Send + Sync {
    /// Returns the size in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Returns `true` if the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Reads from an offset and returns the number of bytes. Fewer bytes than the buffer holds do not mean the end, 0 does.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Writes at an offset and returns the number of bytes written, which may be smaller than requested.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Truncates the file.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// Returns once the content is durable across power loss.
    fn sync(&self) -> io::Result<()>;

    /// Locks the file while it is open; returns `false` if this process or another one holds the lock.
    fn try_lock(&self) -> io::Result<bool>;
}

impl dyn StoredFile + '_ {
    /// Writes all bytes.
    pub(super) fn write_all_at(&self, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write_at(bytes, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    at += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads until the buffer is full or the file ends, and returns the number of bytes.
    pub(super) fn read_full_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match self.read_at(&mut buffer[read..], at + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }
}

/// An entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageEntry {
    /// The name. Entries whose name is not UTF-8 are not listed.
    pub name: String,
    /// The kind of the entry.
    pub kind: StorageEntryKind,
    /// The size of a file in bytes.
    pub len: u64,
    /// The time of the last change.
    pub modified: SystemTime,
}

/// The kind of a folder entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorageEntryKind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// A link, pipe or device.
    Other,
}

/// The file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskStorage;

impl SessionStorage for DiskStorage {
    fn create_folder(&self, path: &Path) -> io::Result<bool> {
        let is_new = files::create_folder(path)?;
        #[cfg(unix)]
        if is_new {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
        Ok(is_new)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let writable = match file_there(path)? {
            true => fs::OpenOptions::new().read(true).write(true).open(path),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        let file = match writable {
            // A read-only session can still be shown.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) =>
            {
                fs::File::open(path)?
            }
            file => file?,
        };
        Ok(Box::new(DiskFile(file)))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        file_there(path)?;
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Box::new(DiskFile(options.open(path)?)))
    }

    fn entries(&self, folder: &Path, most: usize) -> io::Result<Vec<StorageEntry>> {
        folder_there(folder)?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder)?.take(most) {
            let entry = entry?;
            match (entry.file_name().into_string(), entry.metadata()) {
                (Ok(name), Ok(metadata)) => entries.push(described(name, &metadata)),
                (Ok(_), Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(entries)
    }

    fn entry(&self, path: &Path) -> io::Result<StorageEntry> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(described(name, &fs::symlink_metadata(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        file_there(from)?;
        fs::hard_link(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        #[cfg(unix)]
        fs::File::open(path)?.sync_all()?;
        #[cfg(not(unix))]
        let _ = path;
        Ok(())
    }
}

fn described(name: String, metadata: &fs::Metadata) -> StorageEntry {
    let kind = match metadata.file_type() {
        kind if kind.is_file() => StorageEntryKind::File,
        kind if kind.is_dir() => StorageEntryKind::Folder,
        _ => StorageEntryKind::Other,
    };
    StorageEntry { name, kind, len: metadata.len(), modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH) }
}

/// Returns `true` if a file exists. The check precedes opening: opening follows links, and opening a pipe waits for a
/// writer.
fn file_there(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(true),
        Ok(metadata) => Err(unexpected(&metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn folder_there(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path)? {
        metadata if metadata.is_dir() => Ok(()),
        metadata => Err(unexpected(&metadata)),
    }
}

fn unexpected(metadata: &fs::Metadata) -> io::Error {
    io::Error::other(match metadata.file_type() {
        kind if kind.is_symlink() => "the path is a link",
        kind if kind.is_dir() => "the path is a folder",
        kind if kind.is_file() => "the path is a file",
        _ => "the path is not a regular file",
    })
}

struct DiskFile(fs::File);

impl Drop for DiskFile {
    fn drop(&mut self) {
        // To close the file is not enough: a child that is just being started has a copy of it until its program is loaded.
        let _ = self.0.unlock();
    }
}

impl StoredFile for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(&self.0, buffer, at);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(&self.0, buffer, at);
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_at(&self.0, bytes, at);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_write(&self.0, bytes, at);
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.0.try_lock() {
            Ok(()) => Ok(true),
            Err(fs::TryLockError::WouldBlock) => Ok(false),
            Err(fs::TryLockError::Error(error)) => Err(error),
        }
    }
}

/// Writes and syncs a new file; removes it on an error.
pub(super) fn write_new(storage: &dyn SessionStorage, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let write = || {
        let file = storage.open_or_create(path)?;
        file.truncate(0)?;
        file.write_all_at(bytes, 0)?;
        file.sync()
    };
    write().inspect_err(|_| {
        let _ = storage.remove_file(path);
    })
}

/// Removes a folder and its content as far as possible, and returns the first error. Links are removed, not followed. `deep`
/// is the maximum number of nested folders. An entry that another process removes meanwhile counts as removed.
pub(super) fn remove_all(storage: &dyn SessionStorage, path: &Path, deep: u32) -> io::Result<()> {
    const AT_ONCE: usize = 10_000;
    loop {
        let entries = match storage.entries(path, AT_ONCE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        if entries.is_empty() {
            return gone(storage.remove_folder(path));
        }
        let mut done = Ok(());
        for entry in entries {
            let below: PathBuf = path.join(&entry.name);
            let removed = match entry.kind {
                StorageEntryKind::Folder if deep == 0 => Err(io::Error::other("too many nested folders")),
                StorageEntryKind::Folder => remove_all(storage, &below, deep - 1),
                StorageEntryKind::File | StorageEntryKind::Other => gone(storage.remove_file(&below)),
            };
            done = done.and(removed);
        }
        done?;
    }
}

/// Treats a missing file as removed.
fn gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
