//! Texts of an editor that are not saved, and proposals that are made over them.

use std::{io::Read, path::Path};

use super::{
    ChangeError, ChangePath, EditorBuffersError, FileChange, FileChangeAction,
    change_path::{FinalLinkPolicy, ResolvedChangePath},
    diff,
    fingerprint::{FingerprintNode, PathFingerprint, state},
    folder::{FolderHandle, open_file},
    line_merge::merged_lines,
};
use crate::{digest::Sha256Digest, limits};

/// The text of a file on the disk.
#[derive(Debug)]
pub struct SavedText {
    at: ResolvedChangePath,
    mode: u32,
    text: String,
    /// The position of the change that names the file.
    change: usize,
}

/// The text of a file in an editor, where it differs from the disk.
#[derive(Debug, Clone)]
pub struct UnsavedText {
    pub(super) at: ResolvedChangePath,
    /// The mode of the file on the disk.
    pub(super) mode: u32,
    pub(super) text: String,
    saved: String,
    change: usize,
}

impl SavedText {
    /// Reads the text of a file; `None` if there is no text file of at most [`limits::CHANGED_FILE_BYTES`]. Blocks.
    pub fn read(path: &ChangePath) -> Option<Self> {
        Self::read_for(path, FinalLinkPolicy::Follow, 0)
    }

    /// Reads the texts of the files that changes name. Blocks.
    ///
    /// # Errors
    ///
    /// [`ChangeError::TooLarge`] if they have more than [`limits::CHANGE_UNDO_BYTES`] together.
    pub fn of_changes(changes: &[FileChange]) -> Result<Vec<Self>, ChangeError> {
        let (mut texts, mut bytes) = (Vec::new(), 0);
        for (at, change) in changes.iter().enumerate() {
            let last = match &change.act {
                FileChangeAction::Write(_) => FinalLinkPolicy::Follow,
                _ => FinalLinkPolicy::Keep,
            };
            let Some(text) = Self::read_for(&change.path, last, at) else { continue };
            bytes += text.text.len() as u64;
            if bytes > limits::CHANGE_UNDO_BYTES {
                let (shown, most) = (text.at.shown, limits::CHANGE_UNDO_BYTES.to_string());
                return Err(ChangeError::TooLarge {
                    shown,
                    what: format!("{bytes} bytes together with other files"),
                    most,
                });
            }
            texts.push(text);
        }
        Ok(texts)
    }

    fn read_for(path: &ChangePath, last: FinalLinkPolicy, change: usize) -> Option<Self> {
        let at = path.resolve(last).ok()?;
        let PathFingerprint::There(FingerprintNode::File { digest, bytes, mode }) = state(&at).ok()? else {
            return None;
        };
        let most = limits::CHANGED_FILE_BYTES as u64;
        if bytes > most {
            return None;
        }
        let (folder, name) = at.parts().ok()?;
        let file = FolderHandle::open(folder).and_then(|folder| open_file(&folder.at(name))).ok()?;
        let mut content = Vec::new();
        file.take(most).read_to_end(&mut content).ok()?;
        let text = String::from_utf8(content).ok()?;
        (Sha256Digest::of(&text) == digest).then_some(Self { at, mode, text, change })
    }

    /// Returns the absolute path of the file, without links.
    pub fn path(&self) -> &Path {
        &self.at.real
    }

    /// Returns the path as the tool names it.
    pub fn shown(&self) -> &str {
        &self.at.shown
    }

    /// Returns the error of a change of this file for which the editor was of no help.
    pub fn editor_error(&self, error: &EditorBuffersError) -> ChangeError {
        editor_error(&self.at, error)
    }

