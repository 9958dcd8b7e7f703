use serde_json::{Value, json};

use super::*;
use crate::delta_recorder::{assert_splits_do_not_matter, heard};
use shelly_core::{
    chat::ThinkingPart,
    limits,
    model::{StopReason, Usage},
};

/// Reads a reply that arrives in these pieces.
async fn read(pieces: Vec<Vec<u8>>) -> (Result<Completion, Fault>, Vec<ReplyDelta>) {
    heard(&Anthropic::default(), &ToolNames::default(), pieces.into_iter().map(Ok).collect()).await
}

async fn read_text(text: &str) -> Result<Completion, Fault> {
    read(vec![text.as_bytes().to_vec()]).await.0
}

/// Formats these events as a stream.
fn events(events: &[Value]) -> String {
    let event = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default());
    events.iter().map(event).collect()
}

fn start(index: i64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: i64, kind: &str, piece: &str) -> Value {
    let field = match kind {
        "input_json_delta" => "partial_json",
        other => other.strip_suffix("_delta").unwrap(),
    };
    json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}})
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}});
    [delta, json!({"type": "message_stop"})]
}

/// Formats these events and the end of a reply as a stream.
fn ended(middle: &[Value], reason: &str) -> String {
    events(middle) + &events(&end(reason))
}

/// Reads the reply of these events, which ends normally.
async fn reply_of(middle: &[Value]) -> Completion {
    read_text(&ended(middle, "end_turn")).await.unwrap()
}

fn thought(text: &str, opaque: &str) -> Part {
    Part::Thinking(ThinkingPart {
        text: text.into(),
        opaque: Some(opaque.into()).filter(|opaque: &String| !opaque.is_empty()),
    })
}

pub const STREAM: &str = concat!(
    "event: message_start\r\n",
    r#"data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x-1","#,
    r#""content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":9,"cache_creation_input_tokens":30,"#,
    r#""cache_read_input_tokens":200,"cache_creation":{"ephemeral_5m_input_tokens":30},"output_tokens":1}}}"#,
    "\r\n\r\n",
    "event: content_block_start\r\n",
    r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    "\r\n\r\nevent: ping\r\ndata: {\"type\": \"ping\"}\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm. "}}"#,
    "\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Well."}}"#,
    "\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}"#,
    "\r\n\r\ndata: {\"type\":\"content_block_stop\",\"index\":0}\r\n\r\n",
    r#"data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
    "\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüße, "}}"#,
    "\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"世界 🌍"}}"#,
    "\r\n\r\ndata: {\"type\":\"content_block_stop\",\"index\":1}\r\n\r\n",
    r#"data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}"#,
    "\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    "\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}"#,
    "\r\n\r\n",
    r#"data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"ä\"}"}}"#,
    "\r\n\r\ndata: {\"type\":\"content_block_stop\",\"index\":2}\r\n\r\n",
    "event: message_delta\r\n",
    r#"data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":41}}"#,
    "\r\n\r\nevent: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n",
);

fn completion() -> Completion {
    Completion {
        parts: vec![
            thought("Hm. Well.", "anthropic.signature:EqQB"),
            Part::Text("Grüße, 世界 🌍".into()),
            call("toolu_1", "read", "{\"path\": \"ä\"}"),
        ],
        stop: StopReason::ToolCalls,
        usage: Usage { input_tokens: 9, output_tokens: 41, cache_read_tokens: 200, cache_write_tokens: 30 },
        model: "claude-x-1".into(),
        meta: vec![],
    }
}

#[tokio::test]
async fn a_reply_comes_in_pieces_and_as_a_whole() {
    let (whole, deltas) = read(vec![STREAM.into()]).await;
    assert_eq!(whole, Ok(completion()));
    let expected = [
        ReplyDelta::Usage(Usage { output_tokens: 1, ..completion().usage }),
        ReplyDelta::Thinking("Hm. ".into()),
        ReplyDelta::Thinking("Well.".into()),
        ReplyDelta::Text("Grüße, ".into()),
        ReplyDelta::Text("世界 🌍".into()),
        ReplyDelta::ToolCall("read".into()),
        ReplyDelta::Usage(completion().usage),
    ];
    assert_eq!(deltas, expected);
}

