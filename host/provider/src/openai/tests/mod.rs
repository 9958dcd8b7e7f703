mod habits;

use std::sync::Arc;

use serde_json::{json, value::RawValue};

use super::*;
use crate::{
    AdapterConfig, HttpModel,
    delta_recorder::{assert_splits_do_not_matter, heard},
};
use shelly_core::{
    chat::{
        self, Chat, Media, Message, Part, PropertyNames, Role, ThinkingPart, ToolCall, ToolHints, ToolResult, ToolSpec,
    },
    event::RunCx,
    limits,
    model::{Completer, Completion, ReplyDelta, StopReason, ToolChoice, Usage},
};
use shelly_net::{AuthHeader, HttpClient, Secret};
use shelly_test_support::{TestServer, answer};

/// Reads a reply that arrives in these pieces.
async fn read(pieces: Vec<Vec<u8>>) -> (Result<Completion, Fault>, Vec<ReplyDelta>) {
    read_with(&ChatCompletions::default(), ToolNames::default(), pieces).await
}

async fn read_with(
    options: &ChatCompletions,
    names: ToolNames,
    pieces: Vec<Vec<u8>>,
) -> (Result<Completion, Fault>, Vec<ReplyDelta>) {
    heard(options, &names, pieces.into_iter().map(Ok).collect()).await
}

async fn read_text(text: &str) -> Result<Completion, Fault> {
    read(vec![text.as_bytes().to_vec()]).await.0
}

/// Formats a stream of chunks with these deltas, ended by a reason.
fn stream_of(deltas: &[serde_json::Value], reason: &str) -> String {
    let mut text = String::new();
    for delta in deltas {
        text += &format!(
            "data: {}\n\n",
            json!({"model": "m-1", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
        );
    }
    text + &format!(
        "data: {}\n\ndata: [DONE]\n\n",
        json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    )
}

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), meta: vec![] })
}

async fn calls_of(deltas: &[serde_json::Value]) -> Vec<Part> {
    let completion = read_text(&stream_of(deltas, "stop")).await.unwrap();
    assert_eq!(completion.stop, StopReason::ToolCalls);
    completion.parts
}

const TEXT: &str = "\
    data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\r\n\r\n\
    : keep-alive\r\n\r\n\
    data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"Hm. \"},\"finish_reason\":null}]}\r\n\r\n\
    data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning\":\"Well.\"},\"finish_reason\":null}]}\r\n\r\n\
    data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Grüße, \"},\"finish_reason\":null}]}\r\n\r\n\
    data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"世界 🌍\"},\"finish_reason\":null}]}\r\n\r\n\
    data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\r\n\r\n\
    data: {\"model\":\"m-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":30,\"completion_tokens\":7,\"total_tokens\":37,\
    \"prompt_tokens_details\":{\"cached_tokens\":20}}}\r\n\r\n\
    data: [DONE]\r\n\r\n";

fn text_completion() -> Completion {
    let thought = ThinkingPart { text: "Hm. Well.".into(), opaque: None };
    Completion {
        parts: vec![Part::Thinking(thought), Part::Text("Grüße, 世界 🌍".into())],
        stop: StopReason::EndTurn,
        usage: Usage { input_tokens: 10, output_tokens: 7, cache_read_tokens: 20, cache_write_tokens: 0 },
        model: "m-1".into(),
        meta: vec![],
    }
}

#[tokio::test]
async fn text_comes_in_pieces_and_as_a_whole() {
    let (completion, deltas) = read(vec![TEXT.into()]).await;
    let completion = completion.unwrap();
    assert_eq!(completion, text_completion());
    let expected = [
        ReplyDelta::Thinking("Hm. ".into()),
        ReplyDelta::Thinking("Well.".into()),
        ReplyDelta::Text("Grüße, ".into()),
        ReplyDelta::Text("世界 🌍".into()),
        ReplyDelta::Usage(completion.usage),
    ];
    assert_eq!(deltas, expected);
}

#[tokio::test]
async fn where_the_stream_is_split_does_not_matter() {
    assert_splits_do_not_matter(TEXT, read).await;
}

