//! The command `shelly-host acp`, driven by a scripted editor. Each message of the program is checked against the schema
//! of the protocol.

mod conversations;
mod editor;
mod files;
mod malformed;
mod schema;

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        mpsc::{Receiver, Sender, channel},
    },
};

use editor::ScriptedEditor;
use serde_json::{Value, json};

use crate::{
    bad_input::{FOUR, Server, answer},
    changes::{self, docs},
    support::Place,
};

/// The options with which the project of a place is trusted.
const TRUST: &[&str] = &["--trust"];

/// A model that answers each request once it is told to.
pub struct WaitingModel {
    pub server: Server,
    /// Tells the model to answer the next request.
    pub go: Sender<()>,
    /// Hears of each request.
    pub asked: Receiver<()>,
}

impl WaitingModel {
    pub fn start() -> Self {
        let ((go, wait), (ask, asked)) = (channel(), channel());
        let wait = Mutex::new(wait);
        let server = Server::start(move |_| {
            let _ = ask.send(());
            let _ = wait.lock().unwrap().recv();
            answer("200 OK", FOUR)
        });
        Self { server, go, asked }
    }
}

/// A model that calls this tool once, and then answers.
fn calling(tool: &str, arguments: &Value) -> Server {
    let function = json!({"name": tool, "arguments": arguments.to_string()});
    let call = json!({"tool_calls": [{"id": "1", "type": "function", "function": function}]});
    let calls = json!({"choices": [{"message": call, "finish_reason": "tool_calls"}]}).to_string();
    Server::start(move |request| match request.contains(r#""role":"tool""#) {
        true => answer("200 OK", FOUR),
        false => answer("200 OK", &calls),
    })
}

/// The config of one agent on a model, with these further keys of the agent.
fn agent(server: &Server, keys: &str) -> String {
    let url = format!("http://127.0.0.1:{}/v1", server.port);
    format!("providers: [{{name: m, kind: openai, base_url: '{url}', model: m}}]\nagents: [{{name: ada, {keys}}}]\n")
}

#[test]
fn editor_is_told_what_the_agent_can_do() {
    let place = Place::new();
    for (arguments, servers) in [(&[][..], false), (&["--allow-client-mcp", "t"], true)] {
        let mut editor = ScriptedEditor::start(&place, arguments);
        let greeting = editor.ask("initialize", json!({"protocolVersion": 1}));
        let result = &greeting["result"];
        assert_eq!((&result["protocolVersion"], &result["authMethods"]), (&json!(1), &json!([])));
        let abilities = &result["agentCapabilities"];
        assert_eq!(abilities["loadSession"], true);
        let prompts = json!({"image": true, "audio": false, "embeddedContext": true});
        assert_eq!(abilities["promptCapabilities"], prompts);
        assert_eq!(abilities["mcpCapabilities"]["http"], servers);
        let (code, said) = editor.end();
        assert_eq!((code, &*said), (0, ""));
    }
}

#[test]
fn prompt_is_answered_and_recorded() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("shelly.yaml", server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    assert_eq!(editor.prompted(&session, "What is two and two?"), "end_turn");
    assert_eq!(editor.text(&session, "agent_message_chunk"), "Four.");
    let (_, info) = editor.update("session_info_update");
    assert_eq!(info["title"], "What is two and two?");
    assert_eq!(editor.prompted(&session, "And again?"), "end_turn");
    assert!(server.asked.lock().unwrap()[1].contains("What is two and two?"), "one conversation");
    let listed = editor.ask("session/list", json!({"cwd": place.path()}));
    assert_eq!(listed["result"]["sessions"][0]["sessionId"], session);
    assert_eq!(listed["result"]["sessions"][0]["title"], "What is two and two?");
    assert_eq!(editor.end().0, 0);
    let shown = place.run(&["session", "show", &session]);
    assert!(shown.stdout.contains("And again?"), "{}", shown.shown());
}

