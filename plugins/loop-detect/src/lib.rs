//! Watches for an agent that makes the same tool call over and over: same tool, same arguments. From `threshold` calls in
//! a row on it tells the model so, each time the number grows; at `stop_after` of them it stops the run. It counts no
//! further than `window_size`.
//!
//! Params: `{"threshold": 3, "window_size": 10, "stop_after": 0}`, which are the defaults; a `stop_after` of 0 stops
//! nothing.
//!
//! Without the power `see-arguments` all arguments look alike, and calls that only differ in them count as the same.

use serde::Deserialize;
use shelly_plugin::{
    Error, Message, Part, chat,
    chat::Traits,
    config,
    effect::{Edit, Effect, Moment, Phase, Step, Stop, Wake},
    text,
    types::ToolCall,
};

mod state;

use state::State;

shelly_plugin::export!(effect: LoopDetect);

/// Most calls that are counted.
const MAX_WINDOW: u32 = 100;

/// Most messages looked at from the end: a call, its result and notes for each of them.
const MESSAGES: usize = 512;

/// Arguments are shown up to so many characters.
const MAX_SHOWN: usize = 200;

struct LoopDetect;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// From this many equal calls in a row on the model is told.
    threshold: u32,
    /// It counts no further: no note follows the one that tells of so many.
    window_size: u32,
    /// At this many the run ends. 0: never.
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
            format!("`threshold` is {threshold}; it must be at least 2: one call repeats nothing")
        } else if !(threshold..=MAX_WINDOW).contains(&window_size) {
            format!(
                "`window_size` is {window_size}; it must be at least `threshold`, {threshold}, at most {MAX_WINDOW}"
            )
        } else if stop_after != 0 && !(threshold..=window_size).contains(&stop_after) {
            format!(
                "`stop_after` is {stop_after}; it must be 0, which stops nothing, or at least `threshold`, {threshold}, \
                 and at most `window_size`, {window_size}"
            )
        } else {
            return Ok(self);
        };
        Err(Error::Invalid(format!("params: {wrong}")))
    }
}

/// A call as far as it can be equal to another.
#[derive(Debug, Clone, PartialEq)]
struct Call {
    tool: String,
    arguments: String,
}

impl Call {
    /// With sorted keys and no white space in its arguments.
    fn canonical(self) -> Call {
        Call { arguments: canonical(&self.arguments), ..self }
    }

    fn is_same(&self, other: &Call) -> bool {
        // Most that are equal are written alike.
        let arguments =
            || self.arguments == other.arguments || canonical(&self.arguments) == canonical(&other.arguments);
        self.tool == other.tool && arguments()
    }
}

/// The same text for the same JSON.
fn canonical(json: &str) -> String {
    // Keys of a `Value` are sorted.
    serde_json::from_str::<serde_json::Value>(json).map_or_else(|_| json.to_owned(), |value| value.to_string())
}

impl Effect for LoopDetect {
    fn eval(moment: Moment, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if moment.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        // Before the first turn whatever is there was done for another task.
        let repeated = (moment.iteration > 0).then(|| repeated_call(moment.messages, params.window_size)).flatten();
        Ok(step(&params, repeated, moment.iteration, &state))
    }
}

/// The answer, given the call that the chat ends with and how often in a row it was made.
fn step(params: &Params, repeated: Option<(Call, u32)>, iteration: u32, state: &[u8]) -> Step {
    let count = repeated.as_ref().map_or(0, |(_, count)| *count);
    let Some((call, count)) = repeated.filter(|(_, count)| *count >= params.threshold) else {
        // A turn makes a call; so many turns must pass before there can be enough of them.
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
             have, change the arguments, try another tool, or say what is in the way.{}",
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

/// The call that the chat ends with, and how often it was made in a row, counted up to `max`. Reads only the messages
/// that have calls, from the end on, until one differs.
fn repeated_call(messages: u32, max: u32) -> Option<(Call, u32)> {
    let mut tail = Tail::default();
    for (place, entry) in chat::newest(messages).take(MESSAGES) {
        // What a person says begins something new.
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

/// Equal calls, counted from the end of the chat backwards.
#[derive(Default)]
struct Tail {
    /// As it was made last.
    call: Option<Call>,
    count: u32,
}

impl Tail {
    /// Adds the calls of the message before. False as soon as one differs.
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
    use shelly_plugin::{effect::Action, types::Role};

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
        // Calls in a row, and what comes of them: the iteration slept to, a note, a stop.
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
            assert_eq!(answer.wake.map(|wake| wake.iteration.unwrap()), wake, "turn {turn}");
            assert_eq!(edits.iter().any(|edit| matches!(edit, Edit::Note(_))), note, "turn {turn}");
            assert_eq!(edits.iter().any(|edit| matches!(edit, Edit::Stop(s) if s.code == "loop")), stop, "turn {turn}");
            state = answer.state;
        }
        // Another call is another matter.
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
