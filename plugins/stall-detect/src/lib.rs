//! An effect that detects an agent whose tools keep returning the same result, whatever the arguments. Once a single
//! result makes up the share `similarity_threshold` of the last `window` results, the effect tells the model. If that is
//! still so after another window, it stops the run. Results are equal if they come from the same tool, are both errors or
//! both not, and begin with the same 200 bytes. A new task resets the count.
//!
//! Params, with their defaults: `{"window": 6, "similarity_threshold": 0.8}`. A threshold of 0.5 also catches two results
//! that alternate, but some honest work as well.
//!
//! Content that the powers `see-messages` and `see-results` do not show is not counted.

use serde::Deserialize;
use shelly_plugin::{
    Error, Part, chat,
    chat::{Entry, Traits},
    config,
    effect::{Edit, Effect, EffectInput, Phase, Step, Stop, Wake},
    types::Role,
};

mod fingerprint;
mod state;

use state::State;

shelly_plugin::export!(effect: StallDetect);

/// The maximum number of results that are compared.
const MAX_WINDOW: usize = 100;

struct StallDetect;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The number of results that are compared.
    window: usize,
    /// The share of them that must be equal.
    similarity_threshold: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params { window: 6, similarity_threshold: 0.8 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        let (window, share) = (self.window, self.similarity_threshold);
        if !(2..=MAX_WINDOW).contains(&window) {
            return Err(Error::Invalid(format!("params: `window` is {window}; use 2 to {MAX_WINDOW} results")));
        }
        // A single result always equals itself.
        let least = 1.0 / window as f64;
        if !(share > least && share <= 1.0) {
            return Err(Error::Invalid(format!(
                "params: `similarity_threshold` is {share}; use a share above 1/{window}, the share of a single \
                 result, and at most 1, such as 0.8"
            )));
        }
        Ok(self)
    }
}

impl Effect for StallDetect {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        if input.iteration == 0 {
            // Results from before the first turn belong to another task.
            return Ok(Step::edits(state, Vec::new()).until(Wake::at_iteration(1)));
        }
        let mut state = State::decode(&state);
        let fresh = Fresh::since(state.seen, input.messages, params.window);
        if !fresh.goes_on {
            state = State::default();
        }
        state.seen = fresh.seen;
        state.results.extend(fingerprints(&fresh.places));
        let edit = judge(&params, &mut state);
        Ok(Step::edits(state.encode(), edit.into_iter().collect()))
    }
}

/// Returns the effect's edit for the results so far.
fn judge(params: &Params, state: &mut State) -> Option<Edit> {
    let old = state.results.len().saturating_sub(params.window);
    state.results.drain(..old);
    if state.results.len() < params.window {
        return None;
    }
    let most = most_alike(&state.results);
    if (most as f64) / (params.window as f64) < params.similarity_threshold {
        state.told = false;
        return None;
    }
    if state.told {
        return Some(Edit::Stop(Stop {
            code: "stall".into(),
            message: format!(
                "{most} of the last {} results of tools were the same, even after the agent was warned",
                params.window
            ),
        }));
    }
    // From now on a whole new window must follow.
    state.told = true;
    state.results.clear();
    Some(Edit::Note(format!(
        "{most} of the last {window} results of your tools were the same: your calls bring nothing new. Say in a \
         sentence what you know and what is missing, then try another way: other arguments, another tool, a smaller \
         step. If something prevents you that you cannot change, answer with that. If the next {window} results are \
         like these, the run is stopped.",
        window = params.window
    )))
}

/// Returns the number of occurrences of the most frequent result.
fn most_alike(results: &[u64]) -> usize {
    let mut sorted = results.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|one, next| one == next).map(<[_]>::len).max().unwrap_or(0)
}

/// The messages that were added to the chat.
#[derive(Debug, Default, PartialEq)]
struct Fresh {
    /// The id of the chat's last message.
    seen: Option<u64>,
    /// The positions and groups of the newest results, oldest first.
    places: Vec<(u32, Option<u64>)>,
    /// Set if the results continue those seen before: not after a new task, and not if the last seen message was removed.
    goes_on: bool,
}

impl Fresh {
    /// Collects at most `most` results after the message `seen` that belong to the newest task. In the first call all
    /// messages are new. If the message `seen` was removed, none is, because the remaining ones may have been seen
    /// before.
    fn since(seen: Option<u64>, messages: u32, most: usize) -> Fresh {
        let removed = seen.is_some_and(|id| chat::find(id).is_none());
        let mut fresh = Fresh { goes_on: !removed, ..Fresh::default() };
        let _ = chat::newest(messages).all(|(place, entry)| fresh.take(place, &entry, seen, most) && !removed);
        if removed {
            fresh.places.clear();
        }
        fresh.places.reverse();
        fresh
    }

    /// Adds the previous message. Returns `false` as soon as no more messages are needed.
    fn take(&mut self, place: u32, entry: &Entry, seen: Option<u64>, most: usize) -> bool {
        self.seen.get_or_insert(entry.id);
        if seen == Some(entry.id) || self.places.len() == most {
            return false;
        }
        if entry.role == Role::User && !entry.traits.contains(Traits::NOTE) {
            self.goes_on = false;
            return false;
        }
        // A result that an effect has edited says nothing about the tool.
        if entry.traits.contains(Traits::RESULTS) && !entry.traits.contains(Traits::EDITED) {
            self.places.push((place, entry.group));
        }
        true
    }
}

