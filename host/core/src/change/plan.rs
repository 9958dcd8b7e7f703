use std::{fmt::Write, path::PathBuf, sync::Arc};

use super::{
    ChangeError, ChangeSummary, FileChange,
    display::ends,
    planned_change::{PlannedAction, PlannedChange},
    planned_tree::PlannedTree,
    protected_files::ProtectedFiles,
    unsaved_text::UnsavedText,
};
use crate::{digest::Sha256Digest, error::legible, event::FileDifference, limits};

/// Changes that can be applied, with their description for a person.
#[derive(Debug)]
pub struct ChangePlan {
    pub(super) items: Vec<PlannedChange>,
    /// The reason for which it cannot be undone; `None` if it can.
    no_undo: Option<String>,
    /// Warnings for the person.
    cautions: Vec<String>,
}

impl ChangePlan {
    /// Compares proposed changes in order with the present files, over the unsaved texts of an editor. Blocks while it
    /// reads them.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if one of the changes cannot be made.
    pub(super) fn of(
        changes: &[FileChange],
        unsaved: &[UnsavedText],
        guarded: &ProtectedFiles,
        no_undo: Option<&str>,
    ) -> Result<Self, ChangeError> {
        if changes.len() > limits::CHANGES_PER_RESULT {
            return Err(ChangeError::TooMany { count: changes.len() });
        }
        let mut view = PlannedTree::over(unsaved);
        let items = changes.iter().map(|change| view.item(change, guarded)).collect::<Result<Vec<_>, _>>()?;
        let mut cautions: Vec<_> = items.iter().flat_map(|item| item.cautions(guarded)).collect();
        cautions.dedup();
        let saved_too =
            |text: &UnsavedText| format!("{}: your unsaved changes in the editor are saved, too", ends(text.shown()));
        cautions.extend(unsaved.iter().map(saved_too));
        let kept: u64 = items.iter().map(PlannedChange::kept_bytes).sum();
        let too_much = (kept > limits::CHANGE_UNDO_BYTES)
            .then(|| format!("the previous content has {kept} bytes, the maximum is {}", limits::CHANGE_UNDO_BYTES));
        Ok(Self { items, no_undo: no_undo.map(str::to_owned).or(too_much), cautions })
    }

    /// Returns the summary of each change, in order.
    pub fn summaries(&self) -> impl Iterator<Item = ChangeSummary> {
        self.items.iter().map(PlannedChange::summary)
    }

    /// Returns the compared texts of each change, in the order of the summaries.
    pub fn differences(&self) -> impl Iterator<Item = FileDifference> {
        self.items.iter().map(PlannedChange::compared)
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
            format!("{} {:?} {:?} {}\n", item.summary().act, item.at.real, item.before, becomes(item))
        };
        Sha256Digest::of(self.items.iter().map(one).collect::<String>())
    }

    /// Returns the files that are written, and their new contents, in order.
    pub fn written(&self) -> impl Iterator<Item = (PathBuf, Arc<[u8]>)> {
        self.items.iter().filter_map(|item| match &item.does {
            PlannedAction::Write(content) => Some((item.at.real.clone(), Arc::clone(content))),
            _ => None,
        })
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
        self.described(self.no_undo.as_deref())
    }

    /// Returns the same description for a plan that is only shown: nothing is said about undoing it.
    pub fn proposed(&self) -> String {
        self.described(None)
    }

    fn described(&self, no_undo: Option<&str>) -> String {
        let mut shown = String::new();
        for caution in self.cautions.iter().take(limits::CHANGES_SHOWN) {
            let _ = writeln!(shown, "careful: {caution}");
        }
        if let Some(beyond) = self.cautions.len().checked_sub(limits::CHANGES_SHOWN).filter(|beyond| *beyond > 0) {
            let _ = writeln!(shown, "careful: {beyond} more such");
        }
        if let Some(why) = no_undo {
            let _ = writeln!(shown, "cannot be undone: {why}");
        }
        for (at, item) in self.items.iter().enumerate() {
            if at == limits::CHANGES_SHOWN {
                let _ = writeln!(shown, "and {} more changes, which are not shown", self.items.len() - at);
                break;
            }
            let ChangeSummary { act, path, to, lines } = item.summary();
            let summary = ChangeSummary { act, path: ends(&path), to: to.as_deref().map(ends), lines };
            let _ = writeln!(shown, "{}", summary.wanted());
            // Shows where a link leads, or the real path of a folder that the tool sees under another name.
            for spot in item.spots().filter(|spot| !spot.real.ends_with(&spot.shown)) {
                let real = ends(&legible(&spot.real.to_string_lossy()));
                let _ = writeln!(shown, "  {} resolves to {real}", ends(&spot.shown));
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
                            let _ = writeln!(shown, "[the diffs of {rest} more files are not shown]");
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
