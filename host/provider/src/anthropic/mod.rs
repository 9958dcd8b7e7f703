//! The Messages API of Anthropic and of compatible servers.

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
    tool_names::{COMMON, ToolNameRule, ToolNames},
    wire::WireProtocol,
};
use shelly_core::{
    error::Fault,
    model::{CompletionRequest, DeltaSink},
};
use shelly_net::endpoint;

/// The API version that the requests name.
const VERSION: &str = "2023-06-01";

/// The Messages API.
///
/// - The base URL may end in `/v1` or not.
/// - A reply is limited to [`limits::ANTHROPIC_REPLY_TOKENS`](shelly_core::limits::ANTHROPIC_REPLY_TOKENS) if neither request nor
///   config limits it, plus the thinking budget of the config.
/// - The field `thinking` in the config enables thinking. No temperature is sent then, and no tool is forced, because the
///   API refuses both. If the reply limit of a request has no room for the thinking budget, the budget is cut to half of
///   that limit, or thinking is turned off.
/// - A temperature above 1 is sent as 1, the maximum. Newer models refuse any temperature.
/// - The schema of a reply is sent as `output_config.format`; objects that do not say otherwise allow no additional
///   properties. Older models, and schemas that the vendor cannot enforce, are refused by the vendor, never left unenforced.
/// - A conversation that does not begin with a user message gets one, which the API requires. A conversation that ends with
///   a model message gets a request to continue, which newer models require.
/// - Blocks of tools that the vendor runs itself are skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anthropic {
    /// `true` to ask the vendor to cache tools, system prompt and conversation for the next request.
    pub cache: bool,
    /// `true` to recognize calls of offered tools, and thoughts, that a model printed as text; see
    /// [`ChatCompletions::printed_calls`](super::ChatCompletions::printed_calls).
    pub printed_calls: bool,
}

impl Default for Anthropic {
    fn default() -> Self {
        Self { cache: true, printed_calls: false }
    }
}

impl WireProtocol for Anthropic {
    type Reader<'a> = reply::AnthropicReplyReader<'a>;
    const NAMES: ToolNameRule = COMMON;
    const FIELDS: &[&str] =
        &["model", "messages", "system", "tools", "tool_choice", "max_tokens", "temperature", "stream"];

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", VERSION)]
    }

    fn url(&self, adapter: &ModelAdapter) -> Result<Url, Fault> {
        url(adapter, &["messages"])
    }

    fn body(&self, adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Vec<u8>, Fault> {
        let body = request::body(adapter, request, self.cache)?.streamed();
        adapter.completion_json(request, &body, request::MERGED)
    }

    fn reader<'a>(&self, source: &'a ReplySource<'a>, names: &'a ToolNames, sink: &'a DeltaSink) -> Self::Reader<'a> {
        reply::AnthropicReplyReader::new(self.printed_calls, source, names, sink)
    }
}

/// Returns the address below the API version, whether or not the base URL names the version.
fn url(adapter: &ModelAdapter, path: &[&str]) -> Result<Url, Fault> {
    below_version(adapter.url(&[])?.as_str(), path)
}

/// Returns the address below the API version of any base URL.
pub(super) fn below_version(base_url: &str, path: &[&str]) -> Result<Url, Fault> {
    let has_version = base_url.trim_end_matches('/').ends_with("/v1");
    let version: &[&str] = if has_version { &[] } else { &["v1"] };
    endpoint(base_url, &[version, path].concat())
}