#[test]
fn sessions_of_an_untrusted_cluster_are_not_listed() {
    let place = Place::untrusted();
    // Nothing listens there, which another message would say.
    place.file("shelly.yaml", "cluster: {nats: 'nats://127.0.0.1:9', namespace: team-a}\n");
    let mut editor = ScriptedEditor::greeted(&place, &[], json!({}));
    let listed = editor.ask("session/list", json!({"cwd": place.path()}));
    let says = listed["error"].to_string();
    assert!(says.contains("in a cluster that you have not trusted yet"), "{listed}");
    assert_eq!(editor.end().0, 0);
}

#[test]
fn images_and_files_reach_the_model() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("shelly.yaml", server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    let prompt = json!([
        {"type": "text", "text": "Compare "},
        {"type": "resource", "resource": {"uri": "file:///x/a.rs", "text": "fn a() {}"}},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
    ]);
    let answered = editor.ask("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(answered["result"]["stopReason"], "end_turn", "{answered}");
    let asked = server.asked.lock().unwrap();
    for part in ["Compare [@a.rs](/x/a.rs)", "fn a() {}", "data:image/png;base64,iVBORw0KGgo="] {
        assert!(asked[0].contains(part), "{part}: {}", asked[0]);
    }
}

#[test]
fn change_is_asked_about_with_its_diff() {
    for (choice, is_made, status) in [
        (json!({"outcome": "selected", "optionId": "allow_once"}), true, "completed"),
        (json!({"outcome": "selected", "optionId": "reject_once"}), false, "failed"),
        (json!({"outcome": "cancelled"}), false, "failed"),
    ] {
        let place = Place::new();
        place.file("docs/a.txt", "one\n");
        let calls = [json!([changes::edit("a.txt", "one\n", "two\n")])];
        let server = changes::configure(&place, "powers: [propose-files]", &calls);
        let mut editor = ScriptedEditor::greeted(&place, &["--trust", "--plugins", crate::GUEST_ROOT], json!({}));
        let session = editor.conversation(&place);
        let prompt = editor.prompt(&session, "go");
        let asked = editor.called("session/request_permission");
        let path = place.path().join("docs/a.txt");
        let diff = json!({"type": "diff", "path": path, "oldText": "one\n", "newText": "two\n"});
        let call = &asked["params"]["toolCall"];
        assert!(call["content"].as_array().unwrap().contains(&diff), "{asked}");
        assert_eq!(docs(&place)["a.txt"], "one\n", "nobody has said yes");
        let (_, begun) = editor.update("tool_call");
        assert_eq!(begun["toolCallId"], call["toolCallId"], "it is about the call that is shown");
        editor.respond(&asked, json!({ "outcome": choice }));
        assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
        assert_eq!(docs(&place)["a.txt"] == "two\n", is_made, "{choice}");
        let mut ended = Vec::new();
        while ended.last().is_none_or(|update: &Value| update["status"].is_null()) {
            ended.push(editor.update("tool_call_update").1);
        }
        assert_eq!(ended.last().unwrap()["status"], status, "{ended:?}");
        let has_diff = |update: &Value| update["content"].as_array().is_some_and(|all| all.contains(&diff));
        assert_eq!(ended.iter().any(has_diff), is_made, "{ended:?}");
        drop(server);
    }
}

#[test]
fn tasks_are_the_plan() {
    let place = Place::new();
    let server = calling("shared_tasks_create", &json!({"title": "Read it"}));
    place.file("shelly.yaml", agent(&server, "toolboxes: [tasks]"));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    assert_eq!(editor.prompted(&session, "Plan it."), "end_turn");
    let (_, plan) = editor.update("plan");
    let entry = json!({"content": "Read it", "priority": "medium", "status": "pending"});
    assert_eq!(plan["entries"], json!([entry]));
}

#[test]
fn command_files_are_commands_of_the_editor() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("shelly.yaml", server.config(""));
    place.file(".shelly/commands/review.md", "Review $ARGUMENTS with care.\n");
    for n in 0..shelly_host::limits::ACP_COMMANDS {
        place.file(&format!(".shelly/commands/z{n}.md"), "x");
    }
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    let (_, commands) = editor.update("available_commands_update");
    let commands = commands["availableCommands"].as_array().unwrap();
    assert_eq!((&commands[0]["name"], commands.len()), (&json!("review"), shelly_host::limits::ACP_COMMANDS));
    assert_eq!(editor.prompted(&session, "/review main.rs"), "end_turn");
    assert_eq!(editor.prompted(&session, "/tmp is a folder"), "end_turn");
    let asked = server.asked.lock().unwrap();
    assert!(asked[0].contains("Review main.rs with care."), "{}", asked[0]);
    assert!(asked[1].contains("/tmp is a folder"), "no command is a message");
}

