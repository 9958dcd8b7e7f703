//! Workers that stand still for longer than their lease, while others go on with their run or its session.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::json;
use shelly_host::{
    agent::journal::{JournalRecord, Recorder},
    app::sessions_of,
    config::Config,
    event::AnsweredBy,
    session::{OpenedSession, SessionError, SessionOpenOptions},
};

use super::{ClusterProject, PATIENCE, WorkerProcess, delegation::wait_for_requests, newer_versions::ask};
use crate::serve::{ModelServer, ReplyGate, calls, says};

/// A model that calls a tool which leaves a line in `ran.txt`, and then has an answer.
struct NotingModel {
    model: ModelServer,
    /// The gates of the first request for the tool, and of all later ones.
    gates: [ReplyGate; 2],
    /// The number of requests for the tool.
    first: Arc<AtomicUsize>,
    /// The number of requests for the answer.
    second: Arc<AtomicUsize>,
}

impl NotingModel {
    fn start() -> Self {
        let gates = [ReplyGate::default(), ReplyGate::default()];
        let (first, second) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let model = ModelServer::start({
            let (gates, first, second) = (gates.clone(), Arc::clone(&first), Arc::clone(&second));
            move |asked| match asked.contains("\"tool\"") {
                false => {
                    gates[first.fetch_add(1, Ordering::SeqCst).min(1)].wait();
                    calls("exec_run", &json!({"command": "tee", "args": ["-a", "ran.txt"], "stdin": "ran\n"}))
                }
                true => {
                    second.fetch_add(1, Ordering::SeqCst);
                    says("Done.")
                }
            }
        });
        Self { model, gates, first, second }
    }

    /// Returns the numbers of requests for the tool and for the answer.
    fn requests(&self) -> (usize, usize) {
        (self.first.load(Ordering::SeqCst), self.second.load(Ordering::SeqCst))
    }

    /// Starts a run on a worker with one job, and stops the worker while it waits for the model.
    fn stopped_worker(&self, project: &ClusterProject) -> WorkerProcess {
        project.submit("run", &["Write it down."]);
        let worker = worker(project);
        wait_for_requests(&self.first, 1);
        worker.signal("-STOP");
        worker
    }
}

fn worker(project: &ClusterProject) -> WorkerProcess {
    WorkerProcess::start(&project.place, &["--approve", "all", "--jobs", "1"])
}

/// Returns what the tool has left behind.
fn left_behind(project: &ClusterProject) -> String {
    fs::read_to_string(project.place.path().join("ran.txt")).unwrap_or_default()
}

#[test]
fn worker_that_lost_its_run_makes_no_further_call() {
    let model = NotingModel::start();
    let Some(project) = ClusterProject::new(&model.model, "toolboxes: [exec]", ", lease: 2s") else { return };
    let away = model.stopped_worker(&project);
    let _other = worker(&project);
    wait_for_requests(&model.first, 2);
    // The reply that calls the tool is there when it comes back.
    model.gates[0].open();
    away.signal("-CONT");
    away.wait_to_hear_one(&["run run is dropped", "run run has lost its session"]);
    assert_eq!((model.requests(), left_behind(&project).as_str()), ((2, 0), ""));
    let run = project.wait_until("run", "running");
    assert_eq!((&run["attempt"], &run["deaths"]), (&json!(2), &json!(1)), "the other one has it: {run}");
    model.gates[1].open();
    let run = project.wait_until("run", "completed");
    assert_eq!((&run["answer"], &run["starts"], &run["deaths"]), (&json!("Done."), &json!(2), &json!(1)), "{run}");
    assert_eq!((model.requests(), left_behind(&project).as_str()), ((2, 1), "ran\n"));
}

#[test]
fn worker_whose_session_others_wrote_gives_the_run_back() {
    let model = NotingModel::start();
    let Some(project) = ClusterProject::new(&model.model, "toolboxes: [exec]", ", lease: 2s") else { return };
    let away = model.stopped_worker(&project);
    let config = Config::read(&project.place.path().join("shelly.yaml")).unwrap();
    let store = sessions_of(&config, project.place.own_key());
    let began = Instant::now();
    let OpenedSession { session, records, .. } = loop {
        match store.open("run", SessionOpenOptions::default()) {
            Ok(opened) => break opened,
            Err(SessionError::InUse { .. }) => thread::sleep(Duration::from_millis(100)),
            Err(error) => panic!("{}", error.report()),
        }
        assert!(began.elapsed() < PATIENCE, "the lease of a worker that stands still does not end");
    };
    let (agent, question) = ("helper".into(), "a line of somebody else".into());
    let decided = JournalRecord::Decided { agent, question, outcome: "allowed".into(), by: AnsweredBy::Person };
    session.write(records.first().map_or(1, |(run, _)| *run), &decided);
    tokio::runtime::Runtime::new().unwrap().block_on(session.close()).unwrap();
    drop(session);
    // Nobody else has taken the run, and the lease on the session is free: the server refuses the next line all the same.
    model.gates[0].open();
    away.signal("-CONT");
    away.wait_to_hear("run run has lost its session");
    assert_eq!((model.requests(), left_behind(&project).as_str()), ((1, 0), ""));
    model.gates[1].open();
    let run = project.wait_until("run", "completed");
    assert_eq!((&run["answer"], &run["starts"], &run["deaths"]), (&json!("Done."), &json!(2), &json!(1)), "{run}");
    assert_eq!((model.requests(), left_behind(&project).as_str()), ((2, 1), "ran\n"));
}

#[test]
fn session_that_was_about_to_be_created_is_waited_for() {
    let model = ModelServer::start(|_| says("Done."));
    let Some(project) = ClusterProject::new(&model, "", ", lease: 5s") else { return };
    let _worker = WorkerProcess::start(&project.place, &["--jobs", "1"]);
    project.submit("first", &["Go."]);
    project.wait_until("first", "completed");
    // As a worker leaves it that dies between its lease and the entry of the session.
    let stored = ask(project.port, "$KV.shelly-team-a-leases.half", "a worker that has died");
    assert!(stored["seq"].is_u64(), "{stored}");
    project.submit("run", &["--session", "half", "Go."]);
    let run = project.wait_until("run", "completed");
    // It may have gone back to the queue once.
    assert_eq!((&run["answer"], &run["deaths"]), (&json!("Done."), &json!(0)), "{run}");
}
