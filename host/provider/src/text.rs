//! Texts of a conversation for wire formats, borrowed if they are in one piece.

use std::borrow::Cow;

use shelly_core::chat::{Message, Part, ToolResult, ToolResultContent};

/// Returns the concatenated text parts of a message.
pub fn of_message(message: &Message) -> Cow<'_, str> {
    let mut texts = message.parts.iter().filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None });
    match (texts.next(), texts.next()) {
        (None, _) => "".into(),
        (Some(text), None) => text.into(),
        _ => message.text_content().into(),
    }
}

/// Returns a tool result as text.
pub fn of_result(result: &ToolResult) -> Cow<'_, str> {
    match result.content.as_slice() {
        [ToolResultContent::Text(text) | ToolResultContent::Json(text)] => text.into(),
        _ => result.text().into(),
    }
}

/// Returns a tool result for wire formats that cannot mark a failed call: the text says so.
pub fn of_outcome(result: &ToolResult) -> Cow<'_, str> {
    let text = of_result(result);
    if result.is_error { format!("Error: {text}").into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shelly_core::chat::{Role, ThinkingPart};

    #[test]
    fn single_text_part_is_borrowed_several_are_joined() {
        let thought = || Part::Thinking(ThinkingPart { text: "so".into(), opaque: None });
        let text = |text: &str| Part::Text(text.into());
        for (parts, expected, is_borrowed) in [
            (vec![], "", true),
            (vec![thought()], "", true),
            (vec![thought(), text("ä")], "ä", true),
            (vec![text("a"), thought(), text(""), text("b")], "ab", false),
        ] {
            let message = Message { sender: String::new(), role: Role::Assistant, parts, meta: vec![] };
            let said = of_message(&message);
            assert_eq!((&*said, matches!(said, Cow::Borrowed(_))), (expected, is_borrowed));
            assert_eq!(said, message.text_content());
        }
        let content =
            |texts: &[&str]| texts.iter().map(|text| ToolResultContent::Text((*text).into())).collect::<Vec<_>>();
        for (texts, is_error, expected, is_borrowed) in [
            (&[][..], false, "", false),
            (&["a"], false, "a", true),
            (&["a"], true, "Error: a", false),
            (&["a", "b"], false, "a\nb", false),
        ] {
            let result = ToolResult { call_id: String::new(), content: content(texts), is_error };
            let said = of_outcome(&result);
            assert_eq!((&*said, matches!(said, Cow::Borrowed(_))), (expected, is_borrowed));
            assert_eq!(of_result(&result), result.text());
        }
    }
}
