//! Entries that this host cannot read: those of later versions, and those whose key it lacks.

use std::{
    io::{BufRead, BufReader, Write},
    net::TcpStream,
};

use serde_json::{Value, json};

use super::{ClusterProject, PATIENCE, WorkerProcess};
use crate::serve::{ModelServer, says};

/// An entry of a later version, of which no more than the version is known.
const LATER: &str = r#"{"version":2,"another":"form"}"#;

/// Sends a message to the server, and returns the reply. What is sent to the subject of a key is stored.
pub(super) fn ask(port: u16, subject: &str, payload: &str) -> Value {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let sent = format!(
        "CONNECT {{\"verbose\":false}}\r\nSUB _INBOX.test 1\r\nPUB {subject} _INBOX.test {}\r\n{payload}\r\n",
        payload.len()
    );
    stream.write_all(sent.as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    lines.find(|line| line.starts_with("MSG ")).expect("a reply");
    serde_json::from_str(&lines.next().expect("its content")).unwrap()
}

/// Returns the number of the message with the entry of a run, which is another one after each change.
fn revision(port: u16, run: &str) -> Value {
    let request = json!({"last_by_subj": format!("$KV.shelly-team-a-runs.{run}")}).to_string();
    let reply = ask(port, "$JS.API.STREAM.MSG.GET.KV_shelly-team-a-runs", &request);
    assert!(reply["message"]["seq"].is_u64(), "{reply}");
    reply["message"]["seq"].clone()
}

#[test]
fn entries_of_newer_versions_are_named_and_left_alone() {
    let model = ModelServer::start(|_| says("Done."));
    // The entry of a worker ends with the lease.
    let Some(project) = ClusterProject::new(&model, "", ", lease: 5m") else { return };
    let worker = WorkerProcess::start(&project.place, &[]);
    project.submit("old", &["Go."]);
    project.wait_until("old", "completed");
    for (bucket, key) in [("runs", "later-run"), ("workers", "later-worker"), ("sessions", "later-session")] {
        let stored = ask(project.port, &format!("$KV.shelly-team-a-{bucket}.{key}"), LATER);
        assert!(stored["seq"].is_u64(), "{stored}");
    }
    let before = revision(project.port, "later-run");
    // The worker is offered it, and leaves it alone.
    ask(project.port, "shelly.team-a.queue.normal.-.later-run", "later-run");
    project.submit("new", &["Go."]);
    project.wait_until("new", "completed");

    let status = project.run(&["cluster", "status", "--config", "shelly.yaml"]);
    assert_eq!(status.code, 0, "{}", status.shown());
    for words in
        ["1 run left alone, which this host cannot read (later-run): 1 written by a newer", "1 worker, 1 session"]
    {
        assert!(status.stdout.contains(words), "{words}: {}", status.shown());
    }
    let status = project.run(&["cluster", "status", "--config", "shelly.yaml", "--output", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["newer"], json!({"runs": 1, "workers": 1, "sessions": 1}));
    let unreadable = json!({"newer": 1, "without_key": 0, "other": 0, "runs": ["later-run"]});
    assert_eq!(status["unreadable"], unreadable);
    assert_eq!(status["workers"].as_array().map(Vec::len), Some(1), "{status}");

    let runs = project.run(&["cluster", "runs", "--config", "shelly.yaml"]);
    assert!(runs.code == 0 && runs.stderr.contains("cannot read (later-run)"), "{}", runs.shown());
    assert!(runs.stdout.contains("old") && !runs.stdout.contains("later-run"), "{}", runs.shown());
    let cancelled = project.run(&["cluster", "cancel", "--config", "shelly.yaml", "later-run"]);
    assert!(cancelled.code != 0 && cancelled.stderr.contains("has version 2"), "{}", cancelled.shown());

    let prune = ["cluster", "prune", "--config", "shelly.yaml", "--older-than", "0s"];
    let pruned = project.run(&[&prune[..], &["--output", "json"]].concat());
    let result: Value = serde_json::from_str(&pruned.stdout).unwrap_or_else(|_| panic!("{}", pruned.shown()));
    assert_eq!((&result["runs"], &result["unreadable"]), (&json!(2), &unreadable), "{result}");
    assert_eq!(result["skipped"], "1 run cannot be read here, and may need any of them");
    let pruned = project.run(&prune);
    assert!(pruned.stdout.starts_with("removed 0 runs and 0 objects"), "{}", pruned.shown());
    assert!(pruned.stderr.contains("cannot read (later-run): 1 written by a newer"), "{}", pruned.shown());
    assert_eq!(revision(project.port, "later-run"), before, "nothing has changed it");
    assert!(!worker.said().contains("later-run"), "{}", worker.said());
}

#[test]
fn runs_under_another_key_are_counted_and_left_alone() {
    let model = ModelServer::start(|_| says("Done."));
    let Some(project) = ClusterProject::new(&model, "", ", encryption: {key: {file: old.key}}") else { return };
    for key in ["old.key", "new.key"] {
        assert_eq!(project.run(&["cluster", "key", key]).code, 0);
    }
    let worker = WorkerProcess::start(&project.place, &[]);
    project.submit("hidden", &["Go."]);
    project.wait_until("hidden", "completed");
    drop(worker);
    let before = revision(project.port, "hidden");
    let prune = || {
        let prune = ["cluster", "prune", "--config", "shelly.yaml", "--older-than", "0s", "--output", "json"];
        let pruned = project.run(&prune);
        let result = serde_json::from_str::<Value>(&pruned.stdout).unwrap_or_else(|_| panic!("{}", pruned.shown()));
        (result, pruned.stderr)
    };
    project.place.file("shelly.yaml", project.config(&model, "", ", encryption: {key: {file: new.key}}"));
    let (result, said) = prune();
    assert_eq!((&result["runs"], &result["unreadable"]["without_key"]), (&json!(0), &json!(1)), "{result}");
    assert!(said.contains("cannot read (hidden): 1 encrypted with a key that this host does not have"), "{said}");
    assert_eq!(revision(project.port, "hidden"), before, "nothing has changed it");
    // With the key it is one like others.
    let keys = ", encryption: {key: {file: new.key}, old_keys: [{file: old.key}]}";
    project.place.file("shelly.yaml", project.config(&model, "", keys));
    let (result, said) = prune();
    assert_eq!((&result["runs"], &result["unreadable"]["without_key"]), (&json!(1), &json!(0)), "{result}");
    assert!(!said.contains("left alone"), "{said}");
}

#[test]
fn objects_under_another_key_are_not_taken_for_unused() {
    let model = ModelServer::start(|_| says("Never asked."));
    let Some(project) = ClusterProject::new(&model, "", ", encryption: {key: {file: old.key}}") else { return };
    for key in ["old.key", "new.key"] {
        assert_eq!(project.run(&["cluster", "key", key]).code, 0);
    }
    // Its config was stored under the old key; its entry is written anew under the new one.
    project.submit("early", &["Go."]);
    let keys = ", encryption: {key: {file: new.key}, old_keys: [{file: old.key}]}";
    project.place.file("shelly.yaml", project.config(&model, "", keys));
    let cancelled = project.run(&["cluster", "cancel", "--config", "shelly.yaml", "early"]);
    assert_eq!(cancelled.stdout, "early: cancelled\n", "{}", cancelled.shown());
    let prune = || {
        let pruned = project.run(&["cluster", "prune", "--config", "shelly.yaml", "--output", "json"]);
        serde_json::from_str::<Value>(&pruned.stdout).unwrap_or_else(|_| panic!("{}", pruned.shown()))
    };
    let result = prune();
    assert_eq!((&result["skipped"], &result["kept"]), (&Value::Null, &json!(1)), "{result}");
    project.place.file("shelly.yaml", project.config(&model, "", ", encryption: {key: {file: new.key}}"));
    let result = prune();
    assert!(result["skipped"].as_str().is_some_and(|why| why.contains("which a run needs")), "{result}");
    assert_eq!((&result["runs"], &result["objects"]), (&json!(0), &json!(0)), "{result}");
}
