//! WASI's file system on the granted folders alone. What wasmtime-wasi does well it does; here is what an untrusted guest
//! could do with it beyond that: hold the host's threads on files that never open, and have it list folders without end.

use std::{
    collections::HashMap,
    path::{Component, Path},
    sync::Arc,
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

use crate::{limits, plugin::runtime::Meter};

/// Places for the opens of one plugin that have not come to an end.
#[derive(Clone)]
pub struct Opening(Arc<Semaphore>);

impl Default for Opening {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(limits::OPENING_FILES)))
    }
}

impl Opening {
    /// Waits for a place; none if all are taken by what does not open.
    async fn place(&self) -> Option<Place> {
        let place = timeout(limits::OPENING_WAIT, Arc::clone(&self.0).acquire_owned()).await;
        place.ok()?.ok().map(|permit| Place(Some(permit)))
    }
}

/// A place among the opens. Where the call is dropped in the middle it stays taken for a while: the open still holds a thread,
/// for all that is known.
struct Place(Option<OwnedSemaphorePermit>);

impl Place {
    fn opened(mut self) {
        self.0 = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let (Some(permit), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                sleep(limits::OPENING_LAPSE).await;
                drop(permit);
            });
        }
    }
}

/// Listings that one instance holds, by their handles, and how many entries each has.
pub type Listings = HashMap<u32, usize>;

/// The file system as one guest reaches it.
pub struct Files<'a> {
    pub view: WasiFilesystemCtxView<'a>,
    pub opening: &'a Opening,
    /// Listings of folders that the guest holds.
    pub listings: &'a mut Listings,
    pub meter: &'a Meter,
}

/// For the linker.
pub struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = Files<'a>;
}

impl Host for Files<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        self.view.convert_error_code(error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        self.view.filesystem_error_code(error)
    }
}

impl HostDirectoryEntryStream for Files<'_> {
    async fn read_directory_entry(
        &mut self,
        stream: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        loop {
            let entry = self.view.read_directory_entry(Resource::new_borrow(stream.rep())).await;
            // One that went while the folder was listed is not there; the others are.
            if !matches!(&entry, Err(error) if matches!(error.downcast_ref(), Some(ErrorCode::NoEntry))) {
                return entry;
            }
        }
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.listings.remove(&stream.rep());
        HostDirectoryEntryStream::drop(&mut self.view, stream)?;
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

impl HostDescriptor for Files<'_> {
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

    /// Lists a folder that has not too many entries: all of them are read at once, into the host's memory, and stay there
    /// until the guest drops the listing. So it holds a few at most, and each entry counts as a call of an imported function.
    async fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        let mut listed = 0;
        if let Descriptor::Dir(folder) = self.view.table.get(&fd)? {
            let folder = Arc::clone(&folder.dir);
            let counted = tokio::task::spawn_blocking(move || entries_of(&folder)).await;
            let entries = counted.map_err(|panicked| FsError::trap(wasmtime::Error::from(panicked)))??;
            self.meter.count_host_calls(entries as u64);
            if entries > limits::FOLDER_ENTRIES {
                return Err(ErrorCode::Overflow.into());
            }
            if entries + self.listings.values().sum::<usize>() > limits::LISTED_ENTRIES {
                return Err(ErrorCode::Busy.into());
            }
            listed = entries;
        }
        let listing = HostDescriptor::read_directory(&mut self.view, fd).await?;
        self.listings.insert(listing.rep(), listed);
        Ok(listing)
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
        async fn read(fd: Fd, length: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)>;
        async fn write(fd: Fd, bytes: Vec<u8>, offset: Filesize) -> FsResult<Filesize>;
        async fn sync(fd: Fd) -> FsResult<()>;
        async fn create_directory_at(fd: Fd, path: String) -> FsResult<()>;
        async fn stat(fd: Fd) -> FsResult<DescriptorStat>;
        async fn stat_at(fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat>;
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

/// How many entries a folder has; beyond [`limits::FOLDER_ENTRIES`] they are not counted on.
#[cfg(unix)]
fn entries_of(folder: &std::fs::File) -> std::io::Result<usize> {
    use rustix::fs::{Dir, Mode, OFlags, openat};
    // What a guest was given is open as a place alone (`O_PATH`); nothing can be read from that.
    let folder = openat(folder, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut entries = Dir::read_from(folder)?.take(limits::FOLDER_ENTRIES + 1);
    entries.try_fold(0, |count, entry| entry.map(|_| count + 1)).map_err(Into::into)
}

/// The same where a folder that is open cannot be looked through.
#[cfg(not(unix))]
fn entries_of(_: &std::fs::File) -> std::io::Result<usize> {
    Ok(0)
}
