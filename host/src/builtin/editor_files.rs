//! Files that the person has open in an editor: proposals over their unsaved texts, and results that lack these texts.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    change::{
        ChangeApplier, ChangeError, ChangePlan, EditorBuffers, EditorBuffersError, FileChange, SavedText, UnsavedText,
    },
    error::Fault,
    files, limits,
};

/// Proposed changes, made from the texts that the person sees.
pub(super) struct EditorProposal {
    pub changes: Vec<FileChange>,
    /// The texts that must be saved before the changes are made.
    pub unsaved: Arc<[UnsavedText]>,
    /// The files of which the editor has a text.
    known: Vec<PathBuf>,
}

impl EditorProposal {
    /// Asks the editor for the texts of the files that the changes name. Without an editor the changes stay as they are.
    pub async fn of(applier: &ChangeApplier, mut changes: Vec<FileChange>) -> Result<Self, Fault> {
        let (mut unsaved, mut known) = (Vec::<UnsavedText>::new(), Vec::new());
        let Some(editor) = applier.editor() else { return Ok(Self { changes, unsaved: unsaved.into(), known }) };
        let named = changes.clone();
        let mut bytes = 0;
        for saved in blocking(move || Ok(SavedText::of_changes(&named)?)).await? {
            let path = saved.path().to_owned();
            let read = text_in(&*editor, &path).await;
            let Some(text) = read.map_err(|error| saved.editor_error(&error))? else { continue };
            if let Some(text) = saved.unsaved(text)? {
                bytes += text.text().len() as u64;
                if bytes > limits::CHANGE_UNDO_BYTES {
                    let (what, most) = (format!("{bytes} bytes together"), limits::CHANGE_UNDO_BYTES.to_string());
                    return Err(ChangeError::TooLarge { shown: text.shown().to_owned(), what, most }.into());
                }
                unsaved.push(text);
            }
            known.push(path);
        }
        UnsavedText::rebase(&unsaved, &mut changes)?;
        Ok(Self { changes, unsaved: unsaved.into(), known })
    }

    /// Has the editor save its texts, if the person has not edited them since.
    pub async fn save(&self, applier: &ChangeApplier) -> Result<(), Fault> {
        let Some(editor) = applier.editor() else { return Ok(()) };
        for text in &*self.unsaved {
            let now = text_in(&*editor, text.path()).await.map_err(|error| text.editor_error(&error))?;
            if !text.is_still(now.as_deref()) {
                return Err(text.stale().into());
            }
            editor.write_text(text.path(), text.text()).await.map_err(|error| text.editor_error(&error))?;
        }
        Ok(())
    }

    /// Gives the editor the new texts of the files that it knows. They are on the disk already: an editor that takes none
    /// reads them from there. Returns a warning if it does not answer.
    pub async fn show(&self, applier: &ChangeApplier, plan: &ChangePlan) -> Option<String> {
        let editor = applier.editor()?;
        let written: Vec<_> = plan.written().filter(|(path, _)| self.known.contains(path)).collect();
        for (path, content) in written {
            let Ok(text) = str::from_utf8(&content) else { continue };
            if !has_no_link(&path).await {
                continue;
            }
            match editor.write_text(&path, text).await {
                Ok(()) => {}
                Err(EditorBuffersError::CannotWrite) => return None,
                Err(error) => {
                    let path = path.display();
                    return Some(format!(
                        "{path} was changed on the disk, but not in the editor: {error}; reload it there"
                    ));
                }
            }
        }
        None
    }
}

/// Asks an editor for the text of a file that was found without a link on its path. The editor follows links, so the text
/// is none if there is one by now: it may lead out of the folders of the tool.
pub(super) async fn text_in(editor: &dyn EditorBuffers, path: &Path) -> Result<Option<String>, EditorBuffersError> {
    let text = editor.read_text(path).await?;
    Ok(if has_no_link(path).await { text } else { None })
}

async fn has_no_link(path: &Path) -> bool {
    let path = path.to_owned();
    blocking(move || Ok(files::resolved(&path) == path)).await.unwrap_or(false)
}

/// Runs a blocking disk operation to its end.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    }
}
