//! Invalid input to the program. Each message says what is wrong, where, and what to do; the program ends with the
//! documented exit code, reports the same as JSON, and never panics. The messages are in `snapshots`.

mod plugins;

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::ffi::OsStrExt,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use serde_json::Value;

use crate::{
    GUEST_ROOT, PLUGIN_ROOT,
    support::{Place, Ran},
};

/// A component that exports the kind `tool` by name, and nothing in it.
pub const HOLLOW: &str = r#"(component (instance $t) (export "shelly:plugin/tool@0.1.0" (instance $t)))"#;

/// The outcomes of a table of cases, for one snapshot.
#[derive(Default)]
pub struct Told(pub String);

impl Told {
    /// The program fails with this exit code, in the same words for people and for programs.
    pub fn fails(&mut self, place: &Place, case: &str, code: i32, arguments: &[&str]) {
        self.fails_with(place, case, code, arguments, |_| ());
    }

    fn fails_with(&mut self, place: &Place, case: &str, code: i32, arguments: &[&str], prepare: impl Fn(&mut Command)) {
        let run = |output: &[&str]| {
            let mut command = place.command(arguments);
            command.args(output);
            prepare(&mut command);
            place.ran(command.output().unwrap())
        };
        let text = run(&[]);
        assert_eq!(text.code, code, "{case}\n{}", text.shown());
        assert_eq!(text.stdout, "", "{case}");
        let error = error_of(&text);
        self.0.push_str(&format!("## {case}\n{error}\n"));

        // What is listed or looked into has no events.
        let outputs: &[&str] =
            if ["plugin", "session"].contains(&arguments[0]) { &["json"] } else { &["json", "events"] };
        for output in outputs {
            let ran = run(&["--output", output]);
            assert_eq!(ran.code, code, "{case}, {output}\n{}", ran.shown());
            let lines: Vec<_> = ran.stdout.lines().collect();
            assert!(*output == "events" || lines.len() == 1, "{case}, {output}\n{}", ran.shown());
            let result = lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()).next_back().unwrap();
            assert_eq!(result["event"], "result", "{case}");
            assert_eq!(result["ok"], false, "{case}");
            assert_eq!(result["exit_code"], code, "{case}");
            // The same words.
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let said = words(&error);
            for part in [&result["error"]["message"], &result["error"]["causes"][0]] {
                assert!(said.contains(&words(part.as_str().unwrap_or_default())), "{case}, {output}: {part}\n{said}");
            }
            assert_eq!(error_of(&ran).lines().next(), error.lines().next(), "{case}, {output}");
        }
    }
}

/// Returns standard error from the error message on.
fn error_of(ran: &Ran) -> String {
    // A guest's log may tell of a panic, and is shown before.
    let start = ran.stderr.find("\nerror: ").map_or(0, |end| end + 1);
    let error = clean(&ran.stderr[start..]);
    assert!(error.starts_with("error: "), "no error is told\n{}", ran.shown());
    assert!(!error.contains("panicked") && !error.contains("backtrace"), "{}", ran.shown());
    error
}

/// Without the folders of this machine.
fn clean(text: &str) -> String {
    text.replace(PLUGIN_ROOT, "[PLUGINS]").replace(GUEST_ROOT, "[GUESTS]")
}

/// A config with the stand-in model and one agent, whose further keys are given, four spaces in.
fn helper(keys: &str) -> String {
    format!("providers:\n  - {{name: offline, kind: plugin, plugin: offline-model}}\nagents:\n  - name: helper\n{keys}")
}

/// The program with the config `shelly.yaml` and the real plugins.
const RUN: [&str; 4] = ["run", "hi", "--plugins", PLUGIN_ROOT];

#[test]
fn unreadable_config_is_reported() {
    let place = Place::new();
    fs::create_dir(place.path().join("folder")).unwrap();
    place.file("latin1.yaml", b"agents:\n  - name: caf\xe9\n");
    place.file("large.yaml", "# padding\n".repeat(200_000));
    let mut told = Told::default();
    for (case, config) in [
        ("it is missing", "missing.yaml"),
        ("it is below a file", "latin1.yaml/shelly.yaml"),
        ("it is a folder", "folder"),
        ("not UTF-8 text", "latin1.yaml"),
        ("it is too large", "large.yaml"),
        ("it never ends", "/dev/zero"),
    ] {
        told.fails(&place, case, 2, &["run", "hi", "--config", config]);
    }
    assert_snapshot!(told.0);
}