#[tokio::test]
async fn where_the_stream_is_split_does_not_matter() {
    assert_splits_do_not_matter(STREAM, read).await;
}

#[tokio::test]
async fn a_cut_never_passes_for_a_reply() {
    let finished = STREAM.find("\"tool_use\",\"stop_sequence\"").unwrap();
    for at in 0..STREAM.len() {
        match read(vec![STREAM.as_bytes()[..at].to_vec()]).await.0 {
            Ok(cut) => {
                assert!(at > finished, "cut at {at}");
                assert_eq!((cut.parts, cut.stop), (completion().parts, completion().stop), "cut at {at}");
            }
            Err(fault) => assert!(matches!(fault, Fault::Unavailable { .. }), "cut at {at}: {fault:?}"),
        }
    }
    let plain = plain().to_string();
    for at in 0..plain.len() {
        let fault = read_text(&plain[..at]).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "cut at {at}: {fault:?}");
    }
}

/// The reply of [`STREAM`] as one document; only ASCII, so that it can be cut anywhere.
fn plain() -> Value {
    let usage = json!({
        "input_tokens": 9, "cache_creation_input_tokens": 30, "cache_read_input_tokens": 200, "output_tokens": 41,
    });
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x-1", "usage": usage, "content": [
        {"type": "thinking", "thinking": "Hm. Well.", "signature": "EqQB"},
        {"type": "text", "text": "Hello", "citations": null},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "x"}},
    ], "stop_reason": "tool_use", "stop_sequence": null})
}

