//! Agents with `place`, which workers with their labels run for runs on other workers.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shelly_host::{
    cluster::{RunEndState, RunEntry},
    limits,
};

use super::{
    ClusterProject, PATIENCE, WorkerProcess,
    housekeeping::contents,
    nats_server::{NatsServer, free_port},
    run_in,
    shared_state::last_message,
};
use crate::{
    bad_input::answer,
    examples::repository,
    serve::{ModelServer, ReplyGate, calls, says},
};

/// A lead that is run where `cpu` is, and a painter where `gpu` is. `painter` are further keys of the painter, and after it
/// further agents.
fn agents(painter: &str) -> String {
    format!(
        "instructions: YOU-LEAD, place: [cpu], agent_tools: [painter]}}, \
         {{name: painter, description: Paints., instructions: YOU-PAINT, place: [gpu]{painter}"
    )
}

/// The reply of the lead: it calls the painter, and then says what it was told.
fn lead(asked: &str, told: &str) -> String {
    match asked.contains("\"tool\"") {
        false => calls("painter", &json!({"task": "Paint a cat."})),
        true => says(if asked.contains(told) { "The painter has done it." } else { "Something went wrong." }),
    }
}

/// A reply of a model that calls a tool twice.
fn calls_twice(tool: &str, arguments: &Value) -> String {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call = |id: &str| json!({"id": id, "type": "function", "function": function});
    let choice = json!({"message": {"tool_calls": [call("c1"), call("c2")]}, "finish_reason": "tool_calls"});
    answer("200 OK", &json!({"choices": [choice]}).to_string())
}

/// A reply of a model that calls a tool and has cost ten tokens.
fn calls_for_ten_tokens(tool: &str, arguments: &Value) -> String {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call = json!({"id": "c1", "type": "function", "function": function});
    let choice = json!({"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"});
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10});
    answer("200 OK", &json!({"choices": [choice], "usage": usage}).to_string())
}

fn worker(project: &ClusterProject, labels: &str) -> WorkerProcess {
    WorkerProcess::start(&project.place, &["--approve", "all", "--jobs", "1", "--labels", labels])
}

/// Returns the runs of an agent, as the queue has them.
fn runs_of(project: &ClusterProject, agent: &str) -> Vec<RunEntry> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let all = runtime.block_on(async { project.cluster().runs().list(100).await.unwrap() });
    all.into_iter().filter(|entry| entry.spec.agent.as_deref() == Some(agent)).collect()
}

/// Waits until there is exactly one run of an agent, and it has ended.
fn only_run_of(project: &ClusterProject, agent: &str) -> RunEntry {
    let began = Instant::now();
    loop {
        let runs = runs_of(project, agent);
        assert!(runs.len() <= 1, "more than one run: {runs:#?}");
        if let Some(run) = runs.into_iter().find(|run| run.ending().is_some()) {
            return run;
        }
        assert!(began.elapsed() < PATIENCE, "the run of {agent} does not end");
        thread::sleep(Duration::from_millis(100));
    }
}

fn tokens(run: &RunEntry) -> u64 {
    run.ending().unwrap().usage.total()
}

