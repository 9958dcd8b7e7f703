//! Helpers of plugins that stand in for a model: token counts, and pieces of a text.

use shelly_plugin::{
    Content, Message, Part,
    types::{Request, StopReason, Usage},
};

/// The number of bytes that count as one token.
const TOKEN: usize = 4;

/// The number of bytes of a text that are emitted at once.
const PIECE: usize = 64;

/// Returns the usage of a reply with these parts.
pub fn usage(request: &Request, parts: &[Part]) -> Usage {
    let tokens = |bytes: usize| bytes.div_ceil(TOKEN) as u64;
    let messages: usize = request.messages.iter().map(message_bytes).sum();
    let tools: usize =
        request.tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.len()).sum();
    Usage {
        input_tokens: tokens(messages + tools),
        output_tokens: tokens(parts.iter().map(part_bytes).sum()),
        ..Usage::default()
    }
}

/// Cuts the text to the requested length, and returns it with the stop reason.
pub fn cut(mut text: String, max_tokens: Option<u32>) -> (String, StopReason) {
    let max = max_tokens.map_or(usize::MAX, |tokens| (tokens as usize).saturating_mul(TOKEN));
    let stop = if text.len() > max { StopReason::MaxTokens } else { StopReason::EndTurn };
    text.truncate(text.floor_char_boundary(max));
    (text, stop)
}

/// Splits the text into the pieces that are emitted: a few words at a time.
pub fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at(text.floor_char_boundary(PIECE));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn message_bytes(message: &Message) -> usize {
    message.parts.iter().map(part_bytes).sum()
}

fn part_bytes(part: &Part) -> usize {
    match part {
        Part::Text(text) => text.len(),
        Part::ToolCall(call) => call.name.len() + call.arguments.len(),
        Part::ToolResult(result) => result.content.iter().map(content_bytes).sum(),
        _ => 0,
    }
}

fn content_bytes(content: &Content) -> usize {
    match content {
        Content::Text(text) | Content::Json(text) => text.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_pieces_concatenate_to_the_text() {
        let text = "ö".repeat(200) + " end";
        assert_eq!(pieces(&text).collect::<String>(), text);
        assert!(pieces(&text).count() > 3);
    }

    #[test]
    fn model_text_is_cut_at_the_requested_length() {
        for (max, said, stop) in [
            (None, "äöü", StopReason::EndTurn),
            (Some(2), "äöü", StopReason::EndTurn),
            (Some(1), "äö", StopReason::MaxTokens),
            (Some(0), "", StopReason::MaxTokens),
        ] {
            assert_eq!(cut("äöü".into(), max), (said.into(), stop), "{max:?}");
        }
    }
}
