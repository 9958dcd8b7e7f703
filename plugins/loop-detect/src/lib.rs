//! An effect that detects an agent that repeats the same tool call: same tool, same arguments. From `threshold` calls in
//! a row on it tells the model, each time the number grows; at `stop_after` calls it stops the run. It counts at most
//! `window_size` calls.
//!
//! Params, with their defaults: `{"threshold": 3, "window_size": 10, "stop_after": 0}`. A `stop_after` of 0 never stops
//! the run.
//!
//! Without the power `see-arguments` all arguments look equal, and calls that differ only in their arguments count as the
//! same.

use serde::Deserialize;
use shelly_plugin::{
    Error, Message, Part, chat,
    chat::Traits,
    config,
    effect::{Edit, Effect, EffectInput, Phase, Step, Stop, Wake},
    text,
    types::ToolCall,
};

mod state;

use state::State;

shelly_plugin::export!(effect: LoopDetect);

/// The maximum number of calls that are counted.
const MAX_WINDOW: u32 = 100;

/// The maximum number of messages that are examined from the end: a call, its result and notes for each counted call.
const MESSAGES: usize = 512;

/// The maximum number of characters of arguments that are shown.
const MAX_SHOWN: usize = 200;

struct LoopDetect;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The number of equal calls in a row from which on the model is told.
    threshold: u32,
    /// The maximum number that is counted. No further note follows the one at this number.
    window_size: u32,
    /// The number at which the run ends; 0: never.
    stop_after: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { threshold: 3, window_size: 10, stop_after: 0 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        let Params { threshold, window_size, stop_after } = self;
        let wrong = if threshold < 2 {
            format!("`threshold` is {threshold}; use at least 2, because one call repeats nothing")
        } else if !(threshold..=MAX_WINDOW).contains(&window_size) {
            format!("`window_size` is {window_size}; use `threshold`, {threshold}, to {MAX_WINDOW}")
        } else if stop_after != 0 && !(threshold..=window_size).contains(&stop_after) {
            format!(
                "`stop_after` is {stop_after}; use 0 to stop nothing, or `threshold`, {threshold}, to `window_size`, \
                 {window_size}"
            )
        } else {
            return Ok(self);
        };
        Err(Error::Invalid(format!("params: {wrong}")))
    }
}

/// A tool call, reduced to the properties that are compared.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    tool: String,
    arguments: String,
}

impl Call {
    /// Returns the call with sorted keys and no whitespace in its arguments.
    fn canonical(self) -> Call {
        Call { arguments: canonical(&self.arguments), ..self }
    }

    fn is_same(&self, other: &Call) -> bool {
        // Most equal calls are written identically.
        let arguments =
            || self.arguments == other.arguments || canonical(&self.arguments) == canonical(&other.arguments);
        self.tool == other.tool && arguments()
    }
}

/// Returns the same text for equal JSON.
fn canonical(json: &str) -> String {
    // Keys of a `Value` are sorted.
    serde_json::from_str::<serde_json::Value>(json).map_or_else(|_| json.to_owned(), |value| value.to_string())
}

impl Effect for LoopDetect {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        // Calls from before the first turn belong to another task.
        let repeated = (input.iteration > 0).then(|| repeated_call(input.messages, params.window_size)).flatten();
        Ok(step(&params, repeated, input.iteration, &state))
    }
}

/// Returns the effect's answer, given the last call of the chat and the number of times that it was made in a row.
fn step(params: &Params, repeated: Option<(Call, u32)>, iteration: u32, state: &[u8]) -> Step {
    let count = repeated.as_ref().map_or(0, |(_, count)| *count);
    let Some((call, count)) = repeated.filter(|(_, count)| *count >= params.threshold) else {
        // Each turn makes a call, so this many turns must pass before there can be enough of them.
        let wake = Wake::at_iteration(iteration + params.threshold - count);
        return Step::edits(State::default().encode(), Vec::new()).until(wake);
    };
    let noted = State::decode(state);
    let now = State::new(&call, count);
    let edit = if params.stop_after != 0 && count >= params.stop_after {
        vec![Edit::Stop(Stop {
            code: "loop".into(),
            message: format!("{} was called {count} times in a row", shown(&call)),
        })]
    } else if noted.call != now.call || noted.count < count {
        vec![Edit::Note(format!(
            "You have called {} {count} times in a row. Calling it again gives nothing new: use the results that you \
             have, change the arguments, try another tool, or say what prevents you.{}",
            shown(&call),
            match params.stop_after {
                0 => String::new(),
                most => format!(" At {most} calls the run is stopped."),
            }
        ))]
    } else {
        Vec::new()
    };
    Step::edits(now.encode(), edit)
}

fn shown(call: &Call) -> String {
    format!("`{}` with `{}`", call.tool, text::short(&call.arguments, MAX_SHOWN))
}

/// Returns the last call of the chat and the number of times that it was made in a row, counted up to `max`. Reads only
/// the messages with calls, from the end, until one differs.
fn repeated_call(messages: u32, max: u32) -> Option<(Call, u32)> {
    let mut tail = Tail::default();
    for (place, entry) in chat::newest(messages).take(MESSAGES) {
        // A message of a person begins something new.
        if tail.count >= max || entry.is_said_by_person() {
            break;
        }
        if entry.traits.contains(Traits::CALLS) && !chat::message(place).is_none_or(|message| tail.take(message)) {
            break;
        }
    }
    let count = tail.count.min(max);
    tail.call.map(|call| (call.canonical(), count))
}

