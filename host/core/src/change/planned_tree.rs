use std::{
    collections::HashMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ChangeError, FileChange, FileChangeAction,
    change_path::{ChangePath, FinalLinkPolicy, ResolvedChangePath},
    diff::{self, FileDiff},
    display::{holding, listed},
    fingerprint::{FingerprintBudget, FingerprintNode, PathFingerprint, state_within},
    folder::{FolderHandle, open_file},
    planned_change::{PlannedAction, PlannedChange},
    protected_files::ProtectedFiles,
    unsaved_text::UnsavedText,
};
use crate::limits;

/// The content of a file after the changes.
#[derive(Clone)]
enum PlannedContent {
    This(Arc<[u8]>),
    /// The present content of this path on disk.
    As(ResolvedChangePath),
    Nothing,
}

/// The state of the tree after the changes so far.
#[derive(Default)]
pub(super) struct PlannedTree {
    /// The paths that differ from the disk, and their contents.
    changed: HashMap<PathBuf, (PathFingerprint, PlannedContent)>,
    /// All paths that changes name, in order, and whether a folder is created there.
    named: Vec<(ResolvedChangePath, bool)>,
    /// The remaining budget for examined entries.
    left: FingerprintBudget,
    /// The bytes of previous contents held in memory.
    held_bytes: u64,
    /// The bytes compared so far.
    compared: usize,
}

impl PlannedTree {
    /// Creates the tree of the disk with these texts of an editor over it.
    pub fn over(unsaved: &[UnsavedText]) -> Self {
        let mut tree = Self::default();
        for UnsavedText { at, mode, text, .. } in unsaved {
            let content = PlannedContent::This(text.as_bytes().into());
            tree.set(at, PathFingerprint::of_file(text.as_bytes(), *mode), content);
        }
        tree
    }

    /// Plans a change and applies it to the tree.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if the change cannot be made.
    pub fn item(&mut self, change: &FileChange, guarded: &ProtectedFiles) -> Result<PlannedChange, ChangeError> {
        let last = if matches!(change.act, FileChangeAction::Write(_)) {
            FinalLinkPolicy::Follow
        } else {
            FinalLinkPolicy::Keep
        };
        let at = change.path.resolve(last)?;
        self.name(&at, matches!(change.act, FileChangeAction::MakeFolder))?;
        let before = self.state(&at)?;
        self.check(change, &at, &before)?;
        let shown = at.shown.clone();
        let content = match (&before, &change.act) {
            (PathFingerprint::There(FingerprintNode::File { bytes, .. }), FileChangeAction::Write(_)) => {
                Some(self.content(&at, &before, *bytes)?)
            }
            // The content of a removed file is only needed for the diff.
            (PathFingerprint::There(FingerprintNode::File { bytes, .. }), FileChangeAction::Remove)
                if *bytes <= limits::DIFF_BYTES as u64 =>
            {
                self.content(&at, &before, *bytes).ok()
            }
            _ => None,
        };
        let sentence = |what: String| FileDiff { text: format!("{shown}: {what}\n"), lines: None };
        let (does, difference) = match &change.act {
            FileChangeAction::Write(new) => {
                let difference = self.compared(&shown, content.as_deref(), Some(new));
                let mode = before.mode_of_new_content();
                self.set(&at, PathFingerprint::of_file(new, mode), PlannedContent::This(Arc::clone(new)));
                (PlannedAction::Write(Arc::clone(new)), difference)
            }
            FileChangeAction::Remove => {
                let difference = match (&before, &content) {
                    (PathFingerprint::There(FingerprintNode::File { .. }), Some(old)) => {
                        self.compared(&shown, Some(old), None)
                    }
                    (PathFingerprint::There(node), _) => sentence(format!("removed: {}", listed(node))),
                    (PathFingerprint::Nothing, _) => sentence("does not exist".into()),
                };
                self.set(&at, PathFingerprint::Nothing, PlannedContent::Nothing);
                (PlannedAction::Remove, difference)
            }
            FileChangeAction::MoveTo(to) => {
                let to = self.empty(to, &at)?;
                let held = self.held(&at);
                self.set(&at, PathFingerprint::Nothing, PlannedContent::Nothing);
                self.set(&to, before.clone(), held);
                let difference = sentence(format!("moved to {}{}", to.shown, holding(&before)));
                (PlannedAction::Move(to), difference)
            }
            FileChangeAction::CopyTo(to) => {
                let target = self.empty(to, &at)?;
                let copy = copied(&at, &before, to.folder());
                if copy.is_nothing() {
                    return Err(ChangeError::Outside { shown: at.shown });
                }
                self.set(&target, copy.clone(), self.held(&at));
                let difference = sentence(format!("copied to {}{}", target.shown, holding(&copy)));
                (PlannedAction::Copy(target, copy), difference)
            }
            FileChangeAction::MakeFolder => {
                self.set(
                    &at,
                    PathFingerprint::There(FingerprintNode::Folder { mode: 0o700, entries: Vec::new() }),
                    PlannedContent::Nothing,
                );
                (PlannedAction::MakeFolder, sentence("new empty folder".into()))
            }
        };
        let item = PlannedChange { at, before, content, does, difference };
        let forbidden = item.touched().iter().any(|(path, _)| guarded.forbids(path));
        let above =
            matches!(item.does, PlannedAction::Remove | PlannedAction::Move(_)) && guarded.is_below(&item.at.real);
        let behind = match &item.does {
            PlannedAction::Move(to) | PlannedAction::Copy(to, _) => {
                matches!(item.before, PathFingerprint::There(FingerprintNode::Link { .. }))
                    && guarded.is_behind(&to.real)
            }
            PlannedAction::Write(_) | PlannedAction::Remove | PlannedAction::MakeFolder => false,
        };
        match forbidden || above || behind {
            true => Err(ChangeError::Protected { shown: item.at.shown }),
            false => Ok(item),
        }
    }