#[tokio::test]
async fn a_cut_never_passes_for_a_reply() {
    let whole = text_completion();
    let finished = TEXT.find("\"stop\"").unwrap();
    for at in 0..TEXT.len() {
        let start = TEXT.as_bytes()[..at].to_vec();
        match read(vec![start.clone()]).await.0 {
            Ok(completion) => {
                assert!(at > finished, "cut at {at}");
                assert_eq!(
                    (completion.parts, completion.stop),
                    (whole.parts.clone(), whole.stop.clone()),
                    "cut at {at}"
                );
            }
            Err(fault) => assert!(matches!(fault, Fault::Unavailable { .. }), "cut at {at}: {fault:?}"),
        }
    }
    let plain = json!({"choices": [{"message": {"content": "text"}, "finish_reason": "stop"}]}).to_string();
    for at in 0..plain.len() {
        let fault = read_text(&plain[..at]).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "cut at {at}: {fault:?}");
    }
}

#[tokio::test]
async fn several_calls_are_told_apart_by_index() {
    let deltas = [
        json!({"content": "Let me see."}),
        json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "read", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"path\":"}}]}),
        json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "list", "arguments": ""}}]}),
        json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"x\"}"}}, {"index": 1, "function": {"arguments": ""}}]}),
    ];
    let stream = stream_of(&deltas, "tool_calls");
    let (completion, seen) = read(vec![stream.into()]).await;
    let completion = completion.unwrap();
    let text = Part::Text("Let me see.".into());
    assert_eq!(completion.parts, [text, call("a", "read", "{\"path\":\"x\"}"), call("b", "list", "{}")]);
    assert_eq!(completion.stop, StopReason::ToolCalls);
    assert_eq!(seen[1..], [ReplyDelta::ToolCall("read".into()), ReplyDelta::ToolCall("list".into())]);
}

#[tokio::test]
async fn servers_with_habits_of_their_own_are_understood() {
    let whole = |index: Option<i64>, id: Option<&str>, name: &str, arguments: serde_json::Value| json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": arguments}}]});
    let (one, two) = (json!("{\"n\":1}"), json!("{\"n\":2}"));
    let expected = |id: &str, other: &str| [call(id, "f", "{\"n\":1}"), call(other, "f", "{\"n\":2}")];

    // Whole calls: always index 0, no index, neither index nor id, a repeated id.
    let calls = [whole(Some(0), Some("a"), "f", one.clone()), whole(Some(0), Some("b"), "f", two.clone())];
    assert_eq!(calls_of(&calls).await, expected("a", "b"));
    let calls = [whole(None, Some("a"), "f", one.clone()), whole(None, Some("b"), "f", two.clone())];
    assert_eq!(calls_of(&calls).await, expected("a", "b"));
    for (index, id) in [(None, None), (Some(0), None), (Some(0), Some("")), (None, Some("x")), (Some(0), Some("x"))] {
        let calls = [whole(index, id, "f", one.clone()), whole(index, id, "f", two.clone())];
        let id = id.unwrap_or_default();
        assert_eq!(calls_of(&calls).await, expected(id, id), "{index:?} {id}");
    }
    // Without arguments only the names tell the calls apart.
    let calls = [whole(Some(0), None, "f", json!("")), whole(Some(0), None, "g", json!(null))];
    assert_eq!(calls_of(&calls).await, [call("", "f", "{}"), call("", "g", "{}")]);
    // The arguments as an object instead of a string.
    let calls = [whole(None, Some("a"), "f", json!({"n": 1})), whole(None, Some("b"), "f", json!({}))];
    assert_eq!(calls_of(&calls).await, [call("a", "f", "{\"n\":1}"), call("b", "f", "{}")]);
    // Id and name in every delta, braces inside a string.
    let pieces = ["{\"n\":\"}", "\\\"{\"", "}"].map(|piece| whole(Some(0), Some("a"), "f", json!(piece)));
    assert_eq!(calls_of(&pieces).await, [call("a", "f", "{\"n\":\"}\\\"{\"}")]);
    // A new id in every delta, and no index.
    let rest = json!({"tool_calls": [{"id": "b", "function": {"arguments": "1}"}}]});
    assert_eq!(calls_of(&[whole(None, Some("a"), "f", json!("{\"n\":")), rest]).await, [call("a", "f", "{\"n\":1}")]);
}

