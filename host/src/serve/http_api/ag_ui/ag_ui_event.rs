use serde::Serialize;
use serde_json::Value;

use crate::chat::Usage;

/// The version of the protocol that the host speaks.
pub const AG_UI_VERSION: &str = "1.0";

/// An event of the protocol.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
#[allow(missing_docs, reason = "the protocol names the fields")]
pub enum AgUiEvent {
    /// The first event.
    RunStarted { thread_id: String, run_id: String, protocol_version: &'static str },
    /// The last event of a run that did not fail.
    RunFinished {
        thread_id: String,
        run_id: String,
        result: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<AgUiOutcome>,
        usage: Vec<AgUiUsage>,
    },
    /// The last event of a run that failed.
    RunError { message: String, code: String, usage: Vec<AgUiUsage> },
    /// The agent begins to say something.
    TextMessageStart { message_id: String, role: &'static str },
    /// More of the text.
    TextMessageContent { message_id: String, delta: String },
    /// The text is complete.
    TextMessageEnd { message_id: String },
    /// The agent begins to think.
    ReasoningStart { message_id: String },
    /// A thought begins.
    ReasoningMessageStart { message_id: String, role: &'static str },
    /// More of the thought.
    ReasoningMessageContent { message_id: String, delta: String },
    /// The thought is complete.
    ReasoningMessageEnd { message_id: String },
    /// The agent has thought.
    ReasoningEnd { message_id: String },
    /// A tool call begins.
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<String>,
    },
    /// The arguments of the call.
    ToolCallArgs { tool_call_id: String, delta: String },
    /// The arguments are complete.
    ToolCallEnd { tool_call_id: String },
    /// The result of the call.
    ToolCallResult { message_id: String, tool_call_id: String, content: String, role: &'static str },
    /// The state of the interface, with that of the run under the key `shelly`.
    StateSnapshot { snapshot: Value },
    /// A change of that state.
    StateDelta { delta: Vec<AgUiStateChange> },
    /// Another agent begins to work for the run.
    StepStarted { step_name: String },
    /// The step of that name has ended.
    StepFinished { step_name: String },
}

/// The way in which a run ended that neither failed nor succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgUiOutcome {
    /// Somebody has cancelled it.
    Cancelled,
}

/// A change of the state, as RFC 6902 says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AgUiStateChange {
    /// The kind of change.
    pub op: &'static str,
    /// The place.
    pub path: &'static str,
    /// The value there.
    pub value: Value,
}

/// The tokens of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgUiUsage {
    input_tokens: u64,
    output_tokens: u64,
    total_tokens: u64,
    cached_input_tokens: u64,
    cache_write_input_tokens: u64,
}

impl From<Usage> for AgUiUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.total().saturating_sub(usage.output_tokens),
            output_tokens: usage.output_tokens,
            total_tokens: usage.total(),
            cached_input_tokens: usage.cache_read_tokens,
            cache_write_input_tokens: usage.cache_write_tokens,
        }
    }
}