    /// Checks that the path has the state from which the change was made.
    fn check(&self, change: &FileChange, at: &ResolvedChangePath, before: &PathFingerprint) -> Result<(), ChangeError> {
        let shown = || at.shown.clone();
        if let FileChangeAction::Write(content) = &change.act
            && content.len() > limits::CHANGED_FILE_BYTES
        {
            let (what, most) = (format!("{} bytes", content.len()), limits::CHANGED_FILE_BYTES.to_string());
            return Err(ChangeError::TooLarge { shown: shown(), what, most });
        }
        match (&change.act, before, change.expected) {
            (FileChangeAction::Write(_) | FileChangeAction::MakeFolder, PathFingerprint::Nothing, None) => Ok(()),
            (
                FileChangeAction::Write(_),
                PathFingerprint::There(node @ (FingerprintNode::Folder { .. } | FingerprintNode::Link { .. })),
                _,
            ) => Err(ChangeError::WrongKind { shown: shown(), is: node.kind(), wanted: "a file" }),
            (FileChangeAction::Write(_), PathFingerprint::There(FingerprintNode::File { .. }), None)
            | (FileChangeAction::MakeFolder, PathFingerprint::There(_), _) => {
                Err(ChangeError::Exists { shown: shown() })
            }
            (_, PathFingerprint::Nothing, Some(_)) => Err(ChangeError::Stale { shown: shown() }),
            (_, PathFingerprint::Nothing, None) => Err(ChangeError::NotThere { shown: shown() }),
            (_, PathFingerprint::There(FingerprintNode::File { digest, .. }), Some(expected))
                if *digest != expected =>
            {
                Err(ChangeError::Stale { shown: shown() })
            }
            (
                _,
                PathFingerprint::There(node @ (FingerprintNode::Folder { .. } | FingerprintNode::Link { .. })),
                Some(_),
            ) => {
                Err(ChangeError::WrongKind { shown: shown(), is: node.kind(), wanted: "a file whose digest is known" })
            }
            (_, PathFingerprint::There(_), _) => Ok(()),
        }
    }

    /// Records a path that a change names. No path may lie in another one, except in created folders.
    fn name(&mut self, at: &ResolvedChangePath, is_made: bool) -> Result<(), ChangeError> {
        let nested = |(other, other_is_made): &&(ResolvedChangePath, bool)| {
            let below = at.real.starts_with(&other.real);
            let is_same = at.real == other.real;
            !is_same && (below && !other_is_made || other.real.starts_with(&at.real))
        };
        if let Some((other, _)) = self.named.iter().find(nested) {
            return Err(ChangeError::Nested { one: other.shown.clone(), two: at.shown.clone() });
        }
        self.named.push((at.clone(), is_made));
        Ok(())
    }

