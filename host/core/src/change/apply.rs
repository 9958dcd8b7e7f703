//! Applies all changes of a plan or none: each step can be rolled back.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    ChangeError, ChangePlan,
    change_path::ResolvedChangePath,
    fingerprint::{FingerprintNode, PathFingerprint, mode_of, state, state_in},
    folder::{FolderHandle, FolderSync, create_file, give_mode, open_file},
    planned_change::{PlannedAction, PlannedChange},
};
use crate::{digest::Sha256Digest, limits};

/// One atomic operation on the disk that can be rolled back.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum ChangeStep {
    /// A folder is created. The rollback removes it if it is empty.
    Made { at: ResolvedChangePath, is_wanted: bool },
    /// A new file or folder replaces a file or nothing. It is first created next to it under the name `temp`.
    Placed { at: ResolvedChangePath, before: PathFingerprint, after: PathFingerprint, temp: String },
    /// A file or folder is removed. Until all steps are done it is kept next to its place under the name `aside`.
    Removed { at: ResolvedChangePath, before: PathFingerprint, aside: String },
    /// A file or folder is moved.
    Moved { from: ResolvedChangePath, to: ResolvedChangePath, state: PathFingerprint },
}

/// The previous contents of files, by digest.
#[derive(Default)]
pub(super) struct BeforeImages {
    pub memory: HashMap<Sha256Digest, Arc<[u8]>>,
    pub folder: Option<PathBuf>,
}

impl BeforeImages {
    /// Collects the previous contents of the files that this plan overwrites, in memory alone.
    pub fn of(plan: &ChangePlan) -> Self {
        let written = plan.items.iter().filter(|item| matches!(item.does, PlannedAction::Write(_)));
        let contents = written.filter_map(|item| item.content.clone());
        Self { memory: contents.map(|content| (Sha256Digest::of(&content), content)).collect(), folder: None }
    }

    /// Returns the previous content with this digest.
    pub fn get(&self, digest: Sha256Digest) -> io::Result<Arc<[u8]>> {
        if let Some(content) = self.memory.get(&digest) {
            return Ok(Arc::clone(content));
        }
        let folder = self.folder.as_ref().ok_or_else(|| io::Error::other("the previous content was not stored"))?;
        let mut content = Vec::new();
        open_file(&folder.join(digest.hex()))?.take(limits::CHANGE_UNDO_BYTES).read_to_end(&mut content)?;
        match Sha256Digest::of(&content) == digest {
            true => Ok(content.into()),
            false => Err(io::Error::other("the stored previous content is damaged")),
        }
    }
}

/// Returns the steps of a plan in order, each with its change. `token` makes temporary names unique.
pub(super) fn steps<'a>(plan: &'a ChangePlan, token: &str) -> Vec<(ChangeStep, &'a PlannedChange)> {
    let (mut steps, mut made) = (Vec::new(), HashSet::new());
    for (at, item) in plan.items.iter().enumerate() {
        let beside = || format!(".shelly-{token}-{at}");
        let target = match &item.does {
            PlannedAction::Move(to) | PlannedAction::Copy(to, _) => Some(to),
            PlannedAction::Write(_) | PlannedAction::MakeFolder => Some(&item.at),
            PlannedAction::Remove => None,
        };
        for folder in target.map(|target| missing_above(&target.real, &made)).unwrap_or_default() {
            steps.push((ChangeStep::Made { at: item.at.above(&folder), is_wanted: false }, item));
            made.insert(folder);
        }
        let (at, before) = (item.at.clone(), item.before.clone());
        let step = match &item.does {
            PlannedAction::Write(content) => {
                let mode = before.mode_of_new_content();
                ChangeStep::Placed { at, before, after: PathFingerprint::of_file(content, mode), temp: beside() }
            }
            PlannedAction::Remove => ChangeStep::Removed { at, before, aside: beside() },
            PlannedAction::Move(to) => ChangeStep::Moved { from: at, to: to.clone(), state: before },
            PlannedAction::Copy(to, copy) => ChangeStep::Placed {
                at: to.clone(),
                before: PathFingerprint::Nothing,
                after: copy.clone(),
                temp: beside(),
            },
            PlannedAction::MakeFolder => {
                made.insert(at.real.clone());
                ChangeStep::Made { at, is_wanted: true }
            }
        };
        steps.push((step, item));
    }
    steps
}

