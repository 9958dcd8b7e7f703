//! Configs and plugins that come with runs, and the runs that a worker accepts.

use std::{fs, path::Path};

use serde_json::{Value, json};
use shelly_host::{
    cluster::{RunEntry, RunPhase, RunSpec, SpecFile},
    digest::Sha256Digest,
    limits,
};

use super::{ClusterProject, PATIENCE, WorkerProcess, run_in};
use crate::{
    serve::{ModelServer, calls, says},
    support::Place,
};

/// Submits a run from another host, and returns its id.
fn submit_from(place: &Place, id: &str, arguments: &[&str]) {
    let ran = run_in(place, &[&["submit", "--config", "shelly.yaml", "--id", id], arguments].concat());
    assert!(ran.code == 0, "{}", ran.shown());
}

#[test]
fn installed_agent_goes_to_the_worker_with_its_skill() {
    let model = ModelServer::start(|asked| {
        let is_critic = asked.contains("Be strict.") && asked.contains("Look twice.");
        says(if is_critic { "Strict." } else { "Lenient." })
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let other = Place::untrusted();
    other.file("shelly.yaml", project.config(&model, "", ""));
    let manifest = "id = \"reviewer\"\nversion = \"1.0.0\"\ndescription = \"Reviews\"\n\
                    files = [\"agents.yaml\", \"skills/look/SKILL.md\"]\n";
    other.file("reviewer/agent.toml", manifest);
    let agents = "agents: [{name: critic, description: Finds mistakes, instructions: Be strict.}]\n";
    other.file("reviewer/agents.yaml", agents);
    other.file("reviewer/skills/look/SKILL.md", "Look twice.\n");
    let installed = other.run(&["agent", "install", "./reviewer", "--yes"]);
    assert_eq!(installed.code, 0, "{}", installed.shown());
    let _worker = WorkerProcess::start(&project.place, &["--accept", "any"]);
    submit_from(&other, "strict", &["--agent", "critic", "Review."]);
    let run = project.wait_for("strict", |run| run["state"] == json!("completed") || run["state"] == json!("failed"));
    assert_eq!(run["answer"], json!("Strict."), "{run}");
    // A worker that has not installed it does not take the run for its own.
    assert!(!project.place.path().join("shelly.lock").exists());
}

#[test]
fn worker_declines_configs_that_are_not_its_own() {
    let model = ModelServer::start(|asked| says(if asked.contains("Be terse.") { "Terse." } else { "Long." }));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let other = Place::untrusted();
    other.file("shelly.yaml", project.config(&model, "instructions: Be terse.", ""));
    let worker = WorkerProcess::start(&project.place, &["--accept", "own"]);
    submit_from(&other, "foreign", &["Hello."]);
    let declined = project.wait_for("foreign", |run| run["waits_for"] != Value::Null);
    let why = declined["waits_for"].as_str().unwrap();
    assert!(why.contains("is not that of the worker") && why.contains("--accept trusted"), "{declined}");
    assert!(declined["declines"].as_u64() >= Some(1), "{declined}");
    let listed = project.run(&["cluster", "runs", "--config", "shelly.yaml"]);
    assert!(listed.stdout.contains(", declined "), "{}", listed.shown());
    worker.wait_to_hear("run foreign is not accepted");
    // The same config from another folder is the worker's own; without any, the worker's is used.
    other.file("same.yaml", fs::read_to_string(project.place.path().join("shelly.yaml")).unwrap());
    let same = run_in(&other, &["submit", "--config", "same.yaml", "--wait", "Hello."]);
    assert!(same.code == 0 && same.stdout == "Long.\n", "{}", same.shown());
    let without = run_in(&other, &["submit", "--config", "shelly.yaml", "--worker-config", "--wait", "Hello."]);
    assert!(without.code == 0 && without.stdout == "Long.\n", "{}", without.shown());
    // Whoever looks first gets it: with two it is seldom the one that declines it again.
    let _any = [(); 2].map(|()| WorkerProcess::start(&project.place, &["--accept", "any"]));
    assert_eq!(project.wait_until("foreign", "completed")["answer"], json!("Terse."));
}

#[test]
fn worker_accepts_what_its_operator_has_trusted() {
    let model = ModelServer::start(|asked| says(if asked.contains("Be terse.") { "Terse." } else { "Long." }));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let trusted = project.place.run(&["config", "trust", "--yes"]);
    assert_eq!(trusted.code, 0, "{}", trusted.shown());
    let other = Place::untrusted();
    other.file("shelly.yaml", project.config(&model, "instructions: Be terse.", ""));
    let _worker = WorkerProcess::start(&project.place, &["--accept", "trusted"]);
    submit_from(&other, "terse", &["Hello."]);
    assert_eq!(project.wait_until("terse", "completed")["answer"], json!("Terse."), "it names nothing new");
    other.file("shelly.yaml", project.config(&model, "toolboxes: [exec]", ""));
    submit_from(&other, "powerful", &["Hello."]);
    let declined = project.wait_for("powerful", |run| run["waits_for"] != Value::Null);
    assert!(declined["waits_for"].as_str().unwrap().contains("has not trusted"), "{declined}");
}

#[test]
fn plugin_goes_to_the_worker_by_its_digest() {
    let model = ModelServer::start(|asked| match asked.contains("\"tool\"") {
        false => calls("count_text", &json!({"text": "one two three"})),
        true => says(if asked.contains("words\\\":3") { "Three." } else { "No idea." }),
    });
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let other = Place::untrusted();
    let folder = Path::new(crate::PLUGIN_ROOT).join("count-text");
    let manifest = fs::read_to_string(folder.join("plugin.toml")).unwrap().replace("\"count-text\"", "\"own-count\"");
    other.file("own/own-count/plugin.toml", manifest);
    other.file("own/own-count/count_text.wasm", fs::read(folder.join("count_text.wasm")).unwrap());
    other.file("shelly.yaml", project.config(&model, "plugins: {own-count: }", ""));
    let _worker = WorkerProcess::start(&project.place, &["--accept", "any", "--approve", "all"]);
    submit_from(&other, "count", &["--plugins", "own", "Count."]);
    let run = project.wait_for("count", |run| run["state"] == json!("completed") || run["state"] == json!("failed"));
    assert_eq!(run["answer"], json!("Three."), "{run}");
}

#[test]
fn bundles_that_cannot_be_used_are_declined_by_name() {
    let model = ModelServer::start(|_| says("Never asked."));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let submit = |id: &str, digest: Sha256Digest| {
        let spec = RunSpec { bundle: Some(digest), ..RunSpec::new(id, id, Some("Hello.".into())) };
        runtime.block_on(async { project.cluster().runs().submit(spec).await.unwrap() });
    };
    let put = |bytes: &str| {
        let bytes = bytes.to_owned().into_bytes().into();
        runtime.block_on(async { project.cluster().objects().put(bytes).await.unwrap() })
    };
    let missing = Sha256Digest::of("nobody has stored this");
    submit("missing", missing);
    submit("newer", put(r#"{"version": 99}"#));
    submit("broken", put("{}"));
    submit("large", put(&" ".repeat(usize::try_from(limits::CLUSTER_BUNDLE_BYTES).unwrap() + 1)));
    submit("wrong", put(r#"{"version": 1, "config": "agents: 7", "plugins": []}"#));
    let _worker = WorkerProcess::start(&project.place, &["--accept", "any"]);
    for (id, says) in [
        ("missing", missing.to_string()),
        ("newer", "has version 99, and this host reads up to version 1".into()),
        ("broken", "the config bundle cannot be read".into()),
        ("large", format!("more than {}", limits::CLUSTER_BUNDLE_BYTES)),
        ("wrong", "its config cannot be used here".into()),
    ] {
        let waits = |entry: &RunEntry| match &entry.phase {
            RunPhase::Queued { waits_for } => waits_for.clone(),
            _ => None,
        };
        let began = std::time::Instant::now();
        let why = loop {
            let entry = runtime.block_on(async { project.cluster().runs().entry(id).await.unwrap().unwrap() });
            if let Some(why) = waits(&entry) {
                break why;
            }
            assert!(began.elapsed() < PATIENCE, "{entry:?}");
            std::thread::sleep(std::time::Duration::from_millis(100));
        };
        assert!(why.contains(&says), "{id}: {why}");
    }
}

#[test]
fn files_that_are_too_large_together_end_the_run() {
    let model = ModelServer::start(|_| says("Never asked."));
    let Some(project) = ClusterProject::new(&model, "", "") else { return };
    let file = |name: &str| SpecFile {
        name: name.into(),
        media_type: "application/pdf".into(),
        digest: Sha256Digest::of(name),
        bytes: limits::ATTACHED_MEDIA_BYTES,
    };
    let spec =
        RunSpec { files: ["a", "b", "c"].map(file).into(), ..RunSpec::new("large", "large", Some("Read.".into())) };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async { project.cluster().runs().submit(spec).await.unwrap() });
    let _worker = WorkerProcess::start(&project.place, &[]);
    let failed = project.wait_until("large", "failed");
    assert!(failed["error"].to_string().contains("bytes together, more than"), "{failed}");
}
