//! An effect that bounds the total time that a run waits for its model. Time for tools, people and other agents does not
//! count. At a share of the bound it tells the model to finish its work. At the bound it stops the run: before the next
//! request to the model, or before the calls of a reply are made. It does not interrupt a reply, and an answer that has
//! arrived stays.
//!
//! Params, with their defaults: `{"max_duration": "0s", "warn_threshold": 0.8}`. A duration is written as `90s`, `10m` or
//! `1h 30m`; 0 means no bound. A `warn_threshold` of 1 disables the warning.

use std::time::Duration;

use serde::Deserialize;
use shelly_plugin::{
    Error, chat,
    chat::Traits,
    config,
    effect::{Edit, Effect, EffectInput, Phase, Step, Stop, Wake},
};

shelly_plugin::export!(effect: TimeBudget);

/// The version of the state: a byte, then one that is 1 once the model was warned.
const VERSION: u8 = 1;

struct TimeBudget;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The time after which the run ends; 0: never.
    max_duration: String,
    /// The share of it at which the model is warned.
    warn_threshold: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params { max_duration: "0s".into(), warn_threshold: 0.8 }
    }
}

/// The bounds, in milliseconds.
#[derive(Debug, PartialEq)]
struct Bounds {
    /// The time at which the model is warned.
    warn: u64,
    /// The time at which the run ends; 0: never.
    most: u64,
}

impl Params {
    fn check(&self) -> Result<Bounds, Error> {
        let (text, share) = (&self.max_duration, self.warn_threshold);
        let wrong = |what: String| Err(Error::Invalid(format!("params: {what}")));
        let duration = match humantime::parse_duration(text) {
            Ok(duration) => duration,
            Err(cause) => {
                return wrong(format!("`max_duration` is `{text}`: {cause}; write it as `90s`, `10m` or `1h 30m`"));
            }
        };
        let most = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        if most == 0 && !duration.is_zero() {
            return wrong(format!("`max_duration` is `{text}`; use 0 for no limit, or at least 1ms"));
        }
        if !(share > 0.0 && share <= 1.0) {
            return wrong(format!("`warn_threshold` is {share}; use a share above 0 and at most 1, such as 0.8"));
        }
        Ok(Bounds { warn: (most as f64 * share).ceil() as u64, most })
    }
}

impl Effect for TimeBudget {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let bounds = config::<Params>()?.check()?;
        let can_stop = match input.phase {
            Phase::BeforeModel => true,
            Phase::AfterModel => wants_tools(input.messages),
            Phase::Other(_) => return Ok(Step::edits(state, Vec::new())),
        };
        Ok(step(&bounds, input.model_ms, input.phase == Phase::BeforeModel, can_stop, state))
    }
}

/// Returns the effect's answer after `passed` milliseconds.
fn step(bounds: &Bounds, passed: u64, is_before: bool, can_stop: bool, state: Vec<u8>) -> Step {
    let at = |ms| Wake { model_ms: Some(ms), ..Wake::NEVER };
    let warned = vec![VERSION, 1];
    if bounds.most == 0 {
        Step::edits(state, Vec::new()).until(Wake::NEVER)
    } else if passed >= bounds.most {
        let message =
            format!("the run has waited {} for the model, the maximum is {}", shown(passed), shown(bounds.most));
        let stop = can_stop.then(|| Edit::Stop(Stop { code: "time-budget".into(), message }));
        Step::edits(state, stop.into_iter().collect())
    } else if passed < bounds.warn {
        Step::edits(state, Vec::new()).until(at(bounds.warn))
    } else if state == warned {
        Step::edits(state, Vec::new()).until(at(bounds.most))
    } else if is_before {
        let note = Edit::Note(format!(
            "Your replies have taken {} of at most {}. Finish what you have begun, then answer. After {} the run is \
             stopped.",
            shown(passed),
            shown(bounds.most),
            shown(bounds.most)
        ));
        Step::edits(warned, vec![note]).until(at(bounds.most))
    } else {
        // A warning is of use only if another turn follows.
        Step::edits(state, Vec::new())
    }
}

/// Returns `true` if the chat ends with a reply whose calls have not been made yet. Notes wait until they have been made.
fn wants_tools(messages: u32) -> bool {
    let last = chat::entries(messages.saturating_sub(1), messages);
    last.last().is_some_and(|entry| entry.traits.contains(Traits::CALLS))
}