/// Returns the missing parent folders of a path, the topmost first.
fn missing_above(path: &Path, made: &HashSet<PathBuf>) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    let missing = above.take_while(|above| !made.contains(*above) && fs::symlink_metadata(above).is_err());
    let mut missing: Vec<_> = missing.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

impl ChangeStep {
    /// Executes the step, if everything still matches the plan. File contents are on disk before they get their names.
    pub fn make(&self, item: &PlannedChange, names: FolderSync) -> Result<(), ChangeError> {
        let open = |folder| FolderHandle::open(folder).map(|folder| folder.with(names));
        match self {
            Self::Made { at, is_wanted } => {
                let failed = ChangeError::io(&at.shown, "made");
                let (folder, name) = at.parts().map_err(&failed)?;
                match open(folder).and_then(|folder| folder.make(name)) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match is_wanted {
                        true => Err(ChangeError::Stale { shown: at.shown.clone() }),
                        // Another process has created it meanwhile. The steps that use the folder verify it.
                        false => Ok(()),
                    },
                    made => made.map_err(failed),
                }
            }
            Self::Placed { at, before, after, temp } => {
                let failed = ChangeError::io(&at.shown, "written");
                let (folder, name) = at.parts().map_err(&failed)?;
                let folder = open(folder).map_err(&failed)?;
                let placed = put(&folder, temp, name, item, after).map_err(&failed).and_then(|()| {
                    if state_in(&folder, temp, &at.shown)? != *after || state_in(&folder, name, &at.shown)? != *before {
                        return Err(ChangeError::Stale { shown: at.shown.clone() });
                    }
                    into_place(&folder, temp, name, before).map_err(|error| stale_or(&at.shown, error, &failed))
                });
                placed.inspect_err(|_| drop(folder.remove(temp)))
            }
            Self::Removed { at, before, aside } => {
                let failed = ChangeError::io(&at.shown, "removed");
                let (folder, name) = at.parts().map_err(&failed)?;
                let folder = open(folder).map_err(&failed)?;
                folder.rename_to_nothing(name, &folder, aside).map_err(|error| stale_or(&at.shown, error, &failed))?;
                // The check examines what was actually removed, not what was there a moment before.
                match state_in(&folder, aside, &at.shown) {
                    Ok(went) if went == *before => Ok(()),
                    looked => {
                        folder.rename_to_nothing(aside, &folder, name).map_err(&failed)?;
                        looked.and(Err(ChangeError::Stale { shown: at.shown.clone() }))
                    }
                }
            }
            Self::Moved { from, to, state } => {
                let failed = ChangeError::io(&from.shown, "moved");
                let ((folder, name), (to_folder, to_name)) =
                    (from.parts().map_err(&failed)?, to.parts().map_err(&failed)?);
                let (folder, to_folder) = (open(folder).map_err(&failed)?, open(to_folder).map_err(&failed)?);
                let moved = folder.rename_to_nothing(name, &to_folder, to_name);
                moved.map_err(|error| match error.kind() {
                    io::ErrorKind::CrossesDevices => {
                        ChangeError::OtherDisk { from: from.shown.clone(), to: to.shown.clone() }
                    }
                    io::ErrorKind::AlreadyExists => ChangeError::Stale { shown: to.shown.clone() },
                    _ => stale_or(&from.shown, error, &failed),
                })?;
                match state_in(&to_folder, to_name, &to.shown) {
                    Ok(went) if went == *state => Ok(()),
                    looked => {
                        to_folder.rename_to_nothing(to_name, &folder, name).map_err(&failed)?;
                        looked.and(Err(ChangeError::Stale { shown: from.shown.clone() }))
                    }
                }
            }
        }
    }

    /// Rolls the step back. Does nothing if the step was not executed or is already rolled back.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Stale`] if the result of the step was changed since.
    pub fn take_back(&self, images: &BeforeImages) -> Result<(), ChangeError> {
        match self {
            Self::Made { at, .. } => {
                // The folder stays if others have put something into it.
                let _ = at.parts().and_then(|(folder, name)| fs::remove_dir(FolderHandle::open(folder)?.at(name)));
                Ok(())
            }
            Self::Placed { at, before, after, temp } => {
                let failed = ChangeError::io(&at.shown, "restored");
                let Some((folder, name)) = open(at)? else {
                    return if before.is_nothing() { Ok(()) } else { Err(stale(at)) };
                };
                folder.remove(temp).map_err(&failed)?;
                let now = state_in(&folder, name, &at.shown)?;
                if now == *before {
                    return Ok(());
                }
                if now != *after {
                    return Err(stale(at));
                }
                match before {
                    PathFingerprint::Nothing => {
                        // Atomic, even for a folder.
                        folder.rename_to_nothing(name, &folder, temp).and_then(|()| folder.remove(temp)).map_err(failed)
                    }
                    PathFingerprint::There(node) => {
                        let like = fs::symlink_metadata(folder.at(name)).ok();
                        let restored = rebuild(&folder.at(temp), node, images, like.as_ref());
                        restored.and_then(|()| folder.rename_over(temp, name)).map_err(failed)
                    }
                }
            }
            Self::Removed { at, before, aside } => {
                let failed = ChangeError::io(&at.shown, "restored");
                let Some((folder, name)) = open(at)? else { return Err(stale(at)) };
                let now = state_in(&folder, name, &at.shown)?;
                if now == *before && !is_there(&folder, aside) {
                    return Ok(());
                }
                if !now.is_nothing() {
                    return Err(stale(at));
                }
                if !is_there(&folder, aside)
                    && let PathFingerprint::There(node) = before
                {
                    rebuild(&folder.at(aside), node, images, None).map_err(&failed)?;
                }
                folder.rename_to_nothing(aside, &folder, name).map_err(failed)
            }
            Self::Moved { from, to, state: moved } => {
                let failed = ChangeError::io(&from.shown, "moved back");
                match (state(from)? == *moved, state(to)?) {
                    (true, PathFingerprint::Nothing) => Ok(()),
                    (false, now) if now == *moved => {
                        let (Some((folder, name)), Some((to_folder, to_name))) = (open(from)?, open(to)?) else {
                            return Err(stale(from));
                        };
                        let back = to_folder.rename_to_nothing(to_name, &folder, name);
                        back.map_err(|error| stale_or(&from.shown, error, &failed))
                    }
                    _ => Err(stale(to)),
                }
            }
        }
    }

    /// Returns `true` if the step keeps a removed file or folder until all steps are done.
    pub fn puts_aside(&self) -> bool {
        matches!(self, Self::Removed { .. })
    }

    /// Deletes what the step has kept.
    pub fn settle(&self) -> Result<(), ChangeError> {
        match self {
            Self::Removed { at, aside, .. } => match open(at)? {
                Some((folder, _)) => folder.remove(aside).map_err(ChangeError::io(&at.shown, "removed")),
                None => Ok(()),
            },
            Self::Made { .. } | Self::Placed { .. } | Self::Moved { .. } => Ok(()),
        }
    }
}

