//! Keys for the content of a cluster, and the removal of what is old.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use serde_json::{Value, json};

use super::{ClusterProject, WorkerProcess};
use crate::{
    serve::{ModelServer, says},
    support::Place,
};

#[test]
fn key_of_a_cluster_is_made_once() {
    let place = Place::untrusted();
    let made = place.run(&["cluster", "key", "--output", "json", "content.key"]);
    let key: Value = serde_json::from_str(&made.stdout).unwrap_or_else(|_| panic!("{}", made.shown()));
    assert_eq!(key["key"].as_str().map(str::len), Some(16), "{key}");
    let path = place.path().join("content.key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text = fs::read_to_string(&path).unwrap();
    let again = place.run(&["cluster", "key", "content.key"]);
    assert!(again.code == 2 && again.stderr.contains("it is not replaced"), "{}", again.shown());
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    let other = place.run(&["cluster", "key", "other.key"]);
    assert!(other.code == 0 && other.stdout.starts_with("made the key "), "{}", other.shown());
    // One that others can read is not used.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let cluster = "nats: 'nats://127.0.0.1:1', namespace: team-a, encryption: {key: {file: content.key}}";
    place.file("shelly.yaml", format!("cluster: {{{cluster}}}\n"));
    let refused = place.run(&["cluster", "status", "--config", "shelly.yaml"]);
    assert!(refused.code == 2 && refused.stderr.contains("mode 644"), "{}", refused.shown());
}

#[test]
fn key_files_are_checked_before_they_are_used() {
    let (place, model) = (Place::untrusted(), ModelServer::start(|_| says("Never asked.")));
    assert_eq!(place.run(&["cluster", "key", "good.key"]).code, 0);
    let path = |name: &str| place.path().join(name);
    for name in ["same.key", "open.key"] {
        fs::copy(path("good.key"), path(name)).unwrap();
    }
    place.file("broken.key", "not a key");
    for (name, mode) in [("open.key", 0o644), ("broken.key", 0o600)] {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let old = ["none.key", "broken.key", "open.key", "same.key"].map(|name| format!("{{file: {name}}}")).join(", ");
    let keys = format!("encryption: {{key: {{file: good.key}}, old_keys: [{old}]}}");
    let cluster = format!("cluster: {{nats: 'nats://127.0.0.1:1', namespace: team-a, {keys}}}\n");
    place.file("shelly.yaml", format!("{}{cluster}", model.config("")));
    let wrong = [
        ("cluster.encryption.old_keys[0]: the key file ", "none.key cannot be used: "),
        ("cluster.encryption.old_keys[1]: the key file ", "it does not have 64 hexadecimal digits"),
        ("cluster.encryption.old_keys[2]: the key file ", "others can read or change it (mode 644); `chmod 600` it"),
        ("cluster.encryption.old_keys[3]: the file has the same key as cluster.encryption.key", ""),
    ];
    let checked = place.run(&["config", "check", "--config", "shelly.yaml"]);
    for (at, why) in wrong {
        let is_told =
            |line: &str| line.contains(at) && line.contains(why) && line.contains("shelly-host cluster key FILE");
        assert!(checked.stderr.lines().any(is_told), "{at}: {}", checked.shown());
    }
    assert_eq!(checked.code, 0, "{}", checked.shown());
    let ran = place.run(&["doctor", "--offline", "--config", "shelly.yaml", "--output", "json"]);
    let report: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.shown()));
    let of_keys = |status: &str| {
        let findings = report["findings"].as_array().unwrap().iter();
        let found = findings.filter(|finding| finding["check"] == "keys" && finding["status"] == *status);
        found.cloned().collect::<Vec<_>>()
    };
    let problems = of_keys("problem");
    assert_eq!((ran.code, problems.len()), (1, wrong.len()), "{report:#}");
    for (at, why) in wrong {
        let is_told = |message: &str| message.contains(at) && message.contains(why);
        assert!(problems.iter().any(|one| one["message"].as_str().is_some_and(is_told)), "{at}: {problems:?}");
    }
    let usable = |finding: &Value| finding["message"] == "1 key file of the cluster can be used";
    assert!(of_keys("ok").iter().any(usable), "{report:#}");
}

#[test]
fn old_runs_and_unused_objects_are_removed() {
    let model = ModelServer::start(|_| says("The answer is no secret-of-the-model."));
    let keys = ", encryption: {key: {file: content.key}}";
    let Some(project) = ClusterProject::new(&model, "", keys) else { return };
    assert_eq!(project.run(&["cluster", "key", "content.key"]).code, 0);
    let worker = WorkerProcess::start(&project.place, &[]);
    project.submit("first", &["Tell secret-of-the-person."]);
    let first = project.wait_until("first", "completed");
    assert_eq!(first["answer"], json!("The answer is no secret-of-the-model."), "{first}");
    drop(worker);
    let shown = project.run(&["session", "show", "--config", "shelly.yaml", "first"]);
    assert!(shown.stdout.contains("secret-of-the-person"), "{}", shown.shown());
    // The files of the server have neither.
    let files = contents(&project.place.path().join("nats"));
    assert!(files.contains("shelly.team-a.session.first"), "the files of the server were read");
    for secret in ["secret-of-the-person", "secret-of-the-model"] {
        assert!(!files.contains(secret), "{secret}");
    }
    let status = project.run(&["cluster", "status", "--config", "shelly.yaml", "--output", "json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap_or_else(|_| panic!("{}", status.shown()));
    assert_eq!(status["newer"], json!({"runs": 0, "workers": 0, "sessions": 0}));
    let prune =
        |arguments: &[&str]| project.run(&[&["cluster", "prune", "--config", "shelly.yaml"], arguments].concat());
    let kept = prune(&[]);
    assert!(kept.code == 0 && kept.stdout.starts_with("removed 0 runs and 0 objects"), "{}", kept.shown());
    let removed = prune(&["--older-than", "0s", "--output", "json"]);
    let removed: Value = serde_json::from_str(&removed.stdout).unwrap_or_else(|_| panic!("{}", removed.shown()));
    assert_eq!((&removed["runs"], &removed["skipped"]), (&json!(1), &Value::Null), "{removed}");
    // What was sent within the last days stays: a run that needs it may be on its way.
    assert_eq!((&removed["objects"], &removed["kept"]), (&json!(0), &json!(1)), "{removed}");
    let runs = project.run(&["cluster", "runs", "--config", "shelly.yaml", "--output", "json"]);
    assert_eq!(runs.stdout.trim(), "[]", "{}", runs.shown());
}

/// Returns what the files below a folder hold, as text.
pub fn contents(folder: &Path) -> String {
    let mut all = String::new();
    // The server removes some of them meanwhile.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => all.push_str(&contents(&path)),
            path => all.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap_or_default())),
        }
    }
    all
}
