//! Tools that propose file changes, in whole runs of the program: who approves them, what is changed, that each change is
//! made exactly once, and that it can be undone.

#[cfg(unix)]
mod killed;

use std::{collections::BTreeMap, fs};

use serde_json::{Value, json};
use shelly_host::digest::Sha256Digest;

use crate::{
    bad_input::{Server, answer},
    support::{Place, Ran},
};

pub fn digest(text: &str) -> String {
    Sha256Digest::of(text).hex()
}

/// A model that makes these calls of the guest, one a reply, and then answers. The number of results in the request selects
/// the next call.
fn model(calls: &[Value]) -> Server {
    let calls: Vec<_> = calls.iter().map(|changes| json!({ "changes": changes }).to_string()).collect();
    Server::start(move |request| {
        let (message, stop) = match calls.get(results(request).len()) {
            Some(arguments) => {
                let function = json!({ "name": "propose", "arguments": arguments });
                (json!({ "tool_calls": [{ "id": "1", "type": "function", "function": function }] }), "tool_calls")
            }
            None => (json!({ "content": "done" }), "stop"),
        };
        let usage = json!({ "prompt_tokens": 10, "completion_tokens": 10 });
        let reply = json!({ "choices": [{ "message": message, "finish_reason": stop }], "usage": usage });
        answer("200 OK", &reply.to_string())
    })
}

/// The results that a request shows the model.
fn results(request: &str) -> Vec<String> {
    let body = request.split_once("\r\n\r\n").map_or(request, |(_, body)| body);
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The config of an agent that has the guest, on a model that makes these calls of it. `uses` is what else its entry says.
pub fn configure(place: &Place, uses: &str, calls: &[Value]) -> Server {
    let server = model(calls);
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    place.file(
        "shelly.yaml",
        format!(
            "providers: [{{name: m, kind: openai, base_url: '{url}', model: m}}]\n\
             agents: [{{name: ada, plugins: {{probe-changes: {{files: [{{path: docs, as: .}}], {uses}}}}}}}]\n"
        ),
    );
    server
}

const POWER: &str = "powers: [propose-files]";

/// Returns the results that the model received, and the run.
fn told(place: &Place, uses: &str, calls: &[Value], more: &[&str]) -> (Vec<String>, Ran) {
    let server = configure(place, uses, calls);
    let ran = place.run(&[&["run", "--plugins", crate::GUEST_ROOT, "go"], more].concat());
    let asked = server.asked.lock().unwrap();
    (asked.last().map(|request| results(request)).unwrap_or_default(), ran)
}

/// Returns the contents of the folder that was granted to the tool.
pub fn docs(place: &Place) -> BTreeMap<String, String> {
    let entries = fs::read_dir(place.path().join("docs")).unwrap().map(|entry| entry.unwrap());
    let named = |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), entry.path());
    let text = |path: std::path::PathBuf| if path.is_dir() { "/".into() } else { fs::read_to_string(path).unwrap() };
    entries.map(named).map(|(name, path)| (name, text(path))).collect()
}

fn holds(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
}

fn place() -> Place {
    let place = Place::new();
    place.file("docs/a.txt", "one\n");
    place
}

pub fn edit(path: &str, before: &str, after: &str) -> Value {
    json!({ "path": path, "expected": digest(before), "write": after })
}

