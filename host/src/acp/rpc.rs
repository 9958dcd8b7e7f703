//! Messages of JSON-RPC 2.0, one a line, from a peer that may send anything.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    error::{Report, cut},
    json_values::count_json_values,
    limits,
};

/// The id of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum RpcId {
    /// The id of a request that could not be read.
    Unknown,
    Number(i64),
    Text(String),
}

/// A failure, as it is answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct RpcError {
    pub code: i64,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

/// A message of the peer.
#[derive(Debug, PartialEq)]
pub(super) enum IncomingMessage {
    Request { id: RpcId, method: String, params: Value },
    Notification { method: String, params: Value },
    Response { id: RpcId, outcome: Result<Value, RpcError> },
}

impl RpcError {
    pub const PARSE: i64 = -32700;
    pub const INVALID_REQUEST: i64 = -32600;
    pub const METHOD_NOT_FOUND: i64 = -32601;
    pub const INVALID_PARAMS: i64 = -32602;
    pub const INTERNAL: i64 = -32603;
    pub const CANCELLED: i64 = -32800;
    pub const RESOURCE_NOT_FOUND: i64 = -32002;

    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    /// Returns the error for a request that the peer has cancelled.
    pub fn cancelled() -> Self {
        Self::new(Self::CANCELLED, "the request was cancelled")
    }

    /// Returns the error for work that has crashed.
    pub fn bug() -> Self {
        Self::new(Self::INTERNAL, "this is a bug in shelly-host")
    }

    /// Answers with a report. Editors show the message alone, so the causes and the hint are in it, each on its line.
    pub fn of_report(report: &Report) -> Self {
        let lines = std::iter::once(&report.message).chain(&report.causes).chain(&report.hint);
        Self::new(Self::INTERNAL, lines.map(String::as_str).collect::<Vec<_>>().join("\n"))
    }
}

impl RpcId {
    /// Reads an id; `None` if no request has such an id.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => number.as_i64().map(Self::Number),
            Value::String(text) if text.len() <= limits::ACP_ID_BYTES => Some(Self::Text(text.clone())),
            _ => None,
        }
    }

    /// Reads an id in front of other text; one that may be cut off is none.
    fn in_front(text: &str) -> Option<Self> {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let id = values.next()?.ok()?;
        if values.byte_offset() < text.len() { Self::read(&id) } else { None }
    }
}

impl IncomingMessage {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// The answer to a line that is no message: the id of its request, if that can be read, and the failure.
    pub fn parse(line: &[u8]) -> Result<Self, (RpcId, RpcError)> {
        let refuse = |id: RpcId, code: i64, message: String| Err((id, RpcError::new(code, message)));
        if count_json_values(line) > limits::ACP_MESSAGE_VALUES {
            let message = format!("the message has more than {} values", limits::ACP_MESSAGE_VALUES);
            let beginning = &line[..line.len().min(limits::ACP_ID_BYTES)];
            return Self::of_beginning(beginning, RpcError::new(RpcError::INVALID_REQUEST, message));
        }
        let message: Value = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(error) => {
                let error = RpcError::new(RpcError::PARSE, format!("the line is not JSON: {error}"));
                // Only a response is taken by the id at its beginning: whoever waits for it must not wait on.
                let beginning = &line[..line.len().min(limits::ACP_ID_BYTES)];
                return Self::of_beginning(beginning, error).map_err(|(_, error)| (RpcId::Unknown, error));
            }
        };
        let Value::Object(mut message) = message else {
            let what = "the message is not an object; batches are not a part of the protocol";
            return refuse(RpcId::Unknown, RpcError::INVALID_REQUEST, what.into());
        };
        let id = message.get("id").map(|id| RpcId::read(id).ok_or(()));
        let known_id = || id.clone().and_then(Result::ok).unwrap_or(RpcId::Unknown);
        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return refuse(known_id(), RpcError::INVALID_REQUEST, "`jsonrpc` is not \"2.0\"".into());
        }
        match (message.remove("method"), &id) {
            (Some(Value::String(_)) | None, Some(Err(()))) => {
                let what =
                    format!("`id` is neither a whole number nor a string of at most {} bytes", limits::ACP_ID_BYTES);
                refuse(RpcId::Unknown, RpcError::INVALID_REQUEST, what)
            }
            (Some(Value::String(method)), Some(Ok(id))) => {
                Ok(Self::Request { id: id.clone(), method, params: params_of(&mut message) })
            }
            (Some(Value::String(method)), None) => Ok(Self::Notification { method, params: params_of(&mut message) }),
            (Some(_), _) => refuse(known_id(), RpcError::INVALID_REQUEST, "`method` is not a string".into()),
            (None, Some(Ok(id))) => match (message.remove("result"), message.remove("error")) {
                (Some(result), None) => Ok(Self::Response { id: id.clone(), outcome: Ok(result) }),
                (None, Some(error)) => Ok(Self::Response { id: id.clone(), outcome: Err(error_of(&error)) }),
                // An answer to an answer would be answered again.
                _ => refuse(RpcId::Unknown, RpcError::INVALID_REQUEST, "neither a request nor a response".into()),
            },
            (None, None) => refuse(RpcId::Unknown, RpcError::INVALID_REQUEST, "`method` is missing".into()),
        }
    }

    /// Takes the beginning of a line that is too large to be read. A response becomes this failure: an answer to it could be
    /// taken as the answer to a request of the peer that has the same id.
    ///
    /// # Errors
    ///
    /// The answer to any other line, as [`Self::parse`] returns it.
    pub fn of_beginning(beginning: &[u8], failure: RpcError) -> Result<Self, (RpcId, RpcError)> {
        let text = String::from_utf8_lossy(beginning);
        let (mut id, mut is_response) = (RpcId::Unknown, false);
        for (key, value) in outer_keys(&text) {
            match key {
                "id" => id = RpcId::in_front(value).unwrap_or(RpcId::Unknown),
                "result" | "error" => is_response = true,
                _ => {}
            }
        }
        if is_response { Ok(Self::Response { id, outcome: Err(failure) }) } else { Err((id, failure)) }
    }
}

