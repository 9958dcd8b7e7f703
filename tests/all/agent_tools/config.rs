//! Agents that a config gives to other agents as tools, in runs of the program.

use serde_json::Value;

use crate::{PLUGIN_ROOT, support::Place, wiring::scripted};

fn config(port: u16, lead: &str, more: &str) -> String {
    format!(
        "providers: [{{name: m, kind: openai, base_url: 'http://127.0.0.1:{port}/v1', model: m, api_key: k}}]\n\
         agents:\n  - name: lead\n{lead}  - {{name: bob, description: Knows birds., instructions: You are a bird.{more}}}\n  \
         - {{name: eve}}\n"
    )
}

#[test]
fn configured_agent_works_as_a_tool() {
    let place = Place::new();
    let server = scripted(&[("birds", r#"{"task": "Which birds sing?"}"#)]);
    let lead = "    agent_tools: [{agent: bob, name: birds}]\n";
    place.file("shelly.yaml", config(server.port, lead, ""));
    let ran = place.run(&["run", "go", "--output", "events", "--no-session"]);
    assert_eq!(ran.code, 0, "{}", ran.shown());
    let events: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let started: Vec<_> = events.iter().filter(|event| event["event"] == "run_started").collect();
    assert_eq!(started.len(), 2, "{}", ran.shown());
    assert_eq!((&started[1]["agent"], &started[1]["parent_agent"]), (&"lead/birds#1".into(), &"lead".into()));
    let asked = server.asked.lock().unwrap();
    assert_eq!(asked.len(), 3);
    assert!(asked[0].contains(r#""name":"birds""#) && asked[0].contains("Knows birds."), "{}", asked[0]);
    assert!(asked[1].contains("You are a bird.") && asked[1].contains("Which birds sing?"), "{}", asked[1]);
    // Nobody delegates here.
    assert!(!asked.iter().any(|asked| asked.contains(r#""name":"delegate""#) || asked.contains("available_agents")));
}

#[test]
fn kept_conversation_is_resumed_by_the_next_process() {
    let place = Place::new();
    let lead = "    agent_tools: [{agent: bob, conversation: kept}]\n";
    let mut asked = Vec::new();
    for task in ["first", "second"] {
        let arguments = format!(r#"{{"task": "the {task} question"}}"#);
        let server = scripted(&[("bob", &arguments)]);
        place.file("shelly.yaml", config(server.port, lead, ""));
        let ran = place.run(&["run", task, "--session", "s"]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        asked = server.asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 3);
    }
    assert!(asked[1].contains("the first question") && asked[1].contains("the second question"), "{}", asked[1]);
    // In the session its runs stand below the calls.
    let shown = place.run(&["session", "show", "s"]);
    assert!(shown.stdout.contains("lead/bob"), "{}", shown.shown());
}

#[test]
fn agent_tool_errors_are_reported_before_the_run() {
    let lead = "    agent_tools: [bob]\n";
    for (lead, more, code, says) in [
        (lead, ", plugins: {nowhere: }", 3, "there is no plugin `nowhere`"),
        ("    agent_tools: [bbo]\n", "", 2, "there is no agent `bbo`"),
        (lead, ", agent_tools: [lead]", 2, "lead → bob → lead"),
    ] {
        let place = Place::new();
        place.file("shelly.yaml", config(1, lead, more));
        for (command, code) in [(["config", "check"], 2), (["run", "go"], code)] {
            let ran = place.run(&[&command[..], &["--plugins", PLUGIN_ROOT]].concat());
            assert_eq!(ran.code, code, "{}", ran.shown());
            assert!(ran.stderr.contains(says), "{says}: {}", ran.shown());
        }
    }
}

#[test]
fn config_check_shows_agent_tools_with_defaults() {
    let place = Place::new();
    let lead = "    agent_tools: [bob, {agent: eve, name: ask_eve, description: Knows all., conversation: kept,\n      \
                instruction: Be short., input_schema: {type: object, properties: {q: {type: string}}}}]\n    \
                delegable: {agents: [bob, eve]}\n";
    place.file("shelly.yaml", config(1, lead, ""));
    let ran = place.run(&["config", "check", "--output", "json"]);
    let value: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.shown()));
    let tools = &value["config"]["agents"][0]["agent_tools"];
    let expected = serde_json::json!([
        {"agent": "bob", "name": "bob", "description": "Knows birds.", "conversation": "fresh", "input_schema": null,
         "instruction": ""},
        {"agent": "eve", "name": "ask_eve", "description": "Knows all.", "conversation": "kept",
         "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}, "instruction": "Be short."},
    ]);
    assert_eq!(*tools, expected);
    assert!(!ran.stderr.contains("starts no other agents"), "{}", ran.shown());
}
