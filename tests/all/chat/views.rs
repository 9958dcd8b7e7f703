//! The view of a chat, and how a person changes it: colours, one agent in place of all, the open tasks, the size of the window.

use std::sync::mpsc::{Sender, channel};

use super::terminal::{ChatTerminal, PATIENCE, reader};
use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    support::Place,
};

/// The colours of the mark before the input, in the dark and in the light theme.
const DARK: &str = "\x1b[38;2;130;170;255m› ";
const LIGHT: &str = "\x1b[38;2;11;87;208m› ";

/// The body of a reply that says something and calls a tool.
fn call(says: &str, tool: &str, arguments: &str) -> String {
    let call = serde_json::json!({"id": "1", "type": "function", "function": {"name": tool, "arguments": arguments}});
    let message = serde_json::json!({"content": says, "tool_calls": [call]});
    serde_json::json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).to_string()
}

/// A model that first makes a call, and answers "Four." once the test lets it.
fn model_that_calls(reply: String) -> (Sender<()>, Server) {
    let (go, gone) = channel();
    let server = Server::start(move |request| match request.contains("\"tool_call_id\"") {
        false => answer("200 OK", &reply),
        true => {
            let _ = gone.recv_timeout(PATIENCE);
            answer("200 OK", FOUR)
        }
    });
    (go, server)
}

#[test]
fn theme_changes_at_once_in_a_chat() {
    let place = reader("");
    let colours = [("COLORTERM", "truecolor"), ("SHELLY_THEME", "dark")];
    let mut chat = ChatTerminal::open_with(&place, &[], &colours);
    assert!(chat.written().contains(DARK) && !chat.written().contains(LIGHT));
    chat.say("/theme");
    chat.wait_for("dark\n/theme NAME uses another one in this chat: auto, dark, light, none");
    chat.say("/theme sepia");
    chat.wait_for("there is no theme `sepia`");
    chat.press("/theme li\t");
    chat.wait_for("› /theme light");
    chat.press("\r");
    chat.wait_for("from now on in this chat: theme light");
    chat.press("draft");
    chat.wait_for("› draft");
    assert!(chat.written().contains(LIGHT));
    chat.press("\x15");
    chat.say("/theme none");
    chat.wait_for("from now on in this chat: theme none");
    chat.press("plain");
    chat.wait_for("› plain");
    let written = chat.written();
    let last = written.rfind("› ").unwrap();
    assert!(!written[..last].ends_with('m'), "no style before it");
    chat.press("\x15");
    chat.leave();
    let mut chat = ChatTerminal::open_with(&place, &[], &[("NO_COLOR", "1"), ("SHELLY_THEME", "dark")]);
    chat.say("/theme light");
    chat.wait_for("the environment turns colours off");
    chat.leave();
    let (code, text, _) = ChatTerminal::start_with(&place, &["chat", "--trust"], &[("SHELLY_THEME", "drak")]).end();
    assert!(code == 2 && text.contains("there is no theme `drak`"), "{text}");
}

