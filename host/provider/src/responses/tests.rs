use serde_json::{Value, json};

use super::*;
use crate::delta_recorder::{assert_splits_do_not_matter, heard};
use shelly_core::{
    chat::{Part, ThinkingPart, ToolCall},
    limits,
    model::{Completion, ReplyDelta, StopReason, Usage},
};

/// Reads a reply that arrives in these pieces.
async fn read(pieces: Vec<Vec<u8>>) -> (Result<Completion, Fault>, Vec<ReplyDelta>) {
    heard(&ResponsesApi::default(), &ToolNames::default(), pieces.into_iter().map(Ok).collect()).await
}

async fn read_text(text: &str) -> Result<Completion, Fault> {
    read(vec![text.as_bytes().to_vec()]).await.0
}

/// Reads a reply that consists of these events.
async fn read_events(events: &[Value]) -> Completion {
    let (completion, _) = read(vec![stream_of(events).into()]).await;
    completion.unwrap()
}

fn stream_of(events: &[Value]) -> String {
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

fn completed(output: Value) -> Value {
    json!({"type": "response.completed", "response": {"status": "completed", "output": output}})
}

pub(super) fn text(text: &str) -> Part {
    Part::Text(text.into())
}

pub(super) fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), meta: vec![] })
}

pub(super) fn thought(text: &str, opaque: Option<&str>) -> Part {
    Part::Thinking(ThinkingPart { text: text.into(), opaque: opaque.map(Into::into) })
}

fn message(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn function_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": arguments})
}

const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA","summary":[{"type":"summary_text","text":"Hm."},{"type":"summary_text","text":"Well."}]}"#;

/// The stream in which OpenAI sends a thought, a comment and a call.
pub(super) fn recorded() -> String {
    let reasoning: Value = serde_json::from_str(REASONING).unwrap();
    let mut remark = message("msg_1", "Grüße, 世界 🌍");
    remark["phase"] = json!("commentary");
    let done = function_call("call_1", "read", "{\"path\":\"ä\"}");
    let reply = |status: &str, output: Value, usage: Value| {
        json!({"id": "resp_1", "object": "response", "status": status,
        "model": "m-1", "output": output, "usage": usage, "error": null, "incomplete_details": null})
    };
    let usage = json!({"input_tokens": 30, "output_tokens": 7, "total_tokens": 37,
        "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 4}, "output_tokens_details": {"reasoning_tokens": 3}});
    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
    let summary = |text: &str| json!({"type": "summary_text", "text": text});
    let mut events = vec![
        json!({"type": "response.created", "response": reply("in_progress", json!([]), Value::Null)}),
        json!({"type": "response.in_progress", "response": reply("in_progress", json!([]), Value::Null)}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "rs_1", "type": "reasoning", "summary": []}}),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "part": summary("")}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "Hm"}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "delta": "."}),
        json!({"type": "response.reasoning_summary_text.done", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "text": "Hm."}),
        json!({"type": "response.reasoning_summary_part.done", "item_id": "rs_1", "output_index": 0, "summary_index": 0, "part": summary("Hm.")}),
        json!({"type": "response.reasoning_summary_part.added", "item_id": "rs_1", "output_index": 0, "summary_index": 1, "part": summary("")}),
        json!({"type": "response.reasoning_summary_text.delta", "item_id": "rs_1", "output_index": 0, "summary_index": 1, "delta": "Well."}),
        json!({"type": "response.reasoning_summary_text.done", "item_id": "rs_1", "output_index": 0, "summary_index": 1, "text": "Well."}),
        Value::Null,
        json!({"type": "response.output_item.added", "output_index": 1, "item": {"id": "msg_1", "type": "message", "content": []}}),
        json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 1, "content_index": 0, "part": part("")}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "Grüße, "}),
        json!({"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 1, "content_index": 0, "delta": "世界 🌍"}),
        json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 1, "content_index": 0, "text": "Grüße, 世界 🌍"}),
        json!({"type": "response.content_part.done", "item_id": "msg_1", "output_index": 1, "content_index": 0, "part": part("Grüße, 世界 🌍")}),
        json!({"type": "response.output_item.done", "output_index": 1, "item": remark}),
        json!({"type": "response.output_item.added", "output_index": 2, "item": function_call("call_1", "read", "")}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_call_1", "output_index": 2, "delta": "{\"path\":"}),
        json!({"type": "response.function_call_arguments.delta", "item_id": "fc_call_1", "output_index": 2, "delta": "\"ä\"}"}),
        json!({"type": "response.function_call_arguments.done", "item_id": "fc_call_1", "output_index": 2, "arguments": "{\"path\":\"ä\"}"}),
        json!({"type": "response.output_item.done", "output_index": 2, "item": done}),
        json!({"type": "response.completed", "response": reply("completed", json!([reasoning, remark, done]), usage)}),
    ];
    let end = events.split_off(12);
    events.pop();
    // The item is sent back byte for byte.
    let item =
        format!("data: {{\"type\":\"response.output_item.done\",\"output_index\":0,\"item\":{REASONING}}}\r\n\r\n");
    stream_of(&events) + ": keep-alive\n\n" + &item + &stream_of(&end)
}

