//! API keys: a key is shown to the server that it is meant for and to nobody else, wherever it comes from, however it is
//! sent, and whatever the server makes of it.

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Arc, atomic},
    thread,
};

use serde_json::{Value, json};

use crate::{
    bad_input::{Server, answer},
    support::{Place, Ran},
};

/// With characters that JSON, URLs and base64 each write in their own way.
const KEY: &str = r#"sk-a"b/c+never-shown-42?>"#;

/// The key as a part of a URL, with upper-case and with lower-case digits.
const PERCENT: &str = "sk-a%22b%2Fc%2Bnever-shown-42%3F%3E";
const SMALL_DIGITS: &str = "sk-a%22b%2fc%2bnever-shown-42%3f%3e";

/// The key as base64.
const BASE64: &str = "c2stYSJiL2MrbmV2ZXItc2hvd24tNDI/Pg";
const URL_BASE64: &str = "c2stYSJiL2MrbmV2ZXItc2hvd24tNDI_Pg";

/// The key as it is written in JSON.
const ESCAPED: &str = r#"sk-a\"b/c+never-shown-42?>"#;
/// A part of it that is the same however it is written, but for base64.
const PART: &str = "never-shown-42";

const ALL: [&str; 6] = [KEY, ESCAPED, PERCENT, SMALL_DIGITS, BASE64, URL_BASE64];

/// The source of the credential, and how it is sent.
struct Way {
    name: &'static str,
    /// Of the model in the config, with `URL` for where the server is; empty: there is no config.
    keys: &'static str,
    /// A part of a request that shows that it was sent.
    sent: &'static str,
}

const WAYS: [Way; 7] = [
    Way { name: "a variable", keys: "base_url: 'URL/v1', api_key: '${THE_KEY}'", sent: KEY },
    Way { name: "the vendor's variable", keys: "", sent: KEY },
    Way { name: "a file", keys: "base_url: 'URL/v1', api_key_file: key.txt", sent: KEY },
    Way { name: "a command", keys: "base_url: 'URL/v1', api_key_command: [cat, 'DIR/key.txt']", sent: KEY },
    Way { name: "a header", keys: "base_url: 'URL/v1', headers: {x-token: 'Token ${THE_KEY}'}", sent: KEY },
    Way { name: "the query", keys: "base_url: 'URL/v1?key=${IN_URL}'", sent: "never-shown-42" },
    Way {
        name: "a proxy",
        keys: "base_url: 'http://api.example/v1', proxy: 'PROXY'",
        sent: "roxy-authorization: Basic ",
    },
];

/// A project in which the credential is found in this way.
fn place(way: &Way, server: &Server) -> Place {
    let place = Place::new();
    place.file("key.txt", format!("{KEY}\n"));
    if !way.keys.is_empty() {
        let keys = way.keys.replace("DIR", &place.path().display().to_string());
        let keys = keys.replace("PROXY", &format!("http://me:${{IN_URL}}@127.0.0.1:{}", server.port));
        let keys = keys.replace("URL/", &format!("http://127.0.0.1:{}/", server.port));
        let model = format!("{{name: m, kind: openai, model: m, retries: 0, {keys}}}");
        place.file("shelly.yaml", format!("providers: [{model}]\nagents: [{{name: a, toolboxes: [notes]}}]\n"));
    }
    place
}

/// The program, told where the credential is and to say all that it can.
fn run(place: &Place, way: &Way, server: &Server, arguments: &[&str]) -> Ran {
    let mut command: Command = place.command(arguments);
    command.env("SHELLY_LOG", "trace").env("THE_KEY", KEY).env("IN_URL", PERCENT);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    if way.keys.is_empty() {
        command.env("OPENAI_API_KEY", KEY);
        command.env("OPENAI_BASE_URL", format!("http://127.0.0.1:{}/v1", server.port));
    }
    place.ran(command.output().unwrap())
}

fn is_shown(text: &str) -> bool {
    text.contains(PART) || ALL.iter().any(|form| text.contains(form))
}

/// All that a project keeps, but for what the test has put there.
fn kept(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => kept(&path, into),
            path => into.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap())),
        }
    }
}

fn journal(place: &Place) -> String {
    let mut text = String::new();
    kept(&place.path().join(".shelly"), &mut text);
    text
}

fn reply(message: &Value, stop: &str, model: &str) -> String {
    let choice = json!({ "message": message, "finish_reason": stop });
    answer("200 OK", &json!({ "model": model, "choices": [choice] }).to_string())
}

