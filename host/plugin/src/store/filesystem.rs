//! WASI's file system, restricted to the granted folders. It builds on wasmtime-wasi and adds what an untrusted guest
//! makes necessary: bounds on threads that hang in opens and on the size of listings. Operations that can complete
//! without waiting run on the caller's thread.

#[cfg(unix)]
mod file_kind;
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

use crate::metering::CallMeter;
use shelly_core::limits;

/// Bounds the opens of one plugin that have not completed.
#[derive(Clone)]
pub struct FileOpenLimiter(Arc<Semaphore>);

impl Default for FileOpenLimiter {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(limits::OPENING_FILES)))
    }
}

impl FileOpenLimiter {
    /// Waits for a permit; `None` if all are held by opens that do not complete in time.
    async fn acquire(&self) -> Option<FileOpenPermit> {
        let permit = timeout(limits::OPENING_WAIT, Arc::clone(&self.0).acquire_owned()).await;
        permit.ok()?.ok().map(|permit| FileOpenPermit(Some(permit)))
    }
}

/// A permit for one open. If the call is dropped in the middle, the permit is released only after a while, since the
/// open may still hold a thread.
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

/// The state of one instance for its files, apart from the handles.
#[derive(Default)]
pub struct InstanceFileState {
    /// The number of entries in all listings that it holds.
    entries: usize,
    /// A buffer for reads, so that the vector for the guest is allocated with its final length.
    room: Vec<u8>,
}

/// A directory listing that a guest holds.
struct DirectoryListing {
    /// The number of entries at the time of the listing.
    entries: usize,
    /// The entries that the guest has not read yet.
    left: vec::IntoIter<DirectoryEntryResult>,
}

/// One entry; a name that cannot be represented is an error of its own.
type DirectoryEntryResult = Result<DirectoryEntry, ErrorCode>;

/// The file system as one guest reaches it.
pub struct GuestFilesystem<'a> {
    pub view: WasiFilesystemCtxView<'a>,
    pub at_once: &'a NonblockingFiles,
    pub opening: &'a FileOpenLimiter,
    pub held: &'a mut InstanceFileState,
    pub meter: &'a CallMeter,
}

/// The marker type for the linker.
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

/// Returns the listing behind a guest's handle.
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

/// Defines functions that forward to wasmtime-wasi unchanged.
macro_rules! as_they_are {
    ($(async fn $name:ident($($argument:ident: $of:ty),*) -> $result:ty;)*) => {$(
        async fn $name(&mut self, $($argument: $of),*) -> $result {
            HostDescriptor::$name(&mut self.view, $($argument),*).await
        }
    )*};
}

type Fd = Resource<Descriptor>;

impl HostDescriptor for GuestFilesystem<'_> {
    /// Opens a file or a folder, and nothing else: opening a pipe without a writer, or a silent device, would hold one
    /// of the host's threads. One may still be put there between the check and the open, so the plugin's pending opens
    /// are bounded too.
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
            // A missing file may be created; any other error is reported by the open.
            _ => {}
        }
        let permit = self.opening.acquire().await.ok_or(ErrorCode::Busy)?;
        let opened = HostDescriptor::open_at(&mut self.view, fd, path_flags, path, open_flags, flags).await;
        permit.opened();
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

    /// Lists a folder with at most [`limits::FOLDER_ENTRIES`] entries. All of them are read at once into the host's
    /// memory, and stay there until the guest drops the listing. So a guest may hold only [`limits::LISTED_ENTRIES`]
    /// entries, and each entry counts as a call of an imported function.
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

    /// Creates a link that stays below its own folder. A guest could not follow another one out, but other programs
    /// would.
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

/// Returns `true` for kinds that may be opened. A link is seen only if it is not to be followed, and then the open
/// fails.
fn is_opened(kind: DescriptorType) -> bool {
    matches!(kind, DescriptorType::RegularFile | DescriptorType::Directory | DescriptorType::SymbolicLink)
}

/// The result of scanning a directory.
struct DirectoryScan {
    /// The number of entries, `.` and `..` included, counted up to one more than [`limits::FOLDER_ENTRIES`].
    entries: usize,
    /// `None` if there are too many.
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

/// Lists a folder. The kind of each entry usually comes with the listing.
#[cfg(unix)]
fn list(folder: &std::fs::File) -> std::io::Result<DirectoryScan> {
    use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};

    use file_kind::kind;
    // The guest's folder is open as a path alone (`O_PATH`), from which nothing can be read.
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
                // An entry that was removed during the listing is left out.
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

#[cfg(not(unix))]
impl GuestFilesystem<'_> {
    /// Lists a folder through wasmtime-wasi, on systems where an open folder cannot be read by handle.
    async fn list(&mut self, fd: Fd) -> FsResult<DirectoryScan> {
        let stream = HostDescriptor::read_directory(&mut self.view, fd).await?;
        let mut names = Vec::new();
        loop {
            let entry = self.view.read_directory_entry(Resource::new_borrow(stream.rep())).await;
            match entry.map_err(FsError::downcast) {
                Ok(Some(entry)) => names.push(Ok(entry)),
                Ok(None) => break,
                // An entry that was removed during the listing.
                Err(Ok(ErrorCode::NoEntry)) => {}
                Err(code) => names.push(Err(code.map_err(FsError::trap)?)),
            }
        }
        HostDirectoryEntryStream::drop(&mut self.view, stream).map_err(FsError::trap)?;
        let entries = names.len();
        Ok(DirectoryScan { entries, names: (entries <= limits::FOLDER_ENTRIES).then_some(names) })
    }
}