#[tokio::test]
async fn a_call_without_a_name_is_no_reply() {
    let stream = stream_of(&[json!({"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]})], "tool_calls");
    assert!(matches!(read_text(&stream).await, Err(Fault::Unavailable { .. })));
}

#[tokio::test]
async fn the_reason_to_stop_is_translated() {
    for (word, expected) in [
        ("stop", StopReason::EndTurn),
        ("length", StopReason::MaxTokens),
        ("tool_calls", StopReason::EndTurn),
        ("content_filter", StopReason::Refusal),
        ("weary", StopReason::Other("weary".into())),
    ] {
        let stream = stream_of(&[json!({"content": "text"})], word);
        assert_eq!(read_text(&stream).await.unwrap().stop, expected, "{word}");
    }
    let refusal = read_text(&stream_of(&[json!({"refusal": "No."})], "stop")).await.unwrap();
    assert_eq!((refusal.stop, refusal.parts), (StopReason::Refusal, vec![Part::Text("No.".into())]));
    // Cut off in the middle of its arguments: must not be run.
    let cut = json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"n\""}}]});
    assert_eq!(read_text(&stream_of(&[cut], "length")).await.unwrap().stop, StopReason::MaxTokens);
}

#[tokio::test]
async fn the_end_may_be_announced_by_either_sign() {
    let stream = stream_of(&[json!({"content": "text"})], "stop");
    let without_done = stream.replace("data: [DONE]\n\n", "");
    assert_eq!(read_text(&without_done).await, read_text(&stream).await);
    let without_reason = stream.replace("\"stop\"", "null");
    assert_eq!(read_text(&without_reason).await.unwrap().stop, StopReason::EndTurn);
    let without_both = without_done.replace("\"stop\"", "null");
    assert!(matches!(read_text(&without_both).await, Err(Fault::Unavailable { .. })));
}

#[tokio::test]
async fn counts_of_tokens_do_not_overlap() {
    for (usage, expected) in [
        (json!({"prompt_tokens": 9, "completion_tokens": 4}), (9, 4, 0)),
        (json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": null}), (9, 4, 0)),
        (json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 8}}), (1, 4, 8)),
        (json!({"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5}), (4, 4, 5)),
        // More cached tokens than prompt tokens: no count may be negative. Thinking only in the total: it counts as output.
        (json!({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 10}}), (0, 0, 9)),
        (json!({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 33}), (9, 24, 0)),
    ] {
        let reply = json!({"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "usage": usage});
        let seen = read_text(&reply.to_string()).await.unwrap().usage;
        assert_eq!((seen.input_tokens, seen.output_tokens, seen.cache_read_tokens), expected, "{usage}");
    }
}

#[tokio::test]
async fn a_reply_in_one_piece_is_accepted() {
    let reply = json!({"model": "m-1", "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
        "role": "assistant", "content": [{"type": "text", "text": "Now."}],
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}]});
    let (completion, deltas) = read(vec![b"\n ".to_vec(), reply.to_string().into()]).await;
    let completion = completion.unwrap();
    assert_eq!(completion.parts, [Part::Text("Now.".into()), call("a", "f", "{}")]);
    assert_eq!((completion.stop, completion.model.as_str()), (StopReason::ToolCalls, "m-1"));
    assert_eq!(deltas, [ReplyDelta::Text("Now.".into()), ReplyDelta::ToolCall("f".into())]);
}

