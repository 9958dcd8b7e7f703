use std::time::SystemTime;

use http::StatusCode;
use serde::Serialize;

use super::openai_error::OpenAiError;
use crate::{
    agent::RunError,
    chat::Usage,
    serve::hosted_runs::{HostedRunOutcome, RunSnapshot},
};

/// The way in which a run ended that has something to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AnswerEnding {
    /// There is an answer.
    Complete,
    /// A bound on tokens, turns or spending ended the run; its last words are there.
    CutShort,
    /// The model or its vendor declined to answer.
    Refused(String),
}

/// Tokens of prompts and replies, as chat completions count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChatUsage {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    prompt_tokens_details: CachedTokens,
}

/// Tokens of prompts and replies, as responses count them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ResponseUsage {
    input_tokens: u64,
    input_tokens_details: CachedTokens,
    output_tokens: u64,
    output_tokens_details: ReasoningTokens,
    total_tokens: u64,
}

/// Tokens of prompts that were read from and written to the vendor's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct CachedTokens {
    cached_tokens: u64,
    cache_write_tokens: u64,
}

/// Tokens of thoughts, which the host does not tell apart from those of replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct ReasoningTokens {
    reasoning_tokens: u64,
}

impl AnswerEnding {
    /// Returns how a run ended.
    ///
    /// # Errors
    ///
    /// An [`OpenAiError`] if it has nothing to tell.
    pub fn of(run: &RunSnapshot) -> Result<Self, Box<OpenAiError>> {
        match &run.outcome {
            Some(HostedRunOutcome::Completed { .. }) => Ok(Self::Complete),
            Some(HostedRunOutcome::Failed { failure: Some(RunError::Refused(words)), .. }) => {
                Ok(Self::Refused(words.clone()))
            }
            Some(HostedRunOutcome::Failed { failure: Some(failure), .. }) if is_cut(failure) => Ok(Self::CutShort),
            Some(HostedRunOutcome::Failed { error, .. }) => Err(OpenAiError::failed(error)),
            Some(HostedRunOutcome::Cancelled) => {
                Err(OpenAiError::ended("the run was cancelled", "cancelled", StatusCode::CONFLICT))
            }
            Some(HostedRunOutcome::Interrupted) | None => {
                let message = "the server is stopping, and the run was interrupted";
                Err(OpenAiError::ended(message, "unavailable", StatusCode::SERVICE_UNAVAILABLE))
            }
        }
    }

    /// Returns the reason as chat completions name it.
    pub fn finish_reason(&self) -> &'static str {
        match self {
            Self::Complete => "stop",
            Self::CutShort => "length",
            Self::Refused(_) => "content_filter",
        }
    }
}

/// Returns `true` if a bound ended the run.
fn is_cut(failure: &RunError) -> bool {
    failure.is_exhausted() || matches!(failure, RunError::Cut)
}

impl From<Usage> for ChatUsage {
    fn from(usage: Usage) -> Self {
        let prompt_tokens = usage.total().saturating_sub(usage.output_tokens);
        Self {
            prompt_tokens,
            completion_tokens: usage.output_tokens,
            total_tokens: usage.total(),
            prompt_tokens_details: CachedTokens::of(&usage),
        }
    }
}

impl From<Usage> for ResponseUsage {
    fn from(usage: Usage) -> Self {
        Self {
            input_tokens: usage.total().saturating_sub(usage.output_tokens),
            input_tokens_details: CachedTokens::of(&usage),
            output_tokens: usage.output_tokens,
            output_tokens_details: ReasoningTokens { reasoning_tokens: 0 },
            total_tokens: usage.total(),
        }
    }
}

impl CachedTokens {
    fn of(usage: &Usage) -> Self {
        Self { cached_tokens: usage.cache_read_tokens, cache_write_tokens: usage.cache_write_tokens }
    }
}

/// Returns a time as both interfaces write it: seconds since 1970.
pub fn seconds_of(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
