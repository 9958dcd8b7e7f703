//! Effects: look at the agent's chat once per turn and answer with changes to it.
//!
//! The chat itself is read through [`crate::chat`]. What an effect must remember it returns as state.

#[doc(inline)]
pub use crate::bindings::effect::exports::shelly::plugin::effect::*;

/// The trait of this kind.
pub use crate::bindings::effect::exports::shelly::plugin::effect::Guest as Effect;

impl Step {
    /// Makes these changes, often none, and is called again in the next of the effect's phases.
    pub fn edits(state: Vec<u8>, edits: Vec<Edit>) -> Step {
        Step { state, action: Action::Edits(edits), wake: None }
    }

    /// Asks a model; the effect is called again with the reply.
    pub fn ask(state: Vec<u8>, ask: crate::types::Ask) -> Step {
        Step { state, action: Action::AskModel(ask), wake: None }
    }

    /// The same, but sleeping until `wake`.
    pub fn until(self, wake: Wake) -> Step {
        Step { wake: Some(wake), ..self }
    }
}

impl Moment {
    /// Whether the conversation fills this share of what the model can take, by the estimate of the next request or by what
    /// the model counted last. Never where the window is not known.
    pub fn fills(&self, share: f64) -> bool {
        let counted = self.last_usage.map_or(0, |usage| {
            usage.input_tokens.saturating_add(usage.cache_read_tokens).saturating_add(usage.cache_write_tokens)
        });
        let at = self.tokens_at(share);
        at.is_some_and(|at| self.request_tokens.max(counted) >= at)
    }

    /// How many tokens this share of what the model can take is; none where the window is not known or the share is none.
    pub fn tokens_at(&self, share: f64) -> Option<u64> {
        let window = self.context_window.filter(|window| *window > 0 && share > 0.0)?;
        Some((window as f64 * share).ceil() as u64)
    }
}

impl Wake {
    /// Not again in this run.
    pub const NEVER: Wake = Wake { iteration: None, request_tokens: None, run_tokens: None, model_ms: None };

    /// From this iteration on.
    pub fn at_iteration(iteration: u32) -> Wake {
        Wake { iteration: Some(iteration), ..Wake::NEVER }
    }
}
