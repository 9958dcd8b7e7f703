use std::{fmt::Display, sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::editor_files::{blocking, text_in};
use crate::{
    change::{ChangeApplier, ChangePath, EditorBuffersError, SavedText, UnsavedText},
    chat::{ToolCall, ToolResultContent},
    error::{Fault, cut},
    limits,
    tool::{Tool, ToolCx, ToolOutput, WrappedTool},
};

/// The arguments of tools that name a file.
const PATHS: [&str; 6] = ["path", "file_path", "file", "source", "file_a", "file_b"];

/// Returns the files that a path in a tool's arguments may mean: only those that the tool can reach.
pub type ToolPathResolver = Arc<dyn Fn(&str) -> Vec<ChangePath> + Send + Sync>;

/// A tool that reads files of the disk, some of which the person may have open in an editor: its result says what the
/// person has not saved of those that its arguments name. A reading of a file whose text in the editor is unknown fails.
pub struct UnsavedNotes {
    tool: Arc<dyn Tool>,
    changes: ChangeApplier,
    resolve: ToolPathResolver,
}

/// The person's edits of the files of one call.
#[derive(Default)]
struct UnsavedEdits {
    /// A text about each file that has edits.
    notes: Vec<String>,
    /// A sentence about each file of which the editor may have edits that could not be read.
    unknown: Vec<String>,
}

impl UnsavedNotes {
    /// Wraps a tool. The editor is that of `changes`, and is asked only about files that `resolve` returns.
    pub fn new(tool: Arc<dyn Tool>, changes: ChangeApplier, resolve: ToolPathResolver) -> Self {
        Self { tool, changes, resolve }
    }

    /// Returns what the person has not saved of the files that the arguments name.
    async fn edits(&self, call: &ToolCall) -> UnsavedEdits {
        let mut edits = UnsavedEdits::default();
        let Some(editor) = self.changes.editor() else { return edits };
        let Ok(arguments) = serde_json::from_str::<Value>(&call.arguments) else { return edits };
        let named = PATHS.iter().filter_map(|name| arguments.get(name)?.as_str());
        let paths: Vec<_> = named.flat_map(|path| (self.resolve)(path)).collect();
        let saved = blocking(move || Ok(paths.iter().filter_map(SavedText::read).collect::<Vec<_>>())).await;
        let until = Instant::now() + limits::EDITOR_TIME;
        for saved in saved.unwrap_or_default() {
            let (path, shown) = (saved.path().to_owned(), saved.shown().to_owned());
            let read = timeout_at(until, text_in(&*editor, &path)).await;
            match read.unwrap_or(Err(EditorBuffersError::Silent)) {
                Ok(None) => {}
                Ok(Some(text)) => match saved.unsaved(text) {
                    Ok(unsaved) => edits.notes.extend(unsaved.as_ref().map(note_of)),
                    Err(error) => edits.unknown.push(unread_note(&shown, &error)),
                },
                Err(error) => edits.unknown.push(unread_note(&shown, &error)),
            }
        }
        edits
    }
}

fn unread_note(shown: &str, why: &dyn Display) -> String {
    format!("`{shown}` may have unsaved changes in the person's editor, which could not be read: {why}")
}

fn note_of(text: &UnsavedText) -> String {
    let difference = cut(&text.difference(), limits::DIFF_CHARS);
    format!(
        "The person has unsaved changes of `{}` in the editor, which this result lacks. Changes of other lines can be \
         proposed as usual, and keep them. The unsaved changes:\n{difference}",
        text.shown()
    )
}

#[async_trait]
impl WrappedTool for UnsavedNotes {
    fn inner(&self) -> &dyn Tool {
        &*self.tool
    }

    /// The tool's own limit, followed by [`limits::EDITOR_TIME`].
    fn time_limit(&self) -> Duration {
        self.tool.time_limit() + limits::EDITOR_TIME
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let outcome = self.tool.call(cx, call).await;
        if matches!(outcome, Ok(ToolOutput::Propose(_) | ToolOutput::Needs(_) | ToolOutput::Control(..))) {
            return outcome;
        }
        let UnsavedEdits { mut notes, unknown } = self.edits(call).await;
        // A model that read the disk's text would change what the person no longer sees. What another tool has done stays
        // done, so that its result stays.
        if !unknown.is_empty() && self.tool.spec().hints.read_only && matches!(outcome, Ok(ToolOutput::Reply(_))) {
            let what =
                "The text on the disk may be older and is not shown; try again, or ask the person to save the file";
            let failed = format!("{}\n{what}", unknown.join("\n"));
            return Ok(ToolOutput::Failed(vec![ToolResultContent::Text(failed)]));
        }
        notes.extend(unknown);
        if notes.is_empty() {
            return outcome;
        }
        let note = notes.join("\n");
        // First, since the end of a long result is cut.
        let with_note = |mut content: Vec<ToolResultContent>| {
            content.insert(0, ToolResultContent::Text(note.clone()));
            content
        };
        match outcome {
            Ok(ToolOutput::Reply(content)) => Ok(ToolOutput::Reply(with_note(content))),
            Ok(ToolOutput::Failed(content)) => Ok(ToolOutput::Failed(with_note(content))),
            Err(Fault::Invalid { message }) => Err(Fault::Invalid { message: format!("{message}\n\n{note}") }),
            Err(Fault::NotFound { message }) => Err(Fault::NotFound { message: format!("{message}\n\n{note}") }),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
