//! A run middleware that rejects a run if too many runs began within a time span, and says when the next one can begin.
//!
//! Params, both required: `{"runs": 10, "per": "1m"}`. At most `runs` runs (1 to 1,000) begin within any span of length
//! `per` (up to 30 days). The `kv` grant in the config decides which runs are counted together: with `session` the runs
//! of a session, with `agent` those of the agent, with `plugin` those of all agents that have the plugin. With `run`
//! every run begins with an empty store, so none is ever rejected. Parallel runs are counted exactly, even in several
//! processes.

use std::time::Duration;

use guest_kit::{Span, bad};
use serde::Deserialize;
use shelly_plugin::{
    Error, Message, clock, config, kv,
    run_middleware::{AfterDecision, BeforeDecision, Outcome, Pass, RunMiddleware},
    types::{Retry, RunContext},
};

shelly_plugin::export!(run_middleware: RateLimit);

/// The maximum number of runs. The start times of all counted runs are stored in one value.
const MOST_RUNS: usize = 1_000;

/// The maximum span. It is far beyond any useful limit, and its end is a time that a clock can show.
const LONGEST: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// The key of the start times of the counted runs, in milliseconds since 1970.
const KEY: &str = "begun";

struct RateLimit;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// The maximum number of runs that may begin.
    runs: usize,
    /// The time span.
    per: Span,
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        if !(1..=MOST_RUNS).contains(&self.runs) {
            let runs = self.runs;
            return Err(bad(format_args!("`runs` is {runs}; use 1 to {MOST_RUNS}")));
        }
        if self.per.millis() == 0 || self.per.0 > LONGEST {
            return Err(bad("`per` must be at least `1ms` and at most `30d`"));
        }
        Ok(self)
    }
}

impl RunMiddleware for RateLimit {
    fn before(_cx: RunContext, _input: Vec<Message>) -> Result<BeforeDecision, Error> {
        let params = config::<Params>()?.check()?;
        let mut waits = None;
        kv::update(KEY, |begun: Option<Vec<u64>>| {
            // Each attempt reads the clock again, because another run may have begun since.
            let (begun, room_in) = count(&params, begun.unwrap_or_default(), clock::now());
            waits = room_in;
            begun
        })?;
        let Some(after_ms) = waits else {
            return Ok(BeforeDecision::Proceed(Pass { input: None, state: Vec::new() }));
        };
        let message = turned_away(&params, after_ms);
        Ok(BeforeDecision::Reject(Error::RateLimited(Retry { message, after_ms: Some(after_ms) })))
    }

    fn after(_cx: RunContext, _outcome: Outcome, _state: Vec<u8>) -> Result<AfterDecision, Error> {
        Ok(AfterDecision::Accept)
    }
}

/// Returns the message for a rejected run. The time is rounded up, so that a run that begins then is not rejected again.
fn turned_away(params: &Params, after_ms: u64) -> String {
    let (runs, per) = (params.runs, params.per);
    let (runs, have) = if runs == 1 { ("1 run".to_owned(), "has") } else { (format!("{runs} runs"), "have") };
    let room_in = Span(Duration::from_secs(after_ms.div_ceil(1_000)));
    format!("{runs} {have} begun within {per}, which is the maximum; retry in {room_in}")
}

/// Returns the runs that count after this request to begin, and the milliseconds until this run can begin. Returns none
/// for the latter if it begins now; then it is among the runs.
fn count(params: &Params, mut begun: Vec<u64>, now: u64) -> (Vec<u64>, Option<u64>) {
    let per = params.per.millis();
    // A start time in the future comes from a clock that was set back: it counts as if the run began now.
    begun.iter_mut().for_each(|at| *at = (*at).min(now));
    begun.retain(|at| now - *at < per);
    begun.sort_unstable();
    // Earlier params may have allowed more.
    let Some(over) = begun.len().checked_sub(params.runs) else {
        begun.push(now);
        return (begun, None);
    };
    let room_in = per - (now - begun[over]);
    (begun, Some(room_in))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(runs: usize, per: Duration) -> Params {
        Params { runs, per: Span(per) }
    }

    #[test]
    fn rate_limit_bounds_the_runs_in_any_window() {
        let params = params(2, Duration::from_millis(100));
        let mut begun = Vec::new();
        for (now, room_in) in [
            (1_000, None),
            (1_050, None),
            (1_060, Some(40)),
            (1_099, Some(1)),
            (1_100, None),
            (1_149, Some(1)),
            (1_150, None),
            (9_000, None),
            // The clock was set back.
            (1_000, None),
            (1_001, Some(99)),
        ] {
            let (counted, room) = count(&params, begun, now);
            assert_eq!(room, room_in, "at {now}");
            assert!(counted.len() <= 2, "{counted:?}");
            begun = counted;
        }
    }

    #[test]
    fn rate_limit_error_states_when_to_retry() {
        for (runs, after_ms, says) in [
            (2, 59_805, "2 runs have begun within 1m, which is the maximum; retry in 1m"),
            (1, 1, "1 run has begun within 1m, which is the maximum; retry in 1s"),
            (1, 12_000, "1 run has begun within 1m, which is the maximum; retry in 12s"),
        ] {
            assert_eq!(turned_away(&params(runs, Duration::from_secs(60)), after_ms), says);
        }
    }

    #[test]
    fn rate_limit_honours_a_lowered_limit() {
        let params = params(2, Duration::from_millis(100));
        let (begun, room_in) = count(&params, vec![10, 20, 30, 40], 50);
        assert_eq!((begun.len(), room_in), (4, Some(80)), "three must grow old before there is room");
    }

    #[test]
    fn senseless_params_are_refused() {
        let minute = Duration::from_secs(60);
        for (params, says) in [
            (params(0, minute), "`runs` is 0"),
            (params(1_001, minute), "1 to 1000"),
            (params(1, Duration::ZERO), "at least `1ms`"),
            (params(1, Duration::from_micros(1)), "at least `1ms`"),
            (params(1, 31 * 24 * 60 * minute), "at most `30d`"),
        ] {
            let error = params.check().err().unwrap();
            assert!(error.message().contains(says), "{error:?}");
        }
    }
}
