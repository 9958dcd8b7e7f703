//! What is written down of changes: before they are made, so that an interrupted one is taken back, and after, so that they
//! can be undone.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    ChangeError, ChangePlan,
    apply::{BeforeImages, ChangeStep},
    fingerprint::{ContentDigest, FingerprintNode, PathFingerprint},
    folder::open_file,
    plan::PlannedAction,
};
use crate::{chat::ToolResultContent, error::without_number, files, limits, trust::UserKey};

/// Where a session keeps what it changed.
#[derive(Debug, Clone)]
pub(super) struct ChangeFolders {
    /// Of all sessions of the project: changes that are under way. Whoever makes some holds it.
    pub common: PathBuf,
    /// Of this one.
    pub folder: PathBuf,
    /// Its name.
    pub session: String,
}

/// Changes of one result.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ChangeRecord {
    /// Milliseconds since 1970.
    pub at: u64,
    pub session: String,
    /// The instance name of the agent, and its call.
    pub agent: String,
    pub call: String,
    pub tool: String,
    pub steps: Vec<ChangeStep>,
    /// What the model was told.
    pub result: Vec<ToolResultContent>,
    /// Whether what was there before is kept.
    pub can_undo: bool,
}

/// Under way: taken back at the next start.
const INTENT: &str = "intent";
/// Made, but what was removed may still stand aside.
const MADE: &str = "made";
/// Done.
pub(super) const DONE: &str = "json";
/// Undone.
pub(super) const UNDONE: &str = "undone";
/// Could not be taken back.
const LEFT: &str = "left";
/// What the mark of a record is a mark of.
const WHAT: &str = "shelly-host changes";

impl ChangeFolders {
    /// Makes the folders.
    pub fn make(&self) -> Result<(), ChangeError> {
        let made = [&self.common, &self.folder].into_iter().try_for_each(|folder| {
            files::create_private_folders(folder)?;
            match fs::symlink_metadata(folder)?.is_dir() {
                true => Ok(()),
                false => Err(io::Error::other("a link stands in the place of its folder")),
            }
        });
        made.map_err(ChangeError::io("what is changed", "written down"))
    }

    /// Bytes that are kept, and results of which something is.
    pub fn used(&self) -> (u64, usize) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.fold((0, 0), |(bytes, records), entry| {
            let is_record = entry.path().extension().is_some();
            (bytes + entry.metadata().map_or(0, |found| found.len()), records + usize::from(is_record))
        })
    }

    /// Keeps what files of a plan held that it changes: all of it where it can be undone, otherwise what cannot be told from
    /// the disk while it is made. Returns what was not there already.
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
        digest: ContentDigest,
        content: impl FnOnce() -> io::Result<Vec<u8>>,
        new: &mut Vec<PathBuf>,
    ) -> io::Result<()> {
        let path = self.folder.join(digest.to_string());
        if fs::symlink_metadata(&path).is_ok() {
            return Ok(());
        }
        let content = content()?;
        if ContentDigest::of(&content) != digest {
            return Err(io::ErrorKind::InvalidData.into());
        }
        files::replace(&path, &content)?;
        new.push(path);
        Ok(())
    }

    /// Writes down that changes are about to be made.
    pub fn begin(&self, id: &str, record: &ChangeRecord, own: &UserKey) -> Result<ChangeIntent, ChangeError> {
        let failed = ChangeError::io("what is changed", "written down");
        let json = serde_json::to_string(record).map_err(|error| failed(io::Error::other(error)))?;
        if json.len() as u64 > limits::CHANGE_RECORD_BYTES {
            return Err(failed(io::Error::other("it is too much")));
        }
        // Without a key nobody knows it as the person's own: it is neither taken back nor undone.
        let mark = own.mark(WHAT, json.as_bytes()).unwrap_or_default();
        let intent = ChangeIntent { id: id.to_owned(), kept: self.clone() };
        files::replace(&intent.path(INTENT), format!("{json}\n{mark}\n").as_bytes()).map_err(failed)?;
        Ok(intent)
    }
}

