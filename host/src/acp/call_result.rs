//! The arguments and results of tool calls as an editor is sent them: without credentials, and bounded.

use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::session_update::{call_text, media_block, with_members};
use crate::{
    chat::{Media, ToolResult, ToolResultContent},
    limits,
    session::Secrets,
};

/// Returns arguments as JSON, or as a text if they are none or too long.
pub(super) fn raw_value(secrets: &Secrets, json: &str) -> Value {
    let clean = clean_json(secrets, json);
    match clean.len() <= limits::ACP_CALL_BYTES {
        true => serde_json::from_str(&clean).unwrap_or(Value::String(clean)),
        false => Value::String(bounded(&clean)),
    }
}

/// Returns the content of a call with this result, after the compared texts of its files.
pub(super) fn result_content(secrets: &Secrets, result: &ToolResult, diffs: Vec<Value>) -> Value {
    let (mut content, mut raw, mut room) = (diffs, None, limits::ACP_CALL_BYTES);
    for part in &result.content {
        let block = match part {
            ToolResultContent::Text(text) => call_text(&bounded(&secrets.clean_text(text))),
            ToolResultContent::Json(json) => {
                raw = Some(raw_value(secrets, json));
                call_text(&bounded(&clean_json(secrets, json)))
            }
            ToolResultContent::Media(media) => json!({"type": "content", "content": media_block(media)}),
            ToolResultContent::Other(other) => call_text(&format!("[{}]", other.kind)),
        };
        // Media are not cut: half an image is none.
        let bytes = match part {
            ToolResultContent::Media(media) => media.bytes(),
            _ => part.bytes(Media::bytes).min(limits::ACP_CALL_BYTES),
        };
        if bytes > room {
            content.push(call_text("[the rest of the result is not shown]"));
            break;
        }
        room -= bytes;
        content.push(block);
    }
    let fields = json!({ "content": content });
    match raw {
        Some(raw) => with_members(fields, json!({"rawOutput": raw})),
        None => fields,
    }
}

fn clean_json(secrets: &Secrets, json: &str) -> String {
    let is_json = |json: &[u8]| serde_json::from_slice::<IgnoredAny>(json).is_ok();
    let clean = secrets.clean_json(json.as_bytes().to_vec(), is_json);
    String::from_utf8_lossy(&clean).into_owned()
}

/// Returns the beginning of a text, with a mark where it was cut.
pub(super) fn bounded(text: &str) -> String {
    let most = limits::ACP_CALL_BYTES;
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}\n[{} more bytes are not shown]", &text[..end], text.len() - end)
}
