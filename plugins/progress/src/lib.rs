//! An effect that asks an agent every `interval` turns for its progress: to write it down with its tool `write_note` if
//! it has one, else to state it together with its next call. Between these turns the effect is not started.
//!
//! Params, with their defaults: `{"interval": 5}`.

use serde::Deserialize;
use shelly_plugin::{
    Error, chat, config,
    effect::{Edit, Effect, EffectInput, Phase, Step, Wake},
};

shelly_plugin::export!(effect: Progress);

/// The tool for writing notes.
const WRITE_NOTE: &str = "write_note";

struct Progress;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The number of turns from one question to the next.
    interval: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { interval: 5 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        if self.interval == 0 {
            return Err(Error::Invalid("params: `interval` is 0; use at least 1 turn, such as 5".into()));
        }
        Ok(self)
    }
}

impl Effect for Progress {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        let can_write = || chat::tools().iter().any(|tool| tool == WRITE_NOTE);
        Ok(step(params.interval, input.iteration, can_write))
    }
}

/// Returns the effect's answer in this turn. No state is needed: the number of the turn decides.
fn step(interval: u32, iteration: u32, can_write: impl FnOnce() -> bool) -> Step {
    let since = iteration % interval;
    let is_due = iteration > 0 && since == 0;
    let edits = is_due.then(|| Edit::Note(question(iteration, can_write())));
    Step::edits(Vec::new(), edits.into_iter().collect())
        .until(Wake::at_iteration(iteration.saturating_add(interval - since)))
}

fn question(turns: u32, can_write: bool) -> String {
    let turns = if turns == 1 { "1 turn".to_owned() } else { format!("{turns} turns") };
    let rest = if can_write {
        "With your next call, write down with `write_note` what is done, what you found out and what comes next, so \
         that it is not lost. Then continue with the task: the note does not end it."
    } else {
        "Say in one sentence what is done and what comes next, and make your next call in the same reply, so that the \
         work continues. Answer without a call only if the task is done."
    };
    format!("You have worked for {turns}. {rest}")
}

#[cfg(test)]
mod tests {
    use shelly_plugin::effect::{Action, NextCall};

    use super::*;

    fn note(step: &Step) -> Option<&str> {
        match &step.action {
            Action::Edits(edits) => match &edits[..] {
                [] => None,
                [Edit::Note(note)] => Some(note),
                other => panic!("{other:?}"),
            },
            Action::AskModel(_) => panic!("it asks"),
        }
    }

    #[test]
    fn progress_note_is_added_once_per_interval() {
        for (interval, iteration, asks, wake) in [
            (5, 0, false, 5),
            (5, 3, false, 5),
            (5, 5, true, 10),
            (5, 7, false, 10),
            (5, 10, true, 15),
            (1, 0, false, 1),
            (1, 1, true, 2),
            (1, u32::MAX, true, u32::MAX),
        ] {
            let step = step(interval, iteration, || false);
            assert_eq!(note(&step).is_some(), asks, "{interval} {iteration}");
            assert_eq!(step.next_call, NextCall::When(Wake::at_iteration(wake)), "{interval} {iteration}");
        }
    }

    #[test]
    fn progress_asks_for_a_written_note_only_with_write_note() {
        for (iteration, can_write, says) in [
            (1, true, "worked for 1 turn. With your next call, write down with `write_note`"),
            (10, false, "worked for 10 turns. Say in one sentence"),
        ] {
            let step = step(1, iteration, || can_write);
            assert!(note(&step).unwrap().contains(says), "{step:?}");
        }
    }

    #[test]
    fn progress_interval_of_zero_is_refused() {
        assert!(Params { interval: 0 }.check().is_err_and(|error| error.message().contains("`interval` is 0")));
    }
}