fn recorded_completion() -> Completion {
    let parts = vec![
        thought("Hm.\n\nWell.", Some(&format!("openai.reasoning:host asked {REASONING}"))),
        text("Grüße, 世界 🌍"),
        thought("", Some("openai.phase:host asked commentary")),
        call("call_1", "read", "{\"path\":\"ä\"}"),
    ];
    let usage = Usage { input_tokens: 6, output_tokens: 7, cache_read_tokens: 20, cache_write_tokens: 4 };
    Completion { parts, stop: StopReason::ToolCalls, usage, model: "m-1".into(), meta: vec![] }
}

#[tokio::test]
async fn a_reply_comes_in_pieces_and_nothing_twice() {
    let (completion, deltas) = read(vec![recorded().into()]).await;
    assert_eq!(completion.unwrap(), recorded_completion());
    let expected = [
        ReplyDelta::Thinking("Hm".into()),
        ReplyDelta::Thinking(".".into()),
        ReplyDelta::Thinking("\n\nWell.".into()),
        ReplyDelta::Text("Grüße, ".into()),
        ReplyDelta::Text("世界 🌍".into()),
        ReplyDelta::ToolCall("read".into()),
        ReplyDelta::Usage(recorded_completion().usage),
    ];
    assert_eq!(deltas, expected);
}

#[tokio::test]
async fn where_the_stream_is_split_does_not_matter() {
    assert_splits_do_not_matter(&recorded(), read).await;
}

#[tokio::test]
async fn a_cut_never_passes_for_a_reply() {
    let stream = recorded();
    for at in 0..stream.len() {
        let fault = read(vec![stream.as_bytes()[..at].to_vec()]).await.0.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "cut at {at}: {fault:?}");
    }
}

#[tokio::test]
async fn json_reply_equals_streamed_reply() {
    let stream = recorded();
    let end = stream.rfind("data: ").unwrap();
    let event: Value = serde_json::from_str(stream[end + 6..].trim()).unwrap();
    let mut reply = event["response"].to_string();
    let sorted = serde_json::from_str::<Value>(REASONING).unwrap().to_string();
    assert!(reply.contains(&sorted));
    reply = reply.replace(&sorted, REASONING);
    assert_eq!(read_text(&reply).await.unwrap(), recorded_completion());
    // Only the final event, or only the ends of the items.
    let end = format!("data: {{\"type\":\"response.completed\",\"response\":{reply}}}\n\n");
    assert_eq!(read_text(&end).await.unwrap(), recorded_completion());
    let ends: String = stream.split_inclusive("\n\n").filter(|event| event.contains("item.done")).collect();
    assert_eq!(read_text(&(ends + &end)).await.unwrap(), recorded_completion());
}