/// A run of equal calls, counted backwards from the end of the chat.
#[derive(Default)]
struct Tail {
    /// The newest of the calls.
    call: Option<Call>,
    count: u32,
}

impl Tail {
    /// Adds the calls of the previous message. Returns `false` as soon as one differs.
    fn take(&mut self, message: Message) -> bool {
        for part in message.parts.into_iter().rev() {
            let Part::ToolCall(ToolCall { name: tool, arguments, .. }) = part else { continue };
            let call = Call { tool, arguments };
            match &self.call {
                Some(last) if !last.is_same(&call) => return false,
                Some(_) => {}
                None => self.call = Some(call),
            }
            self.count += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use shelly_plugin::{
        effect::{Action, NextCall},
        types::Role,
    };

    use super::*;

    fn message(calls: &[(&str, &str)]) -> Message {
        let parts = calls.iter().map(|(name, arguments)| {
            Part::ToolCall(ToolCall {
                id: "1".into(),
                name: (*name).into(),
                arguments: (*arguments).into(),
                meta: vec![],
            })
        });
        Message { parts: parts.collect(), ..Message::new(Role::Assistant, "") }
    }

    fn call(arguments: &str) -> Call {
        Call { tool: "read".into(), arguments: arguments.into() }
    }

    #[test]
    fn loop_detect_counts_equal_calls_from_the_end() {
        let mut tail = Tail::default();
        assert!(tail.take(message(&[("read", r#"{"a":1,"b":2}"#)])));
        assert!(tail.take(message(&[("read", r#"{ "b": 2, "a": 1 }"#), ("read", r#"{"a":1,"b":2}"#)])));
        assert!(!tail.take(message(&[("read", r#"{"a":1,"b":2}"#), ("read", r#"{"a":1}"#)])));
        assert_eq!((tail.call.as_ref(), tail.count), (Some(&call(r#"{"a":1,"b":2}"#)), 3));
        assert!(!Tail { call: Some(call("{}")), count: 1 }.take(message(&[("write", "{}")])));
    }

    #[test]
    fn loop_detect_notes_once_per_count_and_then_stops_the_run() {
        let params = Params { stop_after: 5, ..Params::default() }.check().unwrap();
        let mut state = Vec::new();
        // The number of calls in a row, and the effect: the iteration to wake at, a note, a stop.
        let turns = [
            (None, Some(3), false, false),
            (Some(1), Some(4), false, false),
            (Some(3), None, true, false),
            (Some(3), None, false, false),
            (Some(4), None, true, false),
            (Some(5), None, false, true),
        ];
        for (turn, (count, wake, note, stop)) in turns.into_iter().enumerate() {
            let iteration = if turn == 0 { 0 } else { 2 };
            let answer = step(&params, count.map(|count| (call("{}"), count)), iteration, &state);
            let Action::Edits(edits) = answer.action else { panic!("no edits") };
            let next_call = wake.map_or(NextCall::NextPhase, |wake| NextCall::When(Wake::at_iteration(wake)));
            assert_eq!(answer.next_call, next_call, "turn {turn}");
            assert_eq!(edits.iter().any(|edit| matches!(edit, Edit::Note(_))), note, "turn {turn}");
            assert_eq!(edits.iter().any(|edit| matches!(edit, Edit::Stop(s) if s.code == "loop")), stop, "turn {turn}");
            state = answer.state;
        }
        // A different call starts a new count.
        let answer = step(&params, Some((call("[1]"), 3)), 9, &state);
        assert!(matches!(answer.action, Action::Edits(edits) if edits.len() == 1));
    }

    #[test]
    fn loop_note_names_the_call_and_is_short() {
        let answer = step(&Params::default(), Some((call(&"ä".repeat(9_000)), 3)), 3, &[]);
        let Action::Edits(edits) = answer.action else { panic!("no edits") };
        let [Edit::Note(note)] = &edits[..] else { panic!("no note") };
        assert!(note.starts_with("You have called `read` with `ää") && note.len() < 1_000, "{note}");
    }

    #[test]
    fn senseless_params_are_refused() {
        for (threshold, window_size, stop_after, names) in [
            (0, 10, 0, "`threshold` is 0"),
            (1, 10, 5, "`threshold` is 1"),
            (4, 10, 3, "`stop_after` is 3"),
            (4, 10, 11, "`stop_after` is 11"),
            (4, 3, 0, "`window_size` is 3"),
            (4, 101, 0, "`window_size` is 101"),
        ] {
            let error = Params { threshold, window_size, stop_after }.check().err().unwrap();
            assert!(error.message().contains(names), "{error:?}");
        }
        for (threshold, window_size, stop_after) in [(2, 2, 0), (2, 100, 2), (3, 10, 10)] {
            assert!(Params { threshold, window_size, stop_after }.check().is_ok());
        }
    }

    #[test]
    fn loop_detect_stops_a_run_only_if_configured() {
        let answer = step(&Params::default(), Some((call("{}"), 10)), 12, &[]);
        let Action::Edits(edits) = answer.action else { panic!("no edits") };
        let [Edit::Note(note)] = &edits[..] else { panic!("no note: {edits:?}") };
        assert!(note.contains("10 times in a row") && !note.contains("stopped"), "{note}");
    }
}
