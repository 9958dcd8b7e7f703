//! The Chat Completions API of OpenAI and of compatible servers: Grok, Ollama, llama.cpp, vLLM, LM Studio and others.

pub(super) mod batch;
mod options;
mod reply;
mod request;
#[cfg(test)]
mod tests;
pub(super) mod token_counts;

use url::Url;

pub use options::{ChatCompletions, MaxTokensField};

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

impl WireProtocol for ChatCompletions {
    type Reader<'a> = reply::OpenAiReplyReader<'a>;
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

    fn reader<'a>(&self, source: &'a ReplySource<'a>, names: &'a ToolNames, sink: &'a DeltaSink) -> Self::Reader<'a> {
        reply::OpenAiReplyReader::new(self, source, names, sink)
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
