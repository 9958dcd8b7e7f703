//! Records of changes: written before the changes, so that interrupted ones are rolled back, and kept afterwards, so that
//! they can be undone.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    ChangeError, ChangePlan,
    apply::{BeforeImages, ChangeStep},
    fingerprint::{FingerprintNode, PathFingerprint},
    folder::open_file,
    planned_change::PlannedAction,
};
use crate::{chat::ToolResultContent, digest::Sha256Digest, error::without_number, files, limits, trust::UserKey};

/// The folders in which a session records its changes.
#[derive(Debug, Clone)]
pub(super) struct ChangeFolders {
    /// The folder shared by all sessions of the project for changes in progress. Its lock is held while changes are made.
    pub common: PathBuf,
    /// The folder of this session.
    pub folder: PathBuf,
    /// The name of the session.
    pub session: String,
}

/// The record of the changes of one result.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChangeRecord {
    /// The time in milliseconds since 1970.
    pub at: u64,
    pub session: String,
    /// The instance name of the agent, and the id of its call.
    pub agent: String,
    pub call: String,
    pub tool: String,
    pub steps: Vec<ChangeStep>,
    /// The result that the model was told.
    pub result: Vec<ToolResultContent>,
    /// `true` if the previous contents are kept.
    pub can_undo: bool,
}

/// The changes are in progress, and are rolled back at the next start.
const INTENT: &str = "intent";
/// The changes are made, but removed files may still be kept.
const MADE: &str = "made";
/// The changes are complete.
pub(super) const DONE: &str = "json";
/// The changes are undone.
pub(super) const UNDONE: &str = "undone";
/// The changes could not be rolled back.
const LEFT: &str = "left";
/// The purpose string of a record's authentication mark.
const WHAT: &str = "shelly-host changes";

impl ChangeFolders {
    /// Creates the folders.
    pub fn make(&self) -> Result<(), ChangeError> {
        let made = [&self.common, &self.folder].into_iter().try_for_each(|folder| {
            files::create_private_folders(folder)?;
            match fs::symlink_metadata(folder)?.is_dir() {
                true => Ok(()),
                false => Err(io::Error::other("the folder is a symbolic link")),
            }
        });
        made.map_err(ChangeError::io("record of changes", "written"))
    }

    /// Returns the bytes of kept contents, and the number of results with a record.
    pub fn used(&self) -> (u64, usize) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.fold((0, 0), |(bytes, records), entry| {
            let is_record = entry.path().extension().is_some();
            (bytes + entry.metadata().map_or(0, |found| found.len()), records + usize::from(is_record))
        })
    }

    /// Keeps the previous contents of the files that a plan changes: all of them if the plan can be undone, otherwise those
    /// that a rollback needs. Returns the files that were added.
    pub fn keep(&self, plan: &ChangePlan) -> Result<Vec<PathBuf>, ChangeError> {
        let mut new = Vec::new();
        for item in &plan.items {
            let failed = ChangeError::io(&item.at.shown, "kept");
            let mut keep = || match (&item.does, &item.before, &item.content) {
                (
                    PlannedAction::Write(_) | PlannedAction::Remove,
                    PathFingerprint::There(FingerprintNode::File { digest, .. }),
                    Some(content),
                ) => self.keep_one(*digest, || Ok(content.to_vec()), &mut new),
                (PlannedAction::Remove, PathFingerprint::There(node), _) if plan.no_undo().is_none() => {
                    node.walk().into_iter().try_for_each(|(below, node)| match node {
                        FingerprintNode::File { digest, .. } => {
                            let path = if below.is_empty() { item.at.real.clone() } else { item.at.real.join(below) };
                            let read = || {
                                let mut content = Vec::new();
                                let most = limits::CHANGE_UNDO_BYTES + 1;
                                io::Read::read_to_end(&mut io::Read::take(open_file(&path)?, most), &mut content)?;
                                Ok(content)
                            };
                            self.keep_one(*digest, read, &mut new)
                        }
                        FingerprintNode::Link { .. } | FingerprintNode::Folder { .. } => Ok(()),
                    })
                }
                _ => Ok(()),
            };
            if let Err(error) = keep() {
                forget(&new);
                return Err(match error.kind() {
                    io::ErrorKind::InvalidData => ChangeError::Stale { shown: item.at.shown.clone() },
                    _ => failed(error),
                });
            }
        }
        Ok(new)
    }

    fn keep_one(
        &self,
        digest: Sha256Digest,
        content: impl FnOnce() -> io::Result<Vec<u8>>,
        new: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        let path = self.folder.join(digest.hex());
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(());
        }
        let content = content()?;
        if Sha256Digest::of(&content) != digest {
            return Err(io::ErrorKind::InvalidData.into());
        }
        files::replace(&path, &content)?;
        new.push(path);
        Ok(())
    }

    /// Records that changes are about to be made.
    pub fn begin(&self, id: &str, record: &ChangeRecord, own: &UserKey) -> Result<ChangeIntent, ChangeError> {
        let failed = ChangeError::io("record of changes", "written");
        let json = serde_json::to_string(record).map_err(|error| failed(io::Error::other(error)))?;
        if json.len() as u64 > limits::CHANGE_RECORD_BYTES {
            return Err(failed(io::Error::other("the record is too large")));
        }
        // Without a key the record is not recognized as the person's own: it is neither rolled back nor undone.
        let mark = own.mark(WHAT, json.as_bytes()).unwrap_or_default();
        let intent = ChangeIntent { id: id.to_owned(), kept: self.clone() };
        files::replace(&intent.path(INTENT), format!("{json}\n{mark}\n").as_bytes()).map_err(failed)?;
        Ok(intent)
    }
}