/// Checks that all of these steps can be rolled back, the last one first.
pub(super) fn check_back(steps: &[ChangeStep]) -> Result<(), ChangeError> {
    let mut view: HashMap<&Path, PathFingerprint> = HashMap::new();
    let now = |view: &HashMap<&Path, PathFingerprint>, at: &ResolvedChangePath| match view.get(at.real.as_path()) {
        Some(known) => Ok(known.clone()),
        None => state(at),
    };
    for step in steps.iter().rev() {
        match step {
            // The folder stays if it is not empty.
            ChangeStep::Made { .. } => {}
            ChangeStep::Placed { at, before, after, .. } => {
                let there = now(&view, at)?;
                if there != *before && there != *after {
                    return Err(stale(at));
                }
                view.insert(&at.real, before.clone());
            }
            ChangeStep::Removed { at, before, .. } => {
                let there = now(&view, at)?;
                if there != *before && !there.is_nothing() {
                    return Err(stale(at));
                }
                view.insert(&at.real, before.clone());
            }
            ChangeStep::Moved { from, to, state: moved } => {
                let (source, target) = (now(&view, from)?, now(&view, to)?);
                let is_back = source == *moved && target.is_nothing();
                let is_there = target == *moved && source.is_nothing();
                if !is_back && !is_there {
                    return Err(stale(to));
                }
                view.insert(&from.real, moved.clone());
                view.insert(&to.real, PathFingerprint::Nothing);
            }
        }
    }
    Ok(())
}

