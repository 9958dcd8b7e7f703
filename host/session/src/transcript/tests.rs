use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use shelly_core::chat::{Part, Role, ToolResultContent};

/// Builds journal lines from runs and records in JSON.
fn lines(records: &[(u64, Value)]) -> Vec<JournalLine> {
    let line = |(at, (run, record)): (usize, &(u64, Value))| {
        let what = serde_json::from_value(record.clone()).unwrap_or_else(|error| panic!("{error}: {record}"));
        JournalLine { n: at as u64 + 2, t: 1_000 * at as u64, run: *run, what: JournalLineContent::Record(what) }
    };
    records.iter().enumerate().map(line).collect()
}

fn began(instance: &str, more: Value) -> Value {
    let mut record = json!({
        "kind": "began", "agent": "ada", "instance": instance, "model": "m", "depth": 0, "prompt": "Be brief."
    });
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

#[test]
fn transcript_holds_all_concurrent_runs() {
    let below = |task: usize| json!({"errand": {"run": 1, "call": "c", "task": task}});
    let records = [(1, began("ada", json!({}))), (3, began("eve-2", below(1))), (2, began("eve-1", below(0)))];
    let mut transcript = Transcript::default();
    lines(&records).into_iter().for_each(|line| transcript.add(line));
    assert_eq!(transcript.runs().count(), 3);
}

fn turn(changes: Vec<ChatChange>) -> Value {
    json!({"kind": "turn", "iteration": 0, "changes": changes, "elapsed": 0})
}

fn replied(changes: Vec<ChatChange>) -> Value {
    let usage = json!({"input_tokens": 10, "output_tokens": 1, "cache_read_tokens": 0, "cache_write_tokens": 0});
    json!({
        "kind": "replied", "iteration": 0, "model": "m", "stop": "end_turn", "usage": usage, "cost": 0.5, "took": 1,
        "changes": changes
    })
}

fn ended() -> Value {
    let none = json!({"input_tokens": 0, "output_tokens": 0, "cache_read_tokens": 0, "cache_write_tokens": 0});
    let spent = json!({"usage": none, "usd": 0, "tool_calls": 0});
    json!({
        "kind": "ended", "outcome": {"failed": {"error": "no", "exhausted": false, "cancelled": false}},
        "iterations": 1, "usage": none, "account": {"own": spent, "of_children": spent}
    })
}

fn added(id: u64, message: Message) -> ChatChange {
    ChatChange::Added(written(id, message))
}

fn written(id: u64, message: Message) -> ChatEntryRecord {
    ChatEntryRecord { id, group: None, note: false, edited: false, message: Arc::new(message) }
}

fn says(text: &str) -> Message {
    Message::text(Role::Assistant, "ada", text)
}

fn calls(ids: &[&str]) -> Message {
    let call = |id: &&str| {
        Part::ToolCall(ToolCall { id: (*id).into(), name: "t".into(), arguments: "{}".into(), meta: vec![] })
    };
    Message { parts: ids.iter().map(call).collect(), ..says("") }
}

fn result(call: &str, text: &str) -> ToolResult {
    ToolResult { call_id: call.into(), content: vec![ToolResultContent::Text(text.into())], is_error: false }
}

fn call_ended(call: &str, text: &str) -> Value {
    json!({"kind": "call_ended", "result": result(call, text), "counted": true})
}

/// Formats the messages of a run as `line role text`.
fn told(transcript: &Transcript, run: u64) -> Vec<String> {
    let told = |said: &TranscriptMessage| {
        let message = &said.message;
        let parts: String = message
            .parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text.clone(),
                Part::ToolCall(call) => format!("+{}", call.id),
                Part::ToolResult(result) => format!("={} {}", result.call_id, result.text()),
                _ => "?".into(),
            })
            .collect();
        let marks = format!("{}{}", if said.note { " note" } else { "" }, if said.edited { " edited" } else { "" });
        format!("{} {:?} {parts}{marks}", said.n, message.role)
    };
    transcript.run(run).unwrap().said().map(told).collect()
}

#[test]
fn transcript_shows_an_unfinished_run() {
    let user = Message::user("go");
    let records = [
        (1, began("ada", json!({"input": [user]}))),
        (1, turn(vec![ChatChange::Prompted { id: 0 }, added(1, user.clone())])),
        (1, replied(vec![added(2, calls(&["a", "b"]))])),
        (1, json!({"kind": "call_began", "call": "a", "tool": "t"})),
        (1, call_ended("b", "bee")),
        (1, call_ended("a", "ay")),
        (
            1,
            turn(vec![
                added(3, Message::results(vec![result("a", "ay")])),
                ChatChange::Answered { id: 4, group: 2, call: "b".into() },
                // An answer to an unknown call.
                ChatChange::Answered { id: 5, group: 2, call: "c".into() },
            ]),
        ),
        (1, replied(vec![added(6, says("Done."))])),
        (1, ended()),
    ];
    let lines = lines(&records);
    // After this many lines: messages, waiting messages, open calls, results, and whether it has ended.
    for (count, said, waiting, open, results, has_ended) in [
        (1, 0, 1, &[][..], 0, false),
        (2, 1, 0, &[], 0, false),
        (3, 2, 0, &["a", "b"], 0, false),
        (4, 2, 0, &["a", "b"], 0, false),
        (5, 2, 0, &["a"], 1, false),
        (6, 2, 0, &[], 2, false),
        (7, 4, 0, &[], 2, false),
        (8, 5, 0, &[], 2, false),
        (9, 5, 0, &[], 2, true),
    ] {
        let transcript = Transcript::of(lines[..count].to_vec());
        let run = transcript.run(1).unwrap();
        assert_eq!((run.said().count(), run.waiting().count()), (said, waiting), "{count}");
        assert_eq!(run.open_calls().iter().map(|call| &*call.id).collect::<Vec<_>>(), open, "{count}");
        assert_eq!((run.results().len(), run.ended.is_some()), (results, has_ended), "{count}");
        assert_eq!(run.has_begun("a"), count > 3, "{count}");
        assert!(!run.has_begun("b"));
    }
    let transcript = Transcript::of(lines);
    let all = ["3 User go", "4 Assistant +a+b", "8 Tool =a ay", "8 Tool =b bee", "9 Assistant Done."];
    assert_eq!(told(&transcript, 1), all);
    let run = transcript.run(1).unwrap();
    assert_eq!((run.spent.completions, run.spent.usage.total(), run.spent.usd.to_string()), (2, 22, "$1.00".into()));
    assert_eq!(transcript.ledger().of("ada"), run.spent);
    assert_eq!((&*run.prompt, run.began), ("Be brief.", 0));
}