/// Returns the keys of an object of which the text begins so, each with the text behind its colon. Objects within it may
/// have the same keys.
fn outer_keys(beginning: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut is_escaped, mut text_from) = (0_usize, false, None);
    let mut keys = Vec::new();
    for (at, byte) in beginning.bytes().enumerate() {
        match (byte, text_from) {
            _ if is_escaped => is_escaped = false,
            (b'\\', Some(_)) => is_escaped = true,
            (b'"', None) => text_from = Some(at + 1),
            (b'"', Some(from)) => {
                text_from = None;
                let value = beginning[at + 1..].trim_start().strip_prefix(':').filter(|_| depth == 1);
                keys.extend(value.map(|value| (&beginning[from..at], value)));
            }
            (b'{' | b'[', None) => depth += 1,
            (b'}' | b']', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    keys
}

fn params_of(message: &mut Map<String, Value>) -> Value {
    message.remove("params").unwrap_or_else(|| Value::Object(Map::new()))
}

/// Reads the error of a response.
fn error_of(error: &Value) -> RpcError {
    let code = error.get("code").and_then(Value::as_i64).unwrap_or(RpcError::INTERNAL);
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    RpcError::new(code, cut(message, limits::FAILURE_SHOWN_CHARS))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lines_are_messages_or_answered() {
        let refused = |line: &str| match IncomingMessage::parse(line.as_bytes()) {
            Err((id, error)) => (id, error.code),
            Ok(message) => panic!("{message:?}"),
        };
        let long = "x".repeat(limits::ACP_ID_BYTES + 1);
        let many = format!(
            r#"{{"id":4,"jsonrpc":"2.0","method":"a","params":[{}1]}}"#,
            "1,".repeat(limits::ACP_MESSAGE_VALUES)
        );
        let deep = format!(r#"{{"jsonrpc":"2.0","id":5,"params":{}"#, "[".repeat(10_000));
        for (line, id, code) in [
            ("hello", RpcId::Unknown, RpcError::PARSE),
            ("{\"jsonrpc\"", RpcId::Unknown, RpcError::PARSE),
            ("\u{feff}{}", RpcId::Unknown, RpcError::PARSE),
            (&*deep, RpcId::Unknown, RpcError::PARSE),
            ("[]", RpcId::Unknown, RpcError::INVALID_REQUEST),
            ("7", RpcId::Unknown, RpcError::INVALID_REQUEST),
            ("{}", RpcId::Unknown, RpcError::INVALID_REQUEST),
            (r#"{"id":1,"method":"a"}"#, RpcId::Number(1), RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":"b","method":"a"}"#, RpcId::Text("b".into()), RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":2,"method":7}"#, RpcId::Number(2), RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":[],"method":"a"}"#, RpcId::Unknown, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, RpcId::Unknown, RpcError::INVALID_REQUEST),
            (&*format!(r#"{{"jsonrpc":"2.0","id":"{long}","method":"a"}}"#), RpcId::Unknown, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":3}"#, RpcId::Unknown, RpcError::INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0"}"#, RpcId::Unknown, RpcError::INVALID_REQUEST),
            (&*many, RpcId::Number(4), RpcError::INVALID_REQUEST),
        ] {
            assert_eq!(refused(line), (id, code), "{line:.80}");
        }
        let parsed = |line: &str| IncomingMessage::parse(line.as_bytes()).unwrap();
        let (method, params) = ("a/b".to_owned(), json!({"c": [1, "x,[{"]}));
        assert_eq!(
            parsed(r#"{"jsonrpc":"2.0","id":0,"method":"a/b","params":{"c":[1,"x,[{"]}}"#),
            IncomingMessage::Request { id: RpcId::Number(0), method: method.clone(), params }
        );
        let params = json!({});
        assert_eq!(parsed(r#"{"jsonrpc":"2.0","method":"a/b"}"#), IncomingMessage::Notification { method, params });
        let outcome = Err(RpcError::new(-5, "no"));
        assert_eq!(
            parsed(r#"{"jsonrpc":"2.0","id":9,"error":{"code":-5,"message":"no"}}"#),
            IncomingMessage::Response { id: RpcId::Number(9), outcome }
        );
        let id = RpcId::Text("é".into());
        assert_eq!(
            parsed(r#"{"jsonrpc":"2.0","id":"é","result":null}"#),
            IncomingMessage::Response { id, outcome: Ok(Value::Null) }
        );
    }

    #[test]
    fn id_of_a_long_line_is_found_at_its_beginning() {
        let failure = RpcError::new(RpcError::INVALID_REQUEST, "long");
        for (beginning, id) in [
            (r#"{"jsonrpc":"2.0","id":12,"method":"session/prompt","params":{"te"#, RpcId::Number(12)),
            (r#"{"id" : "a\"b" , "te"#, RpcId::Text("a\"b".into())),
            (r#"{"jsonrpc":"2.0","method":"session/prompt","params":{"text":"aaaa"#, RpcId::Unknown),
            (r#"{"method":"id","params":{"id":7,"result":"#, RpcId::Unknown),
            (r#"{"method":"a","params":[{}],"id":7,"#, RpcId::Number(7)),
            (r#"{"id":{"id":1}, "#, RpcId::Unknown),
            (r#"{"id":12"#, RpcId::Unknown),
            (r#"{"id""#, RpcId::Unknown),
        ] {
            let taken = IncomingMessage::of_beginning(beginning.as_bytes(), failure.clone());
            assert_eq!(taken, Err((id, failure.clone())), "{beginning}");
        }
        assert_eq!(serde_json::to_value(RpcId::Unknown).unwrap(), Value::Null);
    }

    #[test]
    fn unreadable_response_is_a_failure_and_not_answered() {
        let too_long = RpcError::new(RpcError::INVALID_REQUEST, "long");
        let failed = IncomingMessage::Response { id: RpcId::Number(3), outcome: Err(too_long.clone()) };
        let beginning = br#"{"jsonrpc":"2.0","id":3,"result":{"content":"aaaa"#;
        assert_eq!(IncomingMessage::of_beginning(beginning, too_long), Ok(failed));
        let many = format!(r#"{{"jsonrpc":"2.0","id":4,"result":[{}1]}}"#, "1,".repeat(limits::ACP_MESSAGE_VALUES));
        let taken = IncomingMessage::parse(many.as_bytes());
        assert!(matches!(taken, Ok(IncomingMessage::Response { id: RpcId::Number(4), outcome: Err(_) })), "{taken:?}");
        // Half of a character, as an editor sends it that cuts its text in two.
        let broken = IncomingMessage::parse(br#"{"jsonrpc":"2.0","id":5,"result":{"content":"\ud83d"}}"#);
        assert!(
            matches!(broken, Ok(IncomingMessage::Response { id: RpcId::Number(5), outcome: Err(_) })),
            "{broken:?}"
        );
    }
}
