//! Proposed changes, compared with the present files, and their description for people.

use std::{
    collections::HashMap,
    fmt::Write,
    fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    ChangeError, FileChange, FileChangeAction,
    change_path::{ChangePath, FinalLinkPolicy, ResolvedChangePath},
    diff::{self, FileDiff},
    fingerprint::{FingerprintBudget, FingerprintNode, PathFingerprint, state_within},
    folder::{FolderHandle, open_file},
    protected_files::{ProtectedFiles, is_program},
};
use crate::{digest::Sha256Digest, error::legible, limits};

/// Changes that can be applied, with their description for a person.
#[derive(Debug)]
pub struct ChangePlan {
    pub(super) items: Vec<PlannedChange>,
    /// The reason for which it cannot be undone; `None` if it can.
    no_undo: Option<String>,
    /// Warnings for the person.
    cautions: Vec<String>,
}

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

/// A summary of the change of one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeSummary {
    /// `create`, `edit`, `remove`, `move`, `copy` or `make-folder`.
    pub act: &'static str,
    /// The path as the proposing tool names it.
    pub path: String,
    /// The destination of a move or copy.
    pub to: Option<String>,
    /// The numbers of added and removed lines, for a text file.
    pub lines: Option<(usize, usize)>,
}

impl ChangeSummary {
    /// Formats the change on one line in the past tense.
    pub fn done(&self) -> String {
        let word = match self.act {
            "create" => "created",
            "edit" => "changed",
            "remove" => "removed",
            "move" => "moved",
            "copy" => "copied",
            _ => "made the folder",
        };
        self.line(word)
    }

    /// Formats the change on one line in the imperative.
    pub fn wanted(&self) -> String {
        self.line(if self.act == "make-folder" { "make the folder" } else { self.act })
    }

    fn line(&self, word: &str) -> String {
        let to = self.to.as_ref().map_or(String::new(), |to| format!(" to {to}"));
        let lines = self.lines.map_or(String::new(), |(more, less)| format!(" (+{more} -{less})"));
        format!("{word} {}{to}{lines}", self.path)
    }
}

impl ChangePlan {
    /// Compares proposed changes in order with the present files. Blocks while it reads them.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if one of the changes cannot be made.
    pub(super) fn of(
        changes: &[FileChange],
        guarded: &ProtectedFiles,
        no_undo: Option<&str>,
    ) -> Result<Self, ChangeError> {
        if changes.len() > limits::CHANGES_PER_RESULT {
            return Err(ChangeError::TooMany { count: changes.len() });
        }
        let mut view = PlannedTree::default();
        let items = changes.iter().map(|change| view.item(change, guarded)).collect::<Result<Vec<_>, _>>()?;
        let mut cautions: Vec<_> = items.iter().flat_map(|item| item.cautions(guarded)).collect();
        cautions.dedup();
        let kept: u64 = items.iter().map(PlannedChange::kept_bytes).sum();
        let too_much = (kept > limits::CHANGE_UNDO_BYTES)
            .then(|| format!("{kept} bytes would have to be kept for that, more than {}", limits::CHANGE_UNDO_BYTES));
        Ok(Self { items, no_undo: no_undo.map(str::to_owned).or(too_much), cautions })
    }

    /// Returns the summary of each change, in order.
    pub fn told(&self) -> impl Iterator<Item = ChangeSummary> {
        self.items.iter().map(PlannedChange::told)
    }

    /// Returns `true` if it can be undone and has no warnings.
    pub fn is_plain(&self) -> bool {
        self.no_undo.is_none() && self.cautions.is_empty()
    }

    /// Returns `true` if it has warnings, such as for files that programs read or execute on their own.
    pub fn is_remarkable(&self) -> bool {
        !self.cautions.is_empty()
    }

    /// Returns the reason for which it cannot be undone; `None` if it can.
    pub fn no_undo(&self) -> Option<&str> {
        self.no_undo.as_deref()
    }

    /// Returns a digest of the present and the planned state, which identifies the plan.
    pub fn digest(&self) -> Sha256Digest {
        let becomes = |item: &PlannedChange| match &item.does {
            PlannedAction::Write(content) => Sha256Digest::of(content).hex(),
            PlannedAction::Move(to) => format!("{:?}", to.real),
            PlannedAction::Copy(to, copy) => format!("{:?} {copy:?}", to.real),
            PlannedAction::Remove | PlannedAction::MakeFolder => String::new(),
        };
        let one = |item: &PlannedChange| {
            format!("{} {:?} {:?} {}\n", item.told().act, item.at.real, item.before, becomes(item))
        };
        Sha256Digest::of(self.items.iter().map(one).collect::<String>())
    }

