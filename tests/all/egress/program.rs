//! Credentials of plugins in runs of the program. Wherever a credential comes from and however it is sent, nothing that is
//! shown or stored holds it, whatever a server makes of it.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{Answer, OWN, Server, WASI, credentials::turned, server::Heard};
use crate::support::{Place, Ran};

/// With characters that JSON, URLs and base64 each write in their own way.
const KEY: &str = r#"sk-a"b/c+never-shown-42?>"#;
const ESCAPED: &str = r#"sk-a\"b/c+never-shown-42?>"#;
const PERCENT: &str = "sk-a%22b%2Fc%2Bnever-shown-42%3F%3E";
const BASE64: &str = "c2stYSJiL2MrbmV2ZXItc2hvd24tNDI/Pg";
const URL_BASE64: &str = "c2stYSJiL2MrbmV2ZXItc2hvd24tNDI_Pg";
/// Of `user:` and the key.
const PAIR_BASE64: &str = "dXNlcjpzay1hImIvYytuZXZlci1zaG93bi00Mj8+";
/// A part of it that is the same however it is written, but for base64.
const PART: &str = "never-shown-42";
const FORMS: [&str; 6] = [KEY, ESCAPED, PERCENT, BASE64, URL_BASE64, PAIR_BASE64];

/// The source of a credential, how it is sent, and the header that shows that it was.
struct Way {
    source: &'static str,
    auth: &'static str,
    sent: (&'static str, &'static str),
}

const BEARER: (&str, &str) = ("authorization", r#"Bearer sk-a"b/c+never-shown-42?>"#);
const OF_ITS_OWN: (&str, &str) = ("x-key", KEY);
const BASIC: (&str, &str) = ("authorization", "Basic dXNlcjpzay1hImIvYytuZXZlci1zaG93bi00Mj8+");

static WAYS: [Way; 5] = [
    Way { source: "env: THE_KEY", auth: "", sent: BEARER },
    Way { source: "file: key.txt", auth: ", auth: {header: x-key}", sent: OF_ITS_OWN },
    Way { source: "command: [cat, 'DIR/key.txt']", auth: "", sent: BEARER },
    Way { source: "env: THE_PAIR", auth: ", auth: {header: authorization, scheme: Basic}", sent: BASIC },
    Way {
        source: "command: [cat, 'DIR/pair.txt']",
        auth: ", auth: {header: authorization, scheme: Basic}",
        sent: BASIC,
    },
];

impl Way {
    /// The forms that are blotted out: of a key that is not sent with a user nobody knows what it is with one.
    fn forms(&self) -> &'static [&'static str] {
        if self.sent == BASIC { &FORMS } else { &FORMS[..5] }
    }
}

/// Returns the calls of a model for the address of the server.
type Calls = dyn Fn(&str) -> Vec<(&'static str, Value)> + Send + Sync;

/// The paths of the server, each of which says all forms of the key in another way.
const ECHOES: [&str; 7] = ["body", "json", "chunks", "packed", "error", "headers", "location"];

/// A server that is a model, too: it has each of these called, and then says what it heard.
async fn server(way: &'static Way, calls: Box<Calls>) -> Server {
    Server::start(move |heard| {
        let all = way.forms().join(" | ");
        match heard.path().rsplit('/').next().unwrap() {
            "completions" => model(heard, &calls(&format!("http://{}", heard.header("host").unwrap()))),
            "chat" => Answer::of("401 No", json!({ "error": all }).to_string()),
            "json" => {
                Answer::of("200 OK", json!({ "deep": [{ "heard": heard.head, "all": way.forms() }] }).to_string())
            }
            "chunks" => Answer::in_chunks("200 OK", &all),
            "packed" => Answer::of("200 OK\r\ncontent-encoding: gzip", packed(all.as_bytes())),
            "error" => Answer::of("500 No", &all),
            "headers" => Answer::of(&format!("200 OK\r\nx-echo: {all}\r\nset-cookie: {KEY}"), ""),
            "location" => Answer::redirect(302, &format!("http://127.0.0.1:1/{KEY}?{PERCENT}#{BASE64}")),
            _ => Answer::of("200 OK", format!("said-by-the-server {} {all}", heard.head)),
        }
    })
    .await
}

fn model(heard: &Heard, calls: &[(&str, Value)]) -> Answer {
    let body: Value = serde_json::from_slice(&heard.body).unwrap();
    let messages = body["messages"].as_array().unwrap();
    let results: Vec<_> = messages.iter().filter(|message| message["role"] == "tool").collect();
    let (message, stop) = if results.is_empty() {
        let call = |(n, (name, arguments)): (usize, &(&str, Value))| json!({ "id": format!("c{n}"), "type": "function", "function": { "name": name, "arguments": arguments.to_string() } });
        (json!({ "tool_calls": calls.iter().enumerate().map(call).collect::<Vec<_>>() }), "tool_calls")
    } else {
        let said: Vec<_> = results.iter().map(|result| result["content"].as_str().unwrap()).collect();
        (json!({ "content": said.join("\n") }), "stop")
    };
    let choice = json!({ "message": message, "finish_reason": stop });
    Answer::of("200 OK", json!({ "choices": [choice] }).to_string())
}

/// Returns the bytes as gzip, stored without compression.
fn packed(bytes: &[u8]) -> Vec<u8> {
    let crc = !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    });
    let length = bytes.len() as u16;
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    let ends = [crc.to_le_bytes(), u32::from(length).to_le_bytes()].concat();
    [&head[..], &length.to_le_bytes(), &(!length).to_le_bytes(), bytes, &ends].concat()
}