    /// Resolves the target of a move or copy, which must not exist.
    fn empty(&mut self, to: &ChangePath, from: &ResolvedChangePath) -> Result<ResolvedChangePath, ChangeError> {
        let to = to.resolve(FinalLinkPolicy::Keep)?;
        if to.real == from.real {
            return Err(ChangeError::Exists { shown: to.shown });
        }
        self.name(&to, false)?;
        match self.state(&to)? {
            PathFingerprint::Nothing => Ok(to),
            PathFingerprint::There(_) => Err(ChangeError::Exists { shown: to.shown }),
        }
    }

    fn state(&mut self, at: &ResolvedChangePath) -> Result<PathFingerprint, ChangeError> {
        match self.changed.get(&at.real) {
            Some((state, _)) => Ok(state.clone()),
            None => state_within(at, &mut self.left),
        }
    }

    /// Computes the diff of a file, unless the comparison budget is exhausted.
    fn compared(&mut self, shown: &str, before: Option<&[u8]>, after: Option<&[u8]>) -> FileDiff {
        let bytes = [before, after].into_iter().flatten().map(<[u8]>::len).sum::<usize>();
        self.compared = self.compared.saturating_add(bytes);
        match self.compared > limits::DIFFS_BYTES {
            true => {
                FileDiff { text: format!("{shown}: not compared, the changes together are too large\n"), lines: None }
            }
            false => diff::between(shown, before, after),
        }
    }

    fn set(&mut self, at: &ResolvedChangePath, state: PathFingerprint, held: PlannedContent) {
        self.changed.insert(at.real.clone(), (state, held));
    }

    fn held(&self, at: &ResolvedChangePath) -> PlannedContent {
        self.changed.get(&at.real).map_or_else(|| PlannedContent::As(at.clone()), |(_, held)| held.clone())
    }

    /// Reads the content of a file with `bytes` bytes and verifies it against `state`.
    fn content(
        &mut self,
        at: &ResolvedChangePath,
        state: &PathFingerprint,
        bytes: u64,
    ) -> Result<Arc<[u8]>, ChangeError> {
        if self.held_bytes.saturating_add(bytes) > limits::CHANGE_UNDO_BYTES {
            let (what, most) = (
                format!("{} bytes together with other files", self.held_bytes + bytes),
                limits::CHANGE_UNDO_BYTES.to_string(),
            );
            return Err(ChangeError::TooLarge { shown: at.shown.clone(), what, most });
        }
        self.held_bytes += bytes;
        let unreadable = ChangeError::io(&at.shown, "read");
        let source = match self.held(at) {
            PlannedContent::This(content) => return Ok(content),
            PlannedContent::As(source) => source,
            PlannedContent::Nothing => return Err(ChangeError::NotThere { shown: at.shown.clone() }),
        };
        let (folder, name) = source.parts().map_err(&unreadable)?;
        let file = FolderHandle::open(folder).and_then(|folder| open_file(&folder.at(name))).map_err(&unreadable)?;
        let mut content = Vec::new();
        file.take(limits::CHANGE_UNDO_BYTES + 1).read_to_end(&mut content).map_err(&unreadable)?;
        match PathFingerprint::of_file(&content, 0) == *state {
            true => Ok(content.into()),
            false => Err(ChangeError::Stale { shown: at.shown.clone() }),
        }
    }
}

/// Returns the fingerprint of a copy: links that lead out of the folder are omitted.
fn copied(at: &ResolvedChangePath, state: &PathFingerprint, folder: &Path) -> PathFingerprint {
    fn node(path: &Path, there: &FingerprintNode, folder: &Path) -> Option<FingerprintNode> {
        match there {
            FingerprintNode::File { .. } => Some(there.clone()),
            FingerprintNode::Link { .. } => {
                fs::canonicalize(path).is_ok_and(|to| to.starts_with(folder)).then(|| there.clone())
            }
            FingerprintNode::Folder { mode, entries } => {
                let entries = entries
                    .iter()
                    .filter_map(|(name, entry)| Some((name.clone(), node(&path.join(name), entry, folder)?)));
                Some(FingerprintNode::Folder { mode: *mode, entries: entries.collect() })
            }
        }
    }
    match state {
        PathFingerprint::Nothing => PathFingerprint::Nothing,
        PathFingerprint::There(there) => {
            node(&at.real, there, folder).map_or(PathFingerprint::Nothing, PathFingerprint::There)
        }
    }
}
