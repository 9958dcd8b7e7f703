//! An effect that asks an agent to reflect when several steps in a row fail. A step is a reply with calls; it fails if
//! all of its results are errors. From `failure_threshold` failed steps in a row on the agent is told, again with each
//! further one. A step with any successful call ends the row, and so does a new task.
//!
//! Params, with their defaults: `{"failure_threshold": 2}`.

use serde::Deserialize;
use shelly_plugin::{
    Error, chat,
    chat::{Entry, Traits},
    config,
    effect::{Edit, Effect, EffectInput, Phase, Step, Wake},
    types::Role,
};

shelly_plugin::export!(effect: Reflection);

/// The maximum number of steps that are counted.
const MAX_STEPS: u32 = 100;

/// The version of the state: a byte, then eight bytes with the id of the last failed step that was reported.
const VERSION: u8 = 1;

struct Reflection;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The number of failed steps in a row from which on the model is told.
    failure_threshold: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { failure_threshold: 2 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        let steps = self.failure_threshold;
        if !(1..=MAX_STEPS).contains(&steps) {
            return Err(Error::Invalid(format!("params: `failure_threshold` is {steps}; use 1 to {MAX_STEPS} steps")));
        }
        Ok(self)
    }
}

impl Effect for Reflection {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        // Steps from before the first turn belong to another task.
        let failed = if input.iteration == 0 { Row::default() } else { failed_steps(input.messages) };
        Ok(step(params.failure_threshold, &failed, input.iteration, state))
    }
}

/// Returns the effect's answer, given the failed steps at the end of the chat.
fn step(threshold: u32, failed: &Row, iteration: u32, state: Vec<u8>) -> Step {
    let Some(newest) = failed.newest.filter(|_| failed.steps >= threshold) else {
        // Each turn makes a step, so this many turns must pass before there can be enough of them.
        let wake = Wake::at_iteration(iteration.saturating_add(threshold - failed.steps));
        return Step::edits(state, Vec::new()).until(wake);
    };
    let told = [&[VERSION], &newest.to_le_bytes()[..]].concat();
    let edits = if state == told { Vec::new() } else { vec![Edit::Note(question(failed.steps))] };
    Step::edits(told, edits)
}

fn question(steps: u32) -> String {
    let row = match steps {
        1 => "Your last step failed: every call in it".to_owned(),
        MAX_STEPS.. => format!("Your last {MAX_STEPS} steps and more failed: every call in them"),
        _ => format!("Your last {steps} steps failed: every call in them"),
    };
    format!(
        "{row} ended with an error. Before you continue, say in a sentence or two why it failed and what you will do \
         differently: look at what is there first, use other arguments or another tool, or take a smaller step. If \
         there is nothing left to try, answer with what prevents you."
    )
}

/// Counts the failed steps at the end of the chat. Reads only facts about messages, not their text, from the end until a
/// step did not fail.
fn failed_steps(messages: u32) -> Row {
    let mut row = Row::default();
    let _ = chat::newest(messages).all(|(_, entry)| row.take(&entry));
    row
}

/// A row of failed steps, counted backwards from the end of the chat.
#[derive(Debug, Default)]
struct Row {
    steps: u32,
    /// The id of the newest failed step.
    newest: Option<u64>,
    /// The id of the step whose results have all been errors so far.
    open: Option<u64>,
}

impl Row {
    /// Adds the previous message. Returns `false` where the row ends.
    fn take(&mut self, entry: &Entry) -> bool {
        if entry.traits.contains(Traits::RESULTS) {
            self.open = entry.group;
            return entry.traits.contains(Traits::FAILED);
        }
        if entry.traits.contains(Traits::CALLS) && self.open == Some(entry.id) {
            self.newest.get_or_insert(entry.id);
            self.steps += 1;
        }
        let is_new_task = entry.role == Role::User && !entry.traits.contains(Traits::NOTE);
        !is_new_task && self.steps < MAX_STEPS
    }
}

#[cfg(test)]
mod tests {
    use shelly_plugin::effect::{Action, NextCall};

    use super::*;

