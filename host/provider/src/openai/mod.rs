//! The Chat Completions API of OpenAI and of compatible servers: Grok, Ollama, llama.cpp, vLLM, LM Studio and others.

pub(super) mod batch;
pub(crate) mod reply;
mod request;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    adapter::ModelAdapter,
    incoming_reply::{IncomingReply, ReplySource},
    tool_names::{COMMON, ToolNameRule, ToolNames},
    wire::WireProtocol,
};
use shelly_core::{
    error::Fault,
    model::{Completion, CompletionRequest, DeltaSink},
};

/// The name of the field that limits the tokens of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`, which nearly all servers know.
    MaxTokens,
    /// `max_completion_tokens`, which newer models of OpenAI require.
    MaxCompletionTokens,
}

impl MaxTokensField {
    fn of(url: &Url) -> Self {
        if url.host_str() == Some("api.openai.com") { Self::MaxCompletionTokens } else { Self::MaxTokens }
    }
}

/// The Chat Completions API, with options for the differences between servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChatCompletions {
    /// The field that limits the tokens of a reply; `None`: chosen by the host of the base URL.
    pub max_tokens_field: Option<MaxTokensField>,
    /// `true` to recognize calls of offered tools that a model printed as text: small models do so on servers that do not
    /// look for them. Has no effect once the server itself reports a call.
    pub printed_calls: bool,
    /// `true` to treat `<think>…</think>` at the very beginning of the text as a thought.
    pub think_tags: bool,
}

#[async_trait]
impl WireProtocol for ChatCompletions {
    const NAMES: ToolNameRule = COMMON;
    const FIELDS: &[&str] = &[
        "model",
        "messages",
        "tools",
        "tool_choice",
        "response_format",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "stream",
        "stream_options",
    ];

    fn url(&self, adapter: &ModelAdapter) -> Result<Url, Fault> {
        adapter.url(&["chat", "completions"])
    }

    fn body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        adapter.completion_json(request, &self.request(adapter, request)?, &[])
    }

    async fn read(
        &self,
        reply: IncomingReply,
        source: &ReplySource<'_>,
        names: &ToolNames,
        sink: &DeltaSink,
    ) -> Result<Completion, Fault> {
        reply::read(reply, self, source, names, sink).await
    }
}

impl ChatCompletions {
    fn request<'a>(
        &self,
        adapter: &'a ModelAdapter,
        request: &'a CompletionRequest,
    ) -> Result<request::OpenAiRequest<'a>, Fault> {
        let field = match self.max_tokens_field {
            Some(field) => field,
            None => MaxTokensField::of(&self.url(adapter)?),
        };
        request::body(adapter, field, request)
    }
}
