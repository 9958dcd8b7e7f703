use std::time::Duration;

use super::*;
use crate::bindings::types as wit;
use shelly_core::{
    capability::Power,
    chat::{
        Media, MediaData, Message, OpaqueContent, Part, Role, ThinkingPart, ToolCall, ToolResult, ToolResultContent,
    },
    error::Fault,
    limits,
};

#[test]
fn texts_are_cut_between_characters() {
    assert_eq!(bounded("abc".into(), 3), "abc");
    assert_eq!(bounded("éééé".into(), 6), "é…");
    assert_eq!(bounded("éééé".into(), 2), "…");
}

fn full() -> Message {
    let call = ToolCall { id: "c".into(), name: "t".into(), arguments: r#"{"a":1}"#.into(), meta: vec![] };
    let result =
        ToolResult { call_id: "c".into(), content: vec![ToolResultContent::Text("found".into())], is_error: true };
    let thought = ThinkingPart { text: "hm".into(), opaque: Some("sig".into()) };
    let other = OpaqueContent { kind: "x.y".into(), json: "1".into() };
    let parts = vec![
        Part::Text("hello".into()),
        Part::Thinking(thought),
        Part::ToolCall(call),
        Part::ToolResult(result),
        Part::Other(other),
    ];
    Message { sender: "ada".into(), role: Role::Assistant, parts, meta: vec![("k".into(), "v".into())] }
}

#[test]
fn message_round_trips_through_wit() {
    assert_eq!(message(message_to_wit(&full()), &GuestMediaIndex::none()).unwrap(), full());
}

#[test]
fn media_resolve_by_their_attachment_id() {
    let media = |bytes: &[u8]| Media {
        media_type: "image/png".into(),
        name: Some("a.png".into()),
        source: MediaData::Bytes(bytes.into()),
    };
    let content = vec![ToolResultContent::Media(media(b"of a tool"))];
    let result = ToolResult { call_id: "c".into(), content, is_error: false };
    let parts = vec![Part::Media(media(b"one")), Part::Media(media(b"two")), Part::ToolResult(result)];
    let original = Message { parts, ..Message::text(Role::Tool, "", "") };
    let attached = GuestMediaIndex::in_parts(&original.parts);
    assert_eq!(message(message_to_wit(&original), &attached).unwrap(), original);
    let other = GuestMediaIndex::in_parts(&original.parts[..1]);
    assert!(matches!(message(message_to_wit(&original), &other), Err(Fault::NotFound { .. })));
}

#[test]
fn meta_with_duplicate_key_is_refused() {
    let pair = |key: &str| (key.to_owned(), "v".to_owned());
    assert_eq!(meta(vec![pair("a"), pair("b")]).unwrap().len(), 2);
    let fault = meta(vec![pair("a"), pair("b"), pair("a")]).unwrap_err();
    assert_eq!(fault, Fault::invalid("a `meta` has the duplicate key `a`"));
}

#[test]
fn message_parts_without_power_are_blank() {
    let seen = |powers: &[Power]| {
        message(message_seen(&full(), &powers.iter().copied().collect()), &GuestMediaIndex::none()).unwrap()
    };
    assert!(seen(&[Power::SeeArguments, Power::SeeResults]).parts.is_empty());
    let text = seen(&[Power::SeeMessages]);
    assert_eq!(text.tool_calls().next().unwrap().arguments, "{}");
    assert!(text.tool_results().next().unwrap().content.is_empty());
    assert!(text.tool_results().next().unwrap().is_error, "that it failed is no secret");
}

#[test]
fn fault_round_trips_through_wit() {
    let after = Some(Duration::from_millis(1_500));
    let message = || "why".to_owned();
    for original in [
        Fault::Invalid { message: message() },
        Fault::Denied { message: message() },
        Fault::NotFound { message: message() },
        Fault::TooLarge { message: message() },
        Fault::Exhausted { message: message() },
        Fault::RateLimited { message: message(), after },
        Fault::Unavailable { message: message(), after: None },
        Fault::Timeout { message: message() },
        Fault::Other { message: message() },
    ] {
        assert_eq!(fault(fault_to_wit(&original)), original);
    }
}

#[test]
fn misleading_tool_spec_is_refused() {
    let spec = |name: &str, schema: &str| wit::ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema: schema.into(),
        output_schema: None,
        hints: wit::ToolHints::empty(),
        meta: vec![],
    };
    let object = r#"{"type":"object"}"#;
    assert!(tool_spec(spec("read_file", object)).is_ok());
    let twice = vec![("a".into(), String::new()), ("a".into(), String::new())];
    let error = tool_spec(wit::ToolSpec { meta: twice, ..spec("t", object) }).unwrap_err();
    assert_eq!(error, "tool `t`: a `meta` has the duplicate key `a`");
    for (name, schema, says) in [
        ("read file", object, "invalid tool name"),
        ("", object, "invalid tool name"),
        ("r\u{202e}ead", object, "invalid tool name"),
        (&"x".repeat(65), object, "invalid tool name"),
        ("t", "{", "not JSON"),
        ("t", "{\"type\":\"string\"}", "does not describe an object"),
        (
            "t",
            &format!("{{\"type\":\"object\",\"x\":\"{}\"}}", "x".repeat(limits::TOOL_SCHEMA_BYTES)),
            "the maximum is 65536",
        ),
    ] {
        let error = tool_spec(spec(name, schema)).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
}
