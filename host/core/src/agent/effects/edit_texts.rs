//! The texts of an edit for its event: what it takes away, and what it puts there.

use std::sync::Arc;

use crate::{
    agent::effect::EffectEdit,
    chat::{ChatSnapshot, Message, Part, Role, ToolResult},
    error::cut,
    event::{EffectEditKind, Event},
    limits,
};

/// The texts of an edit that is about to be applied, each of at most [`limits::EDIT_SHOWN_CHARS`].
pub(super) struct EditTexts {
    kind: EffectEditKind,
    /// The number of messages before the edit.
    messages: usize,
    before: Option<String>,
    after: Option<String>,
}

impl EditTexts {
    /// Reads the texts of an edit of this conversation. `is_shown`: texts of the conversation may be seen.
    pub fn of(edit: &EffectEdit, chat: &ChatSnapshot, is_shown: bool) -> Self {
        let (before, after) = match edit {
            _ if !is_shown => (None, None),
            EffectEdit::Note(text) => (None, Some(text.clone())),
            EffectEdit::ReplaceResult { call_id, content } => {
                let mut results = chat.iter().rev().flat_map(|entry| entry.message.tool_results());
                let before = results.find(|result| result.call_id == *call_id).map(ToolResult::text);
                let after = ToolResult { call_id: call_id.clone(), content: content.clone(), is_error: false };
                (before, Some(after.text()))
            }
            EffectEdit::Replace(replacement) => {
                let range = chat.find(replacement.first).zip(chat.find(replacement.last));
                let before = range.map(|(first, last)| chat.range(first, last + 1).map(|entry| &*entry.message));
                (before.map(in_words), Some(in_words(replacement.messages.iter())))
            }
            EffectEdit::HideTools(names) => (None, Some(names.join(", "))),
            EffectEdit::Stop { .. } | EffectEdit::Unknown(_) => (None, None),
        };
        let shown = |text: Option<String>| {
            text.filter(|text| !text.is_empty()).map(|text| cut(&text, limits::EDIT_SHOWN_CHARS))
        };
        Self { kind: edit.kind(), messages: chat.len(), before: shown(before), after: shown(after) }
    }

    /// Returns the event for the edit, after which the conversation has this many messages.
    pub fn into_event(self, agent: Arc<str>, effect: String, messages_after: usize) -> Event {
        let Self { kind: edit, messages: messages_before, before, after } = self;
        Event::EffectEdited { agent, effect, edit, messages_before, messages_after, before, after }
    }
}

/// Writes messages one below the other, each after its role, until there are enough characters to be cut.
fn in_words<'a>(messages: impl Iterator<Item = &'a Message>) -> String {
    let mut words = String::new();
    for message in messages {
        if words.len() > limits::EDIT_SHOWN_CHARS * size_of::<char>() {
            break;
        }
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        for part in &message.parts {
            let text = match part {
                Part::Text(text) => cut(text, limits::EDIT_SHOWN_CHARS),
                Part::Media(media) => format!("[{}]", media.media_type),
                Part::Thinking(_) => continue,
                Part::ToolCall(call) => format!("{} {}", call.name, cut(&call.arguments, limits::EDIT_SHOWN_CHARS)),
                Part::ToolResult(result) => cut(&result.text(), limits::EDIT_SHOWN_CHARS),
                Part::Other(opaque) => format!("[{}]", opaque.kind),
            };
            if !words.is_empty() {
                words.push('\n');
            }
            words.push_str(&format!("{role}: {text}"));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Chat, MessageReplacement, ToolCall, ToolResultContent};

    #[test]
    fn texts_of_edits_are_cut_for_events() {
        let chat = Chat::new();
        chat.append(Message::user("Two and two?")).unwrap();
        let call = ToolCall { id: "c".into(), name: "add".into(), arguments: "{}".into(), meta: vec![] };
        let reply = Message { parts: vec![Part::ToolCall(call)], ..Message::text(Role::Assistant, "ada", "") };
        drop(chat.reply(reply));
        let snapshot = chat.snapshot();
        let (first, last) = (snapshot.iter().next().unwrap().id, snapshot.last().unwrap().id);
        let replaced =
            |text: &str| EffectEdit::Replace(MessageReplacement { first, last, messages: vec![Message::user(text)] });
        let result = |text: &str| EffectEdit::ReplaceResult {
            call_id: "c".into(),
            content: vec![ToolResultContent::Text(text.into())],
        };
        let abandoned = snapshot.last().unwrap().message.tool_results().next().unwrap().text();
        let all = format!("user: Two and two?\nassistant: add {{}}\ntool: {abandoned}");
        for (edit, before, after) in [
            (EffectEdit::Note("Be brief.".into()), None, Some("Be brief.")),
            (result("4"), Some(&*abandoned), Some("4")),
            (replaced("2 + 2?"), Some(&*all), Some("user: 2 + 2?")),
            (EffectEdit::HideTools(vec!["add".into(), "sum".into()]), None, Some("add, sum")),
            (EffectEdit::HideTools(vec![]), None, None),
        ] {
            let texts = EditTexts::of(&edit, &snapshot, true);
            assert_eq!(
                (texts.before.as_deref(), texts.after.as_deref(), texts.messages),
                (before, after, 3),
                "{edit:?}"
            );
            let hidden = EditTexts::of(&edit, &snapshot, false);
            assert_eq!((hidden.before, hidden.after), (None, None), "{edit:?}");
        }
        let long = "é".repeat(limits::EDIT_SHOWN_CHARS + 1);
        for edit in [EffectEdit::Note(long.clone()), result(&long), replaced(&long)] {
            let after = EditTexts::of(&edit, &snapshot, true).after.unwrap();
            assert_eq!(after.chars().count(), limits::EDIT_SHOWN_CHARS + 1, "with the mark of the cut");
        }
    }
}
