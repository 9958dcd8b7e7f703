use std::sync::Arc;

use serde_json::{Value, json, value::RawValue};

use super::{
    tests::{call, recorded, text, thought},
    *,
};
use crate::{AdapterConfig, HttpModel};
use shelly_core::{
    chat::{self, Chat, Media, Message, Part, PropertyNames, Role, ToolHints, ToolResult, ToolSpec},
    event::RunCx,
    limits,
    model::{Completer, StopReason, ToolChoice},
};
use shelly_net::{AuthHeader, HttpClient, Secret};
use shelly_test_support::{CannedResponse, TestServer, answer};

fn config(base_url: &str, model: &str) -> AdapterConfig {
    AdapterConfig {
        name: "main".into(),
        auth: Some(AuthHeader::bearer(Secret::new("sk-secret"))),
        max_tokens: Some(1_000),
        ..AdapterConfig::new(base_url, model)
    }
}

pub(super) fn tool(name: &str) -> Arc<ToolSpec> {
    let schema = r#"{"type":"object", "properties":{"z":{},"a":{"maximum":1.0}}}"#;
    Arc::new(ToolSpec {
        name: name.into(),
        description: "Reads a file.".into(),
        input_schema: RawValue::from_string(schema.into()).unwrap().into(),
        hints: ToolHints::default(),
        property_names: PropertyNames::default(),
    })
}

fn media(media_type: &str, name: Option<&str>, bytes: &[u8]) -> Media {
    Media { media_type: media_type.into(), name: name.map(Into::into), source: chat::MediaData::Bytes(bytes.into()) }
}

fn at(media_type: &str, url: &str) -> Part {
    Part::Media(Media { media_type: media_type.into(), name: None, source: chat::MediaData::Url(url.into()) })
}

fn assistant(parts: Vec<Part>) -> Message {
    Message { sender: "m".into(), role: Role::Assistant, parts, meta: vec![] }
}

fn conversation(from: &str) -> Chat {
    let chat = Chat::new();
    chat.append(Message::text(Role::System, "", "Be brief.")).unwrap();
    let mut user = Message::user("Look:");
    let files = [
        media("image/png", None, &[1, 2, 3]),
        media("audio/wav", Some("a.wav"), &[0]),
        media("application/pdf", None, &[1]),
        media("text/plain", None, b"text"),
    ];
    user.parts.extend(files.map(Part::Media));
    user.parts.extend([at("image/png", "https://x/i.png"), at("application/pdf", "https://x/d.pdf"), text(" ")]);
    chat.append(user).unwrap();
    let parts = vec![
        thought("foreign", Some("anthropic.signature:abc")),
        thought("elsewhere", Some("openai.reasoning:other asked {}")),
        thought("Hm.", Some(&format!("openai.reasoning:{from} m-1 {{\"type\":\"reasoning\", \"id\":\"rs_1\"}}"))),
        text("Let me "),
        text("see."),
        thought("", Some(&format!("openai.phase:{from} m-1 commentary"))),
        call("c1", "read", " {\"a\":1} "),
        call("c2", "no such.tool", "{\"a\":"),
        call(&"c".repeat(65), "read", ""),
        thought("cut", Some(&format!("openai.reasoning:{from} m-1 {{\"type\":\"reasoning\"}}"))),
    ];
    let open = chat.reply(assistant(parts));
    let seen = vec![
        chat::ToolResultContent::Text("seen".into()),
        chat::ToolResultContent::Media(media("image/png", None, &[1])),
    ];
    open.answer(vec![
        ToolResult {
            call_id: "c1".into(),
            content: vec![chat::ToolResultContent::Json("{\"ok\":true}".into())],
            is_error: false,
        },
        ToolResult::error("c2", "there is no such tool"),
        ToolResult { call_id: "c".repeat(65), content: seen, is_error: true },
    ]);
    chat.append(Message::user("And?")).unwrap();
    chat
}

fn event_stream(body: &str) -> CannedResponse {
    answer("200 OK", "content-type: text/event-stream\r\n", body)
}

