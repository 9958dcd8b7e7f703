//! Conversion of tool call arguments to and from a wire format.

use std::borrow::Cow;

use serde_json::{Map, Value, value::RawValue};

use shelly_core::chat::ToolCall;

/// Returns the arguments of an earlier call as a JSON object. Invalid arguments are wrapped in an object, because a server
/// may refuse a chat that contains them.
pub fn object(call: &ToolCall) -> Cow<'_, RawValue> {
    let written = call.arguments.trim();
    let written = if written.is_empty() { "{}" } else { written };
    match serde_json::from_str::<&RawValue>(written) {
        Ok(object) if written.starts_with('{') && has_whole_characters(written) => Cow::Borrowed(object),
        _ => Cow::Owned(
            serde_json::value::to_raw_value(&serde_json::json!({ "invalid_arguments": written })).unwrap_or_default(),
        ),
    }
}

/// Returns `true` if no escape is half a surrogate pair. Such JSON is well-formed, but many parsers reject it.
fn has_whole_characters(object: &str) -> bool {
    !object.contains("\\u") || serde_json::from_str::<Map<String, Value>>(object).is_ok()
}

/// Returns the result of [`object`] as a string, for wire formats that embed the JSON in a string.
pub fn text(call: &ToolCall) -> Cow<'_, str> {
    match object(call) {
        Cow::Borrowed(object) => Cow::Borrowed(object.get()),
        Cow::Owned(object) => Cow::Owned(Box::<str>::from(object).into_string()),
    }
}

/// Decodes arguments, or a piece of them, from a server: a string that contains JSON or, from some servers, the object
/// itself.
pub fn read(raw: &RawValue) -> String {
    match raw.get() {
        text if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        "null" => String::new(),
        object => object.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_wrote_goes_back_as_an_object() {
        for (written, expected) in [
            ("", "{}"),
            (" \n", "{}"),
            (" {\"b\": 1.0, \"a\":2} ", "{\"b\": 1.0, \"a\":2}"),
            ("{\"a\":", "{\"invalid_arguments\":\"{\\\"a\\\":\"}"),
            ("{} {}", "{\"invalid_arguments\":\"{} {}\"}"),
            ("[1]", "{\"invalid_arguments\":\"[1]\"}"),
            ("null", "{\"invalid_arguments\":\"null\"}"),
            (r#"{"a":"\u00e4 \ud83c\udf0d"}"#, r#"{"a":"\u00e4 \ud83c\udf0d"}"#),
            (r#"{"a":"\ud83c"}"#, r#"{"invalid_arguments":"{\"a\":\"\\ud83c\"}"}"#),
        ] {
            let call = ToolCall { id: String::new(), name: String::new(), arguments: written.into(), meta: vec![] };
            assert_eq!((object(&call).get(), &*text(&call)), (expected, expected), "{written}");
        }
    }

    #[test]
    fn arguments_from_server_are_decoded_to_text() {
        for (sent, expected) in
            [("\"{\\\"a\\\":1}\"", "{\"a\":1}"), ("{\"a\":1}", "{\"a\":1}"), ("null", ""), ("\"\"", "")]
        {
            assert_eq!(read(serde_json::from_str(sent).unwrap()), expected);
        }
    }
}
