//! An in-memory disk with injectable faults and power loss, for tests.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt, io,
    path::{Component, Path},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use super::{SessionStorage, StorageEntry, StorageEntryKind, StoredFile};

/// An in-memory disk. Clones share its content. The root folder exists.
///
/// It models durability: a file's bytes are durable after [`StoredFile::sync`], names after [`SessionStorage::sync_folder`].
/// [`MemoryDisk::after_power_loss`] returns what a crash would leave.
#[derive(Clone)]
pub struct MemoryDisk(Arc<Mutex<MemoryDiskState>>);

/// The way in which an operation of a [`MemoryDisk`] fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskFault {
    /// The disk is full; half of the data is written.
    Full,
    /// The device fails; half of the data is written.
    Broken,
    /// A write writes half of its data and reports that; all other operations succeed.
    Short,
}

struct MemoryDiskState {
    nodes: HashMap<u64, MemoryDiskNode>,
    next: u64,
    operations: u64,
    /// The number of the failing operation, its fault, and whether all later operations fail too.
    fault: Option<(u64, DiskFault, bool)>,
    locked: HashSet<u64>,
    reads: u64,
}

#[derive(Clone)]
enum MemoryDiskNode {
    File { bytes: Vec<u8>, safe: Vec<u8>, modified: u64 },
    Folder { names: MemoryDiskNames, safe: MemoryDiskNames, changes: Vec<UnsyncedChange> },
}

type MemoryDiskNames = BTreeMap<String, u64>;

/// A change of a folder that is not durable yet; changes become durable in order.
#[derive(Clone)]
enum UnsyncedChange {
    Added(String, u64),
    Removed(String),
    Renamed(String, String),
}

const ROOT: u64 = 0;

impl Default for MemoryDisk {
    fn default() -> Self {
        let nodes = HashMap::from([(ROOT, MemoryDiskNode::folder())]);
        let (next, operations, fault, locked, reads) = (1, 0, None, HashSet::new(), 0);
        Self(Arc::new(Mutex::new(MemoryDiskState { nodes, next, operations, fault, locked, reads })))
    }
}

impl MemoryDisk {
    /// Creates an empty disk.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the `nth` operation from now on fail, counted from 1, or that one and all later ones.
    pub fn fail(&self, nth: u64, fault: DiskFault, for_ever: bool) {
        let mut state = self.state();
        state.fault = Some((state.operations + nth, fault, for_ever));
    }

    /// Removes the fault and returns whether an operation has failed.
    pub fn mend(&self) -> bool {
        let mut state = self.state();
        let operations = state.operations;
        state.fault.take().is_some_and(|(nth, _, _)| operations >= nth)
    }

    /// Returns the number of operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Returns the number of file reads so far.
    pub fn reads(&self) -> u64 {
        self.state().reads
    }

    /// Returns the disk after a power loss: everything durable, and as much of the rest as `chance` leaves.
    pub fn after_power_loss(&self, chance: u64) -> Self {
        let mut chance = LcgRandom(chance);
        let state = self.state();
        let nodes = state.nodes.iter().map(|(id, node)| (*id, node.after_power_loss(&mut chance))).collect();
        let (next, operations, fault, locked, reads) = (state.next, 0, None, HashSet::new(), 0);
        Self(Arc::new(Mutex::new(MemoryDiskState { nodes, next, operations, fault, locked, reads })))
    }

    fn state(&self) -> MutexGuard<'_, MemoryDiskState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an operation, and fails if a fault is due.
    fn begin(&self) -> io::Result<MutexGuard<'_, MemoryDiskState>> {
        let mut state = self.state();
        state.count().map_or(Ok(()), |fault| fault.map_or(Ok(()), Err))?;
        Ok(state)
    }

    fn file(&self, id: u64) -> Box<dyn StoredFile> {
        Box::new(MemoryDiskFile { disk: self.clone(), id, holds: Mutex::new(false) })
    }
}

/// Pseudo-random numbers (a linear congruential generator).
struct LcgRandom(u64);

impl LcgRandom {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % most.max(1)
    }
}

impl MemoryDiskNode {
    fn folder() -> Self {
        Self::Folder { names: MemoryDiskNames::new(), safe: MemoryDiskNames::new(), changes: Vec::new() }
    }

