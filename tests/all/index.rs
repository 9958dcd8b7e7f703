//! The command `shelly-host index`: an agent renews the context that agents are given of a project, and `--check` says
//! whether that is due.

use std::{
    collections::VecDeque,
    fs,
    sync::Mutex,
    time::{Duration, SystemTime},
};

use insta::assert_snapshot;
use serde_json::{Value, json};

use crate::{
    bad_input::{Server, answer},
    support::Place,
};

/// The git repository of this place has moved so long after `.shelly/context.md` was written.
fn moved(place: &Place, seconds: u64) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + seconds;
    place.file(".git/HEAD", "ref: refs/heads/main\n");
    place.file(".git/logs/HEAD", format!("0 1 A <a@b> {now} +0000\tcommit: more\n"));
}

#[test]
fn index_check_reports_a_stale_index() {
    let place = Place::new();
    let check = |more: &[&str]| place.run(&[&["index", "--check"], more].concat());
    let missing = check(&[]);
    assert_eq!((missing.code, place.path().join(".shelly").exists()), (1, false), "it writes nothing");
    assert_snapshot!(missing.shown(), @"
    exit code 1
    --- stdout
    the index is out of date: .shelly/context.md is missing; update it with shelly-host index
    --- stderr
    ");
    place.file(".shelly/context.md", "It is a bird.");
    let fresh = check(&[]);
    assert_eq!((fresh.code, fresh.stdout.as_str()), (0, ".shelly/context.md is up to date\n"));
    moved(&place, 60);
    let stale = check(&[]);
    assert_eq!(stale.code, 1);
    assert_snapshot!(stale.shown(), @"
    exit code 1
    --- stdout
    the index is out of date: the git repository has changed since .shelly/context.md was written; update it with shelly-host index
    --- stderr
    ");
    let json: Value = serde_json::from_str(&check(&["--output", "json"]).stdout).unwrap();
    assert_eq!(
        json,
        json!({
            "event": "result", "fresh": false,
            "reason": "the git repository has changed since .shelly/context.md was written",
        })
    );
    // Of another project, by its config.
    place.file("other/.shelly/config.yaml", "agents: [{name: ada}]\n");
    place.file("other/.shelly/context.md", "It is a fish.");
    fs::File::options()
        .write(true)
        .open(place.path().join("other/.shelly/context.md"))
        .unwrap()
        .set_modified(SystemTime::now() + Duration::from_secs(120))
        .unwrap();
    assert_eq!(check(&["--config", "other/.shelly/config.yaml"]).code, 0);
}

/// A model that makes these calls, one a reply, and then answers.
fn model(calls: &[(&str, Value)]) -> Server {
    let calls: VecDeque<_> =
        calls.iter().map(|(name, given)| json!({"name": name, "arguments": given.to_string()})).collect();
    let calls = Mutex::new(calls);
    Server::start(move |_| {
        let (message, stop) = match calls.lock().unwrap().pop_front() {
            Some(function) => {
                (json!({"tool_calls": [{"id": "1", "type": "function", "function": function}]}), "tool_calls")
            }
            None => (json!({"content": "It says what is true now."}), "stop"),
        };
        let usage = json!({"prompt_tokens": 1, "completion_tokens": 1});
        answer("200 OK", &json!({"choices": [{"message": message, "finish_reason": stop}], "usage": usage}).to_string())
    })
}

/// A project with the template's config, on a model that makes these calls.
fn project(calls: &[(&str, Value)]) -> (Place, Server) {
    let (place, server) = (Place::new(), model(calls));
    let ran = place.run(&["init", "--template", "project-indexer"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let config = place.path().join(".shelly/config.yaml");
    let text = fs::read_to_string(&config).unwrap();
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    fs::write(config, format!("{text}\nproviders: [{{name: m, kind: openai, base_url: '{url}', model: m}}]\n"))
        .unwrap();
    fs::remove_file(place.path().join(".shelly/context.md")).unwrap();
    (place, server)
}

const INDEX: [&str; 5] = ["index", "--plugins", crate::PLUGIN_ROOT, "--config", ".shelly/config.yaml"];

#[test]
fn indexer_of_the_template_writes_the_context() {
    let write = ("fs_write", json!({"path": ".shelly/context.md", "content": "It is a bird."}));
    let (place, server) = project(&[write]);
    assert_eq!(place.run(&["index", "--check"]).code, 1);
    let ran = place.run(&[&INDEX[..], &["--approve", "all"]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "It says what is true now.\n"), "{}", ran.shown());
    assert_eq!(fs::read_to_string(place.path().join(".shelly/context.md")).unwrap(), "It is a bird.");
    assert_eq!(place.run(&["index", "--check"]).code, 0);
    let asked = server.asked.lock().unwrap();
    assert!(asked[0].contains("Update the description of this project") && asked[0].contains("index-project"));
}

#[test]
fn index_takes_the_flags_of_a_run() {
    let write = ("fs_write", json!({"path": ".shelly/context.md", "content": "It is a bird."}));
    let (place, _server) = project(&[write]);
    let index = |more: &[&str]| {
        let flags = ["index", "--plugins", crate::PLUGIN_ROOT, "--config", ".shelly/config.yaml", "--stdin", "never"];
        place.run(&[&flags, more].concat())
    };
    for (flag, name) in [("--agent", "nobody"), ("--model", "none")] {
        let ran = index(&[flag, name]);
        assert!(ran.code == 2 && ran.stderr.contains(name), "{}", ran.shown());
    }
    let ran =
        index(&["--agent", "indexer", "--model", "m", "--approve", "all", "--trust", "--verbose", "--output", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let result: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&result["answer"], &result["agent"]), (&json!("It says what is true now."), &json!("indexer")));
    assert!(ran.stderr.contains("CPU"), "what each call of a plugin costs: {}", ran.shown());
    assert_eq!(index(&["--check"]).code, 0);
}

#[test]
fn unwritten_index_is_a_failure() {
    let write = ("fs_write", json!({"path": ".shelly/context.md", "content": "It is a bird."}));
    // Nobody says yes to what it would write.
    let (place, _server) = project(&[write]);
    let ran = place.run(&[&INDEX[..], &["--approve", "never"]].concat());
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.stderr.contains("the index is still out of date: .shelly/context.md is missing"), "{}", ran.shown());
    assert!(!place.path().join(".shelly/context.md").exists());
}

#[test]
fn config_without_an_indexer_says_how_to_get_one() {
    let place = Place::new();
    place.file("shelly.yaml", "agents: [{name: ada}]\n");
    assert_snapshot!(place.run(&["index"]).shown(), @"
    exit code 2
    --- stdout
    --- stderr
    error: there is no agent `indexer`
      hint:  name the agent that updates the index with --agent, or write a config that has one: shelly-host init --template project-indexer
    ");
    let help = place.run(&["index", "--help"]).stdout;
    assert!(help.contains("Usage: shelly-host index [OPTIONS]\n") && help.contains("--check\n"), "{help}");
}
