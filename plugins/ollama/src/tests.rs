use serde_json::json;
use shelly_plugin::{
    Content, Message, Part,
    http::{Body, Response},
    sink::{self, Delta},
    types::{Opaque, Role, Source, Thinking, ToolCall, ToolChoice, ToolHints, ToolResult},
};

use super::*;

const REPLY: &str = r#"{"model":"qwen3:4b","created_at":"2026-11-22T10:00:00Z","message":{"role":"assistant","content":"","thinking":"Hm. Grüße"},"done":false}
{"model":"qwen3:4b","message":{"role":"assistant","content":"","thinking":" sind höflich."},"done":false}

{"model":"qwen3:4b","message":{"role":"assistant","content":"Let me see, ","images":null},"done":false}
{"model":"qwen3:4b","message":{"role":"assistant","content":"世界 🌍:"},"done":false}
{"model":"qwen3:4b","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"read","arguments":{"path":"a.txt"}}}]},"done":false,"news":[1]}
{"model":"qwen3:4b","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_x","function":{"index":1,"name":"list","arguments":{"path":"ä }\" b","n":[1,{"x":null}]}}},{"function":{"name":"now","arguments":null}}]},"done":false}
{"model":"qwen3:4b","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"total_duration":5,"prompt_eval_count":30,"eval_count":7}
"#;

fn heard<P: Into<Vec<u8>>>(pieces: impl IntoIterator<Item = P>) -> (Result<Completion, Error>, Vec<Delta>) {
    let _ = sink::emitted();
    let lines = Response::new(200, &[], Body::of(pieces)).lines();
    (read(lines, "asked", &[tool("read"), tool("fs.read")]), sink::emitted())
}

fn fails(reply: &str) -> Error {
    heard([reply]).0.unwrap_err()
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: "Reads a file.".into(),
        input_schema: r#"{"type":"object","properties":{"z":{},"a":{}}}"#.into(),
        output_schema: None,
        hints: ToolHints::empty(),
        meta: Vec::new(),
    }
}

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), meta: Vec::new() })
}

fn thought(text: &str, opaque: Option<&str>) -> Part {
    Part::Thinking(Thinking { text: text.into(), opaque: opaque.map(Into::into) })
}