#[tokio::test]
async fn a_reply_in_one_piece_is_the_same_as_a_stream() {
    let (whole, deltas) = read(vec![b" \n".to_vec(), plain().to_string().into()]).await;
    let mut expected = completion();
    expected.parts[1] = Part::Text("Hello".into());
    expected.parts[2] = call("toolu_1", "read", "{\"path\":\"x\"}");
    assert_eq!(whole.as_ref(), Ok(&expected));
    let expected = [
        ReplyDelta::Thinking("Hm. Well.".into()),
        ReplyDelta::Text("Hello".into()),
        ReplyDelta::ToolCall("read".into()),
        ReplyDelta::Usage(completion().usage),
    ];
    assert_eq!(deltas, expected);
    let silent = read_text(r#"{"type":"message","content":[],"stop_reason":"end_turn"}"#).await.unwrap();
    assert_eq!((silent.parts, silent.stop, silent.model.as_str()), (vec![], StopReason::EndTurn, "asked"));
}

#[tokio::test]
async fn malformed_arguments_of_calls_are_kept_verbatim() {
    let tool = |index, id: &str| start(index, json!({"type": "tool_use", "id": id, "name": "f", "input": {}}));
    let pieces = [
        tool(0, "a"),
        tool(1, "b"),
        delta(1, "input_json_delta", "{\"n\":"),
        delta(0, "input_json_delta", "{\"n\":1}"),
        delta(1, "input_json_delta", "]"),
        tool(2, "c"),
    ];
    let reply = reply_of(&pieces).await;
    assert_eq!(reply.parts, [call("a", "f", "{\"n\":1}"), call("b", "f", "{\"n\":]"), call("c", "f", "{}")]);
    assert_eq!(reply.stop, StopReason::ToolCalls);
    // The arguments came whole with the start of the block; later deltas are ignored.
    let whole = start(0, json!({"type": "tool_use", "id": "a", "name": "f", "input": {"n": 1}}));
    let reply = reply_of(&[whole, delta(0, "input_json_delta", "{\"n\":1}")]).await;
    assert_eq!(reply.parts, [call("a", "f", "{\"n\":1}")]);
}

#[tokio::test]
async fn blocks_that_grow_in_turns_keep_their_order() {
    let pieces = [
        start(0, json!({"type": "thinking", "thinking": ""})),
        start(1, json!({"type": "text", "text": "A"})),
        start(2, json!({"type": "thinking", "thinking": "2"})),
        delta(1, "text_delta", "B"),
        delta(0, "thinking_delta", "0"),
        start(3, json!({"type": "text", "text": ""})),
        start(4, json!({"type": "redacted_thinking", "data": "xyz"})),
        delta(2, "signature_delta", "s2"),
        delta(3, "text_delta", "C"),
        delta(0, "signature_delta", "s"),
        delta(0, "signature_delta", "0"),
        delta(1, "text_delta", "!"),
    ];
    let expected = [
        thought("0", "anthropic.signature:s0"),
        Part::Text("AB!".into()),
        thought("2", "anthropic.signature:s2"),
        Part::Text("C".into()),
        thought("", "anthropic.redacted:xyz"),
    ];
    assert_eq!(reply_of(&pieces).await.parts, expected);
}

#[tokio::test]
async fn thoughts_may_be_hidden_or_unsigned() {
    let hidden = [start(0, json!({"type": "thinking", "thinking": ""})), delta(0, "signature_delta", "sig")];
    assert_eq!(reply_of(&hidden).await.parts, [thought("", "anthropic.signature:sig")]);
    let unsigned = [start(0, json!({"type": "thinking", "thinking": "x"})), delta(0, "signature_delta", "")];
    assert_eq!(reply_of(&unsigned).await.parts, [thought("x", "")]);
    let empty = [start(0, json!({"type": "thinking"})), start(1, json!({"type": "redacted_thinking", "data": ""}))];
    assert_eq!(reply_of(&empty).await.parts, []);
}

#[tokio::test]
async fn unknown_events_and_blocks_are_skipped() {
    let pieces = [
        json!({"type": "message_start", "message": {"model": null, "usage": null}}),
        start(0, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
        delta(0, "input_json_delta", "{\"query\":1}"),
        start(1, json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"type": "x"}]})),
        start(2, json!({"type": "hologram", "text": {"depth": 3}, "name": 7})),
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "hologram_delta", "text": [1]}}),
        json!({"type": "content_block_delta", "index": 9, "delta": {"type": "hologram_delta"}}),
        start(3, json!({"type": "text", "text": "seen", "citations": []})),
        json!({"type": "content_block_delta", "index": 3, "delta": {"type": "citations_delta", "citation": {}}}),
        json!({"type": "weather", "delta": 3, "message": "sun"}),
        json!({"no": "type"}),
    ];
    assert_eq!(reply_of(&pieces).await.parts, [Part::Text("seen".into())]);
}

#[tokio::test]
async fn servers_with_habits_of_their_own_are_understood() {
    // Covers: no start of a block, no index, a new block under an earlier index, no event names.
    let pieces = [
        delta(0, "thinking_delta", "Hm."),
        json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "lost: it belongs to no text"}}),
        start(0, json!({"type": "text", "text": "a"})),
        delta(0, "text_delta", "b"),
        start(0, json!({"type": "text", "text": "c"})),
        json!({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "d"}}),
        json!({"type": "content_block_stop", "index": 0}),
        delta(0, "text_delta", "e"),
    ];
    let expected = [thought("Hm.", ""), Part::Text("ab".into()), Part::Text("cde".into())];
    assert_eq!(reply_of(&pieces).await.parts, expected);
    let only_names = "event: content_block_delta\ndata: {\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n\
        data:\n\nevent: message_stop\ndata: {}\n\n";
    assert_eq!(read_text(only_names).await.unwrap().parts, [Part::Text("x".into())]);
}

