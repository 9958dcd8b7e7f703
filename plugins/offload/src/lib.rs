//! Takes large results of tools out of the conversation once it fills much of the context window, and keeps them in the
//! key-value store. What stands in their place says how they begin and how to have them back: with the tool `recall`, which
//! this plugin offers. Errors and the newest messages stay.
//!
//! Params: `{"threshold": 0.5, "min_result_len": 2000, "recent_window": 6}`, which are the defaults: the share of the context
//! window from which on results are taken out, the characters that a result must have for it, and how many messages at the
//! end of the conversation are left alone.
//!
//! Which store it is, the config says. A run's store is gone with the run: grant `session` where conversations are taken up
//! again later. If the store is full, results stay where they are.

use serde::{Deserialize, Serialize};
use shelly_plugin::{
    Content, Error,
    chat::{self, Entry, Traits},
    config,
    effect::{self, Edit, Effect, Moment, NewResult, Phase, Step, Wake},
    shorten, text,
    types::ToolResult,
};

mod recall;
mod store;

use recall::Recall;

shelly_plugin::export!(tools: [Recall], effect: Offload);

/// Of the state.
const VERSION: u8 = 1;

/// Characters of a result that are still shown.
const PREVIEW: usize = 200;

/// Shorter results gain nothing: what stands in their place is half as long.
const LEAST: usize = 500;

struct Offload;

#[derive(Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// From this share of the context window on.
    threshold: f64,
    /// Results of so many characters.
    min_result_len: usize,
    /// So many messages are left alone.
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
                "params: `min_result_len` is {}; it must be at least {LEAST}: shorter results gain nothing",
                self.min_result_len
            )));
        }
        Ok(self)
    }
}

/// What is remembered: up to which message everything is done.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    done: Option<u64>,
}

impl Effect for Offload {
    fn eval(moment: Moment, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if moment.phase != Phase::AfterModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        if !moment.fills(params.threshold) {
            let wake = moment.until_fills(params.threshold, chat::tokens_since_reply());
            return Ok(Step::edits(state, Vec::new()).until(wake));
        }
        let done = effect::remembered::<State>(VERSION, &state).done;
        // What it knew may have been replaced: then it looks at all of them, and leaves alone what was taken out.
        let start = done.and_then(chat::find).map_or(0, |at| at + 1);
        let entries = chat::all_entries(start, moment.messages.saturating_sub(params.recent_window));
        let is_long = |entry: &Entry| {
            // A token has four bytes.
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

/// The store takes no more: what was kept until then is taken out, the rest stays.
fn without_room(state: Vec<u8>, edits: Vec<Edit>, error: Error) -> Result<Step, Error> {
    shelly_plugin::warn!("results stay in the conversation: {}", error.message());
    let step = Step::edits(state, edits);
    // A full store stays full; a disk may be there again in the next turn.
    Ok(if matches!(error, Error::Exhausted(_)) { step.until(Wake::NEVER) } else { step })
}

/// Keeps the large results of a message, and adds the edits that take them out.
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
            // It is kept already.
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

/// What stands in place of a result. It begins with the way back, so that it is there also if this is made shorter.
fn placeholder(id: &str, tool: &str, said: &str) -> String {
    let id = serde_json::Value::from(id);
    format!(
        "{}{{\"id\":{id}}} gives this result of {} back: {} characters. It begins:]\n{}",
        recall::PLACEHOLDER,
        shorten::quoted(tool, 64),
        shorten::number(said.chars().count()),
        text::short(said, PREVIEW)
    )
}

/// The text, and what of the result is no text.
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
        let beginning = "[recall {\"id\":\"a\\\"b\"} gives this result of `read` back: 3,000 characters. It begins:]\n";
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
