//! Runs that are put into the queue, and the workers that take them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use serde_json::{Value, json};
use shelly_host::{
    cluster::{NamespaceLimits, QueuedRunEnd, RunEndState, RunSpec, WorkerIdentity},
    limits,
};

use super::{ClusterProject, PATIENCE, WorkerProcess};
use crate::serve::{ModelServer, ReplyGate, says};

#[test]
fn submitted_run_is_done_by_a_worker() {
    let model = ModelServer::start(|asked| match asked.contains("Fail.") {
        true => crate::bad_input::answer("400 Bad Request", "{}"),
        false => says("Four."),
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    project.submit("first", &["What is two and two?"]);
    assert_eq!(project.wait_until("first", "queued")["worker"], Value::Null);
    let again = project.run(&[
        "submit",
        "--config",
        "shelly.yaml",
        "--id",
        "first",
        "--output",
        "json",
        "What is two and two?",
    ]);
    let known: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(known, json!({"run": "first", "session": "first", "task": null, "known": true}));
    let other = project.run(&["submit", "--config", "shelly.yaml", "--id", "first", "Another task."]);
    assert!(other.code == 2 && other.stderr.contains("first"), "{}", other.shown());

    let _worker = WorkerProcess::start(&project.place, &[]);
    let first = project.wait_until("first", "completed");
    assert_eq!(
        (&first["answer"], &first["starts"], &first["deaths"]),
        (&json!("Four."), &json!(1), &json!(0)),
        "{first}"
    );
    assert_eq!(first["usage"]["input_tokens"], 7, "{first}");
    let sessions = project.run(&["session", "list", "--config", "shelly.yaml"]);
    assert!(sessions.code == 0 && sessions.stdout.contains("first"), "{}", sessions.shown());

    let waited = project.run(&["submit", "--config", "shelly.yaml", "--wait", "What is two and two?"]);
    assert!(waited.code == 0 && waited.stdout == "Four.\n", "{}", waited.shown());
    let as_json = ["submit", "--config", "shelly.yaml", "--wait", "--output", "json", "--id", "third", "Again?"];
    let waited = project.run(&as_json);
    let end: Value = serde_json::from_str(&waited.stdout).unwrap();
    assert_eq!(
        (&end["ok"], &end["answer"], &end["session"]),
        (&json!(true), &json!("Four."), &json!("third")),
        "{end}"
    );
    // A second run in the session of the first one.
    let on = project.run(&["submit", "--config", "shelly.yaml", "--wait", "--session", "first", "And three?"]);
    assert!(on.code == 0 && on.stdout == "Four.\n", "{}", on.shown());
    let shown = project.run(&["session", "show", "--config", "shelly.yaml", "first"]);
    assert!(shown.stdout.contains("two and two") && shown.stdout.contains("And three?"), "{}", shown.shown());
    let failed = project.run(&["submit", "--config", "shelly.yaml", "--wait", "Fail."]);
    assert!(failed.code == 4 && failed.stdout.is_empty(), "{}", failed.shown());
}

#[test]
fn two_workers_share_the_runs_of_a_file() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (asked, gate) = (Arc::new(AtomicUsize::new(0)), ReplyGate::default());
    let model = ModelServer::start({
        let (now, most, asked) = (Arc::clone(&now), Arc::clone(&most), Arc::clone(&asked));
        move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            let at_once = now.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(at_once, Ordering::SeqCst);
            // The first replies wait until more runs are at work than one worker may have.
            if at_once > 2 {
                gate.open();
            }
            gate.wait();
            gate.open();
            std::thread::sleep(std::time::Duration::from_millis(100));
            now.fetch_sub(1, Ordering::SeqCst);
            says("Done.")
        }
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let tasks: String =
        (1..=30).map(|n| json!({"id": format!("t{n}"), "task": format!("Task {n}.")}).to_string() + "\n").collect();
    project.place.file("tasks.jsonl", tasks);
    let _workers = [0, 1].map(|_| WorkerProcess::start(&project.place, &["--jobs", "2"]));
    let ran = project.run(&["submit", "--config", "shelly.yaml", "--tasks", "tasks.jsonl", "--id", "many", "--wait"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let ends: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tasks: BTreeSet<_> = ends.iter().map(|end| end["task"].as_str().unwrap()).collect();
    assert_eq!((ends.len(), tasks.len(), asked.load(Ordering::SeqCst)), (30, 30, 30), "each once");
    assert!(ends.iter().all(|end| end["ok"] == json!(true)) && ends[29]["run"] == json!("many-30"), "{ends:?}");
    let most = most.load(Ordering::SeqCst);
    assert!((3..=4).contains(&most), "both work, and each has at most two at once: {most}");
    let status = project.run(&["cluster", "status", "--config", "shelly.yaml", "--output", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let workers = status["workers"].as_array().unwrap();
    assert!(workers.len() == 2 && workers.iter().all(|worker| worker["jobs"] == json!(2)), "{status}");
    assert_eq!((&status["namespace"], &status["runs"]), (&json!("team-a"), &json!([])), "{status}");
    let text = project.run(&["cluster", "status", "--config", "shelly.yaml"]);
    assert!(
        text.code == 0 && text.stdout.contains("no run is at work") && text.stdout.contains("STREAM"),
        "{}",
        text.shown()
    );
    let few = project.run(&["cluster", "runs", "--config", "shelly.yaml", "--limit", "2"]);
    assert_eq!(few.stdout.lines().count(), 3, "{}", few.shown());
}

#[test]
fn runs_are_taken_by_label_and_priority() {
    let (gate, order) = (ReplyGate::default(), Arc::new(std::sync::Mutex::new(Vec::new())));
    let model = ModelServer::start({
        let (gate, order) = (gate.clone(), Arc::clone(&order));
        move |asked| {
            let task =
                ["block", "low", "normal", "high"].into_iter().find(|word| asked.contains(&format!("Task {word}.")));
            order.lock().unwrap().extend(task);
            if task == Some("block") {
                gate.wait();
            }
            says("Done.")
        }
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    project.submit("gpu", &["--label", "gpu", "--label", "eu", "Task gpu."]);
    project.submit("block", &["Task block."]);
    let plain = WorkerProcess::start(&project.place, &["--jobs", "1"]);
    project.wait_until("block", "running");
    for priority in ["low", "normal", "high"] {
        project.submit(priority, &["--priority", priority, &format!("Task {priority}.")]);
    }
    gate.open();
    for id in ["low", "normal", "high"] {
        project.wait_until(id, "completed");
    }
    assert_eq!(*order.lock().unwrap(), ["block", "high", "normal", "low"]);
    assert_eq!(project.wait_until("gpu", "queued")["labels"], json!(["eu", "gpu"]));
    drop(plain);
    let _worker = WorkerProcess::start(&project.place, &["--labels", "gpu,eu,big"]);
    project.wait_until("gpu", "completed");
}

#[test]
fn waiting_run_and_run_at_work_are_cancelled() {
    let gate = ReplyGate::default();
    let model = ModelServer::start({
        let gate = gate.clone();
        move |_| {
            gate.wait();
            says("Late.")
        }
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    project.submit("waits", &["Wait."]);
    let cancelled = project.run(&["cluster", "cancel", "--config", "shelly.yaml", "--output", "json", "waits"]);
    let run: Value = serde_json::from_str(&cancelled.stdout).unwrap();
    assert_eq!((&run["state"], cancelled.code), (&json!("cancelled"), 0), "{run}");
    project.submit("works", &["Work."]);
    let _worker = WorkerProcess::start(&project.place, &[]);
    project.wait_until("works", "running");
    let cancelled = project.run(&["cluster", "cancel", "--config", "shelly.yaml", "works"]);
    assert!(cancelled.code == 0 && cancelled.stdout.starts_with("works: "), "{}", cancelled.shown());
    let works = project.wait_until("works", "cancelled");
    assert_eq!(works["answer"], Value::Null, "{works}");
    let waited = project.run(&["attach", "--config", "shelly.yaml", "works"]);
    assert!(waited.code == 1 && waited.stderr.contains("was cancelled"), "{}", waited.shown());
    let unknown = project.run(&["cluster", "cancel", "--config", "shelly.yaml", "none"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("neither a run nor a session `none`"), "{}", unknown.shown());
    gate.open();
}

#[test]
fn limits_of_a_namespace_hold_with_several_workers() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = ReplyGate::default();
    let model = ModelServer::start({
        let (now, most, gate) = (Arc::clone(&now), Arc::clone(&most), gate.clone());
        move |_| {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            gate.wait();
            now.fetch_sub(1, Ordering::SeqCst);
            says("Done.")
        }
    });
    let Some(project) = ClusterProject::new(&model, "", ", limits: {runs: 3, tokens: 100000}") else { return };
    let ids = ["a", "b", "c", "d", "e"];
    // Two runs with this budget use all tokens of the namespace.
    ids.iter().for_each(|id| project.submit(id, &["--max-tokens", "50000", "Go."]));
    let _workers = [0, 1].map(|_| WorkerProcess::start(&project.place, &["--jobs", "4"]));
    let began = std::time::Instant::now();
    let waits = |run: &Value| run["state"] == json!("queued") && run["waits_for"] != Value::Null;
    // The third run does not fit; its entry says what it waits for.
    while !ids.iter().any(|id| waits(&project.wait_for(id, |_| true))) {
        assert!(began.elapsed() < PATIENCE, "no run waits");
    }
    assert_eq!(now.load(Ordering::SeqCst), 2);
    let status = project.run(&["cluster", "status", "--config", "shelly.yaml", "--output", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!((&status["reserved"]["runs"], &status["limits"]["tokens"]), (&json!(2), &json!(100_000)), "{status}");
    gate.open();
    for id in ids {
        project.wait_until(id, "completed");
    }
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[test]
fn runs_that_ended_long_ago_are_forgotten() {
    let model = ModelServer::start(|_| says("Never asked."));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let runs = project.cluster().runs();
    runtime.block_on(async {
        for (id, age) in [("new", limits::CLUSTER_ENDED_KEPT / 2), ("old", limits::CLUSTER_ENDED_KEPT * 2)] {
            runs.submit(RunSpec::new(id, id, Some("Go.".into()))).await.unwrap();
            let worker = WorkerIdentity { id: "w".into(), labels: BTreeSet::new(), limits: NamespaceLimits::default() };
            let taken = runs.take(&worker, PATIENCE).await.unwrap().unwrap();
            let finished = SystemTime::now() - age;
            taken.finish(QueuedRunEnd { finished, ..QueuedRunEnd::new(RunEndState::Completed) }).await.unwrap();
        }
    });
    assert_eq!(project.wait_until("old", "completed")["run"], json!("old"));
    let _worker = WorkerProcess::start(&project.place, &[]);
    project.wait_for("old", Value::is_null);
    assert_eq!(project.wait_until("new", "completed")["run"], json!("new"));
}
