//! Removes credentials from everything that the command line prints.

use std::sync::{PoisonError, RwLock};

use serde::de::IgnoredAny;

use crate::{
    event::{Event, StreamEvent},
    session::{EventRedactor, Secrets},
};

/// The credentials that are hidden in all output of this process.
static HIDDEN: RwLock<Option<Secrets>> = RwLock::new(None);

/// Hides these credentials in all output from now on.
pub fn hide(secrets: Secrets) {
    *HIDDEN.write().unwrap_or_else(PoisonError::into_inner) = Some(secrets);
}

fn hidden() -> Secrets {
    HIDDEN.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}

/// Returns a text without credentials.
pub fn without_secrets(text: &str) -> String {
    hidden().clean_text(text)
}

/// Returns a JSON text without credentials.
pub fn json_without_secrets(json: String) -> String {
    let is_json = |json: &[u8]| serde_json::from_slice::<IgnoredAny>(json).is_ok();
    let clean = hidden().clean_json(json.into_bytes(), is_json);
    String::from_utf8_lossy(&clean).into_owned()
}

/// Redacts replies that are shown as they arrive: text that may begin a credential is held back until it is known to be
/// none.
#[derive(Default)]
pub struct ReplyRedactor(EventRedactor);

impl ReplyRedactor {
    /// Takes an event, and returns the events to show now.
    pub fn pass(&mut self, event: &Event) -> Vec<Event> {
        self.0.pass(&hidden(), event)
    }

    /// Takes an event, and returns the lines to print now. They bear the number of the event.
    pub fn pass_numbered(&mut self, event: &StreamEvent) -> Vec<StreamEvent> {
        self.0.pass_numbered(&hidden(), event)
    }
}
