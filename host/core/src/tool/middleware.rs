use async_trait::async_trait;

use crate::{
    chat::{ToolCall, ToolHints, ToolResultContent},
    error::{Fault, OnFailure},
    event::RunCx,
};

/// Middleware around each tool call, whichever tool is called: a pair of pure steps, with state passed from the first to
/// the second.
#[async_trait]
pub trait ToolMiddleware: Send + Sync {
    /// Returns its name, for people.
    fn name(&self) -> &str;

    /// Returns the consequence of a failure. `Skip`: a call is made although `before` failed, and a result stays as it was
    /// although `after` failed. `Stop`: the call is denied, or its result becomes an error.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Runs before a call.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if it could not do its work; [`ToolMiddleware::on_failure`] decides what that means.
    async fn before(&self, cx: &RunCx, call: &ToolCall, target: &ToolTarget) -> Result<ToolCallDecision, Fault>;

    /// Runs after a call that was made, or that a middleware further inside answered. Returns new content for the result, or
    /// `None` to leave it, which is the default. It cannot change whether the result is an error.
    ///
    /// # Errors
    ///
    /// The errors of [`ToolMiddleware::before`].
    async fn after(
        &self,
        cx: &RunCx,
        call: &ToolCall,
        outcome: Result<&[ToolResultContent], &Fault>,
        state: Vec<u8>,
    ) -> Result<Option<Vec<ToolResultContent>>, Fault> {
        let _ = (cx, call, outcome, state);
        Ok(None)
    }
}

/// The tool that is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolTarget {
    /// The origin of the tool: a plugin's id, or `host`.
    pub origin: String,
    /// The hints of the tool about its effects.
    pub hints: ToolHints,
}

/// The decision of a middleware about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCallDecision {
    /// The verdict on the call.
    pub verdict: ToolCallVerdict,
    /// A JSON object that replaces the arguments when the call is made. The conversation keeps what the model wrote.
    pub arguments: Option<String>,
    /// The state for `after`.
    pub state: Vec<u8>,
}

/// The verdict on a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum ToolCallVerdict {
    /// Make the call.
    Allow,
    /// Ask a person with this `text`: make the call on yes, deny it on no. One answer covers all questions of equal
    /// `topic`. If nobody can be asked, the call is denied.
    Ask { text: String, topic: String },
    /// Do not make the call: this is its result.
    Answer(Vec<ToolResultContent>),
    /// Do not make the call: the model reads this.
    Deny(String),
}
