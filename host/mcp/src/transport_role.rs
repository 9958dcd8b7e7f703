//! The two roles on a connection over pipes, client and server, and the action that each takes on a line that is no
//! message.

use rmcp::{
    RoleClient, RoleServer,
    model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage},
};
use serde_json::Value;

use super::message_reading::{has_too_many_values, id_at, id_at_ends, read_message, too_long};
use shelly_core::limits;

/// A side of a connection.
pub(super) trait TransportRole: ServiceRole {
    /// The number of messages unread by the peer at which reading from it stops.
    const UNREAD: usize;

    /// Parses the message in a trimmed line.
    fn read(line: &[u8]) -> Result<RxJsonRpcMessage<Self>, InvalidLineAction<Self>>;

    /// Returns the action for a line that is too long to be kept, given its beginning and its end.
    fn too_long(beginning: &[u8], end: &[u8]) -> InvalidLineAction<Self>;
}

/// The action for a line that is no message.
pub(super) enum InvalidLineAction<R: ServiceRole> {
    Nothing,
    /// Hands on this message in its place: an error for the caller that awaits the answer.
    Heard(Box<RxJsonRpcMessage<R>>),
    /// Sends this answer to the peer.
    Answer(Box<TxJsonRpcMessage<R>>),
}

impl TransportRole for RoleClient {
    /// No limit: the client sends the requests here, and a server sends few.
    const UNREAD: usize = usize::MAX;

    fn read(line: &[u8]) -> Result<ServerJsonRpcMessage, InvalidLineAction<Self>> {
        read_message(line).map_err(heard)
    }

    fn too_long(beginning: &[u8], end: &[u8]) -> InvalidLineAction<Self> {
        heard(id_at(beginning, end).map(too_long))
    }
}

fn heard(message: Option<Box<ServerJsonRpcMessage>>) -> InvalidLineAction<RoleClient> {
    message.map_or(InvalidLineAction::Nothing, InvalidLineAction::Heard)
}

impl TransportRole for RoleServer {
    const UNREAD: usize = limits::MCP_SERVE_UNREAD;

    fn read(line: &[u8]) -> Result<ClientJsonRpcMessage, InvalidLineAction<Self>> {
        read_request(line).map_err(|answer| answer.map_or(InvalidLineAction::Nothing, InvalidLineAction::Answer))
    }

    fn too_long(beginning: &[u8], end: &[u8]) -> InvalidLineAction<Self> {
        let why = format!("the message has more than {} bytes", limits::MCP_MESSAGE_BYTES);
        InvalidLineAction::Answer(refused(id_at(beginning, end), ErrorData::invalid_request(why, None)))
    }
}

/// Parses a message of a client. On failure returns the error to send to the client; `None` if the client awaits no answer.
pub(super) fn read_request(bytes: &[u8]) -> Result<ClientJsonRpcMessage, Option<Box<ServerJsonRpcMessage>>> {
    if has_too_many_values(bytes) {
        let why = format!("the message has more than {} values", limits::MCP_MESSAGE_VALUES);
        return Err(Some(refused(id_at_ends(bytes), ErrorData::invalid_request(why, None))));
    }
    serde_json::from_slice(bytes).map_err(|_| {
        let Ok(message) = serde_json::from_slice::<Value>(bytes) else {
            return Some(refused(None, ErrorData::parse_error("the message is not JSON", None)));
        };
        // A malformed answer gets no reply.
        let is_answer = message.get("result").or(message.get("error")).is_some();
        let id = message.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
        let why = "the message is not a request, notification or response of JSON-RPC 2.0; batches are not supported";
        (!is_answer).then(|| refused(id, ErrorData::invalid_request(why, None)))
    })
}

fn refused(id: Option<RequestId>, error: ErrorData) -> Box<ServerJsonRpcMessage> {
    Box::new(ServerJsonRpcMessage::error(error, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_client_message_gets_an_error() {
        let many = format!(
            r#"{{"jsonrpc":"2.0","id":4,"method":"x","params":[{}0]}}"#,
            "0,".repeat(limits::MCP_MESSAGE_VALUES)
        );
        for (bytes, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, None),
            (r#"{"jsonrpc":"2.0","id":"a","method":"no/such","params":{}}"#, None),
            (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, None),
            ("hello", Some((-32700, "null"))),
            ("{\"jsonrpc\":", Some((-32700, "null"))),
            ("[]", Some((-32600, "null"))),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Some((-32600, "null"))),
            (r#"{"id":7,"method":"ping"}"#, Some((-32600, "7"))),
            (r#"{"jsonrpc":"2.0","id":"x","method":5}"#, Some((-32600, "\"x\""))),
            (r#"{"jsonrpc":"1.0","id":{},"method":"ping"}"#, Some((-32600, "null"))),
            (&many, Some((-32600, "4"))),
        ] {
            let told =
                read_request(bytes.as_bytes()).err().map(|answer| serde_json::to_value(answer.unwrap()).unwrap());
            let told = told.map(|told| (told["error"]["code"].as_i64().unwrap(), told["id"].to_string()));
            let shown = &bytes[..bytes.len().min(60)];
            assert_eq!(told, expected.map(|(code, id)| (code, id.to_owned())), "{shown}");
        }
        assert!(matches!(read_request(br#"{"id":7,"result":5}"#), Err(None)));
    }
}
