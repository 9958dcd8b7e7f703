//! The folders that a plugin is granted: opening them, and resolving paths in them.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use wasmtime_wasi::{FsPerms, WasiCtx};

use super::{folder_mount::FolderMount, plugin_settings::PluginSettings};
use crate::{
    error::PluginError,
    package::PluginPackage,
    store::{FileOpenLimiter, NonblockingFiles, PreopenedFolders},
};
use shelly_core::{
    capability::{FileAccess, Grant},
    change::{ChangeError, ChangePath},
};

/// Opens the granted parts of the mounts.
pub(super) fn open(package: &PluginPackage, settings: &PluginSettings) -> Result<PreopenedFolders, PluginError> {
    let granted = settings.granted(&package.manifest).files;
    if granted.is_empty() {
        return Ok(PreopenedFolders::default());
    }
    let (mut wasi, mut at_once) = (WasiCtx::builder(), NonblockingFiles::default());
    for mount in &settings.mounts {
        for (path, access) in granted.within(&mount.path).iter() {
            let mode = match access {
                FileAccess::Read => FsPerms::ReadOnly,
                FileAccess::Write => FsPerms::ReadWrite,
            };
            let opened = at_exactly(path, |folder| {
                at_once.add(folder);
                let added = wasi.preopened_dir(folder, name_below(mount, path), mode);
                added.map(drop).map_err(|error| io::Error::other(format!("{error:#}")))
            });
            match opened {
                // A part of a folder that a ceiling names: if it does not exist, there is nothing in it to reach.
                Err(error) if error.kind() == io::ErrorKind::NotFound && path != mount.path => {}
                opened => opened.map_err(|error| PluginError::NoFolder {
                    id: package.manifest.id.clone(),
                    agent: settings.agent.clone(),
                    path: path.to_owned(),
                    message: error.to_string(),
                })?,
            }
        }
    }
    Ok(PreopenedFolders { context: wasi.build().filesystem().clone(), at_once, opening: FileOpenLimiter::default() })
}

/// Resolves a path that a plugin names in a proposal. The root of the result is the widest granted folder that contains
/// the path. Read access is enough to propose.
pub(super) fn resolve(settings: &PluginSettings, granted: &Grant, path: &str) -> Result<ChangePath, ChangeError> {
    let outside = || ChangeError::Outside { shown: path.chars().take(200).flat_map(char::escape_debug).collect() };
    let real = machine_path(&settings.mounts, path).ok_or_else(outside)?;
    let folder = granted.files.iter().map(|(folder, _)| folder).filter(|folder| real.starts_with(folder));
    let folder = folder.min_by_key(|folder| folder.as_os_str().len()).ok_or_else(outside)?;
    let below = real.strip_prefix(folder).map_err(|_| outside())?;
    ChangePath::new(folder, below, path)
}

/// Resolves a path of a plugin to a path of this machine: the longest mount name that is a prefix of it decides.
fn machine_path(mounts: &[FolderMount], path: &str) -> Option<PathBuf> {
    // `..` is refused: it would have to be resolved together with the links before it.
    let plain = |path: &str| -> Option<PathBuf> {
        let parts = Path::new(path).components().filter(|part| *part != Component::CurDir);
        parts.map(|part| (part != Component::ParentDir).then_some(part.as_os_str())).collect()
    };
    let path = plain(path)?;
    let below = mounts.iter().filter_map(|mount| {
        let name = plain(&mount.name)?;
        let below = path.strip_prefix(&name).ok()?;
        // An empty name is a prefix of relative paths alone.
        (below.is_relative()).then(|| (name.as_os_str().len(), mount.path.join(below)))
    });
    below.max_by_key(|(length, _)| *length).map(|(_, path)| path)
}

/// Returns the name under which a plugin sees a part of a mounted folder.
fn name_below(mount: &FolderMount, path: &Path) -> String {
    match path.strip_prefix(&mount.path) {
        Ok(below) if !below.as_os_str().is_empty() && mount.name == "." => below.to_string_lossy().into_owned(),
        Ok(below) if !below.as_os_str().is_empty() => format!("{}/{}", mount.name, below.to_string_lossy()),
        _ => mount.name.clone(),
    }
}

/// Calls `open` with a path to the folder at `path` without following any link, so that the opened folder is the one
/// that was compared with the grant, even if a link is put there in between.
#[cfg(target_os = "linux")]
fn at_exactly(path: &Path, open: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    use std::{os::fd::AsRawFd, path::Component};

    use rustix::fs::{CWD, Mode, OFlags, openat};
    const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
    let mut folder = openat(CWD, "/", STEP, Mode::empty())?;
    for part in path.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(part) => folder = openat(&folder, part, STEP, Mode::empty())?,
            _ => return Err(io::Error::other("the path is not absolute, or contains `..`")),
        }
    }
    open(Path::new(&format!("/proc/self/fd/{}", folder.as_raw_fd())))
}

/// Opens the folder on systems without `openat` paths: `path` must resolve to itself before and after it is opened.
#[cfg(not(target_os = "linux"))]
fn at_exactly(path: &Path, open: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let check = || match path.canonicalize()? == path {
        true => Ok(()),
        false => Err(io::Error::other("the path is a link, or leads through a link")),
    };
    check()?;
    open(path)?;
    check()
}