#[tokio::test]
async fn servers_that_leave_things_out_are_understood() {
    let added = |item: Value| json!({"type": "response.output_item.added", "item": item});
    let done = |item: Value| json!({"type": "response.output_item.done", "item": item});
    let arguments = |id: &str, delta: &str| json!({"type": "response.function_call_arguments.delta", "item_id": id, "delta": delta});
    let (a, b) = (function_call("a", "f", "{\"n\":1}"), function_call("b", "f", "{\"n\":2}"));
    let both = [call("a", "f", "{\"n\":1}"), call("b", "f", "{\"n\":2}")];
    let without_id = |mut item: Value, arguments: &str| {
        item.as_object_mut().unwrap().remove("id");
        item["arguments"] = json!(arguments);
        item
    };
    // The habits of llama.cpp: no index, no item id, the ends of all items at the end.
    let events = [
        added(json!({"type": "reasoning", "id": "r", "summary": [], "content": [], "encrypted_content": ""})),
        json!({"type": "response.reasoning_text.delta", "item_id": "r", "delta": "Hm"}),
        added(json!({"type": "message", "id": "m", "content": []})),
        json!({"type": "response.content_part.added", "item_id": "m", "part": {"type": "output_text", "text": ""}}),
        json!({"type": "response.output_text.delta", "item_id": "m", "delta": "So"}),
        json!({"type": "response.output_text.delta", "item_id": "m", "delta": ":"}),
        added(without_id(a.clone(), "")),
        arguments("a", "{\"n\":"),
        arguments("a", "1}"),
        added(without_id(b.clone(), "")),
        arguments("b", "{\"n\":2}"),
        json!({"type": "response.output_text.done", "item_id": "m", "text": "So:"}),
        done(message("m", "So:")),
        done(without_id(a.clone(), "{\"n\":1}")),
        done(without_id(b.clone(), "{\"n\":2}")),
        completed(json!([message("m", "So:"), without_id(a.clone(), "{\"n\":1}"), without_id(b.clone(), "{\"n\":2}")])),
    ];
    let expected = [thought("Hm", None), text("So:"), both[0].clone(), both[1].clone()];
    assert_eq!(read_events(&events).await.parts, expected);
    // Calls by their ends alone: all with the same index, under one id, the same call twice.
    let end = |mut event: Value| {
        event["output_index"] = json!(0);
        event
    };
    let events = [end(done(a.clone())), end(done(b.clone())), completed(json!([]))];
    assert_eq!(read_events(&events).await.parts, both);
    let twin = function_call("a", "f", "{\"n\":2}");
    let events = [done(a.clone()), done(twin.clone()), done(twin.clone()), completed(json!([a, twin]))];
    assert_eq!(read_events(&events).await.parts, [both[0].clone(), call("a", "f", "{\"n\":2}")]);
    // A different id in each event; duplicate announcements.
    let of = |index: u32, mut event: Value| {
        event["output_index"] = json!(index);
        event
    };
    let events = [
        of(0, added(function_call("a", "f", ""))),
        of(0, added(function_call("a", "f", ""))),
        of(1, added(function_call("b", "f", ""))),
        of(1, arguments("x", "{\"n\":2}")),
        of(0, arguments("y", "{\"n\":1}")),
        completed(json!([])),
    ];
    assert_eq!(read_events(&events).await.parts, both);
    // Arguments that partly or wholly arrive with the end, or as an object.
    let events = [
        added(function_call("a", "f", "")),
        arguments("fc_a", "{\"n\""),
        json!({"type": "response.function_call_arguments.done", "item_id": "fc_a", "arguments": "{\"n\":1}"}),
        completed(json!([a, {"type": "function_call", "call_id": "b", "name": "f", "arguments": {"n": 2}}])),
    ];
    assert_eq!(read_events(&events).await.parts, both);
    // Text without an item; text that only the end of its part contains; a second part.
    let events = [
        json!({"type": "response.output_text.delta", "delta": "One"}),
        json!({"type": "response.output_text.done", "text": "One"}),
        json!({"type": "response.content_part.added", "part": {"type": "output_text"}}),
        json!({"type": "response.output_text.done", "text": ", two"}),
        done(message("m", "One, two")),
        json!({"type": "response.done", "response": {"status": "in_progress", "output": [message("other", "One, two")]}}),
    ];
    assert_eq!(read_events(&events).await.parts, [text("One, two")]);
    // No type in the data, unknown events and items, text in place of parts, an end without a reply, `[DONE]`.
    let named = "event: response.output_text.delta\ndata: {\"delta\":\"Hi\"}\n\nevent: keepalive\ndata: {}\n\n";
    let unknown = stream_of(&[
        json!({"type": "response.odd", "delta": {"x": 1}, "item": 3}),
        done(json!({"type": "web_search_call", "id": "w", "action": {}})),
    ]);
    for end in ["data: [DONE]\n\n", "data: {\"type\":\"response.completed\"}\n\n"] {
        let completion = read_text(&format!("{named}{unknown}{end}")).await.unwrap();
        assert_eq!((completion.parts, completion.stop), (vec![text("Hi")], StopReason::EndTurn), "{end}");
    }
    let plain = json!({"output": [{"type": "message", "content": "Hi"}]});
    assert_eq!(read_text(&plain.to_string()).await.unwrap().parts, [text("Hi")]);
    // Visible reasoning is sent back too; a thought without usable content is not.
    for (item, is_kept) in [
        (
            json!({"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}),
            true,
        ),
        (json!({"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm"}]}), false),
        (json!({"type": "reasoning", "id": "r", "summary": [], "encrypted_content": null}), false),
    ] {
        let parts = read_events(&[done(item.clone()), completed(json!([item]))]).await.parts;
        let kept = parts.iter().filter(|part| matches!(part, Part::Thinking(ThinkingPart { opaque: Some(_), .. })));
        assert_eq!(kept.count(), usize::from(is_kept), "{item}");
    }
}

