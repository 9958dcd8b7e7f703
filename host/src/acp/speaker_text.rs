use std::sync::Arc;

use serde_json::{Value, json};

use super::session_update::{chunk, text_block, with_members};
use crate::session::{SecretStream, Secrets};

/// The words of one agent of the conversation, as they arrive. Text that may begin a credential is held back until it is
/// known to be none.
pub(super) struct SpeakerText {
    text: SecretStream,
    thought: SecretStream,
    /// The text of the reply so far, as it was shown.
    shown: String,
    /// Counts the replies: each is a message of its own.
    replies: u32,
    /// The name that is shown before each reply: of a member of a team.
    name: Option<Arc<str>>,
}

impl SpeakerText {
    pub fn new(secrets: &Secrets, name: Option<Arc<str>>) -> Self {
        Self { text: secrets.stream(), thought: secrets.stream(), shown: String::new(), replies: 0, name }
    }

    /// Takes a piece of a reply.
    pub fn say(&mut self, piece: &str) -> Vec<Value> {
        let thought = self.thought.finish();
        let text = self.text.push(piece);
        self.updates(&thought, &text)
    }

    /// Takes a piece of a thought.
    pub fn think(&mut self, piece: &str) -> Vec<Value> {
        let text = self.text.finish();
        let thought = self.thought.push(piece);
        let mut updates = self.updates("", &text);
        updates.extend(self.updates(&thought, ""));
        updates
    }

    /// Returns the words that were held back.
    pub fn flush(&mut self) -> Vec<Value> {
        let (thought, text) = (self.thought.finish(), self.text.finish());
        self.updates(&thought, &text)
    }

    /// Ends a reply whose pieces are void. An editor cannot take them back, so it is told.
    pub fn drop_reply(&mut self) -> Vec<Value> {
        let mut updates = self.flush();
        if !self.shown.is_empty() {
            updates.extend(self.updates("", "\n\n[this reply was cut off; it begins again]\n\n"));
            self.begin_next();
        }
        updates
    }

    /// Ends a reply: `whole` is shown if no piece of it was.
    pub fn end_reply(&mut self, whole: &str) -> Vec<Value> {
        let mut updates = self.flush();
        if self.shown.is_empty() && !whole.trim().is_empty() {
            updates.extend(self.updates("", whole));
        }
        self.begin_next();
        updates
    }

    fn begin_next(&mut self) {
        self.replies += 1;
        self.shown.clear();
    }

    fn updates(&mut self, thought: &str, text: &str) -> Vec<Value> {
        let mut updates = Vec::new();
        if !thought.is_empty() {
            updates.push(chunk("agent_thought_chunk", text_block(thought)));
        }
        if !text.is_empty() {
            let head = match (&self.name, self.shown.is_empty()) {
                (Some(name), true) if self.replies == 0 => format!("**{name}:** "),
                (Some(name), true) => format!("\n\n**{name}:** "),
                _ => String::new(),
            };
            self.shown.push_str(text);
            let name = self.name.as_deref().unwrap_or("agent");
            let update = chunk("agent_message_chunk", text_block(&format!("{head}{text}")));
            updates.push(with_members(update, json!({"messageId": format!("{name}-{}", self.replies)})));
        }
        updates
    }
}
