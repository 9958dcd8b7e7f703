use std::collections::HashMap;

use serde_json::{Value, json};

use super::{
    call_result::{raw_value, result_content},
    run_updates::call_id,
    session_update::{call_update, chunk, media_block, text_block, with_members},
    tool_display::{kind_of, title_of},
};
use crate::{
    chat::{Chat, Message, Part, Role},
    session::Secrets,
    task::without_marked_texts,
};

/// Returns the updates that show a conversation again: its present messages. Those that a summary has replaced are gone.
pub(super) fn history_updates(chat: &Chat, secrets: &Secrets) -> Vec<Value> {
    let snapshot = chat.snapshot();
    let mut updates = Vec::new();
    // The ids in the protocol of the calls that have no result yet.
    let mut calls = HashMap::new();
    for entry in snapshot.iter() {
        let message = &*entry.message;
        match message.role {
            Role::System => {}
            Role::User if message.is_note() => {}
            Role::User => updates.extend(said_by_person(message, secrets)),
            Role::Assistant => {
                for part in &message.parts {
                    updates.extend(said_by_agent(message, part, secrets, &mut calls));
                }
            }
            Role::Tool => {
                for result in message.tool_results() {
                    let Some(id) = calls.remove(&result.call_id) else { continue };
                    let status = if result.is_error { "failed" } else { "completed" };
                    let fields = with_members(result_content(secrets, result, Vec::new()), json!({"status": status}));
                    updates.push(call_update(&id, fields));
                }
            }
        }
    }
    updates
}

fn said_by_person(message: &Message, secrets: &Secrets) -> Vec<Value> {
    let block = |part: &Part| match part {
        Part::Text(text) => {
            let text = secrets.clean_text(without_marked_texts(text));
            (!text.trim().is_empty()).then(|| text_block(&text))
        }
        Part::Media(media) => Some(media_block(media)),
        _ => None,
    };
    message.parts.iter().filter_map(block).map(|block| chunk("user_message_chunk", block)).collect()
}

fn said_by_agent(
    message: &Message,
    part: &Part,
    secrets: &Secrets,
    calls: &mut HashMap<String, String>,
) -> Option<Value> {
    let text = |text: &str| (!text.trim().is_empty()).then(|| text_block(&secrets.clean_text(text)));
    match part {
        Part::Text(said) => Some(chunk("agent_message_chunk", text(said)?)),
        Part::Thinking(thinking) => Some(chunk("agent_thought_chunk", text(&thinking.text)?)),
        Part::Media(media) => Some(chunk("agent_message_chunk", media_block(media))),
        Part::ToolCall(call) => {
            let (id, input) = (call_id(&message.sender, &call.id), raw_value(secrets, &call.arguments));
            calls.insert(call.id.clone(), id.clone());
            Some(json!({
                "sessionUpdate": "tool_call", "toolCallId": id, "title": title_of(&call.name, &input),
                "kind": kind_of(&call.name), "status": "pending", "rawInput": input,
            }))
        }
        Part::ToolResult(_) | Part::Other(_) => None,
    }
}
