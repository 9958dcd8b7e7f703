//! Many requests handed over at once, answered later and for less money.

use std::{fmt, str::FromStr, time::Duration};

use async_trait::async_trait;
use serde::Deserialize;

use super::{Completion, CompletionRequest, config_parsers};
use crate::{error::Fault, limits};

/// The vendor's side of batches.
///
/// None of these may retry for long: whoever waits for a batch bounds each call, tries again what may pass, and asks the
/// model itself where nothing helps. Dropping a future cancels what it does.
#[async_trait]
pub trait BatchSubmitter: Send + Sync {
    /// Hands over requests, each with the id that its result must bear: `A-Z a-z 0-9 _ -`, at most 64 bytes, no two alike.
    ///
    /// # Errors
    ///
    /// A [`Fault`]; no batch has been made then, as far as is known.
    async fn submit(&self, requests: &[(String, CompletionRequest)]) -> Result<BatchId, Fault>;

    /// How far the batch is.
    ///
    /// # Errors
    ///
    /// A [`Fault`] whose case says whether the same question may succeed later.
    async fn poll(&self, batch: &BatchId) -> Result<BatchState, Fault>;

    /// The results of a batch that has [ended](BatchState::Ended), in any order. `requests` are those that it was made of:
    /// a reply is read with its request beside it. What has no result may be left out.
    ///
    /// # Errors
    ///
    /// A [`Fault`] whose case says whether the same question may succeed later.
    async fn results(&self, batch: &BatchId, requests: &[(String, CompletionRequest)]) -> Result<BatchResults, Fault>;

    /// Asks the vendor to work on it no further.
    ///
    /// # Errors
    ///
    /// A [`Fault`]; nobody can do more about it than to write it down.
    async fn cancel(&self, batch: &BatchId) -> Result<(), Fault>;
}

/// What became of requests, by id.
pub type BatchResults = Vec<(String, Result<Completion, Fault>)>;

/// How far a batch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchState {
    /// The vendor works on it.
    Working {
        /// Requests that are done, well or not.
        done: u64,
    },
    /// There will be no more results than there are. So ends a batch that expired, failed or was cancelled, too.
    Ended,
}

/// The vendor's name for a batch: 1 to [`limits::REPLY_WORD_BYTES`] bytes of `A-Z a-z 0-9 _ - . : /`, never `..` or `//`, and
/// no `/` at an end: it becomes part of an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BatchId(String);

impl BatchId {
    /// As the vendor wrote it.
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
        Err(Fault::other(format!("the server named a batch `{}`, which cannot be asked for", shown.escape_debug())))
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How requests become batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BatchConfig {
    /// How long the first request of a batch waits for others; at most [`limits::BATCH_WINDOW_CEILING`].
    #[serde(deserialize_with = "config_parsers::time::<_, { limits::BATCH_WINDOW_CEILING.as_secs() }>")]
    pub window: Duration,
    /// The pause before the vendor is asked for the first time how far it is; each further one is half as long again, up to
    /// [`limits::BATCH_POLL_CEILING`].
    #[serde(deserialize_with = "config_parsers::time::<_, { limits::BATCH_POLL_CEILING.as_secs() }>")]
    pub poll_interval: Duration,
    /// From the handing over until nobody waits any longer; at most [`limits::BATCH_TIME_CEILING`].
    #[serde(deserialize_with = "config_parsers::time::<_, { limits::BATCH_TIME_CEILING.as_secs() }>")]
    pub timeout: Duration,
    /// Requests of one batch, at most [`limits::BATCH_SIZE_CEILING`]: with so many it does not wait for more.
    #[serde(deserialize_with = "config_parsers::count::<_, { limits::BATCH_SIZE_CEILING }>")]
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
    fn ids_of_batches_can_stand_in_an_address() {
        for fine in ["msgbatch_01HkcTjaV5uDC8jWR4ZsDV8d", "batch_abc-1", "batches/123", "a:b.c", "..."] {
            assert_eq!(fine.parse::<BatchId>().unwrap().to_string(), fine);
        }
        let long = "a".repeat(limits::REPLY_WORD_BYTES);
        assert!(long.parse::<BatchId>().is_ok());
        for bad in
            ["", ".", "..", "a/../b", "a//b", "/a", "a/", "a b", "a?b", "a#b", "a%2e", "ä", "a\n", &format!("{long}a")]
        {
            let error = bad.parse::<BatchId>().unwrap_err().to_string();
            assert!(error.starts_with("the server named a batch `") && error.len() < 300, "{error}");
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
            (r#"{"window":"2m"}"#, "it can be at most 1m"),
            (r#"{"window":"0s"}"#, "it must be more than 0"),
            (r#"{"window":5}"#, "invalid type"),
            (r#"{"poll_interval":"61s"}"#, "it can be at most 1m"),
            (r#"{"poll_interval":"soon"}"#, "it is no duration; write it as 90s, 5m or 1h30m"),
            (r#"{"timeout":"25h"}"#, "it can be at most 1day"),
            (r#"{"max_size":0}"#, "it is at least 1"),
            (r#"{"max_size":1001}"#, "it can be at most 1000"),
            (r#"{"max_size":-1}"#, "invalid value"),
            (r#"{"enabled":true}"#, "unknown field `enabled`"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(says), "{json}: {error}");
        }
    }
}