/// A project in which an agent has the guest and the credential.
fn place(way: &Way, door: &str, server: &Server) -> Place {
    let place = Place::new();
    for (name, content) in [("key.txt", format!("{KEY}\n")), ("pair.txt", format!("user:{KEY}\n"))] {
        let path = place.file(name, content);
        #[cfg(unix)]
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    let Way { source, auth, .. } = way;
    let source = source.replace("DIR", &place.path().display().to_string());
    let url = &server.url;
    let config = format!(
        "providers:
  - {{name: m, kind: openai, base_url: '{url}/v1', model: m, retries: 0}}
  - {{name: own, kind: plugin, plugin: ollama, model: m, params: {{base_url: '{url}'}},
     http: [{{url: '{url}', methods: [POST]}}], credentials: [k]}}
credentials: [{{name: k, {source}, for: ['{url}/say', '{url}/api']{auth}}}]
agents:
  - {{name: ada, provider: m, plugins: {{{door}: {{http: [{{url: '{url}/say', methods: ['*']}}, 'http://127.0.0.1:1'], credentials: [k]}}}}}}
  - {{name: bob, provider: own}}
"
    );
    place.file("shelly.yaml", config);
    place
}

/// The program, told where the key is and to say all that it can.
fn run(place: &Place, arguments: &[&str], has_key: bool) -> Ran {
    let mut command = place.command(&[&["run", "--verbose"], arguments, &["go"]].concat());
    command.env("SHELLY_LOG", "trace").env("PATH", std::env::var_os("PATH").unwrap_or_default());
    if has_key {
        command.env("THE_KEY", KEY).env("THE_PAIR", format!("user:{KEY}"));
    }
    tokio::task::block_in_place(|| place.ran(command.output().unwrap()))
}

/// Returns `true` if the credential is anywhere in these bytes.
fn is_in(way: &Way, bytes: &[u8]) -> bool {
    [PART].iter().chain(way.forms()).any(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes()))
}

/// The files that a run has left that have it in them, and how many files there are.
fn kept(way: &Way, folder: &Path) -> (Vec<String>, usize) {
    let (mut leaks, mut count) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            let (more, below) = kept(way, &path);
            leaks.extend(more);
            count += below;
        } else if !["key.txt", "pair.txt"].contains(&&*entry.file_name().to_string_lossy()) {
            count += 1;
            leaks.extend(is_in(way, &fs::read(&path).unwrap()).then(|| path.display().to_string()));
        }
    }
    (leaks, count)
}

