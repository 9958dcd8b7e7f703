//! Parsing of the messages of a peer, within bounds on their values and their depth.

use memchr::memmem;
use rmcp::model::{ErrorData, RequestId, ServerJsonRpcMessage};
use serde_json::Value;

use super::depth;
use shelly_core::{json_values::count_json_values, limits};

/// Parses a message. On failure returns the error for the caller that awaits this answer, if the id is found.
pub(super) fn read_message(bytes: &[u8]) -> Result<ServerJsonRpcMessage, Option<Box<ServerJsonRpcMessage>>> {
    if bytes.first() != Some(&b'{') {
        return Err(None);
    }
    if has_too_many_values(bytes) {
        return Err(too_many_values(bytes));
    }
    serde_json::from_slice(bytes).or_else(|_| {
        let Ok(message) = serde_json::from_slice::<Value>(bytes) else { return read_deep_message(bytes) };
        let is_answer = message.get("method").is_none();
        let id = message.get("id").filter(|_| is_answer).and_then(|id| serde_json::from_value(id.clone()).ok());
        Err(id.map(|id| refused(id, "the answer is not valid in the protocol".into())))
    })
}

/// Reads a message whose lists and objects are nested deeper than the parser allows. In a list of tools the values that are
/// too deep become `null`: they are deeper than a schema may be, so that only their tool is refused. Any other answer is
/// refused, since its caller would otherwise wait until its time is over.
pub(super) fn read_deep_message(bytes: &[u8]) -> Result<ServerJsonRpcMessage, Option<Box<ServerJsonRpcMessage>>> {
    let pruned = depth::prune(bytes, limits::MCP_MESSAGE_DEPTH).ok_or(None)?;
    let message: Value = serde_json::from_slice(&pruned).map_err(|_| None)?;
    if message.get("method").is_some() {
        return Err(None);
    }
    let is_list_of_tools = message.get("result").and_then(|result| result.get("tools")).is_some_and(Value::is_array);
    if is_list_of_tools && let Ok(message) = serde_json::from_slice(&pruned) {
        return Ok(message);
    }
    let id = message.get("id").and_then(|id| serde_json::from_value(id.clone()).ok()).ok_or(None)?;
    let why = format!("the answer has more than {} nested lists and objects", limits::MCP_MESSAGE_DEPTH);
    Err(Some(refused(id, why)))
}

/// Returns `true` if parsing the message would take more memory than a message may.
pub(super) fn has_too_many_values(bytes: &[u8]) -> bool {
    count_json_values(bytes) > limits::MCP_MESSAGE_VALUES
}

/// Returns the error for the caller that awaits this message, if its id is found.
pub(super) fn too_many_values(bytes: &[u8]) -> Option<Box<ServerJsonRpcMessage>> {
    Some(refused(id_at_ends(bytes)?, format!("the answer has more than {} values", limits::MCP_MESSAGE_VALUES)))
}

pub(super) fn too_long(id: RequestId) -> Box<ServerJsonRpcMessage> {
    refused(id, format!("the answer has more than {} bytes", limits::MCP_MESSAGE_BYTES))
}

fn refused(id: RequestId, why: String) -> Box<ServerJsonRpcMessage> {
    Box::new(ServerJsonRpcMessage::error(ErrorData::internal_error(why, None), Some(id)))
}

/// Returns the id at the beginning or the end of a message that is not parsed.
pub(super) fn id_at_ends(bytes: &[u8]) -> Option<RequestId> {
    let most = bytes.len().min(limits::MCP_ID_BYTES);
    id_at(&bytes[..most], &bytes[bytes.len() - most..])
}

/// Returns the id at the beginning of a message, or at its end. It may be the id of a nested object; a peer that sends such
/// a message harms only itself.
pub(super) fn id_at(beginning: &[u8], end: &[u8]) -> Option<RequestId> {
    const KEY: &[u8] = b"\"id\"";
    let number = |after: &[u8]| {
        let rest = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        str::from_utf8(&rest[..digits]).ok()?.parse().ok().map(RequestId::Number)
    };
    let first = memmem::find(beginning, KEY).and_then(|at| number(&beginning[at + KEY.len()..]));
    first.or_else(|| number(&end[memmem::rfind(end, KEY)? + KEY.len()..]))
}
