//! All changes of a plan or none: each is a step that can be taken back.

use std::{
    collections::{HashMap, HashSet},
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};

use super::{
    ChangeError,
    change_path::ResolvedChangePath,
    fingerprint::{ContentDigest, FingerprintNode, PathFingerprint, mode_of, state, state_in},
    folder::{FolderHandle, FolderSync, create_file, give_mode, open_file},
    plan::{ChangePlan, PlannedAction, PlannedChange},
};
use crate::limits;

/// Something that is done to the disk at once, and can be taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub(super) enum ChangeStep {
    /// A folder is made. Taken back it goes if nothing is in it then.
    Made { at: ResolvedChangePath, is_wanted: bool },
    /// Something new is put in place of a file or of nothing. It is made beside it, as `temp`.
    Placed { at: ResolvedChangePath, before: PathFingerprint, after: PathFingerprint, temp: String },
    /// Something goes. Until all steps are done it stands beside, as `aside`.
    Removed { at: ResolvedChangePath, before: PathFingerprint, aside: String },
    /// Something goes elsewhere.
    Moved { from: ResolvedChangePath, to: ResolvedChangePath, state: PathFingerprint },
}

/// What files held, by its digest.
#[derive(Default)]
pub(super) struct BeforeImages {
    pub memory: HashMap<ContentDigest, Arc<[u8]>>,
    pub folder: Option<PathBuf>,
}

impl BeforeImages {
    /// In memory alone: what files of this plan held that are written anew.
    pub fn of(plan: &ChangePlan) -> Self {
        let written = plan.items.iter().filter(|item| matches!(item.does, PlannedAction::Write(_)));
        let contents = written.filter_map(|item| item.content.clone());
        Self { memory: contents.map(|content| (ContentDigest::of(&content), content)).collect(), folder: None }
    }

    /// What a file of this digest held.
    pub fn get(&self, digest: ContentDigest) -> io::Result<Arc<[u8]>> {
        if let Some(content) = self.memory.get(&digest) {
            return Ok(Arc::clone(content));
        }
        let folder = self.folder.as_ref().ok_or_else(|| io::Error::other("what it held was not kept"))?;
        let mut content = Vec::new();
        open_file(&folder.join(digest.to_string()))?.take(limits::CHANGE_UNDO_BYTES).read_to_end(&mut content)?;
        match ContentDigest::of(&content) == digest {
            true => Ok(content.into()),
            false => Err(io::Error::other("what was kept of it is damaged")),
        }
    }
}

/// The steps of a plan, in order, each with the change that it belongs to. `token` makes names that nobody else has.
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
                let mode =
                    if let PathFingerprint::There(FingerprintNode::File { mode, .. }) = before { mode } else { 0o600 };
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

/// The folders above a path that are not there, the topmost first.
fn missing_above(path: &Path, made: &HashSet<PathBuf>) -> Vec<PathBuf> {
    let above = path.ancestors().skip(1);
    let missing = above.take_while(|above| !made.contains(*above) && fs::symlink_metadata(above).is_err());
    let mut missing: Vec<_> = missing.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

impl ChangeStep {
    /// Does it, if everything is still as it was shown. What files hold is on the disk before they have their names.
    pub fn make(&self, item: &PlannedChange, names: FolderSync) -> Result<(), ChangeError> {
        let open = |folder| FolderHandle::open(folder).map(|folder| folder.with(names));
        match self {
            Self::Made { at, is_wanted } => {
                let failed = ChangeError::io(&at.shown, "made");
                let (folder, name) = at.parts().map_err(&failed)?;
                match open(folder).and_then(|folder| folder.make(name)) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match is_wanted {
                        true => Err(ChangeError::Stale { shown: at.shown.clone() }),
                        // Somebody else has made it meanwhile. What is put into it finds out what it is.
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
                // What went is looked at, and not what was there a moment before.
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

    /// Takes it back. Where it was not done, or is taken back already, nothing happens.
    ///
    /// # Errors
    ///
    /// [`ChangeError::Stale`] where somebody has changed since what it did.
    pub fn take_back(&self, images: &BeforeImages) -> Result<(), ChangeError> {
        match self {
            Self::Made { at, .. } => {
                // What others put into it keeps it.
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
                        // At once, also where it is a folder.
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

    /// Whether something stands aside until all steps are done.
    pub fn puts_aside(&self) -> bool {
        matches!(self, Self::Removed { .. })
    }

    /// Removes for good what stands aside.
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

/// Whether all of these steps, the last one first, can be taken back.
pub(super) fn check_back(steps: &[ChangeStep]) -> Result<(), ChangeError> {
    let mut view: HashMap<&Path, PathFingerprint> = HashMap::new();
    let now = |view: &HashMap<&Path, PathFingerprint>, at: &ResolvedChangePath| match view.get(at.real.as_path()) {
        Some(known) => Ok(known.clone()),
        None => state(at),
    };
    for step in steps.iter().rev() {
        match step {
            // Whatever is in it keeps it.
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

/// What was looked at is not there any more, or something is where nothing was.
fn stale_or(shown: &str, error: io::Error, failed: impl Fn(io::Error) -> ChangeError) -> ChangeError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists => ChangeError::Stale { shown: shown.to_owned() },
        _ => failed(error),
    }
}

fn is_there(folder: &FolderHandle, name: &str) -> bool {
    fs::symlink_metadata(folder.at(name)).is_ok()
}

/// The folder that a spot is in, if it is there, and its name in it.
fn open(at: &ResolvedChangePath) -> Result<Option<(FolderHandle, &str)>, ChangeError> {
    let failed = ChangeError::io(&at.shown, "looked at");
    let (folder, name) = at.parts().map_err(&failed)?;
    match FolderHandle::open(folder) {
        Ok(folder) => Ok(Some((folder, name))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Makes what is to be put in place, beside it and on the disk.
fn put(folder: &FolderHandle, temp: &str, name: &str, item: &PlannedChange, after: &PathFingerprint) -> io::Result<()> {
    match (&item.does, after) {
        (PlannedAction::Write(content), PathFingerprint::There(FingerprintNode::File { mode, .. })) => {
            let like = fs::symlink_metadata(folder.at(name)).ok();
            // As it is now, and not as it was when the question was asked.
            let mode = like.as_ref().map_or(*mode, mode_of);
            write(&folder.at(temp), content, mode, like.as_ref())
        }
        (PlannedAction::Copy(..), PathFingerprint::There(node)) => {
            let (from, from_name) = item.at.parts()?;
            copy(&FolderHandle::open(from)?.at(from_name), &folder.at(temp), node)
        }
        _ => Err(io::Error::other("there is nothing to put there")),
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

/// Copies what is known of a source. What it holds by now is compared later.
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

/// Makes again what was there.
fn rebuild(to: &Path, node: &FingerprintNode, images: &BeforeImages, like: Option<&fs::Metadata>) -> io::Result<()> {
    match node {
        FingerprintNode::File { digest, mode, .. } => write(to, &images.get(*digest)?, *mode, like),
        FingerprintNode::Link { to: target } => link(target, to),
        FingerprintNode::Folder { mode, entries } => folder(to, *mode, || {
            entries.iter().try_for_each(|(name, node)| rebuild(&to.join(name), node, images, None))
        }),
    }
}

/// Makes a folder with what `fill` puts into it, and gives it its mode when that is there.
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
    Err(io::Error::other("links are not made here"))
}
