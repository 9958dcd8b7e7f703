//! The updates of a conversation that an editor is sent.

use std::path::Path;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    chat::{Media, MediaData},
    state::{Task, TaskStatus},
};

/// Returns a block with text.
pub(super) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns a block with a medium: an image as it is, anything else by its name.
pub(super) fn media_block(media: &Media) -> Value {
    match &media.source {
        MediaData::Bytes(bytes) if media.media_type.starts_with("image/") => {
            json!({"type": "image", "data": STANDARD.encode(bytes), "mimeType": media.media_type})
        }
        _ => text_block(&format!("[{}]", media.name.as_deref().unwrap_or(&media.media_type))),
    }
}

/// Returns a piece of a message: `kind` is `user_message_chunk`, `agent_message_chunk` or `agent_thought_chunk`.
pub(super) fn chunk(kind: &str, content: Value) -> Value {
    json!({"sessionUpdate": kind, "content": content})
}

/// Returns a piece of what the agent says.
pub(super) fn agent_text(text: &str) -> Value {
    chunk("agent_message_chunk", text_block(text))
}

/// Returns text as the content of a tool call.
pub(super) fn call_text(text: &str) -> Value {
    json!({"type": "content", "content": text_block(text)})
}

/// Returns compared texts as the content of a tool call. Without an old text the file is new.
pub(super) fn call_diff(path: &Path, old: Option<&str>, new: &str) -> Value {
    json!({"type": "diff", "path": path.to_string_lossy(), "oldText": old, "newText": new})
}

/// Returns a path that a tool call is about.
pub(super) fn location(path: &Path, line: Option<u32>) -> Value {
    match line {
        Some(line) => json!({"path": path.to_string_lossy(), "line": line}),
        None => json!({"path": path.to_string_lossy()}),
    }
}

/// Returns an update of a tool call: `fields` are the members that change.
pub(super) fn call_update(call: &str, fields: Value) -> Value {
    with_members(json!({"sessionUpdate": "tool_call_update", "toolCallId": call}), fields)
}

/// Returns an object with the members of another one.
pub(super) fn with_members(mut object: Value, members: Value) -> Value {
    if let (Value::Object(object), Value::Object(members)) = (&mut object, members) {
        object.extend(members);
    }
    object
}

/// Returns the tasks of a board as a plan. Canceled and failed tasks are left out: a plan has no word for them.
pub(super) fn plan(tasks: &[Task]) -> Value {
    let entries: Vec<_> = tasks
        .iter()
        .filter_map(|task| {
            let status = match task.status {
                TaskStatus::Pending => "pending",
                TaskStatus::InProgress => "in_progress",
                TaskStatus::Completed => "completed",
                TaskStatus::Failed | TaskStatus::Canceled => return None,
            };
            let owner = task.assignee.as_ref().filter(|_| task.status == TaskStatus::InProgress);
            let owner = owner.map_or(String::new(), |owner| format!(" ({owner})"));
            Some(json!({"content": format!("{}{owner}", task.title), "priority": "medium", "status": status}))
        })
        .collect();
    json!({"sessionUpdate": "plan", "entries": entries})
}

/// Returns a warning for the person, as a notice if the editor shows those and as a thought otherwise.
pub(super) fn notice(text: &str, has_notices: bool) -> Value {
    match has_notices {
        true => json!({"sessionUpdate": "notice", "severity": "warning", "title": text}),
        false => chunk("agent_thought_chunk", text_block(&format!("warning: {text}\n"))),
    }
}
