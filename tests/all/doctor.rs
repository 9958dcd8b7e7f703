//! The command `doctor`: its findings and exit codes, what it leaves alone, and what its report does not hold.

use std::{fs, process::Stdio};

use serde_json::Value;

use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, HOLLOW, Server, answer},
    support::{Place, Ran},
};

/// The program that plays an MCP server.
const SERVER: &str = env!("CARGO_BIN_EXE_shelly-mcp-server");

/// Runs `doctor` with a `PATH`, and these variables.
fn doctor(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = place.command(&[&["doctor"], arguments].concat());
    command.env("PATH", "/usr/bin:/bin").envs(variables.iter().copied()).stdin(Stdio::null());
    place.ran(command.output().unwrap())
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.shown()))
}

/// The findings of a check: their statuses and messages.
fn of(report: &Value, check: &str) -> Vec<(String, String)> {
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    findings.map(|finding| (text(&finding["status"]), text(&finding["message"]))).collect()
}

/// A finding as [`of`] returns it.
fn finding(status: &str, message: &str) -> (String, String) {
    (status.to_owned(), message.to_owned())
}

fn details(report: &Value, check: &str) -> String {
    let findings = report["findings"].as_array().unwrap().iter().filter(|finding| finding["check"] == check);
    findings.map(|finding| finding["details"].to_string()).collect()
}

fn asked(server: &Server) -> usize {
    server.asked.lock().unwrap().len()
}

fn served(status: &'static str, body: &'static str) -> Server {
    Server::start(move |_| answer(status, body))
}

fn model(name: &str, server: &Server, keys: &str) -> String {
    format!(
        "  - {{name: {name}, kind: openai, model: {name}-1, base_url: 'http://127.0.0.1:{}/v1'{keys}}}\n",
        server.port
    )
}

const CHECKS: [&str; 14] = [
    "version",
    "config",
    "trust",
    "keys",
    "models",
    "local-servers",
    "default-model",
    "plugins",
    "mcp-servers",
    "cluster",
    "directories",
    "sandbox",
    "terminal",
    "programs",
];

#[test]
fn doctor_without_a_config_finds_no_problem_offline() {
    let place = Place::new();
    let ran = doctor(&place, &["--offline", "--plugins", PLUGIN_ROOT], &[]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.shown());
    for check in CHECKS {
        let has_it = |line: &str| line.split_whitespace().nth(1) == Some(check);
        assert!(ran.stdout.lines().any(has_it), "{check}: {}", ran.shown());
    }
    assert!(ran.stdout.lines().last().unwrap().starts_with("no problems, "), "{}", ran.shown());
    assert!(ran.stdout.contains("hint: create one with shelly-host init"), "{}", ran.shown());

    let ran = doctor(&place, &["--offline", "--plugins", PLUGIN_ROOT, "--output", "json"], &[]);
    let report = json(&ran);
    assert_eq!((ran.code, &report["format"], &report["ok"]), (0, &1.into(), &true.into()));
    assert_eq!((&report["problems"], &report["bundle"]), (&0.into(), &Value::Null));
    let findings = report["findings"].as_array().unwrap();
    let mut order: Vec<_> = findings.iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    order.dedup();
    assert_eq!(order, CHECKS);
    assert_eq!(report["build"]["version"], env!("CARGO_PKG_VERSION"));
    let (status, message) = &of(&report, "plugins")[0];
    assert!(status == "ok" && message.ends_with("can be loaded"), "{}", ran.shown());
    assert!(details(&report, "plugins").contains(PLUGIN_ROOT), "{}", ran.shown());
    // The parts of the sandbox are told by a child that has raised them.
    let sandbox = details(&report, "sandbox");
    assert!(
        ["limits of memory and time: active", "Landlock", "seccomp"].iter().all(|part| sandbox.contains(part)),
        "{sandbox}"
    );
}

#[test]
fn doctor_names_the_address_in_place_of_a_vendors() {
    let place = Place::new();
    let variables = [("OPENAI_API_KEY", "sk-0123456789"), ("OPENAI_BASE_URL", "http://127.0.0.1:9/secret-path")];
    let ran = doctor(&place, &["--offline", "--output", "json"], &variables);
    let report = json(&ran);
    let told = details(&report, "keys");
    assert!(told.contains("OPENAI_API_KEY goes to 127.0.0.1:9, to which OPENAI_BASE_URL leads"), "{}", ran.shown());
    let (_, message) = &of(&report, "default-model")[0];
    assert!(message.contains("a run takes one of 127.0.0.1:9, to which OPENAI_BASE_URL leads"), "{message}");
    assert!(!ran.stdout.contains("secret-path") && !ran.stdout.contains("sk-0123456789"), "{}", ran.shown());
    let ran = doctor(&place, &["--offline"], &[("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")]);
    let says = "ANTHROPIC_BASE_URL is set, but is not used without ANTHROPIC_API_KEY";
    assert!(ran.stdout.contains(says), "{}", ran.shown());
}

