use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use serde_json::Value;
use tokio::time::timeout;

use super::editor_files::{blocking, text_in};
use crate::{
    change::{ChangeApplier, ChangePath, SavedText, UnsavedText},
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
/// person has not saved of those that its arguments name.
pub struct UnsavedNotes {
    tool: Arc<dyn Tool>,
    changes: ChangeApplier,
    resolve: ToolPathResolver,
}

impl UnsavedNotes {
    /// Wraps a tool. The editor is that of `changes`, and is asked only about files that `resolve` returns.
    pub fn new(tool: Arc<dyn Tool>, changes: ChangeApplier, resolve: ToolPathResolver) -> Self {
        Self { tool, changes, resolve }
    }

    /// Returns what the person has not saved of the files that the arguments name.
    async fn note(&self, call: &ToolCall) -> Option<String> {
        let editor = self.changes.editor()?;
        let arguments: Value = serde_json::from_str(&call.arguments).ok()?;
        let named = PATHS.iter().filter_map(|name| arguments.get(name)?.as_str());
        let paths: Vec<_> = named.flat_map(|path| (self.resolve)(path)).collect();
        let saved = blocking(move || Ok(paths.iter().filter_map(SavedText::read).collect::<Vec<_>>())).await.ok()?;
        let mut notes = Vec::new();
        for saved in saved {
            let path = saved.path().to_owned();
            // The disk's text is a result, too: an editor that does not answer keeps no one from reading it.
            let Ok(Some(text)) = text_in(&*editor, &path).await else { continue };
            notes.extend(saved.unsaved(text).ok().flatten().map(|text| note_of(&text)));
        }
        (!notes.is_empty()).then(|| notes.join("\n"))
    }
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
        let Ok(Some(note)) = timeout(limits::EDITOR_TIME, self.note(call)).await else { return outcome };
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