#[test]
fn file_changes_are_approved_by_config_or_flag() {
    let edits = || [json!([edit("a.txt", "one\n", "two\n")])];
    let remarkable = || [json!([{ "path": ".envrc", "write": "x" }])];
    let yes = "changed a.txt (+1 -1)";
    let no = "need a person's consent, and no person can be asked: nothing was changed";
    for (uses, calls, more, is_made, says) in [
        ("", edits(), &[][..], false, "needs a person"),
        ("", edits(), &["--approve", "granted"], false, no),
        ("", edits(), &["--approve", "all"], true, yes),
        (", changes: ask", edits(), &[], false, no),
        (", changes: apply", edits(), &[], true, yes),
        // What cannot be undone is asked about in any case.
        (", changes: apply", edits(), &["--no-session"], false, no),
        (", changes: apply", remarkable(), &[], false, no),
        (", changes: apply", remarkable(), &["--approve", "all"], true, "created .envrc (+1 -0)"),
        (", changes: ask, confirm: true", edits(), &["--approve", "all"], true, yes),
    ] {
        let says = if says == "needs a person" { no } else { says };
        let place = place();
        let before = docs(&place);
        let (results, ran) = told(&place, &format!("{POWER}{uses}"), &calls, more);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        assert!(results.len() == 1 && results[0].contains(says), "{uses} {more:?}: {results:?}\n{}", ran.shown());
        assert_eq!(docs(&place) != before, is_made, "{uses} {more:?}");
    }
}

#[test]
fn file_change_without_propose_files_is_refused() {
    let place = place();
    let calls = [json!([edit("a.txt", "one\n", "two\n")])];
    let (results, ran) = told(&place, "", &calls, &["--approve", "all"]);
    assert!(
        results[0].contains("ask the person to grant `powers: [propose-files]` under agents.ada.plugins"),
        "{results:?}"
    );
    assert!(ran.stderr.contains("grant `powers: [propose-files]`"), "{}", ran.shown());
    assert_eq!(docs(&place), holds(&[("a.txt", "one\n")]));
}

#[test]
fn file_change_outside_granted_folders_is_refused() {
    let place = place();
    place.file("outside.txt", "out");
    place.file("docs/sub/b.txt", "b");
    #[cfg(unix)]
    std::os::unix::fs::symlink("../outside.txt", place.path().join("docs/link")).unwrap();
    let calls = [
        json!([{ "path": "./sub/../a.txt", "write": "x" }]),
        json!([{ "path": "../outside.txt", "expected": digest("out"), "write": "x" }]),
        json!([{ "path": "/etc/hosts", "write": "x" }]),
        json!([{ "path": "link", "expected": digest("out"), "write": "x" }]),
        json!([{ "path": "a.txt", "expected": "0", "write": "x" }]),
        json!([{ "path": "a.txt", "expected": digest("old"), "write": "x" }]),
        json!([{ "path": "new.txt", "write": "x" }, edit("a.txt", "one\n", "1\n"), { "path": "sub/none" }]),
        json!([{ "path": "big", "write": "0123456789abcdef", "times": 1 << 19 }]),
        json!([{ "path": "big", "write": "0123456789abcdef0", "times": 1 << 19 }]),
        json!([{ "path": "./sub//c.txt", "write": "c\n" }, { "path": "sub/b.txt", "move_to": "sub/d.txt" }]),
    ];
    let (results, ran) = told(&place, &format!("{POWER}, changes: apply"), &calls, &[]);
    let wanted = [
        "outside the folders granted",
        "outside the folders granted",
        "outside the folders granted",
        if cfg!(unix) { "`link` is outside the folders granted" } else { "has changed in the meantime" },
        "is not a hexadecimal SHA-256 digest",
        "`a.txt` has changed in the meantime, so nothing was changed; read it again and retry",
        "`sub/none` does not exist",
        "created big",
        "`big` is too large to be changed by a tool: 8912896 bytes, the maximum is 8388608",
        "created ./sub//c.txt (+1 -0)\nmoved sub/b.txt to sub/d.txt",
    ];
    assert_eq!(results.len(), wanted.len(), "{results:?}\n{}", ran.shown());
    for (result, wanted) in results.iter().zip(wanted) {
        assert!(result.contains(wanted), "{wanted}: {result}");
    }
    assert_eq!(fs::read_to_string(place.path().join("outside.txt")).unwrap(), "out");
    assert_eq!(docs(&place)["a.txt"], "one\n");
    assert!(!place.path().join("docs/new.txt").exists(), "all changes of a result or none");
}