#[test]
fn invalid_config_is_reported() {
    let mut told = Told::default();
    let agent = |keys: &str| format!("agents:\n  - name: helper\n{keys}");
    let provider = |keys: &str| format!("providers:\n  - {{name: a, {keys}}}\n");
    for (case, text) in [
        ("not YAML: a bracket is open", "agents: [\n".to_owned()),
        ("not YAML: a quote is open", provider("kind: openai, api_key: \"sk-secret")),
        ("not YAML: a tab", "agents:\n\t- name: helper\n".into()),
        ("no mapping at all", "just words\n".into()),
        ("a number for a list", "agents: 7\n".into()),
        ("a list for a mapping", agent("    plugins: [count-text]\n")),
        ("a word for a number", agent("    options: {max_iterations: many}\n")),
        ("a mapping for a text", agent("    instructions: {be: brief}\n")),
        ("a word for a switch", agent("    plugins: {x: {clock: perhaps}}\n")),
        ("a key twice", "agents: []\nagents: []\n".into()),
        ("two documents", "agents: []\n---\nagents: []\n".into()),
        ("a name is missing", "agents: [{description: nameless}]\n".into()),
        ("a name is empty", "agents: [{name: ''}]\n".into()),
        ("unknown key at the top", "agent: []\n".into()),
        ("unknown key of a provider", provider("kind: openai, modell: m")),
        ("unknown key of an agent", agent("    colour: red\n")),
        ("unknown key of the options", agent("    options: {max_iteration: 3}\n")),
        ("unknown key of a plugin", agent("    plugins:\n      read-files: {file: []}\n")),
        ("unknown key of a folder", agent("    plugins:\n      read-files:\n        files: [{pat: docs}]\n")),
        ("key of a later version", "process: []\n".into()),
        ("unknown kind of provider", provider("kind: opena, model: m")),
        ("unknown mode of a folder", agent("    plugins: {x: {files: [{path: ., mode: reed}]}}\n")),
        ("unknown power", agent("    plugins: {x: {powers: [stopp]}}\n")),
        ("key of another kind", provider("kind: openai, model: m, plugin: x")),
        ("two agents of one name", agent("  - name: helper\n")),
        ("the entry agent is not there", agent("entry_agent: helpr\n")),
        ("the agent's provider is not there", agent("    provider: nope\n")),
        ("the agent's provider is misspelt", helper("    provider: offlin\n")),
        ("too many turns", agent("    options: {max_iterations: 1000000}\n")),
        ("the address is none", provider("kind: openai, model: m, base_url: localhost")),
        ("the variable of the key is not set", provider("kind: openai, model: m, api_key: '${NO_SUCH_KEY}'")),
        ("the variable of the key has no name", provider("kind: openai, model: m, api_key: '${}'")),
    ] {
        let place = Place::new();
        place.file("shelly.yaml", text);
        told.fails(&place, case, 2, &["run", "hi"]);
    }
    assert!(!told.0.contains("sk-secret"), "{}", told.0);
    assert_snapshot!(told.0);
}

#[test]
fn unknown_name_is_reported_with_suggestions() {
    let place = Place::new();
    place.file("shelly.yaml", helper("    plugins: {count-txt: }\n  - name: reviewer\n"));
    let mut told = Told::default();
    told.fails(&place, "agent, nearly right", 2, &[&RUN[..], &["--agent", "reviwer"]].concat());
    told.fails(&place, "agent", 2, &[&RUN[..], &["--agent", "xyz"]].concat());
    told.fails(&place, "model", 2, &[&RUN[..], &["--model", "gpt-9"]].concat());
    told.fails(&place, "plugin of an agent", 3, &RUN);
    told.fails(&place, "plugin of an agent, without named plugins", 3, &["run", "hi", "--agent", "helper"]);

    place.file("shelly.yaml", helper("    provider: offline\n").replace("offline-model", "offline-modle"));
    told.fails(&place, "plugin of a provider", 3, &RUN);
    place.file("shelly.yaml", helper("").replace("offline-model", "count-text"));
    told.fails(&place, "plugin of a provider is none", 3, &RUN);
    assert_snapshot!(told.0);
}

