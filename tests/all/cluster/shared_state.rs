//! State that several hosts share besides sessions: boards of a run tree, and rate limits.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use shelly_host::{
    bucket::StateBucket,
    cluster::{ClusterBucket, ClusterBucketKind, RunParent, RunSpec},
    limits,
};

use super::{ClusterProject, WorkerProcess, run_in};
use crate::{
    PLUGIN_ROOT,
    serve::{ModelServer, calls, says},
    support::Place,
};

/// Returns the content of the last message of a request to a model, as JSON.
pub fn last_message(request: &str) -> String {
    let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
    let body = serde_json::from_str::<Value>(body).unwrap_or_default();
    body["messages"].as_array().and_then(|all| all.last()).map(|last| last["content"].to_string()).unwrap_or_default()
}

#[test]
fn runs_of_one_parent_share_its_boards() {
    let model = ModelServer::start(|asked| match asked.contains("\"tool\"") {
        true => says(&last_message(asked)),
        false if asked.contains("Plan it.") => calls("shared_tasks_create", &json!({"title": "dig"})),
        false if asked.contains("Take it.") => calls("shared_tasks_claim", &json!({"id": "task-1"})),
        false if asked.contains("Write it.") => calls("team_state_set", &json!({"key": "colour", "value": "blue"})),
        false if asked.contains("Read it.") => calls("team_state_get", &json!({"key": "colour"})),
        false => says("Rested."),
    });
    let toolboxes = "toolboxes: [tasks, {name: state, ns: team}]";
    let Some(project) = ClusterProject::new(&model, toolboxes, "") else { return };
    let _workers = ["one", "two"].map(|label| WorkerProcess::start(&project.place, &["--labels", label]));
    project.submit("lead", &["Rest."]);
    project.wait_until("lead", "completed");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let child = |id: &str, parent: &str, label: &str, task: &str| {
        let parent = RunParent { run: None, session: parent.into(), call: "c1".into(), depth: 1 };
        let labels = [label.to_owned()].into();
        let spec = RunSpec { parent: Some(parent), labels, ..RunSpec::new(id, id, Some(task.into())) };
        runtime.block_on(async { project.cluster().runs().submit(spec).await.unwrap() });
        project.wait_until(id, "completed")["answer"].as_str().unwrap().to_owned()
    };
    let planned = child("child-1", "lead", "one", "Plan it.");
    assert!(planned.contains("task-1") && planned.contains("@child-1"), "{planned}");
    let claimed = child("child-2", "lead", "two", "Take it.");
    assert!(claimed.contains("in_progress") && claimed.contains("@child-2"), "{claimed}");
    let refused = child("child-3", "lead", "one", "Take it.");
    assert!(refused.contains("is already assigned to") && refused.contains("@child-2"), "{refused}");
    // A run of a run that works for the session has the same board.
    let refused = child("grandchild", "child-1", "two", "Take it.");
    assert!(refused.contains("is already assigned to") && refused.contains("@child-2"), "{refused}");
    child("writer", "lead", "one", "Write it.");
    let read = child("reader", "lead", "two", "Read it.");
    assert!(read.contains("blue"), "{read}");
    let own = child("child-4", "none", "one", "Plan it.");
    assert!(own.contains("task-1") && !own.contains('@'), "there is no such session: {own}");

    let bucket = ClusterBucket::new(&project.cluster().journals(), ClusterBucketKind::Boards);
    let keys = |session: &str| bucket.keys(&format!("session.{session}")).unwrap();
    assert_eq!(keys("lead"), ["session.lead.blackboard.team", "session.lead.tasks"]);
    assert_eq!(keys("child-2"), ["session.child-2.root"]);
    assert_eq!(keys("child-4"), ["session.child-4.blackboard.team", "session.child-4.tasks"]);
    assert!(keys("none").is_empty(), "{:?}", keys("none"));
    let removed = project.run(&["session", "rm", "--config", "shelly.yaml", "lead"]);
    assert_eq!(removed.code, 0, "{}", removed.shown());
    assert!(keys("lead").is_empty(), "boards are removed with their session");
}

