//! Sessions of a project whose config names a cluster. With a NATS server, which `tests/cluster/nats-server.sh` gets, on
//! a real one.

use std::{fs, net::TcpListener};

use serde_json::{Value, json};
use shelly_host::{app::sessions, session::NewSession};

use crate::{
    cluster::nats_server::{NatsServer, free_port},
    support::Place,
};

fn config(port: u16) -> String {
    format!("cluster: {{nats: 'nats://127.0.0.1:{port}', namespace: team-a}}\n")
}

#[test]
fn cluster_is_not_reached_before_consent() {
    let place = Place::untrusted();
    let port = free_port();
    // Whoever connects here is noticed.
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    listener.set_nonblocking(true).unwrap();
    place.file(".shelly/config.yaml", config(port));
    for arguments in [
        &["session", "list"][..],
        &["session", "show", "last"],
        &["session", "rm", "a"],
        &["session", "resume", "a"],
        &["trace", "last"],
        &["run", "--session", "a", "Go."],
    ] {
        let ran = place.run(arguments);
        let says = ran.stderr.contains("in a cluster that you have not trusted yet");
        assert!(ran.code == 2 && says, "{arguments:?}: {}", ran.shown());
    }
    assert!(listener.accept().is_err(), "somebody connected");
}

#[test]
fn session_commands_need_consent_to_a_cluster() {
    let place = Place::untrusted();
    let port = free_port();
    place.file(".shelly/config.yaml", config(port));
    for arguments in [
        &["trace", "last"][..],
        &["session", "list"],
        &["session", "show", "last"],
        &["session", "search", "words"],
        &["session", "export", "last"],
        &["session", "undo", "last"],
        &["session", "fork", "last"],
        &["session", "copy", "last", "--to", "local"],
        &["session", "rm", "a"],
        &["session", "prune", "--older-than", "1d"],
        &["run", "--session", "a", "Go."],
    ] {
        let refused = place.run(arguments);
        let says = "in a cluster that you have not trusted yet";
        assert!(refused.code == 2 && refused.stderr.contains(says), "{arguments:?}: {}", refused.shown());
        // With consent for this command, the server is missed.
        let ran = place.run(&[arguments, &["--trust"]].concat());
        let address = format!("nats://127.0.0.1:{port}");
        let is_missed = ran.code != 0 && ran.stderr.contains(&address) && !ran.stderr.contains(says);
        assert!(is_missed, "{arguments:?}: {}", ran.shown());
    }
}

#[test]
fn session_is_copied_to_a_cluster_and_back() {
    let place = Place::untrusted();
    let port = free_port();
    let new = NewSession { id: Some("tale".into()), agent: "ada".into(), ..NewSession::default() };
    let session = sessions(&place.path(), place.own_key()).create(new).unwrap();
    session.begin_events();
    drop(session);
    let without = place.run(&["session", "copy", "tale", "--to", "cluster"]);
    assert!(without.code == 2 && without.stderr.contains("the config names no cluster"), "{}", without.shown());

    place.file("shelly.yaml", config(port));
    let copy =
        |to: &str| place.run(&["session", "copy", "--config", "shelly.yaml", "--to", to, "--output", "json", "tale"]);
    let away = copy("cluster");
    let address = format!("nats://127.0.0.1:{port}");
    assert!(away.code != 0 && (away.stdout.contains(&address) || away.stderr.contains(&address)), "{}", away.shown());

    let Some(_server) = NatsServer::start(&place, port) else { return };
    let done = |to: &str| {
        let ran = copy(to);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    assert_eq!(done("cluster"), json!({ "id": "tale", "to": "cluster" }));
    let again = copy("cluster");
    assert!(again.code == 2, "{}", again.shown());
    fs::remove_dir_all(place.path().join(".shelly/local/sessions/tale")).unwrap();
    let list = place.run(&["session", "list", "--config", "shelly.yaml"]);
    assert!(list.code == 0 && list.stdout.contains("tale"), "{}", list.shown());
    let trace = place.run(&["trace", "--config", "shelly.yaml", "--format", "jsonl", "tale"]);
    assert!(trace.code == 0 && trace.stdout.contains("stream_started"), "{}", trace.shown());
    assert!(!trace.stdout.contains("no events were recorded"), "{}", trace.shown());
    assert_eq!(done("local"), json!({ "id": "tale", "to": "local" }));
    for file in ["journal.jsonl", "events.jsonl"] {
        assert!(place.path().join(".shelly/local/sessions/tale").join(file).is_file(), "{file}");
    }
    let removed = place.run(&["session", "rm", "--config", "shelly.yaml", "tale"]);
    assert_eq!(removed.code, 0, "{}", removed.shown());
}
