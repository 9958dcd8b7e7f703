//! Retries of requests: their number, the pauses between them, and the wishes of the server.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};
use reqwest::{
    StatusCode,
    header::{self, HeaderMap},
};

use tokio::time::{Instant, sleep};

use super::{failure::FailedAttempt, rate::RateLimits};
use shelly_core::{
    error::{Fault, cut},
    event::{Event, ModelWait, RunCx},
    limits,
};

/// The policy for repeating a request after transient failures, and for the total waiting time.
///
/// Transient failures are connections that fail or break before a response, and the statuses 408, 409, 429, 500, 502 to 504
/// and 520 to 529. A certificate that is not accepted, a port of this machine on which nothing listens, and a response with
/// `x-should-retry: false` are not transient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retries {
    /// The number of attempts after the first. Capped at [`limits::HTTP_RETRIES_CEILING`].
    pub times: usize,
    /// The maximum sum of all pauses: if the next pause would exceed it, there is no further attempt. Capped at
    /// [`limits::RETRY_WAITING_CEILING`].
    pub waiting: Duration,
    /// The pause before the second attempt, which then doubles up to [`limits::RETRY_PAUSE`]. A random extra of up to the
    /// same length is added, and the sum is added to the time that a server asks for, so that clients with the same advice
    /// do not return at the same moment.
    pub first_pause: Duration,
}

/// A pause before a request is sent again.
#[derive(Debug)]
pub struct RetryPause<'a> {
    /// The reason why the previous attempt failed. It shows neither key nor query.
    pub fault: &'a Fault,
    /// The length of the pause.
    pub pause: Duration,
    /// The number of the attempt that follows, from 2 on.
    pub attempt: usize,
}

/// A callback for each pause before a request is sent again. It must not block.
#[derive(Clone, Default)]
pub struct RetryObserver(Option<Arc<RetryCallback>>);

