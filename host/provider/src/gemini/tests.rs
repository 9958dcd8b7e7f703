use std::sync::Arc;

use serde_json::{Value, json, value::RawValue};

use super::*;
use crate::{AdapterConfig, HttpModel, delta_recorder::heard};
use shelly_core::{
    chat::{
        self, Chat, Media, Message, Part, PropertyNames, Role, ThinkingPart, ToolCall, ToolHints, ToolResult,
        ToolResultContent, ToolSpec,
    },
    event::RunCx,
    limits,
    model::{Completer, Completion, ReplyDelta, StopReason, ToolChoice, Usage},
};
use shelly_net::{AuthHeader, HttpClient, Secret};
use shelly_test_support::{TestServer, answer};

type Piece = Result<Vec<u8>, Fault>;

/// Reads a reply that arrives in these pieces.
async fn read(pieces: Vec<Piece>) -> (Result<Completion, Fault>, Vec<ReplyDelta>) {
    heard(&Gemini, &ToolNames::default(), pieces).await
}

async fn read_text(text: &str) -> Result<Completion, Fault> {
    read(vec![Ok(text.into())]).await.0
}

fn events(chunks: &[Value]) -> String {
    chunks.iter().map(|chunk| format!("data: {chunk}\r\n\r\n")).collect()
}

/// Formats a stream with one of these parts in each event, ended by a reason.
fn stream_of(parts: &[Value], reason: &str) -> String {
    let chunk = |part: &Value| json!({"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]});
    let end = json!({"candidates": [{"content": {}, "finishReason": reason, "index": 0}]});
    events(&parts.iter().map(chunk).chain([end]).collect::<Vec<_>>())
}

fn call(id: &str, name: &str, arguments: &str, meta: &[(&str, &str)]) -> Part {
    let meta = meta.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), meta })
}

fn sealed(text: &str, opaque: &str) -> Part {
    Part::Thinking(ThinkingPart { text: text.into(), opaque: Some(opaque.into()) })
}

