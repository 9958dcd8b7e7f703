//! An effect that summarizes the conversation once it fills the context window. It asks a model for a summary, and
//! replaces everything after the system prompt that the model has read. The summary contains, word for word, everything
//! that a person said and nobody has answered yet. Messages since the model's newest reply stay.
//!
//! Params, with their defaults: `{"threshold": 0.8, "keep_recent": 0, "on_error": "continue"}`. `threshold` is the share
//! of the context window from which on the effect acts. `keep_recent` is the number of messages at the end that stay
//! unchanged. `on_error` decides what happens if the model returns no summary: with `continue` the conversation stays,
//! and the model is asked again when the conversation has grown by a tenth; with `stop` the run ends. `model` names the
//! model to ask, which the config must grant under `models`; without it the agent's own model is asked.

use serde::Deserialize;
use shelly_plugin::{
    Error,
    chat::{self, Entry},
    config,
    effect::{self, Edit, Effect, EffectInput, Phase, Step, Stop},
    summary::{Pace, Span},
    types::{Completion, Role},
};

shelly_plugin::export!(effect: Compact);

/// The version of the state.
const VERSION: u8 = 1;

struct Compact;

#[derive(Deserialize, Debug)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The share of the context window from which on the effect acts.
    threshold: f64,
    /// The model that is asked for the summary; none: the agent's own.
    model: Option<String>,
    /// The number of messages at the end that stay unchanged.
    keep_recent: u32,
    /// The action if there is no summary.
    on_error: OnError,
}

#[derive(Deserialize, Debug, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum OnError {
    Continue,
    Stop,
}

impl Default for Params {
    fn default() -> Params {
        Params { threshold: 0.8, model: None, keep_recent: 0, on_error: OnError::Continue }
    }
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        effect::check_share("threshold", self.threshold)?;
        if self.model.as_ref().is_some_and(|model| model.trim().is_empty()) {
            return Err(Error::Invalid(
                "params: `model` is empty; name a model, or leave it out to use the agent's".into(),
            ));
        }
        Ok(self)
    }
}

impl Effect for Compact {
    fn eval(mut input: EffectInput, state: Vec<u8>) -> Result<Step, Error> {
        let params = config::<Params>()?.check()?;
        if input.phase != Phase::BeforeModel {
            return Ok(Step::edits(state, Vec::new()));
        }
        let pace: Pace = effect::remembered(VERSION, &state);
        match (input.reply.take(), pace.asked) {
            (Some(reply), Some(span)) => Ok(finish(&params, &input, pace, span, reply)),
            _ => Ok(begin(params, &input, pace)),
        }
    }
}

fn begin(params: Params, input: &EffectInput, mut pace: Pace) -> Step {
    let window = input.context_window.unwrap_or(0);
    if !input.fills(params.threshold) {
        let wake = input.until_fills(params.threshold, chat::tokens_since_reply());
        return Step::edits(Vec::new(), Vec::new()).until(wake);
    }
    let ask = pace.is_time(input).then(|| {
        let entries = chat::all_entries(0, input.messages);
        let goes = goes(&entries, params.keep_recent);
        let span = Span::is_worth_it(goes, input).then(|| Span::of(goes)).flatten()?;
        Some((span, span.ask(window, params.model)?))
    });
    match ask {
        Some(Some((span, ask))) => {
            pace.asked = Some(span);
            Step::ask(effect::state(VERSION, &pace), ask)
        }
        Some(None) => {
            pace.wait(input);
            idle(pace)
        }
        None => idle(pace),
    }
}

fn idle(pace: Pace) -> Step {
    Step::edits(effect::state(VERSION, &pace), Vec::new()).until(pace.wake())
}

/// Returns the messages that a summary replaces: all after the system prompt, except for the newest and those that the
/// model has not read.
fn goes(entries: &[Entry], keep_recent: u32) -> &[Entry] {
    let start = usize::from(entries.first().is_some_and(|entry| entry.role == Role::System));
    let after = &entries[start..];
    &after[..chat::border(after, keep_recent as usize).min(chat::unread(after))]
}

fn finish(params: &Params, input: &EffectInput, mut pace: Pace, span: Span, reply: Result<Completion, Error>) -> Step {
    match span.replace("compact", input.context_window.unwrap_or(0), reply) {
        Ok(replacement) => {
            pace.folded();
            Step::edits(effect::state(VERSION, &pace), vec![Edit::Replace(replacement)])
        }
        Err(why) if params.on_error == OnError::Stop => {
            let message = format!("the conversation is too long, and cannot be summarized: {why}");
            Step::edits(Vec::new(), vec![Edit::Stop(Stop { code: "compaction".into(), message })])
        }
        Err(why) => {
            shelly_plugin::warn!("the conversation is not shortened, because it cannot be summarized: {why}");
            pace.wait(input);
            idle(pace)
        }
    }
}

#[cfg(test)]
mod tests {
    use shelly_plugin::chat::Traits;

    use super::*;

    #[test]
    fn compaction_keeps_the_system_prompt_and_newest_messages() {
        let entry = |id, role, group| Entry { id, role, traits: Traits::empty(), group, tokens: 1 };
        let (system, task) = (entry(1, Role::System, None), entry(2, Role::User, None));
        let group = [entry(3, Role::Assistant, Some(3)), entry(4, Role::Tool, Some(3))];
        let read = [system, task, group[0], group[1], entry(5, Role::Assistant, None)];
        let chat = &read[..4];
        for (chat, keep, expected) in [
            (&read[..], 0, &[2, 3, 4, 5][..]),
            (&read, 1, &[2, 3, 4]),
            (&read, 2, &[2]),
            (chat, 0, &[2]),
            (chat, 1, &[2]),
            (chat, 3, &[]),
            (chat, 9, &[]),
            (&chat[1..], 2, &[2]),
            (&chat[..2], 0, &[]),
            (&[], 0, &[]),
        ] {
            let ids: Vec<_> = goes(chat, keep).iter().map(|entry| entry.id).collect();
            assert_eq!(ids, expected, "keep {keep} of {}", chat.len());
        }
    }

    #[test]
    fn senseless_params_are_refused() {
        assert!(Params::default().check().is_ok());
        assert!(Params { threshold: 0.0, ..Params::default() }.check().is_err());
        assert!(Params { model: Some(" ".into()), ..Params::default() }.check().is_err());
    }
}