/// Formats a duration, such as `8m 20s`; fractions of a second are shown only below one second.
fn shown(ms: u64) -> String {
    let duration = Duration::from_millis(if ms < 1_000 { ms } else { ms / 1_000 * 1_000 });
    humantime::format_duration(duration).to_string()
}

#[cfg(test)]
mod tests {
    use shelly_plugin::effect::{Action, NextCall};

    use super::*;

    fn params(max_duration: &str, warn_threshold: f64) -> Params {
        Params { max_duration: max_duration.into(), warn_threshold }
    }

    /// Returns the effect's action and the milliseconds at which it wakes; 0: in the next phase.
    fn does(bounds: &Bounds, passed: u64, is_before: bool, can_stop: bool, state: &mut Vec<u8>) -> (&'static str, u64) {
        let step = step(bounds, passed, is_before, can_stop, state.clone());
        *state = step.state;
        let Action::Edits(edits) = step.action else { panic!("it asks") };
        let edit = match &edits[..] {
            [] => "",
            [Edit::Note(_)] => "note",
            [Edit::Stop(stop)] if stop.code == "time-budget" => "stop",
            other => panic!("{other:?}"),
        };
        let wake = match step.next_call {
            NextCall::NextPhase => 0,
            NextCall::When(wake) => wake.model_ms.unwrap_or(u64::MAX),
            NextCall::Never => u64::MAX,
        };
        (edit, wake)
    }

    #[test]
    fn it_warns_once_then_stops_where_something_follows() {
        let bounds = params("10s", 0.8).check().unwrap();
        let mut state = Vec::new();
        for (passed, is_before, can_stop, expected) in [
            (0, true, true, ("", 8_000)),
            (7_999, false, true, ("", 8_000)),
            (8_500, false, false, ("", 0)),
            (8_500, true, true, ("note", 10_000)),
            (9_000, false, true, ("", 10_000)),
            (9_999, true, true, ("", 10_000)),
            (10_000, false, false, ("", 0)),
            (10_000, false, true, ("stop", 0)),
            (u64::MAX, true, true, ("stop", 0)),
        ] {
            assert_eq!(does(&bounds, passed, is_before, can_stop, &mut state), expected, "{passed} {is_before}");
        }
        // The state of another version counts as empty, so the effect warns.
        for mut strange in [vec![], vec![VERSION], vec![9, 1], vec![VERSION, 1, 1]] {
            assert_eq!(does(&bounds, 8_500, true, true, &mut strange), ("note", 10_000));
        }
    }

    #[test]
    fn time_budget_note_states_the_elapsed_time() {
        for (max, passed, says) in [
            ("10m", 500_250, "taken 8m 20s of at most 10m."),
            ("1h 30m", 5_000_000, "taken 1h 23m 20s of at most 1h 30m."),
            ("900ms", 850, "taken 850ms of at most 900ms."),
        ] {
            let step = step(&params(max, 0.8).check().unwrap(), passed, true, true, vec![]);
            let Action::Edits(edits) = step.action else { panic!("it asks") };
            assert!(matches!(&edits[..], [Edit::Note(note)] if note.contains(says)), "{says}: {edits:?}");
        }
    }

    #[test]
    fn sleeps_without_a_bound_and_never_warns_without_a_share() {
        for none in [Params::default(), params("0s", 1.0)] {
            assert_eq!(does(&none.check().unwrap(), 9_999, true, true, &mut vec![]), ("", u64::MAX));
        }
        let bounds = params("10ms", 1.0).check().unwrap();
        assert_eq!(does(&bounds, 9, true, true, &mut vec![]), ("", 10));
        assert_eq!(does(&bounds, 10, true, true, &mut vec![]), ("stop", 0));
    }

    #[test]
    fn senseless_params_are_refused() {
        for (max, share, names) in [
            ("", 0.8, "`max_duration` is ``"),
            ("ten minutes", 0.8, "`max_duration` is `ten minutes`"),
            ("-1s", 0.8, "`max_duration` is `-1s`"),
            ("5", 0.8, "`max_duration` is `5`"),
            ("5us", 0.8, "at least 1ms"),
            ("5s", 0.0, "`warn_threshold` is 0"),
            ("5s", 1.5, "`warn_threshold` is 1.5"),
            ("5s", f64::NAN, "`warn_threshold`"),
        ] {
            let error = params(max, share).check().unwrap_err();
            assert!(error.message().contains(names), "{error:?}");
        }
    }
}
