//! One worker for several namespaces: its places are shared, and nothing else.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::{
    ClusterProject, WorkerProcess,
    accounts::NatsOperator,
    nats_server::{NatsServer, free_port},
    run_in,
    shared_state::last_message,
};
use crate::{
    serve::{ModelServer, ReplyGate, calls, says},
    support::Place,
};

/// Returns the config of an agent in a cluster with these keys.
fn config(model: &ModelServer, agent: &str, port: u16, keys: &str) -> String {
    format!("{}cluster: {{nats: 'nats://127.0.0.1:{port}', {keys}}}\n", model.config(agent))
}

/// Returns what a command prints as JSON.
fn as_json(place: &Place, arguments: &[&str]) -> Value {
    let ran = run_in(place, &[arguments, &["--output", "json"]].concat());
    serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{arguments:?}: {}", ran.shown()))
}

/// Returns a command about the second namespace.
fn in_b<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [words, &["--config", "shelly.yaml", "--namespace", "team-b"]].concat()
}

#[test]
fn worker_serves_two_accounts_apart() {
    let model = ModelServer::start(|asked| match asked.contains("\"tool\"") {
        true => says(&last_message(asked)),
        false if asked.contains("Keep it.") => {
            calls("write_note", &json!({"name": "plan", "content": "the plan of the first tenant"}))
        }
        false => calls("list_notes", &json!({})),
    });
    let (place, port, operator) = (Place::untrusted(), free_port(), NatsOperator::new(2));
    let Some(_server) = NatsServer::start_with(&place, port, &operator.config()) else { return };
    operator.user(0, &place, "a.creds", &[]);
    operator.user(1, &place, "b.creds", &[]);
    let own = "namespace: team-a, credentials: {file: a.creds}";
    let further = "namespaces: [{namespace: team-b, credentials: {file: b.creds}}]";
    for (file, keys) in [
        ("shelly.yaml", format!("{own}, {further}")),
        ("a.yaml", own.to_owned()),
        ("b.yaml", "namespace: team-b, credentials: {file: b.creds}".to_owned()),
        // The namespace of the other tenant, as it is in the account of the first one.
        ("a-as-b.yaml", "namespace: team-b, credentials: {file: a.creds}".to_owned()),
    ] {
        place.file(file, config(&model, "toolboxes: [notes]", port, &keys));
    }
    let unknown = run_in(&place, &["worker", "--config", "shelly.yaml", "--namespace", "team-c"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("names no namespace `team-c`"), "{}", unknown.shown());
    let one = WorkerProcess::start(&place, &["--namespace", "team-b"]);
    assert!(one.said().contains("takes runs of `team-b`"), "{}", one.said());
    drop(one);
    let worker = WorkerProcess::start(&place, &["--accept", "any"]);
    worker.wait_to_hear("takes runs of `team-a`");
    worker.wait_to_hear("takes runs of `team-b`");

    // The runs and their sessions have the same names in both.
    let submit = |file: &str, task: &str| {
        let ran = run_in(&place, &["submit", "--config", file, "--id", "same", "--wait", task]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        ran.stdout
    };
    submit("a.yaml", "Keep it.");
    let seen = submit("b.yaml", "Look at it.");
    assert!(!seen.contains("plan"), "a note of the other tenant: {seen}");
    let show = |file: &str| run_in(&place, &["session", "show", "--config", file, "same"]).stdout;
    assert!(show("a.yaml").contains("Keep it.") && !show("a.yaml").contains("Look at it."), "{}", show("a.yaml"));
    assert!(show("b.yaml").contains("Look at it.") && !show("b.yaml").contains("Keep it."), "{}", show("b.yaml"));
    for file in ["a-as-b.yaml", "b.yaml"] {
        let runs = as_json(&place, &["cluster", "runs", "--config", file]);
        let known = if file == "b.yaml" { 1 } else { 0 };
        assert_eq!(runs.as_array().map(Vec::len), Some(known), "{file}: {runs}");
    }

    // Each command can be about either.
    let status = as_json(&place, &in_b(&["cluster", "status"]));
    assert_eq!((&status["namespace"], &status["workers"][0]["running"]), (&json!("team-b"), &json!([])), "{status}");
    let runs = as_json(&place, &in_b(&["cluster", "runs"]));
    assert_eq!(runs[0]["run"], "same", "{runs}");
    let attached = run_in(&place, &[&in_b(&["attach"])[..], &["same"]].concat());
    assert_eq!((attached.code, &attached.stdout), (0, &seen), "{}", attached.shown());
    let cancelled = run_in(&place, &[&in_b(&["cluster", "cancel"])[..], &["same"]].concat());
    assert_eq!(cancelled.stdout, "same: completed\n", "{}", cancelled.shown());
    let pruned = as_json(&place, &in_b(&["cluster", "prune", "--older-than", "0s"]));
    assert_eq!(pruned["runs"], 1, "{pruned}");
    let left = as_json(&place, &["cluster", "runs", "--config", "shelly.yaml"]);
    assert_eq!(left.as_array().map(Vec::len), Some(1), "the run of the other tenant: {left}");
}

#[test]
fn flooded_namespace_does_not_starve_another() {
    let (gate, order) = (ReplyGate::default(), Arc::new(Mutex::new(Vec::new())));
    let model = ModelServer::start({
        let (gate, order) = (gate.clone(), Arc::clone(&order));
        move |asked| {
            let is_of_other = asked.contains("Task of the other.");
            order.lock().unwrap().push(is_of_other);
            if order.lock().unwrap().len() == 1 {
                gate.wait();
            }
            says("Done.")
        }
    });
    let keys = ", namespaces: [{namespace: team-b}]";
    let Some(project) = ClusterProject::new(&model, "", keys) else { return };
    project.place.file("b.yaml", config(&model, "", project.port, "namespace: team-b"));
    let flood: String =
        (1..=8).map(|n| json!({"id": format!("t{n}"), "task": "Task of the flood."}).to_string() + "\n").collect();
    project.place.file("flood.jsonl", flood);
    let ran = project.run(&["submit", "--config", "shelly.yaml", "--tasks", "flood.jsonl", "--id", "flood"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let _worker = WorkerProcess::start(&project.place, &["--jobs", "1"]);
    project.wait_for("flood-1", |_| order.lock().unwrap().len() == 1);
    let ran = project.run(&["submit", "--config", "b.yaml", "--worker-config", "--id", "other", "Task of the other."]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let status = as_json(&project.place, &["cluster", "status", "--config", "b.yaml"]);
    assert_eq!(status["runs"], json!([]), "the only place is taken: {status}");
    gate.open();
    let waited = project.run(&["attach", "--config", "b.yaml", "other"]);
    assert_eq!(waited.code, 0, "{}", waited.shown());
    let order = order.lock().unwrap().clone();
    // It has the next free place, or the one after it if the worker has not heard of it before.
    assert!(order.iter().take(3).any(|is_of_other| *is_of_other), "{order:?}");
    project.wait_until("flood-8", "completed");
}

#[test]
fn namespace_that_fails_does_not_stop_the_others() {
    let model = ModelServer::start(|_| says("Done."));
    let (place, port, operator) = (Place::untrusted(), free_port(), NatsOperator::new(2));
    let Some(_server) = NatsServer::start_with(&place, port, &operator.config()) else { return };
    operator.user(0, &place, "a.creds", &[]);
    operator.user(1, &place, "b.creds", &["$JS.API.STREAM.MSG.GET.KV_shelly-team-b-runs"]);
    operator.user(1, &place, "submitter.creds", &[]);
    NatsOperator::new(1).user(0, &place, "stranger.creds", &[]);
    let further = "namespaces: [{namespace: team-b, credentials: {file: b.creds}}, \
                   {namespace: team-c, credentials: {file: stranger.creds}}]";
    let own = format!("namespace: team-a, credentials: {{file: a.creds}}, {further}");
    place.file("shelly.yaml", config(&model, "", port, &own));
    place.file("b.yaml", config(&model, "", port, "namespace: team-b, credentials: {file: submitter.creds}"));
    let submit = |file: &str, more: &[&str]| {
        run_in(&place, &[&["submit", "--config", file, "--worker-config"], more, &["Go."]].concat())
    };
    assert_eq!(submit("b.yaml", &["--id", "stuck"]).code, 0);
    let worker = WorkerProcess::start(&place, &["--jobs", "1"]);
    worker.wait_to_hear("namespace team-c: its runs cannot be taken: cannot connect to");
    // Its runs may not be read, which takes the only place for a while.
    let why =
        format!("namespace team-b: cannot take runs from nats://127.0.0.1:{port}: the server gave none within 15 s");
    worker.wait_to_hear(&why);
    assert!(!worker.said().contains("takes runs of `team-c`"), "{}", worker.said());
    for id in ["first", "second"] {
        let ran = submit("shelly.yaml", &["--id", id, "--wait"]);
        assert!(ran.code == 0 && ran.stdout == "Done.\n", "{}", ran.shown());
    }
    let stuck = as_json(&place, &["cluster", "runs", "--config", "b.yaml"]);
    assert_eq!(stuck[0]["state"], "queued", "{stuck}");
}

#[test]
fn run_whose_session_key_is_missing_is_left_to_others() {
    let model = ModelServer::start(|_| says("Done."));
    let Some(project) = ClusterProject::new(&model, "", ", encryption: {key: {file: old.key}}") else { return };
    for key in ["old.key", "new.key"] {
        assert_eq!(project.run(&["cluster", "key", key]).code, 0);
    }
    let first = WorkerProcess::start(&project.place, &[]);
    project.submit("first", &["--worker-config", "Begin."]);
    project.wait_until("first", "completed");
    drop(first);
    // From now on runs are encrypted with the new key, and the session is not.
    let keys = ", encryption: {key: {file: new.key}, old_keys: [{file: old.key}]}";
    project.place.file("shelly.yaml", project.config(&model, "", keys));
    let other = Place::untrusted();
    fs::copy(project.place.path().join("new.key"), other.path().join("new.key")).unwrap();
    other.file("shelly.yaml", project.config(&model, "", ", encryption: {key: {file: new.key}}"));
    let lacking = WorkerProcess::start(&other, &["--accept", "any"]);
    project.submit("second", &["--worker-config", "--session", "first", "Go on."]);
    let declined = project.wait_for("second", |run| run["waits_for"] != Value::Null);
    let why = declined["waits_for"].as_str().unwrap();
    assert!(why.contains("cannot use its session `first`") && why.contains("this host does not have"), "{why}");
    lacking.wait_to_hear("run second is not accepted");
    let _having = WorkerProcess::start(&project.place, &[]);
    assert_eq!(project.wait_until("second", "completed")["answer"], json!("Done."));
}
