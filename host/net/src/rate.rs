//! The rate limits that a server reports in the headers of its responses.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderMap;

use shelly_core::limits;

/// One rate limit of a server, over a period that the server chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateLimitStatus {
    /// The maximum within the period. At most [`limits::RATE_CEILING`].
    pub limit: Option<u64>,
    /// The amount that remains until the reset. At most [`limits::RATE_CEILING`].
    pub remaining: Option<u64>,
    /// The time from the response until the limit is reset. At most [`limits::RATE_RESET_CEILING`].
    pub reset: Option<Duration>,
}

/// The rate limits that a server reports in headers `anthropic-ratelimit-…` or `x-ratelimit-…`, which most vendors have
/// adopted from OpenAI. Values that are missing or malformed are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RateLimits {
    /// The limit of requests.
    pub requests: RateLimitStatus,
    /// The limit of tokens, sent and received together.
    pub tokens: RateLimitStatus,
    /// The limit of tokens sent to models.
    pub input_tokens: RateLimitStatus,
    /// The limit of tokens received from models.
    pub output_tokens: RateLimitStatus,
}

impl RateLimits {
    /// Parses the headers of a response that arrived at `now`.
    pub(super) fn of(headers: &HeaderMap, now: SystemTime) -> Self {
        let of = |what: &str| {
            let text = |field: &str| {
                let names = [format!("anthropic-ratelimit-{what}-{field}"), format!("x-ratelimit-{field}-{what}")];
                let value = names.iter().find_map(|name| headers.get(name))?.to_str().ok()?.trim();
                (value.len() <= limits::RATE_HEADER_BYTES).then_some(value)
            };
            let count = |field| Some(text(field)?.parse::<u64>().ok()?.min(limits::RATE_CEILING));
            let reset =
                text("reset").and_then(|text| until(text, now)).map(|time| time.min(limits::RATE_RESET_CEILING));
            RateLimitStatus { limit: count("limit"), remaining: count("remaining"), reset }
        };
        Self {
            requests: of("requests"),
            tokens: of("tokens"),
            input_tokens: of("input-tokens"),
            output_tokens: of("output-tokens"),
        }
    }

    /// Returns `true` if the server reported no limits.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the time until no limit is used up any more; `None` if none is used up.
    pub fn used_up(&self) -> Option<Duration> {
        let all = [self.requests, self.tokens, self.input_tokens, self.output_tokens];
        all.iter().filter(|limit| limit.remaining == Some(0)).filter_map(|limit| limit.reset).max()
    }

    /// Returns the time after which a refused request may be accepted: when all used-up limits are reset. If none is used
    /// up, the request was too large for the rest of some limit, and the first reset may suffice.
    pub fn reset(&self) -> Option<Duration> {
        let all = [self.requests, self.tokens, self.input_tokens, self.output_tokens];
        self.used_up().or_else(|| all.iter().filter_map(|limit| limit.reset).min())
    }
}

/// Parses the time until a reset: a date such as `2026-01-31T12:00:00Z`, a duration such as `6m0s` or `20ms`, or seconds.
fn until(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(date) = humantime::parse_rfc3339(text) {
        return Some(date.duration_since(now).unwrap_or_default());
    }
    if let Ok(seconds) = text.parse() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    humantime::parse_duration(text).ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn of(pairs: &[(&'static str, &str)]) -> RateLimits {
        let headers = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect();
        RateLimits::of(&headers, humantime::parse_rfc3339("2026-01-31T12:00:00Z").unwrap())
    }

    fn limit(limit: u64, remaining: u64, reset: Duration) -> RateLimitStatus {
        RateLimitStatus { limit: Some(limit), remaining: Some(remaining), reset: Some(reset) }
    }

    #[test]
    fn both_families_of_headers_are_read() {
        let anthropic = of(&[
            ("anthropic-ratelimit-requests-limit", "50"),
            ("anthropic-ratelimit-requests-remaining", "49"),
            ("anthropic-ratelimit-requests-reset", "2026-01-31T12:00:02Z"),
            ("anthropic-ratelimit-tokens-remaining", "70000"),
            ("anthropic-ratelimit-input-tokens-limit", "50000"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-01-31T12:01:00.5Z"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-01-31T11:00:00Z"),
        ]);
        let reset = |reset| RateLimitStatus { reset: Some(reset), ..RateLimitStatus::default() };
        let expected = RateLimits {
            requests: limit(50, 49, Duration::from_secs(2)),
            tokens: RateLimitStatus { remaining: Some(70_000), ..RateLimitStatus::default() },
            input_tokens: limit(50_000, 0, Duration::from_millis(60_500)),
            output_tokens: reset(Duration::ZERO),
        };
        assert_eq!(anthropic, expected);
        assert_eq!(anthropic.reset(), Some(Duration::from_millis(60_500)), "what is used up");

        let openai = of(&[
            ("x-ratelimit-limit-requests", "60"),
            ("x-ratelimit-remaining-requests", "59"),
            ("x-ratelimit-reset-requests", "1s"),
            ("x-ratelimit-limit-tokens", "150000"),
            ("x-ratelimit-remaining-tokens", "149984"),
            ("x-ratelimit-reset-tokens", "6m0s"),
        ]);
        let (requests, tokens) =
            (limit(60, 59, Duration::from_secs(1)), limit(150_000, 149_984, Duration::from_secs(360)));
        assert_eq!(openai, RateLimits { requests, tokens, ..RateLimits::default() });
        assert_eq!(openai.reset(), Some(Duration::from_secs(1)), "nothing is used up");
        assert!(of(&[("content-type", "text/plain")]).is_empty());
        assert_eq!(RateLimits::default().reset(), None);
    }

    #[test]
    fn resets_have_many_forms() {
        for (text, expected) in [
            ("1s", Some(Duration::from_secs(1))),
            ("20ms", Some(Duration::from_millis(20))),
            ("2m59.56s", Some(Duration::from_millis(179_560))),
            ("1h2m3s", Some(Duration::from_secs(3_723))),
            ("33.5", Some(Duration::from_millis(33_500))),
            ("0", Some(Duration::ZERO)),
            ("2026-01-31T12:00:00Z", Some(Duration::ZERO)),
            ("", None),
            ("-1", None),
            ("NaN", None),
            ("inf", None),
            ("soon", None),
            ("2026-99-31T12:00:00Z", None),
        ] {
            assert_eq!(of(&[("x-ratelimit-reset-tokens", text)]).tokens.reset, expected, "{text}");
        }
    }

    #[test]
    fn absurd_values_are_bounded() {
        let number = u64::MAX.to_string();
        let absurd = of(&[
            ("x-ratelimit-limit-tokens", &number),
            ("x-ratelimit-remaining-tokens", &number),
            ("x-ratelimit-reset-tokens", "9999-12-31T23:59:59Z"),
            ("x-ratelimit-limit-requests", "99999999999999999999999"),
            ("x-ratelimit-reset-requests", "1e9"),
        ]);
        assert_eq!(absurd.tokens, limit(limits::RATE_CEILING, limits::RATE_CEILING, limits::RATE_RESET_CEILING));
        assert_eq!(
            absurd.requests,
            RateLimitStatus { reset: Some(limits::RATE_RESET_CEILING), ..RateLimitStatus::default() }
        );
        let long = |zeros| format!("{}1", "0".repeat(zeros));
        let read = |value: &str| of(&[("x-ratelimit-limit-tokens", value)]).tokens.limit;
        assert_eq!(read(&long(limits::RATE_HEADER_BYTES - 1)), Some(1));
        assert_eq!(read(&long(limits::RATE_HEADER_BYTES)), None);
    }
}