/// The stream of a thinking model: a thought, text in two pieces, two calls of which the first is signed.
fn recorded() -> String {
    let usage = json!({"promptTokenCount": 30, "cachedContentTokenCount": 20, "candidatesTokenCount": 7,
        "thoughtsTokenCount": 5, "toolUsePromptTokenCount": 2, "totalTokenCount": 44});
    events(&[
        json!({"candidates": [{"content": {"parts": [{"text": "Hm. ", "thought": true}], "role": "model"}, "index": 0}],
            "modelVersion": "gemini-3-pro", "responseId": "r", "usageMetadata": {"promptTokenCount": 30}}),
        json!({"candidates": [{"content": {"parts": [{"text": "Grüße, "}], "role": "model"}, "index": 0}]}),
        json!({"candidates": [{"content": {"parts": [{"text": "世界 🌍"}], "role": "model"}, "index": 0}]}),
        json!({"candidates": [{"content": {"parts": [
            {"functionCall": {"id": "f1", "name": "read", "args": {"path": "ä"}}, "thoughtSignature": "c2ln"},
            {"functionCall": {"name": "list"}}], "role": "model"}, "index": 0}]}),
        json!({"candidates": [{"content": {"parts": [{"text": ""}], "role": "model"}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": usage}),
    ])
}

fn completion() -> Completion {
    Completion {
        parts: vec![
            Part::Thinking(ThinkingPart { text: "Hm. ".into(), opaque: None }),
            Part::Text("Grüße, 世界 🌍".into()),
            call("f1", "read", r#"{"path":"ä"}"#, &[("gemini.id", "f1"), ("gemini.thought_signature", "c2ln")]),
            call("", "list", "{}", &[]),
        ],
        stop: StopReason::ToolCalls,
        usage: Usage { input_tokens: 12, output_tokens: 12, cache_read_tokens: 20, cache_write_tokens: 0 },
        model: "gemini-3-pro".into(),
        meta: vec![],
    }
}

#[tokio::test]
async fn a_stream_is_read_in_pieces_and_split_anywhere() {
    let text = recorded();
    let (whole, deltas) = read(vec![Ok(text.clone().into())]).await;
    assert_eq!(whole, Ok(completion()));
    let first = Usage { input_tokens: 30, ..Usage::default() };
    let expected = [
        ReplyDelta::Usage(first),
        ReplyDelta::Thinking("Hm. ".into()),
        ReplyDelta::Text("Grüße, ".into()),
        ReplyDelta::Text("世界 🌍".into()),
        ReplyDelta::ToolCall("read".into()),
        ReplyDelta::ToolCall("list".into()),
        ReplyDelta::Usage(completion().usage),
    ];
    assert_eq!(deltas, expected);
    for at in 0..text.len() {
        let (one, two) = text.as_bytes().split_at(at);
        assert_eq!(read(vec![Ok(one.into()), Ok(two.into())]).await.0, Ok(completion()), "split at {at}");
    }
}

#[tokio::test]
async fn a_stream_that_is_cut_is_no_reply() {
    let text = recorded();
    let last = text.trim_end().len();
    for at in 0..text.len() {
        let cut = read(vec![Ok(text.as_bytes()[..at].into())]).await.0;
        // Only the line terminators after the last event may be missing.
        assert_eq!(cut.is_ok(), at > last + 2, "{at}: {cut:?}");
        assert!(cut.is_ok() || matches!(cut, Err(Fault::Unavailable { .. })), "{at}: {cut:?}");
    }
    let broken = || Err(Fault::Unavailable { message: "silence".into(), after: None });
    assert_eq!(read(vec![Ok(text.clone().into()), broken()]).await.0, Ok(completion()));
    assert_eq!(
        read(vec![Ok(text.as_bytes()[..200].into()), broken()]).await.0,
        broken().map(|_: Vec<u8>| completion())
    );
}

#[tokio::test]
async fn a_reply_in_one_piece_is_the_same() {
    let chunks: Vec<Value> =
        recorded().lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    assert_eq!(read_text(&json!(chunks).to_string()).await, Ok(completion()));
    let one = json!({"candidates": [{"content": {"parts": [{"text": "Four."}]}, "finishReason": "STOP"}]});
    let reply = read_text(&format!("\n {one}")).await.unwrap();
    assert_eq!((reply.parts, reply.stop), (vec![Part::Text("Four.".into())], StopReason::EndTurn));
    assert!(matches!(read_text("{}").await, Err(Fault::Unavailable { .. })));
    assert!(matches!(read_text("[]").await, Err(Fault::Unavailable { .. })));
}

#[tokio::test]
async fn signatures_keep_their_place() {
    let parts = [
        json!({"text": "Hm.", "thought": true, "thoughtSignature": "A"}),
        json!({"text": "Well.", "thought": true}),
        json!({"text": "One "}),
        json!({"text": "two", "thoughtSignature": "B"}),
        json!({"text": " three"}),
        json!({"executableCode": {"language": "PYTHON", "code": "1"}}),
        json!({"codeExecutionResult": {"outcome": "OUTCOME_OK"}}),
        json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
        json!({"text": "", "thoughtSignature": "C"}),
    ];
    let reply = read_text(&stream_of(&parts, "STOP")).await.unwrap();
    let text = |text: &str| Part::Text(text.into());
    let expected = vec![
        sealed("Hm.", "gemini.thought:A"),
        Part::Thinking(ThinkingPart { text: "Well.".into(), opaque: None }),
        text("One "),
        text("two"),
        sealed("", "gemini.text:B"),
        text(" three[image/png: cannot be shown]"),
        sealed("", "gemini.alone:C"),
    ];
    assert_eq!(reply.parts, expected);

    let chat = Chat::new();
    chat.append(Message::user("Hi")).unwrap();
    chat.reply(Message { sender: "m".into(), role: Role::Assistant, parts: reply.parts, meta: vec![] });
    let sent = sent(&chat, "gemini-3-pro", &[]);
    let expected = json!([
        {"text": "Hm.", "thought": true, "thoughtSignature": "A"},
        {"text": "One "},
        {"text": "two", "thoughtSignature": "B"},
        {"text": " three[image/png: cannot be shown]"},
        {"text": "", "thoughtSignature": "C"},
    ]);
    assert_eq!(sent["contents"][1], json!({"role": "model", "parts": expected}));
}

#[tokio::test]
async fn the_reason_to_stop_is_translated() {
    for (word, expected) in [
        ("STOP", StopReason::EndTurn),
        ("MAX_TOKENS", StopReason::MaxTokens),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        ("BLOCKLIST", StopReason::Refusal),
        ("SPII", StopReason::Refusal),
        ("WEARY", StopReason::Other("WEARY".into())),
    ] {
        assert_eq!(read_text(&stream_of(&[json!({"text": "x"})], word)).await.unwrap().stop, expected, "{word}");
    }
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}});
    let reply = read_text(&events(&[blocked])).await.unwrap();
    assert_eq!((reply.stop, reply.parts.len(), reply.usage.input_tokens), (StopReason::Refusal, 0, 4));
    // A call that Google itself could not parse: another attempt may succeed.
    let end = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "bad sk-secret"}]});
    let fault = read_text(&events(&[end])).await.unwrap_err();
    assert_eq!(fault, Fault::Unavailable { message: "host aborted its reply: bad ***".into(), after: None });
}