fn stale(at: &ResolvedChangePath) -> ChangeError {
    ChangeError::Stale { shown: at.shown.clone() }
}

/// Maps errors that mean a concurrent modification to `Stale`.
fn stale_or(shown: &str, error: io::Error, failed: impl Fn(io::Error) -> ChangeError) -> ChangeError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => ChangeError::Stale { shown: shown.to_owned() },
        _ => failed(error),
    }
}

fn is_there(folder: &FolderHandle, name: &str) -> bool {
    fs::symlink_metadata(folder.at(name)).is_ok()
}

/// Opens the folder that contains a path, if it exists, and returns it with the name in it.
fn open(at: &ResolvedChangePath) -> Result<Option<(FolderHandle, &str)>, ChangeError> {
    let failed = ChangeError::io(&at.shown, "examined");
    let (folder, name) = at.parts().map_err(&failed)?;
    match FolderHandle::open(folder) {
        Ok(folder) => Ok(Some((folder, name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Creates the new content next to its place, synced to disk.
fn put(folder: &FolderHandle, temp: &str, name: &str, item: &PlannedChange, after: &PathFingerprint) -> io::Result<()> {
    match (&item.does, after) {
        (PlannedAction::Write(content), PathFingerprint::There(FingerprintNode::File { mode, .. })) => {
            let like = fs::symlink_metadata(folder.at(name)).ok();
            // Uses the present mode, not the one at the time of the question.
            let mode = like.as_ref().map_or(*mode, mode_of);
            write(&folder.at(temp), content, mode, like.as_ref())
        }
        (PlannedAction::Copy(..), PathFingerprint::There(node)) => {
            let (from, from_name) = item.at.parts()?;
            copy(&FolderHandle::open(from)?.at(from_name), &folder.at(temp), node)
        }
        _ => Err(io::Error::other("there is no new content")),
    }
}

fn into_place(folder: &FolderHandle, temp: &str, name: &str, before: &PathFingerprint) -> io::Result<()> {
    match before {
        PathFingerprint::Nothing => folder.rename_to_nothing(temp, folder, name),
        PathFingerprint::There(_) => folder.rename_over(temp, name),
    }
}

fn write(path: &Path, content: &[u8], mode: u32, like: Option<&fs::Metadata>) -> io::Result<()> {
    let mut file = create_file(path)?;
    file.write_all(content)?;
    give_mode(&file, mode, like)?;
    file.sync_all()
}

/// Copies the parts of a source that are known from the plan. The content is verified later.
fn copy(from: &Path, to: &Path, node: &FingerprintNode) -> io::Result<()> {
    match node {
        FingerprintNode::File { mode, .. } => {
            let mut file = create_file(to)?;
            io::copy(&mut open_file(from)?, &mut file)?;
            give_mode(&file, *mode, None)?;
            file.sync_all()
        }
        FingerprintNode::Link { to: target } => link(target, to),
        FingerprintNode::Folder { mode, entries } => folder(to, *mode, || {
            entries.iter().try_for_each(|(name, node)| copy(&from.join(name), &to.join(name), node))
        }),
    }
}

/// Recreates the previous state.
fn rebuild(to: &Path, node: &FingerprintNode, images: &BeforeImages, like: Option<&fs::Metadata>) -> io::Result<()> {
    match node {
        FingerprintNode::File { digest, mode, .. } => write(to, &images.get(*digest)?, *mode, like),
        FingerprintNode::Link { to: target } => link(target, to),
        FingerprintNode::Folder { mode, entries } => folder(to, *mode, || {
            entries.iter().try_for_each(|(name, node)| rebuild(&to.join(name), node, images, None))
        }),
    }
}

/// Creates a folder, lets `fill` create its content, and sets its mode afterwards.
fn folder(path: &Path, mode: u32, fill: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    fs::create_dir(path)?;
    fill()?;
    #[cfg(unix)]
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode & 0o777))?;
    #[cfg(not(unix))]
    let _ = mode;
    #[cfg(unix)]
    fs::File::open(path)?.sync_all()?;
    Ok(())
}

#[cfg(unix)]
fn link(target: &str, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> io::Result<()> {
    Err(io::Error::other("symbolic links are not supported on this system"))
}
