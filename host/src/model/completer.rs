use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{ContextWindow, DeltaSink, Price};
use crate::{
    chat::{ChatSnapshot, Message, MessageMeta, Part, Role, StopReason, ToolSpec, Usage},
    error::Fault,
    event::RunCx,
};

/// Completes conversations: a model behind whatever wire, native or in a sandbox.
///
/// ```
/// use async_trait::async_trait;
/// use shelly_host::{
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
    /// Which model it is.
    fn info(&self) -> &ModelInfo;

    /// Completes a request. Pieces go to `sink` as they come; what is returned in the end is what counts. Dropping the
    /// future cancels the request.
    ///
    /// # Errors
    ///
    /// A [`Fault`] whose case says whether the same request may succeed later.
    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault>;
}

/// What is known of a model before it is asked anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    /// Its name in the config.
    pub name: String,
    /// The vendor's name for it.
    pub model: String,
    /// Tokens that it can take, if that is known.
    pub context_window: ContextWindow,
    /// What it costs, if that is known.
    pub price: Option<Price>,
    /// How often a request that failed may be made again; `None`: as often as the host bounds it to.
    pub retries: Option<usize>,
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct CompletionRequest {
    /// The conversation, valid: each call is followed by exactly one result before anything else.
    pub messages: ChatSnapshot,
    /// The tools that it may call.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Which of them.
    pub tool_choice: ToolChoice,
    /// The longest reply in tokens; none: the model's default.
    pub max_output_tokens: Option<u32>,
    /// 0 to 2; none: the model's default.
    pub temperature: Option<f32>,
    /// JSON Schema that the text of the reply must follow.
    pub response_schema: Option<String>,
    /// Facts beside it.
    pub meta: MessageMeta,
}

impl CompletionRequest {
    /// A request with the defaults of the model.
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

    /// Takes the tool of this name out of it.
    pub fn leave_out(&mut self, name: &str) {
        if self.tool_choice == ToolChoice::Tool(name.to_owned()) {
            self.tool_choice = ToolChoice::Auto;
        }
        self.tools = self.tools.iter().filter(|tool| tool.name != name).cloned().collect();
    }

    /// Estimate of the tokens that it costs to send: chat and tools.
    pub fn tokens(&self) -> u64 {
        self.messages.tokens() + self.tools.iter().map(|tool| u64::from(tool.tokens())).sum::<u64>()
    }
}

/// The shorter of two longest replies, of which none is the model's default.
pub fn shorter(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Which tool a model may or must call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    Auto,
    /// None of them, though they are listed.
    Never,
    /// At least one.
    Required,
    /// This one.
    Tool(String),
}

/// What a model answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Completion {
    /// Text, thinking, tool calls, in the model's order.
    pub parts: Vec<Part>,
    /// Why it stopped.
    pub stop: StopReason,
    /// What it used.
    pub usage: Usage,
    /// The model that answered, as the vendor names it.
    pub model: String,
    /// Facts beside it.
    pub meta: MessageMeta,
}

impl Completion {
    /// The message that it adds to the chat of `agent`.
    pub fn into_message(self, agent: &str) -> Message {
        Message { sender: agent.into(), role: Role::Assistant, parts: self.parts, meta: self.meta }
    }
}
