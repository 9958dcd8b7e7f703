//! What the model is asked, as the script can speak of it.

use serde_json::Value;
use shelly_plugin::{
    Content, Message, Part,
    types::{Role, ToolResult},
};

/// A result after the name of its tool.
pub(crate) type Found<'a> = (&'a str, &'a ToolResult);

/// A conversation, and where in it the newest task stands.
pub(crate) struct Heard<'a> {
    messages: &'a [Message],
    task: Option<&'a Message>,
    /// What came after it.
    since: &'a [Message],
}

impl<'a> Heard<'a> {
    pub fn new(messages: &'a [Message]) -> Heard<'a> {
        let is_user = |message: &Message| message.role == Role::User;
        // Who asks in the host's own name, as what coordinates a team does, asks in notes alone.
        let task = messages
            .iter()
            .rposition(|message| is_user(message) && !is_note(message))
            .or_else(|| messages.iter().rposition(is_user));
        let since = task.map_or(messages, |task| &messages[task + 1..]);
        Heard { messages, task: task.map(|task| &messages[task]), since }
    }

    /// The newest task; empty if there is none.
    pub fn task(&self) -> String {
        self.task.map(Message::text).unwrap_or_default()
    }

    /// Whose it is; empty if that is not known.
    pub fn sender(&self) -> &'a str {
        self.task.map_or("", |task| &task.sender)
    }

    /// How many replies there are to it.
    pub fn replies(&self) -> usize {
        self.since.iter().filter(|message| message.role == Role::Assistant).count()
    }

    pub fn system(&self) -> Option<String> {
        self.messages.iter().find(|message| message.role == Role::System).map(Message::text)
    }

    /// The newest note of the host.
    pub fn note(&self) -> Option<String> {
        self.messages.iter().rfind(|message| is_note(message)).map(Message::text)
    }

    /// The newest that somebody has said. The prompt has its agent's name, and is not said.
    pub fn from(&self, sender: &str) -> Option<String> {
        let said = |message: &&Message| {
            let is_said = message.role != Role::System && !is_note(message) && !message.text().is_empty();
            is_said && message.sender == sender
        };
        self.messages.iter().rfind(said).map(Message::text)
    }

    /// The newest reply that has words.
    pub fn said(&self) -> Option<String> {
        let said = |message: &&Message| message.role == Role::Assistant && !message.text().is_empty();
        self.messages.iter().rfind(said).map(Message::text)
    }

    /// The results since the task, each after the name of its tool, in the order of the calls.
    pub fn results(&self) -> Vec<Found<'a>> {
        let parts = || self.since.iter().flat_map(|message| &message.parts);
        let of = |id: &str| {
            parts().find_map(|part| match part {
                Part::ToolResult(result) if result.call_id == id => Some(result),
                _ => None,
            })
        };
        let result = |part: &'a Part| match part {
            Part::ToolCall(call) => Some((&*call.name, of(&call.id)?)),
            _ => None,
        };
        parts().filter_map(result).collect()
    }
}

fn is_note(message: &Message) -> bool {
    message.meta.iter().any(|(key, _)| key == "shelly.note")
}

/// What a result is as JSON, if it is any.
pub(crate) fn json(result: &ToolResult) -> Option<Value> {
    let structured = result.content.iter().find_map(|content| match content {
        Content::Json(json) => Some(json.clone()),
        _ => None,
    });
    serde_json::from_str(&structured.unwrap_or_else(|| result.text())).ok()
}
