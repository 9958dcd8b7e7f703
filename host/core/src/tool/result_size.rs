//! The size of a result that a model is shown: a share of the model's window.

use crate::{
    chat::{BYTES_PER_TOKEN, OpaqueContent, ToolResultContent},
    limits,
};

/// Returns the number of bytes of each result that a model with this window is shown if `calls` calls are answered at once.
pub(crate) fn result_bytes(window: Option<u64>, calls: usize) -> usize {
    let Some(window) = window else { return usize::MAX };
    let calls = u64::try_from(calls).unwrap_or(u64::MAX).max(1);
    let tokens = (window / limits::RESULT_WINDOW_PART).min(window / limits::RESULTS_WINDOW_PART / calls);
    let bytes = usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    bytes.max(limits::LEAST_RESULT_BYTES)
}

/// Returns the beginning of a text: at most `chars` characters and at most `bytes` bytes.
pub(crate) fn beginning(text: &str, chars: usize, bytes: usize) -> &str {
    let end = text.char_indices().nth(chars).map_or(text.len(), |(end, _)| end);
    &text[..end.min(text.floor_char_boundary(bytes))]
}

/// Counts the bytes of all texts of a result.
pub(super) fn text_bytes(content: &[ToolResultContent]) -> usize {
    content.iter().filter_map(text_of).map(String::len).sum()
}

pub(super) fn text_of(piece: &ToolResultContent) -> Option<&String> {
    match piece {
        ToolResultContent::Text(text)
        | ToolResultContent::Json(text)
        | ToolResultContent::Other(OpaqueContent { json: text, .. }) => Some(text),
        ToolResultContent::Media(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_one_reply_share_the_window() {
        for (window, calls, bytes) in [
            (None, 1, usize::MAX),
            (Some(8_192), 0, 8_192),
            (Some(8_192), 1, 8_192),
            (Some(8_192), 2, 8_192),
            (Some(8_192), 4, 4_096),
            (Some(8_192), 128, limits::LEAST_RESULT_BYTES),
            (Some(100), 1, limits::LEAST_RESULT_BYTES),
            (Some(u64::MAX), 1, usize::MAX - 3),
        ] {
            assert_eq!(result_bytes(window, calls), bytes, "{window:?}, {calls} calls");
        }
        for window in [4_096, 8_192, 32_768, 200_000] {
            let together = |calls| result_bytes(Some(window), calls) * calls / BYTES_PER_TOKEN;
            let most = usize::try_from(window / limits::RESULTS_WINDOW_PART).unwrap();
            assert!((1..=8).all(|calls| together(calls) <= most), "{window}");
        }
    }

    #[test]
    fn a_beginning_ends_at_a_character() {
        for (text, chars, bytes, expected) in [
            ("aéb", 9, 9, "aéb"),
            ("aéb", 2, 9, "aé"),
            ("aéb", 9, 3, "aé"),
            ("aéb", 9, 2, "a"),
            ("aéb", 0, 9, ""),
            ("", 3, 3, ""),
        ] {
            assert_eq!(beginning(text, chars, bytes), expected, "{text} {chars} {bytes}");
        }
    }
}
