//! Runs without a config: the agent's tools, its model, and the effects that keep the conversation short.

use serde_json::Value;

use crate::{
    bad_input::{FOUR, Server, answer},
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
fn bare_run_compacts_when_the_window_is_known() {
    let place = Place::new();
    for models in [r#"{"data":[{"id":"m","context_length":4096}]}"#, r#"{"data":[{"id":"m"}]}"#] {
        let server = server(models);
        let ran = run(&place, &server, &["run", "--verbose", "hi"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        let is_unknown = ran.stderr.contains("the model's context window is unknown");
        assert_eq!(is_unknown, !models.contains("4096"), "{}", ran.shown());
        assert!(!is_unknown || ran.stderr.contains("`compact`"), "{}", ran.shown());
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
