//! Messages as other programs expect them.

use serde_json::{Value, json};

use shelly_core::{
    chat::{MediaData, Message, Part, Role, ToolCall, ToolResult},
    error::cut,
    limits,
};

/// Returns messages as the value of `gen_ai.input.messages` and `gen_ai.output.messages`: JSON with the texts cut.
pub(crate) fn span_messages<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    let messages = messages.into_iter().map(|message| {
        let parts: Vec<_> = message.parts.iter().map(span_part).collect();
        json!({ "role": role_word(message.role), "parts": parts })
    });
    Value::from(messages.collect::<Vec<_>>()).to_string()
}

fn span_part(part: &Part) -> Value {
    match part {
        Part::Text(text) => json!({ "type": "text", "content": short(text) }),
        Part::Thinking(thinking) => json!({ "type": "reasoning", "content": short(&thinking.text) }),
        Part::Media(media) => match &media.source {
            MediaData::Url(url) => json!({ "type": "uri", "mime_type": media.media_type, "uri": short(url) }),
            // The bytes would make the span too large.
            MediaData::Bytes(bytes) => json!({ "type": "blob", "mime_type": media.media_type, "size": bytes.len() }),
        },
        Part::ToolCall(call) => json!({
            "type": "tool_call", "id": call.id, "name": call.name, "arguments": short_arguments(&call.arguments),
        }),
        Part::ToolResult(result) => {
            json!({ "type": "tool_call_response", "id": result.call_id, "response": short(&result.text()) })
        }
        Part::Other(opaque) => json!({ "type": opaque.kind, "content": short(&opaque.json) }),
    }
}

/// Returns a text that fits into a span.
pub(crate) fn short(text: &str) -> String {
    match text.len() > limits::TRACE_ATTRIBUTE_BYTES {
        true => format!("{}…", &text[..text.floor_char_boundary(limits::TRACE_ATTRIBUTE_BYTES)]),
        false => text.to_owned(),
    }
}

/// Returns arguments as a JSON value; as text if they are no JSON, or are cut.
fn short_arguments(arguments: &str) -> Value {
    match arguments.len() > limits::TRACE_ATTRIBUTE_BYTES {
        true => Value::from(short(arguments)),
        false => serde_json::from_str(arguments).unwrap_or_else(|_| Value::from(arguments)),
    }
}

pub(crate) fn role_word(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Returns a message as a list of messages of Inspect: one for each tool result, else one. `id` makes their ids; `name_of`
/// names the tool of a call.
pub(crate) fn inspect_messages(message: &Message, id: &str, name_of: impl Fn(&str) -> Option<String>) -> Vec<Value> {
    if message.role == Role::Tool {
        let results = message.tool_results().enumerate();
        return results
            .map(|(at, result)| inspect_result(result, &format!("{id}.{at}"), name_of(&result.call_id)))
            .collect();
    }
    let content: Vec<_> = message.parts.iter().filter_map(inspect_content).collect();
    let mut value = json!({ "id": id, "role": role_word(message.role), "content": content });
    if message.role == Role::Assistant {
        let calls: Vec<_> = message.tool_calls().map(inspect_call).collect();
        value["source"] = "generate".into();
        if !calls.is_empty() {
            value["tool_calls"] = calls.into();
        }
    }
    vec![value]
}

fn inspect_content(part: &Part) -> Option<Value> {
    Some(match part {
        Part::Text(text) => json!({ "type": "text", "text": text }),
        Part::Thinking(thinking) => json!({ "type": "reasoning", "reasoning": thinking.text }),
        Part::Media(media) => match &media.source {
            MediaData::Url(url) if media.media_type.starts_with("image/") => json!({ "type": "image", "image": url }),
            _ => {
                let name = media.name.as_deref().unwrap_or("file");
                json!({ "type": "text", "text": format!("[{} {}, {} bytes]", media.media_type, name, media.bytes()) })
            }
        },
        Part::Other(opaque) => json!({ "type": "text", "text": opaque.json }),
        Part::ToolCall(_) | Part::ToolResult(_) => return None,
    })
}

fn inspect_call(call: &ToolCall) -> Value {
    let (arguments, error) = inspect_arguments(&call.arguments);
    let mut value = json!({ "id": call.id, "function": call.name, "arguments": arguments, "type": "function" });
    if let Some(error) = error {
        value["parse_error"] = error.into();
    }
    value
}

/// Returns arguments as an object, and the reason if they are none; they are then under the key `arguments`.
pub(crate) fn inspect_arguments(arguments: &str) -> (Value, Option<String>) {
    match serde_json::from_str::<Value>(arguments) {
        Ok(value @ Value::Object(_)) => (value, None),
        _ if arguments.trim().is_empty() => (json!({}), None),
        _ => (json!({ "arguments": arguments }), Some("the arguments are not a JSON object".into())),
    }
}

fn inspect_result(result: &ToolResult, id: &str, tool: Option<String>) -> Value {
    let text = result.text();
    let mut value = json!({ "id": id, "role": "tool", "content": text, "tool_call_id": result.call_id });
    if let Some(tool) = tool {
        value["function"] = tool.into();
    }
    if result.is_error {
        value["error"] = inspect_error(&text);
    }
    value
}

/// Returns the error of a call.
pub(crate) fn inspect_error(reason: &str) -> Value {
    json!({ "type": "unknown", "message": cut(reason, limits::TRACE_TEXT_BYTES) })
}
