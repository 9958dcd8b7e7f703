//! The Responses API of OpenAI and of compatible servers: Grok, Ollama, llama.cpp, vLLM, LM Studio and others. Nothing is
//! stored on the server: each request contains the whole conversation, thoughts included.

mod batch;
mod items;
mod opaque_state;
mod reply;
mod request;
#[cfg(test)]
mod request_tests;
#[cfg(test)]
mod tests;

use url::Url;

use crate::{
    adapter::ModelAdapter,
    incoming_reply::ReplySource,
    tool_names::{COMMON, ToolNameRule, ToolNames},
    wire::WireProtocol,
};
use shelly_core::{
    error::Fault,
    model::{CompletionRequest, DeltaSink},
};

/// The Responses API, with options for the differences between models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResponsesApi {
    /// `true` to request the model's encrypted reasoning, which is sent back with the next request. A model without
    /// reasoning refuses such a request. `None`: enabled if the name is that of a reasoning model of OpenAI. Reasoning that
    /// a server sends unasked is sent back in any case.
    pub encrypted_reasoning: Option<bool>,
    /// `true` to recognize calls of offered tools, and thoughts, that a model printed as text; see
    /// [`ChatCompletions::printed_calls`](super::ChatCompletions::printed_calls).
    pub printed_calls: bool,
}

impl WireProtocol for ResponsesApi {
    type Reader<'a> = reply::ResponsesReplyReader<'a>;
    const NAMES: ToolNameRule = COMMON;
    const FIELDS: &[&str] = &[
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "temperature",
        "max_output_tokens",
        "stream",
        "store",
        "include",
    ];

    fn url(&self, adapter: &ModelAdapter) -> Result<Url, Fault> {
        adapter.url(&["responses"])
    }

    fn body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        adapter.completion_json(request, &self.request(adapter, request)?, &[request::TEXT])
    }

    fn reader<'a>(&self, source: &'a ReplySource<'a>, names: &'a ToolNames, sink: &'a DeltaSink) -> Self::Reader<'a> {
        reply::ResponsesReplyReader::new(self.printed_calls, source, names, sink)
    }
}

impl ResponsesApi {
    fn request<'a>(
        &self,
        adapter: &'a ModelAdapter,
        request: &'a CompletionRequest,
    ) -> Result<request::ResponsesRequest<'a>, Fault> {
        let asks = self.encrypted_reasoning.unwrap_or_else(|| thinks(adapter.model()));
        request::body(adapter, asks, request)
    }
}

/// Returns `true` if the name is that of a reasoning model of OpenAI: `o3`, `gpt-5.1-codex`, `openai/gpt-5`; not `gpt-4.1`,
/// `gpt-5-chat-latest`, `gpt-oss-20b`.
fn thinks(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let number = |text: &str| text.split(|c: char| !c.is_ascii_digit()).next().and_then(|digits| digits.parse().ok());
    let is_o = name.strip_prefix('o').and_then(number).is_some_and(|_: u32| true);
    let is_gpt = name.strip_prefix("gpt-").and_then(number).is_some_and(|version: u32| version >= 5);
    (is_o || is_gpt) && !name.contains("-chat")
}