#[tokio::test]
async fn a_chat_with_calls_and_results_goes_out_as_documented() {
    let server = TestServer::start(vec![event_stream(&recorded())]).await;
    let config = config(&format!("{}/v1", server.url), "m-1");
    let responses = ResponsesApi { encrypted_reasoning: Some(true), ..ResponsesApi::default() };
    let model = HttpModel::new(HttpClient::new().unwrap(), config, responses).unwrap();
    let chat = conversation(server.url.trim_start_matches("http://"));
    let mut request = CompletionRequest::new(chat.snapshot(), Arc::new([tool("read")]));
    request.tool_choice = ToolChoice::Tool("read".into());
    request.temperature = Some(0.5);
    request.response_schema = Some("{\"type\": \"object\"}".into());
    let completion = model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await.unwrap();
    assert_eq!(completion.stop, StopReason::ToolCalls);

    let sent = server.requests().remove(0);
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/responses HTTP/1.1\r\n"), "{head}");
    let expected = concat!(
        r#"{"model":"m-1","instructions":"Be brief.","input":["#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"Look:"},"#,
        r#"{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AQID"},"#,
        r#"{"type":"input_text","text":"[a.wav, audio/wav, 1 bytes: cannot be shown]"},"#,
        r#"{"type":"input_file","filename":"document.pdf","file_data":"data:application/pdf;base64,AQ=="},"#,
        r#"{"type":"input_text","text":"text"},"#,
        r#"{"type":"input_image","detail":"auto","image_url":"https://x/i.png"},"#,
        r#"{"type":"input_file","file_url":"https://x/d.pdf"}]},"#,
        r#"{"type":"reasoning", "id":"rs_1"},"#,
        r#"{"type":"message","role":"assistant","content":"Let me see.","phase":"commentary"},"#,
        r#"{"type":"function_call","call_id":"c1","name":"read","arguments":"{\"a\":1}"},"#,
        r#"{"type":"function_call","call_id":"c2","name":"no_such_tool_a900eb74","arguments":"{\"invalid_arguments\":\"{\\\"a\\\":\"}"},"#,
        r#"{"type":"function_call","call_id":"LONG","name":"read","arguments":"{}"},"#,
        r#"{"type":"function_call_output","call_id":"c1","output":"{\"ok\":true}"},"#,
        r#"{"type":"function_call_output","call_id":"c2","output":"Error: there is no such tool"},"#,
        r#"{"type":"function_call_output","call_id":"LONG","output":[{"type":"input_text","text":"Error:"},"#,
        r#"{"type":"input_text","text":"seen"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,AQ=="}]},"#,
        r#"{"type":"message","role":"user","content":"And?"}],"#,
        r#""tools":[{"type":"function","name":"read","description":"Reads a file.","#,
        r#""parameters":{"type":"object", "properties":{"z":{},"a":{"maximum":1.0}}},"strict":false}],"#,
        r#""tool_choice":{"type":"function","name":"read"},"#,
        r#""text":{"format":{"type":"json_schema","name":"reply","schema":{"type": "object"},"strict":false}},"#,
        r#""temperature":0.5,"max_output_tokens":1000,"include":["reasoning.encrypted_content"],"store":false,"stream":true}"#,
    );
    assert_eq!(body, expected.replace("LONG", &COMMON.wire(&"c".repeat(65))));
}

fn sent(model: &str, request: &CompletionRequest) -> Value {
    let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config("https://api.openai.com/v1", model)).unwrap();
    serde_json::from_slice(&ResponsesApi::default().body(&adapter, request).unwrap()).unwrap()
}

#[tokio::test]
async fn odd_conversations_can_be_sent() {
    let request = |messages| CompletionRequest::new(chat::ChatSnapshot::from_messages(messages).unwrap(), Arc::new([]));
    let message = |role: &str, text: &str| json!({"type": "message", "role": role, "content": text});
    let system = |text: &str| Message::text(Role::System, "", text);
    for (messages, instructions, input) in [
        (vec![system("Go.")], json!(null), json!([message("system", "Go.")])),
        (
            vec![assistant(vec![text("I am here.")]), Message::user("Hi"), Message::user("you")],
            json!(null),
            json!([message("assistant", "I am here."), message("user", "Hi"), message("user", "you")]),
        ),
        (
            vec![
                system("Go."),
                Message::user("Hi"),
                assistant(vec![at("image/png", "https://x")]),
                Message::user("So?"),
            ],
            json!("Go."),
            json!([message("user", "Hi"), message("user", "So?")]),
        ),
    ] {
        let body = sent("m-1", &request(messages));
        assert_eq!((&body["instructions"], &body["input"]), (&instructions, &input));
    }
    let mut short = request(vec![Message::user("Hi")]);
    short.max_output_tokens = Some(1);
    assert_eq!(sent("m-1", &short)["max_output_tokens"], limits::RESPONSES_LEAST_TOKENS);
}

