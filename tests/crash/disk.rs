//! The file system, with a count of its operations, at one of which the process may kill itself.

use std::{
    io,
    path::Path,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

#[cfg(unix)]
use rustix::process::{Signal, getpid, kill_process};
use shelly_host::session::{DiskStorage, SessionStorage, StorageEntry, StoredFile};

/// The file system, of which each operation that changes something is counted.
#[derive(Debug, Clone)]
pub struct CountedDisk {
    count: Arc<AtomicU64>,
    syncs: Arc<AtomicU64>,
    death: Death,
}

/// The moment at which a process kills itself.
#[derive(Debug, Clone, Copy)]
pub struct Death {
    /// The operation, from 1 on.
    operation: u64,
    moment: Moment,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    Before,
    /// Half of what was to be written is. Of other operations as after.
    Within,
    After,
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "before" => Ok(Self::Before),
            "within" => Ok(Self::Within),
            "after" => Ok(Self::After),
            _ => Err(format!("`{name}` is no moment")),
        }
    }
}

impl Death {
    pub fn never() -> Self {
        Self::at(u64::MAX, Moment::Before)
    }

    pub fn at(operation: u64, moment: Moment) -> Self {
        Self { operation, moment }
    }
}

impl CountedDisk {
    pub fn new(death: Death) -> Self {
        Self { count: Arc::default(), syncs: Arc::default(), death }
    }

    /// Operations up to now.
    pub fn operations(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Those of them that waited until the bytes of a file were safe.
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }

    fn file(&self, file: io::Result<Box<dyn StoredFile>>) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(CountedFile { file: file?, disk: self.clone() }))
    }

    /// Counts an operation: when the process dies in it, if it does.
    fn moment(&self) -> Option<Moment> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        (number == self.death.operation).then_some(self.death.moment)
    }

    fn change<T>(&self, change: impl FnOnce() -> T) -> T {
        let moment = self.moment();
        if moment == Some(Moment::Before) {
            die();
        }
        let changed = change();
        if moment.is_some() {
            die();
        }
        changed
    }
}

fn die() -> ! {
    #[cfg(unix)]
    kill_process(getpid(), Signal::KILL).expect("it is our own");
    std::process::abort()
}

impl SessionStorage for CountedDisk {
    fn create_folder(&self, path: &Path) -> io::Result<bool> {
        self.change(|| DiskStorage.create_folder(path))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        self.file(DiskStorage.open(path))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        self.change(|| self.file(DiskStorage.open_or_create(path)))
    }

    fn entries(&self, folder: &Path, most: usize) -> io::Result<Vec<StorageEntry>> {
        DiskStorage.entries(folder, most)
    }

    fn entry(&self, path: &Path) -> io::Result<StorageEntry> {
        DiskStorage.entry(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|| DiskStorage.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|| DiskStorage.link(from, to))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.change(|| DiskStorage.remove_file(path))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.change(|| DiskStorage.remove_folder(path))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.change(|| DiskStorage.sync_folder(path))
    }
}

struct CountedFile {
    file: Box<dyn StoredFile>,
    disk: CountedDisk,
}

impl StoredFile for CountedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.file.read_at(buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let moment = self.disk.moment();
        let part = match moment {
            Some(Moment::Before) => die(),
            Some(Moment::Within) => &bytes[..bytes.len() / 2],
            _ => bytes,
        };
        let written = self.file.write_at(part, at);
        if moment.is_some() {
            die();
        }
        written
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.change(|| self.file.truncate(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.syncs.fetch_add(1, Ordering::Relaxed);
        self.disk.change(|| self.file.sync())
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }
}
