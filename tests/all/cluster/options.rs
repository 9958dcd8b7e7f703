//! Options of the commands, and what they refuse.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use serde_json::{Value, json};
use shelly_host::{capability::Budget, limits};

use super::{ClusterProject, WorkerProcess, free_port, run_in};
use crate::{
    serve::{ModelServer, calls, says},
    support::Place,
};

#[test]
fn submitted_options_reach_the_run() {
    let model = ModelServer::start(|asked| {
        let is_whole = asked.contains("\"n\"") && asked.contains("the content of the file `notes.txt`");
        says(if is_whole { "{\"city\": \"Paris\"}" } else { "Which file?" })
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let url = format!("http://127.0.0.1:{}/v1", model.port);
    let cheap = format!(
        "providers: [{{name: cheap, kind: openai, base_url: \"{url}\", model: n, context_window: 32768, price: {{input: 1, \
         output: 1}}}}, "
    );
    let config = project.config(&model, "", "").replace("providers: [", &cheap);
    project.place.file("other.yaml", config.replace("agents: [", "agents: [{name: lead, provider: local}, "));
    project.place.file("notes.txt", "It is in France.");
    project.place.file("city.json", r#"{"type": "object", "properties": {"city": {"type": "string"}}}"#);
    let _worker = WorkerProcess::start(&project.place, &["--accept", "any"]);
    let ran = project.run(&[
        "submit",
        "--config",
        "other.yaml",
        "--agent",
        "helper",
        "--model",
        "cheap",
        "--attach",
        "notes.txt",
        "--schema",
        "city.json",
        "--max-cost",
        "0.5",
        "--max-tokens",
        "100000",
        "--id",
        "city",
        "--wait",
        "Where is it?",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert_eq!(serde_json::from_str::<Value>(&ran.stdout).unwrap(), json!({"city": "Paris"}));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let spec = runtime.block_on(async { project.cluster().runs().entry("city").await.unwrap().unwrap() }).spec;
    assert_eq!((spec.agent.as_deref(), spec.model.as_deref(), spec.files.len()), (Some("helper"), Some("cheap"), 1));
    let budget = Budget { usd: "0.5".parse().ok(), tokens: Some(100_000), ..Budget::default() };
    assert_eq!(spec.budget, budget);
    // The first agent of the config is another one.
    let sessions = project.run(&["session", "list", "--config", "shelly.yaml"]);
    assert!(sessions.stdout.contains("helper"), "{}", sessions.shown());
    let many = "{\"task\": \"Go.\"}\n".repeat(limits::CLUSTER_SUBMITTED_RUNS + 1);
    project.place.file("many.jsonl", many);
    let astray = "{\"task\": \"Go.\", \"agent\": \"helper\"}\n{\"task\": \"Go.\", \"agent\": \"helpr\"}\n";
    project.place.file("astray.jsonl", astray);
    project.place.file("strange.jsonl", "{\"task\": \"Go.\"}\n\n{\"task\": \"Go.\", \"model\": \"zzz\"}\n");
    for (arguments, says) in [
        (&["--tasks", "many.jsonl"][..], "more than 10000"),
        (&["--id", "No!", "Go."], "an id has"),
        (&["--label", "No!", "Go."], "a label has"),
        (&["--priority", "urgent", "Go."], "invalid value"),
        (&["--max-tokens", "0", "Go."], "invalid value"),
        (&["--tasks", "none.jsonl"], "none.jsonl"),
        (&["--attach", "none.txt", "Go."], "none.txt"),
        (&["--tasks", "none.jsonl", "Go."], "cannot be used with"),
        (&[], "required"),
        (&[], "shelly-host submit --tasks FILE"),
        (&["--agent", "helpr", "Go."], "there is no agent `helpr`"),
        (&["--agent", "helpr", "Go."], "did you mean `helper`?"),
        (&["--model", "zzz", "Go."], "there is no model `zzz`"),
        (&["--tasks", "astray.jsonl"], "used by astray.jsonl, line 2"),
        (&["--tasks", "strange.jsonl"], "used by strange.jsonl, line 3"),
    ] {
        let ran = project.run(&[&["submit", "--config", "shelly.yaml"], arguments].concat());
        assert!(ran.code == 2 && ran.stderr.contains(says), "{arguments:?}: {}", ran.shown());
    }
    // The config of the worker is not known here.
    project.submit("far", &["--worker-config", "--agent", "helpr", "Go."]);
}

#[test]
fn cluster_commands_need_consent_and_a_cluster() {
    let model = ModelServer::start(|_| says("Never asked."));
    let (place, port) = (Place::untrusted(), free_port());
    place.file(".shelly/config.yaml", model.config(""));
    let commands = [
        &["submit", "Go."][..],
        &["worker"],
        &["attach", "a"],
        &["cluster", "status"],
        &["cluster", "runs"],
        &["cluster", "cancel", "a"],
        &["cluster", "prune"],
    ];
    for arguments in commands {
        let ran = place.run(arguments);
        assert!(ran.code == 2 && ran.stderr.contains("the config names no cluster"), "{arguments:?}: {}", ran.shown());
    }
    // Whoever connects here is noticed.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let cluster = format!("cluster: {{nats: 'nats://127.0.0.1:{port}', namespace: team-a}}\n");
    place.file(".shelly/config.yaml", format!("{}{cluster}", model.config("")));
    for arguments in commands {
        let ran = place.run(arguments);
        let says = ["without your consent", "that you have not trusted yet"];
        assert!(ran.code == 2 && says.iter().any(|it| ran.stderr.contains(it)), "{arguments:?}: {}", ran.shown());
    }
    assert!(listener.accept().is_err(), "somebody connected");
    drop(listener);
    // With consent for this command, the server is missed.
    for arguments in [
        &["submit", "--trust", "Go."][..],
        &["worker", "--trust"],
        &["attach", "--trust", "a"],
        &["cluster", "status", "--trust"],
        &["cluster", "runs", "--trust"],
        &["cluster", "cancel", "--trust", "a"],
        &["cluster", "prune", "--trust"],
    ] {
        let ran = place.run(arguments);
        let address = format!("nats://127.0.0.1:{port}");
        assert!(ran.code == 1 && ran.stderr.contains(&address), "{arguments:?}: {}", ran.shown());
    }
}

#[test]
fn worker_takes_its_options() {
    let model = ModelServer::start(|asked| match asked.contains("\"tool\"") {
        false => calls("exec_run", &json!({"command": "pwd"})),
        true => says("Done."),
    });
    let Some(project) = ClusterProject::new(&model, "toolboxes: [exec]", "") else { return };
    project.place.plugin("hollow", "kinds = [\"tool\"]\n", crate::bad_input::HOLLOW);
    let options = [
        "--approve",
        "never",
        "--plugins",
        "plugins",
        "--max-cost",
        "0.5",
        "--jobs",
        "3",
        "--labels",
        "gpu,eu",
        "--listen",
        ":0",
    ];
    let config =
        project.config(&model, "toolboxes: [exec]", "").replace("model: m,", "model: m, price: {input: 1, output: 1},");
    project.place.file("shelly.yaml", config);
    let mut worker = WorkerProcess::start(&project.place, &options);
    let said = worker.said();
    let address =
        said.lines().find_map(|line| line.strip_prefix("health and metrics at http://")).unwrap().trim().to_owned();
    let get = |path: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(get("/healthz").starts_with("HTTP/1.1 200") && get("/other").starts_with("HTTP/1.1 404"));
    // The policy refuses the program; the agent goes on.
    project.submit("refused", &["--plugins", "plugins", "--label", "gpu", "Where are we?"]);
    assert_eq!(project.wait_until("refused", "completed")["answer"], json!("Done."));
    let sessions = project.run(&["session", "show", "--config", "shelly.yaml", "--full", "refused"]);
    let is_refused = sessions.stdout.contains("needs a person's consent") && !sessions.stdout.contains("[DIR]");
    assert!(sessions.code == 0 && is_refused, "{}", sessions.shown());
    let metrics = get("/metrics");
    for line in ["shelly_worker_runs_taken_total 1", "shelly_worker_runs_left_total{outcome=\"completed\"} 1"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let status = project.run(&["cluster", "status", "--config", "shelly.yaml", "--output", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    let shown = &status["workers"][0];
    assert_eq!((&shown["jobs"], &shown["labels"]), (&json!(3), &json!(["eu", "gpu"])), "{status}");
    assert_eq!(worker.terminate(), 128 + 15);
    let wrong = run_in(&project.place, &["worker", "--config", "shelly.yaml", "--listen", "0.0.0.0:0"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("for this machine alone"), "{}", wrong.shown());
    for wrong in [["--jobs", "0"], ["--labels", "No!"], ["--accept", "all"]] {
        assert_eq!(project.run(&[&["worker", "--config", "shelly.yaml"], &wrong[..]].concat()).code, 2, "{wrong:?}");
    }
}
