//! Cutting results to what is kept, and to what a model is shown.

use super::result_size::text_of;
use crate::{
    chat::{OpaqueContent, ToolCall, ToolResult, ToolResultContent},
    limits,
};

/// Returns as much of a result as can be kept.
pub(crate) fn kept(call: &ToolCall, mut content: Vec<ToolResultContent>, is_error: bool) -> ToolResult {
    cut_content(&mut content, limits::KEPT_RESULT_CHARS);
    ToolResult { call_id: call.id.clone(), content, is_error }
}

/// Counts the characters of all texts of a result.
pub(super) fn chars(content: &[ToolResultContent]) -> usize {
    content.iter().filter_map(text_of).map(|text| text.chars().count()).sum()
}

/// Cuts a result at [`limits::RESULT_PIECES`] pieces and its text at `chars` characters in all, and notes that in the
/// result.
pub(super) fn cut_content(content: &mut Vec<ToolResultContent>, chars: usize) {
    if let Some(beyond) = content.len().checked_sub(limits::RESULT_PIECES).filter(|beyond| *beyond > 0) {
        content.truncate(limits::RESULT_PIECES);
        content.push(ToolResultContent::Text(format!("[{beyond} more pieces were cut]")));
    }
    let mut left = chars;
    let mut cut_away = 0;
    for piece in &mut *content {
        if let ToolResultContent::Text(text)
        | ToolResultContent::Json(text)
        | ToolResultContent::Other(OpaqueContent { json: text, .. }) = piece
        {
            if text.len() <= left {
                // There are no more characters than bytes: most results need no counting.
                left -= text.chars().count();
                continue;
            }
            let chars = text.chars().count();
            if let Some((end, _)) = text.char_indices().nth(left) {
                text.truncate(end);
                cut_away += chars - left;
                left = 0;
            } else {
                left -= chars;
            }
        }
    }
    content.retain(|piece| {
        !matches!(piece, ToolResultContent::Text(text) | ToolResultContent::Json(text) if text.is_empty())
            || cut_away == 0
    });
    if cut_away > 0 {
        content.push(ToolResultContent::Text(format!("[{cut_away} more characters were cut]")));
    }
}
