//! Messages in the form in which the semantic conventions have them in attributes.

use std::sync::Arc;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use serde_json::{Value, json};
use shelly_core::{
    chat::{Message, Part, Role},
    error::cut,
    limits,
};

use crate::attribute;

/// Removes what the host knows of credentials from a text.
pub type Redactor = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Messages for one attribute, within its bounds.
#[derive(Default)]
pub(crate) struct MessageList {
    messages: Vec<Value>,
    bytes: usize,
    left_out: usize,
}

impl MessageList {
    /// Adds a message, or counts it if there is no room.
    pub fn add(&mut self, message: &Message, redact: &Redactor) {
        self.add_json(message_json(message, redact));
    }

    /// Adds a reply of a model, with the reason for which it ended.
    pub fn add_reply(&mut self, message: &Message, finish_reason: &str, redact: &Redactor) {
        let mut json = message_json(message, redact);
        json["finish_reason"] = finish_reason.into();
        self.add_json(json);
    }

    fn add_json(&mut self, json: Value) {
        let bytes = json.to_string().len();
        if self.left_out > 0 || self.bytes + bytes > limits::TELEMETRY_CONTENT_BYTES {
            self.left_out += 1;
            return;
        }
        self.bytes += bytes;
        self.messages.push(json);
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.left_out == 0
    }

    /// Returns the messages as an attribute. The last one says how many are left out.
    pub fn to_attribute(&self, key: &str) -> KeyValue {
        let mut messages = self.messages.clone();
        if self.left_out > 0 {
            let text = format!("[{} more messages are left out]", self.left_out);
            messages.push(json!({ "role": "system", "parts": [{ "type": "text", "content": text }] }));
        }
        attribute::text(key, Value::Array(messages).to_string())
    }
}

/// Returns a text as it may be exported: without credentials, and cut.
pub(crate) fn shown_text(text: &str, redact: &Redactor) -> String {
    cut(&redact(text), limits::TELEMETRY_TEXT_CHARS)
}

fn message_json(message: &Message, redact: &Redactor) -> Value {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let parts: Vec<_> = message.parts.iter().map(|part| part_json(part, redact)).collect();
    json!({ "role": role, "parts": parts })
}

fn part_json(part: &Part, redact: &Redactor) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "content": shown_text(text, redact) }),
        Part::Thinking(thinking) => json!({ "type": "reasoning", "content": shown_text(&thinking.text, redact) }),
        Part::ToolCall(call) => {
            let name = cut(&call.name, limits::TELEMETRY_NAME_CHARS);
            let arguments = shown_text(&call.arguments, redact);
            json!({ "type": "tool_call", "id": call.id, "name": name, "arguments": arguments })
        }
        Part::ToolResult(result) => {
            let response = shown_text(&result.text(), redact);
            json!({ "type": "tool_call_response", "id": result.call_id, "response": response })
        }
        // Neither its bytes nor its address.
        Part::Media(media) => json!({ "type": "media", "mime_type": media.media_type }),
        Part::Other(content) => json!({ "type": content.kind }),
    }
}

#[cfg(test)]
mod tests {
    use shelly_core::chat::ToolCall;

    use super::*;

    fn redactor() -> Redactor {
        Arc::new(|text: &str| text.replace("sk-12345678", "[secret KEY]"))
    }

    fn json_of(list: &MessageList) -> Value {
        let attribute = serde_json::to_value(list.to_attribute("key")).unwrap();
        serde_json::from_str(attribute["value"]["stringValue"].as_str().unwrap()).unwrap()
    }

    #[test]
    fn messages_follow_the_conventions_without_secrets() {
        let mut list = MessageList::default();
        list.add(&Message::user("The key is sk-12345678."), &redactor());
        let arguments = r#"{"key":"sk-12345678"}"#.to_owned();
        let call = ToolCall { id: "c1".into(), name: "use_key".into(), arguments, meta: Vec::new() };
        let mut reply = Message::text(Role::Assistant, "ada", "I use it.");
        reply.parts.push(Part::ToolCall(call));
        list.add_reply(&reply, "tool_call", &redactor());
        let expected = json!([
            { "role": "user", "parts": [{ "type": "text", "content": "The key is [secret KEY]." }] },
            {
                "role": "assistant",
                "parts": [
                    { "type": "text", "content": "I use it." },
                    {
                        "type": "tool_call",
                        "id": "c1",
                        "name": "use_key",
                        "arguments": r#"{"key":"[secret KEY]"}"#
                    },
                ],
                "finish_reason": "tool_call",
            },
        ]);
        assert_eq!(json_of(&list), expected);
    }

    #[test]
    fn long_texts_are_cut_and_further_messages_counted() {
        let mut list = MessageList::default();
        let long = "x".repeat(limits::TELEMETRY_TEXT_CHARS + 1);
        let most = limits::TELEMETRY_CONTENT_BYTES / limits::TELEMETRY_TEXT_CHARS;
        for _ in 0..most + 2 {
            list.add(&Message::user(long.as_str()), &redactor());
        }
        let json = json_of(&list);
        let messages = json.as_array().unwrap();
        assert!((2..=most).contains(&messages.len()), "{}", messages.len());
        let first = messages[0]["parts"][0]["content"].as_str().unwrap();
        assert_eq!(first.chars().count(), limits::TELEMETRY_TEXT_CHARS + 1, "with the sign of the cut");
        let left_out = most + 2 - (messages.len() - 1);
        let last = messages.last().unwrap()["parts"][0]["content"].as_str().unwrap();
        assert_eq!(last, format!("[{left_out} more messages are left out]"));
    }
}
