//! Several calls in one reply, in whole runs of the program: no effect of a call is lost, and each call sees those of the
//! calls before it.

use std::fs;

use serde_json::{Value, json};

use crate::{
    bad_input::{Server, answer},
    support::Place,
};

/// A model that makes all these calls in its first reply.
fn model(calls: &[(&str, Value)]) -> Server {
    let calls: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(at, (tool, arguments))| {
            let function = json!({ "name": tool, "arguments": arguments.to_string() });
            json!({ "id": format!("c{at}"), "type": "function", "function": function })
        })
        .collect();
    Server::start(move |request| {
        let (message, stop) = match results(request).is_empty() {
            true => (json!({ "tool_calls": calls }), "tool_calls"),
            false => (json!({ "content": "done" }), "stop"),
        };
        let usage = json!({ "prompt_tokens": 10, "completion_tokens": 10 });
        answer(
            "200 OK",
            &json!({ "choices": [{ "message": message, "finish_reason": stop }], "usage": usage }).to_string(),
        )
    })
}

/// The results that a request shows the model.
fn results(request: &str) -> Vec<String> {
    let body: Value = request.split_once("\r\n\r\n").map_or(Value::Null, |(_, body)| body.parse().unwrap_or_default());
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns the results of these calls of one reply, of an agent with these toolboxes.
fn told(place: &Place, toolboxes: &str, calls: &[(&str, Value)]) -> Vec<String> {
    let server = model(calls);
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    place.file(
        "shelly.yaml",
        format!(
            "providers: [{{name: m, kind: openai, base_url: '{url}', model: m}}]\n\
             agents: [{{name: ada, toolboxes: {toolboxes}}}]\n"
        ),
    );
    let mut command = place.command(&["run", "--approve", "all", "--plugins", crate::PLUGIN_ROOT, "go"]);
    command.env("PATH", "/usr/bin:/bin").env("HOME", place.path());
    let ran = place.ran(command.output().unwrap());
    let asked = server.asked.lock().unwrap();
    let results = asked.last().map(|request| results(request)).unwrap_or_default();
    assert!(ran.code == 0 && results.len() == calls.len(), "{results:?}\n{}", ran.shown());
    results
}

#[test]
fn edits_of_one_file_in_one_reply_are_all_applied() {
    let place = Place::new();
    place.file("notes.txt", "one\ntwo\nthree\nfour\n");
    let edit = |old: &str| ("fs_edit", json!({ "path": "notes.txt", "old_text": old, "new_text": old.to_uppercase() }));
    let calls = [edit("one"), edit("two"), edit("three"), edit("four"), ("fs_read", json!({ "path": "notes.txt" }))];
    let results = told(&place, "[filesystem]", &calls);
    let expected = "ONE\nTWO\nTHREE\nFOUR\n";
    assert_eq!(fs::read_to_string(place.path().join("notes.txt")).unwrap(), expected, "{results:?}");
    assert_eq!(results[4], expected, "what is read after them has all of them");
}

#[test]
fn commit_includes_writes_and_staging_of_the_same_reply() {
    let place = Place::new();
    for words in
        [&["init", "--quiet"][..], &["config", "user.name", "Ada"], &["config", "user.email", "ada@example.com"]]
    {
        place.git(&place.path(), words);
    }
    let calls = [
        ("fs_write", json!({ "path": "new.txt", "content": "new\n" })),
        ("git_add", json!({ "paths": ["new.txt"] })),
        ("git_commit", json!({ "message": "Add it" })),
        ("git_log", json!({ "count": 1 })),
        ("git_status", json!({ "short": true })),
    ];
    let results = told(&place, "[filesystem, git]", &calls);
    assert_eq!(
        place.git(&place.path(), &["show", "--format=%s", "--name-only", "HEAD"]),
        "Add it\n\nnew.txt\n",
        "{results:?}"
    );
    assert!(results[3].ends_with("Ada: Add it") && !results[4].contains("new.txt"), "{results:?}");
}

#[test]
fn programs_run_in_the_order_of_the_reply() {
    let place = Place::new();
    let tee = |at: usize| ("exec_run", json!({ "command": "tee", "args": ["-a", "log"], "stdin": format!("{at}\n") }));
    let mut calls: Vec<_> = (0..8).map(tee).collect();
    calls.push(("fs_read", json!({ "path": "log" })));
    let results = told(&place, "[filesystem, exec]", &calls);
    let expected: String = (0..8).map(|at| format!("{at}\n")).collect();
    assert_eq!(results[8], expected, "{results:?}");
    assert_eq!(fs::read_to_string(place.path().join("log")).unwrap(), expected);
}