#[tokio::test]
async fn the_reason_to_stop_is_translated() {
    for (status, reason, expected) in [
        ("completed", json!(null), StopReason::EndTurn),
        ("incomplete", json!({"reason": "max_output_tokens"}), StopReason::MaxTokens),
        ("incomplete", json!({"reason": "content_filter"}), StopReason::Refusal),
        ("incomplete", json!({"reason": "weary"}), StopReason::Other("weary".into())),
        ("incomplete", json!(null), StopReason::MaxTokens),
    ] {
        let reply = json!({"status": status, "incomplete_details": reason, "output": [message("m", "Hi")]});
        assert_eq!(read_text(&reply.to_string()).await.unwrap().stop, expected, "{reply}");
        let event = json!({"type": format!("response.{status}"), "response": reply});
        assert_eq!(read_events(&[event]).await.stop, expected, "{reply}");
    }
    // Cut off in the middle of its arguments: must not be run.
    let cut = function_call("a", "f", "{\"n\"");
    let event = json!({"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}, "output": [cut]}});
    assert_eq!(read_events(&[event]).await.stop, StopReason::MaxTokens);
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]});
    let delta = json!({"type": "response.refusal.delta", "delta": "No."});
    for events in [&[completed(json!([refusal]))][..], &[delta, completed(json!([refusal]))]] {
        let completion = read_events(events).await;
        assert_eq!((completion.stop, completion.parts), (StopReason::Refusal, vec![text("No.")]));
    }
}

#[tokio::test]
async fn counts_of_tokens_do_not_overlap() {
    for (usage, expected) in [
        (json!({"input_tokens": 9, "output_tokens": 4}), (9, 4, 0, 0)),
        (json!({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": null}), (9, 4, 0, 0)),
        (json!({"input_tokens": 9, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 8}}), (1, 4, 8, 0)),
        (
            json!({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}}),
            (4, 0, 2, 3),
        ),
        // More cached tokens than input tokens: no count may be negative. Thinking only in the total: it counts as output.
        (
            json!({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 8}}),
            (0, 0, 8, 1),
        ),
        (json!({"input_tokens": 9, "output_tokens": 4, "total_tokens": 33}), (9, 24, 0, 0)),
    ] {
        let reply = json!({"output": [message("m", "x")], "usage": usage});
        let seen = read_text(&reply.to_string()).await.unwrap().usage;
        let seen = (seen.input_tokens, seen.output_tokens, seen.cache_read_tokens, seen.cache_write_tokens);
        assert_eq!(seen, expected, "{usage}");
    }
}

