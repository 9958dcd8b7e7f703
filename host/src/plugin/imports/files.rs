//! WASI's file system on the granted folders alone. What wasmtime-wasi does well it does; here is what an untrusted guest
//! could do with it beyond that: hold the host's threads on files that never open, and have it list folders without end. And
//! what can be done at once is done at once.

mod nonblocking;

use std::{
    path::{Component, Path},
    sync::Arc,
    vec,
};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::{
    filesystem::{Descriptor, WasiFilesystemCtxView},
    p2::{
        FsError, FsResult,
        bindings::filesystem::types::{
            Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream, ErrorCode,
            Filesize, Host, HostDescriptor, HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags,
            PathFlags,
        },
    },
};
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream};

pub use nonblocking::NonblockingFiles;

use crate::{limits, plugin::runtime::CallMeter};

/// Places for the opens of one plugin that have not come to an end.
#[derive(Clone)]
pub struct FileOpenLimiter(Arc<Semaphore>);

impl Default for FileOpenLimiter {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(limits::OPENING_FILES)))
    }
}

impl FileOpenLimiter {
    /// Waits for a place; none if all are taken by what does not open.
    async fn place(&self) -> Option<FileOpenPermit> {
        let place = timeout(limits::OPENING_WAIT, Arc::clone(&self.0).acquire_owned()).await;
        place.ok()?.ok().map(|permit| FileOpenPermit(Some(permit)))
    }
}

/// A place among the opens. Where the call is dropped in the middle it stays taken for a while: the open still holds a thread,
/// for all that is known.
struct FileOpenPermit(Option<OwnedSemaphorePermit>);

impl FileOpenPermit {
    fn opened(mut self) {
        self.0 = None;
    }
}

impl Drop for FileOpenPermit {
    fn drop(&mut self) {
        if let (Some(permit), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                sleep(limits::OPENING_LAPSE).await;
                drop(permit);
            });
        }
    }
}

/// What one instance has of its files beside their handles.
#[derive(Default)]
pub struct InstanceFileState {
    /// Entries of all listings of folders that it holds.
    entries: usize,
    /// What is read comes here first, so that what the guest is handed has its length.
    room: Vec<u8>,
}

/// A folder as it was listed.
struct DirectoryListing {
    /// How many entries it had.
    entries: usize,
    /// What the guest has not been handed yet.
    left: vec::IntoIter<DirectoryEntryResult>,
}

/// One name; none that could be told is an error of its own.
type DirectoryEntryResult = Result<DirectoryEntry, ErrorCode>;

/// The file system as one guest reaches it.
pub struct GuestFilesystem<'a> {
    pub view: WasiFilesystemCtxView<'a>,
    pub at_once: &'a NonblockingFiles,
    pub opening: &'a FileOpenLimiter,
    pub held: &'a mut InstanceFileState,
    pub meter: &'a CallMeter,
}

/// For the linker.
pub struct HasGuestFilesystem;

impl HasData for HasGuestFilesystem {
    type Data<'a> = GuestFilesystem<'a>;
}

impl Host for GuestFilesystem<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.view.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.view.filesystem_error_code(error)
    }
}

/// The listing behind a handle of the guest's.
fn listing(stream: &Resource<DirectoryEntryStream>) -> Resource<DirectoryListing> {
    Resource::new_own(stream.rep())
}

impl HostDirectoryEntryStream for GuestFilesystem<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        self.meter.count_at_once();
        let next = self.view.table.get_mut(&listing(&stream))?.left.next();
        Ok(next.transpose()?)
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let DirectoryListing { entries, .. } = self.view.table.delete(listing(&stream))?;
        self.held.entries -= entries;
        Ok(())
    }
}

