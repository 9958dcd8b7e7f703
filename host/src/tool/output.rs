use serde::{Deserialize, Serialize};

use super::ToolNeed;
use crate::{change::FileChange, chat::ToolResultContent, error::Fault};

/// What a tool answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolOutput {
    /// For the model.
    Reply(Vec<ToolResultContent>),
    /// For the model, which reads it as an error: what went wrong, in more than words.
    Failed(Vec<ToolResultContent>),
    /// For the model, and for the loop that called: what happens to the run.
    Control(Vec<ToolResultContent>, RunControl),
    /// For the host, which may give it that and make the call again. Where nobody does the model reads what is lacking.
    Needs(ToolNeed),
    /// For the host, which makes these changes if whoever may say yes does: see
    /// [`ChangingTool`](crate::builtin::FileChangeTool). Where nobody makes them the model reads that.
    Propose(Vec<ChangeProposalPart>),
}

/// A piece of a result that proposes changes of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeProposalPart {
    /// For the model, once the changes are made.
    Content(ToolResultContent),
    /// A change. What became of it stands in its place in the result.
    Change(FileChange),
}

impl ToolOutput {
    /// Structured data.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if the value cannot be JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, Fault> {
        let json = serde_json::to_string(value).map_err(|error| Fault::other(error.to_string()))?;
        Ok(Self::Reply(vec![ToolResultContent::Json(json)]))
    }
}

impl ToolOutput {
    /// Characters of what the model reads, media left out.
    pub fn chars(&self) -> usize {
        let content: Box<dyn Iterator<Item = &ToolResultContent>> = match self {
            Self::Reply(content) | Self::Failed(content) | Self::Control(content, _) => Box::new(content.iter()),
            Self::Needs(_) => Box::new([].iter()),
            Self::Propose(pieces) => Box::new(pieces.iter().filter_map(ChangeProposalPart::content)),
        };
        let chars = |content: &ToolResultContent| match content {
            ToolResultContent::Text(text) | ToolResultContent::Json(text) => text.chars().count(),
            ToolResultContent::Media(_) => 0,
            ToolResultContent::Other(opaque) => opaque.json.chars().count(),
        };
        content.map(chars).sum()
    }
}

impl ChangeProposalPart {
    fn content(&self) -> Option<&ToolResultContent> {
        match self {
            Self::Content(content) => Some(content),
            Self::Change(_) => None,
        }
    }
}

impl From<Vec<ToolResultContent>> for ToolOutput {
    fn from(content: Vec<ToolResultContent>) -> Self {
        Self::Reply(content)
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::Reply(vec![ToolResultContent::Text(text)])
    }
}

impl From<&str> for ToolOutput {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// What a tool call does to the run that made it. It takes effect once every call of the reply has its result; of
/// several in one reply the first counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunControl {
    /// The task is done or has failed.
    Complete(TaskCompletion),
    /// Another agent takes the task over.
    HandOver(TaskHandoff),
}

/// How an agent says that its task has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCompletion {
    /// Whether it was done.
    pub status: CompletionStatus,
    /// What was done, or why it was not.
    pub summary: String,
    /// Files that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// Tests that were run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests_run: Vec<String>,
    /// What is known to be missing or doubtful.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveats: Option<String>,
}

impl TaskCompletion {
    /// All of it but the status, in words.
    pub fn in_full(&self) -> String {
        let mut text = self.summary.clone();
        let lists = [("Files modified", self.files_modified.join(", ")), ("Tests run", self.tests_run.join(", "))];
        let caveats = self.caveats.clone().unwrap_or_default();
        for (title, said) in lists.into_iter().chain([("Caveats", caveats)]).filter(|(_, said)| !said.is_empty()) {
            text.push_str(&format!("\n\n{title}: {said}"));
        }
        text
    }

    /// Nothing but the status.
    pub fn bare(status: CompletionStatus) -> Self {
        Self { status, summary: String::new(), files_modified: Vec::new(), tests_run: Vec::new(), caveats: None }
    }
}

/// Whether a task was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletionStatus {
    /// It was.
    Completed,
    /// It was not.
    Failed,
}

/// To whom an agent hands its task, and with what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHandoff {
    /// The other agent, by its name in the registry.
    pub agent: String,
    /// Why.
    pub reason: String,
    /// What the other one must know.
    pub context: String,
}
