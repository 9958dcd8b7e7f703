use serde::{Deserialize, Serialize};

use super::ToolNeed;
use crate::{
    change::{ChangePlan, FileChange},
    chat::ToolResultContent,
    error::Fault,
};

/// The output of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolOutput {
    /// A result for the model.
    Reply(Vec<ToolResultContent>),
    /// An error result for the model that is more than one text.
    Failed(Vec<ToolResultContent>),
    /// A result for the model, and an instruction to the calling loop about the run.
    Control(Vec<ToolResultContent>, RunControl),
    /// A request to the host for something that the tool lacks; the host may supply it and repeat the call. Otherwise the
    /// model reads what is lacking.
    Needs(ToolNeed),
    /// Proposed file changes, which the host makes if they are approved: see
    /// `builtin::FileChangeTool` of `shelly-host`. If nothing makes them, the model reads that.
    Propose(Vec<ChangeProposalPart>),
}

/// A piece of a result that proposes file changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeProposalPart {
    /// Content for the model, used once the changes are made.
    Content(ToolResultContent),
    /// A change. Its outcome takes its position in the result.
    Change(FileChange),
}

impl ToolOutput {
    /// Returns structured data as a result.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if the value cannot be JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, Fault> {
        let json = serde_json::to_string(value).map_err(|error| Fault::other(error.to_string()))?;
        Ok(Self::Reply(vec![ToolResultContent::Json(json)]))
    }
}

impl ToolOutput {
    /// Counts the characters that the model reads, without media.
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
    /// Returns the changes among the parts of a result.
    pub fn changes(parts: &[Self]) -> Vec<FileChange> {
        let change = |part: &Self| match part {
            Self::Change(change) => Some(change.clone()),
            Self::Content(_) => None,
        };
        parts.iter().filter_map(change).collect()
    }

    /// Returns the content for the model once the changes of this plan are made: each change is replaced by its summary.
    pub fn made(parts: Vec<Self>, plan: &ChangePlan) -> Vec<ToolResultContent> {
        let mut summaries = plan.summaries();
        let content = |part| match part {
            Self::Content(content) => Some(content),
            Self::Change(_) => summaries.next().map(|summary| ToolResultContent::Text(summary.done())),
        };
        parts.into_iter().filter_map(content).collect()
    }

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

/// The effect of a tool call on the run that made it. It takes effect once every call of the reply has its result; if
/// several calls of one reply have one, the first counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunControl {
    /// The task is done or has failed.
    Complete(TaskCompletion),
    /// Another agent takes the task over.
    #[serde(rename = "hand_over")]
    Handoff(TaskHandoff),
}

/// An agent's report that its task has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskCompletion {
    /// The status of the task.
    pub status: CompletionStatus,
    /// The work that was done, or the reason why it was not.
    pub summary: String,
    /// The files that were changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    /// The tests that were run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests_run: Vec<String>,
    /// Known gaps and doubts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveats: Option<String>,
}

impl TaskCompletion {
    /// Returns all of it but the status, as text.
    pub fn in_full(&self) -> String {
        let mut text = self.summary.clone();
        let lists = [("Files modified", self.files_modified.join(", ")), ("Tests run", self.tests_run.join(", "))];
        let caveats = self.caveats.clone().unwrap_or_default();
        for (title, list) in lists.into_iter().chain([("Caveats", caveats)]).filter(|(_, list)| !list.is_empty()) {
            text.push_str(&format!("\n\n{title}: {list}"));
        }
        text
    }

    /// Returns a completion that has only a status.
    pub fn bare(status: CompletionStatus) -> Self {
        Self { status, summary: String::new(), files_modified: Vec::new(), tests_run: Vec::new(), caveats: None }
    }
}

/// The outcome of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompletionStatus {
    /// The task was done.
    Completed,
    /// The task was not done.
    Failed,
}

/// The target of a handoff, with what the next agent needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskHandoff {
    /// The next agent, by its name in the registry.
    pub agent: String,
    /// The reason for the handoff.
    pub reason: String,
    /// The facts that the next agent must know.
    pub context: String,
}