    /// Returns the files whose complete new content a person sees in the shown plan; empty if any part of the plan is
    /// omitted.
    pub fn files_shown_whole(&self) -> Vec<PathBuf> {
        let texts = || self.items.iter().map(|item| &*item.difference.text);
        let is_short = texts().flat_map(str::lines).all(|line| line.chars().count() <= limits::DIFF_LINE_CHARS);
        let chars: usize = texts().map(|text| text.chars().count() + 1).sum();
        let is_whole = is_short
            && chars <= limits::DIFF_CHARS
            && self.items.len() <= limits::CHANGES_SHOWN
            && self.shown().chars().count() <= limits::CHANGE_DETAIL_CHARS;
        let is_new_throughout = |item: &&PlannedChange| match (&item.does, item.difference.lines) {
            (PlannedAction::Write(content), Some((added, _))) => {
                str::from_utf8(content).is_ok_and(|text| text.lines().count() == added)
            }
            _ => false,
        };
        let files = self.items.iter().filter(|_| is_whole).filter(is_new_throughout);
        files.map(|item| item.at.real.clone()).collect()
    }

    /// Returns the description for the approving person: the warnings, whether it can be undone, one line per change, then
    /// as much of the diffs as fits. Paths can be made long on purpose: the warnings come before all of them, and of each
    /// path the beginning and the end are shown.
    pub fn shown(&self) -> String {
        let mut shown = String::new();
        for caution in self.cautions.iter().take(limits::CHANGES_SHOWN) {
            let _ = writeln!(shown, "careful: {caution}");
        }
        if let Some(beyond) = self.cautions.len().checked_sub(limits::CHANGES_SHOWN).filter(|beyond| *beyond > 0) {
            let _ = writeln!(shown, "careful: {beyond} more such");
        }
        if let Some(why) = &self.no_undo {
            let _ = writeln!(shown, "it cannot be undone: {why}");
        }
        for (at, item) in self.items.iter().enumerate() {
            if at == limits::CHANGES_SHOWN {
                let _ = writeln!(shown, "and {} more, which are not shown", self.items.len() - at);
                break;
            }
            let ChangeSummary { act, path, to, lines } = item.told();
            let told = ChangeSummary { act, path: ends(&path), to: to.as_deref().map(ends), lines };
            let _ = writeln!(shown, "{}", told.wanted());
            // Shows where a link leads, or the real path of a folder that the tool sees under another name.
            for spot in item.spots().filter(|spot| !spot.real.ends_with(&spot.shown)) {
                let real = ends(&legible(&spot.real.to_string_lossy()));
                let _ = writeln!(shown, "  {} is {real}", ends(&spot.shown));
            }
        }
        let mut room = limits::DIFF_CHARS;
        'items: for (at, item) in self.items.iter().enumerate() {
            let text = &item.difference.text;
            shown.push('\n');
            let mut lines = text.lines();
            for line in lines.by_ref() {
                // A line may be as long as a file.
                let line = crate::error::cut(line, limits::DIFF_LINE_CHARS);
                match room.checked_sub(line.chars().count() + 1) {
                    Some(left) => room = left,
                    None => {
                        let (more, path) = (lines.count() + 1, ends(&item.at.shown));
                        let _ = writeln!(shown, "[{more} more lines of {path} are not shown]");
                        let rest = self.items[at + 1..].iter().filter(|item| !item.difference.text.is_empty()).count();
                        if rest > 0 {
                            let _ = writeln!(shown, "[what changes in {rest} more is not shown]");
                        }
                        break 'items;
                    }
                }
                shown.push_str(&line);
                shown.push('\n');
            }
        }
        shown
    }
}

impl PlannedChange {
    fn told(&self) -> ChangeSummary {
        let act = match &self.does {
            PlannedAction::Write(_) if self.before.is_nothing() => "create",
            PlannedAction::Write(_) => "edit",
            PlannedAction::Remove => "remove",
            PlannedAction::Move(_) => "move",
            PlannedAction::Copy(..) => "copy",
            PlannedAction::MakeFolder => "make-folder",
        };
        let to = match &self.does {
            PlannedAction::Move(to) | PlannedAction::Copy(to, _) => Some(to.shown.clone()),
            PlannedAction::Write(_) | PlannedAction::Remove | PlannedAction::MakeFolder => None,
        };
        ChangeSummary { act, path: self.at.shown.clone(), to, lines: self.difference.lines }
    }

    /// Iterates over the paths that the change names.
    fn spots(&self) -> impl Iterator<Item = &ResolvedChangePath> {
        let to = match &self.does {
            PlannedAction::Move(to) | PlannedAction::Copy(to, _) => Some(to),
            PlannedAction::Write(_) | PlannedAction::Remove | PlannedAction::MakeFolder => None,
        };
        [&self.at].into_iter().chain(to)
    }

    /// Returns the bytes that must be kept for an undo.
    fn kept_bytes(&self) -> u64 {
        match (&self.does, &self.before) {
            (PlannedAction::Write(_) | PlannedAction::Remove, PathFingerprint::There(node)) => node.bytes(),
            _ => 0,
        }
    }

