//! Batches of requests that are answered later, at a lower price.

use std::{fmt, str::FromStr, time::Duration};

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Completion, CompletionRequest, config_parsers};
use crate::{error::Fault, limits};

/// The vendor's batch API.
///
/// None of the methods may retry for long: the caller limits the time of each call, retries transient faults, and as a last
/// resort sends the requests to the model itself. Dropping a future cancels its operation.
#[async_trait]
pub trait BatchSubmitter: Send + Sync {
    /// Submits requests as a batch, each with the id that its result must carry: `A-Z a-z 0-9 _ -`, at most 64 bytes, all
    /// different.
    ///
    /// # Errors
    ///
    /// A [`Fault`], in which case no batch was created as far as is known.
    async fn submit(&self, requests: &[(String, CompletionRequest)]) -> Result<BatchId, Fault>;

    /// Returns the state of a batch.
    ///
    /// # Errors
    ///
    /// A [`Fault`] whose variant tells whether the same call may succeed later.
    async fn poll(&self, batch: &BatchId) -> Result<BatchState, Fault>;

    /// Returns the results of a batch that has [ended](BatchState::Ended), in any order. `requests` are those that were
    /// submitted; each is needed to read its reply. Requests without a result may be missing.
    ///
    /// # Errors
    ///
    /// A [`Fault`] whose variant tells whether the same call may succeed later.
    async fn results(&self, batch: &BatchId, requests: &[(String, CompletionRequest)]) -> Result<BatchResults, Fault>;

    /// Asks the vendor to stop working on a batch.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which the caller can only log.
    async fn cancel(&self, batch: &BatchId) -> Result<(), Fault>;
}

/// The outcomes of requests, by id.
pub type BatchResults = Vec<(String, Result<Completion, Fault>)>;

/// The state of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchState {
    /// The vendor is still working on the batch.
    Working {
        /// The number of requests that are finished, successfully or not.
        done: u64,
    },
    /// There will be no further results. A batch that expired, failed or was cancelled is in this state too.
    Ended,
}

/// The vendor's name for a batch: 1 to [`limits::REPLY_WORD_BYTES`] bytes of `A-Z a-z 0-9 _ - . : /`, never `..` or `//`,
/// and no `/` at either end, because it becomes part of an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BatchId(String);

impl BatchId {
    /// Returns the id as the vendor wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BatchId {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        let may_be = (1..=limits::REPLY_WORD_BYTES).contains(&text.len())
            && text.bytes().all(is_fine)
            && text.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if may_be {
            return Ok(Self(text.into()));
        }
        let shown = crate::error::cut(text, limits::NAME_SHOWN_CHARS);
        Err(Fault::other(format!("the server returned an invalid batch id `{}`", shown.escape_debug())))
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The settings for collecting requests into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BatchConfig {
    /// The time for which the first request of a batch waits for others.
    #[serde(with = "config_parsers::BoundedTime::<{ limits::BATCH_WINDOW_CEILING.as_secs() }>")]
    pub window: Duration,
    /// The pause before the state of a batch is polled for the first time. Each further pause is half as long again, up to
    /// the longest that may be set.
    #[serde(with = "config_parsers::BoundedTime::<{ limits::BATCH_POLL_CEILING.as_secs() }>")]
    pub poll_interval: Duration,
    /// The time from the submission until callers stop waiting.
    #[serde(with = "config_parsers::BoundedTime::<{ limits::BATCH_TIME_CEILING.as_secs() }>")]
    pub timeout: Duration,
    /// The maximum number of requests in a batch. A batch of this size is submitted at once.
    #[serde(with = "config_parsers::BoundedCount::<{ limits::BATCH_SIZE_CEILING }>")]
    pub max_size: usize,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            window: limits::BATCH_WINDOW,
            poll_interval: limits::BATCH_POLL,
            timeout: limits::BATCH_TIME,
            max_size: limits::BATCH_SIZE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batch_id_is_safe_in_url_path() {
        for fine in ["msgbatch_01HkcTjaV5uDC8jWR4ZsDV8d", "batch_abc-1", "batches/123", "a:b.c", "..."] {
            assert_eq!(fine.parse::<BatchId>().unwrap().to_string(), fine);
        }
        let long = "a".repeat(limits::REPLY_WORD_BYTES);
        assert!(long.parse::<BatchId>().is_ok());
        for bad in
            ["", ".", "..", "a/../b", "a//b", "/a", "a/", "a b", "a?b", "a#b", "a%2e", "ä", "a\n", &format!("{long}a")]
        {
            let error = bad.parse::<BatchId>().unwrap_err().to_string();
            assert!(error.starts_with("the server returned an invalid batch id `") && error.len() < 300, "{error}");
        }
    }

    #[test]
    fn configs_are_read_and_bounded() {
        let read = |json: &str| serde_json::from_str::<BatchConfig>(json).map_err(|error| error.to_string());
        let default = BatchConfig::default();
        assert_eq!(read("{}"), Ok(default));
        let one = |window, poll_interval| BatchConfig { window, poll_interval, ..default };
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        assert_eq!(read(r#"{"window":"250ms","poll_interval":"1m"}"#), Ok(one(ms(250), s(60))));
        let all = BatchConfig { window: s(60), timeout: s(24 * 3_600), max_size: 1_000, ..default };
        assert_eq!(read(r#"{"window":"1m","timeout":"1d","max_size":1000}"#), Ok(all));
        for (json, says) in [
            (r#"{"window":"2m"}"#, "the maximum is 1m"),
            (r#"{"window":"0s"}"#, "the value must be more than 0"),
            (r#"{"window":5}"#, "invalid type"),
            (r#"{"poll_interval":"61s"}"#, "the maximum is 1m"),
            (r#"{"poll_interval":"soon"}"#, "invalid duration; write it as 90s, 5m or 1h30m"),
            (r#"{"timeout":"25h"}"#, "the maximum is 1day"),
            (r#"{"max_size":0}"#, "the minimum is 1"),
            (r#"{"max_size":1001}"#, "the maximum is 1000"),
            (r#"{"max_size":-1}"#, "invalid value"),
            (r#"{"enabled":true}"#, "unknown field `enabled`"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(says), "{json}: {error}");
        }
    }
}
