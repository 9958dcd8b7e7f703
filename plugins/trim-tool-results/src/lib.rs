//! An effect that cuts tool results once the model has read them, so that long results are not sent again and again. The
//! newest results stay whole; errors are never cut.
//!
//! Params, with their defaults: `{"max_result_length": 500, "preserve_recent": 4}`. `max_result_length` is the number of
//! characters that remain of a result. `preserve_recent` is the number of newest messages with results that stay
//! unchanged; 0 or less means the default.

use serde::{Deserialize, Serialize};
use shelly_plugin::{
    Error,
    chat::{self, Entry, Traits},
    config,
    effect::{self, Edit, Effect, EffectInput, NewResult, Phase, Step},
    shorten,
};

shelly_plugin::export!(effect: TrimToolResults);

/// The version of the state.
const VERSION: u8 = 1;

struct TrimToolResults;

#[derive(Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The number of characters that remain of a result.
    max_result_length: usize,
    /// The number of newest messages with results that stay unchanged.
    preserve_recent: i64,
}

impl Default for Params {
    fn default() -> Params {
        Params { max_result_length: 500, preserve_recent: 4 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        if self.max_result_length == 0 {
            return Err(Error::Invalid(
                "params: `max_result_length` is 0; use at least 1, the number of characters that are left of a result"
                    .into(),
            ));
        }
        Ok(self)
    }

    fn preserved(&self) -> usize {
        let kept = if self.preserve_recent > 0 { self.preserve_recent } else { Params::default().preserve_recent };
        usize::try_from(kept).unwrap_or(usize::MAX)
    }
}

/// The progress of the effect: the last message that was processed.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    done: Option<u64>,
}

impl Effect for TrimToolResults {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::AfterModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        let done = effect::remembered::<State>(VERSION, &state).done;
        // The known message may have been replaced. Then all messages are checked again, and short results are skipped.
        let start = done.and_then(chat::find).map_or(0, |at| at + 1);
        let entries = chat::all_entries(start, input.messages);
        let old = &entries[..old(&entries, params.preserved())];
        let (long, end) = chat::readable(old, |entry| is_long(entry, params.max_result_length));
        let edits = long.iter().flat_map(|at| trim(start + *at as u32, params.max_result_length)).collect();
        let done = old[..end].last().map_or(done, |entry| Some(entry.id));
        Ok(Step::edits(effect::state(VERSION, &State { done }), edits))
    }
}

/// Returns the position of the first of the last `preserved` messages with results. The model has read every result that
/// is in the conversation now, because it has replied since.
fn old(entries: &[Entry], preserved: usize) -> usize {
    let has_results = |at: &usize| entries[*at].traits.contains(Traits::RESULTS);
    let last = preserved.saturating_sub(1);
    (0..entries.len()).rev().filter(has_results).nth(last).unwrap_or(0)
}

/// Returns `true` if the message may have a result to cut, as far as its size tells without reading it. A token has about
/// four bytes.
fn is_long(entry: &Entry, most: usize) -> bool {
    entry.traits.contains(Traits::RESULTS) && entry.tokens as usize * 4 > most + shorten::LEAST_SAVED
}

fn trim(position: u32, most: usize) -> Vec<Edit> {
    let message = chat::message(position);
    let results = message.iter().flat_map(shorten::results).filter(|result| !result.is_error);
    let edits = results.filter_map(|result| {
        let content = shorten::cut(&result.content, most, mark)?;
        Some(Edit::ReplaceResult(NewResult { call_id: result.call_id.clone(), content }))
    });
    edits.collect()
}

fn mark(cut: usize) -> String {
    format!("[{} more characters were here; call the tool again if you need them]", shorten::number(cut))
}

#[cfg(test)]
mod tests {
    use shelly_plugin::types::Role;

    use super::*;

    #[test]
    fn trim_keeps_the_newest_messages_with_results() {
        let entry = |role, traits| Entry { id: 1, role, traits, group: None, tokens: 9 };
        let (call, result) = (entry(Role::Assistant, Traits::CALLS), entry(Role::Tool, Traits::RESULTS));
        let chat = [call, result, result, call, result, call, result, call];
        for (preserved, expected) in [(1, 6), (2, 4), (3, 2), (4, 1), (5, 0), (9, 0)] {
            assert_eq!(old(&chat, preserved), expected, "preserve {preserved}");
        }
        assert_eq!(old(&[], 4), 0);
    }

    #[test]
    fn trim_params_are_validated_and_preserve_zero_means_default() {
        let params = |max_result_length, preserve_recent| Params { max_result_length, preserve_recent };
        assert!(params(0, 4).check().is_err());
        for (given, preserved) in [(0, 4), (-3, 4), (1, 1), (i64::MAX, i64::MAX as usize)] {
            assert_eq!(params(1, given).check().unwrap().preserved(), preserved, "for {given}");
        }
    }
}