#[test]
fn modes_are_the_agents_of_the_config() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    let agents =
        "agents: [{name: a, instructions: You are A.}, {name: b, instructions: You are B., description: Bee}]\n";
    place.file("shelly.yaml", server.config("").replace("agents: [{name: helper}]\n", agents));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let opened = editor.ask("session/new", json!({"cwd": place.path(), "mcpServers": []}));
    let modes = json!([{"id": "a", "name": "a"}, {"id": "b", "name": "b", "description": "Bee"}]);
    assert_eq!(opened["result"]["modes"], json!({"currentModeId": "a", "availableModes": modes}));
    let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
    editor.prompted(&session, "hi");
    let wrong = editor.ask("session/set_mode", json!({"sessionId": session, "modeId": "c"}));
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
    let set = editor.ask("session/set_mode", json!({"sessionId": session, "modeId": "b"}));
    assert!(set.get("error").is_none(), "{set}");
    assert_eq!(editor.update("current_mode_update").1["currentModeId"], "b");
    editor.prompted(&session, "hi");
    let asked = server.asked.lock().unwrap();
    assert!(asked[0].contains("You are A.") && asked[1].contains("You are B."), "{}", asked[1]);
}

#[test]
fn failed_run_is_an_error_with_a_hint() {
    let place = Place::new();
    let server = Server::start(|_| answer("404 Not Found", r#"{"error":{"message":"model `m` not found"}}"#));
    place.file("shelly.yaml", server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    let id = editor.prompt(&session, "hi");
    let failed = editor.answer(id);
    let message = failed["error"]["message"].as_str().unwrap();
    assert!(message.contains("not found") && message.contains("check the model's name"), "{message}");
    let cut =
        Server::start(|_| answer("200 OK", r#"{"choices":[{"message":{"content":"Fo"},"finish_reason":"length"}]}"#));
    place.file("shelly.yaml", cut.config(""));
    let session = editor.conversation(&place);
    assert_eq!(editor.prompted(&session, "hi"), "max_tokens");
}

#[test]
fn untrusted_project_is_refused_with_the_command() {
    let place = Place::untrusted();
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("shelly.yaml", server.config(""));
    let open = json!({"cwd": place.path(), "mcpServers": []});
    let mut editor = ScriptedEditor::greeted(&place, &[], json!({}));
    let refused = editor.ask("session/new", open.clone());
    let message = refused["error"]["message"].as_str().unwrap();
    let folder = place.path().display().to_string();
    for part in ["not trusted yet", "shelly-host config trust", &folder] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(message.lines().count() >= 3, "what is not trusted has a line for each: {message}");
    assert!(server.asked.lock().unwrap().is_empty(), "nothing was sent");
    assert_eq!(place.run(&["config", "trust", "--yes"]).code, 0);
    assert!(editor.ask("session/new", open).get("error").is_none(), "it is trusted by now");
    let other = Place::untrusted();
    other.file("shelly.yaml", server.config(""));
    let mut editor = ScriptedEditor::greeted(&other, &["--trust"], json!({}));
    let open = json!({"cwd": other.path(), "mcpServers": []});
    assert!(editor.ask("session/new", open).get("error").is_none(), "the command line says that it is");
}

#[test]
fn servers_of_the_editor_need_the_operator() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("shelly.yaml", server.config(""));
    place.file(
        "tools.json",
        json!([{"name": "echo", "description": "Again.", "inputSchema": {"type": "object"}}]).to_string(),
    );
    let program = env!("CARGO_BIN_EXE_shelly-mcp-server");
    let servers = json!([{"name": "t", "command": program, "args": ["tools.json"], "env": []}]);
    for (arguments, is_used) in [(&["--trust"][..], false), (&["--trust", "--allow-client-mcp", "t"], true)] {
        let mut editor = ScriptedEditor::greeted(&place, arguments, json!({"session": {"notices": {}}}));
        let opened = editor.ask("session/new", json!({"cwd": place.path(), "mcpServers": servers}));
        let session = opened["result"]["sessionId"].as_str().unwrap().to_owned();
        if !is_used {
            let (_, notice) = editor.update("notice");
            assert!(notice["title"].as_str().unwrap().contains("--allow-client-mcp t"), "{notice}");
        }
        assert_eq!(editor.prompted(&session, "hi"), "end_turn");
        let asked = server.asked.lock().unwrap().pop().unwrap();
        assert_eq!(asked.contains("\"t__echo\""), is_used, "{asked}");
    }
}

#[test]
fn editor_uses_the_options_of_the_command() {
    let place = Place::new();
    place.file("docs/a.txt", "one\n");
    let calls = [json!([changes::edit("a.txt", "one\n", "two\n")])];
    let server = changes::configure(&place, "powers: [propose-files]", &calls);
    let config = std::fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    // The first model is behind a closed port, and the first agent has no plugin.
    let other = "providers: [{name: closed, kind: openai, base_url: 'http://127.0.0.1:9/v1', model: m}, ";
    let config = config.replace("providers: [", other).replace("agents: [", "agents: [{name: other}, ");
    std::fs::remove_file(place.path().join("shelly.yaml")).unwrap();
    place.file("named.yaml", &config);
    let named = ["--config", "named.yaml", "--plugins", crate::GUEST_ROOT, "--agent", "ada", "--model", "m"];
    let arguments = [&named[..], &["--approve", "all", "--verbose"]].concat();
    let mut editor = ScriptedEditor::greeted(&place, &arguments, json!({}));
    let session = editor.conversation(&place);
    assert_eq!(editor.prompted(&session, "go"), "end_turn", "nobody was asked");
    assert_eq!(docs(&place), BTreeMap::from([("a.txt".to_owned(), "two\n".to_owned())]));
    let (code, said) = editor.end();
    assert!(code == 0 && said.contains("probe-changes"), "{said}");
    let mut editor = ScriptedEditor::greeted(&place, &[&named[..], &["--max-cost", "1"]].concat(), json!({}));
    let session = editor.conversation(&place);
    let id = editor.prompt(&session, "go");
    let refused = editor.answer(id);
    assert!(refused["error"]["message"].as_str().unwrap().contains("the price of"), "{refused}");
    drop(server);
}

#[test]
fn misspelt_agent_and_model_are_refused_at_the_start() {
    let place = Place::new();
    let config = "providers: [{name: local, kind: openai, base_url: 'http://127.0.0.1:9/v1', model: m}]\n\
                  agents: [{name: ada}]\n";
    place.file("named.yaml", config);
    for (option, wrong, says) in [
        ("--agent", "adda", "there is no agent `adda`"),
        ("--agent", "adda", "did you mean `ada`?"),
        ("--model", "zzz", "there is no model `zzz`"),
    ] {
        let refused = place.run(&["acp", "--config", "named.yaml", option, wrong]);
        assert!(refused.code == 2 && refused.stderr.contains(says), "{option}: {}", refused.shown());
    }
    // Conversations may be in other folders, if no config is named.
    place.file("shelly.yaml", config);
    let mut editor = ScriptedEditor::greeted(&place, &[TRUST, &["--agent", "adda"]].concat(), json!({}));
    let refused = editor.ask("session/new", json!({"cwd": place.path(), "mcpServers": []}));
    assert!(refused["error"]["message"].as_str().unwrap().contains("did you mean `ada`?"), "{refused}");
    let (code, said) = editor.end();
    assert!(code == 0 && said.contains("are refused: there is no agent `adda` (did you mean `ada`?)"), "{said}");
}
