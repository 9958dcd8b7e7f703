//! Commands that list, show, search, export, copy and remove sessions. Their output is in `snapshots`.

use std::fs;

use insta::assert_snapshot;
use serde_json::{Value, json};
use shelly_host::{
    agent::journal::{JournalPosition, Recorder},
    app::sessions,
    digest::Sha256Digest,
    session::{NewSession, Session, SessionPart, SessionPartKind},
};

use crate::{
    bad_input::Told,
    support::{Place, Ran},
};

/// Makes a session of records, each with its run. It is in use as long as what is returned is there.
fn made(place: &Place, id: &str, title: &str, records: &[(u64, Value)]) -> Session {
    let parts = vec![SessionPart {
        kind: SessionPartKind::Plugin,
        name: "read-files".into(),
        digest: Sha256Digest::of(b"component"),
    }];
    let (agent, model) = ("lead".into(), "offline".into());
    let new = NewSession { id: Some(id.into()), agent, model, title: title.into(), parts, ..NewSession::default() };
    let session = sessions(&place.path(), place.own_key()).create(new).unwrap();
    let mut mark = JournalPosition::default();
    for (run, record) in records {
        let record = serde_json::from_value(record.clone()).unwrap_or_else(|error| panic!("{error}: {record}"));
        mark = session.write(*run, &record);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(session.kept(mark)).unwrap();
    session
}

fn began(agent: &str, instance: &str, more: Value) -> Value {
    let mut record = json!({
        "kind": "began", "agent": agent, "instance": instance, "model": "offline", "depth": 0, "prompt": "Be brief."
    });
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    record
}

fn message(sender: &str, role: &str, parts: Value) -> Value {
    json!({"sender": sender, "role": role, "parts": parts})
}

fn text(sender: &str, role: &str, text: &str) -> Value {
    message(sender, role, json!([{"type": "text", "value": text}]))
}

fn call(id: &str, tool: &str, arguments: &str) -> Value {
    json!({"type": "tool_call", "value": {"id": id, "name": tool, "arguments": arguments}})
}

fn added(id: u64, message: &Value) -> Value {
    json!({"added": {"id": id, "message": message}})
}

fn turn(changes: &[Value]) -> Value {
    json!({"kind": "turn", "iteration": 0, "changes": changes, "elapsed": 0})
}

fn usage() -> Value {
    json!({"input_tokens": 100, "output_tokens": 20, "cache_read_tokens": 0, "cache_write_tokens": 3})
}

fn replied(changes: &[Value]) -> Value {
    json!({
        "kind": "replied", "iteration": 0, "model": "offline", "stop": "end_turn", "usage": usage(), "cost": 0.25,
        "took": 5, "changes": changes
    })
}

fn call_ended(call: &str, content: Value, is_error: bool) -> Value {
    let result = json!({"call_id": call, "content": content, "is_error": is_error});
    json!({"kind": "call_ended", "result": result, "counted": true})
}

fn ended(outcome: Value) -> Value {
    let spent = json!({"usage": usage(), "usd": 0.25, "tool_calls": 1});
    let account = json!({"own": spent, "of_children": spent});
    json!({"kind": "ended", "outcome": outcome, "iterations": 1, "usage": usage(), "account": account})
}

fn answered(sender: &str, said: &str) -> Value {
    ended(json!({"answered": {"message": text(sender, "assistant", said)}}))
}

fn failed() -> Value {
    ended(json!({"failed": {"error": "no answer after 3 turns", "exhausted": true, "cancelled": false}}))
}

/// A session in which a lead had a reader work for it, and was then interrupted in a second run.
fn tale(place: &Place) -> Session {
    let task = text("user", "user", "How many words?\n# run 9: forged\n```");
    let thought = json!({"type": "thinking", "value": {"text": "Somebody else reads.", "opaque": "secret seal"}});
    let delegates = message(
        "lead",
        "assistant",
        json!([thought, {"type": "text", "value": "I ask a reader."}, call("c1", "delegate", r#"{"tasks": ["read"]}"#)]),
    );
    let reads = message("reader-1", "assistant", json!([call("r1", "read_file", r#"{"path": "a.txt"}"#)]));
    let long = format!("````\nfour \u{1b}[2J words here\n{}", "x".repeat(1_500));
    let picture = json!({"media_type": "image/png", "name": "cat.png", "source": {"bytes": "AP8="}});
    let content = json!([{"type": "text", "value": long}, {"type": "media", "value": picture}]);
    let looks = format!(r#"{{"at": "{}"}}"#, "y".repeat(250));
    let sends =
        message("lead", "assistant", json!([call("c2", "send", r#"{"to": "ada"}"#), call("c3", "look", &looks)]));
    let note = json!({
        "sender": "loop-detect", "role": "user", "parts": [{"type": "text", "value": "Come to an end."}],
        "meta": [["shelly.note", "true"]]
    });
    let errand = json!({"run": 1, "call": "c1", "task": 0});
    made(
        place,
        "20261122-tale",
        "How many words?",
        &[
            (1, began("lead", "lead", json!({"input": [task]}))),
            (1, turn(&[json!({"prompted": {"id": 0}}), added(1, &task)])),
            (1, replied(&[added(2, &delegates)])),
            (1, json!({"kind": "call_began", "call": "c1", "tool": "delegate"})),
            (2, began("reader", "reader-1", json!({"errand": errand}))),
            (2, turn(&[added(1, &text("lead", "user", "read"))])),
            (2, replied(&[added(2, &reads)])),
            (2, call_ended("r1", content, false)),
            (2, turn(&[json!({"answered": {"id": 3, "group": 2, "call": "r1"}})])),
            (2, replied(&[added(4, &text("reader-1", "assistant", "Four words."))])),
            (2, answered("reader-1", "Four words.")),
            (1, call_ended("c1", json!([{"type": "json", "value": r#"{"result": "Four words."}"#}]), false)),
            (1, turn(&[json!({"answered": {"id": 3, "group": 2, "call": "c1"}}), added(4, &note)])),
            (1, replied(&[added(5, &text("lead", "assistant", "Four."))])),
            (1, answered("lead", "Four.")),
            (0, json!({"kind": "decided", "agent": "lead", "question": "May it?", "outcome": "yes", "by": "policy"})),
            (3, began("lead", "lead", json!({"continues": 1, "input": [text("user", "user", "Tell Ada.")]}))),
            (3, turn(&[added(6, &text("user", "user", "Tell Ada."))])),
            (3, replied(&[added(7, &sends)])),
            (3, json!({"kind": "call_began", "call": "c2", "tool": "send"})),
            (3, call_ended("c3", json!([{"type": "text", "value": "no way"}]), true)),
            (3, json!({"kind": "sent", "message": text("user", "user", "Hurry.")})),
        ],
    )
}

/// A session of one run that ended so.
fn short(place: &Place, id: &str, title: &str, end: Value) {
    drop(made(
        place,
        id,
        title,
        &[(1, began("lead", "lead", json!({}))), (1, turn(&[added(1, &text("user", "user", title))])), (1, end)],
    ));
}

/// The program with arguments, which succeeds.
fn ran(place: &Place, arguments: &[&str]) -> Ran {
    let ran = place.run(&[&["session"], arguments].concat());
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

fn as_json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&ran(place, arguments).stdout).unwrap()
}

/// The name of the newest session: one that was made up does not stand in what a run of the program came to.
fn newest(place: &Place) -> String {
    sessions(&place.path(), place.own_key()).list(1).unwrap().remove(0).id
}

/// The text without what differs from run to run: dates, times and the release, all as wide as they are.
fn still(text: &str) -> String {
    const SHAPES: [&str; 4] = ["0000-00-00T00:00:00.000Z", "0000-00-00 00:00:00", "0000-00-00 00:00", "00:00:00.000"];
    let text = text.replace(env!("CARGO_PKG_VERSION"), "[VERSION]");
    let is_like = |text: &str, shape: &str| {
        let mut chars = text.chars();
        shape.chars().all(|like| chars.next().is_some_and(|c| c == like || (like == '0' && c.is_ascii_digit())))
    };
    let (mut still, mut at) = (String::new(), 0);
    while let Some(c) = text[at..].chars().next() {
        match SHAPES.iter().find(|shape| is_like(&text[at..], shape)) {
            Some(shape) => {
                still.push_str(shape);
                at += shape.len();
            }
            None => {
                still.push(c);
                at += c.len_utf8();
            }
        }
    }
    still
}

/// The text without what is long in it: the whole of it was there.
fn shortened(text: &str) -> String {
    text.replace(&"x".repeat(1_500), "[1,500 x]").replace(&"y".repeat(250), "[250 y]")
}

/// The first words of the lines.
fn first(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_whitespace().next()).collect()
}

#[test]
fn session_list_is_sorted_newest_first() {
    let place = Place::new();
    let ran_empty = ran(&place, &["list"]);
    assert_eq!(ran_empty.stdout, "");
    assert!(
        ran_empty
            .stderr
            .starts_with("there is no session in ./.shelly/local/sessions; start a session with `shelly-host run`"),
        "{}",
        ran_empty.shown()
    );
    assert_eq!(as_json(&place, &["list", "--output", "json"]), json!({"sessions": [], "more": false}));

    short(&place, "a-first", "One\n\u{1b}[2Jtwo", answered("lead", "Done."));
    short(&place, "b-second", "Try", failed());
    drop(made(&place, "c-third", "Nothing yet", &[]));
    let in_use = tale(&place);
    let all = ran(&place, &["list"]);
    assert_eq!(first(&all.stdout), ["SESSION", "20261122-tale", "c-third", "b-second", "a-first"]);
    assert_eq!(all.stderr, "");
    let rows: Vec<_> = all.stdout.lines().collect();
    for (row, words) in [(1, "in use"), (2, "empty"), (3, "failed"), (4, "finished")] {
        assert!(rows[row].contains(&format!(" just now  lead   {words} ")), "{}", all.stdout);
    }
    assert!(rows[4].ends_with("  One \\u{1b}[2Jtwo"), "{}", all.stdout);
    drop(in_use);
    let two = ran(&place, &["list", "--limit", "2"]);
    assert_eq!(first(&two.stdout), ["SESSION", "20261122-tale", "c-third"]);
    assert!(two.stdout.contains(" unfinished "), "{}", two.stdout);
    assert_eq!(two.stderr, "older sessions are not shown; show more with --limit N or --all\n");
    assert_eq!(first(&ran(&place, &["list", "--all"]).stdout).len(), 5);
    assert_eq!(ran(&place, &["list", "--limit", "0"]).stdout, "");

    // One that cannot be read is told of as such.
    place.file(".shelly/local/sessions/c-third/journal.jsonl", "{}\n");
    let json = as_json(&place, &["list", "--limit", "3", "--output", "json"]);
    assert_eq!(json["more"], true);
    let rows = json["sessions"].as_array().unwrap();
    let states: Vec<_> =
        rows.iter().map(|row| (row["id"].as_str().unwrap(), row["status"].as_str().unwrap())).collect();
    assert_eq!(states, [("c-third", "unreadable"), ("20261122-tale", "unfinished"), ("b-second", "failed")]);
    assert!(rows[0]["error"].as_str().unwrap().contains("damaged at line 1"), "{}", rows[0]);
    assert_eq!(rows[0]["title"], Value::Null);
    let bytes = |key: &str| rows[1][key].as_u64().unwrap();
    let mark = "2 person 1 hmac-sha256:\n".len() as u64 + 64;
    assert!(bytes("journal_bytes") > 2_000 && bytes("bytes") == bytes("journal_bytes") + mark, "{}", rows[1]);
    assert_eq!(rows[1]["in_use"], false);
}

#[test]
fn session_show_prints_the_conversation() {
    let place = Place::new();
    drop(tale(&place));
    assert_snapshot!(still(&ran(&place, &["show", "last"]).stdout));
}

#[test]
fn session_show_full_prints_whole_texts() {
    let place = Place::new();
    drop(tale(&place));
    let full = still(&ran(&place, &["show", "--full", "2026"]).stdout);
    assert!(!full.contains('\u{1b}'));
    assert!(full.contains(&"x".repeat(1_500)));
    assert_snapshot!(shortened(&full));
}

#[test]
fn session_show_steps_lists_records() {
    let place = Place::new();
    drop(tale(&place));
    let steps = ran(&place, &["show", "--steps", "last"]);
    assert_snapshot!(still(&steps.stdout));
    let json = as_json(&place, &["show", "--steps", "--output", "json", "last"]);
    let json = json["steps"].as_array().unwrap();
    assert_eq!(json.len(), 23);
    let (last, time) = (&json[22], json[22]["time"].as_str().unwrap());
    assert_eq!(json[0]["kind"], "session");
    assert_eq!((&last["n"], &last["run"], &last["instance"]), (&json!(23), &json!(3), &json!("lead")));
    assert!(time.ends_with('Z') && last["summary"] == "Hurry.", "{last}");
}

#[test]
fn session_export_writes_markdown() {
    let place = Place::new();
    drop(tale(&place));
    let exported = ran(&place, &["export", "last"]);
    let shown = still(&exported.stdout);
    assert_snapshot!(shortened(&shown).replace('\u{1b}', "[ESC]"));
    // Nothing but what was said is in it.
    assert!(!shown.contains("secret seal") && !shown.contains("shelly.note"), "{shown}");

    let wrote = ran(&place, &["export", "last", "--format", "markdown", "--out", "a.md"]);
    assert_eq!((wrote.stdout.as_str(), wrote.stderr.as_str()), ("", "wrote a.md\n"));
    assert_eq!(fs::read_to_string(place.path().join("a.md")).unwrap(), exported.stdout);
    let dash = ran(&place, &["export", "last", "--out", "-"]);
    assert_eq!((dash.stdout, dash.stderr.as_str()), (exported.stdout, ""));
    assert!(!place.path().join("-").exists());
    // What is there is replaced.
    ran(&place, &["export", "last", "--format", "json", "--out", "a.md"]);
    let json: Value = serde_json::from_slice(&fs::read(place.path().join("a.md")).unwrap()).unwrap();
    assert_eq!(json["session"]["id"], "20261122-tale");
    // What has no price is told as `session show` tells it.
    let mut reply = replied(&[]);
    reply["cost"] = json!(0);
    let free = [(1, began("lead", "lead", json!({}))), (1, reply)];
    drop(made(&place, "free", "Go", &free));
    let free = ran(&place, &["export", "free"]).stdout;
    assert!(free.contains("| lead | 1 | 123 | unknown |\n| **all** | 1 | 123 | unknown |\n"), "{free}");
    fs::create_dir(place.path().join("folder")).unwrap();
    for (to, why) in [("folder", "the path exists and is not a regular file"), ("none/a.md", "No such file")] {
        let ran = place.run(&["session", "export", "last", "--out", to]);
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{}", ran.shown());
        assert!(ran.stderr.contains(&format!("error: cannot write {to}\n  cause: {why}")), "{}", ran.shown());
    }
}

#[test]
fn session_export_writes_json() {
    let place = Place::new();
    drop(tale(&place));
    let json = as_json(&place, &["export", "--format", "json", "20261122-tale"]);
    assert_eq!(as_json(&place, &["show", "--output", "json", "20261122-tale"]), json, "one document, two ways to it");
    let keys = |value: &Value| value.as_object().unwrap().keys().map(String::clone).collect::<Vec<_>>();
    assert_eq!(keys(&json), ["agents", "runs", "session"]);
    assert_eq!(
        keys(&json["session"]),
        ["agent", "created", "follows", "forked_from", "host", "id", "model", "options", "parts", "title"]
    );
    let runs = json["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3);
    assert_eq!(runs[1]["parent"], json!({"run": 1, "call": "c1", "task": 0}));
    assert_eq!(runs[1]["outcome"], json!({"kind": "answered", "answer": "Four words."}));
    let roles = |run: usize| {
        let said = |said: &Value| format!("{}{}", said["role"].as_str().unwrap(), said["note"] == true);
        runs[run]["messages"].as_array().unwrap().iter().map(said).collect::<Vec<_>>().join(" ").replace("false", "")
    };
    assert_eq!(roles(0), "user assistant tool usertrue assistant");
    assert_eq!(roles(2), "user assistant", "what the first run said is said there");
    let media = &runs[1]["messages"][2]["parts"][0]["value"]["content"][1];
    assert_eq!(media["value"]["source"]["bytes"], "AP8=", "{media}");
    assert_eq!(runs[0]["calls"][0]["runs"], json!([2]));
    let states: Vec<_> = runs[2]["calls"].as_array().unwrap().iter().map(|call| call["state"].clone()).collect();
    assert_eq!(states, ["begun", "failed"]);
    assert_eq!((&runs[2]["outcome"], &runs[2]["continues"]), (&Value::Null, &json!(1)));
    assert_eq!(runs[2]["not_read"][0]["parts"][0]["value"], "Hurry.");
    assert_eq!((&runs[0]["completions"], &runs[0]["usd"]), (&json!(2), &json!(0.5)));
    assert_eq!((&json["agents"][0]["agent"], &json["agents"][0]["completions"]), (&json!("lead"), &json!(3)));
}

#[test]
fn session_search_finds_text() {
    let place = Place::new();
    drop(tale(&place));
    short(&place, "b-second", "WORDS are cheap", answered("lead", "Done."));
    let found = ran(&place, &["search", "wORDS"]);
    assert_snapshot!(found.stdout);
    assert_eq!(found.stderr, "");
    let one = ran(&place, &["search", "--limit", "1", "words"]);
    assert_eq!(one.stdout.lines().count(), 2);
    assert_eq!(one.stderr, "more matches are not shown; show more with --limit N\n");
    let json = as_json(&place, &["search", "--output", "json", "ask a reader"]);
    let row = json!({
        "id": "20261122-tale", "title": "How many words?", "n": 4, "run": 1, "role": "assistant",
        "excerpt": "I ask a reader."
    });
    assert_eq!(json, json!({"found": [row], "more": false, "left_out": []}));
    let none = ran(&place, &["search", "haystack"]);
    assert_eq!(
        (none.stdout.as_str(), none.stderr.as_str()),
        ("", "no match in the sessions in ./.shelly/local/sessions\n")
    );
}

#[test]
fn session_fork_copies_up_to_a_step() {
    let place = Place::new();
    let _in_use = tale(&place);
    let whole = ran(&place, &["fork", "20261122-tale"]);
    assert_eq!(whole.stdout, "[SESSION]\n");
    assert_eq!(whole.stderr, "resume with: shelly-host session resume [SESSION]\n");
    assert_eq!(first(&ran(&place, &["show", "--steps", &newest(&place)]).stdout).len(), 23);
    let json = as_json(&place, &["fork", "20261122-tale", "--at", "7", "--output", "json"]);
    assert_eq!((&json["forked_from"], &json["at"]), (&json!("20261122-tale"), &json!(7)));
    let copy = ran(&place, &["show", &newest(&place)]).stdout;
    assert!(copy.contains("\nfork of  20261122-tale up to line 7\n"), "{copy}");
    let open = "\nunfinished\n  run 1 (lead): the call of delegate was started and has no result\n  run 1 (lead) is not finished\n  \
                run 2 (reader-1) is not finished\n";
    assert!(copy.ends_with(open), "{copy}");
}

#[test]
fn session_rm_removes_sessions() {
    let place = Place::new();
    for id in ["a", "b", "c"] {
        short(&place, id, "Go", answered("lead", "Done."));
    }
    let in_use = tale(&place);
    // A slip of the pen, and all of them stay.
    let slip = place.run(&["session", "rm", "a", "nothing-like-it"]);
    assert!(slip.code == 2 && slip.stdout.is_empty(), "{}", slip.shown());
    let gone = ran(&place, &["rm", "a", "a"]);
    let lines: Vec<_> = gone.stdout.lines().collect();
    assert!(lines[0].starts_with("removed a (") && lines[1].starts_with("freed "), "{}", gone.stdout);
    assert!(lines[1].ends_with(", 1 session") && lines.len() == 2, "{}", gone.stdout);

    let mixed = place.run(&["session", "rm", "20261122-tale", "b", "--output", "json"]);
    assert_eq!(mixed.code, 2, "{}", mixed.shown());
    assert!(mixed.stderr.contains("error: session `20261122-tale` is in use"), "{}", mixed.shown());
    let json: Value = serde_json::from_str(&mixed.stdout).unwrap();
    assert_eq!((&json["removed"][0]["id"], &json["failed"][0]["id"]), (&json!("b"), &json!("20261122-tale")));
    assert_eq!(json["freed"], json["removed"][0]["bytes"]);
    drop(in_use);
    ran(&place, &["rm", "last"]);
    assert_eq!(first(&ran(&place, &["list"]).stdout), ["SESSION", "c"]);
}

#[test]
fn session_prune_removes_old_and_keeps_resumable_sessions() {
    let place = Place::new();
    short(&place, "a", "Go", answered("lead", "Done."));
    drop(tale(&place));
    short(&place, "c", "Go", failed());
    let removed = |arguments: &[&str]| {
        let json = as_json(&place, &[&["prune", "--dry-run", "--output", "json"], arguments].concat());
        let ids = |key: &str| {
            let id = |row: &Value| row.as_str().or(row["id"].as_str()).unwrap().to_owned();
            json[key].as_array().unwrap().iter().map(id).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(json["dry_run"], true);
        assert_eq!(json["in_use"], json!([]));
        (ids("removed"), ids("unfinished"))
    };
    let tale = "20261122-tale";
    for (arguments, goes, stays) in [
        (&["--keep", "0"][..], "a c", tale),
        (&["--keep", "0", "--unfinished"], "a 20261122-tale c", ""),
        (&["--keep", "2"], "a", ""),
        (&["--older-than", "1h"], "", ""),
        (&["--older-than", "0s", "--keep", "1"], "a", tale),
        (&["--max-bytes", "0", "--unfinished"], "a 20261122-tale c", ""),
        (&["--max-bytes", "1GiB"], "", ""),
    ] {
        assert_eq!(removed(arguments), (goes.to_owned(), stays.to_owned()), "{arguments:?}");
    }
    let dry = ran(&place, &["prune", "--keep", "0", "--dry-run"]);
    assert!(dry.stdout.starts_with("would remove a (") && dry.stdout.contains("\nwould free "), "{}", dry.stdout);
    assert!(dry.stderr.contains(&format!("unfinished (remove them with --unfinished): {tale}")), "{}", dry.shown());
    let gone = ran(&place, &["prune", "--keep", "0"]);
    assert!(gone.stdout.ends_with(", 2 sessions\n"), "{}", gone.stdout);
    assert_eq!(first(&ran(&place, &["list"]).stdout), ["SESSION", tale]);
    let _in_use = sessions(&place.path(), place.own_key()).open(tale, Default::default()).unwrap();
    let kept = ran(&place, &["prune", "--keep", "0", "--unfinished"]);
    assert_eq!(kept.stdout, "freed 0 B, 0 sessions\n");
    assert!(kept.stderr.contains(&format!("kept, because they are in use: {tale}")), "{}", kept.shown());
}

/// One that cannot be read or removed is told of, and keeps none of the others.
#[test]
#[cfg(unix)]
fn unreadable_session_does_not_affect_others() {
    let place = Place::new();
    for id in ["a", "b", "c"] {
        short(&place, id, "Go", answered("lead", "Done."));
    }
    let session = |path: &str| place.path().join(".shelly/local/sessions").join(path);
    fs::write(session("b/journal.jsonl"), "").unwrap();
    // Deeper than what is removed.
    fs::create_dir_all(session(&format!("c/{}", "d/".repeat(40)))).unwrap();
    let found = ran(&place, &["search", "go"]);
    assert!(found.stdout.contains("a  Go\n") && found.stdout.contains("c  Go\n"), "{}", found.stdout);
    assert!(found.stderr.starts_with("warning: 1 session could not be read completely: b\n"), "{}", found.stderr);
    assert!(found.stderr.contains("the header has no end"), "{}", found.stderr);
    let json = as_json(&place, &["search", "--output", "json", "go"]);
    assert_eq!(json["left_out"][0]["id"], "b", "{json}");
    let shown = place.run(&["session", "show", "b"]);
    assert!(shown.stderr.contains("remove it with `shelly-host session rm b`"), "{}", shown.shown());

    let pruned = place.run(&["session", "prune", "--keep", "0", "--output", "json"]);
    assert_eq!(pruned.code, 1, "{}", pruned.shown());
    assert!(pruned.stderr.contains("too many nested folders"), "{}", pruned.shown());
    let json: Value = serde_json::from_str(&pruned.stdout).unwrap();
    assert_eq!((json["removed"].as_array().unwrap().len(), &json["failed"][0]["id"]), (2, &json!("c")), "{json}");
    // What is left of it was not asked for again.
    let again = ran(&place, &["prune", "--keep", "0"]);
    assert!(again.stderr.starts_with("warning: cannot remove "), "{}", again.shown());
}

#[test]
fn config_path_selects_the_session_folder() {
    let (place, elsewhere) = (Place::new(), Place::new());
    drop(tale(&place));
    // Whatever is wrong with it: its place counts.
    let config = place.file(".shelly/config.yaml", "agents: [").display().to_string();
    for arguments in [
        &["list"][..],
        &["show", "last"],
        &["search", "words"],
        &["export", "last"],
        &["undo"],
        &["fork", "20261122-tale"],
        &["prune", "--keep", "9"],
        &["rm", "20261122-tale"],
    ] {
        ran(&elsewhere, &[arguments, &["--config", &config]].concat());
    }
    // Only the copy is left.
    assert_eq!(first(&ran(&place, &["list"]).stdout).len(), 2);
}

#[test]
fn session_errors_are_reported() {
    let place = Place::new();
    let mut told = Told::default();
    told.fails(&place, "there is none at all", 2, &["session", "show", "last"]);
    told.fails(&place, "there is none of this name", 2, &["session", "show", "tale"]);
    short(&place, "20261122-tall", "Go", answered("lead", "Done."));
    let in_use = tale(&place);
    told.fails(&place, "nothing is like it", 2, &["session", "show", "nothing"]);
    told.fails(&place, "it is misspelt", 2, &["session", "fork", "20261122-tell"]);
    told.fails(&place, "several begin so", 2, &["session", "fork", "2026"]);
    told.fails(&place, "no session has such a name", 2, &["session", "rm", "../x"]);
    told.fails(&place, "nothing to look for", 2, &["session", "search", " "]);
    told.fails(&place, "a step that is not there", 2, &["session", "fork", "20261122-tale", "--at", "99"]);
    drop(in_use);
    told.fails(&place, "which are to go is not said", 2, &["session", "prune"]);
    told.fails(&place, "an age that is none", 2, &["session", "prune", "--older-than", "old"]);
    told.fails(&place, "a size that is none", 2, &["session", "prune", "--max-bytes", "much"]);
    told.fails(&place, "a config that is not there", 2, &["session", "list", "--config", "none.yaml"]);

    let journal = place.path().join(".shelly/local/sessions/20261122-tale/journal.jsonl");
    let whole = fs::read_to_string(&journal).unwrap();
    let damaged = whole.replacen("Be brief.", "Be broad.", 2).replacen("Be broad.", "Be brief.", 1);
    fs::write(&journal, &damaged).unwrap();
    for arguments in [&["show", "--steps"][..], &["show"], &["export"]] {
        let ran = place.run(&[&["session"], arguments, &["20261122-tale"]].concat());
        assert_eq!(ran.code, 1, "{}", ran.shown());
        assert!(ran.stderr.contains("is damaged at line 6, byte "), "{}", ran.shown());
        assert!(ran.stderr.contains("session fork 20261122-tale --at 5`"), "{}", ran.shown());
        // What can be read is shown; half a document is none.
        assert_eq!(ran.stdout.is_empty(), arguments == ["export"], "{}", ran.shown());
    }
    ran(&place, &["fork", "20261122-tale", "--at", "5"]);
    assert_eq!(first(&ran(&place, &["show", "--steps", &newest(&place)]).stdout).len(), 5);
    // The last line is cut off: that is how a crash leaves it.
    fs::write(&journal, &whole[..whole.len() - 9]).unwrap();
    let cut = ran(&place, &["show", "20261122-tale"]);
    assert!(cut.stderr.starts_with("warning: line 23 was cut off after "), "{}", cut.shown());

    fs::write(&journal, "{\"crc\":\"897b2084\",\"shelly_session\":99}\n").unwrap();
    told.fails(&place, "another release wrote it", 2, &["session", "show", "20261122-tale"]);
    assert_snapshot!(told.0);
}
