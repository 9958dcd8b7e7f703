//! An effect that hides old tool results once the conversation fills much of the context window. A placeholder keeps the
//! name of the tool and the beginning of the result. Errors and the newest messages stay.
//!
//! Params, with their defaults: `{"threshold": 0.6, "recent_window": 10}`. `threshold` is the share of the context window
//! from which on results are hidden. `recent_window` is the number of messages at the end of the conversation that stay
//! unchanged. Messages that the model has not read stay unchanged too.

use serde::{Deserialize, Serialize};
use shelly_plugin::{
    Error,
    chat::{self, Entry, Traits},
    config,
    effect::{self, Edit, Effect, EffectInput, NewResult, Phase, Step},
    shorten,
    types::ToolResult,
};

shelly_plugin::export!(effect: ObservationMask);

/// The version of the state.
const VERSION: u8 = 1;

/// The number of characters of a result that a placeholder shows.
const PREVIEW: usize = 80;

struct ObservationMask;

#[derive(Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The share of the context window from which on the effect acts.
    threshold: f64,
    /// The number of messages at the end that stay unchanged.
    recent_window: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { threshold: 0.6, recent_window: 10 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        effect::check_share("threshold", self.threshold)?;
        Ok(self)
    }
}

/// The progress of the effect: the last message that was processed.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    done: Option<u64>,
}

impl Effect for ObservationMask {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        if !input.fills(params.threshold) {
            let wake = input.until_fills(params.threshold, chat::tokens_since_reply());
            return Ok(Step::edits(state, Vec::new()).until(wake));
        }
        let done = effect::remembered::<State>(VERSION, &state).done;
        // The known message may have been replaced. Then all messages are checked again, and short results are skipped.
        let start = done.and_then(chat::find).map_or(0, |at| at + 1);
        let entries = chat::all_entries(start, input.messages);
        let entries = &entries[..hidden_until(&entries, params.recent_window)];
        let (long, end) = chat::readable(entries, is_long);
        let mut names = Names::default();
        let edits = long.iter().flat_map(|&at| mask(start + at as u32, &entries[at], &mut names)).collect();
        let done = entries[..end].last().map_or(done, |entry| Some(entry.id));
        Ok(Step::edits(effect::state(VERSION, &State { done }), edits))
    }
}

/// Returns the end of the messages whose results may be hidden: before the newest, and before those that the model has
/// not read.
fn hidden_until(entries: &[Entry], recent: u32) -> usize {
    entries.len().saturating_sub(recent as usize).min(chat::unread(entries))
}

/// Returns `true` if the message may have a result to hide, as far as its size tells without reading it. A token has
/// about four bytes.
fn is_long(entry: &Entry) -> bool {
    entry.traits.contains(Traits::RESULTS) && entry.tokens as usize * 4 > PREVIEW + shorten::LEAST_SAVED
}

fn mask(position: u32, entry: &Entry, names: &mut Names) -> Vec<Edit> {
    let message = chat::message(position);
    let results = message.iter().flat_map(shorten::results).filter(|result| !result.is_error);
    let edits = results.filter_map(|result| {
        let text = placeholder(result, || names.of(entry.group, &result.call_id))?;
        let call_id = result.call_id.clone();
        Some(Edit::ReplaceResult(NewResult { call_id, content: vec![text.into()] }))
    });
    edits.collect()
}

/// Returns the placeholder of a result; none if it would hardly be shorter, which also holds for a placeholder.
fn placeholder(result: &ToolResult, tool: impl FnOnce() -> String) -> Option<String> {
    let count = shorten::characters(&result.content);
    if count < PREVIEW + shorten::LEAST_SAVED {
        return None;
    }
    let preview = shorten::quoted(&result.text(), PREVIEW);
    let text = format!(
        "[An older result of {}, hidden to save room. Its {} characters began with: {preview}. Call the tool again if you \
         need it.]",
        shorten::quoted(&tool(), 64),
        shorten::number(count)
    );
    (text.chars().count() + shorten::LEAST_SAVED <= count).then_some(text)
}

/// A cache of the tool names of one group's calls.
#[derive(Default)]
struct Names {
    group: Option<u64>,
    calls: Vec<(String, String)>,
}

impl Names {
    fn of(&mut self, group: Option<u64>, call: &str) -> String {
        if self.group != group {
            (self.group, self.calls) = (group, group.map(chat::calls_of).unwrap_or_default());
        }
        let name = self.calls.iter().find(|(id, _)| id == call).map(|(_, name)| name.clone());
        name.unwrap_or_else(|| "a tool".into())
    }
}

#[cfg(test)]
mod tests {
    use shelly_plugin::{Content, types::Role};

    use super::*;

    #[test]
    fn what_the_model_has_not_read_is_not_hidden() {
        let entry = |role| Entry { id: 1, role, traits: Traits::empty(), group: Some(1), tokens: 9 };
        let mut chat = vec![entry(Role::Assistant)];
        chat.extend(vec![entry(Role::Tool); 12]);
        assert_eq!(hidden_until(&chat, 10), 0, "twelve results of one reply");
        chat.push(Entry { group: None, ..entry(Role::Assistant) });
        for (recent, until) in [(0, 14), (1, 13), (10, 4), (99, 0)] {
            assert_eq!(hidden_until(&chat, recent), until, "{recent}");
        }
    }

    fn result(content: Vec<Content>) -> ToolResult {
        ToolResult { call_id: "1".into(), content, is_error: false }
    }

    #[test]
    fn mask_placeholder_names_the_tool_and_quotes_the_beginning() {
        let long = result(vec![format!("first line\n`{}", "ä".repeat(2_000)).into()]);
        let text = placeholder(&long, || "read".into()).unwrap();
        let beginning = format!(
            "[An older result of `read`, hidden to save room. Its 2,012 characters began with: `first line '{}…`.",
            "ä".repeat(68)
        );
        assert!(text.starts_with(&beginning), "{text}");
        assert_eq!(placeholder(&result(vec![text.into()]), || "read".into()), None, "it would be hidden again");
        assert_eq!(placeholder(&result(vec!["short".into()]), || "read".into()), None);
        assert_eq!(placeholder(&result(vec![]), || "read".into()), None);
    }

    #[test]
    fn observation_mask_reads_only_long_results() {
        let entry = |traits, tokens| Entry { id: 1, role: Role::Tool, traits, group: None, tokens };
        for (entry, long) in [
            (entry(Traits::RESULTS, 1_000), true),
            (entry(Traits::RESULTS | Traits::EDITED, 1_000), true),
            (entry(Traits::RESULTS, 20), false),
            (entry(Traits::CALLS, 1_000), false),
        ] {
            assert_eq!(is_long(&entry), long, "{:?}", entry.traits);
        }
    }

    #[test]
    fn senseless_params_are_refused() {
        assert!(Params::default().check().is_ok());
        assert!(Params { threshold: 1.5, ..Params::default() }.check().is_err());
    }
}