#[test]
fn doctor_shows_the_folders_that_shells_name() {
    let place = Place::new();
    let cache = env!("CARGO_TARGET_TMPDIR");
    let ran = doctor(&place, &["--offline"], &[("PWD", cache), ("OLDPWD", cache), ("MY_TOKEN", cache)]);
    assert!(ran.stdout.contains(cache) && !ran.stdout.contains("[secret"), "{}", ran.shown());
}

#[test]
fn doctor_names_mistakes_of_the_config() {
    let place = Place::new();
    place.file("shelly.yaml", "agents:\n  - name: a\n    colour: red\nentry_agent: b\n");
    let ran = doctor(&place, &["--offline", "--output", "json"], &[]);
    let report = json(&ran);
    assert_eq!((ran.code, &report["ok"]), (1, &false.into()), "{}", ran.shown());
    let (status, message) = &of(&report, "config")[0];
    assert!(status == "problem" && message.starts_with("shelly.yaml cannot be used"), "{message}");
    let told = details(&report, "config");
    assert!(told.contains("no key `colour`") && told.contains("no agent `b`"), "{told}");
    assert_eq!(of(&report, "models")[0].0, "note");

    let ran = doctor(&place, &["--offline", "--config", "none.yaml"], &[]);
    assert!(
        ran.code == 1 && ran.stdout.contains("problem  config         none.yaml cannot be used"),
        "{}",
        ran.shown()
    );
}

