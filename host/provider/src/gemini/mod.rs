//! The Gemini API of Google: `generateContent`, streamed.

mod batch;
mod reply;
mod request;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use url::Url;

use crate::{
    adapter::ModelAdapter,
    incoming_reply::{IncomingReply, ReplySource},
    tool_names::{ToolNameRule, ToolNames},
    wire::WireProtocol,
};
use shelly_core::{
    error::Fault,
    model::{Completion, CompletionRequest, DeltaSink},
};

/// The Gemini API. Its base URL is usually `https://generativelanguage.googleapis.com/v1beta`. The key goes into the header
/// `x-goog-api-key`.
///
/// `generationConfig` and `tools` in the config's body are merged with those that the host writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gemini;

/// The tool names that Google accepts: a letter or `_`, then up to 63 of `A-Z a-z 0-9 _ -`. It also accepts dots, which
/// other vendors do not.
const NAMES: ToolNameRule = ToolNameRule { longest: 64, any_first: false };

/// The tags of opaque state that only this vendor understands.
mod tag {
    /// The signature of a thought.
    pub const THOUGHT: &str = "gemini.thought:";
    /// The signature of the text before it.
    pub const TEXT: &str = "gemini.text:";
    /// A signature in a part of its own.
    pub const ALONE: &str = "gemini.alone:";
    /// The signature of a call, in the call's metadata.
    pub const CALL: &str = "gemini.thought_signature";
    /// The vendor's id of a call, in the call's metadata. The chat may use another id, and not every model assigns one.
    pub const ID: &str = "gemini.id";
}

#[async_trait]
impl WireProtocol for Gemini {
    const NAMES: ToolNameRule = NAMES;
    const FIELDS: &[&str] = &["contents", "systemInstruction", "toolConfig"];

    fn url(&self, adapter: &ModelAdapter) -> Result<Url, Fault> {
        let mut url = url(adapter, "streamGenerateContent")?;
        url.query_pairs_mut().append_pair("alt", "sse");
        Ok(url)
    }

    fn body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        let body = request::body(adapter, request)?;
        adapter.completion_json(request, &body, &[request::TOOLS, request::GENERATION_CONFIG])
    }

    async fn read(
        &self,
        reply: IncomingReply,
        source: &ReplySource<'_>,
        names: &ToolNames,
        sink: &DeltaSink,
    ) -> Result<Completion, Fault> {
        reply::read(reply, source, names, sink).await
    }
}

/// Returns the address of a method of the model. The model's name may include its collection, such as `models/` or
/// `tunedModels/`.
fn url(adapter: &ModelAdapter, method: &str) -> Result<Url, Fault> {
    let model = adapter.model().trim_matches('/');
    let (collection, model) = model.rsplit_once('/').unwrap_or(("models", model));
    let method = format!("{model}:{method}");
    let path: Vec<_> = collection.split('/').chain([method.as_str()]).collect();
    adapter.url(&path)
}