#[test]
fn ollama_stream_is_parsed_at_every_split() {
    let (whole, deltas) = heard([REPLY]);
    let completion = whole.clone().unwrap();
    let expected = [
        thought("Hm. Grüße sind höflich.", None),
        "Let me see, 世界 🌍:".into(),
        call("call-1", "read", r#"{"path":"a.txt"}"#),
        call("call_x", "list", r#"{"path":"ä }\" b","n":[1,{"x":null}]}"#),
        call("call-3", "now", "{}"),
    ];
    assert_eq!(completion.parts, expected);
    assert_eq!((&completion.stop, &*completion.model), (&StopReason::ToolCalls, "qwen3:4b"));
    let usage = Usage { input_tokens: 30, output_tokens: 7, cache_read_tokens: 0, cache_write_tokens: 0 };
    assert_eq!(completion.usage, usage);
    let text = |text: &str| Delta::Text(text.into());
    let called = |name: &str| Delta::ToolCall(name.into());
    let expected = [
        Delta::Thinking("Hm. Grüße".into()),
        Delta::Thinking(" sind höflich.".into()),
        text("Let me see, "),
        text("世界 🌍:"),
        called("read"),
        called("list"),
        called("now"),
        Delta::Usage(usage),
    ];
    assert_eq!(deltas, expected);
    for at in 0..REPLY.len() {
        let (start, end) = REPLY.as_bytes().split_at(at);
        assert_eq!(heard([start, end]), (whole.clone(), deltas.clone()), "split at {at}");
    }
    assert_eq!(heard(REPLY.as_bytes().chunks(1)), (whole.clone(), deltas.clone()));
    assert_eq!(heard([REPLY.replace('\n', "\r\n")]), (whole, deltas));
}

#[test]
fn ollama_unstreamed_reply_is_parsed() {
    let said = r#"{"model":"m","message":{"role":"assistant","content":"Four."},"done":true,"done_reason":"stop"}"#;
    let (completion, deltas) = heard([said]);
    let completion = completion.unwrap();
    assert_eq!((completion.parts, completion.stop), (vec!["Four.".into()], StopReason::EndTurn));
    assert_eq!(deltas, [Delta::Text("Four.".into())]);
}

#[test]
fn a_cut_never_passes_for_a_reply() {
    for at in 0..REPLY.trim_end().len() {
        let cut = heard([&REPLY.as_bytes()[..at]]).0;
        assert!(matches!(cut, Err(Error::Unavailable(_))), "cut at {at}: {cut:?}");
    }
    let broken = Error::unavailable("the connection broke");
    let (first, _) = REPLY.split_once("\n\n").unwrap();
    let lines = Lines::new(Body::of([first]).and_then_fails(broken.clone()));
    assert_eq!(read(lines, "asked", &[]), Err(broken));
}

#[test]
fn ollama_malformed_reply_is_an_error() {
    let nested = "[".repeat(100_000);
    for garbled in ["", " \n\n", "{", "data: {}\n\n", "7", "{}", "[]", "[[[]]]", "null", &nested, "\u{fffd}"] {
        assert!(matches!(fails(garbled), Error::Unavailable(_)), "{garbled}");
    }
    let named = format!(r#"{{"message":{{"tool_calls":[{{"function":{{"name":"{}"}}}}]}},"done":true}}"#, "");
    assert!(matches!(fails(&named), Error::Unavailable(_)));
    assert!(matches!(fails("<html></html>"), Error::Other(_)));
    let quoted = fails(&format!(r#"{{"done":"{}"}}"#, "a".repeat(1_000_000)));
    assert!(quoted.message().len() < 400, "{}", quoted.message().len());
}

#[test]
fn ollama_error_in_the_stream_ends_the_reply() {
    let (first, rest) = REPLY.split_once("\n\n").unwrap();
    let error = fails(&format!("{first}\n{{\"error\":\"lost it\"}}\n{rest}"));
    assert!(matches!(&error, Error::Unavailable(retry) if retry.message.ends_with("lost it")), "{error:?}");
    assert!(fails(r#"{"error":"model 'x' not found"}"#).message().contains("model 'x' not found"));
}

#[test]
fn the_reason_to_stop_is_translated() {
    for (reason, calls, expected) in [
        (Some("stop"), false, StopReason::EndTurn),
        (Some("stop"), true, StopReason::ToolCalls),
        (Some(""), false, StopReason::EndTurn),
        (None, true, StopReason::ToolCalls),
        // A call that was cut off is not run.
        (Some("length"), true, StopReason::MaxTokens),
        (Some("load"), false, StopReason::Other("load".into())),
        (Some("unload"), false, StopReason::Other("unload".into())),
    ] {
        let calls = if calls { json!([{"function": {"name": "a", "arguments": {}}}]) } else { Value::Null };
        let line = json!({"message": {"content": "Well", "tool_calls": calls}, "done": true, "done_reason": reason});
        assert_eq!(heard([line.to_string()]).0.unwrap().stop, expected, "{reason:?}");
    }
}

#[test]
fn a_reply_without_end_is_stopped() {
    let line = |bytes: usize| json!({"message": {"content": "a".repeat(bytes)}, "done": false}).to_string() + "\n";
    assert!(matches!(heard([line(10 << 20)]).0, Err(Error::TooLarge(_))));
    assert!(matches!(heard([line(1 << 20).repeat(17)]).0, Err(Error::TooLarge(_))));
    let many: Vec<_> = (0..1_025).map(|_| json!({"function": {"name": "a", "arguments": {}}})).collect();
    assert!(matches!(heard([json!({"message": {"tool_calls": many}}).to_string()]).0, Err(Error::TooLarge(_))));
}

#[test]
fn ollama_unusual_tool_name_round_trips() {
    let named = json!({"message": {"tool_calls": [{"function": {"name": names::wire("fs.read"), "arguments": {}}}]}, "done": true});
    assert_eq!(heard([named.to_string()]).0.unwrap().parts, [call("call-1", "fs.read", "{}")]);
}

fn request(messages: Vec<Message>) -> Request {
    Request {
        messages,
        tools: Vec::new(),
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        response_schema: None,
        meta: Vec::new(),
    }
}

fn params(json: Value) -> Params {
    serde_json::from_value(json).unwrap()
}

/// Returns the id of an attachment as its bytes.
fn bytes(media: &Media) -> Result<Option<Vec<u8>>, Error> {
    match &media.source {
        Source::Attachment(id) if id == "gone" => Err(Error::NotFound("no such attachment".into())),
        Source::Attachment(id) => Ok(Some(id.clone().into_bytes())),
        _ => media.bytes(),
    }
}

fn sent(request: &Request, params: &Params) -> Value {
    serde_json::to_value(request::body("m", request, params, bytes).unwrap()).unwrap()
}

fn message(role: Role, parts: Vec<Part>) -> Message {
    Message { parts, ..Message::new(role, "") }
}

fn media(media_type: &str, source: Source) -> Part {
    Part::Media(Media { media_type: media_type.into(), name: Some("a".into()), source })
}

#[test]
fn a_conversation_goes_out() {
    let attached = |id: &str| Source::Attachment(id.into());
    let result = |id: &str, text: &str, is_error| {
        Part::ToolResult(ToolResult { call_id: id.into(), content: vec![Content::from(text)], is_error })
    };
    let request = request(vec![
        Message::new(Role::System, "Be brief."),
        message(
            Role::User,
            vec![
                "Look:".into(),
                media("image/png", attached("\u{1}\u{2}\u{3}")),
                media("image/png", Source::Url("https://example.com/a".into())),
                media("text/plain", attached("words")),
                media("application/pdf", attached("%PDF")),
                Part::Other(Opaque { kind: "x.y".into(), json: "[1]".into() }),
            ],
        ),
        message(
            Role::Assistant,
            vec![
                thought("Hm.", None),
                thought("Theirs.", Some("signed")),
                "I look.".into(),
                call("c1", "read", "{\"b\":1,\"a\":2}"),
                call("c2", "fs.read", "{\"path\":"),
            ],
        ),
        message(Role::Tool, vec![result("c1", "It says ä.", false), result("c2", "it is not there", true)]),
        message(Role::Tool, vec![result("c0", "", false)]),
        message(Role::Assistant, vec![]),
    ]);
    let odd = names::wire("fs.read");
    let expected = json!([
        {"role": "system", "content": "Be brief."},
        {
            "role": "user", "images": ["AQID"],
            "content": "Look:\n[a, image/png: https://example.com/a]\nwords\n[a, application/pdf: cannot be shown]\n[1]",
        },
        {
            "role": "assistant", "content": "I look.", "thinking": "Hm.",
            "tool_calls": [
                {"id": "c1", "function": {"name": "read", "arguments": {"b": 1, "a": 2}}},
                {"id": "c2", "function": {"name": odd, "arguments": {"invalid_arguments": "{\"path\":"}}},
            ],
        },
        {"role": "tool", "content": "It says ä.", "tool_name": "read", "tool_call_id": "c1"},
        {"role": "tool", "content": "Error: it is not there", "tool_name": odd, "tool_call_id": "c2"},
        {"role": "tool", "content": "", "tool_call_id": "c0"},
        {"role": "assistant", "content": ""},
    ]);
    let body = sent(&request, &params(json!({})));
    assert_eq!(body, json!({"model": "m", "stream": true, "messages": expected}));
    let text = serde_json::to_string(&request::body("m", &request, &params(json!({})), bytes).unwrap()).unwrap();
    assert!(text.contains(r#"{"b":1,"a":2}"#), "as the model wrote it: {text}");
}

#[test]
fn ollama_request_with_unreadable_parts_is_not_sent() {
    let gone = request_of(vec![media("image/png", Source::Attachment("gone".into()))]);
    let error = request::body("m", &gone, &params(json!({})), bytes).err().unwrap();
    assert_eq!(error, Error::NotFound("no such attachment".into()));
    let mut broken = request_of(vec![]);
    broken.response_schema = Some("{".into());
    let error = request::body("m", &broken, &params(json!({})), bytes).err().unwrap();
    assert!(error.message().starts_with("the schema of the reply is not JSON"), "{error:?}");
}

fn request_of(parts: Vec<Part>) -> Request {
    request(vec![message(Role::User, parts)])
}

#[test]
fn tools_are_offered_as_asked() {
    let offered = json!({"name": "read", "description": "Reads a file.", "parameters": {
        "type": "object", "properties": {"z": {}, "a": {}},
    }});
    for (choice, offers, says) in [
        (ToolChoice::Auto, true, None),
        (ToolChoice::Never, false, None),
        (ToolChoice::Required, true, Some("Answer with a call of a tool.")),
        (ToolChoice::Tool("read".into()), true, Some("Answer with a call of the tool `read`.")),
    ] {
        let mut request = request_of(vec!["Hi".into()]);
        request.tools = vec![tool("read")];
        request.tool_choice = choice.clone();
        let body = sent(&request, &params(json!({})));
        let expected = if offers { json!([{"type": "function", "function": offered}]) } else { Value::Null };
        assert_eq!(body.get("tools").cloned().unwrap_or_default(), expected, "{choice:?}");
        let last = body["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(says, (last["role"] == "system").then(|| last["content"].as_str().unwrap()), "{choice:?}");
    }
}

#[test]
fn ollama_request_settings_override_params() {
    let params = params(json!({
        "num_ctx": 8192, "think": "high", "keep_alive": 60,
        "options": {"seed": 42, "temperature": 1, "num_predict": 5},
    }));
    let mut request = request_of(vec![]);
    let body = sent(&request, &params);
    assert_eq!(body["options"], json!({"num_ctx": 8192, "seed": 42, "temperature": 1, "num_predict": 5}));
    assert_eq!((&body["think"], &body["keep_alive"]), (&json!("high"), &json!(60)));
    request.max_output_tokens = Some(77);
    request.temperature = Some(0.7);
    request.response_schema = Some(r#"{"type":"object"}"#.into());
    let body = sent(&request, &params);
    assert_eq!(body["options"], json!({"num_ctx": 8192, "seed": 42, "temperature": 0.7, "num_predict": 77}));
    assert_eq!(body["format"], json!({"type": "object"}));
}

#[test]
fn ollama_params_are_validated() {
    let check = |json: Value| params(json).check();
    for fine in [
        json!({}),
        json!({"base_url": "https://example.com/", "think": false, "keep_alive": "10m"}),
        json!({"think": "low", "keep_alive": -1}),
    ] {
        assert!(check(fine.clone()).is_ok(), "{fine}");
    }
    for (wrong, says) in [
        (json!({"base_url": "localhost:11434"}), "`base_url`"),
        (json!({"think": 1}), "`think`"),
        (json!({"keep_alive": true}), "`keep_alive`"),
    ] {
        assert!(check(wrong).err().unwrap().message().starts_with(&format!("params: {says}")), "{says}");
    }
    assert!(serde_json::from_value::<Params>(json!({"model": "x"})).is_err());
}