    /// Returns all paths that the change affects, with their descendants and file modes.
    fn touched(&self) -> Vec<(PathBuf, Option<u32>)> {
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

    fn cautions(&self, guarded: &ProtectedFiles) -> Vec<String> {
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
            cautions.push(format!("{}: it is a program", ends(&self.at.shown)));
        }
        // The permissions of its folder allow the replacement anyway.
        if let (
            PlannedAction::Write(_) | PlannedAction::Remove,
            PathFingerprint::There(FingerprintNode::File { mode, .. }),
        ) = (&self.does, &self.before)
            && mode & 0o222 == 0
        {
            cautions.push(format!("{}: somebody has made it read-only", ends(&self.at.shown)));
        }
        cautions
    }
}

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
struct PlannedTree {
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
    fn item(&mut self, change: &FileChange, guarded: &ProtectedFiles) -> Result<PlannedChange, ChangeError> {
        let last = if matches!(change.act, FileChangeAction::Write(_)) {
            FinalLinkPolicy::Follow
        } else {
            FinalLinkPolicy::Keep
        };
        let at = change.place.resolve(last)?;
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
        let said = |what: String| FileDiff { text: format!("{shown}: {what}\n"), lines: None };
        let (does, difference) = match &change.act {
            FileChangeAction::Write(new) => {
                let difference = self.compared(&shown, content.as_deref(), Some(new));
                let mode =
                    if let PathFingerprint::There(FingerprintNode::File { mode, .. }) = before { mode } else { 0o600 };
                self.set(&at, PathFingerprint::of_file(new, mode), PlannedContent::This(Arc::clone(new)));
                (PlannedAction::Write(Arc::clone(new)), difference)
            }
            FileChangeAction::Remove => {
                let difference = match (&before, &content) {
                    (PathFingerprint::There(FingerprintNode::File { .. }), Some(old)) => {
                        self.compared(&shown, Some(old), None)
                    }
                    (PathFingerprint::There(node), _) => said(format!("it goes: {}", listed(node))),
                    (PathFingerprint::Nothing, _) => said("it is not there".into()),
                };
                self.set(&at, PathFingerprint::Nothing, PlannedContent::Nothing);
                (PlannedAction::Remove, difference)
            }
            FileChangeAction::MoveTo(to) => {
                let to = self.empty(to, &at)?;
                let held = self.held(&at);
                self.set(&at, PathFingerprint::Nothing, PlannedContent::Nothing);
                self.set(&to, before.clone(), held);
                let difference = said(format!("it goes to {}{}", to.shown, holding(&before)));
                (PlannedAction::Move(to), difference)
            }
            FileChangeAction::CopyTo(to) => {
                let target = self.empty(to, &at)?;
                let copy = copied(&at, &before, to.folder());
                if copy.is_nothing() {
                    return Err(ChangeError::Outside { shown: at.shown });
                }
                self.set(&target, copy.clone(), self.held(&at));
                let difference = said(format!("a copy comes to {}{}", target.shown, holding(&copy)));
                (PlannedAction::Copy(target, copy), difference)
            }
            FileChangeAction::MakeFolder => {
                self.set(
                    &at,
                    PathFingerprint::There(FingerprintNode::Folder { mode: 0o700, entries: Vec::new() }),
                    PlannedContent::Nothing,
                );
                (PlannedAction::MakeFolder, said("an empty folder is made".into()))
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
            ) => Err(ChangeError::WrongKind {
                shown: shown(),
                is: node.kind(),
                wanted: "a file, of which a digest is known,",
            }),
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
            true => FileDiff { text: format!("{shown}: not compared, it is too much at once\n"), lines: None },
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
            let (what, most) =
                (format!("with others {} bytes", self.held_bytes + bytes), limits::CHANGE_UNDO_BYTES.to_string());
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

/// Shortens a path to its beginning and its end, if it is long.
fn ends(path: &str) -> String {
    let chars = path.chars().count();
    let half = limits::PATH_SHOWN_CHARS / 2;
    let place = |at: usize| path.char_indices().nth(at).map_or(path.len(), |(place, _)| place);
    match chars > limits::PATH_SHOWN_CHARS {
        true => format!("{}[…]{}", &path[..place(half)], &path[place(chars - half)..]),
        false => path.to_owned(),
    }
}

/// Lists the content of a folder in words, bounded.
fn listed(node: &FingerprintNode) -> String {
    let FingerprintNode::Folder { .. } = node else { return node.kind().into() };
    let all = node.walk();
    let names = all.iter().skip(1).take(limits::CHANGES_SHOWN);
    let names: String = names.map(|(path, _)| format!("\n  {}", ends(&path.escape_debug().to_string()))).collect();
    let beyond = match all.len().checked_sub(limits::CHANGES_SHOWN + 1).filter(|beyond| *beyond > 0) {
        Some(beyond) => format!("\n  and {beyond} more"),
        None => String::new(),
    };
    format!("{}{names}{beyond}", node.holding())
}

fn holding(state: &PathFingerprint) -> String {
    match state {
        PathFingerprint::There(node @ FingerprintNode::Folder { .. }) => format!(", {}", listed(node)),
        PathFingerprint::There(_) | PathFingerprint::Nothing => String::new(),
    }
}
