use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The id of a tool call, with the agent that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallId {
    /// The instance name of the agent.
    pub agent: Arc<str>,
    /// The id of the call in its conversation.
    pub call: String,
}