fn stream(events: &[Value]) -> String {
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    answer("200 OK\r\ncontent-type: text/event-stream", &events)
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    /// An answer.
    Answers,
    Fails,
    /// A run asks again, after a pause.
    MayPass,
}
use End::{Answers, Fails, MayPass};

/// Returns replies of a server that repeat the credential and are no normal answer, and the outcome of each.
fn echoes() -> Vec<(&'static str, String, End)> {
    let all = ALL.join(" | ");
    let error =
        |message: &str| json!({ "error": { "message": message, "type": "invalid_request_error", "code": message } });
    let begun = json!({ "choices": [{ "delta": { "content": "Well" } }] });
    vec![
        ("an error", answer("401 Unauthorized", &error(&all).to_string()), Fails),
        ("a bad request", answer("400 Bad Request", &all), Fails),
        ("a detail", answer("422 Unprocessable Entity", &json!({ "detail": [{ "input": all }] }).to_string()), Fails),
        ("an error in a stream", stream(&[begun.clone(), error(&all)]), Fails),
        ("what is no event", stream(&[begun, json!({ "choices": KEY })]), MayPass),
        ("what is no reply", answer("200 OK", &json!({ "choices": KEY }).to_string()), MayPass),
        ("a line that is none", answer("200 OK", &format!("data: {all}\n\n")), MayPass),
        ("the model's name", reply(&json!({ "content": "Four." }), "stop", KEY), Answers),
        ("the reason to stop", reply(&json!({ "content": "Four." }), KEY, "m"), Answers),
        ("how it is compressed", answer(&format!("200 OK\r\ncontent-encoding: {KEY}"), "x"), Fails),
        ("the status", answer(&format!("418 {KEY}"), ""), Fails),
    ]
}

#[test]
fn transformed_api_key_in_a_server_reply_is_not_shown() {
    thread::scope(|scope| {
        for way in &WAYS {
            scope.spawn(move || {
                for (case, said, end) in echoes() {
                    let case = format!("{}, {case}", way.name);
                    let server = Server::start(move |_| said.clone());
                    let place = place(way, &server);
                    let commands = [
                        &["provider", "check", "--trust"][..],
                        &["provider", "check", "--trust", "--output", "json"],
                        &["run", "hi", "--verbose"],
                        &["run", "hi", "--output", "json"],
                        &["run", "hi", "--output", "events", "--verbose"],
                    ];
                    let commands = if end == MayPass { &commands[..2] } else { &commands };
                    for arguments in commands {
                        let ran = run(&place, way, &server, arguments);
                        assert!(!is_shown(&ran.shown()), "{case}, {arguments:?}\n{}", ran.shown());
                        assert!(
                            if end == Answers { ran.code < 2 } else { ran.code == 4 },
                            "{case}, {arguments:?}\n{}",
                            ran.shown()
                        );
                    }
                    let journal = journal(&place);
                    assert!(end == MayPass || journal.contains("hi"), "{case}: nothing is written down");
                    assert!(!is_shown(&journal), "{case}\n{journal}");
                    let asked = server.asked.lock().unwrap();
                    assert!(asked.iter().any(|request| request.contains(way.sent)), "{case}: {asked:?}");
                }
            });
        }
    });
}

/// One rule for all ways out: what is not written down is not shown either.
#[test]
fn api_key_in_an_answer_is_neither_shown_nor_stored() {
    let arguments = json!({ "title": "t", "content": KEY }).to_string();
    let function = json!({ "name": "list_notes", "arguments": arguments });
    let call = json!({ "tool_calls": [{ "id": "1", "type": "function", "function": function }] });
    for way in &WAYS {
        let (call, first) = (call.clone(), Arc::new(atomic::AtomicBool::new(true)));
        let is_first = Arc::clone(&first);
        let server = Server::start(move |request| {
            if request.starts_with("GET ") {
                return answer("404 Not Found", "");
            }
            match is_first.swap(false, atomic::Ordering::SeqCst) {
                true => reply(&call, "tool_calls", "m"),
                false => reply(&json!({ "content": format!("The word is {KEY}.") }), "stop", "m"),
            }
        });
        let place = place(way, &server);
        for output in ["text", "json", "events"] {
            first.store(true, atomic::Ordering::SeqCst);
            let ran = run(&place, way, &server, &["run", "hi", "--verbose", "--output", output]);
            assert!(ran.code == 0 && ran.stdout.contains("The word is [secret "), "{}\n{}", way.name, ran.shown());
            assert!(!is_shown(&ran.shown()), "{}\n{}", way.name, ran.shown());
        }
        let journal = journal(&place);
        assert!(journal.contains("The word is [secret ") && !is_shown(&journal), "{}\n{journal}", way.name);
    }
}