/// Functions that are wasmtime-wasi's as they are.
macro_rules! as_they_are {
    ($(async fn $name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {$(
        async fn $name(&mut self, $($argument: $of),*) -> $result {
            HostDescriptor::$name(&mut self.view, $($argument),*).await
        }
    )*};
}

type Fd = Resource<Descriptor>;

impl HostDescriptor for GuestFilesystem<'_> {
    /// Opens a file or a folder, and nothing else: a pipe that nobody writes to, or a device that has nothing to say, would
    /// hold one of the host's threads until somebody does. Between the look and the opening somebody may put one there, so
    /// the opens that a plugin has under way are bounded too.
    async fn open_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        if let Descriptor::Dir(folder) = self.view.table.get(&fd)?
            && let Some(opened) = self.at_once.open(folder, path_flags, &path, open_flags, flags)
        {
            self.meter.count_at_once();
            return Ok(self.view.table.push(opened)?);
        }
        let again = || Resource::new_borrow(fd.rep());
        match self.view.stat_at(again(), path_flags, path.clone()).await {
            Ok(DescriptorStat { type_, .. }) if !is_opened(type_) => return Err(ErrorCode::NotPermitted.into()),
            // What is not there may be made; whatever else is wrong is told by opening it.
            _ => {}
        }
        let place = self.opening.place().await.ok_or(ErrorCode::Busy)?;
        let opened = HostDescriptor::open_at(&mut self.view, fd, path_flags, path, open_flags, flags).await;
        place.opened();
        opened
    }

    async fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        if let Some(known) = self.at_once.stat(self.view.table.get(&fd)?) {
            self.meter.count_at_once();
            return Ok(known);
        }
        HostDescriptor::stat(&mut self.view, fd).await
    }

    async fn stat_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat> {
        if let Descriptor::Dir(folder) = self.view.table.get(&fd)?
            && let Some(known) = self.at_once.stat_at(folder, flags, &path)
        {
            self.meter.count_at_once();
            return Ok(known);
        }
        HostDescriptor::stat_at(&mut self.view, fd, flags, path).await
    }

    async fn read(&mut self, fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        if let Descriptor::File(file) = self.view.table.get(&fd)? {
            self.held.room.resize(limits::READ_BYTES, 0);
            let most = usize::try_from(length).map_or(limits::READ_BYTES, |length| length.min(limits::READ_BYTES));
            if let Some(read) = nonblocking::read(file, offset, &mut self.held.room[..most]) {
                self.meter.count_at_once();
                return Ok((self.held.room[..read].to_vec(), read == 0));
            }
        }
        HostDescriptor::read(&mut self.view, fd, length, offset).await
    }

    /// Lists a folder that has not too many entries: all of them are read at once, into the host's memory, and stay there
    /// until the guest drops the listing. So it holds a few at most, and each entry counts as a call of an imported function.
    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        let DirectoryScan { entries, names } = self.list(fd).await?;
        self.meter.count_host_calls(entries as u64);
        let names = names.ok_or(ErrorCode::Overflow)?;
        if entries + self.held.entries > limits::LISTED_ENTRIES {
            return Err(ErrorCode::Busy.into());
        }
        let listing = self.view.table.push(DirectoryListing { entries, left: names.into_iter() })?;
        self.held.entries += entries;
        Ok(Resource::new_own(listing.rep()))
    }

    /// Makes a link that stays below its own folder. No guest could follow another one out, but everybody else would.
    async fn symlink_at(&mut self, fd: Fd, target: String, path: String) -> FsResult<()> {
        let is_below = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(&target).components().all(is_below) {
            return Err(ErrorCode::NotPermitted.into());
        }
        HostDescriptor::symlink_at(&mut self.view, fd, target, path).await
    }

    as_they_are! {
        async fn advise(fd: Fd, offset: Filesize, length: Filesize, advice: Advice) -> FsResult<()>;
        async fn sync_data(fd: Fd) -> FsResult<()>;
        async fn get_flags(fd: Fd) -> FsResult<DescriptorFlags>;
        async fn get_type(fd: Fd) -> FsResult<DescriptorType>;
        async fn set_size(fd: Fd, size: Filesize) -> FsResult<()>;
        async fn set_times(fd: Fd, accessed: NewTimestamp, modified: NewTimestamp) -> FsResult<()>;
        async fn write(fd: Fd, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize>;
        async fn sync(fd: Fd) -> FsResult<()>;
        async fn create_directory_at(fd: Fd, path: String) -> FsResult<()>;
        async fn set_times_at(
            fd: Fd, flags: PathFlags, path: String, accessed: NewTimestamp, modified: NewTimestamp
        ) -> FsResult<()>;
        async fn link_at(fd: Fd, flags: PathFlags, path: String, to: Fd, to_path: String) -> FsResult<()>;
        async fn readlink_at(fd: Fd, path: String) -> FsResult<String>;
        async fn remove_directory_at(fd: Fd, path: String) -> FsResult<()>;
        async fn rename_at(fd: Fd, path: String, to: Fd, to_path: String) -> FsResult<()>;
        async fn unlink_file_at(fd: Fd, path: String) -> FsResult<()>;
        async fn is_same_object(one: Fd, other: Fd) -> wasmtime::Result<bool>;
        async fn metadata_hash(fd: Fd) -> FsResult<MetadataHashValue>;
        async fn metadata_hash_at(fd: Fd, flags: PathFlags, path: String) -> FsResult<MetadataHashValue>;
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.meter.count_at_once();
        HostDescriptor::drop(&mut self.view, fd)
    }

    fn read_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        self.view.read_via_stream(fd, offset)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        self.view.write_via_stream(fd, offset)
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<DynOutputStream>> {
        self.view.append_via_stream(fd)
    }
}

