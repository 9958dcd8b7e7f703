//! File operations that complete without waiting, on the thread that drives the guest. The alternative is a trip to
//! another thread and back, which takes ten times as long as most of these operations.
//!
//! The kernel is asked not to wait: paths are looked up in its cache alone (`RESOLVE_CACHED`), files are opened with
//! `O_NONBLOCK`, and bytes are read from memory alone (`RWF_NOWAIT`). If an operation would wait, or anything else is
//! unusual, the functions here return `None`; wasmtime-wasi then does it on a thread that may wait, and reports errors.
//! So no poll of a guest waits for a disk, for a server or for the writer of a pipe. Operations done here count as
//! processor time of the call.

use std::path::Path;

use wasmtime_wasi::{
    filesystem::{Descriptor, Dir, File},
    p2::bindings::filesystem::types::{DescriptorFlags, DescriptorStat, OpenFlags, PathFlags},
};

/// The file systems of the granted folders on which files are opened without waiting: those on local disks and in
/// memory. Opening a file on any other may mean asking a server, or another process.
#[derive(Clone, Default)]
pub struct NonblockingFiles {
    #[cfg(target_os = "linux")]
    local: Vec<linux::DeviceNumber>,
}

#[cfg(not(target_os = "linux"))]
pub use elsewhere::read;
#[cfg(target_os = "linux")]
pub use linux::read;

#[cfg(target_os = "linux")]
mod linux {
    use std::{io::IoSliceMut, os::fd::OwnedFd};

    use rustix::{
        fs::{
            AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, StatxTimestamp, openat2, statfs,
            statx,
        },
        io::{ReadWriteFlags, preadv2},
    };
    use wasmtime_wasi::{
        filesystem::OpenMode,
        p2::bindings::{clocks::wall_clock::Datetime, filesystem::types::DescriptorType},
    };

    use super::*;
    use crate::store::filesystem::file_kind::kind;

    /// The number of a file system's device: major and minor.
    pub type DeviceNumber = (u32, u32);

    /// The magic numbers of local file systems, as `statfs` returns them: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs.
    const LOCAL: [u32; 5] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];

    /// Lookups stay below the folder, on its file system, and in the kernel's cache.
    const WITHIN: ResolveFlags = ResolveFlags::BENEATH
        .union(ResolveFlags::NO_MAGICLINKS)
        .union(ResolveFlags::NO_XDEV)
        .union(ResolveFlags::CACHED);

    impl NonblockingFiles {
        /// Adds the file system of a folder, if it is a local one.
        pub fn add(&mut self, folder: &Path) {
            let is_local = |kind| u32::try_from(kind).is_ok_and(|kind| LOCAL.contains(&kind));
            if statfs(folder).is_ok_and(|found| is_local(found.f_type)) {
                self.local.extend(device_of(folder));
            }
        }

        /// Opens a file or a folder for reading; `None` if that could wait or is not possible.
        pub fn open(
            &self,
            folder: &Dir,
            path_flags: PathFlags,
            path: &str,
            open_flags: OpenFlags,
            flags: DescriptorFlags,
        ) -> Option<Descriptor> {
            if !(OpenFlags::DIRECTORY.contains(open_flags) && flags == DescriptorFlags::READ) {
                return None;
            }
            // Opening a device may have effects, so check the kind first.
            let is_meant = |kind| match kind {
                DescriptorType::Directory => true,
                DescriptorType::RegularFile => !open_flags.contains(OpenFlags::DIRECTORY),
                _ => false,
            };
            self.stat_at(folder, path_flags, path).filter(|seen| is_meant(seen.type_))?;
            let opened = open(folder, path_flags, path, OFlags::NONBLOCK | OFlags::NOCTTY)?;
            // Something else may have been put there in between.
            let kind = self.stat_of(&opened).filter(|seen| is_meant(seen.type_))?.type_;
            let (opened, perms) = (std::fs::File::from(opened), folder.perms);
            Some(match kind {
                DescriptorType::Directory => Descriptor::Dir(Dir::new(opened, perms, OpenMode::READ, false)),
                _ => Descriptor::File(File::new(opened, perms, OpenMode::READ, false)),
            })
        }

        /// Returns the attributes of the file at a path; `None` if they are not known without waiting.
        pub fn stat_at(&self, folder: &Dir, path_flags: PathFlags, path: &str) -> Option<DescriptorStat> {
            self.stat_of(&open(folder, path_flags, path, OFlags::PATH)?)
        }

        /// Returns the attributes of an open file or folder; `None` if they are not known without waiting.
        pub fn stat(&self, opened: &Descriptor) -> Option<DescriptorStat> {
            match opened {
                Descriptor::File(file) => self.stat_of(&file.file),
                Descriptor::Dir(folder) => self.stat_of(&folder.dir),
            }
        }

        fn stat_of(&self, opened: impl std::os::fd::AsFd) -> Option<DescriptorStat> {
            // Cached attributes of files on a server may be stale, so only local file systems are answered.
            let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
            let found = statx(opened, c"", flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME).ok()?;
            self.local.contains(&device(&found)).then(|| descriptor_stat(&found))
        }
    }

    fn open(folder: &Dir, path_flags: PathFlags, path: &str, flags: OFlags) -> Option<OwnedFd> {
        let follow = path_flags.contains(PathFlags::SYMLINK_FOLLOW);
        let flags = flags | OFlags::CLOEXEC | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
        openat2(&folder.dir, path, flags, Mode::empty(), WITHIN).ok()
    }

    /// Reads from `offset` as much as fits and is in memory: at least one byte, except at the end of the file. Returns
    /// `None` if there is nothing to read without waiting.
    pub fn read(file: &File, offset: u64, room: &mut [u8]) -> Option<usize> {
        // A negative offset would mean the current position of the file.
        i64::try_from(offset).ok()?;
        let read = preadv2(&*file.file, &mut [IoSliceMut::new(room)], offset, ReadWriteFlags::NOWAIT).ok()?;
        // Linux 5.9 and 5.10 also return 0 for bytes that are not in memory.
        let is_end = || rustix::fs::fstat(&*file.file).is_ok_and(|found| found.st_size.cast_unsigned() <= offset);
        (read > 0 || room.is_empty() || is_end()).then_some(read)
    }

    /// Returns the device of the file system that contains a folder.
    pub fn device_of(folder: &Path) -> Option<DeviceNumber> {
        statx(CWD, folder, AtFlags::empty(), StatxFlags::BASIC_STATS).ok().map(|found| device(&found))
    }

    fn device(found: &Statx) -> DeviceNumber {
        (found.stx_dev_major, found.stx_dev_minor)
    }

    /// Converts attributes to WASI's, as wasmtime-wasi does.
    fn descriptor_stat(found: &Statx) -> DescriptorStat {
        let time = |is_there: StatxFlags, time: StatxTimestamp| {
            let is_there = found.stx_mask & is_there.bits() != 0;
            let seconds = u64::try_from(time.tv_sec).ok().filter(|_| is_there);
            seconds.map(|seconds| Datetime { seconds, nanoseconds: time.tv_nsec })
        };
        DescriptorStat {
            type_: kind(FileType::from_raw_mode(found.stx_mode.into())),
            link_count: found.stx_nlink.into(),
            size: found.stx_size,
            data_access_timestamp: time(StatxFlags::ATIME, found.stx_atime),
            data_modification_timestamp: time(StatxFlags::MTIME, found.stx_mtime),
            status_change_timestamp: time(StatxFlags::BTIME, found.stx_btime),
        }
    }
}

