//! The client that the scripts in `tests/mcp` drive, here against our own server with the guest that the scripts
//! serve.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use crate::support::{Place, Ran};

/// The client in this folder, without the keys and the home folder of the developer.
fn fixture(place: &Place, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-mcp-fixture"));
    command.args(arguments).current_dir(place.path()).env_clear().stdin(Stdio::null());
    command
}

/// The client, given these lines.
fn drive(place: &Place, steps: &[Value]) -> Ran {
    let mut command = fixture(place, &["drive"]);
    let mut child: Child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines: String = steps.iter().map(|step| format!("{step}\n")).collect();
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    place.ran(child.wait_with_output().unwrap())
}

/// The program as a server, as a script names it: it inherits nothing.
fn server(place: &Place) -> Vec<String> {
    let command = place.command(&["mcp", "--trust", "--plugins", crate::GUEST_ROOT]);
    let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
    let variables = command.get_envs().map(|(name, value)| format!("{}={}", text(name), text(value.unwrap())));
    let program = [text(command.get_program())].into_iter().chain(command.get_args().map(text));
    ["/usr/bin/env".to_owned()].into_iter().chain(variables).chain(program).collect()
}

#[test]
fn mcp_fixture_script_drives_client_and_server() {
    let place = Place::new();
    place.file(
        "shelly.yaml",
        "agents: [{name: suite, plugins: {probe-mcp: {clock: true, confirm: true, params: {tools: \
         [test_simple_text, test_image_content, test_tool_with_progress, test_error_handling]}}}}]\n",
    );
    let call = |tool: &str| json!({"call": {"tool": tool}});
    for revisions in ["any", "handshake", "stateless"] {
        let connect = json!({"program": server(&place), "revisions": revisions, "form": {"answer": "yes"}});
        let ran = drive(
            &place,
            &[
                json!({"connect": connect}),
                call("test_simple_text"),
                call("test_image_content"),
                call("test_tool_with_progress"),
                call("test_error_handling"),
            ],
        );
        assert_eq!(ran.code, 0, "{revisions}: {}", ran.shown());
        let said: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(said[0]["tools"].as_array().unwrap().contains(&json!("test_simple_text")), "{revisions}: {}", said[0]);
        assert_eq!((&said[1]["text"], &said[1]["is_error"]), (&json!("done"), &json!(false)), "{revisions}");
        let asked = said[1]["asked"][0]["elicitation"].as_str().unwrap();
        assert!(asked.contains("`suite`") && asked.contains("test_simple_text"), "{revisions}: {asked}");
        assert_eq!(said[2]["content"][0]["type"], "media", "{revisions}: {}", said[2]);
        let progress: Vec<_> = said[3]["progress"].as_array().unwrap().iter().map(|told| &told["done"]).collect();
        assert_eq!(progress, [&json!(0.0), &json!(50.0), &json!(100.0)], "{revisions}");
        assert!(
            said[4]["is_error"] == json!(true) && said[4]["text"].as_str().unwrap().contains("fails"),
            "{}",
            said[4]
        );
    }
    let connect = json!({"program": server(&place), "form": null});
    let ran = drive(&place, &[json!({"connect": connect}), call("test_simple_text"), call("no_such_tool")]);
    let said: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(said[1]["is_error"] == json!(true), "who says no is not overruled: {}", said[1]);
    assert!(ran.code == 1 && ran.stderr.contains("the server has no tool `no_such_tool`"), "{}", ran.shown());
}

#[test]
fn mcp_fixture_reports_an_invalid_script() {
    let place = Place::new();
    let roots = json!({"roots": ["file:///a"]});
    let nowhere = json!({"connect": {"program": ["/no/such/program"]}});
    for (steps, code, stdout, stderr) in [
        (vec![json!({"jump": 1})], 2, "", "a line is no step"),
        (vec![json!({"connect": {}})], 2, "", "a server is a program or has an address"),
        (vec![roots], 2, "", "a script begins with a connection"),
        (vec![nowhere], 0, "cannot start the MCP server", ""),
    ] {
        let ran = drive(&place, &steps);
        let is_so = ran.code == code && ran.stdout.contains(stdout) && ran.stderr.contains(stderr);
        assert!(is_so, "{steps:?}: {}", ran.shown());
    }
    let ran = place.ran(fixture(&place, &["play", "http://127.0.0.1:9"]).output().unwrap());
    assert!(ran.code == 2 && ran.stderr.contains("MCP_CONFORMANCE_SCENARIO is not set"), "{}", ran.shown());
}
