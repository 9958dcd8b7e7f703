use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ChangeSummary,
    change_path::ResolvedChangePath,
    diff::FileDiff,
    display::ends,
    fingerprint::{FingerprintNode, PathFingerprint},
    protected_files::{ProtectedFiles, is_program},
};
use crate::{
    event::{FileChangeKind, FileDifference},
    limits,
};

/// One planned change.
#[derive(Debug)]
pub(super) struct PlannedChange {
    pub at: ResolvedChangePath,
    pub before: PathFingerprint,
    /// The previous content of the file, if it is overwritten.
    pub content: Option<Arc<[u8]>>,
    pub does: PlannedAction,
    pub difference: FileDiff,
}

#[derive(Debug)]
pub(super) enum PlannedAction {
    Write(Arc<[u8]>),
    Remove,
    Move(ResolvedChangePath),
    /// The target and the fingerprint of the copy, without links that lead out of the folder.
    Copy(ResolvedChangePath, PathFingerprint),
    MakeFolder,
}

impl PlannedChange {
    /// Returns the summary of the change.
    pub fn summary(&self) -> ChangeSummary {
        let act = match &self.does {
            PlannedAction::Write(_) if self.before.is_nothing() => FileChangeKind::Create,
            PlannedAction::Write(_) => FileChangeKind::Edit,
            PlannedAction::Remove => FileChangeKind::Remove,
            PlannedAction::Move(_) => FileChangeKind::Move,
            PlannedAction::Copy(..) => FileChangeKind::Copy,
            PlannedAction::MakeFolder => FileChangeKind::MakeFolder,
        };
        let to = match &self.does {
            PlannedAction::Move(to) | PlannedAction::Copy(to, _) => Some(to.shown.clone()),
            PlannedAction::Write(_) | PlannedAction::Remove | PlannedAction::MakeFolder => None,
        };
        ChangeSummary { act, path: self.at.shown.clone(), to, lines: self.difference.lines }
    }

    /// Returns the compared texts, with the path at which the result of the change is.
    pub fn compared(&self) -> FileDifference {
        let at = match &self.does {
            PlannedAction::Move(to) | PlannedAction::Copy(to, _) => to,
            PlannedAction::Write(_) | PlannedAction::Remove | PlannedAction::MakeFolder => &self.at,
        };
        FileDifference { path: at.real.clone(), text: self.difference.text.clone() }
    }

    /// Iterates over the paths that the change names.
    pub fn spots(&self) -> impl Iterator<Item = &ResolvedChangePath> {
        let to = match &self.does {
            PlannedAction::Move(to) | PlannedAction::Copy(to, _) => Some(to),
            PlannedAction::Write(_) | PlannedAction::Remove | PlannedAction::MakeFolder => None,
        };
        [&self.at].into_iter().chain(to)
    }

    /// Returns the bytes that must be kept for an undo.
    pub fn kept_bytes(&self) -> u64 {
        match (&self.does, &self.before) {
            (PlannedAction::Write(_) | PlannedAction::Remove, PathFingerprint::There(node)) => node.bytes(),
            _ => 0,
        }
    }

    /// Returns all paths that the change affects, with their descendants and file modes.
    pub fn touched(&self) -> Vec<(PathBuf, Option<u32>)> {
        let below = |root: &Path, state: &PathFingerprint| {
            let PathFingerprint::There(node) = state else { return vec![(root.to_owned(), None)] };
            let path = |below: &str| if below.is_empty() { root.to_owned() } else { root.join(below) };
            let mode =
                |node: &FingerprintNode| if let FingerprintNode::File { mode, .. } = node { Some(*mode) } else { None };
            node.walk().into_iter().map(|(at, node)| (path(&at), mode(node))).collect()
        };
        match &self.does {
            PlannedAction::Write(_) | PlannedAction::Remove | PlannedAction::MakeFolder => {
                below(&self.at.real, &self.before)
            }
            PlannedAction::Move(to) => [below(&self.at.real, &self.before), below(&to.real, &self.before)].concat(),
            PlannedAction::Copy(to, copy) => below(&to.real, copy),
        }
    }

    pub fn cautions(&self, guarded: &ProtectedFiles) -> Vec<String> {
        let shown = |path: &Path| {
            let below = path.strip_prefix(&self.at.real).ok().filter(|below| !below.as_os_str().is_empty());
            below.map_or(self.at.shown.clone(), |below| {
                format!("{}/{}", self.at.shown, below.to_string_lossy().escape_debug())
            })
        };
        let shown = |path: &Path| ends(&shown(path));
        let mut cautions: Vec<_> = self
            .touched()
            .iter()
            .filter_map(|(path, _)| guarded.caution(path).map(|why| format!("{}: {why}", shown(path))))
            .take(limits::CHANGES_SHOWN)
            .collect();
        // Overwriting an executable replaces what others run, and a new program is executable wherever it is.
        let can_be_run = |mode: &u32| mode & 0o111 != 0;
        let is_one = match (&self.does, &self.before) {
            (PlannedAction::Write(content), PathFingerprint::There(FingerprintNode::File { mode, .. })) => {
                can_be_run(mode) || is_program(content)
            }
            (PlannedAction::Write(content), _) => is_program(content),
            (PlannedAction::Move(_) | PlannedAction::Copy(..), _) => {
                self.touched().iter().any(|(_, mode)| mode.as_ref().is_some_and(can_be_run))
            }
            (PlannedAction::Remove | PlannedAction::MakeFolder, _) => false,
        };
        if is_one {
            cautions.push(format!("{}: a program", ends(&self.at.shown)));
        }
        // The permissions of its folder allow the replacement anyway.
        if let (
            PlannedAction::Write(_) | PlannedAction::Remove,
            PathFingerprint::There(FingerprintNode::File { mode, .. }),
        ) = (&self.does, &self.before)
            && mode & 0o222 == 0
        {
            cautions.push(format!("{}: read-only", ends(&self.at.shown)));
        }
        cautions
    }
}