#[test]
fn focus_shows_the_words_and_calls_of_one_agent() {
    let place = Place::new();
    place.file("notes.md", "one two three\nfour\n");
    let (go, server) = model_that_calls(call("I look\u{1b}[2J into it.", "read_file", r#"{"path":"notes.md"}"#));
    let local = server.config("");
    let (providers, _) = local.split_once("agents:").unwrap();
    let providers = providers.trim_end().strip_suffix(']').unwrap();
    let config = format!(
        r#"plugin_dirs: ['{PLUGIN_ROOT}']
{providers}, {{name: script, kind: plugin, plugin: scripted-model, params: {{replies: [
  {{calls: [{{tool: delegate, arguments: {{tasks: [{{agent: worker, task: Count, context: For me.}}]}}}}]}},
  "That is all."]}}}}]
agents:
  - {{name: lead, provider: script, options: {{max_delegation_depth: 1}}}}
  - name: worker
    provider: local
    options: {{warn_iterations: 0}}
    plugins: {{read-files: {{files: [{{path: ., mode: read}}]}}}}
"#
    );
    place.file("shelly.yaml", config);
    let mut chat = ChatTerminal::open(&place, &["--agent", "lead"]);
    chat.say("/focus worker");
    chat.wait_for("no agent works now");
    chat.say("Find out.");
    chat.wait_for("worker-count-1 waiting for the model");
    chat.say("/focus lead");
    chat.wait_for("what lead says is shown in any case");
    chat.say("/focus nobody");
    chat.wait_for("nobody does not work now");
    chat.press("/focus w\t");
    chat.wait_for("› /focus worker-count-1");
    chat.press("\r");
    let text = chat.wait("the agent", |text| {
        text.contains("  I look") && text.contains("    one two") && text.contains("/focus shows all agents again")
    });
    let (_, shown) = text.rsplit_once("worker-count-1 waiting for the model").unwrap();
    assert!(shown.contains("  I look\\u{1b}[2J into it.\n  ✓ read_file notes.md ("), "{text}");
    assert!(shown.contains("    one two three\n") && !text.contains("lead calling a tool"), "{text}");
    chat.say("/focus");
    chat.wait_for("all agents are shown again");
    chat.wait("all agents", |text| text.contains("lead calling a tool") && !text.contains("/focus shows all"));
    chat.say("/focus worker-count-1");
    chat.wait_for("/focus shows all agents again");
    for _ in 0..6 {
        go.send(()).unwrap();
    }
    let text = chat.wait_for("That is all.");
    assert!(!text.contains("/focus shows all agents again"), "it ends with the agent: {text}");
    chat.leave();
}

#[test]
fn open_tasks_are_shown_while_agents_work() {
    let place = Place::new();
    let arguments = r#"{"title": "Read the notes", "description": "All of them."}"#;
    let (go, server) = model_that_calls(call("", "shared_tasks_create", arguments));
    place.file("shelly.yaml", server.config("").replace("{name: helper}", "{name: helper, toolboxes: [tasks]}"));
    let mut chat = ChatTerminal::open(&place, &[]);
    let is_shown = |text: &str| text.lines().any(|line| line == "○ Read the notes");
    chat.say("Plan it.");
    chat.wait("the task", is_shown);
    chat.press("/board o\t");
    chat.wait_for("  off  on");
    chat.say("ff");
    chat.wait_for("open tasks and blackboards are not shown");
    chat.wait("the rows without it", |text| !is_shown(text));
    chat.say("/board on");
    chat.wait("the task", is_shown);
    chat.say("/board maybe");
    chat.wait_for("`maybe` is neither `on` nor `off`");
    chat.resize(100, 15);
    chat.wait("the small window", |text| !is_shown(text));
    chat.resize(100, 16);
    chat.wait("the task", is_shown);
    go.send(()).unwrap();
    chat.wait_for("Four.");
    chat.wait_for_rest();
    chat.wait("the end", |text| !is_shown(text));
    chat.leave();
}

#[test]
fn narrowed_terminal_is_cleared_from_the_first_row() {
    let place = reader("");
    for (xterm, up) in [("", 3), ("XTerm(390)", 0)] {
        // Without colours the mark and the text after it are written as one.
        let mut chat = ChatTerminal::open_with(&place, &[], &[("XTERM_VERSION", xterm), ("NO_COLOR", "1")]);
        let draft = "a draft of eighty columns ".repeat(3);
        chat.press(&draft);
        chat.wait_for(draft.trim_end());
        let before = chat.written().len();
        chat.resize(24, 30);
        // The terminal itself cuts the row at once, so the screen does not say that the chat has drawn.
        chat.wait("the broken input", |_| chat.written()[before..].contains("› a draft"));
        let written = chat.written()[before..].to_owned();
        let (moves, _) = written.split_once("\x1b[J").unwrap();
        let expected = if up == 0 { "\r\r".to_owned() } else { format!("\r\x1b[{up}A\r") };
        assert!(moves.ends_with(&expected), "{xterm}: {written:?}");
        chat.press("\x15\x15\x15\x15\x15");
        chat.leave();
    }
}