/// Returns the fingerprints of the results at these positions. Reads all messages once, from the call of the first result
/// on.
fn fingerprints(places: &[(u32, Option<u64>)]) -> Vec<u64> {
    let (Some((first, group)), Some((last, _))) = (places.first(), places.last()) else { return Vec::new() };
    let mut at = group.and_then(chat::find).unwrap_or(*first);
    let (mut calls, mut found) = (Vec::new(), Vec::new());
    while at <= *last {
        let messages = chat::read(at, last + 1);
        if messages.is_empty() {
            break;
        }
        for message in messages {
            let is_wanted = places.binary_search_by_key(&at, |(place, _)| *place).is_ok();
            found.extend(message.parts.into_iter().filter_map(|part| match part {
                Part::ToolCall(call) => {
                    calls.push((call.id, call.name));
                    None
                }
                Part::ToolResult(result) if is_wanted => {
                    // If two calls have the same id, the result belongs to the later one.
                    let call = calls.iter().rev().find(|(id, _)| *id == result.call_id);
                    fingerprint::of(call.map_or("", |(_, name)| name), &result)
                }
                _ => None,
            }));
            at += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the effect's answers to a sequence of results: `.` nothing, `n` a note, `s` a stop.
    fn course(params: &Params, results: &str) -> String {
        let mut state = State::default();
        let step = |result: char| {
            state.results.push(u64::from(result));
            let answer = match judge(params, &mut state) {
                None => '.',
                Some(Edit::Note(_)) => 'n',
                Some(Edit::Stop(stop)) if stop.code == "stall" => 's',
                Some(other) => panic!("{other:?}"),
            };
            state = State::decode(&state.encode());
            answer
        };
        results.chars().map(step).collect()
    }

    #[test]
    fn it_tells_once_and_stops_a_window_later() {
        let usual = Params::default().check().unwrap();
        let of = |window, similarity_threshold| Params { window, similarity_threshold }.check().unwrap();
        for (params, results, expected) in [
            (&usual, "aaaaa", "....."),
            (&usual, "abcdefghij", ".........."),
            (&usual, "aaaaaa", ".....n"),
            (&usual, "abaaaa", ".....n"),
            (&usual, "abcaaaaa", ".......n"),
            (&usual, "aaaaaaaaaaaa", ".....n.....s"),
            (&usual, "aaaaaabbbbbb", ".....n.....s"),
            // After different results the model is told again when it stalls again.
            (&usual, "aaaaaaabcdefffff", ".....n.........n"),
            (&usual, "abababababab", "............"),
            (&of(4, 0.5), "abababab", "...n...s"),
            (&of(2, 1.0), "aabb", ".n.s"),
            (&of(2, 1.0), "aabcc", ".n..n"),
            (&of(3, 1.0), "aabaabaab", "........."),
        ] {
            assert_eq!(course(params, results), expected, "{results}");
        }
    }

    fn entry(id: u64, letter: char) -> Entry {
        let (role, traits) = match letter {
            'c' => (Role::Assistant, Traits::CALLS),
            'r' => (Role::Tool, Traits::RESULTS),
            'x' => (Role::Tool, Traits::RESULTS | Traits::EDITED),
            'u' => (Role::User, Traits::empty()),
            'n' => (Role::User, Traits::NOTE),
            other => panic!("{other}"),
        };
        Entry { id, role, traits, group: None, tokens: 1 }
    }

    #[test]
    fn stall_detect_reads_only_new_results_of_the_current_task() {
        for (chat, seen, places, goes_on) in [
            ("ucrcr", None, vec![2, 4], false),
            ("ucrcr", Some(2), vec![4], true),
            ("ucrcrn", Some(5), vec![], true),
            ("ucrncrr", Some(3), vec![5, 6], true),
            ("ucrucr", Some(2), vec![5], false),
            ("ucxcr", Some(0), vec![4], true),
            ("ucrrrrrr", Some(0), vec![5, 6, 7], true),
        ] {
            let mut fresh = Fresh { goes_on: true, ..Fresh::default() };
            let entries = (0_u32..).zip(chat.chars()).map(|(id, letter)| (id, entry(id.into(), letter)));
            let entries: Vec<_> = entries.collect();
            let _ = entries.iter().rev().all(|(place, entry)| fresh.take(*place, entry, seen, 3));
            fresh.places.reverse();
            let found: Vec<_> = fresh.places.iter().map(|(place, _)| *place).collect();
            assert_eq!((found, fresh.goes_on), (places, goes_on), "{chat} {seen:?}");
            assert_eq!(fresh.seen, Some(chat.len() as u64 - 1), "{chat}");
        }
    }

    #[test]
    fn senseless_params_are_refused() {
        for (window, similarity_threshold, names) in [
            (1, 0.8, "`window` is 1"),
            (101, 0.8, "`window` is 101"),
            (6, 0.0, "`similarity_threshold` is 0"),
            (4, 0.25, "above 1/4"),
            (6, 1.1, "`similarity_threshold` is 1.1"),
            (6, f64::NAN, "`similarity_threshold`"),
        ] {
            let error = Params { window, similarity_threshold }.check().err().unwrap();
            assert!(error.message().contains(names), "{error:?}");
        }
    }
}
