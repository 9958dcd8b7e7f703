//! Folders that are opened without following links, and the operations in them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A folder, held open where the system supports it: operations refer to this folder even if its path is replaced later.
pub(super) struct FolderHandle {
    /// Keeps the folder open.
    #[cfg(target_os = "linux")]
    _held: std::os::fd::OwnedFd,
    /// The path by which it is accessed.
    path: PathBuf,
    names: FolderSync,
}

/// The time at which names in a folder become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FolderSync {
    /// Before the operation returns: a record depends on it.
    AtOnce,
    /// Whenever the system writes them. After a power loss a file has its old content or its new one.
    InTime,
}

impl FolderHandle {
    /// Opens the folder at this absolute path. A link on the path is an error.
    #[cfg(target_os = "linux")]
    pub fn open(path: &Path) -> io::Result<Self> {
        use std::{os::fd::AsRawFd, path::Component};

        use rustix::fs::{CWD, Mode, OFlags, openat};
        const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        let mut held = openat(CWD, "/", STEP, Mode::empty())?;
        for part in path.components() {
            match part {
                Component::RootDir => {}
                Component::Normal(part) => held = openat(&held, part, STEP, Mode::empty())?,
                _ => return Err(io::Error::other("the path is not absolute, or contains `..`")),
            }
        }
        let path = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        Ok(Self { _held: held, path, names: FolderSync::AtOnce })
    }

    /// Opens the folder as safely as possible on this system: its canonical path must equal `path`.
    #[cfg(not(target_os = "linux"))]
    pub fn open(path: &Path) -> io::Result<Self> {
        match path.canonicalize()? == path && path.is_dir() {
            true => Ok(Self { path: path.to_owned(), names: FolderSync::AtOnce }),
            false => Err(io::Error::other("the path is a link, leads through a link, or is not a folder")),
        }
    }

    /// Sets when names become durable.
    pub fn with(self, names: FolderSync) -> Self {
        Self { names, ..self }
    }

    /// Returns the path of the entry `name`.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Syncs the names, if they must be durable at once.
    fn sync(&self) -> io::Result<()> {
        #[cfg(unix)]
        if self.names == FolderSync::AtOnce {
            fs::File::open(&self.path)?.sync_all()?;
        }
        Ok(())
    }

    /// Creates a folder in it, with the permissions that the umask leaves.
    pub fn make(&self, name: &str) -> io::Result<()> {
        fs::create_dir(self.at(name))?;
        self.sync()
    }

    /// Renames an entry; fails if the new name exists.
    pub fn rename_to_nothing(&self, name: &str, to: &Self, as_name: &str) -> io::Result<()> {
        rename_to_nothing(&self.at(name), &to.at(as_name))?;
        to.sync()?;
        self.sync()
    }

    /// Renames an entry over an existing file.
    pub fn rename_over(&self, name: &str, as_name: &str) -> io::Result<()> {
        fs::rename(self.at(name), self.at(as_name))?;
        self.sync()
    }

    /// Removes an entry of any kind; a missing entry is no error.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.at(name);
        let removed = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => fs::remove_dir_all(&path),
            Ok(_) => fs::remove_file(&path),
            Err(error) => Err(error),
        };
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.and_then(|()| self.sync()),
        }
    }
}

#[cfg(target_os = "linux")]
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system does not support the atomic operation.
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => look_and_rename(from, to),
        renamed => renamed.map_err(Into::into),
    }
}

#[cfg(not(target_os = "linux"))]
fn rename_to_nothing(from: &Path, to: &Path) -> io::Result<()> {
    look_and_rename(from, to)
}

fn look_and_rename(from: &Path, to: &Path) -> io::Result<()> {
    match fs::symlink_metadata(to) {
        Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(from, to),
    }
}

/// Opens a file for reading. A link or a pipe in its place is an error, and opening a pipe does not block.
pub(super) fn open_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, not_following());
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("the path is no longer a file")),
    }
}

#[cfg(unix)]
fn not_following() -> i32 {
    use rustix::fs::OFlags;
    (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32
}

/// Creates a new file of mode 0600.
pub(super) fn create_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Gives a new file the mode and, where permitted, the owner of the file that it replaces.
#[cfg(unix)]
pub(super) fn give_mode(file: &fs::File, mode: u32, like: Option<&fs::Metadata>) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    if let Some(like) = like {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
            // Only an administrator may change the owner.
            let _ = fchown(file, Some(like.uid()), Some(like.gid()));
        }
    }
    file.set_permissions(fs::Permissions::from_mode(mode & 0o777))
}

#[cfg(not(unix))]
pub(super) fn give_mode(_: &fs::File, _: u32, _: Option<&fs::Metadata>) -> io::Result<()> {
    Ok(())
}
