//! Tests of the event at the end of a tool call.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    chat::{Media, ToolCall},
    error::Fault,
    event::{Event, EventSink, RunCx},
    limits,
    tool::{ToolBox, ToolCx, function},
};

/// Returns the facts of the event at the end of a call: whether it failed, the reason, and its bytes.
async fn told(tools: &ToolBox, name: &str) -> (bool, Option<String>, usize) {
    let (events, mut stream) = EventSink::channel();
    let run = RunCx::new("a").with_events(events);
    let cx = ToolCx::new(run);
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: "{}".into(), meta: vec![] };
    let result = tools.dispatch(&cx, &call).await.result;
    drop(cx);
    while let Some(event) = stream.next_event().await {
        if let Event::ToolFinished { is_error, reason, bytes, .. } = event {
            let shown: usize = result.content.iter().map(|content| content.bytes(Media::bytes)).sum();
            assert_eq!(bytes, shown, "as the model is shown it");
            return (is_error, reason, bytes);
        }
    }
    panic!("nothing was told");
}

#[derive(Deserialize, JsonSchema)]
struct NoArgs {}

#[tokio::test]
async fn tool_finished_event_has_shown_size_and_reason() {
    let long = "e".repeat(limits::FAILURE_SHOWN_CHARS + 9);
    let fails = function("fails", "", move |_, NoArgs {}| {
        let long = long.clone();
        async move { Err::<String, _>(Fault::other(long)) }
    });
    // An error may quote arguments, which middleware must be able to withhold.
    let quiet = function("quiet", "", |_, NoArgs {}| async { Err::<String, _>(Fault::other("secret")) });
    let tools = ToolBox::new()
        .with(function("short", "", |_, NoArgs {}| async { Ok("ok") }))
        .with(function("flood", "", |_, NoArgs {}| async { Ok("é".repeat(limits::TOOL_RESULT_CHARS + 7)) }))
        .with(fails)
        .with(quiet.with_hidden_arguments(true));
    assert_eq!(told(&tools, "short").await, (false, None, 2));
    let (is_error, reason, bytes) = told(&tools, "flood").await;
    assert!(!is_error && reason.is_none() && bytes < 2 * limits::TOOL_RESULT_CHARS + 100, "{bytes}");
    let reason = told(&tools, "fails").await.1.unwrap();
    assert!(reason.starts_with("eee") && reason.chars().count() <= limits::FAILURE_SHOWN_CHARS + 1, "{reason}");
    assert_eq!(
        told(&tools, "none").await.1.unwrap(),
        "tool not found: none; available tools: short, flood, fails, quiet"
    );
    assert_eq!(told(&tools, "quiet").await.1, None);
}
