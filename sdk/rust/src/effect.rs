//! Effects: inspect the agent's chat once per turn and return changes to it.
//!
//! The chat is read through [`crate::chat`]. An effect returns the data that it needs in later calls as state: [`state`]
//! writes it and [`remembered`] reads it.

use serde::{Serialize, de::DeserializeOwned};

#[doc(inline)]
pub use crate::bindings::effect::exports::shelly::plugin::effect::*;

/// The trait that an effect implements.
pub use crate::bindings::effect::exports::shelly::plugin::effect::Guest as Effect;

impl Step {
    /// Makes these changes, often none. The host calls the effect again in the next of its phases.
    pub fn edits(state: Vec<u8>, edits: Vec<Edit>) -> Step {
        Step { state, action: Action::Edits(edits), next_call: NextCall::NextPhase }
    }

    /// Asks a model. The host calls the effect again with the reply.
    pub fn ask(state: Vec<u8>, ask: crate::types::Ask) -> Step {
        Step { state, action: Action::AskModel(ask), next_call: NextCall::NextPhase }
    }

    /// Sets the conditions for the next call: until one of them holds, the host does not call the effect. With
    /// [`Wake::NEVER`] there is no further call.
    pub fn until(self, wake: Wake) -> Step {
        let next_call = if wake == Wake::NEVER { NextCall::Never } else { NextCall::When(wake) };
        Step { next_call, ..self }
    }
}

impl EffectInput {
    /// Returns `true` if the conversation fills this share of the context window, by the estimate of the next request or
    /// by the model's last count. Returns `false` if the size of the window is unknown.
    pub fn fills(&self, share: f64) -> bool {
        let at = self.tokens_at(share);
        at.is_some_and(|at| self.request_tokens.max(self.counted()) >= at)
    }

    /// Returns the condition under which to check again whether the conversation [fills](EffectInput::fills) this share, for
    /// an effect for which it does not yet. `new` is the estimate of the tokens that the model has not counted:
    /// [`tokens_since_reply`](crate::chat::tokens_since_reply).
    ///
    /// A wake condition compares estimates only. If the model's count exceeds the estimate, the threshold is lowered in
    /// the same ratio; because that ratio changes, the threshold is at most twice the size of the current request. If the
    /// model has not counted yet, the effect is also called in the next turn.
    pub fn until_fills(&self, share: f64, new: u64) -> Wake {
        let Some(at) = self.tokens_at(share) else { return Wake::NEVER };
        let counted = self.counted();
        let estimated = self.request_tokens.saturating_sub(new).max(1);
        let (iteration, at) = match counted {
            0 => (Some(self.iteration.saturating_add(1)), at),
            _ if counted <= estimated => (None, at),
            _ => (None, (at as f64 * estimated as f64 / counted as f64) as u64),
        };
        let at = at.min(self.request_tokens.saturating_mul(2));
        Wake { iteration, request_tokens: Some(at), ..Wake::NEVER }
    }

    /// Returns the tokens of the last request as the model counted them; 0 if there was none in this run.
    fn counted(&self) -> u64 {
        self.last_usage.map_or(0, |usage| {
            usage.input_tokens.saturating_add(usage.cache_read_tokens).saturating_add(usage.cache_write_tokens)
        })
    }

    /// Returns the number of tokens in this share of the context window. Returns `None` if the size of the window is
    /// unknown or the share is not above 0.
    pub fn tokens_at(&self, share: f64) -> Option<u64> {
        let window = self.context_window.filter(|window| *window > 0 && share > 0.0)?;
        Some((window as f64 * share).ceil() as u64)
    }
}

impl Wake {
    /// No further call in this run. An effect with the power `hide-tools` is still called for tools that appear later.
    pub const NEVER: Wake = Wake { iteration: None, request_tokens: None, run_tokens: None, model_ms: None };

    /// Calls the effect again from this iteration on.
    pub fn at_iteration(iteration: u32) -> Wake {
        Wake { iteration: Some(iteration), ..Wake::NEVER }
    }
}