    /// Builds a chat from letters: `c` a reply with calls, `t` one without, `e` an error, `r` another result, `u` a
    /// person, `n` a note.
    fn row(chat: &str) -> (u32, Option<u64>) {
        let mut group = None;
        let entries: Vec<_> = (0..)
            .zip(chat.chars())
            .map(|(id, letter)| {
                let (role, traits) = match letter {
                    'c' => (Role::Assistant, Traits::CALLS),
                    't' => (Role::Assistant, Traits::empty()),
                    'e' => (Role::Tool, Traits::RESULTS | Traits::FAILED),
                    'r' => (Role::Tool, Traits::RESULTS),
                    'u' => (Role::User, Traits::empty()),
                    'n' => (Role::User, Traits::NOTE),
                    other => panic!("{other}"),
                };
                group = if letter == 'c' { Some(id) } else { group };
                let of = group.filter(|_| "cer".contains(letter));
                Entry { id, role, traits, group: of, tokens: 1 }
            })
            .collect();
        let mut row = Row::default();
        let _ = entries.iter().rev().all(|entry| row.take(entry));
        (row.steps, row.newest)
    }

    #[test]
    fn reflection_counts_failed_steps_from_the_end() {
        for (chat, steps, newest) in [
            ("", 0, None),
            ("u", 0, None),
            ("ucr", 0, None),
            ("uce", 1, Some(1)),
            ("uceece", 2, Some(4)),
            // Any success ends the row, wherever it is in its step.
            ("uceecre", 0, None),
            ("ucecerce", 1, Some(6)),
            ("ucercee", 1, Some(4)),
            // Notes and replies without calls do not end the row and are not steps; a new task ends it.
            ("ucencen", 2, Some(4)),
            ("ucetnce", 2, Some(5)),
            ("uceuce", 1, Some(4)),
            ("uceu", 0, None),
        ] {
            assert_eq!(row(chat), (steps, newest), "{chat}");
        }
        assert_eq!(row(&"ce".repeat(500)), (MAX_STEPS, Some(998)));
    }

    #[test]
    fn reflection_notes_each_failed_step_once() {
        let mut state = Vec::new();
        // The failed steps and the newest of them; the iteration to wake at, and whether the model is told.
        for (steps, newest, wake, tells) in [
            (0, None, Some(9), false),
            (1, Some(1), Some(8), false),
            (2, Some(3), None, true),
            (2, Some(3), None, false),
            (3, Some(5), None, true),
            // After a success, or after the failed steps were removed from the chat.
            (0, None, Some(9), false),
            (2, Some(9), None, true),
        ] {
            let answer = step(2, &Row { steps, newest, open: None }, 7, state);
            let Action::Edits(edits) = answer.action else { panic!("it asks") };
            assert_eq!(matches!(&edits[..], [Edit::Note(_)]), tells, "{steps} {newest:?}");
            assert_eq!(edits.is_empty(), !tells, "{steps} {newest:?}");
            let next_call = wake.map_or(NextCall::NextPhase, |wake| NextCall::When(Wake::at_iteration(wake)));
            assert_eq!(answer.next_call, next_call, "{steps} {newest:?}");
            state = answer.state;
        }
        // The state of another version counts as empty.
        for strange in [vec![], vec![VERSION], vec![9; 9]] {
            let answer = step(2, &Row { steps: 2, newest: Some(9), open: None }, 7, strange);
            assert!(matches!(answer.action, Action::Edits(edits) if edits.len() == 1));
        }
    }

    #[test]
    fn reflection_note_states_the_number_of_failed_steps() {
        for (steps, says) in [
            (1, "Your last step failed: every call in it ended"),
            (3, "Your last 3 steps failed: every call in them ended"),
            (100, "Your last 100 steps and more failed"),
        ] {
            assert!(question(steps).starts_with(says), "{}", question(steps));
        }
    }

    #[test]
    fn senseless_params_are_refused() {
        for failure_threshold in [0, 101] {
            let error = Params { failure_threshold }.check().err().unwrap();
            assert!(error.message().contains("`failure_threshold`"), "{error:?}");
        }
    }
}
