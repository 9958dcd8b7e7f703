use serde_json::{Value, json, value::RawValue};

use super::*;
use shelly_core::{
    chat::{
        ChatSnapshot, OpaqueContent, PropertyNames, Role, ThinkingPart, ToolHints, ToolResult, ToolResultContent,
        ToolSpec,
    },
    limits,
    model::ToolChoice,
};

pub(super) fn tool(name: &str, schema: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.into(),
        description: "Reads.".into(),
        // The order and spelling of a schema are the tool's own, and reach the model unchanged.
        input_schema: RawValue::from_string(schema.into()).unwrap().into(),
        hints: ToolHints::default(),
        property_names: PropertyNames::default(),
    })
}

fn thought(text: &str, opaque: Option<&str>) -> Part {
    Part::Thinking(ThinkingPart { text: text.into(), opaque: opaque.map(Into::into) })
}

fn said(role: Role, parts: Vec<Part>) -> Message {
    Message { sender: String::new(), role, parts, meta: vec![] }
}

fn result(id: &str, is_error: bool, content: Vec<ToolResultContent>) -> ToolResult {
    ToolResult { call_id: id.into(), content, is_error }
}

fn url(media_type: &str, url: &str) -> Part {
    Part::Media(Media { media_type: media_type.into(), name: None, source: chat::MediaData::Url(url.into()) })
}

fn adapter(fields: Value) -> ModelAdapter {
    let Value::Object(body) = fields else { panic!("it is no object") };
    ModelAdapter::new(HttpClient::new().unwrap(), AdapterConfig { body, ..config("https://api.anthropic.com") })
        .unwrap()
}

/// Returns the body of a request without cache marks.
fn sent(fields: Value, request: &CompletionRequest) -> Value {
    let body = Anthropic { cache: false, ..Anthropic::default() }.body(&adapter(fields), request).unwrap();
    serde_json::from_slice(&body).unwrap()
}

fn request(messages: Vec<Message>) -> CompletionRequest {
    CompletionRequest::new(ChatSnapshot::from_messages(messages).unwrap(), Arc::new([]))
}

/// A chat with every kind of message and part.
fn long_chat() -> Chat {
    let chat = Chat::new();
    chat.append(Message::text(Role::System, "", "Be brief.")).unwrap();
    let attached = [
        bytes("image/jpg", None, &[1, 2, 3]),
        bytes("audio/wav", Some("a.wav"), &[0]),
        bytes("application/pdf", Some("b.pdf"), &[1]),
        bytes("text/csv", None, "ä,b".as_bytes()),
    ];
    let mut user = Message::user("Look:");
    user.parts.extend(attached.map(Part::Media));
    user.parts.extend([
        url("image/png", "https://x/y.png"),
        url("image/png", "http://x/y.png"),
        Part::Text(" ".into()),
    ]);
    chat.append(user).unwrap();
    chat.append(Message::note("host", "A note.")).unwrap();
    let parts = vec![
        thought("Hm.", Some("anthropic.signature:EqQB")),
        thought("", Some("anthropic.redacted:xyz")),
        thought("elsewhere", Some("openai.reasoning:{}")),
        thought("unsigned", None),
        Part::Text("Let me see.".into()),
        Part::Text("\n".into()),
        call("c1", "read", " {\"a\":1.0} "),
        call("functions.read:2", "no such.tool", "{\"a\":"),
        call("c3", "read", ""),
        call("c4", "read", "{}"),
        thought("last", Some("anthropic.signature:cut")),
    ];
    let open = chat.reply(said(Role::Assistant, parts));
    let image = || ToolResultContent::Media(bytes("image/png", None, &[1]));
    open.answer(vec![
        result("c1", false, vec![ToolResultContent::Json("{\"ok\":true}".into()), image()]),
        ToolResult::error("functions.read:2", "there is no such tool"),
        result("c3", true, vec![ToolResultContent::Text("it broke".into()), image()]),
        result("c4", false, vec![ToolResultContent::Text(String::new())]),
    ]);
    chat.append(Message::user("And?")).unwrap();
    chat
}