fn nothing_is_shown(way: &Way, case: &str, place: &Place, ran: &Ran) {
    assert!(!is_in(way, ran.shown().as_bytes()), "{case}\n{}", ran.shown());
    let (leaks, count) = kept(way, &place.path());
    assert!(leaks.is_empty(), "{case}: {leaks:?}");
    assert!(count > 1, "{case}: nothing is kept");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn echoed_plugin_credential_is_neither_shown_nor_stored() {
    for way in &WAYS {
        for door in [OWN, WASI] {
            let case = format!("{door}, {}{}", way.source, way.auth);
            let calls = move |url: &str| {
                let looks = [turned(PART), turned(BASE64), turned(&PAIR_BASE64[8..]), turned("said-by-the-server")];
                let fetch = |path: &str, look: &String| {
                    let mut asked = json!({ "url": format!("{url}/say/{path}?by=test"), "look_for": look });
                    if door == OWN {
                        asked["credential"] = "k".into();
                    }
                    ("fetch", asked)
                };
                let hidden = ECHOES.iter().flat_map(|path| looks[..3].iter().map(|look| fetch(path, look)));
                hidden.chain([fetch("body", &looks[3])]).collect::<Vec<_>>()
            };
            let server = server(way, Box::new(calls)).await;
            let place = place(way, door, &server);
            for (output, session) in [("events", "one"), ("text", "two")] {
                let arguments =
                    ["--plugins", crate::GUEST_ROOT, "--session", session, "--output", output, "--agent", "ada"];
                let ran = run(&place, &arguments, true);
                let case = format!("{case}, {output}");
                assert_eq!(ran.code, 0, "{case}\n{}", ran.shown());
                nothing_is_shown(way, &case, &place, &ran);
                if output == "text" {
                    let said: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                    assert_eq!(said.len(), 3 * ECHOES.len() + 1, "{case}\n{}", ran.shown());
                    let (last, hidden) = said.split_last().unwrap();
                    assert!(hidden.iter().all(|said| said["found"] == 0), "{case}\n{}", ran.stdout);
                    assert!(last["found"].as_u64() > Some(0), "{case}: {last}");
                } else {
                    let told: Vec<_> = ran.stdout.lines().filter(|line| line.contains("\"plugin_request\"")).collect();
                    assert_eq!(told.len(), 3 * ECHOES.len() + 1, "{case}\n{}", ran.stdout);
                    assert!(!told.concat().contains("by=test"), "{case}: a query is told\n{}", ran.stdout);
                }
            }
            let (name, value) = way.sent;
            let asked: Vec<_> = server.heard().into_iter().filter(|heard| heard.path().starts_with("/say/")).collect();
            assert!(!asked.is_empty(), "{case}");
            assert!(asked.iter().all(|heard| heard.header(name) == Some(value)), "{case}: {asked:?}");
            // The model is not told.
            let others = server.heard().into_iter().filter(|heard| heard.path().starts_with("/v1/"));
            for heard in others {
                assert!(!is_in(way, heard.head.as_bytes()) && !is_in(way, &heard.body), "{case}: {heard:?}");
            }
        }
    }
}

/// A run that fails with what a server says says it without the credential.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_run_does_not_show_the_provider_credential() {
    for way in &WAYS {
        let server = server(way, Box::new(|_| vec![])).await;
        let place = place(way, OWN, &server);
        for output in ["events", "text", "json"] {
            let arguments = ["--plugins", crate::PLUGIN_ROOT, "--plugins", crate::GUEST_ROOT, "--output", output];
            let ran = run(&place, &[&arguments[..], &["--session", output, "--agent", "bob"]].concat(), true);
            let case = format!("{}{}, {output}", way.source, way.auth);
            assert_eq!(ran.code, 4, "{case}\n{}", ran.shown());
            nothing_is_shown(way, &case, &place, &ran);
            assert!(ran.shown().contains("***"), "{case}: it does not say what the server said\n{}", ran.shown());
            assert_eq!(server.last().header(way.sent.0), Some(way.sent.1), "{case}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unset_credential_is_warned_of_and_not_available() {
    let calls = |url: &str| {
        let asked = json!({ "url": format!("{url}/say/body"), "credential": "k" });
        vec![("credentials", json!({})), ("fetch", asked)]
    };
    let server = server(&WAYS[0], Box::new(calls)).await;
    let place = place(&WAYS[0], OWN, &server);
    let arguments = ["--plugins", crate::GUEST_ROOT, "--agent", "ada"];
    let ran = run(&place, &arguments, false);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let warning = "ignoring the credential `k`: the environment variable `THE_KEY` is not set";
    assert!(ran.stderr.contains(warning), "{}", ran.shown());
    assert!(
        ran.stdout.contains("the credential `k` is not granted or does not exist; no credentials are granted"),
        "{}",
        ran.shown()
    );
    assert!(server.heard().iter().all(|heard| !heard.path().starts_with("/say/")));
    let ran = run(&place, &arguments, true);
    assert!(ran.stdout.starts_with("k\n") && !ran.stderr.contains(warning), "{}", ran.shown());
    nothing_is_shown(&WAYS[0], "it is set", &place, &ran);
}
