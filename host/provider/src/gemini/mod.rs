//! The Gemini API of Google: `generateContent`, streamed.

mod batch;
mod opaque_state;
mod reply;
mod request;
#[cfg(test)]
mod tests;

use url::Url;

use crate::{
    adapter::ModelAdapter,
    incoming_reply::ReplySource,
    tool_names::{GEMINI, ToolNameRule, ToolNames},
    wire::WireProtocol,
};
use shelly_core::{
    error::Fault,
    model::{CompletionRequest, DeltaSink},
};

/// The Gemini API. Its base URL is usually `https://generativelanguage.googleapis.com/v1beta`. The key goes into the header
/// `x-goog-api-key`.
///
/// `generationConfig` and `tools` in the config's body are merged with those that the host writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gemini;

impl WireProtocol for Gemini {
    type Reader<'a> = reply::GeminiReplyReader<'a>;
    const NAMES: ToolNameRule = GEMINI;
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

    fn reader<'a>(&self, source: &'a ReplySource<'a>, names: &'a ToolNames, sink: &'a DeltaSink) -> Self::Reader<'a> {
        reply::GeminiReplyReader::new(source, names, sink)
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
