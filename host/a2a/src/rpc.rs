//! JSON-RPC 2.0, as far as the protocol uses it: one request in a body, and one answer or a stream of answers.

use serde_json::{Value, json};

use crate::{A2aError, A2aErrorKind};

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcRequest {
    /// The id: a text, a whole number or null.
    pub id: Value,
    /// The operation.
    pub method: String,
    /// Its parameters; null if there are none.
    pub params: Value,
}

impl RpcRequest {
    /// Parses the body of a request.
    ///
    /// # Errors
    ///
    /// An [`A2aError`], and the id for its answer: null if the request has none that can be used.
    pub fn parse(body: &[u8]) -> Result<Self, (Value, A2aError)> {
        let body: Value = serde_json::from_slice(body).map_err(|error| {
            (Value::Null, A2aError::new(A2aErrorKind::Parse, format!("the body is not JSON: {error}")))
        })?;
        let wrong = |id: Value, why: &str| (id, A2aError::new(A2aErrorKind::InvalidRequest, why));
        let Value::Object(mut request) = body else {
            return Err(wrong(Value::Null, "the body is no request; send one object, and no list of them"));
        };
        let id = request.remove("id").filter(|id| id.is_string() || id.is_i64() || id.is_u64() || id.is_null());
        let Some(id) = id else {
            return Err(wrong(Value::Null, "the request has no `id` that is a text or a whole number"));
        };
        if request.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return Err(wrong(id, "`jsonrpc` is not \"2.0\""));
        }
        let Some(Value::String(method)) = request.remove("method") else {
            return Err(wrong(id, "the request has no `method`"));
        };
        let params = request.remove("params").unwrap_or_default();
        match params {
            Value::Object(_) | Value::Null => Ok(Self { id, method, params }),
            _ => Err((id, A2aError::invalid_params("`params` is no object"))),
        }
    }
}

/// Returns an answer with a result.
pub fn rpc_result(id: &Value, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Returns an answer with an error.
pub fn rpc_error(id: &Value, error: &A2aError) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": error.to_rpc() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_is_one_object_with_id_and_method() {
        let parsed = RpcRequest::parse(br#"{"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": {"id": "t"}}"#);
        let expected = RpcRequest { id: json!(7), method: "GetTask".into(), params: json!({"id": "t"}) };
        assert_eq!(parsed, Ok(expected));
        for (body, id, kind) in [
            ("", Value::Null, A2aErrorKind::Parse),
            ("{", Value::Null, A2aErrorKind::Parse),
            ("[]", Value::Null, A2aErrorKind::InvalidRequest),
            (r#"[{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}]"#, Value::Null, A2aErrorKind::InvalidRequest),
            (r#"{"jsonrpc": "2.0", "method": "GetTask"}"#, Value::Null, A2aErrorKind::InvalidRequest),
            (r#"{"jsonrpc": "2.0", "id": {}, "method": "GetTask"}"#, Value::Null, A2aErrorKind::InvalidRequest),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "GetTask"}"#, Value::Null, A2aErrorKind::InvalidRequest),
            (r#"{"jsonrpc": "1.0", "id": "a", "method": "GetTask"}"#, json!("a"), A2aErrorKind::InvalidRequest),
            (r#"{"jsonrpc": "2.0", "id": "a"}"#, json!("a"), A2aErrorKind::InvalidRequest),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "m", "params": []}"#, json!(1), A2aErrorKind::InvalidParams),
        ] {
            let (answered, error) = RpcRequest::parse(body.as_bytes()).unwrap_err();
            assert_eq!((answered, error.kind), (id, kind), "{body}");
        }
    }
}