#[tokio::test]
async fn counts_of_tokens_do_not_overlap() {
    for (usage, expected) in [
        (json!({"promptTokenCount": 9, "candidatesTokenCount": 4}), (9, 4, 0)),
        (json!({"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 3}), (9, 7, 0)),
        (json!({"promptTokenCount": 9, "cachedContentTokenCount": 8, "toolUsePromptTokenCount": 2}), (3, 0, 8)),
        // More cached tokens than prompt tokens: no count may be negative or too high.
        (json!({"promptTokenCount": 9, "cachedContentTokenCount": 10}), (0, 0, 9)),
        (json!({"candidatesTokenCount": u64::MAX, "thoughtsTokenCount": 1}), (0, u64::MAX, 0)),
    ] {
        let reply = json!({"candidates": [{"finishReason": "STOP"}], "usageMetadata": usage});
        let seen = read_text(&events(&[reply])).await.unwrap().usage;
        assert_eq!((seen.input_tokens, seen.output_tokens, seen.cache_read_tokens), expected, "{usage}");
    }
}

#[tokio::test]
async fn what_is_no_reply_is_a_fault() {
    let error = json!({"error": {"code": 429, "message": "slow, sk-secret", "status": "RESOURCE_EXHAUSTED"}});
    for text in [events(std::slice::from_ref(&error)), error.to_string(), json!([error]).to_string()] {
        let message = "host ended its reply with an error: slow, ***".into();
        assert_eq!(read_text(&text).await, Err(Fault::RateLimited { message, after: None }), "{text}");
    }
    for garbled in ["data: {\"candidates\":\n\n", "data: sk-secret\n\n", "data: 7\n\n", "{\"candidates\":7}", ""] {
        let fault = read_text(garbled).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{garbled}: {fault:?}");
        assert!(!format!("{fault:?}").contains("sk-secret"), "{fault:?}");
    }
    let nameless = stream_of(&[json!({"functionCall": {"args": {}}})], "STOP");
    assert!(matches!(read_text(&nameless).await, Err(Fault::Unavailable { .. })));
    assert!(matches!(read_text("<html></html>").await, Err(Fault::Other { .. })));
    // Unknown kinds of parts, candidates and fields.
    let odd = json!({"candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}},
        {"index": 0, "content": {"parts": [{"hologram": {}}, {"text": "x"}, {}]}, "finishReason": "STOP"}], "new": 1});
    assert_eq!(read_text(&events(&[odd])).await.unwrap().parts, [Part::Text("x".into())]);
}

#[tokio::test]
async fn a_reply_without_end_is_stopped() {
    let piece = events(&[json!({"candidates": [{"content": {"parts": [{"text": "x".repeat(1 << 20)}]}}]})]);
    assert!(matches!(read(vec![Ok(piece.into()); 17]).await.0, Err(Fault::TooLarge { .. })));
    let signed =
        events(&[json!({"candidates": [{"content": {"parts": [{"thoughtSignature": "x".repeat(1 << 20)}]}}]})]);
    assert!(matches!(read(vec![Ok(signed.into()); 17]).await.0, Err(Fault::TooLarge { .. })));
    let call = events(&[json!({"candidates": [{"content": {"parts": [{"functionCall": {"name": "f"}}]}}]})]);
    let calls = vec![Ok(call.into()); limits::CALLS_IN_REPLY + 1];
    assert!(matches!(read(calls).await.0, Err(Fault::TooLarge { .. })));
}

fn config(base_url: &str, model: &str) -> AdapterConfig {
    let auth = AuthHeader::header("x-goog-api-key", Secret::new("sk-secret"));
    AdapterConfig { auth: Some(auth), max_tokens: Some(1_000), ..AdapterConfig::new(base_url, model) }
}

fn tool(name: &str, schema: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema: RawValue::from_string(schema.into()).unwrap().into(),
        hints: ToolHints::default(),
        property_names: PropertyNames::default(),
    })
}

