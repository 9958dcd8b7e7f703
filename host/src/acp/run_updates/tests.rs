use std::time::{Duration, SystemTime};

use super::*;
use crate::{
    chat::{Part, StopReason, ToolCall, ToolResultContent, Usage},
    event::FileChangeKind,
};

fn updates(is_team: bool) -> RunUpdates {
    let (root, secrets) = (PathBuf::from("/p"), Secrets::new([("KEY", "sk-12345")]));
    let options = UpdateOptions { root, secrets, has_notices: true, is_team, window: Some(1_000) };
    RunUpdates::new(options, CallsInProgress::default())
}

fn at(run: &str, parent: Option<&str>, event: Event) -> StreamEvent {
    let (run, parent) = (Some(run.into()), parent.map(Into::into));
    StreamEvent { sequence: 1, time: SystemTime::UNIX_EPOCH, run, parent, event }
}

fn started(agent: &str) -> Event {
    Event::RunStarted {
        agent: agent.into(),
        configured: agent.into(),
        parent_agent: None,
        parent_call: None,
        depth: 0,
        prefix: "".into(),
        model: "m".into(),
        task: "Look at\nsk-12345.".into(),
    }
}

fn ended(agent: &str, error: Option<&str>) -> Event {
    Event::RunFinished {
        agent: agent.into(),
        error: error.map(str::to_owned),
        iterations: 1,
        usage: Usage::default(),
        of_children: Usage::default(),
        duration: Duration::ZERO,
    }
}

fn delta(agent: &str, delta: ReplyDelta) -> Event {
    Event::ModelDelta { agent: agent.into(), delta }
}

fn said(agent: &str, text: &str) -> Event {
    delta(agent, ReplyDelta::Text(text.into()))
}

fn reply(agent: &str, message: Message) -> Event {
    Event::MessageAdded { agent: agent.into(), role: message.role, message: Some(Arc::new(message)) }
}

fn text(agent: &str, text: &str) -> Message {
    Message::text(Role::Assistant, agent, text)
}

fn call_started(agent: &str, call: &str, tool: &str, arguments: &str) -> Event {
    let (origin, arguments) = ("p".into(), arguments.into());
    Event::ToolStarted { agent: agent.into(), call: call.into(), tool: tool.into(), origin, arguments }
}

fn results(results: Vec<ToolResult>) -> Event {
    reply("a", Message::results(results))
}

/// The words of updates: the kind of each, and its text.
fn words(updates: &[Value]) -> Vec<(String, String)> {
    let text = |update: &Value| match &update["content"]["text"] {
        Value::String(text) => text.clone(),
        _ => update["content"][0]["content"]["text"].as_str().unwrap_or_default().to_owned(),
    };
    updates.iter().map(|update| (update["sessionUpdate"].as_str().unwrap().to_owned(), text(update))).collect()
}

#[test]
fn replies_are_shown_as_they_come_without_credentials() {
    let mut updates = updates(false);
    let mut shown = Vec::new();
    for event in [
        started("a"),
        delta("a", ReplyDelta::Thinking("Hm".into())),
        said("a", "It is sk-1"),
        said("a", "2345."),
        reply("a", text("a", "It is sk-12345.")),
        said("a", "Wro"),
        Event::ModelFailed { agent: "a".into(), model: "m".into(), reason: "r".into(), again: true },
        said("a", "Right"),
        reply("a", text("a", "Right")),
        reply("a", text("a", "Whole sk-12345")),
        reply("a", text("a", "")),
        Event::Warning { message: "careful".into() },
    ] {
        shown.extend(updates.note(&at("r", None, event)));
    }
    let chunk = |kind: &str, text: &str| (format!("agent_{kind}_chunk"), text.to_owned());
    assert_eq!(
        words(&shown),
        [
            chunk("thought", "Hm"),
            chunk("message", "It is "),
            chunk("message", "[secret KEY]."),
            chunk("message", "Wro"),
            chunk("message", "\n\n[this reply was cut off; it begins again]\n\n"),
            chunk("message", "Right"),
            chunk("message", "Whole [secret KEY]"),
            ("notice".to_owned(), String::new()),
        ]
    );
    let ids: Vec<_> = shown.iter().filter_map(|update| update["messageId"].as_str()).collect();
    assert_eq!(ids, ["agent-0", "agent-0", "agent-1", "agent-1", "agent-2", "agent-3"]);
    assert_eq!(updates.last_reply(), None, "the newest one has no text");
}