    /// Compares the text with that of an editor; `None` if they are the same apart from the ends of lines, which editors
    /// may keep in another form.
    ///
    /// # Errors
    ///
    /// [`ChangeError::TooLarge`] if the editor's text has more than [`limits::CHANGED_FILE_BYTES`].
    pub fn unsaved(self, text: String) -> Result<Option<UnsavedText>, ChangeError> {
        let Self { at, mode, text: saved, change } = self;
        if text.len() > limits::CHANGED_FILE_BYTES {
            let (what, most) = (format!("{} bytes in the editor", text.len()), limits::CHANGED_FILE_BYTES.to_string());
            return Err(ChangeError::TooLarge { shown: at.shown, what, most });
        }
        if plain(&saved) == plain(&text) {
            return Ok(None);
        }
        let text = with_ends_of(&saved, text);
        Ok(Some(UnsavedText { at, mode, text, saved, change }))
    }
}

impl UnsavedText {
    /// Returns the absolute path of the file, without links.
    pub fn path(&self) -> &Path {
        &self.at.real
    }

    /// Returns the path as the tool names it.
    pub fn shown(&self) -> &str {
        &self.at.shown
    }

    /// Returns the text as it is to be saved.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the editor still has this text.
    pub fn is_still(&self, text: Option<&str>) -> bool {
        text.is_some_and(|text| plain(text) == plain(&self.text))
    }

    /// Returns the difference from the text on the disk.
    pub fn difference(&self) -> String {
        diff::between(&self.at.shown, Some(self.saved.as_bytes()), Some(self.text.as_bytes())).text
    }

    /// Returns the error of a change that the person's edits forbid.
    pub fn stale(&self) -> ChangeError {
        ChangeError::Stale { shown: self.at.shown.clone() }
    }

    /// Returns the error of a change for which the editor was of no help.
    pub fn editor_error(&self, error: &EditorBuffersError) -> ChangeError {
        editor_error(&self.at, error)
    }

    /// Rebases proposals that were made from the disk onto these texts, so that the person's unsaved edits stay.
    ///
    /// # Errors
    ///
    /// [`ChangeError::UnsavedLines`] if a proposal changes lines that the person has edited, [`ChangeError::Unsaved`] if
    /// it does something else with the file than to write a text.
    pub fn rebase(texts: &[Self], changes: &mut [FileChange]) -> Result<(), ChangeError> {
        for text in texts {
            let shown = || text.at.shown.clone();
            let is_named_again = texts.iter().filter(|other| other.at.real == text.at.real).count() > 1;
            let Some(change) = changes.get_mut(text.change) else { continue };
            let new = match &change.act {
                FileChangeAction::Write(new) if !is_named_again => str::from_utf8(new).ok(),
                _ => None,
            };
            let Some(new) = new else { return Err(ChangeError::Unsaved { shown: shown() }) };
            if change.expected != Some(Sha256Digest::of(&text.saved)) {
                // It was made from another state, which the plan refuses.
                continue;
            }
            let merged = merged_lines(&text.saved, &text.text, new);
            let merged = merged.ok_or_else(|| ChangeError::UnsavedLines { shown: shown() })?;
            change.expected = Some(Sha256Digest::of(&text.text));
            change.act = FileChangeAction::Write(merged.into_bytes().into());
        }
        Ok(())
    }
}

fn editor_error(at: &ResolvedChangePath, error: &EditorBuffersError) -> ChangeError {
    ChangeError::Editor { shown: at.shown.clone(), reason: error.to_string() }
}

/// Returns a text without the marks and ends that an editor may keep in another form.
fn plain(text: &str) -> String {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
}

/// Gives a text of an editor the ends of lines that the file has on the disk.
fn with_ends_of(saved: &str, mut text: String) -> String {
    let end = if saved.contains("\r\n") { "\r\n" } else { "\n" };
    if end == "\r\n" && !text.contains('\r') {
        text = text.replace('\n', end);
    }
    if saved.starts_with('\u{feff}') && !text.starts_with('\u{feff}') {
        text.insert(0, '\u{feff}');
    }
    if saved.ends_with('\n') && !text.is_empty() && !text.ends_with('\n') {
        text.push_str(end);
    }
    text
}