/// A link is met only where it is not to be followed, and then nothing is opened.
fn is_opened(kind: DescriptorType) -> bool {
    matches!(kind, DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink)
}

/// What was found in a folder.
struct DirectoryScan {
    /// How many entries it has, `.` and `..` among them, counted up to one beyond [`limits::FOLDER_ENTRIES`].
    entries: usize,
    /// None where there are too many.
    names: Option<Vec<DirectoryEntryResult>>,
}

#[cfg(unix)]
impl GuestFilesystem<'_> {
    async fn list(&mut self, fd: Fd) -> FsResult<DirectoryScan> {
        let Descriptor::Dir(folder) = self.view.table.get(&fd)? else { return Err(ErrorCode::NotDirectory.into()) };
        let folder = Arc::clone(&folder.dir);
        let listed = tokio::task::spawn_blocking(move || list(&folder)).await;
        Ok(listed.map_err(|panicked| FsError::trap(wasmtime::Error::from(panicked)))??)
    }
}

/// Lists a folder. It knows itself what its entries are, as a rule.
#[cfg(unix)]
fn list(folder: &std::fs::File) -> std::io::Result<DirectoryScan> {
    use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
    // What a guest was given is open as a place alone (`O_PATH`); nothing can be read from that.
    let folder = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let (mut entries, mut names) = (0, Vec::new());
    for entry in Dir::read_from(&folder)? {
        let entry = entry?;
        entries += 1;
        if entries > limits::FOLDER_ENTRIES {
            return Ok(DirectoryScan { entries, names: None });
        }
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let found = match entry.file_type() {
            FileType::Unknown => match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) => FileType::from_raw_mode(found.st_mode),
                // One that went while the folder was listed is not there; the others are.
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            },
            known => known,
        };
        let entry = |name: &str| DirectoryEntry { type_: kind(found), name: name.to_owned() };
        names.push(name.to_str().map(entry).map_err(|_| ErrorCode::IllegalByteSequence));
    }
    Ok(DirectoryScan { entries, names: Some(names) })
}

/// What something is in WASI's words, as wasmtime-wasi has them.
#[cfg(unix)]
fn kind(found: rustix::fs::FileType) -> DescriptorType {
    use rustix::fs::FileType;
    match found {
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        _ => DescriptorType::Unknown,
    }
}

#[cfg(not(unix))]
impl GuestFilesystem<'_> {
    /// The same where a folder that is open cannot be looked through: wasmtime-wasi knows its path.
    async fn list(&mut self, fd: Fd) -> FsResult<DirectoryScan> {
        let stream = HostDescriptor::read_directory(&mut self.view, fd).await?;
        let mut names = Vec::new();
        loop {
            let entry = self.view.read_directory_entry(Resource::new_borrow(stream.rep())).await;
            match entry.map_err(FsError::downcast) {
                Ok(Some(entry)) => names.push(Ok(entry)),
                Ok(None) => break,
                // One that went while the folder was listed.
                Err(Ok(ErrorCode::NoEntry)) => {}
                Err(code) => names.push(Err(code.map_err(FsError::trap)?)),
            }
        }
        HostDirectoryEntryStream::drop(&mut self.view, stream).map_err(FsError::trap)?;
        let entries = names.len();
        Ok(DirectoryScan { entries, names: (entries <= limits::FOLDER_ENTRIES).then_some(names) })
    }
}
