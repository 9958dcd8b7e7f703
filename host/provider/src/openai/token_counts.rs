//! Token counts as both APIs of OpenAI report them.

use shelly_core::model::Usage;

/// Token counts that overlap: cached tokens count as input too, and some vendors count thinking in the total but not in the
/// output.
pub struct OpenAiTokenCounts {
    /// The tokens of the request.
    pub input: Option<u64>,
    /// The part of the input that was read from the vendor's cache.
    pub cache_read: Option<u64>,
    /// The part of the input that was written to the vendor's cache.
    pub cache_write: Option<u64>,
    /// The tokens of the reply.
    pub output: Option<u64>,
    /// All tokens together.
    pub total: Option<u64>,
}

impl OpenAiTokenCounts {
    /// Returns the counts without overlap.
    pub fn to_usage(&self) -> Usage {
        let input = self.input.unwrap_or(0);
        let read = self.cache_read.unwrap_or(0).min(input);
        let written = self.cache_write.unwrap_or(0).min(input - read);
        let beside_input = self.total.unwrap_or(0).saturating_sub(input);
        Usage {
            input_tokens: input - read - written,
            output_tokens: self.output.unwrap_or(0).max(beside_input),
            cache_read_tokens: read,
            cache_write_tokens: written,
        }
    }
}