/// Deletes kept contents.
pub(super) fn forget(paths: &[PathBuf]) {
    paths.iter().for_each(|path| drop(fs::remove_file(path)));
}

/// The record of changes in progress.
pub(super) struct ChangeIntent {
    id: String,
    kept: ChangeFolders,
}

impl ChangeIntent {
    fn path(&self, state: &str) -> PathBuf {
        self.kept.common.join(format!("{}.{state}", self.id))
    }

    /// Marks all changes as made, with kept removals left: from here on they are not rolled back.
    pub fn made(&self) -> io::Result<()> {
        self.becomes(INTENT, &self.path(MADE))
    }

    /// Marks kept removals as deleted.
    pub fn settled(&self) -> io::Result<()> {
        self.becomes(MADE, &self.end())
    }

    /// Marks all changes as made and complete: from here on they are not rolled back.
    pub fn done(&self) -> io::Result<()> {
        self.becomes(INTENT, &self.end())
    }

    fn end(&self) -> PathBuf {
        self.kept.folder.join(format!("{}.{DONE}", self.id))
    }

    fn becomes(&self, from: &str, to: &Path) -> io::Result<()> {
        fs::rename(self.path(from), to)?;
        files::sync_folder(to)
    }

    /// Removes the record of changes that were rolled back.
    pub fn gone(&self) -> io::Result<()> {
        fs::remove_file(self.path(INTENT))
    }
}

/// Reads a record that this person's host has written; `None` if another person wrote it or it is damaged.
pub(super) fn read(path: &Path, own: &UserKey) -> Option<ChangeRecord> {
    let text = files::read(path, path.parent()?, limits::CHANGE_RECORD_BYTES + 1_024).ok()?;
    let (json, mark) = text.trim_end().rsplit_once('\n')?;
    own.has_marked(WHAT, json.as_bytes(), mark).ok()?.then(|| serde_json::from_str(json).ok())?
}

/// Rolls back the changes that were in progress when a process of this project was interrupted, and returns messages for a
/// person. `common` is the project's folder for changes in progress; `of_session` returns the folder of a session.
pub fn recover(common: &Path, own: &UserKey, of_session: impl Fn(&str) -> PathBuf) -> Vec<String> {
    let pending = |common: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(common).into_iter().flatten().flatten();
        let mut paths: Vec<_> = entries
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|state| state == INTENT || state == MADE))
            .take(limits::SESSION_UNDO_RECORDS)
            .collect();
        paths.sort();
        paths
    };
    // Checked without the lock, since normally there is nothing to do.
    if pending(common).is_empty() {
        return Vec::new();
    }
    let lock = match files::lock_folder(common) {
        Ok(lock) => lock,
        Err(error) => return vec![format!("{}: {}", common.display(), without_number(&error.to_string()))],
    };
    // Changes are made under the lock of the folder; the newest are rolled back first.
    let messages = pending(common).iter().rev().filter_map(|path| recover_one(path, own, &of_session)).collect();
    drop(lock);
    messages
}

fn recover_one(path: &Path, own: &UserKey, of_session: impl Fn(&str) -> PathBuf) -> Option<String> {
    let Some(record) = read(path, own) else {
        return Some(format!(
            "{} records interrupted file changes, but was not written by you on this machine; inspect and remove it",
            path.display()
        ));
    };
    let session = record.session.as_str();
    let is_name = !session.is_empty() && !session.contains(['/', '\\']) && session != "." && session != "..";
    let folder = if is_name { of_session(session) } else { return None };
    if path.extension().is_some_and(|state| state == MADE) {
        record.steps.iter().for_each(|step| drop(step.settle()));
        let done = folder.join(path.file_stem()?).with_extension(DONE);
        // A session that was removed meanwhile needs no record.
        let _ = fs::rename(path, done).or_else(|_| fs::remove_file(path));
        return None;
    }
    let images = BeforeImages { folder: Some(folder), ..BeforeImages::default() };
    let left = take_back(&record.steps, &images);
    let (tool, session) = (record.tool.escape_debug(), record.session.escape_debug());
    match left.is_empty() {
        true => {
            let _ = fs::remove_file(path);
            Some(format!("file changes by `{tool}` in session `{session}` were interrupted, and have been rolled back"))
        }
        false => {
            let kept = path.with_extension(LEFT);
            let _ = fs::rename(path, &kept);
            Some(format!(
                "file changes by `{tool}` in session `{session}` were interrupted, and could not be rolled back: {}; \
                 the previous state is recorded in {}",
                left.join("; "),
                kept.display()
            ))
        }
    }
}

/// Rolls back steps, the last one first, as far as possible; returns the errors.
pub(super) fn take_back(steps: &[ChangeStep], images: &BeforeImages) -> Vec<String> {
    steps.iter().rev().filter_map(|step| step.take_back(images).err()).map(|error| error.to_string()).collect()
}
