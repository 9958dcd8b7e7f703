use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ContextWindow, DeltaSink, Price};
use crate::{
    chat::{ChatSnapshot, Message, MessageMeta, Part, Role, StopReason, ToolSpec, Usage},
    error::Fault,
    event::{RequestTokens, RunCx},
};

/// A model that completes conversations, over any wire protocol, native or in a sandbox.
///
/// ```
/// use async_trait::async_trait;
/// use shelly_core::{
///     chat::{Part, StopReason, Usage},
///     error::Fault,
///     event::RunCx,
///     model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
/// };
///
/// /// Says again what it was told.
/// struct Parrot(ModelInfo);
///
/// #[async_trait]
/// impl Completer for Parrot {
///     fn info(&self) -> &ModelInfo {
///         &self.0
///     }
///
///     async fn complete(&self, _: &RunCx, request: &CompletionRequest, _: &DeltaSink) -> Result<Completion, Fault> {
///         let last = request.messages.last().map(|entry| entry.message.text_content()).unwrap_or_default();
///         let usage = Usage { input_tokens: request.tokens(), output_tokens: 1, ..Usage::default() };
///         let (parts, stop) = (vec![Part::Text(last)], StopReason::EndTurn);
///         Ok(Completion { parts, stop, usage, model: self.0.model.clone(), meta: vec![] })
///     }
/// }
/// ```
#[async_trait]
pub trait Completer: Send + Sync {
    /// Returns the description of the model.
    fn info(&self) -> &ModelInfo;

    /// Completes a request. Deltas go to `sink` as they arrive; the returned completion is authoritative. Dropping the
    /// future cancels the request.
    ///
    /// # Errors
    ///
    /// A [`Fault`] whose variant tells whether the same request may succeed later.
    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault>;
}

/// The description of a model, known before its first request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// The model's name in the config.
    pub name: String,
    /// The vendor's name for the model.
    pub model: String,
    /// The context window in tokens, if it is known.
    pub context_window: ContextWindow,
    /// The price of the model, if it is known.
    pub price: Option<Price>,
    /// The number of times a failed request may be repeated; `None`: the host's limit.
    pub retries: Option<usize>,
}

impl ModelInfo {
    /// Describes a model that has this name in the config and at its vendor, and of which nothing else is known.
    pub fn named(name: impl Into<String>) -> Self {
        let name = name.into();
        Self { model: name.clone(), name, context_window: ContextWindow::default(), price: None, retries: None }
    }
}

/// A request to a model.
#[derive(Debug, Clone)]
pub struct CompletionRequest {
    /// The conversation. It is valid: each call is followed by exactly one result before anything else.
    pub messages: ChatSnapshot,
    /// The tools that the model may call.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// The constraint on the tools that the model calls.
    pub tool_choice: ToolChoice,
    /// The token limit of the reply; `None`: the model's default.
    pub max_output_tokens: Option<u32>,
    /// The temperature, 0 to 2; `None`: the model's default.
    pub temperature: Option<f32>,
    /// A JSON Schema that the text of the reply must follow.
    pub response_schema: Option<String>,
    /// Metadata of the request.
    pub meta: MessageMeta,
}

impl CompletionRequest {
    /// Creates a request with the model's defaults.
    pub fn new(messages: ChatSnapshot, tools: Arc<[Arc<ToolSpec>]>) -> Self {
        Self {
            messages,
            tools,
            tool_choice: ToolChoice::Auto,
            max_output_tokens: None,
            temperature: None,
            response_schema: None,
            meta: MessageMeta::new(),
        }
    }

    /// Removes the tool of this name from the request.
    pub fn leave_out(&mut self, name: &str) {
        if self.tool_choice == ToolChoice::Tool(name.to_owned()) {
            self.tool_choice = ToolChoice::Auto;
        }
        self.tools = self.tools.iter().filter(|tool| tool.name != name).cloned().collect();
    }

    /// Estimates the tokens of the request: chat and tools.
    pub fn tokens(&self) -> u64 {
        self.messages.tokens() + self.tools_tokens()
    }

    /// Estimates the tokens of each part of the request.
    pub fn tokens_by_part(&self) -> RequestTokens {
        let mut parts = RequestTokens { tools: self.tools_tokens(), ..RequestTokens::default() };
        for entry in self.messages.iter() {
            let part = match entry.message.role {
                Role::System => &mut parts.system,
                Role::User => &mut parts.user,
                Role::Assistant => &mut parts.assistant,
                Role::Tool => &mut parts.tool_results,
            };
            *part += u64::from(entry.tokens);
        }
        parts
    }

    fn tools_tokens(&self) -> u64 {
        self.tools.iter().map(|tool| u64::from(tool.tokens())).sum()
    }
}

/// Returns the lower of two token limits, where `None` stands for the model's default.
pub fn shorter(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// The constraint on the tools that a model calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    Auto,
    /// No tool may be called, although tools are listed.
    Never,
    /// At least one tool must be called.
    Required,
    /// This tool must be called.
    Tool(String),
}

/// The reply of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Text, thinking and tool calls, in the model's order.
    pub parts: Vec<Part>,
    /// The reason why the model stopped.
    pub stop: StopReason,
    /// The tokens that the request used.
    pub usage: Usage,
    /// The model that answered, as the vendor names it.
    pub model: String,
    /// Metadata of the reply.
    pub meta: MessageMeta,
}

impl Completion {
    /// Converts the reply into a message in the chat of `agent`.
    pub fn into_message(self, agent: &str) -> Message {
        Message { sender: agent.into(), role: Role::Assistant, parts: self.parts, meta: self.meta }
    }
}