#[test]
fn undo_takes_back_files_and_leaves_boards() {
    let model = ModelServer::start(|asked| match (asked.contains("Take it."), asked.matches("\"tool\"").count()) {
        (false, 0) => calls("fs_write", &json!({"path": "docs/plan.txt", "content": "dig\n"})),
        (false, 1) => calls("shared_tasks_create", &json!({"title": "dig"})),
        (false, _) => says("Planned."),
        (true, 2) => calls("shared_tasks_claim", &json!({"id": "task-1"})),
        (true, _) => says(&last_message(asked)),
    });
    // An agent on another worker is one with which the boards are shared.
    let agents = "toolboxes: [tasks], agent_tools: [painter], \
                  plugins: {filesystem: {files: [{path: docs, mode: read}], powers: [propose-files]}}}, \
                  {name: painter, description: Paints., place: [gpu]";
    let Some(project) = ClusterProject::new(&model, agents, "") else { return };
    let config = project.config(&model, agents, "");
    project.place.file("shelly.yaml", format!("plugin_dirs: ['{PLUGIN_ROOT}']\n{config}"));
    let plan = project.place.file("docs/old.txt", "old\n").with_file_name("plan.txt");
    let run = |task: &str| {
        let ran = project.run(&["run", "--config", "shelly.yaml", "--approve", "all", "--session", "art", task]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        ran.stdout
    };
    assert_eq!(run("Plan it."), "Planned.\n");
    assert!(plan.exists());
    let bucket = ClusterBucket::new(&project.cluster().journals(), ClusterBucketKind::Boards);
    let keys = bucket.keys("session.art").unwrap();
    assert!(keys.iter().any(|key| key == "session.art.tasks"), "the board is shared: {keys:?}");
    let undone = project.run(&["session", "undo", "--config", "shelly.yaml", "--yes", "art"]);
    assert!(undone.code == 0 && undone.stdout == "undone\n", "{}", undone.shown());
    assert!(undone.stderr.contains("the task board and the blackboards of the session stay"), "{}", undone.shown());
    assert!(!plan.exists());
    let claimed = run("Take it.");
    assert!(claimed.contains("in_progress"), "the task is still there: {claimed}");
}

#[test]
fn root_that_names_no_session_is_not_used() {
    let model = ModelServer::start(|_| says("Rested."));
    let Some(project) = ClusterProject::new(&model, "toolboxes: [tasks]", "") else { return };
    let _worker = WorkerProcess::start(&project.place, &[]);
    project.submit("lead", &["Rest."]);
    project.wait_until("lead", "completed");
    let bucket = ClusterBucket::new(&project.cluster().journals(), ClusterBucketKind::Boards);
    let long = vec![b'a'; limits::SESSION_NAME_BYTES + 1];
    assert!(bucket.write("session.lead.root", None, Some(&long)).unwrap().is_some());
    let parent = RunParent { run: None, session: "lead".into(), call: "c1".into(), depth: 1 };
    let spec = RunSpec { parent: Some(parent), ..RunSpec::new("child", "child", Some("Rest.".into())) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { project.cluster().runs().submit(spec).await.unwrap() });
    let failed = project.wait_until("child", "failed");
    assert!(failed["error"].to_string().contains("the entry `session.lead.root` names no session"), "{failed}");
    assert!(bucket.keys("session.child").unwrap().is_empty(), "nothing of it is handed on");
}

#[test]
fn two_hosts_share_the_rate_limit_of_a_provider() {
    let asked = Arc::new(AtomicUsize::new(0));
    let model = ModelServer::start({
        let asked = Arc::clone(&asked);
        move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            says("Done.")
        }
    });
    let agent = "budget: {time: 5s}";
    let Some(project) = ClusterProject::new(&model, agent, "") else { return };
    let config = project.config(&model, agent, "").replace("retries: 0", "retries: 0, rate_limit: {rpm: 1}");
    let other = Place::untrusted();
    let run = |place: &Place| {
        place.file("shelly.yaml", &config);
        run_in(place, &["run", "--config", "shelly.yaml", "--no-session", "Go."])
    };
    let first = run(&project.place);
    assert!(first.code == 0 && first.stdout == "Done.\n", "{}", first.shown());
    // The minute of the first request is not over.
    let second = run(&other);
    assert_eq!((second.code, asked.load(Ordering::SeqCst)), (1, 1), "{}", second.shown());
    assert!(second.stderr.contains("the time budget of 5s is used up"), "{}", second.shown());
}
