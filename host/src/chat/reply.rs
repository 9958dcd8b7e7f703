use std::ops::{AddAssign, Sub};

use serde::{Deserialize, Serialize};

/// Why a model stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said what it had to say.
    EndTurn,
    /// It wants tools run.
    ToolCalls,
    /// The reply is cut: it reached the longest reply or the end of its window.
    MaxTokens,
    /// It wrote a stop sequence.
    StopSequence,
    /// The model or its vendor declined.
    Refusal,
    /// The vendor's word for something else.
    Other(String),
}

/// Tokens that completions used. The counts do not overlap, so that each has one price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
    /// All four counts together.
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

    /// What was used between two moments.
    fn sub(self, before: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(before.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(before.cache_write_tokens),
        }
    }
}

/// A piece of a reply that is still coming. For watchers: the completion that is returned in the end is what counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "value", rename_all = "snake_case")]
pub enum ReplyDelta {
    /// More text.
    Text(String),
    /// More of a thought.
    Thinking(String),
    /// The model has begun to call this tool.
    ToolCall(String),
    /// Used so far, in all.
    Usage(Usage),
}