#[tokio::test]
async fn earlier_input_is_resent_unchanged() {
    let chat = conversation("api.openai.com");
    let request = || CompletionRequest::new(chat.snapshot(), Arc::new([tool("read")]));
    let first = sent("m-1", &request())["input"].to_string();
    chat.reply(assistant(vec![text("Done.")]));
    chat.append(Message::user("Good.")).unwrap();
    let second = sent("m-1", &request())["input"].to_string();
    assert!(second.starts_with(first.trim_end_matches(']')), "{second}");
    // Thoughts of one model are not sent to another.
    assert!(first.contains("rs_1") && !sent("m-2", &request())["input"].to_string().contains("rs_1"));
}

#[test]
fn models_that_think_are_known_by_name() {
    for (model, expected) in [
        ("o3", true),
        ("o4-mini", true),
        ("gpt-5", true),
        ("openai/gpt-5.1-codex-max", true),
        ("gpt-10", true),
        ("gpt-5-chat-latest", false),
        ("gpt-5.2-chat-latest", false),
        ("gpt-4.1", false),
        ("gpt-4o", false),
        ("gpt-oss-20b", false),
        ("gpt-", false),
        ("olmo-2", false),
        ("grok-4", false),
        ("", false),
    ] {
        assert_eq!(thinks(model), expected, "{model}");
    }
}

#[tokio::test]
async fn a_server_that_stays_silent_or_goes_is_given_up() {
    let stream = recorded();
    let start = &stream[..stream.floor_char_boundary(stream.len() / 2)];
    let mut answers = vec![event_stream(start)];
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100000\r\n\r\n";
    answers.push(CannedResponse { bytes: format!("{head}{start}").into_bytes(), stays: true });
    let server = TestServer::start(answers).await;
    let config = AdapterConfig { retries: 0, idle: std::time::Duration::from_millis(50), ..config(&server.url, "m-1") };
    let model = HttpModel::new(HttpClient::new().unwrap(), config, ResponsesApi::default()).unwrap();
    let request = CompletionRequest::new(conversation("x").snapshot(), Arc::new([]));
    for _ in 0..2 {
        let fault = model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
    }
}

#[test]
fn text_config_is_merged_with_reply_schema() {
    let chat = Chat::new();
    chat.append(Message::user("Hi")).unwrap();
    for (text, schema, expected) in [
        (json!(null), None, None),
        (json!({"verbosity": "low"}), None, Some(json!({"verbosity": "low"}))),
        (json!({"format": {"type": "text"}}), None, Some(json!({"format": {"type": "text"}}))),
        (
            json!({"verbosity": "low", "format": {"type": "text"}}),
            Some("{}"),
            Some(json!({
                "verbosity": "low",
                "format": {"type": "json_schema", "name": "reply", "schema": {}, "strict": false},
            })),
        ),
    ] {
        let mut config = config("http://localhost/v1", "m");
        config.body.insert("text".into(), text.clone());
        config.body.retain(|_, value| !value.is_null());
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config).unwrap();
        let mut request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
        request.response_schema = schema.map(str::to_owned);
        let body = ResponsesApi::default().body(&adapter, &request).unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(body.get("text"), expected.as_ref(), "{text}");
    }
    let mut config = config("http://localhost/v1", "m");
    config.body.insert("text".into(), json!("short"));
    let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config).unwrap();
    let request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
    let fault = ResponsesApi::default().body(&adapter, &request).unwrap_err();
    assert!(fault.to_string().contains("verbosity"), "{fault}");
}
