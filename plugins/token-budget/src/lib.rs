//! An effect that bounds the tokens that a run uses: all four counts of its own completions, without those of sub-agents.
//! At a share of the bound it tells the model to finish its work. At the bound it stops the run: before the next request
//! to the model, or before the calls of a reply are made. An answer that has arrived stays.
//!
//! Params, with their defaults: `{"max_tokens": 0, "warn_threshold": 0.8}`. A `max_tokens` of 0 means no bound; a
//! `warn_threshold` of 1 disables the warning.

use serde::Deserialize;
use shelly_plugin::{
    Error, chat,
    chat::Traits,
    config,
    effect::{Edit, Effect, EffectInput, Phase, Step, Stop, Wake},
    types::Usage,
};

shelly_plugin::export!(effect: TokenBudget);

/// The version of the state: a byte, then one that is 1 once the model was warned.
const VERSION: u8 = 1;

struct TokenBudget;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The number of tokens at which the run ends; 0: never.
    max_tokens: u64,
    /// The share of them at which the model is warned.
    warn_threshold: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params { max_tokens: 0, warn_threshold: 0.8 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        let share = self.warn_threshold;
        if !(share > 0.0 && share <= 1.0) {
            return Err(Error::Invalid(format!(
                "params: `warn_threshold` is {share}; use a share above 0 and at most 1, such as 0.8"
            )));
        }
        Ok(self)
    }

    /// Returns the number of tokens at which the model is warned.
    fn warn_at(&self) -> u64 {
        (self.max_tokens as f64 * self.warn_threshold).ceil() as u64
    }
}

impl Effect for TokenBudget {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        let can_stop = match input.phase {
            Phase::BeforeModel => true,
            Phase::AfterModel => wants_tools(input.messages),
            Phase::Other(_) => return Ok(Step::edits(state, Vec::new())),
        };
        let used = total(&input.run_usage);
        Ok(step(&params, used, input.phase == Phase::BeforeModel, can_stop, state))
    }
}

/// Returns the effect's answer after `used` tokens.
fn step(params: &Params, used: u64, is_before: bool, can_stop: bool, state: Vec<u8>) -> Step {
    let (most, warn_at) = (params.max_tokens, params.warn_at());
    let at = |tokens| Wake { run_tokens: Some(tokens), ..Wake::NEVER };
    let warned = vec![VERSION, 1];
    if most == 0 {
        Step::edits(state, Vec::new()).until(Wake::NEVER)
    } else if used >= most {
        let message = format!("the run has used {used} tokens, the maximum is {most}");
        let stop = can_stop.then(|| Edit::Stop(Stop { code: "token-budget".into(), message }));
        Step::edits(state, stop.into_iter().collect())
    } else if used < warn_at {
        Step::edits(state, Vec::new()).until(at(warn_at))
    } else if state == warned {
        Step::edits(state, Vec::new()).until(at(most))
    } else if is_before {
        let percent = u128::from(used) * 100 / u128::from(most);
        let note = Edit::Note(format!(
            "You have used {used} of your {most} tokens ({percent} %). Finish what you have begun, then answer. At \
             {most} the run is stopped."
        ));
        Step::edits(warned, vec![note]).until(at(most))
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

fn total(usage: &Usage) -> u64 {
    let counts = [usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, usage.cache_write_tokens];
    counts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use shelly_plugin::effect::{Action, NextCall};

    use super::*;

    /// Returns the effect's action and the number of tokens at which it wakes; 0: in the next phase.
    fn does(params: &Params, used: u64, is_before: bool, can_stop: bool, state: &mut Vec<u8>) -> (&'static str, u64) {
        let step = step(params, used, is_before, can_stop, state.clone());
        *state = step.state;
        let Action::Edits(edits) = step.action else { panic!("it asks") };
        let edit = match &edits[..] {
            [] => "",
            [Edit::Note(_)] => "note",
            [Edit::Stop(stop)] if stop.code == "token-budget" => "stop",
            other => panic!("{other:?}"),
        };
        let wake = match step.next_call {
            NextCall::NextPhase => 0,
            NextCall::When(wake) => wake.run_tokens.unwrap_or(u64::MAX),
            NextCall::Never => u64::MAX,
        };
        (edit, wake)
    }

    #[test]
    fn it_warns_once_then_stops_where_something_follows() {
        let params = Params { max_tokens: 1_000, ..Params::default() };
        let mut state = Vec::new();
        for (used, is_before, can_stop, expected) in [
            (0, true, true, ("", 800)),
            (799, false, true, ("", 800)),
            (850, false, false, ("", 0)),
            (850, true, true, ("note", 1_000)),
            (900, false, true, ("", 1_000)),
            (999, true, true, ("", 1_000)),
            (1_000, false, false, ("", 0)),
            (1_000, false, true, ("stop", 0)),
            (u64::MAX, true, true, ("stop", 0)),
        ] {
            assert_eq!(does(&params, used, is_before, can_stop, &mut state), expected, "{used} {is_before} {can_stop}");
        }
        // The state of another version counts as empty, so the effect warns.
        for mut strange in [vec![], vec![VERSION], vec![9, 1], vec![VERSION, 1, 1]] {
            assert_eq!(does(&params, 850, true, true, &mut strange), ("note", 1_000));
        }
    }

    #[test]
    fn sleeps_without_a_bound_and_never_warns_without_a_share() {
        assert_eq!(does(&Params::default(), 9_999, true, true, &mut vec![]), ("", u64::MAX));
        let params = Params { max_tokens: 10, warn_threshold: 1.0 };
        assert_eq!(does(&params, 9, true, true, &mut vec![]), ("", 10));
        assert_eq!(does(&params, 10, true, true, &mut vec![]), ("stop", 0));
    }

    #[test]
    fn token_budget_note_states_the_used_tokens() {
        let step = step(&Params { max_tokens: 1_000, ..Params::default() }, 850, true, true, vec![]);
        let Action::Edits(edits) = step.action else { panic!("it asks") };
        assert!(
            matches!(&edits[..], [Edit::Note(note)] if note.contains("850 of your 1000 tokens (85 %)")),
            "{edits:?}"
        );
    }

    #[test]
    fn token_budget_adds_all_four_usage_counts() {
        let usage = Usage { input_tokens: 1, output_tokens: 20, cache_read_tokens: 300, cache_write_tokens: 4_000 };
        assert_eq!(total(&usage), 4_321);
        assert_eq!(total(&Usage { input_tokens: u64::MAX, ..usage }), u64::MAX);
    }

    #[test]
    fn token_budget_share_out_of_range_is_refused() {
        for warn_threshold in [0.0, -0.5, 1.01, f64::NAN] {
            let error = Params { warn_threshold, ..Params::default() }.check().err().unwrap();
            assert!(error.message().contains("`warn_threshold`"), "{error:?}");
        }
    }
}
