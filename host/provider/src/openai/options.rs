//! The options of the Chat Completions API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

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
    pub(super) fn of(url: &Url) -> Self {
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