#[tokio::test]
async fn what_is_no_reply_is_a_fault() {
    let slow_down =
        || Fault::RateLimited { message: "host ended its reply with an error: slow down, ***".into(), after: None };
    let error = json!({"code": "rate_limit_exceeded", "message": "slow down, sk-secret"});
    for event in [
        json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down, sk-secret", "param": null}),
        json!({"type": "error", "error": error}),
        json!({"type": "response.failed", "response": {"status": "failed", "error": error, "output": []}}),
    ] {
        assert_eq!(read_text(&stream_of(std::slice::from_ref(&event))).await.unwrap_err(), slow_down(), "{event}");
    }
    let plain = r#"{"error":{"message":"no","type":"invalid_request_error"}}"#;
    assert!(matches!(read_text(plain).await, Err(Fault::Invalid { .. })));
    for garbled in [
        "data: {\"type\":\n\n",
        "data: sk-secret\n\n",
        "data: {\"type\":\"response.failed\"}\n\n",
        "data: {\"type\":\"response.completed\",\"response\":\"sk-secret\"}\n\n",
        "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"function_call\"}}\n\ndata: [DONE]\n\n",
        "{\"status\":\"queued\",\"output\":[]}",
        "{\"choices\":[]}",
        "{}",
        "[]",
        "",
    ] {
        let fault = read_text(garbled).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{garbled}: {fault:?}");
        assert!(!format!("{fault:?}").contains("sk-secret"), "{fault:?}");
    }
}

#[tokio::test]
async fn a_reply_without_end_is_stopped() {
    let too_many = |event: Value, times: usize| vec![stream_of(&[event]).into_bytes(); times];
    let delta = |kind: &str| json!({"type": format!("response.{kind}.delta"), "delta": "x".repeat(1 << 20)});
    let item = |kind: &str| json!({"type": "response.output_item.done", "item": {"type": kind, "name": "f", "arguments": "{}"}});
    for pieces in [
        too_many(delta("output_text"), 17),
        too_many(delta("reasoning_text"), 17),
        too_many(delta("function_call_arguments"), 17),
        too_many(item("function_call"), limits::CALLS_IN_REPLY + 1),
        too_many(item("message"), limits::RESPONSES_ITEMS + 1),
        vec![b"data: ".to_vec(), vec![b'x'; limits::STREAM_EVENT_BYTES]],
    ] {
        let fault = read(pieces).await.0.unwrap_err();
        assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
    }
}

#[tokio::test]
async fn a_printed_call_is_a_call_where_that_is_wanted() {
    let names = ToolNames::of(&ResponsesApi::NAMES, [&*request_tests::tool("look")]);
    let said = r#"{"name":"look","arguments":{"a":1}}"#;
    let mut events: Vec<_> = said
        .chars()
        .map(|c| json!({"type": "response.output_text.delta", "output_index": 0, "delta": c.to_string()}))
        .collect();
    events.push(completed(json!([{"type": "message", "content": [{"type": "output_text", "text": said}]}])));
    for printed_calls in [true, false] {
        let wire = ResponsesApi { printed_calls, ..ResponsesApi::default() };
        let (completion, seen) = heard(&wire, &names, vec![Ok(stream_of(&events).into())]).await;
        let completion = completion.unwrap();
        let expected = if printed_calls { call("", "look", r#"{"a":1}"#) } else { text(said) };
        assert_eq!(completion.parts, [expected]);
        assert_eq!(completion.stop, if printed_calls { StopReason::ToolCalls } else { StopReason::EndTurn });
        assert_eq!(seen.iter().any(|delta| matches!(delta, ReplyDelta::Text(_))), !printed_calls);
    }
}