/// Returns the body of a request.
fn sent(chat: &Chat, model: &str, tools: &[Arc<ToolSpec>]) -> Value {
    let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config("https://host/v1beta", model)).unwrap();
    let request = CompletionRequest::new(chat.snapshot(), tools.into());
    serde_json::from_slice(&Gemini.body(&adapter, &request).unwrap()).unwrap()
}

fn media(media_type: &str, source: chat::MediaData) -> Media {
    Media { media_type: media_type.into(), name: None, source }
}

fn bytes(bytes: &[u8]) -> chat::MediaData {
    chat::MediaData::Bytes(bytes.into())
}

fn chat_with_calls() -> Chat {
    let chat = Chat::new();
    chat.append(Message::text(Role::System, "", "Be brief.")).unwrap();
    let mut user = Message::user("Look:");
    let url = |url: &str| chat::MediaData::Url(url.into());
    user.parts.extend(
        [
            media("image/jpg", bytes(&[1, 2, 3])),
            media("application/pdf", url("https://host/a.pdf")),
            media("image/svg+xml", bytes(b"<svg/>")),
            media("text/plain", bytes(b"plain")),
            media("image/png", url("ftp://host/a.png")),
        ]
        .map(Part::Media),
    );
    chat.append(user).unwrap();
    let parts = vec![
        sealed("another's", "anthropic.signature:x"),
        call("c1", "read", " {\"a\":1} ", &[("gemini.id", "f1"), ("gemini.thought_signature", "c2ln")]),
        call("c2", "2.tool", "{\"a\":", &[]),
    ];
    let open = chat.reply(Message { sender: "m".into(), role: Role::Assistant, parts, meta: vec![] });
    let content =
        vec![ToolResultContent::Json("{\"n\":1}".into()), ToolResultContent::Media(media("image/png", bytes(&[0])))];
    let good = ToolResult { call_id: "c1".into(), content, is_error: false };
    open.answer(vec![good, ToolResult::error("c2", "there is no such tool")]);
    chat.note("host", "Go on.");
    chat.reply(Message::text(Role::Assistant, "m", "Done."));
    chat.append(Message::user("Thanks.")).unwrap();
    chat
}

