//! Peculiarities of local servers and small models: calls and thoughts in the text.

use serde_json::json;

use super::*;
use shelly_core::model::StopReason;

const LOCAL: ChatCompletions = ChatCompletions { max_tokens_field: None, printed_calls: true, think_tags: true };
const PRINTED: &str = r#"{"name":"fs.read","arguments":{"path":"a"}}"#;

/// Reads the reply of a local server that sends `text` in pieces, and the same reply in one piece.
async fn said(
    options: &ChatCompletions,
    names: fn() -> ToolNames,
    text: &str,
    reason: &str,
) -> (Completion, Vec<ReplyDelta>) {
    let pieces: Vec<_> = text.chars().map(|c| json!({"content": c.to_string()})).collect();
    let (streamed, seen) = read_with(options, names(), vec![stream_of(&pieces, reason).into()]).await;
    let streamed = streamed.unwrap();
    let choice = json!({"message": {"content": text}, "finish_reason": reason});
    let whole = json!({"model": "m-1", "choices": [choice]}).to_string();
    let (whole, _) = read_with(options, names(), vec![whole.into()]).await;
    assert_eq!(whole.unwrap(), streamed, "{text}");
    let shown: String = seen
        .iter()
        .filter_map(|delta| if let ReplyDelta::Text(text) = delta { Some(text.as_str()) } else { None })
        .collect();
    let kept: String = streamed
        .parts
        .iter()
        .filter_map(|part| if let Part::Text(text) = part { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(shown, kept, "{text}");
    (streamed, seen)
}

fn offered() -> ToolNames {
    ToolNames::of(&COMMON, [&*tool("fs.read")])
}

fn thought(text: &str) -> Part {
    Part::Thinking(ThinkingPart { text: text.into(), opaque: None })
}

#[tokio::test]
async fn a_printed_call_is_a_call_where_a_tool_is_offered() {
    let read = || call("", "fs.read", r#"{"path":"a"}"#);
    let (completion, seen) = said(&LOCAL, offered, PRINTED, "stop").await;
    assert_eq!((completion.parts, completion.stop), (vec![read()], StopReason::ToolCalls));
    assert_eq!(seen, [ReplyDelta::ToolCall("fs.read".into())]);

    let with_all = format!(
        "<think>Hm.</think>\n\nI look.\n<tool_call>{}</tool_call>",
        PRINTED.replace("fs.read", "fs_read_4074bc02")
    );
    let (completion, _) = said(&LOCAL, offered, &with_all, "stop").await;
    assert_eq!(completion.parts, [thought("Hm."), Part::Text("I look.\n".into()), read()]);

    for (options, names, reason) in [
        (ChatCompletions { printed_calls: false, ..LOCAL }, offered as fn() -> ToolNames, "stop"),
        (LOCAL, ToolNames::default, "stop"),
        (LOCAL, || offered().not_offered(), "stop"),
        // Cut off, or refused: must not be run.
        (LOCAL, offered, "length"),
        (LOCAL, offered, "content_filter"),
    ] {
        let (completion, _) = said(&options, names, PRINTED, reason).await;
        assert_eq!(completion.parts, [Part::Text(PRINTED.into())], "{options:?} {reason}");
        assert_ne!(completion.stop, StopReason::ToolCalls);
    }
}

#[tokio::test]
async fn reported_call_turns_printed_call_into_text() {
    let native = json!({"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "fs.read", "arguments": "{}"}}]});
    let deltas = [
        json!({"content": "<think>Hm"}),
        json!({"content": "</think>"}),
        json!({"content": PRINTED}),
        native,
        json!({"content": PRINTED}),
    ];
    let (completion, _) = read_with(&LOCAL, offered(), vec![stream_of(&deltas, "stop").into()]).await;
    let text = || Part::Text(PRINTED.into());
    assert_eq!(completion.unwrap().parts, [thought("Hm"), text(), call("c1", "fs.read", "{}"), text()]);
}

#[tokio::test]
async fn think_tags_are_parsed_only_if_enabled() {
    let text = "<think>Hm.</think>Four.";
    let (completion, _) = said(&LOCAL, ToolNames::default, text, "stop").await;
    assert_eq!(completion.parts, [thought("Hm."), Part::Text("Four.".into())]);
    let (completion, _) = said(&ChatCompletions::default(), ToolNames::default, text, "stop").await;
    assert_eq!(completion.parts, [Part::Text(text.into())]);
    let (completion, _) = said(&LOCAL, ToolNames::default, "<think>Hm", "length").await;
    assert_eq!((completion.parts, completion.stop), (vec![thought("Hm")], StopReason::MaxTokens));
}

#[tokio::test]
async fn thoughts_and_usage_are_read_from_any_known_field() {
    let details = |rest: serde_json::Value| {
        let mut delta = json!({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}, {"type": "reasoning.encrypted", "data": "x"}]});
        delta.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        delta
    };
    for delta in [
        details(json!({})),
        details(json!({"reasoning": "Hm."})),
        details(json!({"reasoning": "", "reasoning_content": null})),
    ] {
        let completion = read_text(&stream_of(&[delta.clone(), json!({"content": "Four."})], "stop")).await.unwrap();
        assert_eq!(completion.parts, [thought("Hm."), Part::Text("Four.".into())], "{delta}");
    }
    let usage = json!({"prompt_tokens": 9, "completion_tokens": 4});
    let in_choice = json!({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop", "usage": usage}]});
    let completion = read_text(&format!("data: {in_choice}\n\ndata: [DONE]\n\n")).await.unwrap();
    assert_eq!((completion.usage.input_tokens, completion.usage.output_tokens), (9, 4));
}

#[tokio::test]
async fn unparsed_call_is_reported_in_reply_metadata() {
    let text = r#"{"name":"rm","arguments":{}}"#;
    let (completion, _) = said(&LOCAL, offered, text, "stop").await;
    assert_eq!((&completion.parts[..], completion.stop.clone()), (&[Part::Text(text.into())][..], StopReason::EndTurn));
    assert_eq!(completion.into_message("a").unread_call(), Some("unknown tool `rm`"));
    let (completion, _) = said(&LOCAL, offered, "Four.", "stop").await;
    assert_eq!(completion.into_message("a").unread_call(), None);
}

#[tokio::test]
async fn a_stream_cut_before_it_was_counted_is_estimated() {
    let text = "x".repeat(400);
    let said = json!({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]});
    let counted = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    for (stream, tokens) in [(format!("data: {said}\n\n"), 100), (format!("data: {said}\n\ndata: {counted}\n\n"), 3)] {
        let broken = Err(Fault::Unavailable { message: "gone".into(), after: None });
        let pieces = vec![Ok(stream.into_bytes()), broken];
        let (completion, seen) = heard(&ChatCompletions::default(), &ToolNames::default(), pieces).await;
        let usage = completion.unwrap().usage;
        assert_eq!(usage.output_tokens, tokens);
        assert!(seen.contains(&ReplyDelta::Usage(usage)));
    }
}
