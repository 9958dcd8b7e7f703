//! Conversations and results as lines of text, so that a difference between two of them can be shown.

use crate::chat::{Media, Message, Part, ToolResultContent};

/// Returns the messages as lines: a header for each, and its parts below.
pub(super) fn conversation_text<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    let mut text = String::new();
    for message in messages {
        let role = format!("{:?}", message.role).to_lowercase();
        let by = if message.sender.is_empty() { String::new() } else { format!(" ({})", message.sender) };
        text.push_str(&format!("{role}{by}:\n"));
        message.parts.iter().for_each(|part| add_part(&mut text, part));
    }
    text
}

/// Returns the content of a result as lines.
pub(super) fn content_text(content: &[ToolResultContent]) -> String {
    let mut text = String::new();
    content.iter().for_each(|piece| add_content(&mut text, piece, ""));
    text
}

fn add_part(text: &mut String, part: &Part) {
    match part {
        Part::Text(words) => add_lines(text, "  ", words),
        Part::Media(media) => add_lines(text, "  ", &media_words(media)),
        Part::Thinking(thought) => add_lines(text, "  (thinks) ", &thought.text),
        Part::ToolCall(call) => add_lines(text, "  ", &format!("call {} of {} {}", call.id, call.name, call.arguments)),
        Part::ToolResult(result) => {
            let kind = if result.is_error { "error" } else { "result" };
            add_lines(text, "  ", &format!("{kind} of {}:", result.call_id));
            result.content.iter().for_each(|piece| add_content(text, piece, "    "));
        }
        Part::Other(opaque) => add_lines(text, "  ", &format!("{} {}", opaque.kind, opaque.json)),
    }
}

fn add_content(text: &mut String, content: &ToolResultContent, indent: &str) {
    match content {
        ToolResultContent::Text(words) | ToolResultContent::Json(words) => add_lines(text, indent, words),
        ToolResultContent::Media(media) => add_lines(text, indent, &media_words(media)),
        ToolResultContent::Other(opaque) => add_lines(text, indent, &format!("{} {}", opaque.kind, opaque.json)),
    }
}

fn add_lines(text: &mut String, indent: &str, words: &str) {
    // A text without a line is an empty line.
    let lines = if words.is_empty() { vec![""] } else { words.lines().collect() };
    lines.into_iter().for_each(|line| text.push_str(&format!("{indent}{line}\n")));
}

fn media_words(media: &Media) -> String {
    let name = media.name.as_deref().map_or(String::new(), |name| format!(" {name}"));
    format!("[{}{name}, {} bytes]", media.media_type, media.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{MediaData, Role, ToolCall, ToolResult};

    #[test]
    fn each_part_of_a_conversation_has_its_lines() {
        let call = ToolCall { id: "c1".into(), name: "count".into(), arguments: "{}".into(), meta: Vec::new() };
        let media = Media { media_type: "image/png".into(), name: None, source: MediaData::Bytes(vec![1, 2].into()) };
        let content = vec![ToolResultContent::Text("a\nb".into()), ToolResultContent::Media(media)];
        let messages = [
            Message::user("one\ntwo"),
            Message {
                parts: vec![Part::Text(String::new()), Part::ToolCall(call)],
                ..Message::text(Role::Assistant, "", "")
            },
            Message::results(vec![ToolResult { call_id: "c1".into(), content: content.clone(), is_error: true }]),
        ];
        assert_eq!(
            conversation_text(&messages),
            "user (user):\n  one\n  two\nassistant:\n  \n  call c1 of count {}\ntool:\n  error of c1:\n    a\n    b\n    \
             [image/png, 2 bytes]\n"
        );
        assert_eq!(content_text(&content), "a\nb\n[image/png, 2 bytes]\n");
    }
}
