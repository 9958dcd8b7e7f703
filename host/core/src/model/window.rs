use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::error::{speaks_of_window, window_named_in};

/// The context window of a model: the tokens that it accepts in one request. It may be learned while the model is in use;
/// clones share the value.
#[derive(Clone, Default)]
pub struct ContextWindow(Arc<AtomicU64>);

/// The value for an unknown window.
const UNKNOWN: u64 = 0;

/// The percentage of a refused request's estimate that is taken as the window if the refusal names none, or names one that
/// the request should fit by its estimate. A guess: small enough that one or two further attempts fit, and large enough that
/// most of the conversation stays.
const MEASURED_PERCENT: u64 = 75;

impl ContextWindow {
    /// Returns the window in tokens, if it is known.
    pub fn tokens(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|tokens| *tokens != UNKNOWN)
    }

    /// Sets the window; `None` makes it unknown.
    pub fn set(&self, tokens: Option<u64>) {
        self.0.store(tokens.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// Learns from a refused request, which was estimated at `asked` tokens. Returns the new window if the refusal concerns
    /// the window and the new value is smaller than the known one.
    pub fn learn(&self, refusal: &str, asked: u64) -> Option<u64> {
        if !speaks_of_window(refusal) {
            return None;
        }
        let measured = (asked.saturating_mul(MEASURED_PERCENT) / 100).max(1);
        let learned = window_named_in(refusal).filter(|named| *named < asked).unwrap_or(measured);
        if self.tokens().is_some_and(|known| known <= learned) {
            return None;
        }
        self.set(Some(learned));
        Some(learned)
    }
}

impl From<Option<u64>> for ContextWindow {
    fn from(tokens: Option<u64>) -> Self {
        Self(Arc::new(AtomicU64::new(tokens.unwrap_or(UNKNOWN))))
    }
}

impl fmt::Debug for ContextWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tokens().fmt(f)
    }
}

impl PartialEq for ContextWindow {
    fn eq(&self, other: &Self) -> bool {
        self.tokens() == other.tokens()
    }
}

impl Eq for ContextWindow {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_only_shrinks_context_window() {
        const NAMED: &str = "This model's maximum context length is 4096 tokens.";
        for (known, refusal, asked, learned) in [
            (None, NAMED, 9_000, Some(4_096)),
            // The request should fit by its estimate, but the server refuses it: the window is smaller than estimated tokens
            // suggest.
            (None, NAMED, 4_000, Some(3_000)),
            (None, NAMED, 4_500, Some(4_096)),
            (Some(32_768), NAMED, 9_000, Some(4_096)),
            (Some(4_096), NAMED, 9_000, None),
            (Some(4_096), NAMED, 4_000, Some(3_000)),
            (None, "Your input exceeds the context window of this model.", 8_000, Some(6_000)),
            (None, "prompt is too long: 0 tokens > 0 maximum", 1, Some(1)),
            (None, "max_tokens is too large: 100000. This model supports at most 4096 completion tokens", 9_000, None),
        ] {
            let window = ContextWindow::from(known);
            let shared = window.clone();
            assert_eq!(window.learn(refusal, asked), learned, "{known:?} {refusal} {asked}");
            assert_eq!(shared.tokens(), learned.or(known), "clones share it");
        }
    }
}