#[tokio::test]
async fn a_chat_with_calls_and_results_goes_out_as_documented() {
    let server = TestServer::start(vec![answer("200 OK", "content-type: text/event-stream\r\n", &recorded())]).await;
    let mut config = config(&format!("{}/v1beta", server.url), "models/gemini-3-pro");
    let more = json!({"generationConfig": {"thinkingConfig": {"includeThoughts": true}, "temperature": 2},
        "tools": [{"googleSearch": {}}], "safetySettings": []});
    config.body = more.as_object().unwrap().clone();
    let model = HttpModel::new(HttpClient::new().unwrap(), config, Gemini).unwrap();
    let tools = [
        tool("read", r#"{"type":"object", "properties":{"z":{"type":"string"},"a":{"maximum":1.0}}}"#),
        tool("2.tool", r#"{"$schema":"s","type":"object"}"#),
    ];
    let mut request = CompletionRequest::new(chat_with_calls().snapshot(), tools.into());
    request.tool_choice = ToolChoice::Tool("2.tool".into());
    request.temperature = Some(0.5);
    request.response_schema = Some("{\"type\": \"array\", \"items\": {}}".into());
    let reply = model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await;
    assert_eq!(reply, Ok(completion()));

    let sent = server.requests().remove(0);
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse HTTP/1.1\r\n"), "{head}");
    assert!(head.to_lowercase().contains("\r\nx-goog-api-key: sk-secret\r\n"), "{head}");
    let name = GEMINI.wire("2.tool");
    let expected = [
        r#"{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":["#,
        r#"{"role":"user","parts":[{"text":"Look:"},{"inlineData":{"mimeType":"image/jpeg","data":"AQID"}},"#,
        r#"{"fileData":{"mimeType":"application/pdf","fileUri":"https://host/a.pdf"}},"#,
        r#"{"text":"[attachment, image/svg+xml, 6 bytes: cannot be shown]"},{"text":"plain"},"#,
        r#"{"text":"[attachment, image/png: ftp://host/a.png]"}]},"#,
        r#"{"role":"model","parts":[{"functionCall":{"id":"f1","name":"read","args":{"a":1}},"thoughtSignature":"c2ln"},"#,
        r#"{"functionCall":{"name":"NAME","args":{"invalid_arguments":"{\"a\":"}}}]},"#,
        r#"{"role":"user","parts":[{"functionResponse":{"id":"f1","name":"read","response":{"output":"{\"n\":1}\n[image/png]"}}},"#,
        r#"{"inlineData":{"mimeType":"image/png","data":"AA=="}},"#,
        r#"{"functionResponse":{"name":"NAME","response":{"error":"there is no such tool"}}},{"text":"Go on."}]},"#,
        r#"{"role":"model","parts":[{"text":"Done."}]},{"role":"user","parts":[{"text":"Thanks."}]}],"#,
        r#""tools":[{"functionDeclarations":[{"name":"read","description":"read","#,
        r#""parametersJsonSchema":{"type":"object", "properties":{"z":{"type":"string"},"a":{"maximum":1.0}}}},"#,
        r#"{"name":"NAME","description":"2.tool"}]},{"googleSearch":{}}],"#,
        r#""toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["NAME"]}},"#,
        r#""generationConfig":{"maxOutputTokens":1000,"temperature":0.5,"responseMimeType":"application/json","#,
        r#""responseJsonSchema":{"type": "array", "items": {}},"thinkingConfig":{"includeThoughts":true}},"#,
        r#""safetySettings":[]}"#,
    ];
    assert_eq!(body, expected.concat().replace("NAME", &name));
}

#[test]
fn gemini_url_contains_model_collection() {
    for (model, expected) in [
        ("gemini-3-pro", "models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("models/gemini-3-pro", "models/gemini-3-pro:streamGenerateContent?alt=sse"),
        ("tunedModels/mine", "tunedModels/mine:streamGenerateContent?alt=sse"),
        ("publishers/google/models/x", "publishers/google/models/x:streamGenerateContent?alt=sse"),
        ("a b?c#d%2f", "models/a%20b%3Fc%23d%252f:streamGenerateContent?alt=sse"),
    ] {
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config("https://host/v1beta/", model)).unwrap();
        assert_eq!(Gemini.url(&adapter).unwrap().as_str(), format!("https://host/v1beta/{expected}"));
    }
}

#[test]
fn odd_conversations_are_made_into_turns() {
    // The conversation is empty, or has no user message.
    let chat = Chat::new();
    let beginning = json!({"role": "user", "parts": [{"text": "(The conversation continues from here.)"}]});
    assert_eq!(sent(&chat, "m", &[]), json!({"contents": [beginning], "generationConfig": {"maxOutputTokens": 1000}}));
    chat.reply(Message::text(Role::Assistant, "m", "Hello."));
    let hello = json!({"role": "model", "parts": [{"text": "Hello."}]});
    assert_eq!(sent(&chat, "m", &[])["contents"], json!([beginning, hello]));
    // Two messages of one role in a row.
    chat.append(Message::user("One.")).unwrap();
    chat.append(Message::user("Two.")).unwrap();
    let before = sent(&chat, "m", &[])["contents"].clone();
    assert_eq!(before[2], json!({"role": "user", "parts": [{"text": "One."}, {"text": "Two."}]}));
    // Appended messages do not change the earlier turns.
    chat.reply(Message::text(Role::Assistant, "m", "Three."));
    assert_eq!(sent(&chat, "m", &[])["contents"].as_array().unwrap()[..3], *before.as_array().unwrap());
}

#[test]
fn newer_gemini_gets_placeholder_for_missing_signature() {
    let chat = Chat::new();
    chat.append(Message::user("Hi")).unwrap();
    let parts = vec![call("a", "f", "{}", &[]), call("b", "f", "{}", &[])];
    chat.reply(Message { sender: "m".into(), role: Role::Assistant, parts, meta: vec![] }).answer(vec![]);
    for (model, expected) in
        [("gemini-3-pro", true), ("models/gemini-flash-latest", true), ("gemini-2.5-pro", false), ("gemma-3", false)]
    {
        let sent = sent(&chat, model, &[]);
        let parts = &sent["contents"][1]["parts"];
        let expected = if expected { json!("skip_thought_signature_validator") } else { Value::Null };
        assert_eq!(
            (&parts[0]["thoughtSignature"], &parts[1]["thoughtSignature"]),
            (&expected, &Value::Null),
            "{model}"
        );
        // Each call has its result, failed or not.
        assert_eq!(sent["contents"][2]["parts"].as_array().unwrap().len(), 2, "{model}");
    }
}

#[test]
fn config_fields_must_have_mergeable_type() {
    for (body, expected) in [(json!({"tools": {}}), "`tools`"), (json!({"generationConfig": 1}), "`generationConfig`")]
    {
        let mut config = config("https://host/v1beta", "gemini-3-pro");
        config.body = body.as_object().unwrap().clone();
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config).unwrap();
        let request = CompletionRequest::new(Chat::new().snapshot(), Arc::new([]));
        let fault = Gemini.body(&adapter, &request).unwrap_err();
        assert!(matches!(&fault, Fault::Invalid { message } if message.contains(expected)), "{fault}");
    }
    // Older models refuse a schema together with tools.
    let adapter = |model| ModelAdapter::new(HttpClient::new().unwrap(), config("https://host", model)).unwrap();
    let mut request = CompletionRequest::new(Chat::new().snapshot(), Arc::new([tool("f", "{}")]));
    request.response_schema = Some("{}".into());
    for (model, is_held) in [("gemini-2.5-pro", false), ("gemini-3-pro", true)] {
        let body = String::from_utf8(Gemini.body(&adapter(model), &request).unwrap()).unwrap();
        assert_eq!(body.contains("responseJsonSchema"), is_held, "{body}");
    }
}