/// Forgets what was kept.
pub(super) fn forget(paths: &[PathBuf]) {
    paths.iter().for_each(|path| drop(fs::remove_file(path)));
}

/// Changes that are under way.
pub(super) struct ChangeIntent {
    id: String,
    kept: ChangeFolders,
}

impl ChangeIntent {
    fn path(&self, state: &str) -> PathBuf {
        self.kept.common.join(format!("{}.{state}", self.id))
    }

    /// All of them are made, and something stands aside: from here on they are not taken back.
    pub fn made(&self) -> io::Result<()> {
        self.becomes(INTENT, &self.path(MADE))
    }

    /// What stood aside is gone.
    pub fn settled(&self) -> io::Result<()> {
        self.becomes(MADE, &self.end())
    }

    /// All of them are made, and nothing is left to be done: from here on they are not taken back.
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

    /// None of them is made.
    pub fn gone(&self) -> io::Result<()> {
        fs::remove_file(self.path(INTENT))
    }
}

/// Reads a record that this person's host has written. None: somebody else wrote it, or it is damaged.
pub(super) fn read(path: &Path, own: &UserKey) -> Option<ChangeRecord> {
    let text = files::read(path, path.parent()?, limits::CHANGE_RECORD_BYTES + 1_024).ok()?;
    let (json, mark) = text.trim_end().rsplit_once('\n')?;
    own.has_marked(WHAT, json.as_bytes(), mark).ok()?.then(|| serde_json::from_str(json).ok())?
}

/// Takes back what was under way when a process of this project was interrupted, and says what a person should know of that.
/// `common` is the folder of all sessions for it, `of_session` finds that of one.
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
    // Without a look at the lock: as a rule there is nothing to be done.
    if pending(common).is_empty() {
        return Vec::new();
    }
    let lock = match files::lock_folder(common) {
        Ok(lock) => lock,
        Err(error) => return vec![format!("{}: {}", common.display(), without_number(&error.to_string()))],
    };
    // Whoever makes changes holds the folder: the newest were taken back first.
    let told = pending(common).iter().rev().filter_map(|path| recover_one(path, own, &of_session)).collect();
    drop(lock);
    told
}

fn recover_one(path: &Path, own: &UserKey, of_session: impl Fn(&str) -> PathBuf) -> Option<String> {
    let Some(record) = read(path, own) else {
        return Some(format!(
            "{} tells of changes of files that were interrupted, but is not known as yours: look at it, and remove it",
            path.display()
        ));
    };
    let session = record.session.as_str();
    let is_name = !session.is_empty() && !session.contains(['/', '\\']) && session != "." && session != "..";
    let folder = if is_name { of_session(session) } else { return None };
    if path.extension().is_some_and(|state| state == MADE) {
        record.steps.iter().for_each(|step| drop(step.settle()));
        let done = folder.join(path.file_stem()?).with_extension(DONE);
        // A session that was removed meanwhile needs none.
        let _ = fs::rename(path, done).or_else(|_| fs::remove_file(path));
        return None;
    }
    let images = BeforeImages { folder: Some(folder), ..BeforeImages::default() };
    let left = take_back(&record.steps, &images);
    let (tool, session) = (record.tool.escape_debug(), record.session.escape_debug());
    match left.is_empty() {
        true => {
            let _ = fs::remove_file(path);
            Some(format!(
                "changes of files by `{tool}` in the session `{session}` were interrupted, and are taken back"
            ))
        }
        false => {
            let kept = path.with_extension(LEFT);
            let _ = fs::rename(path, &kept);
            Some(format!(
                "changes of files by `{tool}` in the session `{session}` were interrupted, and could not be taken back: {}; {} \
                 tells what was there",
                left.join("; "),
                kept.display()
            ))
        }
    }
}

/// Takes steps back, the last one first, as far as that goes; and what could not be taken back.
pub(super) fn take_back(steps: &[ChangeStep], images: &BeforeImages) -> Vec<String> {
    steps.iter().rev().filter_map(|step| step.take_back(images).err()).map(|error| error.to_string()).collect()
}
