//! The types that all kinds share, as in `wit/types.wit`, with helpers for Rust.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

#[doc(inline)]
pub use crate::bindings::imports::shelly::plugin::types::*;

impl ToolHints {
    /// The hints of a tool that only computes from its arguments: it changes nothing, is idempotent, and uses nothing of
    /// the outside world.
    pub const PURE: ToolHints = ToolHints::all();
}

impl Error {
    /// Creates an error that has no case of its own.
    pub fn other(cause: impl std::fmt::Display) -> Error {
        Error::Other(cause.to_string())
    }

    /// Creates the error for a service that is not reachable, overloaded, or cut off in the middle. A later attempt may
    /// succeed, after an unknown time.
    pub fn unavailable(message: impl Into<String>) -> Error {
        Error::Unavailable(Retry { message: message.into(), after_ms: None })
    }

    /// Returns the text of the error, whatever its case.
    pub fn message(&self) -> &str {
        match self {
            Error::Invalid(text)
            | Error::Denied(text)
            | Error::NotFound(text)
            | Error::TooLarge(text)
            | Error::Exhausted(text)
            | Error::Timeout(text)
            | Error::Other(text) => text,
            Error::RateLimited(retry) | Error::Unavailable(retry) => &retry.message,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Content {
        Content::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Content {
        Content::Text(text)
    }
}

impl FileChange {
    /// Proposes to write the file. `digest` is the SHA-256, in hexadecimal, of its current content; `None` if the file
    /// does not exist yet.
    pub fn write(path: impl Into<String>, digest: Option<String>, content: Vec<u8>) -> FileChange {
        FileChange { path: path.into(), expected: digest, act: FileAct::Write(content) }
    }

    /// Proposes another action on the file or folder, whatever its content.
    pub fn of(path: impl Into<String>, act: FileAct) -> FileChange {
        FileChange { path: path.into(), expected: None, act }
    }
}

impl From<FileChange> for Content {
    fn from(change: FileChange) -> Content {
        Content::Change(change)
    }
}

impl From<&str> for Part {
    fn from(text: &str) -> Part {
        Part::Text(text.to_owned())
    }
}

impl From<String> for Part {
    fn from(text: String) -> Part {
        Part::Text(text)
    }
}

impl Message {
    /// Creates a message with one text and no sender.
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        Message { sender: String::new(), role, parts: vec![Part::Text(text.into())], meta: Vec::new() }
    }

    /// Returns the text parts, concatenated.
    pub fn text(&self) -> String {
        self.parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    /// Returns the value of the message's fact with this key.
    pub fn fact(&self, key: &str) -> Option<&str> {
        self.meta.iter().find(|(there, _)| there == key).map(|(_, value)| value.as_str())
    }

    /// Returns `true` if the reply that a run middleware receives is an answer: not the message of an agent that hands
    /// over or whose task has failed. Rules for answers need not hold for those messages.
    pub fn is_answer(&self) -> bool {
        !matches!(self.fact("shelly.ending"), Some("handed-over" | "failed"))
    }

    /// Returns the team member that wrote the message, in the team's shared chat. Returns `None` for every message that
    /// no member wrote, whatever its sender is called.
    pub fn member(&self) -> Option<&str> {
        let member = self.fact("shelly.member").unwrap_or(&self.sender);
        (self.role == Role::Assistant && !member.is_empty()).then_some(member)
    }

    /// Returns the member to which another member hands over. Only the note about it in the team's shared chat names one.
    pub fn hand_over(&self) -> Option<&str> {
        self.fact("shelly.hand-over")
    }
}

impl ToolResult {
    /// Returns the texts and JSON of the result, one per line.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|content| match content {
                Content::Text(text) | Content::Json(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }
}

impl ToolResult {
    /// Returns the whole result as text, for a vendor that takes nothing else. A failed result begins with `Error: `;
    /// media are described.
    pub fn in_words(&self) -> String {
        let piece = |content: &Content| match content {
            Content::Text(text) | Content::Json(text) => text.clone(),
            Content::Media(media) => media.in_words(),
            Content::Change(change) => format!("[a change to {}]", change.path),
            Content::Other(opaque) => opaque.json.clone(),
        };
        let said = self.content.iter().map(piece).collect::<Vec<_>>().join("\n");
        if self.is_error { format!("Error: {said}") } else { said }
    }
}

impl Request {
    /// Returns the calls of all messages by their ids; if an id occurs twice, the newest call. Build this map once per
    /// request, because a conversation can be long.
    pub fn calls(&self) -> BTreeMap<&str, &ToolCall> {
        let parts = self.messages.iter().flat_map(|message| &message.parts);
        parts.filter_map(|part| if let Part::ToolCall(call) = part { Some((&*call.id, call)) } else { None }).collect()
    }
}

impl ToolCall {
    /// Returns the arguments as the object that a vendor expects back. They stay as the model wrote them; arguments that
    /// are not an object are wrapped in one. Otherwise a server may refuse a whole conversation because of one old broken
    /// call.
    pub fn object(&self) -> Box<RawValue> {
        let written = if self.arguments.trim().is_empty() { "{}" } else { self.arguments.trim() };
        let wrapped = || serde_json::json!({ "invalid_arguments": written }).to_string();
        let object = if crate::json::is_object(written) { written.to_owned() } else { wrapped() };
        RawValue::from_string(object).unwrap_or_default()
    }
}

impl Default for Usage {
    /// Returns a usage of zero tokens.
    fn default() -> Usage {
        Usage { input_tokens: 0, output_tokens: 0, cache_read_tokens: 0, cache_write_tokens: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_wrote_goes_back_as_an_object() {
        for (written, expected) in [
            ("", "{}"),
            (" \n", "{}"),
            (" {\"b\": 1.0, \"a\":2} ", "{\"b\": 1.0, \"a\":2}"),
            ("{\"a\":", "{\"invalid_arguments\":\"{\\\"a\\\":\"}"),
            ("{} {}", "{\"invalid_arguments\":\"{} {}\"}"),
            ("[1]", "{\"invalid_arguments\":\"[1]\"}"),
            ("null", "{\"invalid_arguments\":\"null\"}"),
            (r#"{"a":"\u00e4 \ud83c\udf0d"}"#, r#"{"a":"\u00e4 \ud83c\udf0d"}"#),
            (r#"{"a":"\ud83c"}"#, r#"{"invalid_arguments":"{\"a\":\"\\ud83c\"}"}"#),
            (r#"{"a":1e999}"#, r#"{"invalid_arguments":"{\"a\":1e999}"}"#),
            (r#"{"a":[-1,0.5,true,null,{"b":[]}]}"#, r#"{"a":[-1,0.5,true,null,{"b":[]}]}"#),
        ] {
            let call = ToolCall { id: String::new(), name: String::new(), arguments: written.into(), meta: Vec::new() };
            assert_eq!(call.object().get(), expected, "{written}");
        }
    }

    #[test]
    fn newest_call_with_a_repeated_id_is_found() {
        let call = |id: &str, name: &str| {
            Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: String::new(), meta: Vec::new() })
        };
        let message = |parts| Message { parts, ..Message::new(Role::Assistant, "") };
        let request = Request {
            messages: vec![
                message(vec![call("a", "old"), "text".into(), call("b", "other")]),
                message(vec![call("a", "new")]),
            ],
            tools: Vec::new(),
            tool_choice: ToolChoice::Auto,
            max_output_tokens: None,
            temperature: None,
            response_schema: None,
            meta: Vec::new(),
        };
        let found: Vec<_> = request.calls().into_iter().map(|(id, call)| (id, &*call.name)).collect();
        assert_eq!(found, [("a", "new"), ("b", "other")]);
    }

    #[test]
    fn message_meta_determines_its_kind() {
        let with = |role, key: &str, value: &str| Message {
            sender: "ada".into(),
            meta: vec![(key.into(), value.into())],
            ..Message::new(role, "a")
        };
        for (ending, is_answer) in [("handed-over", false), ("failed", false), ("completed", true), ("", true)] {
            assert_eq!(with(Role::Assistant, "shelly.ending", ending).is_answer(), is_answer, "{ending}");
        }
        for (role, key, value, member) in [
            (Role::Assistant, "shelly.member", "bob", Some("bob")),
            (Role::Assistant, "shelly.member", "", None),
            (Role::Assistant, "k", "bob", Some("ada")),
            (Role::User, "shelly.member", "bob", None),
            (Role::User, "k", "bob", None),
        ] {
            assert_eq!(with(role, key, value).member(), member, "{role:?} {key} {value}");
        }
    }

    #[test]
    fn tool_result_in_words_covers_all_content() {
        let picture = Media { media_type: "image/png".into(), name: None, source: Source::Attachment("x".into()) };
        let other = Opaque { kind: "a.b".into(), json: "[1]".into() };
        let content = vec!["a".into(), Content::Json("2".into()), Content::Media(picture), Content::Other(other)];
        for (content, is_error, expected) in [
            (vec![], false, ""),
            (vec![], true, "Error: "),
            (vec!["no".into()], true, "Error: no"),
            (content, false, "a\n2\n[attachment, image/png: cannot be shown]\n[1]"),
        ] {
            assert_eq!(ToolResult { call_id: String::new(), content, is_error }.in_words(), expected);
        }
    }
}