    fn after_power_loss(&self, chance: &mut LcgRandom) -> Self {
        match self {
            Self::File { bytes, safe, modified } => {
                let mut left = match chance.below(3) {
                    0 => safe.clone(),
                    1 => bytes.clone(),
                    _ => {
                        // A part of the appended data reached the disk, and the end of that part is zeroed.
                        let from = safe.len().min(bytes.len());
                        let to = from + chance.below(bytes.len() - from + 1);
                        let whole = from + chance.below(to - from + 1);
                        let mut left = bytes[..to].to_vec();
                        left[whole..].fill(0);
                        left
                    }
                };
                // Durable data is not affected by later writes.
                let kept = safe.len().min(left.len());
                left[..kept].copy_from_slice(&safe[..kept]);
                Self::File { bytes: left.clone(), safe: left, modified: *modified }
            }
            Self::Folder { safe, changes, .. } => {
                let mut names = safe.clone();
                let done = chance.below(changes.len() + 1);
                changes[..done].iter().for_each(|change| change.apply(&mut names));
                Self::Folder { names: names.clone(), safe: names, changes: Vec::new() }
            }
        }
    }
}

impl UnsyncedChange {
    fn apply(&self, names: &mut MemoryDiskNames) {
        match self {
            Self::Added(name, id) => {
                names.insert(name.clone(), *id);
            }
            Self::Removed(name) => {
                names.remove(name);
            }
            Self::Renamed(from, to) => {
                if let Some(id) = names.remove(from) {
                    names.insert(to.clone(), id);
                }
            }
        }
    }
}