/// Returns the state for the next call: a version number of your own, followed by the value as JSON.
pub fn state(version: u8, value: &impl Serialize) -> Vec<u8> {
    let mut bytes = vec![version];
    // A value that JSON can represent never fails to be written to memory. After a failure `remembered` returns the
    // default.
    let _ = serde_json::to_writer(&mut bytes, value);
    bytes
}

/// Reads the value that [`state`] wrote with this version. Returns the default for anything else, such as the state of
/// another version of the plugin.
pub fn remembered<T: DeserializeOwned + Default>(version: u8, state: &[u8]) -> T {
    let json = state.split_first().filter(|(of, _)| **of == version);
    json.and_then(|(_, json)| serde_json::from_slice(json).ok()).unwrap_or_default()
}

/// Checks a param that is a share of the context window.
///
/// # Errors
///
/// [`Error::Invalid`] if `share` is not above 0 and at most 1.
pub fn check_share(param: &str, share: f64) -> Result<(), Error> {
    if share > 0.0 && share <= 1.0 {
        return Ok(());
    }
    Err(Error::Invalid(format!(
        "params: `{param}` is {share}; use a share of the context window above 0 and at most 1"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{RunContext, Usage};

    fn input(request_tokens: u64, window: Option<u64>, counted: Option<u64>) -> EffectInput {
        let usage = Usage { cache_read_tokens: 10, output_tokens: 99, ..Usage::default() };
        EffectInput {
            cx: RunContext { run: "run".into(), agent: "a".into(), depth: 0 },
            phase: Phase::BeforeModel,
            iteration: 4,
            messages: 9,
            request_tokens,
            context_window: window,
            last_usage: counted.map(|counted| Usage { input_tokens: counted - 10, ..usage }),
            run_usage: Usage::default(),
            model_ms: 0,
            elapsed_ms: 0,
            reply: None,
        }
    }

    #[test]
    fn effect_wakes_when_the_window_share_is_filled() {
        // Request, window, count, uncounted tokens; whether half is filled; request tokens and iteration to wake at.
        for (now, window, counted, new, fills, at, iteration) in [
            (100, None, Some(9_999), 0, false, None, None),
            (100, Some(0), Some(9_999), 0, false, None, None),
            (499, Some(1_000), None, 0, false, Some(500), Some(5)),
            (500, Some(1_000), None, 0, true, Some(500), Some(5)),
            (300, Some(1_000), Some(100), 100, false, Some(500), None),
            (300, Some(1_000), Some(400), 100, false, Some(250), None),
            (300, Some(1_000), Some(500), 100, true, Some(200), None),
            (100, Some(1_000), Some(100), 10, false, Some(200), None),
            (100, Some(1_000), Some(100), 999, false, Some(5), None),
        ] {
            let input = input(now, window, counted);
            let wake = input.until_fills(0.5, new);
            assert_eq!(
                (input.fills(0.5), wake.request_tokens, wake.iteration),
                (fills, at, iteration),
                "{now} of {window:?}, {counted:?} counted, {new} new"
            );
        }
    }

    #[test]
    fn effect_state_of_another_version_is_ignored() {
        let bytes = state(3, &vec![1_u64, 2]);
        assert_eq!(remembered::<Vec<u64>>(3, &bytes), [1, 2]);
        for (version, bytes) in [(2, &bytes[..]), (3, &bytes[..3]), (3, &[]), (3, &[3]), (3, b"\x03{}")] {
            assert_eq!(remembered::<Vec<u64>>(version, bytes), Vec::<u64>::new(), "{version} {bytes:?}");
        }
    }

    #[test]
    fn share_must_be_above_zero_and_at_most_one() {
        for (share, fine) in [(0.1, true), (1.0, true), (0.0, false), (-1.0, false), (1.1, false), (f64::NAN, false)] {
            assert_eq!(check_share("threshold", share).is_ok(), fine, "{share}");
        }
    }
}
