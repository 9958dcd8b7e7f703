use async_trait::async_trait;

use crate::{
    chat::{ToolCall, ToolHints, ToolResultContent},
    error::{Fault, OnFailure},
    event::RunCx,
};

/// Stands around each tool call, whoever made the tool. A pair of pure steps, with bytes handed from the first to the
/// second.
#[async_trait]
pub trait ToolMiddleware: Send + Sync {
    /// Its name, for people.
    fn name(&self) -> &str;

    /// Whether a call is made if it fails before it; otherwise it is denied. After a call: whether the result stays as it
    /// was; otherwise it becomes an error.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Before a call.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if it could not do its work; [`ToolMiddleware::on_failure`] says what that means.
    async fn before(&self, cx: &RunCx, call: &ToolCall, target: &ToolTarget) -> Result<ToolCallDecision, Fault>;

    /// After a call that was made: new content for its result, or none to leave it. Whether it is an error stays as it was.
    ///
    /// # Errors
    ///
    /// As [`ToolMiddleware::before`].
    async fn after(
        &self,
        cx: &RunCx,
        call: &ToolCall,
        outcome: Result<&[ToolResultContent], &Fault>,
        state: Vec<u8>,
    ) -> Result<Option<Vec<ToolResultContent>>, Fault>;
}

/// Which tool is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolTarget {
    /// Who made it: a plugin's id, or `host`.
    pub origin: String,
    /// What it does to the world, as its maker says.
    pub hints: ToolHints,
}

/// What is decided about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallDecision {
    /// What to do.
    pub verdict: ToolCallVerdict,
    /// JSON in place of the arguments, where the call is made. The conversation keeps what the model wrote.
    pub arguments: Option<String>,
    /// For `after`.
    pub state: Vec<u8>,
}

/// What to do with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ToolCallVerdict {
    /// Make it.
    Allow,
    /// Ask a person with this `text`; make it on yes, deny it on no. Questions of equal `topic` are one. Where nobody can be
    /// asked it is denied.
    Ask { text: String, topic: String },
    /// Do not make it: this is the result.
    Answer(Vec<ToolResultContent>),
    /// Do not make it: the model reads this.
    Deny(String),
}
