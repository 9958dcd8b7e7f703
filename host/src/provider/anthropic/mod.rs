//! The Messages API of Anthropic, and of everyone who speaks it.

mod batch;
pub(crate) mod reply;
mod request;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use url::Url;

use crate::{
    error::Fault,
    model::{Completion, CompletionRequest, DeltaSink},
    net::endpoint,
    provider::{
        adapter::ModelAdapter,
        incoming_reply::{IncomingReply, ReplySource},
        tool_names::{COMMON, ToolNameRule, ToolNames},
        wire::WireProtocol,
    },
};

/// The version of the API that this speaks.
const VERSION: &str = "2023-06-01";
/// Marks what proves a thought to be the model's own: the rest is the vendor's `signature`.
const SIGNATURE: &str = "anthropic.signature:";
/// Marks a thought that the vendor hides: the rest is its `data`.
const REDACTED: &str = "anthropic.redacted:";

/// The Messages API.
///
/// - The base URL may end in `/v1` or not.
/// - A reply has at most [`limits::ANTHROPIC_REPLY_TOKENS`](crate::limits::ANTHROPIC_REPLY_TOKENS) where neither request nor
///   config bounds it, and as many more as the config allows for thinking.
/// - Thinking is turned on by `thinking` among the fields of the config. No temperature is sent then, and no tool is forced:
///   the API refuses both. A budget of a request that has no room for it is halved into it, or thinking is turned off.
/// - A temperature above 1 is sent as 1, the highest there is. Newer models refuse any.
/// - The schema of a reply is sent as `output_config.format`, where objects that do not say so take no further properties.
///   Older models, and schemas that the vendor cannot enforce, are refused by the vendor, never left unenforced.
/// - A conversation that does not begin with a user is given a beginning, and one that ends with the model is asked to go on:
///   the API wants the one, and newer models the other.
/// - Blocks of tools that the vendor runs itself are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anthropic {
    /// Whether the vendor is asked to keep tools, system prompt and conversation for the next request.
    pub cache: bool,
    /// Calls of offered tools, and thoughts, that a model printed as its text are what they are: see
    /// [`ChatCompletions::printed_calls`](super::ChatCompletions::printed_calls).
    pub printed_calls: bool,
}

impl Default for Anthropic {
    fn default() -> Self {
        Self { cache: true, printed_calls: false }
    }
}

#[async_trait]
impl WireProtocol for Anthropic {
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

    async fn read(
        &self,
        reply: IncomingReply,
        source: &ReplySource<'_>,
        names: &ToolNames,
        sink: &DeltaSink,
    ) -> Result<Completion, Fault> {
        reply::read(reply, self.printed_calls, source, names, sink).await
    }
}

/// The address below the API's version, which the base URL may name or not.
fn url(adapter: &ModelAdapter, path: &[&str]) -> Result<Url, Fault> {
    below_version(adapter.url(&[])?.as_str(), path)
}

/// The same of any base URL.
pub(super) fn below_version(base_url: &str, path: &[&str]) -> Result<Url, Fault> {
    let has_version = base_url.trim_end_matches('/').ends_with("/v1");
    let version: &[&str] = if has_version { &[] } else { &["v1"] };
    endpoint(base_url, &[version, path].concat())
}
