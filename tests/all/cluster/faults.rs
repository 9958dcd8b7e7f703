//! Workers that die, are told to stop, or take over what another one left.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::json;
use shelly_host::{
    agent::journal::{JournalRecord, RecordedRunEnd, Recorder},
    app::sessions_of,
    capability::BudgetBreakdown,
    chat::{Message, Role, Usage},
    cluster::{Cluster, ClusterOptions, NamespaceLimits, RunSpec, WorkerIdentity},
    config::Config,
    limits,
    session::NewSession,
};

use super::{ClusterProject, PATIENCE, WorkerProcess};
use crate::serve::{ModelServer, ReplyGate, calls, says};

/// A model that calls a tool, and whose answer after it waits for a gate; with the counts of both requests.
fn stepping_model(gate: &ReplyGate) -> (ModelServer, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (first, second) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let model = ModelServer::start({
        let (gate, first, second) = (gate.clone(), Arc::clone(&first), Arc::clone(&second));
        move |asked| match asked.contains("\"tool\"") {
            false => {
                first.fetch_add(1, Ordering::SeqCst);
                calls("exec_run", &json!({"command": "pwd"}))
            }
            true => {
                second.fetch_add(1, Ordering::SeqCst);
                gate.wait();
                says("Done.")
            }
        }
    });
    (model, first, second)
}

fn wait_for_request(count: &AtomicUsize) {
    let began = std::time::Instant::now();
    while count.load(Ordering::SeqCst) == 0 {
        assert!(began.elapsed() < PATIENCE, "the model is not asked");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[test]
fn killed_worker_is_replaced_without_repeated_steps() {
    let gate = ReplyGate::default();
    let (model, first, second) = stepping_model(&gate);
    let Some(project) = ClusterProject::new(&model, "toolboxes: [exec]", "") else { return };
    project.submit("run", &["Where are we?"]);
    let worker = WorkerProcess::start(&project.place, &["--approve", "all"]);
    wait_for_request(&second);
    worker.kill();
    let _next = WorkerProcess::start(&project.place, &["--approve", "all"]);
    let taken = project.wait_for("run", |run| run["attempt"] == json!(2));
    assert_eq!((&taken["state"], &taken["deaths"]), (&json!("running"), &json!(1)), "{taken}");
    gate.open();
    let run = project.wait_until("run", "completed");
    assert_eq!((&run["answer"], &run["starts"]), (&json!("Done."), &json!(2)), "{run}");
    assert_eq!(first.load(Ordering::SeqCst), 1, "the first step is in the journal");
    assert_eq!(second.load(Ordering::SeqCst), 2, "the reply to the second one was lost with the worker");
    let steps = project.run(&["session", "show", "--config", "shelly.yaml", "run"]);
    assert_eq!(steps.stdout.matches("user\n  Where are we?").count(), 1, "{}", steps.shown());
}

#[test]
fn signal_gives_runs_back() {
    let gate = ReplyGate::default();
    let (model, first, second) = stepping_model(&gate);
    let Some(project) = ClusterProject::new(&model, "toolboxes: [exec]", "") else { return };
    project.submit("run", &["Where are we?"]);
    let mut worker = WorkerProcess::start(&project.place, &["--approve", "all"]);
    wait_for_request(&second);
    let began = std::time::Instant::now();
    assert_eq!(worker.terminate(), 128 + 15, "{}", worker.said());
    assert!(worker.said().contains("draining\n"), "{}", worker.said());
    let left = project.wait_until("run", "queued");
    assert_eq!((&left["starts"], &left["deaths"]), (&json!(1), &json!(0)), "{left}");
    gate.open();
    let _next = WorkerProcess::start(&project.place, &["--approve", "all"]);
    let run = project.wait_until("run", "completed");
    assert_eq!((&run["answer"], &run["deaths"]), (&json!("Done."), &json!(0)), "{run}");
    assert_eq!((first.load(Ordering::SeqCst), second.load(Ordering::SeqCst)), (1, 2));
    assert!(began.elapsed() < limits::CLUSTER_LEASE, "nobody waited for a lease to end");
}

#[test]
fn run_that_kills_its_workers_is_poisoned() {
    let model = ModelServer::start(|_| says("Never asked."));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        // Their leases are short, so that nobody waits long.
        let options =
            ClusterOptions { lease: std::time::Duration::from_secs(3), ..project.cluster().options().clone() };
        let cluster = Cluster::new(options);
        let spec = RunSpec::new("bad", "bad", Some("Crash.".into()));
        cluster.runs().submit(spec).await.unwrap();
        for n in 0..limits::CLUSTER_RUN_DEATHS {
            let of_namespace = NamespaceLimits::default();
            let worker = WorkerIdentity { id: format!("w-{n}"), labels: [].into(), limits: of_namespace };
            // Dropped as by a crash.
            let taken = cluster.runs().take(&worker, PATIENCE).await.unwrap();
            drop(taken.unwrap_or_else(|| panic!("the run is not offered again: {n}")));
        }
    });
    let _worker = WorkerProcess::start(&project.place, &[]);
    let run = project.wait_until("bad", "poisoned");
    assert_eq!(run["deaths"], json!(limits::CLUSTER_RUN_DEATHS), "{run}");
    let attached = project.run(&["attach", "--config", "shelly.yaml", "bad"]);
    assert!(attached.code == 1 && attached.stderr.contains("too many workers died with it"), "{}", attached.shown());
}

#[test]
fn ended_session_is_reported_without_a_second_run() {
    let model = ModelServer::start(|_| says("Asked twice."));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    // The worker died after the end of the session, before that of the entry.
    let config = Config::read(&project.place.path().join("shelly.yaml")).unwrap();
    let store = sessions_of(&config, project.place.own_key());
    let new = NewSession { id: Some("tale".into()), agent: "helper".into(), ..NewSession::default() };
    let session = store.create(new).unwrap();
    let outcome = RecordedRunEnd::Answered { message: Message::text(Role::Assistant, "helper", "Once.") };
    for record in [
        JournalRecord::Began {
            agent: "helper".into(),
            instance: "helper".into(),
            model: "m".into(),
            depth: 0,
            delegation_key: None,
            continues: None,
            side_chat: None,
            input: vec![Message::user("Say it once.").with_queued_run("run")],
            prompt: "".into(),
            changes: Vec::new(),
        },
        JournalRecord::Ended {
            changes: Vec::new(),
            outcome,
            iterations: 1,
            usage: Usage::default(),
            account: BudgetBreakdown::default(),
        },
    ] {
        session.write(1, &record);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        session.close().await.unwrap();
        drop(session);
        let cluster = project.cluster();
        cluster.runs().submit(RunSpec::new("run", "tale", Some("Say it once.".into()))).await.unwrap();
        let of_namespace = NamespaceLimits::default();
        let dead = WorkerIdentity { id: "dead".into(), labels: [].into(), limits: of_namespace };
        cluster.runs().take(&dead, PATIENCE).await.unwrap().unwrap().give_back().await.unwrap();
    });
    let _worker = WorkerProcess::start(&project.place, &[]);
    let run = project.wait_until("run", "completed");
    assert_eq!((&run["answer"], &run["starts"]), (&json!("Once."), &json!(2)), "{run}");
}
