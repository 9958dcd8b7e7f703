//! The check of the cluster by `doctor`, and what a worker says of a lease that has no effect.

use std::net::TcpListener;

use serde_json::Value;

use super::{ClusterProject, WorkerProcess, free_port, run_in};
use crate::{
    serve::{ModelServer, says},
    support::Place,
};

/// Runs `doctor` with these arguments. Returns its exit code, and the findings of the cluster: status, message and hint.
fn cluster_findings(place: &Place, arguments: &[&str]) -> (i32, Vec<[String; 3]>) {
    let ran = run_in(place, &[&["doctor", "--output", "json"], arguments].concat());
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.shown()));
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == "cluster");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let findings = findings.map(|finding| ["status", "message", "hint"].map(|key| text(finding, key)));
    (ran.code, findings.collect())
}

#[test]
fn doctor_says_what_the_server_of_the_cluster_has() {
    let model = ModelServer::start(|_| says("Done."));
    let Some(project) = ClusterProject::new(&model, "", ", lease: 20s") else { return };
    let worker = WorkerProcess::start(&project.place, &[]);
    assert!(!worker.said().contains("has no effect"), "{}", worker.said());
    project.submit("first", &["Go."]);
    project.wait_until("first", "completed");
    let named = ["--config", "shelly.yaml"];
    let answers = format!("namespace `team-a`: nats://127.0.0.1:{} answers with JetStream: ", project.port);
    let (_, findings) = cluster_findings(&project.place, &named);
    assert_eq!(findings, [["ok".to_owned(), format!("{answers}1 session, 1 worker"), String::new()]]);
    let (_, findings) = cluster_findings(&project.place, &[&named[..], &["--offline"]].concat());
    let not_asked = "the servers of the cluster were not asked: --offline";
    assert_eq!(findings, [["note", not_asked, ""].map(str::to_owned)]);

    // Another host names another lease.
    project.place.file("other.yaml", project.config(&model, "", ", lease: 25s, namespaces: [{namespace: team-b}]"));
    let (_, findings) = cluster_findings(&project.place, &["--config", "other.yaml"]);
    let warning = "the lease of the namespace is 20s, from its first use; `lease: 25s` has no effect";
    assert!(findings.len() == 3 && findings[0][1].starts_with(&answers), "{findings:?}");
    assert_eq!(findings[1][..2], ["note".to_owned(), format!("namespace `team-a`: {warning}")]);
    assert!(findings[1][2].contains("write `lease: 20s`"), "{findings:?}");
    assert!(findings[2][1].ends_with("0 sessions, 0 workers"), "the further namespace: {findings:?}");
    let mut command = project.place.command(&["worker", "--config", "other.yaml"]);
    command.args(["--namespace", "team-a"]);
    let other = WorkerProcess::of(command);
    assert_eq!(other.said().matches(warning).count(), 1, "{}", other.said());
}

#[test]
fn doctor_says_why_the_cluster_cannot_be_used() {
    let model = ModelServer::start(|_| says("Done."));
    let (place, port) = (Place::untrusted(), free_port());
    let (url, secured) = (format!("nats://127.0.0.1:{port}"), format!("tls://127.0.0.1:{port}"));
    let config =
        |url: &str, keys: &str| format!("{}cluster: {{nats: '{url}', namespace: team-a{keys}}}\n", model.config(""));
    let away = format!("namespace `team-a`: cannot connect to {url}: ");
    for (url, keys, reason, mend) in [
        (&url, "", away.as_str(), "check cluster.nats"),
        (&url, ", credentials: {file: keys/none.creds}", "keys/none.creds cannot be used", "cluster.credentials"),
        (&secured, ", certificates: keys/none.pem", "keys/none.pem cannot be used", "cluster.certificates"),
    ] {
        place.file("away.yaml", config(url, keys));
        let (code, findings) = cluster_findings(&place, &["--config", "away.yaml"]);
        let [[status, message, hint]] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!((code, status.as_str()), (1, "problem"), "{findings:?}");
        assert!(message.contains(reason) && hint.contains(mend), "{findings:?}");
    }

    // For a project that is not trusted nobody is asked. Whoever connects here is noticed.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    place.file(".shelly/config.yaml", config(&url, ""));
    let (_, findings) = cluster_findings(&place, &[]);
    let not_asked = "the servers of the cluster were not asked: the project is not trusted";
    assert_eq!(findings, [["note", not_asked, ""].map(str::to_owned)]);
    assert!(listener.accept().is_err(), "somebody connected");
    place.file(".shelly/config.yaml", model.config(""));
    let (_, findings) = cluster_findings(&place, &[]);
    assert_eq!(findings, [["ok", "the config names no cluster", ""].map(str::to_owned)]);
}
