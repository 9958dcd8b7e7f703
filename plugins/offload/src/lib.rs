//! An effect that moves large tool results out of the conversation into the key-value store once the conversation fills
//! much of the context window. A placeholder shows the beginning of the result and how to get it back: with the tool
//! `recall`, which this plugin offers. Errors and the newest messages stay.
//!
//! Params, with their defaults: `{"threshold": 0.5, "min_result_len": 2000, "recent_window": 6}`. `threshold` is the
//! share of the context window from which on results are moved. `min_result_len` is the minimum length of such a result,
//! in characters. `recent_window` is the number of messages at the end of the conversation that stay unchanged.
//!
//! The config decides which store is used. A run's store ends with the run: grant `session` if conversations are resumed
//! later. If the store is full, results stay in the conversation.

use serde::{Deserialize, Serialize};
use shelly_plugin::{
    Content, Error,
    chat::{self, Entry, Traits},
    config,
    effect::{self, Edit, Effect, EffectInput, NewResult, Phase, Step, Wake},
    shorten, text,
    types::ToolResult,
};

mod recall;
mod store;

use recall::Recall;

shelly_plugin::export!(tools: [Recall], effect: Offload);

/// The version of the state.
const VERSION: u8 = 1;

/// The number of characters of a result that a placeholder shows.
const PREVIEW: usize = 200;

/// The minimum of `min_result_len`. A placeholder is half as long, so shorter results save nothing.
const LEAST: usize = 500;

struct Offload;

#[derive(Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The share of the context window from which on the effect acts.
    threshold: f64,
    /// The minimum length of a result, in characters.
    min_result_len: usize,
    /// The number of messages at the end that stay unchanged.
    recent_window: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params { threshold: 0.5, min_result_len: 2_000, recent_window: 6 }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        effect::check_share("threshold", self.threshold)?;
        if self.min_result_len < LEAST {
            return Err(Error::Invalid(format!(
                "params: `min_result_len` is {}; use at least {LEAST}, because shorter results gain nothing",
                self.min_result_len
            )));
        }
        Ok(self)
    }
}

/// The progress of the effect: the last message that was processed.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    done: Option<u64>,
}

impl Effect for Offload {
    fn eval(input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::AfterModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        if !input.fills(params.threshold) {
            let wake = input.until_fills(params.threshold, chat::tokens_since_reply());
            return Ok(Step::edits(state, Vec::new()).until(wake));
        }
        let done = effect::remembered::<State>(VERSION, &state).done;
        // The known message may have been replaced. Then all messages are checked again, and placeholders are skipped.
        let start = done.and_then(chat::find).map_or(0, |at| at + 1);
        let entries = chat::all_entries(start, input.messages.saturating_sub(params.recent_window));
        let is_long = |entry: &Entry| {
            // A token has about four bytes.
            entry.traits.contains(Traits::RESULTS) && entry.tokens as usize * 4 > params.min_result_len
        };
        let (long, end) = chat::readable(&entries, is_long);
        let mut edits = Vec::new();
        for at in long {
            if let Err(error) = take_out(start + at as u32, entries[at].group, params.min_result_len, &mut edits) {
                return without_room(state, edits, error);
            }
        }
        let done = entries[..end].last().map_or(done, |entry| Some(entry.id));
        Ok(Step::edits(effect::state(VERSION, &State { done }), edits))
    }
}

/// Handles a store that takes no more: results stored so far are replaced, the others stay.
fn without_room(state: Vec<u8>, edits: Vec<Edit>, error: Error) -> Result<Step, Error> {
    shelly_plugin::warn!("results stay in the conversation: {}", error.message());
    let step = Step::edits(state, edits);
    // A full store stays full, but a disk may be available again in the next turn.
    Ok(if matches!(error, Error::Exhausted(_)) { step.until(Wake::NEVER) } else { step })
}

/// Stores the large results of a message, and adds the edits that replace them.
fn take_out(position: u32, group: Option<u64>, least: usize, edits: &mut Vec<Edit>) -> Result<(), Error> {
    let message = chat::message(position);
    let mut calls = None;
    for result in message.iter().flat_map(shorten::results) {
        let text = result.text();
        if result.is_error || text.chars().count() < least || text.starts_with(recall::PLACEHOLDER) {
            continue;
        }
        let calls = calls.get_or_insert_with(|| group.map(chat::calls_of).unwrap_or_default());
        let tool = calls.iter().find(|(id, _)| *id == result.call_id).map_or("a tool", |(_, name)| name);
        let shown = match recall::header(tool, &text) {
            // The result is stored already.
            Some(header) => format!("{header}\n[The text is hidden again to save room.]"),
            None => match store::keep(&result.call_id, &text)? {
                Some(id) => placeholder(&id, tool, &text),
                None => continue,
            },
        };
        let content = with_media(shown, result);
        edits.push(Edit::ReplaceResult(NewResult { call_id: result.call_id.clone(), content }));
    }
    Ok(())
}

/// Returns the placeholder of a result. It begins with the call that gets the result back, so that this survives a cut.
fn placeholder(id: &str, tool: &str, said: &str) -> String {
    let id = serde_json::Value::from(id);
    format!(
        "{}{{\"id\":{id}}} returns this result of {}: {} characters. It begins:]\n{}",
        recall::PLACEHOLDER,
        shorten::quoted(tool, 64),
        shorten::number(said.chars().count()),
        text::short(said, PREVIEW)
    )
}

/// Returns the text, followed by the contents of the result that are not text.
fn with_media(shown: String, result: &ToolResult) -> Vec<Content> {
    let others = result.content.iter().filter(|piece| !matches!(piece, Content::Text(_) | Content::Json(_)));
    [Content::Text(shown)].into_iter().chain(others.cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offload_placeholder_begins_with_the_recall_call() {
        let text = placeholder("a\"b", "read", &"ä".repeat(3_000));
        let beginning = "[recall {\"id\":\"a\\\"b\"} returns this result of `read`: 3,000 characters. It begins:]\n";
        assert_eq!(text, format!("{beginning}{}…", "ä".repeat(200)));
        assert!(text.starts_with(recall::PLACEHOLDER) && text.chars().count() < LEAST);
    }

    #[test]
    fn senseless_params_are_refused() {
        assert!(Params::default().check().is_ok());
        assert!(Params { threshold: 0.0, ..Params::default() }.check().is_err());
        assert!(Params { min_result_len: 499, ..Params::default() }.check().is_err());
    }
}
