//! Sessions of a project whose config names a cluster. With a NATS server, which `tests/cluster/nats-server.sh` gets, on
//! a real one.

use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shelly_host::{app::sessions, session::NewSession};

use crate::support::Place;

/// A server on this port; `None` if there is no program for it.
struct NatsServer(Child);

impl NatsServer {
    fn start(place: &Place, port: u16) -> Option<Self> {
        let built = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/nats/bin/nats-server");
        let program = env::var_os("SHELLY_NATS_SERVER").map_or(built, PathBuf::from);
        if !program.is_file() {
            eprintln!("skipped: there is no NATS server; tests/cluster/nats-server.sh gets one");
            return None;
        }
        let store = place.path().join("nats");
        let config = format!("host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: \"{}\" }}\n", store.display());
        let config = place.file("nats.conf", config);
        let mut command = Command::new(program);
        let command = command.arg("-c").arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(command.spawn().unwrap());
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "the server does not listen");
            thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A port on which nobody listens.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

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
