//! The conversation, as the script can refer to it.

use serde_json::Value;
use shelly_plugin::{
    Content, Message, Part,
    types::{Role, ToolResult},
};

/// The name of a tool, and a result of it.
pub(crate) type Found<'a> = (&'a str, &'a ToolResult);

/// A conversation with its newest task.
pub(crate) struct Heard<'a> {
    messages: &'a [Message],
    task: Option<&'a Message>,
    /// The messages after the task.
    since: &'a [Message],
}

impl<'a> Heard<'a> {
    pub fn new(messages: &'a [Message]) -> Heard<'a> {
        let is_user = |message: &Message| message.role == Role::User;
        // A caller that asks in the host's name, such as a team's coordinator, sends only notes.
        let task = messages
            .iter()
            .rposition(|message| is_user(message) && !is_note(message))
            .or_else(|| messages.iter().rposition(is_user));
        let since = task.map_or(messages, |task| &messages[task + 1..]);
        Heard { messages, task: task.map(|task| &messages[task]), since }
    }

    /// Returns the newest task; empty if there is none.
    pub fn task(&self) -> String {
        self.task.map(Message::text).unwrap_or_default()
    }

    /// Returns the sender of the task; empty if it is unknown.
    pub fn sender(&self) -> &'a str {
        self.task.map_or("", |task| &task.sender)
    }

    /// Returns the number of replies to the task.
    pub fn replies(&self) -> usize {
        self.since.iter().filter(|message| message.role == Role::Assistant).count()
    }

    pub fn system(&self) -> Option<String> {
        self.messages.iter().find(|message| message.role == Role::System).map(Message::text)
    }

    /// Returns the newest note of the host.
    pub fn note(&self) -> Option<String> {
        self.messages.iter().rfind(|message| is_note(message)).map(Message::text)
    }

    /// Returns the newest message of a sender. The system prompt has the agent's name as its sender and does not count.
    pub fn from(&self, sender: &str) -> Option<String> {
        let said = |message: &&Message| {
            let is_said = message.role != Role::System && !is_note(message) && !message.text().is_empty();
            is_said && message.sender == sender
        };
        self.messages.iter().rfind(said).map(Message::text)
    }

    /// Returns the newest reply that has text.
    pub fn said(&self) -> Option<String> {
        let said = |message: &&Message| message.role == Role::Assistant && !message.text().is_empty();
        self.messages.iter().rfind(said).map(Message::text)
    }

    /// Returns the results since the task with the names of their tools, in the order of the calls.
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

/// Returns the JSON of a result, if it has any.
pub(crate) fn json(result: &ToolResult) -> Option<Value> {
    let structured = result.content.iter().find_map(|content| match content {
        Content::Json(json) => Some(json.clone()),
        _ => None,
    });
    serde_json::from_str(&structured.unwrap_or_else(|| result.text())).ok()
}