#[tokio::test]
async fn a_chat_with_everything_goes_out_as_documented() {
    let reply = r#"{"type":"message","content":[{"type":"text","text":"Done."}],"stop_reason":"end_turn"}"#;
    let server = TestServer::start(vec![answer("200 OK", "", reply), answer("200 OK", "", reply)]).await;
    let Value::Object(body) = json!({"top_k": 5}) else { unreachable!() };
    let config = AdapterConfig { body, max_tokens: Some(1_000), ..config(&server.url) };
    let model = HttpModel::new(HttpClient::new().unwrap(), config, Anthropic::default()).unwrap();
    let tools =
        [tool("list", r#"{"type":"object"}"#), tool("fs.read", r#"{"type":"object", "properties":{"z":{},"a":{}}}"#)];
    let mut request = CompletionRequest::new(long_chat().snapshot(), Arc::new(tools));
    request.tool_choice = ToolChoice::Tool("fs.read".into());
    request.temperature = Some(0.7);
    request.response_schema = Some("{\"type\": \"object\"}".into());
    for _ in 0..2 {
        let reply = model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await.unwrap();
        assert_eq!(reply.parts, [Part::Text("Done.".into())]);
    }
    let requests = server.requests();
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{head}");
    for header in ["anthropic-version: 2023-06-01", "x-api-key: sk-secret"] {
        assert!(head.lines().any(|line| line == header), "{head}");
    }
    let expected = concat!(
        r#"{"model":"claude-x","max_tokens":1000,"tools":["#,
        r#"{"name":"list","description":"Reads.","input_schema":{"type":"object","properties":{}}},"#,
        r#"{"name":"fs_read_4074bc02","description":"Reads.","#,
        r#""input_schema":{"type":"object", "properties":{"z":{},"a":{}}},"cache_control":{"type":"ephemeral"}}],"#,
        r#""tool_choice":{"type":"tool","name":"fs_read_4074bc02"},"#,
        r#""system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"#,
        r#""messages":[{"role":"user","content":[{"type":"text","text":"Look:"},"#,
        r#"{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AQID"}},"#,
        r#"{"type":"text","text":"[a.wav, audio/wav, 1 bytes: cannot be shown]"},"#,
        r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AQ=="},"title":"b.pdf"},"#,
        r#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"ä,b"}},"#,
        r#"{"type":"image","source":{"type":"url","url":"https://x/y.png"}},"#,
        r#"{"type":"text","text":"[attachment, image/png: http://x/y.png]"},"#,
        r#"{"type":"text","text":"A note.","cache_control":{"type":"ephemeral"}}]},"#,
        r#"{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"EqQB"},"#,
        r#"{"type":"redacted_thinking","data":"xyz"},{"type":"text","text":"Let me see."},"#,
        r#"{"type":"tool_use","id":"c1","name":"read","input":{"a":1.0}},"#,
        r#"{"type":"tool_use","id":"functions_read_2_CALLID","name":"no_such_tool_a900eb74","#,
        r#""input":{"invalid_arguments":"{\"a\":"}},"#,
        r#"{"type":"tool_use","id":"c3","name":"read","input":{}},"#,
        r#"{"type":"tool_use","id":"c4","name":"read","input":{}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":["#,
        r#"{"type":"text","text":"{\"ok\":true}"},"#,
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQ=="}}]},"#,
        r#"{"type":"tool_result","tool_use_id":"functions_read_2_CALLID","#,
        r#""content":[{"type":"text","text":"there is no such tool"}],"is_error":true},"#,
        r#"{"type":"tool_result","tool_use_id":"c3","content":["#,
        r#"{"type":"text","text":"Error:"},{"type":"text","text":"it broke"},"#,
        r#"{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AQ=="}}]},"#,
        r#"{"type":"tool_result","tool_use_id":"c4"},"#,
        r#"{"type":"text","text":"And?","cache_control":{"type":"ephemeral"}}]}],"#,
        r#""temperature":0.7,"output_config":{"format":{"schema":{"additionalProperties":false,"type":"object"},"#,
        r#""type":"json_schema"}},"stream":true,"top_k":5}"#,
    );
    let id = COMMON.wire("functions.read:2");
    assert_eq!(body, expected.replace("functions_read_2_CALLID", &id));
    assert_eq!(requests[1].split_once("\r\n\r\n").unwrap().1, body);
}

/// Returns the content of each turn, its role first.
fn turns(messages: Vec<Message>) -> Vec<Vec<String>> {
    let body = sent(json!({}), &request(messages));
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let turn = |turn: &Value| {
        let block = |block: &Value| word(&block[if block["type"] == "text" { "text" } else { "type" }]);
        [word(&turn["role"])].into_iter().chain(turn["content"].as_array().unwrap().iter().map(block)).collect()
    };
    body["messages"].as_array().unwrap().iter().map(turn).collect()
}

#[test]
fn turns_alternate_and_begin_and_end_with_user() {
    let user = |text: &str| Message::user(text);
    let model = |parts| said(Role::Assistant, parts);
    let text = |text: &str| Part::Text(text.into());
    let foreign = || thought("x", Some("gemini.x:y"));
    let other = || Part::Other(OpaqueContent { kind: "x.y".into(), json: "{\"z\":1}".into() });
    let (begin, go_on) = ("[The conversation begins here.]", "Continue.");
    let table: [(Vec<Message>, &[&[&str]]); 10] = [
        (vec![], &[&["user", go_on]]),
        (vec![Message::text(Role::System, "", "s")], &[&["user", go_on]]),
        (vec![user("a"), Message::note("n", "b")], &[&["user", "a", "b"]]),
        (vec![user("a"), model(vec![text("b ")])], &[&["user", "a"], &["assistant", "b "], &["user", go_on]]),
        (
            vec![model(vec![text("a")]), model(vec![text("b")]), user("c")],
            &[&["user", begin], &["assistant", "a", "b"], &["user", "c"]],
        ),
        // A message without anything for this vendor leaves no turn.
        (vec![user("a"), model(vec![foreign(), other()]), user("b")], &[&["user", "a", "b"]]),
        (vec![user("a"), model(vec![other()])], &[&["user", "a"]]),
        (vec![said(Role::User, vec![other(), Part::Text("\t".into())])], &[&["user", "{\"z\":1}"]]),
        (
            vec![user("a"), model(vec![url("image/png", "https://x"), url("x/y", "https://x")]), user("b")],
            &[
                &["user", "a"],
                &["assistant", "[attachment, image/png: https://x]", "[attachment, x/y: https://x]"],
                &["user", "b"],
            ],
        ),
        (
            vec![
                user("a"),
                model(vec![call("c", "f", "{}")]),
                Message::results(vec![result("c", false, vec![])]),
                user("b"),
            ],
            &[&["user", "a"], &["assistant", "tool_use"], &["user", "tool_result", "b"]],
        ),
    ];
    for (messages, expected) in table {
        assert_eq!(turns(messages.clone()), expected, "{messages:?}");
    }
}

#[test]
fn attachments_are_mapped_to_anthropic_blocks() {
    let long = "ä".repeat(501);
    for (media, expected) in [
        (bytes("image/webp", None, &[1]), "base64"),
        (bytes("image/svg+xml", None, b"<svg/>"), "[attachment, image/svg+xml, 6 bytes: cannot be shown]"),
        (bytes("text/plain", None, &[0xff]), "[attachment, text/plain, 1 bytes: cannot be shown]"),
        (bytes("text/plain", None, b" "), "[attachment, text/plain, 1 bytes: cannot be shown]"),
        (bytes("text/plain", Some(&long), b"x"), "text"),
        (bytes("application/pdf", Some(" "), b"x"), "base64"),
    ] {
        let shown = format!("{media:?}");
        let body = sent(json!({}), &request(vec![said(Role::User, vec![Part::Media(media)])]));
        let block = &body["messages"][0]["content"][0];
        assert!(block["source"]["type"] == expected || block["text"] == expected, "{shown}: {block}");
        assert!(block["title"].as_str().is_none_or(|title| title.chars().count() == 500), "{block}");
    }
    let pdf = sent(json!({}), &request(vec![said(Role::User, vec![url("application/pdf", "https://x")])]));
    let expected = json!([{"type": "document", "source": {"type": "url", "url": "https://x"}}]);
    assert_eq!(pdf["messages"][0]["content"], expected);
}

#[test]
fn earlier_turns_stay_unchanged_except_cache_marks() {
    let chat = long_chat();
    let bytes = |chat: &Chat| {
        let request = CompletionRequest::new(chat.snapshot(), Arc::new([tool("f", r#"{"type":"object"}"#)]));
        let body = Anthropic { cache: false, ..Anthropic::default() }.body(&adapter(json!({})), &request).unwrap();
        String::from_utf8(body).unwrap()
    };
    let before = bytes(&chat);
    let start = before.strip_suffix("]}],\"stream\":true}").unwrap();
    chat.append(Message::user("More.")).unwrap();
    assert!(bytes(&chat).starts_with(start));
    chat.reply(said(Role::Assistant, vec![Part::Text("b".into())]));
    assert!(bytes(&chat).starts_with(start));
}

#[test]
fn cache_marks_are_limited_and_follow_end() {
    let marked = |count: usize, system: bool, tools: bool| {
        let mut messages = vec![Message::text(Role::System, "", "s")];
        messages.drain(usize::from(system)..);
        for n in 0..count {
            messages.push(Message::user(format!("u{n}")));
            messages.push(said(Role::Assistant, vec![Part::Text(format!("a{n}"))]));
        }
        messages.pop();
        let tools =
            if tools { vec![tool("f", r#"{"type":"object"}"#), tool("g", r#"{"type":"object"}"#)] } else { vec![] };
        let request = CompletionRequest::new(ChatSnapshot::from_messages(messages).unwrap(), tools.into());
        let body = Anthropic::default().body(&adapter(json!({})), &request).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        let turns = body["messages"].as_array().unwrap().iter().flat_map(|turn| turn["content"].as_array().unwrap());
        let blocks = body["system"].as_array().into_iter().chain(body["tools"].as_array()).flatten().chain(turns);
        let marked = blocks.filter(|block| block["cache_control"] == json!({"type": "ephemeral"}));
        let name = |block: &Value| block["text"].as_str().or(block["name"].as_str()).unwrap().to_owned();
        marked.map(name).collect::<Vec<_>>()
    };
    assert_eq!(marked(1, false, false), ["u0"]);
    assert_eq!(marked(1, true, false), ["s", "u0"]);
    assert_eq!(marked(2, true, true), ["s", "g", "u0", "u1"]);
    assert_eq!(marked(9, true, true), ["s", "g", "u7", "u8"]);
}

#[test]
fn thinking_budget_fits_and_drops_refused_settings() {
    let enabled = |budget: u64| json!({"type": "enabled", "budget_tokens": budget});
    let default = u64::from(limits::ANTHROPIC_REPLY_TOKENS);
    for (thinking, most, expected, tokens, thinks) in [
        (json!(null), None, json!(null), default, false),
        (json!({"type": "disabled"}), None, json!({"type": "disabled"}), default, false),
        (json!({"type": "adaptive"}), Some(100), json!({"type": "adaptive"}), 100, true),
        (enabled(5_000), None, enabled(5_000), default + 5_000, true),
        (enabled(5_000), Some(6_000), enabled(5_000), 6_000, true),
        (enabled(5_000), Some(5_000), enabled(2_500), 5_000, true),
        (enabled(5_000), Some(2_048), enabled(1_024), 2_048, true),
        (enabled(5_000), Some(2_047), json!({"type": "disabled"}), 2_047, false),
        (enabled(u64::MAX), None, enabled(u64::MAX), u64::from(u32::MAX), true),
    ] {
        let mut request = request(vec![Message::user("Hi")]);
        request.tools = Arc::new([tool("f", r#"{"type":"object"}"#)]);
        (request.max_output_tokens, request.temperature) = (most, Some(1.5));
        for (choice, without, with) in [
            (ToolChoice::Auto, json!(null), json!(null)),
            (ToolChoice::Never, json!({"type": "none"}), json!({"type": "none"})),
            (ToolChoice::Required, json!({"type": "any"}), json!(null)),
            (ToolChoice::Tool("f".into()), json!({"type": "tool", "name": "f"}), json!(null)),
        ] {
            request.tool_choice = choice;
            let body = sent(json!({"thinking": thinking}), &request);
            let choice = if thinks { with } else { without };
            let temperature = if thinks { json!(null) } else { json!(1.0) };
            let seen = [&body["thinking"], &body["max_tokens"], &body["tool_choice"], &body["temperature"]];
            assert_eq!(seen, [&expected, &json!(tokens), &choice, &temperature], "{thinking} {most:?}");
        }
    }
}

#[test]
fn reply_schema_is_closed_and_merged_with_config() {
    for (schema, expected) in [
        (json!({"type": "string"}), json!({"type": "string"})),
        (
            json!({"properties": {"a": {"type": ["object", "null"]}, "properties": {"type": "object", "additionalProperties": true}}}),
            json!({"additionalProperties": false, "properties": {
                "a": {"type": ["object", "null"], "additionalProperties": false},
                "properties": {"type": "object", "additionalProperties": true},
            }}),
        ),
        (
            json!({"anyOf": [{"type": "object"}], "$defs": {"x": {"items": {"type": "object"}}}, "allOf": [{"type": "object"}], "const": {"type": "object"}}),
            json!({"anyOf": [{"type": "object", "additionalProperties": false}], "$defs": {"x": {"items": {"type": "object", "additionalProperties": false}}}, "allOf": [{"type": "object"}], "const": {"type": "object"}}),
        ),
    ] {
        let mut request = request(vec![Message::user("Hi")]);
        request.response_schema = Some(schema.to_string());
        let body = sent(json!({"output_config": {"effort": "low"}}), &request);
        let expected = json!({"effort": "low", "format": {"type": "json_schema", "schema": expected}});
        assert_eq!(body["output_config"], expected);
    }
    let mut request = request(vec![Message::user("Hi")]);
    assert_eq!(sent(json!({"output_config": {"effort": "low"}}), &request)["output_config"], json!({"effort": "low"}));
    request.response_schema = Some("{".into());
    assert!(matches!(Anthropic::default().body(&adapter(json!({})), &request), Err(Fault::Invalid { .. })));
}

#[test]
fn tools_have_schemas_of_objects() {
    let mut request = request(vec![Message::user("Hi")]);
    request.tools = Arc::new([tool("a", "true"), tool("b", r#"{"anyOf":[{"type":"object"}]}"#)]);
    let body = sent(json!({}), &request);
    for tool in body["tools"].as_array().unwrap() {
        assert_eq!((&tool["input_schema"]["type"], &tool["input_schema"]["anyOf"]), (&json!("object"), &json!(null)));
    }
}

#[test]
fn the_version_is_named_once_in_the_address() {
    for (base, expected) in [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("https://x.io/anthropic?a=b", "https://x.io/anthropic/v1/messages?a=b"),
        ("https://x.io/rev1", "https://x.io/rev1/v1/messages"),
    ] {
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config(base)).unwrap();
        assert_eq!(Anthropic::default().url(&adapter).unwrap().as_str(), expected);
    }
}

#[tokio::test]
async fn config_header_replaces_default_header() {
    let server = TestServer::start(vec![]).await;
    let header = ("Anthropic-Version".to_owned(), Secret::new("2099-01-01"));
    let config = AdapterConfig { headers: vec![header], retries: 0, ..config(&server.url) };
    let model = HttpModel::new(HttpClient::new().unwrap(), config, Anthropic::default()).unwrap();
    let request = request(vec![Message::user("Hi")]);
    assert!(model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await.is_err());
    let sent = server.requests().remove(0).to_lowercase();
    assert!(sent.contains("anthropic-version: 2099-01-01") && !sent.contains(VERSION), "{sent}");
}