#[test]
fn calls_have_arguments_diffs_and_results() {
    let mut updates = updates(false);
    let mut note = |event| updates.note(&at("r", None, event));
    note(started("a"));
    let long = format!("{{\"path\":\"a.rs\",\"text\":\"{}\"}}", "x".repeat(300));
    let call = ToolCall { id: "1".into(), name: "fs_write".into(), arguments: long.clone(), meta: vec![] };
    let message = Message { parts: vec![Part::ToolCall(call)], ..text("a", "") };
    assert!(note(reply("a", message)).is_empty());
    let begun = note(call_started("a", "1", "fs_write", "{\"path\":\"a.rs\",…"));
    assert_eq!(begun[0]["toolCallId"], "a/1");
    assert_eq!((&begun[0]["title"], &begun[0]["kind"]), (&json!("fs_write a.rs"), &json!("edit")));
    assert_eq!(begun[0]["rawInput"], serde_json::from_str::<Value>(&long).unwrap(), "the whole arguments");
    assert_eq!(begun[0]["locations"], json!([{"path": "/p/a.rs"}]));
    let difference =
        FileDifference { path: "/p/a.rs".into(), text: "--- a.rs\n+++ a.rs\n@@ -3 +3 @@\n-sk-12345\n+b\n".into() };
    let changed = note(Event::FileChange {
        agent: "a".into(),
        call: "1".into(),
        tool: "fs_write".into(),
        act: FileChangeKind::Edit,
        path: "a.rs".into(),
        to: None,
        added: Some(1),
        removed: Some(1),
        by: None,
        difference: Some(Arc::new(difference)),
    });
    let diff = json!({"type": "diff", "path": "/p/a.rs", "oldText": "[secret KEY]\n", "newText": "b\n"});
    assert_eq!(changed[0]["content"], json!([diff]));
    assert_eq!(changed[0]["locations"], json!([{"path": "/p/a.rs"}, {"path": "/p/a.rs", "line": 3}]));
    let result = ToolResult {
        call_id: "1".into(),
        content: vec![ToolResultContent::Json("{\"ok\":true}".into())],
        is_error: false,
    };
    let done = note(results(vec![result]));
    assert_eq!((&done[0]["status"], &done[0]["rawOutput"]), (&json!("completed"), &json!({"ok": true})));
    assert_eq!(done[0]["content"][0], diff, "the diff stays");
    assert!(note(results(vec![ToolResult::error("1", "again")])).is_empty(), "it has ended");

    let hidden = note(call_started("a", "2", "secret_tool", ""));
    assert!(hidden[0].get("rawInput").is_none(), "{hidden:?}");
    let failed = note(Event::ToolFinished {
        agent: "a".into(),
        call: "2".into(),
        tool: "secret_tool".into(),
        is_error: true,
        reason: Some("no sk-12345".into()),
        bytes: 0,
        duration: Duration::ZERO,
    });
    assert_eq!(failed[0]["status"], "failed");
    assert_eq!(words(&failed)[0].1, "no [secret KEY]");
}

#[test]
fn long_results_and_many_diffs_are_cut() {
    let mut updates = updates(false);
    let mut note = |event| updates.note(&at("r", None, event));
    note(started("a"));
    let long = "x".repeat(limits::ACP_CALL_BYTES + 1);
    let arguments = json!({ "text": long }).to_string();
    let begun = note(call_started("a", "1", "t", &arguments));
    let input = begun[0]["rawInput"].as_str().unwrap();
    assert!(input.len() < limits::ACP_CALL_BYTES + 50 && input.ends_with("bytes are not shown]"), "{}", input.len());
    let hunk = |n: usize| format!("@@ -{n} +{n} @@\n-a\n+b\n");
    let hunks: String = (1..=limits::ACP_CALL_DIFFS + 1).map(|n| hunk(n * 10)).collect();
    let difference = FileDifference { path: "/p/a".into(), text: format!("--- a\n+++ a\n{hunks}") };
    let changed = note(Event::FileChange {
        agent: "a".into(),
        call: "1".into(),
        tool: "t".into(),
        act: FileChangeKind::Edit,
        path: "a".into(),
        to: None,
        added: None,
        removed: None,
        by: None,
        difference: Some(Arc::new(difference)),
    });
    assert_eq!(changed[0]["content"].as_array().unwrap().len(), limits::ACP_CALL_DIFFS);
    let content = vec![ToolResultContent::Text(long), ToolResultContent::Text("more".into())];
    let done = note(results(vec![ToolResult { call_id: "1".into(), content, is_error: false }]));
    let content = done[0]["content"].as_array().unwrap();
    let text = |at: usize| content[at]["content"]["text"].as_str().unwrap();
    assert!(text(limits::ACP_CALL_DIFFS).ends_with("\n[1 more bytes are not shown]"));
    assert_eq!(text(limits::ACP_CALL_DIFFS + 1), "[the rest of the result is not shown]");
}