#[tokio::test]
async fn what_is_no_reply_is_a_fault() {
    let inside = "data: {\"error\":{\"message\":\"slow down, sk-secret\",\"code\":429}}\n\n";
    let fault = read_text(inside).await.unwrap_err();
    assert_eq!(
        fault,
        Fault::RateLimited { message: "host ended its reply with an error: slow down, ***".into(), after: None }
    );
    let named = "event: error\ndata: {\"message\":\"no more\"}\n\n";
    assert!(matches!(read_text(named).await, Err(Fault::Unavailable { .. })));
    let plain = r#"{"error":{"message":"no","type":"invalid_request_error"}}"#;
    assert!(matches!(read_text(plain).await, Err(Fault::Invalid { .. })));
    for garbled in
        ["data: {\"choices\":\n\n", "data: sk-secret\n\n", "{}", "[]", "{\"choices\":\"sk-secret\"}", "", "  "]
    {
        let fault = read_text(garbled).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{garbled}: {fault:?}");
        assert!(!format!("{fault:?}").contains("sk-secret"), "{fault:?}");
    }
    assert!(matches!(read_text("<html></html>").await, Err(Fault::Other { .. })));
}

#[tokio::test]
async fn a_reply_without_end_is_stopped() {
    let piece = json!({"choices": [{"delta": {"content": "x".repeat(1 << 20)}}]});
    let pieces = vec![format!("data: {piece}\n\n").into_bytes(); 17];
    assert!(matches!(read(pieces).await.0, Err(Fault::TooLarge { .. })));
    let event = vec![b"data: ".to_vec(), vec![b'x'; limits::STREAM_EVENT_BYTES]];
    assert!(matches!(read(event).await.0, Err(Fault::TooLarge { .. })));
    let call = json!({"choices": [{"delta": {"tool_calls": [{"function": {"name": "f"}}]}}]});
    let calls = vec![format!("data: {call}\n\n").into_bytes(); 8 * limits::CALLS_PER_REPLY + 1];
    assert!(matches!(read(calls).await.0, Err(Fault::TooLarge { .. })));
}

fn config(base_url: &str) -> AdapterConfig {
    AdapterConfig {
        name: "main".into(),
        auth: Some(AuthHeader::bearer(Secret::new("sk-secret"))),
        context_window: Some(8_192),
        max_tokens: Some(1_000),
        ..AdapterConfig::new(base_url, "m-1")
    }
}

