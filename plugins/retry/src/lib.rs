//! A model middleware that repeats a request if the model was rate limited, not reachable, or too slow. Other failures
//! stand at once.
//!
//! Params, with their defaults: `{"attempts": 3, "base_delay": "1s", "max_delay": "30s"}`. `attempts` is the number of
//! requests, including the first: 2 to 9. For a server that is reached over HTTP, the host itself repeats a request up to
//! three times within some seconds; all of that is one attempt. The pause before the second attempt is `base_delay`, and
//! doubles each time up to `max_delay`. A quarter of each pause is random, so that agents that were rejected together do
//! not come back together. If the vendor states a pause, the plugin waits at least that long; if it is more than a
//! minute, which is the host's bound, the failure stands, because an earlier attempt would fail again.

use std::time::Duration;

use guest_kit::{Span, bad};
use serde::Deserialize;
use shelly_plugin::{
    Error, config, info,
    model_middleware::{AfterDecision, Again, BeforeDecision, ModelMiddleware, Pass, Sending},
    types::{Completion, RunContext},
};

shelly_plugin::export!(model_middleware: Retry);

/// The maximum number of attempts, limited by the host's repeats.
const MOST_ATTEMPTS: u32 = 9;

/// The longest pause that the host accepts.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

struct Retry;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The number of requests, including the first.
    attempts: u32,
    /// The first pause.
    base_delay: Span,
    /// The longest pause that the plugin chooses by itself.
    max_delay: Span,
}

impl Default for Params {
    fn default() -> Params {
        let seconds = |seconds| Span(Duration::from_secs(seconds));
        Params { attempts: 3, base_delay: seconds(1), max_delay: seconds(30) }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        if !(2..=MOST_ATTEMPTS).contains(&self.attempts) {
            let attempts = self.attempts;
            return Err(bad(format_args!("`attempts` is {attempts}; use 2 to {MOST_ATTEMPTS}")));
        }
        if self.base_delay.0.is_zero() || self.base_delay.0 > self.max_delay.0 {
            return Err(bad("`base_delay` must be more than 0 and at most `max_delay`"));
        }
        if self.max_delay.0 > LONGEST_PAUSE {
            return Err(bad("`max_delay` must be at most `60s`, because the host waits no longer"));
        }
        Ok(self)
    }
}

impl ModelMiddleware for Retry {
    fn before(_cx: RunContext, _sending: Sending) -> Result<BeforeDecision, Error> {
        // Invalid params must be reported before they are needed.
        config::<Params>()?.check()?;
        Ok(BeforeDecision::Proceed(Pass { model: None, request: None, state: Vec::new() }))
    }

    fn after(
        cx: RunContext,
        sending: Sending,
        reply: Result<Completion, Error>,
        state: Vec<u8>,
    ) -> Result<AfterDecision, Error> {
        let Err(error) = reply else { return Ok(AfterDecision::Accept) };
        let params = config::<Params>()?.check()?;
        let chance = chance(&[&cx.run, &cx.agent, &sending.digest], sending.attempt);
        let Some(delay_ms) = pause(&params, &error, sending.attempt, chance) else {
            return Ok(AfterDecision::Accept);
        };
        info!("`{}` failed ({}); retrying in {delay_ms} ms", sending.model, error.message());
        Ok(AfterDecision::Retry(Again { model: None, delay_ms, state }))
    }
}

/// Returns the pause before the request is sent again, in milliseconds; none if the failure stands. `chance` is from 0 to
/// 1.
fn pause(params: &Params, error: &Error, attempt: u32, chance: f64) -> Option<u64> {
    let wanted = match error {
        Error::RateLimited(retry) | Error::Unavailable(retry) => retry.after_ms.unwrap_or(0),
        Error::Timeout(_) => 0,
        _ => return None,
    };
    let longest = u64::try_from(LONGEST_PAUSE.as_millis()).unwrap_or(u64::MAX);
    if attempt + 1 >= params.attempts || wanted > longest {
        return None;
    }
    let doubled = params.base_delay.millis().saturating_mul(1 << attempt.min(32));
    let own = doubled.min(params.max_delay.millis()) as f64 * (0.75 + 0.25 * chance);
    // The pause is at least one millisecond.
    Some((own as u64).max(wanted).max(1))
}

/// Returns a number from 0 to 1 that depends on the run, agent, request and attempt: an FNV-1a hash, whose high bits are
/// mixed best.
fn chance(words: &[&str], attempt: u32) -> f64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0])).chain(attempt.to_le_bytes());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    f64::from((hash >> 32) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use shelly_plugin::types;

    use super::*;

    fn limited(after_ms: Option<u64>) -> Error {
        Error::RateLimited(types::Retry { message: "slow down".into(), after_ms })
    }

    #[test]
    fn retry_backs_off_exponentially_for_transient_errors() {
        let params = Params { attempts: 9, ..Params::default() };
        let unavailable = Error::Unavailable(types::Retry { message: "no".into(), after_ms: Some(100) });
        for (error, attempt, chance, expected) in [
            (limited(None), 0, 0.0, Some(750)),
            (limited(None), 0, 1.0, Some(1_000)),
            (limited(None), 3, 1.0, Some(8_000)),
            (limited(None), 7, 1.0, Some(30_000)),
            (limited(None), 8, 1.0, None),
            (limited(Some(5_000)), 0, 0.0, Some(5_000)),
            (limited(Some(500)), 0, 1.0, Some(1_000)),
            (limited(Some(45_000)), 1, 1.0, Some(45_000)),
            (limited(Some(60_001)), 0, 1.0, None),
            (unavailable, 0, 1.0, Some(1_000)),
            (Error::Timeout("late".into()), 1, 1.0, Some(2_000)),
            (Error::Invalid("no".into()), 0, 1.0, None),
            (Error::Denied("no".into()), 0, 1.0, None),
            (Error::TooLarge("no".into()), 0, 1.0, None),
            (Error::Exhausted("no".into()), 0, 1.0, None),
            (Error::Other("no".into()), 0, 1.0, None),
        ] {
            assert_eq!(pause(&params, &error, attempt, chance), expected, "{error:?} {attempt} {chance}");
        }
    }

    #[test]
    fn retry_jitter_is_spread_and_deterministic() {
        let of = |agent: &str| chance(&["run", agent, "digest"], 0);
        let all: Vec<f64> = (0..100).map(|agent| of(&format!("worker-{agent}"))).collect();
        assert!(all.iter().all(|one| (0.0..=1.0).contains(one)), "{all:?}");
        assert!(all.iter().any(|one| *one < 0.25) && all.iter().any(|one| *one > 0.75), "{all:?}");
        assert_eq!(of("a"), of("a"));
    }

    #[test]
    fn senseless_params_are_refused() {
        let span = |seconds| Span(Duration::from_secs(seconds));
        let params = |attempts, base, max| Params { attempts, base_delay: span(base), max_delay: span(max) };
        for (params, says) in [
            (params(1, 1, 2), "`attempts` is 1"),
            (params(10, 1, 2), "2 to 9"),
            (params(3, 0, 2), "more than 0"),
            (params(3, 3, 2), "at most `max_delay`"),
            (params(3, 3, 61), "at most `60s`"),
        ] {
            let error = params.check().err().unwrap();
            assert!(error.message().contains(says), "{error:?}");
        }
        assert!(Params::default().check().is_ok());
    }
}