#[test]
fn invalid_task_is_reported() {
    let place = Place::new();
    place.file("long", "word ".repeat(1 << 18));
    place.file("latin1", b"caf\xe9");
    place.file("blank", " \n\t\n");
    let mut told = Told::default();
    told.fails(&place, "empty", 2, &["run", ""]);
    told.fails(&place, "blank", 2, &["run", " \t\n"]);
    let not_utf8 = |command: &mut Command| {
        command.arg(OsStr::from_bytes(b"caf\xe9"));
    };
    told.fails_with(&place, "not UTF-8", 2, &["run"], not_utf8);
    for (case, file) in [
        ("standard input is empty", "/dev/null"),
        ("standard input is blank", "blank"),
        ("standard input is not UTF-8", "latin1"),
        ("standard input is too long", "long"),
        ("standard input never ends", "/dev/zero"),
    ] {
        let from = |command: &mut Command| {
            command.stdin(File::open(place.path().join(file)).unwrap());
        };
        told.fails_with(&place, case, 2, &["run", "-"], from);
    }
    assert_snapshot!(told.0);
}

#[test]
fn invalid_command_line_is_reported() {
    let place = Place::new();
    let mut told = Told::default();
    for (case, arguments) in [
        ("no task", &["run"][..]),
        ("two tasks", &["run", "a", "b"]),
        ("unknown subcommand", &["rum"]),
        ("swapped letters", &["rnu"]),
        ("a task without a command", &["What is a monad"]),
        ("unknown flag of the program", &["--verison"]),
        ("unknown flag", &["run", "hi", "--modell", "x"]),
        ("a flag without its value", &["run", "hi", "--model"]),
        ("a flag twice", &["run", "hi", "--model", "a", "--model", "b"]),
    ] {
        told.fails(&place, case, 2, arguments);
    }
    let ran = place.run(&["run", "hi", "--output", "yaml"]);
    assert_eq!(ran.code, 2);
    told.0.push_str(&format!("## unknown output\n{}", error_of(&ran)));
    let ran = place.run(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    let says = "error: without arguments a chat opens, which needs a terminal\n  hint:  give a task: shelly-host run \"…\"; all";
    assert!(ran.stderr.starts_with(says) && ran.stderr.lines().count() == 2, "{}", ran.shown());
    assert_snapshot!(told.0);
}

#[test]
fn stdout_holds_only_the_answer() {
    let place = Place::new();
    let arguments =
        ["run", "How many words are in \"one two three\"?", "--plugins", PLUGIN_ROOT, "--model", "offline-model"];
    let text = place.run(&arguments);
    assert_eq!(text.code, 0, "{}", text.shown());
    assert!(
        text.stderr.contains("assistant on offline-model") && text.stderr.contains("count_text"),
        "{}",
        text.shown()
    );
    let json = place.run(&[&arguments[..], &["--output", "json"]].concat());
    let result: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(result["ok"], true);
    assert_eq!(result["answer"].as_str(), text.stdout.strip_suffix('\n'), "{}", text.shown());
    let events = place.run(&[&arguments[..], &["--output", "events"]].concat());
    let events: Vec<Value> = events.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = events.iter().map(|event| &event["event"]).filter(|event| *event != "warning").take(2);
    assert_eq!(first.collect::<Vec<_>>(), ["stream_started", "run_started"]);
    assert_eq!(events.last().unwrap()["answer"], result["answer"]);
}

#[test]
fn run_without_an_answer_is_reported() {
    let place = Place::new();
    place.file("shelly.yaml", helper("    plugins: {count-text: }\n    options: {max_iterations: 1}\n"));
    let mut told = Told::default();
    let task = "How many words are in \"one two three\"?";
    told.fails(&place, "too few turns", 1, &["run", task, "--plugins", PLUGIN_ROOT]);
    for (case, keys, code) in [
        ("the reply is cut", "params: {provider: cut}", 1),
        ("the provider's plugin panics", "params: {provider: panic}", 4),
        ("the provider's plugin fails", "params: {provider: error-unavailable}", 4),
    ] {
        let providers = format!("providers: [{{name: probe, kind: plugin, plugin: probe-hooks, {keys}}}]\n");
        place.file("shelly.yaml", format!("{providers}agents: [{{name: helper}}]\n"));
        told.fails(&place, case, code, &["run", "hi", "--plugins", GUEST_ROOT]);
    }
    assert_snapshot!(told.0);
}

/// A server on loopback that answers every request with what `answer` makes of it.
pub struct Server {
    pub port: u16,
    pub asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub fn start(answer: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let server = Self { port, asked: asked.clone() };
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let request = request(&mut connection);
                asked.lock().unwrap().push(request.clone());
                let _ = connection.write_all(answer(&request).as_bytes());
            }
        });
        server
    }

    pub fn config(&self, keys: &str) -> String {
        let url = format!("http://127.0.0.1:{}/v1", self.port);
        format!(
            "providers: [{{name: local, kind: openai, base_url: \"{url}\", model: m, {keys}}}]\nagents: [{{name: helper}}]\n"
        )
    }
}

