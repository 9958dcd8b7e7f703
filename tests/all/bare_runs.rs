//! Runs without a config: the agent's tools, its model, and the effects that keep the conversation short.

use serde_json::{Value, json};

use crate::{
    bad_input::{FOUR, Server, answer, has_local_model_server},
    support::{Place, Ran},
};

/// A server with a model, which answers everything.
fn server(models: &'static str) -> Server {
    Server::start(move |request| match request.starts_with("GET ") {
        true => answer("200 OK", models),
        false => answer("200 OK", FOUR),
    })
}

fn run(place: &Place, server: &Server, arguments: &[&str]) -> Ran {
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    place.ran(place.command(arguments).env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", url).output().unwrap())
}

/// A server whose model first calls these tools, each without arguments or with those given, and then answers.
fn calling(calls: &[(&str, Value)]) -> Server {
    let call = |(at, (name, arguments)): (usize, &(&str, Value))| json!({"id": at.to_string(), "type": "function", "function": {"name": name, "arguments": arguments.to_string()}});
    let calls: Vec<_> = calls.iter().enumerate().map(call).collect();
    let calls = json!({"choices": [{"message": {"tool_calls": calls}, "finish_reason": "tool_calls"}]}).to_string();
    Server::start(move |request| match request.contains(r#""role":"tool""#) {
        _ if request.starts_with("GET ") => answer("200 OK", r#"{"data":[{"id":"m"}]}"#),
        true => answer("200 OK", FOUR),
        false => answer("200 OK", &calls),
    })
}

/// The names of the tools that the last request offers.
fn offered(server: &Server) -> Vec<String> {
    let asked = server.asked.lock().unwrap();
    let request = asked.last().unwrap();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn default_agent_has_the_plugins_that_need_no_grant() {
    let (place, server) = (Place::new(), server(r#"{"data":[{"id":"gpt-4.1-mini"}]}"#));
    let ran = run(&place, &server, &["run", "hi"]);
    assert!(ran.code == 0 && !ran.stderr.contains("ignoring"), "{}", ran.shown());
    let tools = offered(&server);
    for tool in ["count_text", "longest_lines", "calculate"] {
        assert!(tools.contains(&tool.to_owned()), "{tool}: {tools:?}");
    }
    for tool in ["read_file", "write_file", "fetch"] {
        assert!(!tools.contains(&tool.to_owned()), "{tool}: {tools:?}");
    }
    // Whoever names a directory has what lies there, and is told what is left out.
    let ran = run(&place, &server, &["run", "--plugins", crate::PLUGIN_ROOT, "hi"]);
    assert!(ran.stderr.contains("ignoring plugins that need grants from a config"), "{}", ran.shown());
    assert_eq!(offered(&server), tools);
    // What a project brings is not taken for that.
    place.plugin("evil", "kinds = [\"tool\"]\nparams = []\n", "(component)");
    std::fs::rename(place.path().join("plugins"), place.path().join(".shelly-plugins")).unwrap();
    std::fs::create_dir_all(place.path().join(".shelly")).unwrap();
    std::fs::rename(place.path().join(".shelly-plugins"), place.path().join(".shelly/plugins")).unwrap();
    let ran = run(&place, &server, &["run", "hi"]);
    assert!(ran.code == 0 && !ran.stderr.contains("evil"), "{}", ran.shown());
}

#[test]
fn bare_run_works_in_the_current_folder() {
    let place = Place::new();
    place.file(".shelly/context.md", "The project is called Heron.\n");
    place.git(&place.path(), &["init", "--quiet", "--initial-branch=main"]);
    place.file("new.txt", "new");
    let server = calling(&[("git_status", json!({})), ("exec_run", json!({"command": "pwd"}))]);
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    let mut command = place.command(&["run", "--approve", "all", "hi"]);
    command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", url).env("PATH", "/usr/bin:/bin");
    let ran = place.ran(command.output().unwrap());
    assert!(ran.code == 0 && !ran.stderr.contains("ignoring") && !ran.stderr.contains("failed"), "{}", ran.shown());
    let asked = server.asked.lock().unwrap();
    let last = asked.last().unwrap();
    for part in ["called Heron", "new.txt", place.path().to_str().unwrap()] {
        assert!(last.contains(part), "{part}: {last}");
    }
    drop(asked);
    let shown = place.run(&["config", "show"]);
    assert!(shown.code == 0 && shown.stdout.contains("work_dir: [DIR]"), "{}", shown.shown());
}

#[test]
fn server_that_does_not_name_its_models_is_reported() {
    let place = Place::new();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let closed = Server { port, asked: Default::default() };
    let ran = run(&place, &closed, &["run", "hi"]);
    assert_eq!(ran.code, 4, "{}", ran.shown());
    for says in [
        &*format!("the server at 127.0.0.1:{port}, to which OPENAI_BASE_URL leads, does not say which models it has"),
        "correct OPENAI_BASE_URL, unset it to use OpenAI itself, or name a model with --model",
    ] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
    assert!(!ran.shown().contains("gpt-5-mini"), "nobody has chosen that: {}", ran.shown());
    assert!(ran.stderr.contains("Connection refused") && !ran.stderr.contains("os error"), "{}", ran.shown());
    // A failure names the variable beside the key.
    let ran = run(&place, &closed, &["run", "--model", "m", "hi"]);
    assert!(ran.code == 4 && ran.stderr.contains("OPENAI_BASE_URL leads to 127.0.0.1"), "{}", ran.shown());
    let unlisted = run(&place, &server("{}"), &["run", "hi"]);
    assert!(unlisted.stderr.contains("so the usual model of OpenAI, gpt-5-mini, is asked for"), "{}", unlisted.shown());
    let address = [("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")];
    let without_key = place.ran(place.command(&["run", "--model", "m", "hi"]).envs(address).output().unwrap());
    let says = "OPENAI_BASE_URL is set, but is not used without OPENAI_API_KEY";
    assert!(without_key.code == 2 && without_key.stderr.contains(says), "{}", without_key.shown());
}

#[test]
fn mistaken_model_name_is_explained() {
    let place = Place::new();
    let says = |arguments: &[&str], parts: &[&str]| {
        let ran = place.run(&[&["run", "hi", "--model"], arguments].concat());
        assert_eq!(ran.code, 2, "{}", ran.shown());
        parts.iter().for_each(|part| assert!(ran.stderr.contains(part), "{part}: {}", ran.shown()));
    };
    if !has_local_model_server() {
        says(&["oflline-model"], &["there is no model `oflline-model`", "did you mean `offline-model`?"]);
    }
    says(
        &["read-files"],
        &["`read-files` is a plugin of kind tool; a model is one of kind provider", "`offline-model`"],
    );
    place.file(
        "shelly.yaml",
        "providers: [{name: mine, kind: openai, model: gpt-mock, base_url: 'http://127.0.0.1:9/v1'}]\n",
    );
    for (given, near) in [("oflline-model", "offline-model"), ("mime", "mine"), ("gpt-mok", "gpt-mock")] {
        says(&[given], &[&format!("there is no model `{given}`"), &format!("did you mean `{near}`?")]);
    }
}

#[test]
fn vendors_name_selects_the_model_of_the_config() {
    let (place, server) = (Place::new(), server("{}"));
    let entry = |name: &str, model: &str| {
        format!("  - {{name: {name}, kind: openai, model: {model}, base_url: 'http://127.0.0.1:{}/v1'}}\n", server.port)
    };
    place.file("shelly.yaml", format!("providers:\n{}{}", entry("other", "gpt-other"), entry("mine", "gpt-mock")));
    let ran = place.run(&["run", "--model", "gpt-mock", "hi"]);
    assert!(ran.code == 0 && ran.stderr.contains("on gpt-mock"), "{}", ran.shown());
    assert!(server.asked.lock().unwrap().last().unwrap().contains(r#""model":"gpt-mock""#));
    place.file("shelly.yaml", format!("providers:\n{}{}", entry("yours", "gpt-mock"), entry("mine", "gpt-mock")));
    let ran = place.run(&["run", "--model", "gpt-mock", "hi"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    for says in ["2 models of the config are called `gpt-mock` by their vendors", "name one of them: `yours`, `mine`"] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
}

#[test]
fn plugin_is_certified_for_the_default_agent() {
    let place = Place::new();
    let certify = |arguments: &[&str]| place.run(&[&["plugin", "certify"], arguments].concat());
    let ran = certify(&["count-text"]);
    let certificate: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{}", ran.shown()));
    assert_eq!((ran.code, &certificate["agent"], &certificate["runs"]), (0, &"assistant".into(), &true.into()));
    // A plugin of its toolboxes has what they grant.
    let certificate: Value = serde_json::from_str(&certify(&["filesystem"]).stdout).unwrap();
    assert_eq!(certificate["grant"]["files"][0]["path"], "[DIR]", "{certificate}");
    for (id, parts) in [
        (
            "read-files",
            &["has no plugin `read-files`", "the default agent", "plugins: {read-files: {files: [{path:"][..],
        ),
        ("read-fiels", &["there is no plugin `read-fiels`", "did you mean `read-files`?"]),
    ] {
        let ran = certify(&[id]);
        assert_eq!(ran.code, 2, "{}", ran.shown());
        parts.iter().for_each(|part| assert!(ran.stderr.contains(part), "{part}: {}", ran.shown()));
        assert!(!ran.stderr.contains("the config has no agents"), "{}", ran.shown());
    }
    let ran = place.run(&["plugin", "inspect", "count-txt"]);
    assert!(ran.code == 2 && ran.stderr.contains("did you mean `count-text`?"), "{}", ran.shown());
}

#[test]
fn bare_run_compacts_when_the_window_is_known() {
    let place = Place::new();
    for models in [r#"{"data":[{"id":"m","context_length":4096}]}"#, r#"{"data":[{"id":"m"}]}"#] {
        let server = server(models);
        let ran = run(&place, &server, &["run", "--verbose", "hi"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let is_unknown = ran.stderr.contains(UNKNOWN_WINDOW);
        assert_eq!(is_unknown, !models.contains("4096"), "{}", ran.shown());
    }
    // A task that does not fit is not sent.
    let server = server(r#"{"data":[{"id":"m","context_length":4096}]}"#);
    let ran = run(&place, &server, &["run", &"word ".repeat(4_000)]);
    assert_eq!(ran.code, 1, "{}", ran.shown());
    for says in
        ["the window of model `m` is 4096", "set providers.m.context_window in the config", "give a smaller task"]
    {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
    assert_eq!(server.asked.lock().unwrap().len(), 1, "models were listed, and nothing was asked");
}

/// The beginning of the notice about a model whose window nobody says.
const UNKNOWN_WINDOW: &str = "the context window of `m` is not known";

#[test]
fn unknown_window_is_told_once_and_can_be_set() {
    let (place, server) = (Place::new(), server(r#"{"data":[{"id":"m"}]}"#));
    let settings = place.path().join("settings");
    let told = |arguments: &[&str]| {
        let url = format!("http://127.0.0.1:{}/v1", server.port);
        let mut command = place.command(arguments);
        command.env("OPENAI_API_KEY", "sk-test").env("OPENAI_BASE_URL", url).env("XDG_CONFIG_HOME", &settings);
        place.ran(command.output().unwrap())
    };
    let ran = told(&["run", "hi"]);
    assert_eq!(ran.stderr.matches(UNKNOWN_WINDOW).count(), 1, "{}", ran.shown());
    for says in ["`default_context_windows: {openai: 128000}`", "[DIR]/settings/shelly-host/config.yaml"] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
    assert!(!ran.stderr.contains("warning:") && !ran.stderr.contains("agents.assistant"), "{}", ran.shown());
    let ran = told(&["run", "--quiet", "hi"]);
    assert!(ran.code == 0 && ran.stderr.is_empty(), "{}", ran.shown());
    let ran = told(&["doctor"]);
    assert!(ran.stdout.contains("default_context_windows: {openai: 128000}"), "{}", ran.shown());
    // The line that the notice shows helps, and leaves the default agent as it was.
    let file = place.file("settings/shelly-host/config.yaml", "default_context_windows: {openai: 128000}\n");
    #[cfg(unix)]
    for (path, mode) in [(file.as_path(), 0o600), (file.parent().unwrap(), 0o700), (settings.as_path(), 0o700)] {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    }
    let ran = told(&["run", "hi"]);
    assert!(ran.code == 0 && !ran.stderr.contains(UNKNOWN_WINDOW), "{}", ran.shown());
    assert!(offered(&server).contains(&"fs_read".to_owned()), "{:?}", offered(&server));
}

#[test]
fn provider_plugin_without_needs_is_chosen_by_its_id() {
    let place = Place::new();
    let listed = place.run(&["plugin", "list"]);
    assert!(listed.stdout.contains("offline-model"), "{}", listed.shown());
    let task = "How many words are in \"one two three\"?";
    let ran = place.run(&["run", "--model", "offline-model", task]);
    assert!(ran.code == 0 && ran.stdout.contains("has 3 words"), "{}", ran.shown());
    // It is what the help shows.
    let help = place.run(&["run", "--help"]).stdout;
    assert!(help.contains("--model offline-model"), "{help}");
    for key in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "XAI_API_KEY", "OPENROUTER_API_KEY"] {
        assert!(help.contains(key), "{key}: {help}");
    }
    let ran = place.run(&["run", "--model", "ollama", task]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    for says in ["the plugin `ollama` cannot be used without a config", "the plugin needs grants: `http"] {
        assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
    }
    // In place of the models of a config too.
    let server = server("{}");
    place.file("shelly.yaml", server.config(""));
    let ran = place.run(&["run", "--model", "offline-model", task]);
    assert!(ran.code == 0 && server.asked.lock().unwrap().is_empty(), "{}", ran.shown());
    let ran = place.run(&["run", "--model", "count-text", task]);
    assert!(ran.code == 2 && ran.stderr.contains("count-text"), "{}", ran.shown());
}

#[test]
fn mcp_serves_the_plugins_that_need_no_grant() {
    use std::{io::Write, process::Stdio};
    let place = Place::new();
    let mut command = place.command(&["mcp"]);
    let mut served = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let list = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;
    let mut input = served.stdin.take().unwrap();
    writeln!(input, "{hello}\n{ready}\n{list}").unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(served.stdout.take().unwrap()));
    let listed = lines.find_map(|line| line.ok().filter(|line| line.contains("\"id\":2"))).unwrap();
    drop(input);
    served.wait().unwrap();
    assert!(listed.contains("\"count_text\""), "{listed}");
}