/// Not even what a failed reply has said before it failed is kept with the key in it.
#[test]
fn api_key_in_a_broken_reply_is_not_stored() {
    for way in &WAYS {
        let begun = json!({ "choices": [{ "delta": { "content": format!("The word is {KEY} and") } }] });
        let error = json!({ "error": { "message": KEY, "type": "invalid_request_error" } });
        let server = Server::start(move |_| stream(&[begun.clone(), error.clone()]));
        let place = place(way, &server);
        for output in ["text", "json", "events"] {
            let ran = run(&place, way, &server, &["run", "hi", "--output", output]);
            assert_eq!(ran.code, 4, "{}", ran.shown());
            assert!(!is_shown(&ran.stderr), "{}, {output}\n{}", way.name, ran.stderr);
            // Whoever asks for events sees the words as they come; nobody else sees any of a reply that failed.
            assert_eq!(ran.stdout.contains("The word is "), output == "events", "{}", ran.stdout);
            assert!(!is_shown(&ran.stdout), "{}, {output}\n{}", way.name, ran.stdout);
        }
        let journal = journal(&place);
        assert!(journal.contains("hi") && !is_shown(&journal), "{}\n{journal}", way.name);
    }
}

/// No event shows a piece of a key, in whatever pieces a reply comes.
#[test]
fn api_key_split_across_pieces_is_shown_by_no_event() {
    let way = &WAYS[0];
    for size in [1, 2, 7, KEY.len() - 1] {
        let said: Vec<char> = format!("The word is {KEY} and that is all").chars().collect();
        let piece = |piece: &[char]| json!({ "choices": [{ "delta": { "content": String::from_iter(piece) } }] });
        let mut events: Vec<_> = said.chunks(size).map(piece).collect();
        events.push(json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] }));
        let server = Server::start(move |_| stream(&events));
        let place = place(way, &server);
        let ran = run(&place, way, &server, &["run", "hi", "--output", "events"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let lines: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let deltas = lines.iter().filter(|line| line["event"] == "model_delta");
        let texts = deltas.filter(|line| line["delta"]["kind"] == "text");
        let shown: String = texts.filter_map(|line| line["delta"]["value"].as_str()).collect();
        assert_eq!(shown, "The word is [secret providers.m.api_key] and that is all", "{size}\n{}", ran.stdout);
        assert!(!is_shown(&ran.shown()), "{size}\n{}", ran.shown());
    }
}

#[test]
fn config_is_shown_without_its_api_keys() {
    let place = Place::new();
    place.file("key.txt", KEY);
    let literal = format!("'{}'", KEY.replace('\'', "''"));
    let model = |name: &str, keys: &str| format!("  - {{name: {name}, kind: openai, model: m, {keys}}}\n");
    let config = [
        model("a", &format!("api_key: {literal}")),
        model("b", "api_key: '${THE_KEY}'"),
        model("c", "api_key_file: key.txt"),
        model("d", &format!("headers: {{x-token: {literal}}}")),
        model("e", "headers: {x-token: 'Bearer ${THE_KEY}'}"),
        model("f", &format!("proxy: 'http://me:{PERCENT}@127.0.0.1:9'")),
        model("g", "proxy: 'http://me:${IN_URL}@127.0.0.1:9'"),
        model("h", &format!("base_url: 'http://127.0.0.1:9/v1?key={PERCENT}'")),
        model("i", "base_url: 'http://127.0.0.1:9/v1?key=${IN_URL}'"),
        model("j", &format!("body: {{api_token: {literal}, deep: {{password: [{literal}]}}}}")),
    ];
    place.file("shelly.yaml", format!("providers:\n{}agents: [{{name: n}}]\n", config.concat()));
    let set = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("SHELLY_LOG", "trace").env("THE_KEY", KEY).env("IN_URL", PERCENT);
        place.ran(command.output().unwrap())
    };
    for arguments in [
        &["config", "check"][..],
        &["config", "check", "--output", "json"],
        &["config", "trust"],
        &["provider", "check"],
    ] {
        let ran = set(arguments);
        assert!(!is_shown(&ran.shown()), "{arguments:?}\n{}", ran.shown());
        assert_eq!(
            ran.code,
            if arguments[1] == "check" && arguments[0] == "config" { 0 } else { 2 },
            "{}",
            ran.shown()
        );
    }
}