#[test]
fn doctor_asks_the_models_of_a_named_config() {
    let (good, bad) = (served("200 OK", FOUR), served("401 Unauthorized", r#"{"error":{"message":"who are you?"}}"#));
    let place = Place::new();
    let models =
        model("good", &good, ", context_window: 9000") + &model("bad", &bad, ", api_key: '${A_KEY}', retries: 0");
    place.file("other.yaml", format!("providers:\n{models}agents: [{{name: ada}}]\n"));
    let check = ["--config", "other.yaml", "--output", "json"];
    let ran = doctor(&place, &check, &[("A_KEY", "value-of-the-key")]);
    let report = json(&ran);
    assert_eq!((ran.code, asked(&good), asked(&bad)), (1, 1, 1), "{}", ran.shown());
    let answers = of(&report, "models");
    assert!(answers[0].0 == "ok" && answers[0].1.contains("good-1 answered in "), "{answers:?}");
    assert!(!ran.stdout.contains("Four."), "what a model says is for nobody who reads a report: {answers:?}");
    assert!(answers[1].0 == "problem" && answers[1].1.contains("who are you?"), "{answers:?}");
    let default = &of(&report, "default-model")[0];
    assert_eq!(default, &finding("ok", "`good` (good-1) with a window of 9000 tokens"));
    let keys = details(&report, "keys");
    assert!(keys.contains("A_KEY: providers.bad") && !ran.stdout.contains("value-of-the-key"), "{}", ran.shown());

    // Without the network nobody is asked, and an unset variable is named.
    let ran = doctor(&place, &[&check[..], &["--offline"]].concat(), &[]);
    assert_eq!((ran.code, asked(&good), asked(&bad)), (0, 1, 1), "{}", ran.shown());
    assert!(ran.stdout.contains("set A_KEY where agents are run"), "{}", ran.shown());
}

#[test]
fn doctor_runs_nothing_of_an_untrusted_project() {
    let server = served("200 OK", FOUR);
    let place = Place::untrusted();
    let left = place.path().join("it-ran");
    let touch = format!(", api_key_command: [touch, '{}']", left.display());
    place.file(
        "shelly.yaml",
        format!(
            "providers:\n{}mcp_servers: [{{name: s, command: touch, args: ['{}']}}]\nagents: [{{name: a}}]\n",
            model("m", &server, &touch),
            left.display()
        ),
    );
    let ran = doctor(&place, &["--start-servers", "--output", "json"], &[]);
    let report = json(&ran);
    assert_eq!((asked(&server), left.exists()), (0, false), "{}", ran.shown());
    assert_eq!(of(&report, "models"), [finding("note", "models were not asked: the project is not trusted")]);
    assert!(of(&report, "mcp-servers")[0].1.ends_with("not connected: the project is not trusted"), "{}", ran.shown());
    let (status, message) = &of(&report, "trust")[0];
    assert!(status == "note" && message.contains("not trusted yet"), "{}", ran.shown());

    assert_eq!(place.run(&["config", "trust", "--yes"]).code, 0);
    let ran = doctor(&place, &["--output", "json"], &[]);
    let report = json(&ran);
    assert_eq!(of(&report, "trust")[0].0, "ok", "{}", ran.shown());
    assert!(left.exists(), "the program that prints the key is run for a trusted project: {}", ran.shown());
}

#[test]
fn doctor_starts_mcp_servers_only_when_told() {
    let place = Place::new();
    place.file(
        "tools.json",
        r#"[{"name": "echo", "description": "Says it again.", "inputSchema": {"type": "object"}}]"#,
    );
    let servers = format!(
        "mcp_servers:\n  - {{name: t, command: '{SERVER}', args: [tools.json]}}\n  - {{name: gone, command: no-such-program}}\n"
    );
    place.file(
        "c.yaml",
        format!("providers: [{{name: m, kind: ollama, model: m, retries: 0}}]\nagents: [{{name: a}}]\n{servers}"),
    );
    let named = doctor(&place, &["--config", "c.yaml", "--offline", "--output", "json"], &[]);
    let report = json(&named);
    assert_eq!(
        of(&report, "mcp-servers"),
        [finding("note", "2 servers, not connected; use --start-servers to connect")]
    );
    // The model does not answer, as no server does; only the servers matter here.
    let started = doctor(&place, &["--config", "c.yaml", "--start-servers", "--output", "json"], &[]);
    let report = json(&started);
    let servers = of(&report, "mcp-servers");
    assert_eq!(servers[0], finding("ok", "t answers with 1 tool"), "{}", started.shown());
    assert!(servers[1].0 == "problem" && servers[1].1.contains("gone"), "{}", started.shown());
    assert_eq!(started.code, 1);
}

#[test]
fn doctor_says_why_a_plugin_cannot_be_loaded() {
    let place = Place::new();
    place.plugin("fine", "kinds = [\"tool\"]\n", HOLLOW);
    place.plugin_bytes("broken", "kinds = [\"tool\"]\n", b"no component");
    let ran = doctor(&place, &["--offline", "--plugins", "plugins"], &[]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    assert!(ran.stdout.contains("ok       plugins        1 of 2 plugins can be loaded"), "{}", ran.shown());
    assert!(
        ran.stdout.contains("problem  plugins        `broken` in plugins/broken cannot be used"),
        "{}",
        ran.shown()
    );
    assert!(ran.stdout.ends_with("notes\n") && ran.stdout.contains("\n1 problem, "), "{}", ran.shown());
    let ran = doctor(&place, &["--offline", "--plugins", "nowhere"], &[]);
    assert!(ran.code == 1 && ran.stdout.contains("cannot read the plugin directory nowhere"), "{}", ran.shown());
}

#[test]
fn doctor_finds_directories_that_cannot_be_written() {
    let place = Place::new();
    let file = place.file("file", "");
    let below = file.join("cache").display().to_string();
    let ran = doctor(&place, &["--offline"], &[("SHELLY_CACHE_DIR", &below), ("XDG_STATE_HOME", &below)]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    for name in ["cache", "state"] {
        assert!(ran.stdout.contains(&format!("problem  directories    {name}: ")), "{}", ran.shown());
    }
    // What is not recorded needs no directory.
    place.file(".shelly/local/sessions", "");
    for (config, code) in [("sessions: {record: true}\n", 1), ("sessions: {record: false}\n", 0)] {
        place.file("shelly.yaml", config);
        let ran = doctor(&place, &["--offline"], &[]);
        assert_eq!(ran.code, code, "{}", ran.shown());
        assert_eq!(ran.stdout.contains("problem  directories    sessions: "), code == 1, "{}", ran.shown());
    }
    let ran = doctor(&place, &["--offline"], &[("PATH", "/nowhere")]);
    assert!(ran.code == 0 && ran.stdout.contains("note     programs       git is missing"), "{}", ran.shown());
}

/// Credentials, each in another place, and texts of a person.
const SECRETS: [&str; 9] = [
    "sk-environment-0001",
    "sk-inline-config-0002",
    "header-value-0003-abcdef",
    "argument-value-0004-abcdef",
    "password-in-url-0005",
    "sk-session-text-0006",
    "the private instructions",
    "sk-server-echo-0007",
    "sk-from-a-file-0008",
];

#[test]
fn bundle_holds_no_planted_secret() {
    let [environment, inline, header, argument, password, session, instructions, echoed, filed] = SECRETS;
    let server = Server::start(move |request| match request.contains("filed-1") {
        true => answer("401 Unauthorized", &format!(r#"{{"error":{{"message":"no {echoed} and no {filed}"}}}}"#)),
        false => answer("200 OK", FOUR),
    });
    let place = Place::new();
    place.file("key.txt", filed);
    let models = model("open", &server, &format!(", api_key: '{inline}', headers: {{X-Extra: '{header}'}}"))
        + &model("filed", &server, ", api_key_file: key.txt, retries: 0");
    let config = format!(
        "providers:\n{models}mcp_servers: [{{name: s, command: '{SERVER}', args: [tools.json, '{argument}']}}, \
         {{name: web, url: 'https://me:{password}@mcp.example/x'}}]\n\
         agents: [{{name: ada, instructions: '{instructions}'}}]\n"
    );
    place.file("c.yaml", &config);
    let task = format!("Remember {session} for me");
    let run = place.run(&["run", "--config", "c.yaml", "--session", "one", &task]);
    assert_eq!(run.code, 0, "{}", run.shown());

    let variables = [("SOME_API_TOKEN", environment), ("OPENAI_API_KEY", echoed)];
    let ran = doctor(&place, &["--config", "c.yaml", "--bundle", "report.txt"], &variables);
    assert_eq!(ran.code, 1, "one model refuses its key: {}", ran.shown());
    assert!(ran.stdout.ends_with("the report is in report.txt: read it before you share it\n"), "{}", ran.shown());
    let report = fs::read_to_string(place.path().join("report.txt")).unwrap();
    for secret in SECRETS {
        assert!(!report.contains(secret), "{secret}:\n{report}");
        assert!(!ran.stdout.contains(secret) && !ran.stderr.contains(secret), "{secret}: {}", ran.shown());
    }
    // What is of use is there.
    for part in [
        "== versions",
        "wasmtime  ",
        "== findings",
        "problem  models",
        "== config",
        "\"name\": \"open\"",
        "\"api_key\": \"***\"",
        "(24 characters)",
        "== plugins",
        "== newest session",
        "one: ",
        " began",
        " ended",
    ] {
        assert!(report.contains(part), "{part}:\n{report}");
    }
    assert!(!report.contains("Remember") && !report.contains("Four."), "{report}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(place.path().join("report.txt")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "nobody else reads it before it was looked through");
    }

    // A config that nobody can parse, and that is full of secrets, is left out.
    place.file("broken.yaml", format!("{config}  - [\n"));
    let ran = doctor(&place, &["--config", "broken.yaml", "--offline", "--bundle", "broken.txt"], &variables);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    let report = fs::read_to_string(place.path().join("broken.txt")).unwrap();
    assert!(SECRETS.iter().all(|secret| !report.contains(secret)), "{report}");
    assert!(report.contains("it cannot be read as YAML"), "{report}");
}

#[test]
fn bundle_never_replaces_a_file() {
    let server = served("200 OK", FOUR);
    let place = Place::new();
    place.file("c.yaml", format!("providers:\n{}", model("m", &server, "")));
    place.file("mine.txt", "mine");
    for (path, says) in [("mine.txt", "is there already"), ("none/report.txt", "there is no folder none")] {
        let ran = doctor(&place, &["--config", "c.yaml", "--bundle", path], &[]);
        assert_eq!((ran.code, ran.stdout.as_str(), asked(&server)), (2, "", 0), "{}", ran.shown());
        assert!(ran.stderr.contains(says) && ran.stderr.contains("--bundle"), "{}", ran.shown());
        let ran = doctor(&place, &["--config", "c.yaml", "--bundle", path, "--output", "json"], &[]);
        assert_eq!(json(&ran)["exit_code"], 2, "{}", ran.shown());
    }
    assert_eq!(fs::read_to_string(place.path().join("mine.txt")).unwrap(), "mine");
    let written = doctor(&place, &["--offline", "--bundle", "new.txt", "--output", "json"], &[]);
    assert_eq!(json(&written)["bundle"], "new.txt", "{}", written.shown());
    assert!(place.path().join("new.txt").is_file());
}