#[tokio::test(start_paused = true)]
async fn progress_is_reported_now_and_then() {
    let mut updates = updates(false);
    updates.note(&at("r", None, started("a")));
    updates.note(&at("r", None, call_started("a", "1", "t", "{}")));
    let progress = |done: f64| {
        let message = Some("half".to_owned());
        at("r", None, Event::ToolProgress { agent: "a".into(), call: "1".into(), done, total: Some(2.0), message })
    };
    assert_eq!(words(&updates.note(&progress(1.0))), [("tool_call_update".to_owned(), "half (1/2)".to_owned())]);
    assert!(updates.note(&progress(1.5)).is_empty());
    tokio::time::advance(limits::ACP_PROGRESS_PAUSE).await;
    assert_eq!(updates.note(&progress(2.0)).len(), 1);
}

#[test]
fn helper_is_one_call_with_its_newest_steps() {
    let said_whole = text("b", "Done.");
    let mut updates = updates(false);
    updates.note(&at("r", None, started("a")));
    let begun = updates.note(&at("r.1", Some("r"), started("b")));
    assert_eq!((&begun[0]["toolCallId"], &begun[0]["status"]), (&json!("run/r.1"), &json!("in_progress")));
    assert_eq!(begun[0]["title"], "agent b: Look at [secret KEY].");
    assert!(updates.note(&at("r.1", Some("r"), said("b", "quiet"))).is_empty());
    let mut newest = Vec::new();
    for n in 0..limits::ACP_SUB_RUN_STEPS + 2 {
        let event = call_started("b", &n.to_string(), "fs_read", &json!({"path": n.to_string()}).to_string());
        newest = updates.note(&at("r.1", Some("r"), event));
    }
    let text = words(&newest)[0].1.clone();
    assert!(text.starts_with("(2 earlier steps)\n- fs_read 2\n"), "{text}");
    assert_eq!(text.lines().count(), limits::ACP_SUB_RUN_STEPS + 1);
    updates.note(&at("r.1", Some("r"), reply("b", said_whole)));
    let done = updates.note(&at("r.1", Some("r"), ended("b", Some("no more"))));
    assert_eq!(done[0]["status"], "failed");
    let text = words(&done)[0].1.clone();
    assert!(text.ends_with("- Done.\nfailed: no more"), "{text}");
    assert!(updates.calls.is_empty(), "its calls are no calls of the conversation");
}

#[test]
fn members_of_a_team_speak_by_name() {
    let mut updates = updates(true);
    let mut shown = updates.note(&at("r", None, started("team")));
    for (run, agent) in [("r.1", "b"), ("r.2", "c")] {
        shown.extend(updates.note(&at(run, Some("r"), started(agent))));
        shown.extend(updates.note(&at(run, Some("r"), said(agent, "Hi"))));
        shown.extend(updates.note(&at(run, Some("r"), reply(agent, text(agent, "Hi")))));
    }
    shown.extend(updates.note(&at("r.1", Some("r"), said("b", "Bye"))));
    let texts: Vec<_> = words(&shown).into_iter().map(|(_, text)| text).collect();
    assert_eq!(texts, ["**b:** Hi", "**c:** Hi", "\n\n**b:** Bye"]);
    assert_eq!(updates.last_reply(), Some("Hi"));
    let nested = updates.note(&at("r.3", Some("r.1"), started("d")));
    assert_eq!(nested[0]["sessionUpdate"], "tool_call", "an agent that works for a member");
}

#[test]
fn usage_is_that_of_the_conversation_alone() {
    let mut updates = updates(false);
    updates.note(&at("r", None, started("a")));
    updates.note(&at("r.1", Some("r"), started("b")));
    let finished = |agent: &str| Event::ModelFinished {
        agent: agent.into(),
        iteration: 1,
        model: "m".into(),
        stop: StopReason::EndTurn,
        calls: 0,
        usage: Usage { input_tokens: 100, output_tokens: 20, ..Usage::default() },
        duration: Duration::ZERO,
    };
    let shown = updates.note(&at("r", None, finished("a")));
    assert_eq!(shown, [json!({"sessionUpdate": "usage_update", "used": 120, "size": 1_000})]);
    assert!(updates.note(&at("r.1", Some("r"), finished("b"))).is_empty());
}