/// Waits until a count of requests to a model is reached.
pub fn wait_for_requests(count: &AtomicUsize, wanted: usize) {
    let began = Instant::now();
    while count.load(Ordering::SeqCst) < wanted {
        assert!(began.elapsed() < PATIENCE, "the model is not asked");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A model whose painter waits for a gate; with the counts of the lead's first requests and of the painter's.
fn gated_model(gate: &ReplyGate) -> (ModelServer, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (leads, paints) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let model = ModelServer::start({
        let (gate, leads, paints) = (gate.clone(), Arc::clone(&leads), Arc::clone(&paints));
        move |asked| {
            if asked.contains("YOU-PAINT") {
                paints.fetch_add(1, Ordering::SeqCst);
                gate.wait();
                return says("A black cat.");
            }
            if !asked.contains("\"tool\"") {
                leads.fetch_add(1, Ordering::SeqCst);
            }
            lead(asked, "A black cat.")
        }
    });
    (model, leads, paints)
}

#[test]
fn delegation_three_deep_needs_one_job_a_worker() {
    let model = ModelServer::start(|asked| match asked {
        asked if asked.contains("YOU-MIX") => says("Red and white."),
        asked if asked.contains("YOU-PAINT") => match asked.contains("\"tool\"") {
            false => calls("mixer", &json!({"task": "Mix pink."})),
            true => says(if asked.contains("Red and white.") { "A pink cat." } else { "No colour." }),
        },
        asked => lead(asked, "A pink cat."),
    });
    let mixer = ", agent_tools: [mixer]}, {name: mixer, description: Mixes., instructions: YOU-MIX, place: [cpu]";
    let Some(project) = ClusterProject::new(&model, &agents(mixer), ", limits: {runs: 1}") else { return };
    // The lead waits on the only worker that can mix, and the namespace takes one run at once.
    let _workers = [worker(&project, "cpu"), worker(&project, "gpu")];
    project.submit("cat", &["Have a cat painted."]);
    let run = project.wait_until("cat", "completed");
    assert_eq!(run["answer"], json!("The painter has done it."), "{run}");
    let (painter, mixer) = (only_run_of(&project, "painter"), only_run_of(&project, "mixer"));
    let parents = [&painter, &mixer].map(|run| run.spec.parent.clone().unwrap());
    assert_eq!((parents[0].run.as_deref(), parents[0].depth), (Some("cat"), 1));
    assert_eq!((parents[1].run.as_ref(), parents[1].depth), (Some(&painter.spec.id), 2));
    assert_eq!(parents[0].session, "cat");
    // Each says something once, for ten tokens, and pays for those below.
    let cat = runs_of_id(&project, "cat");
    assert_eq!((tokens(&mixer), tokens(&painter), tokens(&cat)), (10, 20, 30));
    let steps = project.run(&["session", "show", "--config", "shelly.yaml", "--steps", "cat"]);
    assert!(steps.stdout.contains(&painter.spec.id), "the session names its child: {}", steps.shown());
}

/// Returns the run with this id.
fn runs_of_id(project: &ClusterProject, id: &str) -> RunEntry {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { project.cluster().runs().entry(id).await.unwrap().unwrap() })
}

#[test]
fn server_cannot_read_an_encrypted_delegation() {
    let model = ModelServer::start(|asked| match asked.contains("YOU-PAINT") {
        true => says("secret-of-the-painter"),
        false => lead(asked, "secret-of-the-painter"),
    });
    let keys = ", encryption: {key: {file: content.key}}";
    let Some(project) = ClusterProject::new(&model, &agents(""), keys) else { return };
    assert_eq!(project.run(&["cluster", "key", "content.key"]).code, 0);
    let _workers = [worker(&project, "cpu"), worker(&project, "gpu")];
    project.submit("cat", &["Have a cat painted."]);
    let run = project.wait_until("cat", "completed");
    assert_eq!(run["answer"], json!("The painter has done it."), "{run}");
    let files = contents(&project.place.path().join("nats"));
    assert!(files.contains("shelly.team-a.session.child-"), "the files of the server were read");
    for secret in ["YOU-PAINT", "Paint a cat.", "secret-of-the-painter"] {
        assert!(!files.contains(secret), "{secret}");
    }
}

#[test]
fn killed_workers_of_parent_and_child_cost_nothing_twice() {
    let gate = ReplyGate::default();
    let (model, leads, paints) = gated_model(&gate);
    let Some(project) = ClusterProject::new(&model, &agents(""), "") else { return };
    let (of_lead, of_painter) = (worker(&project, "cpu"), worker(&project, "gpu"));
    project.submit("cat", &["Have a cat painted."]);
    wait_for_requests(&paints, 1);
    of_painter.kill();
    let _of_painter = worker(&project, "gpu");
    wait_for_requests(&paints, 2);
    of_lead.kill();
    let _of_lead = worker(&project, "cpu");
    project.wait_for("cat", |run| run["attempt"] == json!(2));
    gate.open();
    let run = project.wait_until("cat", "completed");
    assert_eq!(run["answer"], json!("The painter has done it."), "{run}");
    let painter = only_run_of(&project, "painter");
    assert_eq!((painter.starts, painter.deaths), (2, 1), "it outlived the worker of its parent");
    assert_eq!((leads.load(Ordering::SeqCst), paints.load(Ordering::SeqCst)), (1, 2));
    assert_eq!((tokens(&painter), tokens(&runs_of_id(&project, "cat"))), (10, 20));
}

#[test]
fn agent_on_a_worker_has_the_board_of_its_parent() {
    let claim = || calls("shared_tasks_claim", &json!({"id": "task-1"}));
    let model =
        ModelServer::start(move |asked| match (asked.contains("YOU-PAINT"), asked.matches("\"tool\"").count()) {
            (true, 0) => claim(),
            (true, _) => says("It is mine."),
            (false, 0) => calls("shared_tasks_create", &json!({"title": "paint a cat"})),
            (false, 1) => calls("painter", &json!({"task": "Paint a cat."})),
            (false, 2) => claim(),
            (false, _) => says(&last_message(asked)),
        });
    let agents = "instructions: YOU-LEAD, toolboxes: [tasks], agent_tools: [painter]}, \
                  {name: painter, description: Paints., instructions: YOU-PAINT, toolboxes: [tasks], place: [gpu]";
    let Some(project) = ClusterProject::new(&model, agents, "") else { return };
    let _worker = worker(&project, "gpu");
    let run = |session: &[&str]| {
        let ran = project.run(&[&["run", "--config", "shelly.yaml"], session, &["Have a cat painted."]].concat());
        assert_eq!(ran.code, 0, "{}", ran.shown());
        ran.stdout
    };
    let claimed = run(&["--session", "art"]);
    let painter = only_run_of(&project, "painter");
    assert_eq!(painter.spec.parent.unwrap().session, "art");
    let holder = format!("is already assigned to painter@{}", painter.spec.session);
    assert!(claimed.contains(&holder), "{claimed}, not {holder}");
    // Without a session there is nothing to share: the painter finds no task on its own board.
    let claimed = run(&["--no-session"]);
    assert!(claimed.contains("in_progress"), "{claimed}");
    assert!(runs_of(&project, "painter").iter().any(|run| run.spec.parent.as_ref().unwrap().session.is_empty()));
}

#[test]
fn drained_parent_leaves_its_child_at_work() {
    let gate = ReplyGate::default();
    let (model, _, paints) = gated_model(&gate);
    let Some(project) = ClusterProject::new(&model, &agents(""), "") else { return };
    let (mut of_lead, _of_painter) = (worker(&project, "cpu"), worker(&project, "gpu"));
    project.submit("cat", &["Have a cat painted."]);
    wait_for_requests(&paints, 1);
    of_lead.terminate();
    let _of_lead = worker(&project, "cpu");
    gate.open();
    project.wait_until("cat", "completed");
    assert_eq!(only_run_of(&project, "painter").starts, 1);
    assert_eq!(paints.load(Ordering::SeqCst), 1);
}

#[test]
fn cancelled_parent_cancels_its_child() {
    let gate = ReplyGate::default();
    let (model, _, paints) = gated_model(&gate);
    let Some(project) = ClusterProject::new(&model, &agents(""), "") else { return };
    let _workers = [worker(&project, "cpu"), worker(&project, "gpu")];
    project.submit("cat", &["Have a cat painted."]);
    wait_for_requests(&paints, 1);
    let cancelled = project.run(&["cluster", "cancel", "--config", "shelly.yaml", "cat"]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.shown());
    project.wait_until("cat", "cancelled");
    assert_eq!(only_run_of(&project, "painter").ending().unwrap().state, RunEndState::Cancelled);
    gate.open();
}

#[test]
fn child_that_ends_late_is_charged_to_its_cancelled_parent() {
    let (gate, paints) = (ReplyGate::default(), Arc::new(AtomicUsize::new(0)));
    let model = ModelServer::start({
        let (gate, paints) = (gate.clone(), Arc::clone(&paints));
        move |asked| match (asked.contains("YOU-PAINT"), asked.contains("\"tool\"")) {
            (false, _) => lead(asked, "A black cat."),
            (true, false) => calls_for_ten_tokens("exec_run", &json!({"command": "pwd"})),
            (true, true) => {
                paints.fetch_add(1, Ordering::SeqCst);
                gate.wait();
                says("A black cat.")
            }
        }
    });
    let Some(project) = ClusterProject::new(&model, &agents(", toolboxes: [exec]"), "") else { return };
    let (_of_lead, of_painter) = (worker(&project, "cpu"), worker(&project, "gpu"));
    project.submit("cat", &["Have a cat painted."]);
    wait_for_requests(&paints, 1);
    of_painter.signal("-STOP");
    let cancelled = project.run(&["cluster", "cancel", "--config", "shelly.yaml", "cat"]);
    assert_eq!(cancelled.code, 0, "{}", cancelled.shown());
    // Longer than the agents of one process are waited for.
    thread::sleep(limits::CANCEL_GRACE * 3 / 2);
    of_painter.signal("-CONT");
    let run = project.wait_until("cat", "cancelled");
    let painter = only_run_of(&project, "painter");
    assert_eq!((painter.ending().unwrap().state, tokens(&painter)), (RunEndState::Cancelled, 10), "{painter:?}");
    let cat = runs_of_id(&project, "cat");
    assert_eq!(
        (tokens(&cat), cat.ending().unwrap().tool_calls),
        (10, 2),
        "its own call, and that of the painter: {run}"
    );
    gate.open();
}

#[test]
fn question_of_a_child_is_answered_at_its_parent() {
    let options = json!([{"label": "black"}, {"label": "white"}]);
    let asks = json!({"question": "Which cat?", "options": options});
    let model = ModelServer::start(move |asked| match (asked.contains("YOU-PAINT"), asked.contains("\"tool\"")) {
        (false, _) => lead(asked, "A white cat."),
        (true, false) => calls("ask_user", &asks),
        (true, true) => {
            says(if asked.contains("white") && asked.contains("chosen") { "A white cat." } else { "What?" })
        }
    });
    let Some(project) = ClusterProject::new(&model, &agents(""), "") else { return };
    let start = |labels: &str| WorkerProcess::start(&project.place, &["--labels", labels]);
    let _workers = [start("cpu"), start("gpu")];
    project.submit("cat", &["Have a cat painted."]);
    let began = Instant::now();
    // The question reaches the parent a moment later.
    loop {
        let answered = project.run(&["attach", "--config", "shelly.yaml", "--answer", "2", "cat"]);
        if answered.code == 0 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{}", answered.shown());
        thread::sleep(Duration::from_millis(100));
    }
    let run = project.wait_until("cat", "completed");
    assert_eq!(run["answer"], json!("The painter has done it."), "{run}");
}

#[test]
fn budget_of_a_child_bounds_it_and_is_charged() {
    let model = ModelServer::start(|asked| match (asked.contains("YOU-PAINT"), asked.contains("\"tool\"")) {
        (false, _) => lead(asked, "I have tried."),
        (true, false) => calls_twice("exec_run", &json!({"command": "pwd"})),
        (true, true) => says("I have tried."),
    });
    let painter = ", toolboxes: [exec], budget: {tool_calls: 1}";
    let Some(project) = ClusterProject::new(&model, &agents(painter), "") else { return };
    let _workers = [worker(&project, "cpu"), worker(&project, "gpu")];
    project.submit("cat", &["Have a cat painted."]);
    let run = project.wait_until("cat", "completed");
    assert_eq!(run["answer"], json!("The painter has done it."), "{run}");
    let (painter, cat) = (only_run_of(&project, "painter"), runs_of_id(&project, "cat"));
    assert_eq!(painter.spec.budget.tool_calls, Some(1));
    let calls = |run: &RunEntry| run.ending().unwrap().tool_calls;
    assert_eq!((calls(&painter), calls(&cat)), (1, 2), "its own call, and that of the painter");
}

#[test]
fn ceiling_of_the_parent_holds_on_the_worker() {
    let model = ModelServer::start(|asked| match asked.contains("YOU-PAINT") {
        true => says(if asked.contains("exec_run") { "I can run programs." } else { "I cannot run programs." }),
        false => match asked.contains("\"tool\"") {
            false => calls("painter", &json!({"task": "Paint a cat."})),
            true => says(if asked.contains("I cannot run programs.") { "Bounded." } else { "Free." }),
        },
    });
    for (delegable, answer) in [("", "Free."), ("delegable: {grant: {clock: true}}, ", "Bounded.")] {
        let agents = format!("{delegable}{}", agents(", toolboxes: [exec]"));
        let Some(project) = ClusterProject::new(&model, &agents, "") else { return };
        let _workers = [worker(&project, "cpu"), worker(&project, "gpu")];
        project.submit("cat", &["Have a cat painted."]);
        let run = project.wait_until("cat", "completed");
        assert_eq!(run["answer"], json!(answer), "{run}");
    }
}

#[test]
fn local_run_waits_for_its_placed_agent() {
    let model = ModelServer::start(|asked| match asked.contains("YOU-PAINT") {
        true => says("A black cat."),
        false => lead(asked, "A black cat."),
    });
    let agents = agents("").replace("place: [cpu], ", "");
    let Some(project) = ClusterProject::new(&model, &agents, "") else { return };
    let _worker = worker(&project, "gpu");
    for (agent, answer) in [("helper", "The painter has done it.\n"), ("painter", "A black cat.\n")] {
        let ran = project.run(&["run", "--config", "shelly.yaml", "--agent", agent, "Have a cat painted."]);
        assert!(ran.code == 0 && ran.stdout == answer, "{}", ran.shown());
    }
    let runs: Vec<Value> =
        runs_of(&project, "painter").iter().map(|run| json!(run.spec.parent.as_ref().map(|it| it.depth))).collect();
    assert_eq!(runs, [json!(0), json!(1)], "the newest first: one without a delegating agent");
}

/// The commands of `examples/17-cluster/README.md`, with the server at a port of the test's own.
#[test]
fn example_runs_on_two_workers() {
    let (place, port) = (repository(), free_port());
    let Some(_server) = NatsServer::start(&place, port) else { return };
    let config = "examples/17-cluster/shelly.yaml";
    let text = fs::read_to_string(place.path().join(config)).unwrap();
    assert!(text.contains("127.0.0.1:4222"), "{text}");
    place.file(config, text.replace("127.0.0.1:4222", &format!("127.0.0.1:{port}")));
    let start = |labels: &str| WorkerProcess::of(place.command(&["worker", "--config", config, "--labels", labels]));
    let _workers = [start("cpu"), start("gpu")];
    let ran = run_in(&place, &["run", "--config", config, "Have a cat painted."]);
    let answer = "The painter has sent a cat, painted where a GPU is.\n";
    assert!(ran.code == 0 && ran.stdout == answer, "{}", ran.shown());
}