#[tokio::test]
async fn the_end_may_be_announced_by_either_sign() {
    let text = delta(0, "text_delta", "x");
    let [reason, stop] = end("stop_sequence");
    for (pieces, tail, expected) in [
        (vec![text.clone(), reason.clone(), stop.clone()], "", Some(StopReason::StopSequence)),
        (vec![text.clone(), reason], "", Some(StopReason::StopSequence)),
        (vec![text.clone(), stop], "data: cut", Some(StopReason::EndTurn)),
        (vec![text.clone()], "data: [DONE]\n\n", Some(StopReason::EndTurn)),
        (vec![text.clone()], "", None),
        (vec![text, json!({"type": "message_delta", "delta": {"stop_reason": null}})], "", None),
    ] {
        match (read_text(&(events(&pieces) + tail)).await, expected) {
            (Ok(reply), Some(expected)) => assert_eq!(reply.stop, expected, "{pieces:?}"),
            (Err(Fault::Unavailable { message, .. }), None) => assert_eq!(message, "host ended its reply early"),
            (reply, expected) => panic!("{pieces:?}: {reply:?}, not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn the_reason_to_stop_is_translated() {
    for (word, expected) in [
        ("end_turn", StopReason::EndTurn),
        ("tool_use", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("stop_sequence", StopReason::StopSequence),
        ("refusal", StopReason::Refusal),
        ("pause_turn", StopReason::Other("pause_turn".into())),
        ("weary\u{1b}", StopReason::Other("weary\\u{1b}".into())),
    ] {
        let stream = ended(&[delta(0, "text_delta", "x")], word);
        assert_eq!(read_text(&stream).await.unwrap().stop, expected, "{word}");
    }
    // Cut off in the middle of its arguments: must not be run.
    let cut = start(0, json!({"type": "tool_use", "id": "a", "name": "f", "input": {}}));
    assert_eq!(read_text(&ended(&[cut], "max_tokens")).await.unwrap().stop, StopReason::MaxTokens);
}

#[tokio::test]
async fn counts_go_on_from_those_before() {
    let none = json!(null);
    for (first, last, expected) in [
        (json!({"input_tokens": 9, "output_tokens": 1}), json!({"output_tokens": 4}), [9, 4, 0, 0]),
        (json!({"input_tokens": 9}), none.clone(), [9, 0, 0, 0]),
        (none, json!({"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": null}), [9, 4, 0, 0]),
        (
            json!({"input_tokens": 9, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 5}),
            json!({"input_tokens": 0, "output_tokens": 4, "cache_read_input_tokens": 7, "server_tool_use": {}}),
            [9, 4, 7, 5],
        ),
    ] {
        let pieces = [
            json!({"type": "message_start", "message": {"usage": first}}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}),
        ];
        let seen = read_text(&events(&pieces)).await.unwrap().usage;
        let seen = [seen.input_tokens, seen.output_tokens, seen.cache_read_tokens, seen.cache_write_tokens];
        assert_eq!(seen, expected, "{pieces:?}");
    }
}

#[tokio::test]
async fn an_error_inside_a_reply_has_its_case() {
    let inside = |kind: &str| {
        let error = json!({"type": "error", "error": {"type": kind, "message": "no, sk-secret"}, "request_id": "r"});
        (events(&[delta(0, "text_delta", "x"), error.clone()]), error.to_string())
    };
    let case = |fault: &Fault| serde_json::to_value(fault).unwrap()["kind"].as_str().unwrap().to_owned();
    for (kind, expected) in [
        ("invalid_request_error", "invalid"),
        ("authentication_error", "denied"),
        ("permission_error", "denied"),
        ("billing_error", "exhausted"),
        ("not_found_error", "not_found"),
        ("request_too_large", "too_large"),
        ("rate_limit_error", "rate_limited"),
        ("timeout_error", "unavailable"),
        ("api_error", "unavailable"),
        ("overloaded_error", "unavailable"),
        ("some_new_error", "unavailable"),
    ] {
        let (stream, plain) = inside(kind);
        for text in [stream, plain] {
            let fault = read_text(&text).await.unwrap_err();
            assert_eq!(case(&fault), expected, "{kind}");
            assert_eq!(fault.to_string(), "host ended its reply with an error: no, ***", "{kind}");
        }
    }
    let unnamed = "data: {\"error\":{\"type\":\"rate_limit_error\",\"message\":\"slow\"}}\n\n";
    assert_eq!(case(&read_text(unnamed).await.unwrap_err()), "rate_limited");
}

#[tokio::test]
async fn what_is_no_reply_is_a_fault() {
    let nameless = ended(&[start(0, json!({"type": "tool_use"}))], "tool_use");
    let homeless = events(&[delta(0, "input_json_delta", "{}")]);
    let garbled = [
        "data: sk-secret\n\n",
        "data: {\"type\":\n\n",
        "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\",\"text\":\"sk-secret\",\"id\":3}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":-1,\"delta\":{\"type\":\"text_delta\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":3}}\n\n",
        "data: {\"type\":\"content_block_start\",\"content_block\":\"sk-secret\"}\n\n",
        "data: {\"type\":\"message_start\",\"message\":\"sk-secret\"}\n\n",
        "{}",
        "[]",
        "{\"content\":\"sk-secret\"}",
        "",
        " ",
        &nameless,
        &homeless,
    ];
    for garbled in garbled {
        let fault = read_text(garbled).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{garbled}: {fault:?}");
        assert!(!format!("{fault:?}").contains("sk-secret"), "{fault:?}");
    }
    assert!(matches!(read_text("<html></html>").await, Err(Fault::Other { .. })));
}

#[tokio::test]
async fn a_reply_without_end_is_stopped() {
    let long = "x".repeat(1 << 20);
    let endless = [
        ("text_delta", start(0, json!({"type": "text"}))),
        ("thinking_delta", start(0, json!({"type": "thinking"}))),
        ("signature_delta", start(0, json!({"type": "thinking"}))),
        ("input_json_delta", start(0, json!({"type": "tool_use", "name": "f"}))),
    ];
    for (kind, start) in endless {
        let piece = events(&[delta(0, kind, &long)]).into_bytes();
        let mut pieces = vec![piece; (limits::REPLY_BYTES >> 20) + 1];
        pieces.insert(0, events(&[start]).into_bytes());
        assert!(matches!(read(pieces).await.0, Err(Fault::TooLarge { .. })), "{kind}");
    }
    let large = ended(&[delta(0, "text_delta", &"x".repeat(7 << 20))], "end_turn");
    assert!(read_text(&large).await.is_ok());
    let event = vec![b"data: ".to_vec(), vec![b'x'; limits::STREAM_EVENT_BYTES]];
    assert!(matches!(read(event).await.0, Err(Fault::TooLarge { .. })));
    for (block, most) in [
        (json!({"type": "hologram"}), limits::ANTHROPIC_REPLY_BLOCKS),
        (json!({"type": "text"}), limits::ANTHROPIC_REPLY_BLOCKS),
        (json!({"type": "tool_use", "name": "f"}), limits::CALLS_IN_REPLY),
    ] {
        let blocks = vec![start(0, block); most];
        assert!(read_text(&ended(&blocks, "end_turn")).await.is_ok());
        let more = events(&blocks) + &ended(&blocks[..1], "end_turn");
        assert!(matches!(read_text(&more).await, Err(Fault::TooLarge { .. })));
    }
}

#[tokio::test]
async fn a_printed_call_is_a_call_where_that_is_wanted() {
    let names = ToolNames::of(&Anthropic::NAMES, [&*outgoing::tool("look", "{}")]);
    let text = r#"<tool_call>{"name":"look","arguments":{"a":1}}</tool_call>"#;
    let said: Vec<_> = text.chars().map(|c| delta(0, "text_delta", &c.to_string())).collect();
    let stream = events(&[&[start(0, json!({"type": "text", "text": ""}))][..], &said, &end("end_turn")].concat());
    for printed_calls in [true, false] {
        let wire = Anthropic { printed_calls, ..Anthropic::default() };
        let (completion, seen) = heard(&wire, &names, vec![Ok(stream.clone().into())]).await;
        let completion = completion.unwrap();
        assert_eq!(completion.stop, if printed_calls { StopReason::ToolCalls } else { StopReason::EndTurn });
        let called = matches!(&completion.parts[..], [Part::ToolCall(call)] if call.name == "look");
        assert_eq!(called, printed_calls, "{:?}", completion.parts);
        assert_eq!(seen.iter().any(|delta| matches!(delta, ReplyDelta::Text(_))), !printed_calls);
    }
}
