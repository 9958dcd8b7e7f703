//! The commands of `docs/cluster.md`, on three hosts.

use std::{fs, path::Path};

use serde_json::json;

use super::{NatsServer, WorkerProcess, free_port, run_in};
use crate::{
    serve::{ModelServer, says},
    support::Place,
};

#[test]
fn operator_walks_from_nothing_to_three_hosts() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cluster.md");
    let page = fs::read_to_string(page).unwrap();
    let model = ModelServer::start(|asked| says(if asked.contains("2 + 2") { "Four." } else { "No typos." }));
    let (hosts, port) = ([Place::untrusted(), Place::untrusted(), Place::untrusted()], free_port());
    let Some(_server) = NatsServer::start(&hosts[0], port) else { return };
    // The config of the page, with the address of the server here, and a model.
    let config = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(config.contains("nats: nats://10.0.0.5:4222\n"), "{config}");
    let config = config.replace("10.0.0.5:4222", &format!("127.0.0.1:{port}"));
    for host in &hosts {
        host.file("shelly.yaml", format!("{}{config}", model.config("")));
        let trusted = run_in(host, &["config", "trust", "--yes"]);
        assert_eq!(trusted.code, 0, "{}", trusted.shown());
    }
    let shown = |command: &str| assert!(page.contains(&format!("shelly-host {command}")), "the page lacks `{command}`");
    let on_first = |command: &str, arguments: &[&str]| {
        shown(command);
        let ran = run_in(&hosts[0], arguments);
        assert_eq!(ran.code, 0, "{command}: {}", ran.shown());
        ran.stdout
    };
    shown("config trust");
    let typos = "Look for typos in docs/";
    on_first(&format!("run \"{typos}\""), &["run", typos]);
    shown("session list");
    let list = run_in(&hosts[1], &["session", "list"]);
    assert!(list.code == 0 && list.stdout.contains("Look for typos"), "{}", list.shown());

    shown("worker --jobs 4");
    let start = |host: &Place| WorkerProcess::of(host.command(&["worker", "--jobs", "4"]));
    let _workers = [start(&hosts[1]), start(&hosts[2])];
    shown(&format!("submit \"{typos}\""));
    // The name of the session as it is.
    let submitted = hosts[0].command(&["submit", typos]).output().unwrap();
    let id = String::from_utf8(submitted.stdout).unwrap();
    assert_eq!(on_first("attach ", &["attach", id.trim()]), "No typos.\n");
    let four = on_first("submit --wait \"What is 2 + 2?\"", &["submit", "--wait", "What is 2 + 2?"]);
    assert_eq!(four, "Four.\n");
    let task = |n: u32| json!({"task": format!("Look into part {n}.")}).to_string() + "\n";
    hosts[0].file("tasks.jsonl", (1..=3).map(task).collect::<String>());
    let submit = "submit --tasks tasks.jsonl --id typos";
    let ids = on_first(submit, &["submit", "--tasks", "tasks.jsonl", "--id", "typos"]);
    assert_eq!(ids, "typos-1\ntypos-2\ntypos-3\n");
    let status = on_first("cluster status", &["cluster", "status"]);
    assert!(status.contains("namespace team-a") && status.matches("/4").count() == 2, "{status}");
    assert_eq!(on_first("attach typos-1", &["attach", "typos-1"]), "No typos.\n");
}