/// The implementation for other systems, which cannot tell whether an operation would wait.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::*;

    impl NonblockingFiles {
        pub fn add(&mut self, _: &Path) {}

        pub fn open(&self, _: &Dir, _: PathFlags, _: &str, _: OpenFlags, _: DescriptorFlags) -> Option<Descriptor> {
            None
        }

        pub fn stat_at(&self, _: &Dir, _: PathFlags, _: &str) -> Option<DescriptorStat> {
            None
        }

        pub fn stat(&self, _: &Descriptor) -> Option<DescriptorStat> {
            None
        }
    }

    pub fn read(_: &File, _: u64, _: &mut [u8]) -> Option<usize> {
        None
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, mkfifoat, utimensat};
    use wasmtime::component::{Resource, ResourceTable};
    use wasmtime_wasi::{
        FsPerms, WasiCtx,
        filesystem::{WasiFilesystemCtx, WasiFilesystemCtxView},
        p2::bindings::filesystem::{preopens, types::HostDescriptor},
    };

    use super::*;
    use shelly_core::limits;

    /// A folder `in` with one entry of each kind.
    struct FileFixture {
        _place: tempfile::TempDir,
        context: WasiFilesystemCtx,
        table: ResourceTable,
        folder: Resource<Descriptor>,
        at_once: NonblockingFiles,
    }

    impl FileFixture {
        fn new() -> Self {
            let place = tempfile::tempdir().unwrap();
            let folder = place.path().join("in");
            fs::create_dir_all(folder.join("deep")).unwrap();
            fs::write(folder.join("file"), "x".repeat(100_000)).unwrap();
            fs::write(place.path().join("secret"), "secret").unwrap();
            for (target, name) in [("file", "link"), ("../secret", "out"), ("deep", "deep-link")] {
                symlink(target, folder.join(name)).unwrap();
                // With an access time in the future, following the link need not update it, which the cached lookup
                // could not do.
                let at = |tv_sec| Timespec { tv_sec, tv_nsec: 0 };
                let times = Timestamps { last_access: at(4_000_000_000), last_modification: at(0) };
                utimensat(CWD, folder.join(name), &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
            }
            mkfifoat(CWD, folder.join("pipe"), Mode::RUSR).unwrap();
            let mut wasi = WasiCtx::builder();
            wasi.preopened_dir(&folder, ".", FsPerms::ReadWrite).unwrap();
            // Whatever kind of file system the tests run on.
            let at_once = NonblockingFiles { local: vec![linux::device_of(&folder).unwrap()] };
            let (mut context, mut table) = (wasi.build().filesystem().clone(), ResourceTable::new());
            let mut view = WasiFilesystemCtxView { ctx: &mut context, table: &mut table };
            let (folder, _) = preopens::Host::get_directories(&mut view).unwrap().remove(0);
            Self { _place: place, context, table, folder, at_once }
        }

        fn view(&mut self) -> (WasiFilesystemCtxView<'_>, Resource<Descriptor>) {
            let folder = Resource::new_borrow(self.folder.rep());
            (WasiFilesystemCtxView { ctx: &mut self.context, table: &mut self.table }, folder)
        }

        fn folder(&self) -> &Dir {
            let Descriptor::Dir(folder) = self.table.get(&self.folder).unwrap() else { panic!("it is a folder") };
            folder
        }

        fn open(&self, follow: PathFlags, path: &str, how: OpenFlags) -> Option<Descriptor> {
            self.at_once.open(self.folder(), follow, path, how, DescriptorFlags::READ)
        }
    }

    #[tokio::test]
    async fn nonblocking_stat_equals_wasmtime_wasi() {
        let mut ground = FileFixture::new();
        let (keep, follow) = (PathFlags::empty(), PathFlags::SYMLINK_FOLLOW);
        for path in [".", "file", "deep", "deep/..", "link", "out", "pipe", "deep-link"] {
            // The link that leads out exists, but cannot be followed.
            for flags in [keep, follow].into_iter().take(if path == "out" { 1 } else { 2 }) {
                let known = ground.at_once.stat_at(ground.folder(), flags, path).expect(path);
                let (mut view, folder) = ground.view();
                let theirs = view.stat_at(folder, flags, path.into()).await.unwrap();
                assert_eq!(format!("{known:?}"), format!("{theirs:?}"), "{path} {flags:?}");
            }
        }
        for (path, how) in [("file", OpenFlags::empty()), ("deep", OpenFlags::DIRECTORY)] {
            let opened = ground.open(keep, path, how).unwrap();
            let known = ground.at_once.stat(&opened).unwrap();
            let opened = ground.table.push(opened).unwrap();
            let theirs = ground.view().0.stat(opened).await.unwrap();
            assert_eq!(format!("{known:?}"), format!("{theirs:?}"), "{path}");
        }
    }

    #[test]
    fn nonblocking_open_is_for_reading_below_the_folder() {
        let ground = FileFixture::new();
        let (any, folder) = (OpenFlags::empty(), OpenFlags::DIRECTORY);
        let (keep, follow) = (PathFlags::empty(), PathFlags::SYMLINK_FOLLOW);
        for (flags, path, how, is_file) in [
            (keep, "file", any, Some(true)),
            (follow, "link", any, Some(true)),
            (keep, "deep/../file", any, Some(true)),
            (keep, "deep", any, Some(false)),
            (keep, ".", folder, Some(false)),
            (follow, "deep-link", folder, Some(false)),
            (keep, "link", any, None),
            (keep, "file", folder, None),
            (keep, "pipe", any, None),
            (keep, "nothing", any, None),
            (keep, "nothing", OpenFlags::CREATE, None),
            (keep, "file", OpenFlags::TRUNCATE, None),
            (follow, "out", any, None),
            (keep, "../secret", any, None),
            (keep, "/etc/passwd", any, None),
            (keep, "file\0", any, None),
            (keep, "", any, None),
        ] {
            let opened = ground.open(flags, path, how).map(|opened| matches!(opened, Descriptor::File(_)));
            assert_eq!(opened, is_file, "{path} {flags:?} {how:?}");
        }
        for flags in [DescriptorFlags::WRITE, DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY] {
            assert!(ground.at_once.open(ground.folder(), keep, "file", any, flags).is_none(), "{flags:?}");
        }
    }

    #[test]
    fn nonblocking_open_needs_a_local_file_system() {
        let mut ground = FileFixture::new();
        ground.at_once = NonblockingFiles::default();
        ground.at_once.add(Path::new("/proc"));
        ground.at_once.add(Path::new("/nowhere"));
        assert!(ground.at_once.local.is_empty());
        assert!(ground.open(PathFlags::empty(), "file", OpenFlags::empty()).is_none());
        assert!(ground.at_once.stat_at(ground.folder(), PathFlags::empty(), "file").is_none());
        assert!(ground.at_once.stat(ground.table.get(&ground.folder).unwrap()).is_none());
    }

    #[tokio::test]
    async fn nonblocking_read_equals_wasmtime_wasi() {
        let mut ground = FileFixture::new();
        let opened = ground.open(PathFlags::empty(), "file", OpenFlags::empty()).unwrap();
        let Descriptor::File(file) = opened.clone() else { panic!("it is a file") };
        let opened = ground.table.push(opened).unwrap();
        let mut room = vec![0; limits::READ_BYTES];
        for offset in [0, 1, 65_536, 99_999, 100_000, 200_000] {
            // Some file systems never read without waiting.
            let Some(read) = read(&file, offset, &mut room) else { continue };
            let again = Resource::new_borrow(opened.rep());
            let (theirs, is_end) = ground.view().0.read(again, u64::MAX, offset).await.unwrap();
            assert_eq!((&room[..read], read == 0), (&*theirs, is_end), "{offset}");
        }
    }
}