#[test]
fn each_file_change_emits_an_event() {
    let place = place();
    let calls = [json!([edit("a.txt", "one\n", "two\nthree\n"), { "path": "a.txt", "move_to": "b.txt" }])];
    let (_, ran) = told(&place, POWER, &calls, &["--approve", "all", "--output", "events"]);
    let events = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events: Vec<_> = events.filter(|event| event["event"] == "file_change").collect();
    assert_eq!(events.len(), 2, "{}", ran.shown());
    for (event, key, value) in [
        (0, "act", json!("edit")),
        (0, "path", json!("a.txt")),
        (0, "added", json!(2)),
        (0, "removed", json!(1)),
        (0, "by", json!("policy")),
        (0, "tool", json!("propose")),
        (1, "act", json!("move")),
        (1, "to", json!("b.txt")),
        (1, "added", Value::Null),
    ] {
        assert_eq!(events[event][key], value, "{key}: {}", events[event]);
    }
}

#[test]
fn undo_reverts_the_changes_of_a_session() {
    let place = place();
    place.file("docs/keep.txt", "k");
    let calls = [
        json!([edit("a.txt", "one\n", "two\n"), { "path": "new.txt", "write": "n\n" }]),
        json!([{ "path": "keep.txt" }]),
        json!([{ "path": "a.txt", "move_to": "b.txt" }]),
    ];
    let (results, ran) = told(&place, &format!("{POWER}, changes: apply"), &calls, &["--session", "one"]);
    assert_eq!(
        results,
        ["changed a.txt (+1 -1)\ncreated new.txt (+1 -0)", "removed keep.txt (+0 -1)", "moved a.txt to b.txt"]
    );
    let after = [("b.txt", "two\n"), ("new.txt", "n\n")];
    assert_eq!(docs(&place), holds(&after), "{}", ran.shown());
    // Nobody is there who could be asked.
    let asked = place.run(&["session", "undo", "one"]);
    assert!(asked.code == 2 && asked.stderr.contains("no terminal to ask on"), "{}", asked.shown());
    assert!(asked.stderr.contains("move b.txt back to a.txt"), "{}", asked.shown());
    assert_eq!(docs(&place), holds(&after));
    let last = place.run(&["session", "undo", "one", "--yes"]);
    assert_eq!((last.code, last.stdout.as_str()), (0, "undone\n"), "{}", last.shown());
    assert_eq!(docs(&place), holds(&[("a.txt", "two\n"), ("new.txt", "n\n")]));
    // Somebody else has worked on it since.
    place.file("docs/new.txt", "mine\n");
    let refused = place.run(&["session", "undo", "--all", "--yes"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("`new.txt` was edited, moved or removed after that change"),
        "{}",
        refused.shown()
    );
    assert!(!refused.stderr.contains("retry") && refused.stderr.contains("by hand"), "{}", refused.shown());
    assert_eq!(docs(&place), holds(&[("a.txt", "two\n"), ("keep.txt", "k"), ("new.txt", "mine\n")]));
    place.file("docs/new.txt", "n\n");
    let all = place.run(&["session", "undo", "--all", "--yes"]);
    assert_eq!((all.code, all.stdout.as_str()), (0, "undone\n"), "{}", all.shown());
    assert!(all.stderr.contains("-two") && all.stderr.contains("+one"), "{}", all.shown());
    assert_eq!(docs(&place), holds(&[("a.txt", "one\n"), ("keep.txt", "k")]));
    let none = place.run(&["session", "undo"]);
    assert_eq!((none.code, none.stdout.as_str()), (0, "nothing to undo in the session one\n"));
    // What is kept goes with the session.
    assert!(place.path().join(".shelly/local/sessions/one/changes").is_dir());
    assert_eq!(place.run(&["session", "rm", "one"]).code, 0);
    assert!(!place.path().join(".shelly/local/sessions/one").exists());
    assert_eq!(fs::read_dir(place.path().join(".shelly/local/changes")).unwrap().count(), 0);
}
