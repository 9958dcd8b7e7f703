use schemars::JsonSchema;
use serde::Serialize;

/// The parts of a request to a model, each in tokens as the host estimates them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RequestTokens {
    /// The system prompt.
    pub system: u64,
    /// The descriptions of tools.
    pub tools: u64,
    /// Messages of the user, and notes.
    pub user: u64,
    /// Replies of the model.
    pub assistant: u64,
    /// Results of tool calls.
    pub tool_results: u64,
}
