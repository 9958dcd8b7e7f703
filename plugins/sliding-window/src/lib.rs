//! An effect that divides the conversation into zones once it fills much of the context window. The newest messages stay
//! as they are. In the messages before them tool results are trimmed, but never errors. Older messages are replaced by
//! one summary, for which the effect asks the model and which includes the previous summary. The summary contains, word
//! for word, everything that a person said and nobody has answered yet. If the model returns no summary, nothing is
//! replaced, and it is asked again when the conversation has grown by a tenth.
//!
//! Params, with their defaults: `{"threshold": 0.7, "recent_zone": 10, "medium_zone": 10, "trim_length": 200}`.
//! `threshold` is the share of the context window from which on the effect acts. `recent_zone` and `medium_zone` are the
//! numbers of messages in the two zones. A zone is larger if a reply and its results would be split, or if the model has
//! not read the messages yet. `trim_length` is the number of characters that remain of a trimmed result.

use serde::Deserialize;
use shelly_plugin::{
    Error,
    chat::{self, Entry, Traits},
    config,
    effect::{self, Edit, Effect, EffectInput, NewResult, Phase, Step},
    shorten,
    summary::{Pace, Span},
    types::{Completion, Role},
};

shelly_plugin::export!(effect: SlidingWindow);

/// The version of the state.
const VERSION: u8 = 1;

struct SlidingWindow;

#[derive(Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The share of the context window from which on the effect acts.
    threshold: f64,
    /// The number of messages at the end that stay as they are.
    recent_zone: u32,
    /// The number of messages before them whose results are trimmed.
    medium_zone: u32,
    /// The number of characters that remain of a result.
    trim_length: usize,
}

impl Default for Params {
    fn default() -> Params {
        Params { threshold: 0.7, recent_zone: 10, medium_zone: 10, trim_length: 200 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        effect::check_share("threshold", self.threshold)?;
        for (param, value) in [("recent_zone", self.recent_zone as usize), ("trim_length", self.trim_length)] {
            if value == 0 {
                return Err(Error::Invalid(format!("params: `{param}` is 0; use at least 1")));
            }
        }
        Ok(self)
    }
}

impl Effect for SlidingWindow {
    fn eval(mut input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        let pace: Pace = effect::remembered(VERSION, &state);
        match (input.reply.take(), pace.asked) {
            (Some(reply), Some(span)) => Ok(finish(&params, &input, pace, span, reply)),
            _ => Ok(begin(&params, &input, pace)),
        }
    }
}

fn begin(params: &Params, input: &EffectInput, mut pace: Pace) -> Step {
    if !input.fills(params.threshold) {
        let wake = input.until_fills(params.threshold, chat::tokens_since_reply());
        return Step::edits(Vec::new(), Vec::new()).until(wake);
    }
    let entries = chat::all_entries(0, input.messages);
    let zones = Zones::of(&entries, params);
    if pace.is_time(input) && Span::is_worth_it(&entries[zones.older.clone()], input) {
        let span = Span::of(&entries[zones.older.clone()]);
        let ask = span.and_then(|span| Some((span, span.ask(input.context_window.unwrap_or(0), None)?)));
        if let Some((span, ask)) = ask {
            pace.asked = Some(span);
            return Step::ask(effect::state(VERSION, &pace), ask);
        }
    }
    Step::edits(effect::state(VERSION, &pace), trims(&entries, &zones, params.trim_length))
}

fn finish(params: &Params, input: &EffectInput, mut pace: Pace, span: Span, reply: Result<Completion, Error>) -> Step {
    let entries = chat::all_entries(0, input.messages);
    let mut edits = trims(&entries, &Zones::of(&entries, params), params.trim_length);
    match span.replace("sliding-window", input.context_window.unwrap_or(0), reply) {
        Ok(replacement) => {
            pace.folded();
            edits.push(Edit::Replace(replacement));
        }
        Err(why) => {
            shelly_plugin::warn!("the old messages stay, because they cannot be summarized: {why}");
            pace.wait(input);
        }
    }
    Step::edits(effect::state(VERSION, &pace), edits)
}

/// The zones of the conversation, as positions that split no group. All later messages are recent.
#[derive(Debug, PartialEq)]
struct Zones {
    /// The messages that a summary replaces, including the previous summary.
    older: std::ops::Range<usize>,
    /// The messages whose results are trimmed.
    medium: std::ops::Range<usize>,
}

impl Zones {
    fn of(entries: &[Entry], params: &Params) -> Zones {
        let start = usize::from(entries.first().is_some_and(|entry| entry.role == Role::System));
        // All messages that the model has not read are recent, however many there are.
        let recent = chat::border(entries, params.recent_zone as usize).min(chat::unread(entries)).max(start);
        let medium = chat::border(&entries[..recent], params.medium_zone as usize).max(start);
        Zones { older: start..medium, medium: medium..recent }
    }
}

fn trims(entries: &[Entry], zones: &Zones, most: usize) -> Vec<Edit> {
    let is_long = |entry: &Entry| {
        // A token has about four bytes.
        entry.traits.contains(Traits::RESULTS) && entry.tokens as usize * 4 > most + shorten::LEAST_SAVED
    };
    let (long, _) = chat::readable(&entries[zones.medium.clone()], is_long);
    let messages = long.iter().filter_map(|at| chat::message((zones.medium.start + at) as u32));
    let mut edits = Vec::new();
    for message in messages {
        for result in shorten::results(&message).filter(|result| !result.is_error) {
            if let Some(content) = shorten::cut(&result.content, most, mark) {
                edits.push(Edit::ReplaceResult(NewResult { call_id: result.call_id.clone(), content }));
            }
        }
    }
    edits
}

fn mark(cut: usize) -> String {
    format!("[{} more characters were here; call the tool again if you need them]", shorten::number(cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_zones_cover_whole_groups_after_the_system_prompt() {
        let entry = |role, group| Entry { id: 1, role, traits: Traits::empty(), group, tokens: 1 };
        let mut chat = vec![entry(Role::System, None), entry(Role::User, None)];
        for group in [3, 6, 9] {
            let group = Some(group);
            chat.extend([entry(Role::Assistant, group), entry(Role::Tool, group), entry(Role::Tool, group)]);
        }
        for (recent_zone, medium_zone, older, medium) in [
            (1, 1, 1..5, 5..8),
            (3, 3, 1..5, 5..8),
            (4, 1, 1..2, 2..5),
            (3, 0, 1..8, 8..8),
            (1, 7, 1..1, 1..8),
            (99, 99, 1..1, 1..1),
        ] {
            let params = Params { recent_zone, medium_zone, ..Params::default() };
            assert_eq!(Zones::of(&chat, &params), Zones { older, medium }, "{recent_zone} and {medium_zone}");
        }
        assert_eq!(Zones::of(&[], &Params::default()), Zones { older: 0..0, medium: 0..0 });
    }

    #[test]
    fn senseless_params_are_refused() {
        assert!(Params::default().check().is_ok());
        for params in [
            Params { threshold: 2.0, ..Params::default() },
            Params { recent_zone: 0, ..Params::default() },
            Params { trim_length: 0, ..Params::default() },
        ] {
            assert!(params.check().is_err());
        }
    }
}
