use serde::Serialize;
use serde_json::{Map, Value};

use super::run_ending::ResponseUsage;
use crate::serve::hosted_runs::{HostedRunState, RunSnapshot};

/// The facts of a response that are known when its run has begun.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// The id, with which it is continued.
    pub id: String,
    /// The id of its run.
    pub run: String,
    /// The time of the request, in seconds since 1970.
    pub created: u64,
    /// The name of the agent.
    pub model: String,
    /// The instructions of the client.
    pub instructions: Option<String>,
    /// The response that it continues.
    pub previous: Option<String>,
    /// `true` if it can be continued.
    pub is_stored: bool,
    /// `true` if the run goes on without its client.
    pub is_background: bool,
    /// The bound on the tokens of replies.
    pub output_tokens: Option<u64>,
    /// The form of the answer.
    pub format: Value,
}

/// A response.
#[derive(Debug, Serialize)]
pub struct OpenAiResponse {
    id: String,
    object: &'static str,
    created_at: u64,
    background: bool,
    status: ResponseStatus,
    error: Option<ResponseFailure>,
    incomplete_details: Option<IncompleteReason>,
    instructions: Option<String>,
    max_output_tokens: Option<u64>,
    metadata: Map<String, Value>,
    model: String,
    output: Vec<ResponseItem>,
    parallel_tool_calls: bool,
    previous_response_id: Option<String>,
    store: bool,
    temperature: Option<f64>,
    text: ResponseText,
    tool_choice: &'static str,
    tools: Vec<Value>,
    top_p: Option<f64>,
    truncation: &'static str,
    usage: Option<ResponseUsage>,
}

/// The state of a response or of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseStatus {
    /// The run is at work.
    InProgress,
    /// There is an answer.
    Completed,
    /// A bound ended the run.
    Incomplete,
    /// The run failed.
    Failed,
    /// A client has cancelled the run.
    Cancelled,
}

/// The failure of a response.
#[derive(Debug, Serialize)]
pub struct ResponseFailure {
    /// OpenAI's word for failures of a server.
    pub code: &'static str,
    /// The failure, its causes, and a way to mend it.
    pub message: String,
}

/// The reason for which a response is not complete.
#[derive(Debug, Serialize)]
struct IncompleteReason {
    reason: &'static str,
}

/// The options of the text.
#[derive(Debug, Serialize)]
struct ResponseText {
    format: Value,
}

/// An item of the output.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponseItem {
    /// Thoughts.
    Reasoning {
        /// The id.
        id: String,
        /// The text.
        summary: Vec<ResponsePart>,
    },
    /// A message of the agent.
    Message {
        /// The id.
        id: String,
        /// The state.
        status: ResponseStatus,
        /// Always `assistant`.
        role: &'static str,
        /// The text.
        content: Vec<ResponsePart>,
    },
}

/// A part of an item.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ResponsePart {
    /// Thoughts.
    SummaryText {
        /// The thoughts.
        text: String,
    },
    /// Text.
    OutputText {
        /// The text.
        text: String,
        /// None.
        annotations: Vec<Value>,
        /// None.
        logprobs: Vec<Value>,
    },
    /// The words with which the model declined.
    Refusal {
        /// The words.
        refusal: String,
    },
}

/// The end of a response.
#[derive(Debug)]
pub struct ResponseEnd {
    /// The state.
    pub status: ResponseStatus,
    /// The failure.
    pub error: Option<ResponseFailure>,
    /// The usage; `None` while the run is at work.
    pub usage: Option<ResponseUsage>,
}

impl ResponseStatus {
    /// Returns the type of the event that tells of a response in this state. There is none for a cancelled response: it has
    /// not failed, and its output so far is in the event of an incomplete one.
    pub fn event(self) -> &'static str {
        match self {
            Self::InProgress => "response.in_progress",
            Self::Completed => "response.completed",
            Self::Incomplete | Self::Cancelled => "response.incomplete",
            Self::Failed => "response.failed",
        }
    }
}

impl ResponseEnd {
    /// Returns the end of a response whose run has ended without an answer, for this reason. A cancelled response has no
    /// error.
    pub fn without_answer(run: &RunSnapshot, message: String) -> Self {
        let (status, error) = match run.state() {
            HostedRunState::Cancelled => (ResponseStatus::Cancelled, None),
            _ => (ResponseStatus::Failed, Some(ResponseFailure { code: "server_error", message })),
        };
        Self { status, error, usage: Some(run.usage().into()) }
    }
}

impl ResponsePart {
    /// Returns a part with this text.
    pub fn text(text: String) -> Self {
        Self::OutputText { text, annotations: Vec::new(), logprobs: Vec::new() }
    }
}

impl ResponseItem {
    /// Returns the thoughts of a run as its item of this number.
    pub fn reasoning(run: &str, number: usize, summary: Vec<ResponsePart>) -> Self {
        Self::Reasoning { id: format!("rs_{run}_{number}"), summary }
    }

    /// Returns a message of a run as its item of this number.
    pub fn message(run: &str, number: usize, status: ResponseStatus, content: Vec<ResponsePart>) -> Self {
        Self::Message { id: format!("msg_{run}_{number}"), status, role: "assistant", content }
    }

    /// Returns the id.
    pub fn id(&self) -> &str {
        match self {
            Self::Reasoning { id, .. } | Self::Message { id, .. } => id,
        }
    }
}

impl OpenAiResponse {
    /// Returns the response with this output and end.
    pub fn new(head: &ResponseHead, output: Vec<ResponseItem>, end: ResponseEnd) -> Self {
        let ResponseEnd { status, error, usage } = end;
        let incomplete = status == ResponseStatus::Incomplete;
        Self {
            id: head.id.clone(),
            object: "response",
            created_at: head.created,
            background: head.is_background,
            status,
            error,
            incomplete_details: incomplete.then_some(IncompleteReason { reason: "max_output_tokens" }),
            instructions: head.instructions.clone(),
            max_output_tokens: head.output_tokens,
            metadata: Map::new(),
            model: head.model.clone(),
            output,
            parallel_tool_calls: true,
            previous_response_id: head.previous.clone(),
            store: head.is_stored,
            temperature: None,
            text: ResponseText { format: head.format.clone() },
            tool_choice: "auto",
            tools: Vec::new(),
            top_p: None,
            truncation: "disabled",
            usage,
        }
    }

    /// Returns the response while its run is at work.
    pub fn in_progress(head: &ResponseHead) -> Self {
        Self::new(head, Vec::new(), ResponseEnd { status: ResponseStatus::InProgress, error: None, usage: None })
    }
}