type RetryCallback = dyn Fn(&RetryPause<'_>) + Send + Sync;

impl RetryObserver {
    /// Creates an observer that calls `told`.
    pub fn new(callback: impl Fn(&RetryPause<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    /// Creates an observer that emits [`Event::ModelWaits`] for a request to this model.
    pub fn of_model(cx: &RunCx, model: &str) -> Self {
        if !cx.events.is_watched() {
            return Self::default();
        }
        let (events, agent, model) = (cx.events.clone(), Arc::clone(&cx.agent), model.to_owned());
        Self::new(move |RetryPause { fault, pause, attempt }| {
            let why = cut(&fault.to_string(), limits::FAILURE_SHOWN_CHARS);
            let detail = format!("{why}; attempt {attempt} in {:.1} s", pause.as_secs_f64());
            let (agent, model) = (Arc::clone(&agent), model.clone());
            events.emit_now(Event::ModelWaits { agent, model, wait: ModelWait::Retry, detail });
        })
    }

    fn tell(&self, pause: &RetryPause<'_>) {
        if let Some(callback) = &self.0 {
            callback(pause);
        }
    }
}

impl Retries {
    /// A policy of one attempt.
    pub const NONE: Self = Self { times: 0, ..Self::DEFAULT };

    /// The host's default policy.
    pub const DEFAULT: Self =
        Self { times: limits::HTTP_RETRIES, waiting: limits::RETRY_WAITING, first_pause: limits::FIRST_RETRY_PAUSE };

    /// Returns the default policy with this number of attempts after the first.
    pub const fn times(times: usize) -> Self {
        Self { times, ..Self::DEFAULT }
    }

    /// Repeats `attempt` until it succeeds, fails permanently, or the attempts are used up. `of` names the operation for the
    /// log; `observer` is called for each pause.
    pub async fn repeat<T, F: Future<Output = Result<T, FailedAttempt>>>(
        &self,
        of: &str,
        deadline: Instant,
        observer: &RetryObserver,
        attempt: impl Fn() -> F,
    ) -> Result<T, Fault> {
        let (mut pauses, mut attempts) = (self.pauses(), 1);
        loop {
            let FailedAttempt { fault, again } = match attempt().await {
                Ok(done) => return Ok(done),
                Err(failed) => failed,
            };
            let pause = if again && fault.is_transient() { pauses.next(fault.retry_after()) } else { None };
            let Some(pause) = pause.filter(|pause| Instant::now() + *pause < deadline) else { return Err(fault) };
            tracing::debug!(%of, %fault, ?pause, "trying again");
            attempts += 1;
            observer.tell(&RetryPause { fault: &fault, pause, attempt: attempts });
            sleep(pause).await;
        }
    }

    pub(crate) fn pauses(&self) -> RetryPauses {
        let drawn = ExponentialBuilder::new()
            .with_min_delay(self.first_pause.min(limits::RETRY_PAUSE))
            .with_max_delay(limits::RETRY_PAUSE)
            .with_max_times(self.times.min(limits::HTTP_RETRIES_CEILING))
            .with_jitter()
            .build();
        RetryPauses { drawn, left: self.waiting.min(limits::RETRY_WAITING_CEILING) }
    }
}

impl Default for Retries {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The pauses between the attempts of one request.
pub(crate) struct RetryPauses {
    drawn: ExponentialBackoff,
    left: Duration,
}

impl RetryPauses {
    /// Returns the pause before the next attempt, if there is one; `asked` is the time that the server asks for.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Option<Duration> {
        let drawn = self.drawn.next()?;
        let asked = asked.unwrap_or_default();
        if asked > limits::RETRY_AFTER_CEILING {
            return None;
        }
        let pause = asked + drawn;
        self.left = self.left.checked_sub(pause)?;
        Some(pause)
    }
}

/// Returns the time that a server asks to wait: from `retry-after-ms`, from `retry-after` as seconds or a date, or, for a
/// status of 429 without these, until the limit that was hit is reset.
pub(super) fn asked(headers: &HeaderMap, status: StatusCode, rate_limits: &RateLimits) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let milliseconds = || Duration::try_from_secs_f64(text("retry-after-ms")?.parse::<f64>().ok()? / 1_000.0).ok();
    let seconds = || Duration::try_from_secs_f64(text(header::RETRY_AFTER.as_str())?.parse().ok()?).ok();
    let date = || {
        let date = httpdate::parse_http_date(text(header::RETRY_AFTER.as_str())?).ok()?;
        Some(date.duration_since(SystemTime::now()).unwrap_or_default())
    };
    let reset = || rate_limits.reset().filter(|_| status == StatusCode::TOO_MANY_REQUESTS);
    let asked = milliseconds().or_else(seconds).or_else(date).or_else(reset)?;
    Some(asked.min(limits::RATE_RESET_CEILING))
}

/// Returns `true` unless the server forbids another attempt.
pub(super) fn may_send_again(headers: &HeaderMap) -> bool {
    headers.get("x-should-retry").is_none_or(|value| value != "false")
}

/// Returns `true` for the response of a gateway; the server behind it may have processed the request all the same.
pub(super) fn is_of_gateway(status: StatusCode) -> bool {
    matches!(status.as_u16(), 502 | 504 | 520..=527)
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn retry_after_is_read_from_every_header() {
        let hour = httpdate::fmt_http_date(SystemTime::now() + seconds(3_600));
        let past = httpdate::fmt_http_date(SystemTime::UNIX_EPOCH);
        for (pairs, expected) in [
            (&[("retry-after", "12")][..], Some(12)),
            (&[("retry-after", " 1.5 ")], Some(1)),
            (&[("retry-after", &past)], Some(0)),
            (&[("retry-after", &hour)], Some(3_599)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "1e12")], Some(limits::RATE_RESET_CEILING.as_secs())),
            (&[("retry-after", "1e300")], None),
            (&[("retry-after-ms", "2500"), ("retry-after", "9")], Some(2)),
            (&[("retry-after-ms", "x"), ("retry-after", "9")], Some(9)),
            (&[("x-ratelimit-reset-requests", "6m0s"), ("retry-after", "9")], Some(9)),
            (&[("x-ratelimit-reset-requests", "6m0s")], Some(360)),
            (&[], None),
        ] {
            let headers = headers(pairs);
            let rate_limits = RateLimits::of(&headers, SystemTime::now());
            let of = |status| asked(&headers, status, &rate_limits).map(|asked| asked.as_secs());
            let found = of(StatusCode::TOO_MANY_REQUESTS);
            // A date has whole seconds, and time passes.
            assert!(found == expected || found == Some(3_598) && expected == Some(3_599), "{pairs:?}: {found:?}");
            if pairs.iter().all(|(name, _)| name.starts_with("x-")) {
                assert_eq!(of(StatusCode::SERVICE_UNAVAILABLE), None, "{pairs:?}");
            }
        }
    }

    #[test]
    fn x_should_retry_false_prevents_retry() {
        for (value, expected) in [("false", false), ("true", true), ("", true)] {
            assert_eq!(may_send_again(&headers(&[("x-should-retry", value)])), expected);
        }
        assert!(may_send_again(&HeaderMap::new()));
    }

    #[test]
    fn pauses_double_and_vary_and_end() {
        let all = |retries: Retries| {
            let mut pauses = retries.pauses();
            std::iter::from_fn(|| pauses.next(None)).collect::<Vec<_>>()
        };
        let drawn = all(Retries { times: 4, waiting: seconds(1_000), first_pause: seconds(1) });
        assert_eq!(drawn.len(), 4);
        for (pause, least) in drawn.iter().zip([1, 2, 4, 8]) {
            assert!((seconds(least)..=seconds(2 * least)).contains(pause), "{drawn:?}");
        }
        assert!(all(Retries::NONE).is_empty());
        // The ceilings of attempts, of one pause, and of all pauses.
        let many = Retries { times: usize::MAX, waiting: Duration::MAX, first_pause: Duration::ZERO };
        assert_eq!(all(many).len(), limits::HTTP_RETRIES_CEILING);
        let long = all(Retries { first_pause: Duration::MAX, ..many });
        assert!(long.iter().all(|pause| *pause <= 2 * limits::RETRY_PAUSE), "{long:?}");
        assert!(long.iter().sum::<Duration>() <= limits::RETRY_WAITING_CEILING && long.len() > 1, "{long:?}");
        let short = all(Retries { times: 9, waiting: seconds(7), first_pause: seconds(1) });
        assert!((1..=2).contains(&short.len()), "{short:?}");
    }

    #[test]
    fn retry_after_is_respected_up_to_ceiling() {
        let retries = Retries { times: 3, waiting: seconds(100), first_pause: seconds(1) };
        let mut pauses = retries.pauses();
        let pause = pauses.next(Some(seconds(60))).unwrap();
        assert!((seconds(61)..=seconds(62)).contains(&pause), "{pause:?}");
        assert_eq!(pauses.next(Some(seconds(60))), None, "beyond what may be waited for in all");
        assert_eq!(retries.pauses().next(Some(limits::RETRY_AFTER_CEILING + Duration::from_nanos(1))), None);
    }

    #[tokio::test(start_paused = true)]
    async fn observer_is_called_before_each_pause() {
        let (events, mut stream) = shelly_core::event::EventSink::channel();
        let cx = RunCx::new("ada").with_events(events);
        let (observer, begun) = (RetryObserver::of_model(&cx, "m"), Instant::now());
        drop(cx);
        let attempt =
            || async { Err::<(), _>(FailedAttempt::from(Fault::Unavailable { message: "busy".into(), after: None })) };
        let retries = Retries::times(2);
        let failed = retries.repeat("m", begun + limits::COMPLETION_TIME, &observer, attempt);
        let fault = failed.await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault}");
        drop(observer);
        let mut told = Vec::new();
        while let Some(Event::ModelWaits { agent, model, wait: ModelWait::Retry, detail }) = stream.next_event().await {
            told.push(format!("{agent} {model} {detail}"));
        }
        assert_eq!(told.len(), 2, "the last failure is no pause: {told:?}");
        for (line, attempt) in told.iter().zip([2, 3]) {
            assert!(line.starts_with("ada m ") && line.contains("busy"), "{line}");
            assert!(line.contains(&format!("; attempt {attempt} in ")), "{line}");
        }
        // Without event consumers there is no observer.
        assert!(RetryObserver::of_model(&RunCx::new("ada"), "m").0.is_none());
    }
}
