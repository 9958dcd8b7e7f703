//! The example of a custom provider, with a server in place of Ollama, and without one.

use std::fs;

use serde_json::json;

use super::program::{asked, closed, says, url};
use crate::{
    PLUGIN_ROOT,
    bad_input::Server,
    support::{Place, Ran},
};

const TEXT: &str = "one two three\na much longer line than the others\n\nfour\nthe last line is long as well\n";
const SECRET: &str = "sk-abcdefghijklmnopqrstuvwxyz0123456789ABCD";

/// The example, but that its server is on this port, and its files are those below `docs`.
fn example(port: u16) -> Place {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/03-custom-provider/shelly.yaml");
    let mut config = fs::read_to_string(path).unwrap();
    let url = url(port);
    for (there, here) in [
        ("http://localhost:11434", url.clone()),
        ("params: {num_ctx", format!("params: {{base_url: \"{url}\", num_ctx")),
        ("path: ../..", "path: docs".into()),
    ] {
        assert!(config.contains(there), "{there}");
        config = config.replace(there, &here);
    }
    let place = Place::new();
    place.file("docs/a.txt", TEXT);
    place.file("docs/secret.txt", format!("the key is {SECRET} and that is all"));
    place.file("shelly.yaml", config);
    place
}

fn ask(place: &Place, question: &str) -> Ran {
    place.run(&["run", "--plugins", PLUGIN_ROOT, question])
}

#[test]
fn provider_example_config_is_valid() {
    // Below the example's own folder, where Ollama may run or not.
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/03-custom-provider/shelly.yaml");
    let ran = Place::new().run(&["config", "check", "--config", path, "--plugins", PLUGIN_ROOT]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    assert!(!ran.stderr.contains("warning"), "{}", ran.shown());
}

/// Within seconds: nobody waits for a server that is not there.
#[test]
fn provider_example_falls_back_without_a_server() {
    let place = example(closed());
    let ask = || ask(&place, "How many words are in a.txt?");
    let first = ask();
    assert!(first.code == 0 && first.stdout.contains("18"), "{}", first.shown());
    assert!(!first.stderr.contains("cache: answer"), "{}", first.shown());
    let second = ask();
    assert!(second.code == 0 && second.stdout == first.stdout, "{}", second.shown());
    assert!(second.stderr.contains("cache: answer"), "{}", second.shown());
}

/// A server that reads the file first.
fn server(file: &'static str) -> Server {
    Server::start(move |request| {
        let has_read = request.contains("\"role\":\"tool\"");
        let call = json!({"function": {"name": "read_file", "arguments": {"path": file}}});
        match has_read {
            false => says(&json!({"role": "assistant", "content": "", "tool_calls": [call]})),
            true => says(&json!({"role": "assistant", "content": "I have read it."})),
        }
    })
}

#[test]
fn provider_example_caches_repeated_requests() {
    let server = server("a.txt");
    let place = example(server.port);
    let first = ask(&place, "What does a.txt say?");
    assert_eq!((first.code, first.stdout.as_str()), (0, "I have read it.\n"), "{}", first.shown());
    assert_eq!(asked(&server).len(), 2);
    assert!(asked(&server)[1].contains("a much longer line"), "{:?}", asked(&server));
    let second = ask(&place, "What does a.txt say?");
    assert_eq!((second.code, second.stdout.as_str()), (0, "I have read it.\n"), "{}", second.shown());
    assert_eq!(asked(&server).len(), 2, "{}", second.shown());
    assert_eq!(second.stderr.matches("cache: answer").count(), 2, "{}", second.shown());
}

#[test]
fn provider_example_redacts_secrets() {
    let server = server("secret.txt");
    let place = example(server.port);
    let ran = ask(&place, "What does secret.txt say?");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "I have read it.\n"), "{}", ran.shown());
    let asked = asked(&server);
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[1].contains("the key is [redacted] and that is all"), "{}", asked[1]);
    assert!(!asked.concat().contains(SECRET));
}

#[test]
fn provider_example_falls_back_on_errors() {
    let server = Server::start(|_| crate::bad_input::answer("404 Not Found", "{\"error\":\"model 'x' not found\"}"));
    let place = example(server.port);
    let ran = ask(&place, "How many words are in a.txt?");
    assert!(ran.code == 0 && ran.stdout.contains("18"), "{}", ran.shown());
    assert!(ran.stderr.contains("fallback: asks ") && ran.stderr.contains(" instead (local: "), "{}", ran.shown());
}