impl MemoryDiskState {
    /// Counts an operation and returns its fault: `Some(None)` is a short write.
    fn count(&mut self) -> Option<Option<io::Error>> {
        self.operations += 1;
        let (nth, fault, for_ever) = self.fault?;
        let fails = self.operations == nth || (for_ever && self.operations > nth);
        fails.then(|| match fault {
            DiskFault::Full => Some(io::ErrorKind::StorageFull.into()),
            DiskFault::Broken => Some(io::Error::other("the device does not answer")),
            DiskFault::Short => None,
        })
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        path.components().try_fold(ROOT, |folder, component| match component {
            Component::Normal(name) => {
                let name = name.to_string_lossy();
                self.names(folder)?.get(&*name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            _ => Ok(folder),
        })
    }

    fn names(&self, folder: u64) -> io::Result<&MemoryDiskNames> {
        match self.nodes.get(&folder) {
            Some(MemoryDiskNode::Folder { names, .. }) => Ok(names),
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    /// Returns the folder that contains a path, and the name in it.
    fn place(&self, path: &Path) -> io::Result<(u64, String)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy().into_owned();
        Ok((self.find(path.parent().unwrap_or(Path::new("")))?, name))
    }

    fn change(&mut self, folder: u64, change: UnsyncedChange) -> io::Result<()> {
        match self.nodes.get_mut(&folder) {
            Some(MemoryDiskNode::Folder { names, changes, .. }) => {
                change.apply(names);
                changes.push(change);
                Ok(())
            }
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    fn add(&mut self, path: &Path, node: MemoryDiskNode) -> io::Result<u64> {
        let (folder, name) = self.place(path)?;
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, node);
        self.change(folder, UnsyncedChange::Added(name, id)).map(|()| id)
    }

    fn bytes(&mut self, id: u64) -> io::Result<&mut Vec<u8>> {
        let now = self.operations;
        match self.nodes.get_mut(&id) {
            Some(MemoryDiskNode::File { bytes, modified, .. }) => {
                *modified = now;
                Ok(bytes)
            }
            _ => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn entry(&self, name: &str, id: u64) -> StorageEntry {
        let (kind, len, at) = match self.nodes.get(&id) {
            Some(MemoryDiskNode::File { bytes, modified, .. }) => {
                (StorageEntryKind::File, bytes.len() as u64, *modified)
            }
            _ => (StorageEntryKind::Folder, 0, 0),
        };
        StorageEntry { name: name.to_owned(), kind, len, modified: SystemTime::UNIX_EPOCH + Duration::from_secs(at) }
    }
}

impl SessionStorage for MemoryDisk {
    fn create_folder(&self, path: &Path) -> io::Result<bool> {
        let mut state = self.begin()?;
        match state.find(path) {
            Ok(id) => state.names(id).map(|_| false),
            Err(_) => state.add(path, MemoryDiskNode::folder()).map(|_| true),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let state = self.begin()?;
        let id = state.find(path)?;
        if state.names(id).is_ok() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(self.file(id))
    }

    fn open_or_create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        let mut state = self.begin()?;
        let modified = state.operations;
        let id = match state.find(path) {
            Ok(id) => id,
            Err(_) => state.add(path, MemoryDiskNode::File { bytes: Vec::new(), safe: Vec::new(), modified })?,
        };
        Ok(self.file(id))
    }

    fn entries(&self, folder: &Path, most: usize) -> io::Result<Vec<StorageEntry>> {
        let state = self.begin()?;
        let names = state.names(state.find(folder)?)?;
        Ok(names.iter().take(most).map(|(name, id)| state.entry(name, *id)).collect())
    }

    fn entry(&self, path: &Path) -> io::Result<StorageEntry> {
        let state = self.begin()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Ok(state.entry(&name, state.find(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.begin()?;
        state.find(from)?;
        let ((folder, from), (other, name)) = (state.place(from)?, state.place(to)?);
        if folder != other {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        if state.find(to).is_ok_and(|id| state.names(id).is_ok_and(|names| !names.is_empty())) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        state.change(folder, UnsyncedChange::Renamed(from, name))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.begin()?;
        let (id, (folder, name)) = (state.find(from)?, state.place(to)?);
        state.change(folder, UnsyncedChange::Added(name, id))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin()?;
        let id = state.find(path)?;
        state.bytes(id)?;
        let (folder, name) = state.place(path)?;
        state.change(folder, UnsyncedChange::Removed(name))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin()?;
        let id = state.find(path)?;
        if !state.names(id)?.is_empty() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let (folder, name) = state.place(path)?;
        state.change(folder, UnsyncedChange::Removed(name))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let mut state = self.begin()?;
        let id = state.find(path)?;
        match state.nodes.get_mut(&id) {
            Some(MemoryDiskNode::Folder { names, safe, changes }) => {
                safe.clone_from(names);
                changes.clear();
                Ok(())
            }
            _ => Err(io::ErrorKind::NotADirectory.into()),
        }
    }
}

impl fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryDisk").field("operations", &self.operations()).finish_non_exhaustive()
    }
}

struct MemoryDiskFile {
    disk: MemoryDisk,
    id: u64,
    /// `true` if it holds the lock.
    holds: Mutex<bool>,
}

impl StoredFile for MemoryDiskFile {
    fn len(&self) -> io::Result<u64> {
        let state = self.disk.begin()?;
        Ok(state.entry("", self.id).len)
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let mut state = self.disk.begin()?;
        state.reads += 1;
        let Some(MemoryDiskNode::File { bytes, .. }) = state.nodes.get(&self.id) else { return Ok(0) };
        let from = bytes.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut state = self.disk.state();
        let fault = state.count();
        let count = if fault.is_some() { bytes.len().div_ceil(2) } else { bytes.len() };
        let (to, start) = (state.bytes(self.id)?, usize::try_from(at).map_err(io::Error::other)?);
        let end = start + count;
        to.resize(to.len().max(end), 0);
        to[start..end].copy_from_slice(&bytes[..count]);
        fault.flatten().map_or(Ok(count), Err)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.begin()?;
        let len = usize::try_from(len).map_err(io::Error::other)?;
        state.bytes(self.id)?.resize(len, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.begin()?;
        if let Some(MemoryDiskNode::File { bytes, safe, .. }) = state.nodes.get_mut(&self.id) {
            safe.clone_from(bytes);
        }
        Ok(())
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.disk.begin()?;
        let mut holds = self.holds.lock().unwrap_or_else(PoisonError::into_inner);
        *holds = *holds || state.locked.insert(self.id);
        Ok(*holds)
    }
}

impl Drop for MemoryDiskFile {
    fn drop(&mut self) {
        if *self.holds.get_mut().unwrap_or_else(PoisonError::into_inner) {
            self.disk.state().locked.remove(&self.id);
        }
    }
}