#[test]
fn transcript_shows_the_conversation_at_the_end_of_each_run() {
    let summary = ChatEntryRecord { note: true, edited: true, ..written(9, Message::user("All was well.")) };
    let records = [
        (1, began("ada", json!({}))),
        (1, turn(vec![added(1, Message::user("one"))])),
        (1, replied(vec![added(2, says("first"))])),
        (1, ended()),
        (2, began("ada", json!({"continues": 1}))),
        (2, turn(vec![added(3, Message::user("two"))])),
        // The range crosses the border between the two runs.
        (
            2,
            replied(vec![
                added(4, says("second")),
                ChatChange::Replaced { first: 2, last: 3, by: vec![summary] },
                // Unknown and reversed ranges, which the host never writes.
                ChatChange::Replaced { first: 77, last: 4, by: vec![] },
                ChatChange::Replaced { first: 4, last: 1, by: vec![] },
            ]),
        ),
        (3, began("ada", json!({"continues": 2}))),
        (3, turn(vec![added(10, Message::note("watch", "careful"))])),
        (4, began("ada", json!({"continues": 77}))),
    ];
    let transcript = Transcript::of(lines(&records));
    assert_eq!(told(&transcript, 1), ["3 User one", "4 Assistant first"]);
    assert_eq!(told(&transcript, 2), ["8 User All was well. note edited", "8 Assistant second"]);
    assert_eq!(told(&transcript, 3), ["10 User careful note"]);
    assert_eq!(told(&transcript, 4), [] as [&str; 0]);
    assert_eq!(transcript.run(3).unwrap().continues, Some(2));
}

#[test]
fn transcript_nests_child_runs_without_cycles() {
    let child = |run: u64, call: &str| began("c", json!({"errand": {"run": run, "call": call, "task": 0}}));
    let mut records = vec![
        (1, began("ada", json!({}))),
        (2, child(1, "a")),
        (3, child(1, "a")),
        (4, child(3, "x")),
        (5, child(5, "itself")),
        (6, child(7, "later")),
        (6, began("again", json!({}))),
        (4, began("older", json!({}))),
        // A run that never began.
        (99, turn(vec![added(1, Message::user("lost"))])),
    ];
    let transcript = Transcript::of(lines(&records));
    let children = |run: u64| transcript.run(run).unwrap().children.clone();
    assert_eq!(children(1), [("a".to_owned(), 2), ("a".to_owned(), 3)]);
    assert_eq!(children(3), [("x".to_owned(), 4)]);
    assert_eq!(transcript.top().map(|run| run.run).collect::<Vec<_>>(), [1, 5, 6]);
    assert_eq!(transcript.runs().map(|run| run.run).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);

    // Deeper than any delegation.
    let deepest = u64::from(limits::DELEGATION_DEPTH_CEILING);
    records = vec![(1, began("ada", json!({})))];
    records.extend((2..deepest + 4).map(|run| (run, child(run - 1, "a"))));
    let transcript = Transcript::of(lines(&records));
    assert_eq!(transcript.top().map(|run| run.run).collect::<Vec<_>>(), [1, deepest + 2]);
}

#[test]
fn transcript_lists_unread_messages() {
    let (one, two) = (Message::user("one"), Message::user("two"));
    let records = [
        (1, began("ada", json!({"input": [Message::user("go")]}))),
        (1, json!({"kind": "passed", "level": 0, "middleware": "m", "input": [Message::user("gone")]})),
        (1, json!({"kind": "passed", "level": 1, "middleware": "n"})),
        (1, turn(vec![added(1, Message::user("gone"))])),
        (1, json!({"kind": "sent", "message": one})),
        (1, json!({"kind": "sent", "message": two})),
        (1, replied(vec![added(2, calls(&["a"])), ChatChange::Waits(Arc::new(one.clone()))])),
        (1, turn(vec![added(3, Message::results(vec![result("a", "")])), added(4, one.clone())])),
        (1, json!({"kind": "went_on", "input": [two]})),
        (1, turn(vec![added(5, two.clone())])),
        (1, json!({"kind": "retried", "level": 0, "attempt": 1, "input": [Message::note("m", "again")]})),
    ];
    let lines = lines(&records);
    let waiting = |count: usize| {
        let transcript = Transcript::of(lines[..count].to_vec());
        transcript.run(1).unwrap().waiting().map(Message::text_content).collect::<Vec<_>>().join(" ")
    };
    let all: Vec<_> = (1..=lines.len()).map(waiting).collect();
    assert_eq!(all, ["go", "gone", "gone", "", "one", "one two", "two one", "two", "two", "", "again"]);
}
