use std::ops::{AddAssign, Sub};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reason for which a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The reply is complete.
    EndTurn,
    /// The model waits for tool results.
    ToolCalls,
    /// The reply is truncated: it reached its token limit or the end of the context window.
    MaxTokens,
    /// The model wrote a stop sequence.
    StopSequence,
    /// The model or its vendor refused.
    Refusal,
    /// The vendor's term for any other reason.
    Other(String),
}

/// Tokens that completions used. The counts do not overlap, so that each has one price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Prompt tokens neither read from nor written to the vendor's cache.
    pub input_tokens: u64,
    /// Tokens of the reply, thinking included.
    pub output_tokens: u64,
    /// Prompt tokens read from the cache.
    pub cache_read_tokens: u64,
    /// Prompt tokens written to the cache.
    pub cache_write_tokens: u64,
}

impl Usage {
    /// Returns the sum of all four counts.
    pub fn total(&self) -> u64 {
        [self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
    }
}

impl Sub for Usage {
    type Output = Self;

    /// Returns the usage between two readings.
    fn sub(self, before: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(before.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(before.cache_write_tokens),
        }
    }
}

/// A piece of a reply that is still arriving. Only for display: the completion that is returned at the end is authoritative.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum ReplyDelta {
    /// More text.
    Text(String),
    /// More of a thought.
    Thinking(String),
    /// The model has begun to call this tool.
    ToolCall(String),
    /// The total usage so far.
    Usage(Usage),
}
