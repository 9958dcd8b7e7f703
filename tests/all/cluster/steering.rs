//! Runs that are watched and steered from elsewhere.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shelly_host::cluster::{RunCommand, RunReply};

use super::{ClusterProject, PATIENCE, WorkerProcess};
use crate::{
    serve::{ModelServer, ReplyGate, calls, says},
    support::Ran,
};

/// Repeats a command until its outcome is as wanted: a run takes commands a moment after it is taken.
fn until(command: impl Fn() -> Ran, is_so: impl Fn(&Ran) -> bool) -> Ran {
    let began = Instant::now();
    loop {
        let ran = command();
        if is_so(&ran) {
            return ran;
        }
        assert!(began.elapsed() < PATIENCE, "{}", ran.shown());
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn attached_person_sees_events_and_answers() {
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let asks = json!({"question": "Which colour?", "options": options});
    let model = ModelServer::start(move |asked| match asked.contains("\"tool\"") {
        false => calls("ask_user", &asks),
        true => says(if asked.contains("blue") && asked.contains("chosen") { "Blue it is." } else { "What?" }),
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    project.submit("paint", &["--session", "house", "Paint it."]);
    let _worker = WorkerProcess::start(&project.place, &[]);
    project.wait_until("paint", "running");
    let attach = |arguments: &[&str]| project.run(&[&["attach", "--config", "shelly.yaml"], arguments].concat());
    let other = || attach(&["--answer", "2", "--question", "99", "paint"]);
    until(other, |ran| ran.code == 2 && ran.stderr.contains("no such open question"));
    // The question comes a moment later than the run; the run is found by its session too.
    let answered = until(|| attach(&["--answer", "2", "house"]), |ran| ran.code == 0);
    assert_eq!(answered.stdout, "answered\n", "{}", answered.shown());
    let shown = attach(&["paint"]);
    assert!(shown.code == 0 && shown.stdout == "Blue it is.\n", "{}", shown.shown());
    for line in ["run started", "question asked", "question answered", "run finished"] {
        assert!(shown.stderr.contains(line), "{line}: {}", shown.shown());
    }
    let lines = attach(&["--output", "json", "house"]);
    let lines: Vec<Value> = lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().any(|line| line["event"] == "question_asked"), "{lines:?}");
    assert_eq!(lines.last().unwrap()["answer"], json!("Blue it is."));
}

#[test]
fn attached_person_sends_messages_and_cancels() {
    let (before, after, is_told) = (ReplyGate::default(), ReplyGate::default(), Arc::new(AtomicBool::new(false)));
    let model = ModelServer::start({
        let (before, after, is_told) = (before.clone(), after.clone(), Arc::clone(&is_told));
        move |asked| match (asked.contains("\"tool\""), asked.contains("use blue")) {
            (false, _) => {
                before.wait();
                calls("exec_run", &json!({"command": "pwd"}))
            }
            (true, false) => says("I was told nothing."),
            (true, true) => {
                is_told.store(true, Ordering::SeqCst);
                after.wait();
                says("Blue.")
            }
        }
    });
    let Some(project) = ClusterProject::new(&model, "toolboxes: [exec]", "") else { return };
    project.submit("paint", &["Paint it."]);
    let _worker = WorkerProcess::start(&project.place, &["--approve", "all"]);
    project.wait_until("paint", "running");
    let attach = |arguments: &[&str]| project.run(&[&["attach", "--config", "shelly.yaml"], arguments].concat());
    let nobody = || attach(&["--message", "use blue", "--agent", "nobody", "paint"]);
    until(nobody, |ran| ran.code == 1 && ran.stderr.contains("does not take it"));
    let told = until(|| attach(&["--message", "use blue", "paint"]), |ran| ran.code == 0);
    assert_eq!(told.stdout, "the message is given\n", "{}", told.shown());
    before.open();
    let began = Instant::now();
    while !is_told.load(Ordering::SeqCst) {
        assert!(began.elapsed() < PATIENCE, "the model does not see the message");
        thread::sleep(Duration::from_millis(20));
    }
    let cancelled = attach(&["--cancel", "paint"]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.shown());
    project.wait_until("paint", "cancelled");
    let late = attach(&["--message", "too late", "paint"]);
    assert!(late.code != 0, "{}", late.shown());
    after.open();
}

#[test]
fn trust_on_the_host_of_a_worker_is_not_given_by_others() {
    let model = ModelServer::start(|asked| match asked.contains("\"tool\"") {
        false => calls("exec_run", &json!({"command": "id"})),
        true => says("Done."),
    });
    let Some(project) = ClusterProject::new(&model, "toolboxes: [exec]", "") else { return };
    project.submit("build", &["Build it."]);
    let _worker = WorkerProcess::start(&project.place, &[]);
    project.wait_until("build", "running");
    let attach = |arguments: &[&str]| project.run(&[&["attach", "--config", "shelly.yaml"], arguments].concat());
    until(|| attach(&["--answer", "trust", "build"]), |ran| ran.stderr.contains("is not understood"));
    // Whoever may publish in the namespace needs no program of this project.
    let command = RunCommand::Answer { question: "1".into(), reply: json!({"verdict": "trust"}) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let reply = runtime.block_on(async { project.cluster().bus().ask("build", &command).await.unwrap() });
    let RunReply::Refused { reason } = reply else { panic!("{reply:?}") };
    assert!(reason.contains("on the host of the worker alone"), "{reason}");
    let answered = until(|| attach(&["--answer", "yes", "build"]), |ran| ran.code == 0);
    assert_eq!(answered.stdout, "answered\n", "{}", answered.shown());
    project.wait_until("build", "completed");
    let permissions = std::fs::read_to_string(project.place.path().join(".shelly/local/permissions.json"));
    assert!(!permissions.is_ok_and(|there| there.contains("\"id\"")), "it is asked about the next time");
}