pub fn request(connection: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return String::from_utf8(bytes).unwrap();
            }
        }
        match connection.read(&mut chunk) {
            Ok(read @ 1..) => bytes.extend(&chunk[..read]),
            _ => return text,
        }
    }
}

pub fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

pub const FOUR: &str = r#"{"choices":[{"message":{"content":"Four."},"finish_reason":"stop"}]}"#;

#[test]
fn unreachable_model_is_reported() {
    let place = Place::new();
    let mut told = Told::default();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let closed = Server { port: closed, asked: Arc::default() };
    place.file("shelly.yaml", closed.config(""));
    told.fails(&place, "nobody listens", 4, &["run", "hi"]);
    told.0 = told.0.replace(&closed.port.to_string(), "[PORT]");
    for (case, status, body) in [
        ("no such model", "404 Not Found", r#"{"error":{"message":"model `m` not found"}}"#),
        ("a bill to pay", "429 Too Many Requests", r#"{"error":{"message":"pay","code":"insufficient_quota"}}"#),
        ("a bad request", "400 Bad Request", r#"{"error":{"message":"tools are not supported"}}"#),
        ("not an API", "200 OK", "<html>hello</html>"),
    ] {
        let server = Server::start(move |_| answer(status, body));
        place.file("shelly.yaml", server.config(""));
        told.fails(&place, case, 4, &["run", "hi"]);
        told.0 = told.0.replace(&server.port.to_string(), "[PORT]");
    }
    assert_snapshot!(told.0);
}

#[test]
fn rejected_api_key_is_never_shown() {
    const KEY: &str = "sk-test-0123456789-never-shown";
    let server = Server::start(|request| {
        let key = request.split("Bearer ").nth(1).or(request.split("bearer ").nth(1)).unwrap_or_default();
        let key = key.lines().next().unwrap_or_default();
        answer("401 Unauthorized", &format!(r#"{{"error":{{"message":"Incorrect API key provided: {key}"}}}}"#))
    });
    let place = Place::new();
    let mut told = Told::default();
    for (case, keys) in
        [("in a variable", "api_key: '${TEST_KEY}'".to_owned()), ("in the config", format!("api_key: {KEY}"))]
    {
        place.file("shelly.yaml", server.config(&keys));
        told.fails_with(&place, case, 4, &["run", "hi"], |command| {
            command.env("TEST_KEY", KEY);
        });
        for arguments in
            [&["run", "hi", "--verbose"][..], &["run", "hi", "--output", "json"], &["run", "hi", "--output", "events"]]
        {
            let ran =
                place.ran(place.command(arguments).env("TEST_KEY", KEY).env("SHELLY_LOG", "trace").output().unwrap());
            assert!(!ran.shown().contains(KEY), "{}", ran.shown());
        }
    }
    assert!(server.asked.lock().unwrap()[0].contains(KEY), "the key is sent");
    assert_snapshot!(told.0.replace(&server.port.to_string(), "[PORT]"));
}

#[test]
fn model_is_discovered_by_an_environment_key() {
    let server = Server::start(|request| match request.starts_with("GET /v1/models ") {
        true => answer("200 OK", r#"{"data":[{"id":"small"},{"id":"gpt-4.1-mini"}]}"#),
        false => answer("200 OK", FOUR),
    });
    let place = Place::new();
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    let run = |config: &str, arguments: &[&str]| {
        place.file("shelly.yaml", config);
        let mut command = place.command(arguments);
        place.ran(command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", &url).output().unwrap())
    };
    for (config, arguments, agent, model) in [
        ("", &["run", "hi"][..], "assistant", "gpt-4.1-mini"),
        ("# nothing yet\n", &["run", "hi", "--model", "small"], "assistant", "small"),
        ("agents: [{name: helper}]\n", &["run", "hi"], "helper", "gpt-4.1-mini"),
    ] {
        let ran = run(config, arguments);
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "Four.\n"), "{config}\n{}", ran.shown());
        let host = format!("127.0.0.1:{}", server.port);
        let note = format!("using the model {model} (OPENAI_API_KEY is set, and OPENAI_BASE_URL leads to {host})\n");
        let begins = format!("🤖 {agent} on {model}\n");
        assert!(ran.stderr.contains(&note) && ran.stderr.contains(&begins), "{config}\n{}", ran.shown());
    }
    let asked = server.asked.lock().unwrap();
    assert!(asked.iter().any(|request| request.contains(r#""model":"small""#)), "{asked:?}");
}

/// Returns `true` if a model server of whoever runs the tests would be found.
pub fn has_local_model_server() -> bool {
    [11434, 8080, 8000, 1234].into_iter().any(|port| TcpStream::connect(("127.0.0.1", port)).is_ok())
}

#[test]
fn missing_model_is_reported() {
    if has_local_model_server() {
        return;
    }
    let place = Place::new();
    let mut told = Told::default();
    told.fails(&place, "without plugins", 2, &["run", "hi"]);
    told.fails(&place, "with a provider plugin", 2, &RUN);
    told.fails(&place, "the one that is named", 2, &[&RUN[..], &["--model", "gpt-9"]].concat());
    place.file("shelly.yaml", "agents: [{name: helper}]\n");
    told.fails(&place, "with a config", 2, &["run", "hi"]);
    assert_snapshot!(told.0);
}

/// Sends what Ctrl-C sends.
fn interrupt(child: &Child) {
    let status = Command::new("sh").args(["-c", &format!("kill -INT {}", child.id())]).status().unwrap();
    assert!(status.success());
}

/// Interrupts the run as soon as it asks the model, and tells how it ends.
fn interrupted(place: &Place, arguments: &[&str]) -> (Ran, Duration) {
    let mut command = place.command(&[arguments, &["--output", "events"]].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.by_ref().map(Result::unwrap).find(|line| line.contains("model_started")).unwrap();
    interrupt(&child);
    let since = Instant::now();
    while child.try_wait().unwrap().is_none() && since.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(5));
    }
    let time = since.elapsed();
    // It may be gone already.
    let _ = child.kill();
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    let mut ran = place.ran(child.wait_with_output().unwrap());
    ran.stdout = rest.join("\n");
    (ran, time)
}

#[test]
fn ctrl_c_cancels_a_run_at_once() {
    let place = Place::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = Server { port: silent.local_addr().unwrap().port(), asked: Arc::default() };
    let spinning =
        "providers: [{name: p, kind: plugin, plugin: probe-hooks, params: {provider: spin}}]\nagents: [{name: a}]\n";
    for (case, config) in [("a guest that spins", spinning.to_owned()), ("a silent server", silent.config(""))] {
        place.file("shelly.yaml", config);
        let (ran, time) = interrupted(&place, &["run", "hi", "--plugins", GUEST_ROOT]);
        assert_eq!(ran.code, 130, "{case}\n{}", ran.shown());
        let told = format!("cancelled\nresume with: shelly-host session resume [SESSION] --plugins {GUEST_ROOT}\n");
        assert!(ran.stderr.ends_with(&told), "{case}\n{}", ran.shown());
        let result: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
        assert_eq!(result["error"]["kind"], "cancelled", "{case}");
        assert_eq!(result["exit_code"], 130, "{case}");
        assert!(time < Duration::from_secs(3), "{case}: {time:?}");
    }
}

#[test]
fn closed_stdout_pipe_is_no_failure() {
    let place = Place::new();
    let arguments = ["run", "How many words are in \"a b\"?", "--plugins", PLUGIN_ROOT, "--model", "offline-model"];
    for output in ["text", "json", "events"] {
        let mut command = place.command(&[&arguments[..], &["--output", output]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ran = place.ran(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{output}\n{}", ran.shown());
        assert!(!ran.stderr.contains("error") && !ran.stderr.contains("panic"), "{output}\n{}", ran.shown());
    }
    let mut child = place.command(&["run", "--help"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(place.ran(child.wait_with_output().unwrap()).code, 0);
}

#[test]
fn help_texts_match_their_snapshots() {
    let place = Place::new();
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help_run", &["run", "--help"]),
        ("help_mcp", &["mcp", "--help"]),
        ("help_plugin", &["plugin", "--help"]),
        ("help_plugin_list", &["plugin", "list", "--help"]),
        ("help_plugin_inspect", &["plugin", "inspect", "--help"]),
        ("help_session", &["session", "--help"]),
        ("help_session_list", &["session", "list", "--help"]),
        ("help_session_show", &["session", "show", "--help"]),
        ("help_session_search", &["session", "search", "--help"]),
        ("help_session_export", &["session", "export", "--help"]),
        ("help_session_undo", &["session", "undo", "--help"]),
        ("help_session_fork", &["session", "fork", "--help"]),
        ("help_session_rm", &["session", "rm", "--help"]),
        ("help_session_prune", &["session", "prune", "--help"]),
    ] {
        let ran = place.run(arguments);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{arguments:?}");
        assert_snapshot!(name, ran.stdout);
    }
}