fn tool(name: &str) -> Arc<ToolSpec> {
    Arc::new(ToolSpec {
        name: name.into(),
        description: "Reads a file.".into(),
        // The order and spelling of a schema are the tool's own, and reach the model unchanged.
        input_schema: RawValue::from_string(r#"{"type":"object", "properties":{"z":{},"a":{"maximum":1.0}}}"#.into())
            .unwrap()
            .into(),
        hints: ToolHints::default(),
        property_names: PropertyNames::default(),
    })
}

fn chat_with_calls() -> Chat {
    let chat = Chat::new();
    chat.append(Message::text(Role::System, "", "Be brief.")).unwrap();
    let image = Media {
        media_type: "image/png".into(),
        name: None,
        source: chat::MediaData::Bytes([1, 2, 3].as_slice().into()),
    };
    let sound = Media {
        media_type: "audio/wav".into(),
        name: Some("a.wav".into()),
        source: chat::MediaData::Bytes([0].as_slice().into()),
    };
    let pdf = Media {
        media_type: "application/pdf".into(),
        name: None,
        source: chat::MediaData::Bytes([1].as_slice().into()),
    };
    let mut user = Message::user("Look:");
    user.parts.extend([image, sound, pdf].map(Part::Media));
    chat.append(user).unwrap();
    let thought = Part::Thinking(ThinkingPart { text: "not sent".into(), opaque: None });
    let parts =
        vec![thought, call("c1", "read", " {\"a\":1} "), call("c2", "no such.tool", "{\"a\":"), call("c3", "read", "")];
    let open = chat.reply(Message { sender: "m".into(), role: Role::Assistant, parts, meta: vec![] });
    let results = [ToolResult::error("c2", "there is no such tool"), ToolResult::error("c3", "z is missing")];
    let good = ToolResult {
        call_id: "c1".into(),
        content: vec![chat::ToolResultContent::Json("{\"ok\":true}".into())],
        is_error: false,
    };
    open.answer([good].into_iter().chain(results).collect());
    chat.reply(Message::text(Role::Assistant, "m", "Done."));
    chat
}

#[tokio::test]
async fn a_chat_with_calls_and_results_goes_out_as_documented() {
    let server = TestServer::start(vec![answer("200 OK", "content-type: text/event-stream\r\n", TEXT)]).await;
    let model =
        HttpModel::new(HttpClient::new().unwrap(), config(&format!("{}/v1", server.url)), ChatCompletions::default())
            .unwrap();
    let mut request = CompletionRequest::new(chat_with_calls().snapshot(), Arc::new([tool("read")]));
    request.tool_choice = ToolChoice::Tool("read".into());
    request.temperature = Some(0.7);
    request.response_schema = Some("{\"type\": \"object\"}".into());
    let cx = RunCx::new("a");
    assert_eq!(model.complete(&cx, &request, &DeltaSink::none()).await, Ok(text_completion()));

    let sent = server.requests().remove(0);
    let (head, body) = sent.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{head}");
    let expected = concat!(
        r#"{"model":"m-1","messages":[{"role":"system","content":"Be brief."},"#,
        r#"{"role":"user","content":[{"type":"text","text":"Look:"},"#,
        r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,AQID"}},"#,
        r#"{"type":"text","text":"[a.wav, audio/wav, 1 bytes: cannot be shown]"},"#,
        r#"{"type":"file","file":{"filename":"document.pdf","file_data":"data:application/pdf;base64,AQ=="}}]},"#,
        r#"{"role":"assistant","tool_calls":["#,
        r#"{"id":"c1","type":"function","function":{"name":"read","arguments":"{\"a\":1}"}},"#,
        r#"{"id":"c2","type":"function","function":{"name":"no_such_tool_a900eb74","arguments":"{\"invalid_arguments\":\"{\\\"a\\\":\"}"}},"#,
        r#"{"id":"c3","type":"function","function":{"name":"read","arguments":"{}"}}]},"#,
        r#"{"role":"tool","tool_call_id":"c1","content":"{\"ok\":true}"},"#,
        r#"{"role":"tool","tool_call_id":"c2","content":"Error: there is no such tool"},"#,
        r#"{"role":"tool","tool_call_id":"c3","content":"Error: z is missing"},"#,
        r#"{"role":"assistant","content":"Done."}],"#,
        r#""tools":[{"type":"function","function":{"name":"read","description":"Reads a file.","#,
        r#""parameters":{"type":"object", "properties":{"z":{},"a":{"maximum":1.0}}}}}],"#,
        r#""tool_choice":{"type":"function","function":{"name":"read"}},"#,
        r#""response_format":{"type":"json_schema","json_schema":{"name":"reply","schema":{"type": "object"}}},"#,
        r#""temperature":0.7,"max_tokens":1000,"stream":true,"stream_options":{"include_usage":true}}"#,
    );
    assert_eq!(body, expected);
}

#[tokio::test]
async fn max_tokens_field_depends_on_server() {
    let chat = Chat::new();
    chat.append(Message::user("Hi")).unwrap();
    let request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
    for (url, forced, expected) in [
        ("https://api.openai.com/v1", None, "max_completion_tokens"),
        ("http://localhost:11434/v1", None, "max_tokens"),
        ("https://api.openai.com/v1", Some(MaxTokensField::MaxTokens), "max_tokens"),
        ("http://localhost:11434/v1", Some(MaxTokensField::MaxCompletionTokens), "max_completion_tokens"),
    ] {
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config(url)).unwrap();
        let body = ChatCompletions { max_tokens_field: forced, ..ChatCompletions::default() }
            .body(&adapter, &request)
            .unwrap();
        let expected = format!(
            r#"{{"model":"m-1","messages":[{{"role":"user","content":"Hi"}}],"{expected}":1000,"stream":true,"stream_options":{{"include_usage":true}}}}"#
        );
        assert_eq!(String::from_utf8(body).unwrap(), expected);
    }
}

#[test]
fn the_key_is_not_in_the_debug_output() {
    assert!(!format!("{:?}", config("http://localhost/v1")).contains("sk-secret"));
}
