//! `chat` at a real terminal: what a person types, and what is on the screen then.

mod commands;
mod development;
mod preparation;
mod prompts;
pub mod terminal;
mod views;

use std::{
    fs,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use terminal::{ChatTerminal, reader, slow_model};

use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    support::Place,
};

#[test]
fn message_is_answered_and_the_session_continues() {
    let place = reader("");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Read the note.");
    let text = chat.wait_for("• two");
    assert!(text.contains("✓ read_file notes.md ("), "{text}");
    assert!(text.contains("› Read the note.") && !text.contains("**three**"), "{text}");
    chat.wait_for("scripted-model · reader");
    let text = chat.leave();
    assert!(text.contains("continue it with: shelly-host chat --resume "), "{text}");
    // The session is the one that other commands know.
    let shown = place.run(&["session", "show", "last"]);
    assert!(shown.code == 0 && shown.stdout.contains("Read the note."), "{}", shown.shown());
    assert_eq!(place.run(&["session", "resume", "last", "Read it again."]).code, 0);
    let mut chat = ChatTerminal::open(&place, &["--continue"]);
    let text = chat.wait_for("› Read it again.");
    assert!(text.matches("Found").count() == 2, "the end of the conversation is shown: {text}");
    // The history is that of the person, not of the session.
    chat.press("\x1b[A\x1b[A");
    chat.wait_for_times("› Read the note.", 2);
    chat.press("\r");
    chat.wait_for_times("• two", 3);
    chat.wait_for_rest();
    chat.press("\x04");
    let (code, text, _) = chat.end();
    assert_eq!(code, 0, "{text}");
    let listed = place.run(&["session", "list"]);
    assert_eq!(listed.stdout.lines().count(), 2, "one session: {}", listed.shown());
}

#[test]
fn message_has_lines_pastes_and_files() {
    let place = reader("");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.press("first\\\r");
    chat.press("second\x0athird\x1b\r");
    chat.press("\x1b[200~pasted\rlines \x1b]52;c;aGk=\x07\x1b[201~ @no\t");
    let text = chat.wait_for("@notes.md");
    assert!(text.contains("› first\n  second\n  third\n  pasted\n  lines ]52;c;aGk= @notes.md"), "{text}");
    chat.press("\x15\x17fourth\x1b[1;5D5 \x01a \x05!\r");
    let text = chat.wait_for("• two");
    assert!(text.contains("  third\n  a 5 fourth!"), "{text}");
    chat.say("And @notes.md too.");
    chat.wait_for_times("• two", 2);
    chat.leave();
    let shown = place.run(&["session", "show", "last", "--full"]);
    assert!(shown.stdout.contains("  <attached_file>\n  one two three\n"), "{}", shown.shown());
}

#[test]
fn permission_is_asked_in_the_input_of_the_chat() {
    let place = reader(", confirm: true");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Read the note.");
    chat.wait_for("reader wants to call the tool `read_file` of `read-files`");
    chat.wait_for("allow? [y]es, once;");
    chat.press("maybe\r");
    chat.wait_for("type y, t or n");
    chat.press("n look at the other one\r");
    // The agent reads what it is told, and asks again.
    chat.wait_for_times("wants to call the tool", 2);
    chat.wait("the prompt", |text| text.matches("allow? [y]es").count() == 1);
    chat.press("y\r");
    let text = chat.wait_for("• two");
    assert!(text.contains("✗ read_file") && text.contains("✓ read_file"), "{text}");
    assert!(!text.contains("allow?"), "the prompt has left the screen: {text}");
    // An interruption withdraws the question, and what was being typed comes back.
    chat.say("Read it again.");
    chat.press("a draft");
    chat.wait_for("allow? [y]es, once;");
    chat.press("\x1b");
    let text = chat.wait("the end", |text| text.contains("\ninterrupted") && !text.contains("allow?"));
    assert!(text.contains("(this question was withdrawn)") && text.contains("› a draft"), "{text}");
    chat.press("\x15");
    chat.leave();
    let shown = place.run(&["session", "show", "last"]);
    assert!(shown.stdout.contains("look at the other one"), "{}", shown.shown());
}

#[test]
fn interrupted_step_leaves_a_valid_conversation() {
    let place = Place::new();
    let (go, server) = slow_model(&place);
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Count to four.");
    chat.wait_for("waiting for the model");
    chat.press("\x1b");
    chat.wait_for("interrupted");
    go.send(()).unwrap();
    go.send(()).unwrap();
    chat.say("And now?");
    chat.wait_for("Four.");
    // What is typed while the agent works waits for it.
    chat.say("Once more.");
    chat.wait_for("waiting for the model");
    chat.say("And the last time.");
    chat.wait_for("waits: And the last time.");
    chat.press("a draft");
    chat.wait_for("› a draft");
    go.send(()).unwrap();
    go.send(()).unwrap();
    chat.wait_for_times("Four.", 3);
    chat.wait_for_rest();
    chat.press("\x03");
    chat.wait_for("Ctrl+Y brings the text back");
    chat.press("\x03");
    chat.wait_for("press again to leave");
    chat.press("\x03");
    let (code, text, _) = chat.end();
    assert_eq!(code, 0, "{text}");
    let asked = server.asked.lock().unwrap();
    let last = asked.last().unwrap();
    for said in ["Count to four.", "And now?", "Once more.", "And the last time."] {
        assert_eq!(last.matches(said).count(), 1, "{said}: {last}");
    }
}

#[test]
fn killed_chat_continues_where_it_was() {
    let place = Place::new();
    let (go, server) = slow_model(&place);
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Count to four.");
    chat.wait_for("waiting for the model");
    while server.asked.lock().unwrap().is_empty() {
        thread::sleep(Duration::from_millis(10));
    }
    chat.child.kill().unwrap();
    chat.end();
    for _ in 0..3 {
        go.send(()).unwrap();
    }
    let mut chat = ChatTerminal::open(&place, &["--continue"]);
    let text = chat.wait_for("the last run has no answer: Enter alone continues it");
    assert!(text.contains("› Count to four."), "{text}");
    chat.press("\r");
    chat.wait_for("Four.");
    let id = fs::read_dir(place.path().join(".shelly/local/sessions")).unwrap().next().unwrap().unwrap().file_name();
    chat.leave();
    let mut chat = ChatTerminal::open(&place, &["--resume", id.to_str().unwrap()]);
    chat.wait_for("Four.");
    chat.say("Again.");
    chat.wait_for_times("Four.", 2);
    chat.leave();
}

#[test]
fn signal_ends_the_chat_and_frees_the_terminal() {
    let place = Place::new();
    let (_go, _server) = slow_model(&place);
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Count to four.");
    chat.wait_for("waiting for the model");
    let id = chat.child.process_id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    let (code, text, bytes) = chat.end();
    assert_eq!(code, 143, "{text}");
    let bytes = String::from_utf8_lossy(&bytes).into_owned();
    assert!(bytes.contains("\x1b[?2004l") && bytes.rfind("\x1b[?25l") < bytes.rfind("\x1b[?25h"), "{text}");
    assert!(text.contains("continue it with") && !text.contains("waiting for the model"), "{text}");
    let traced = place.run(&["trace", "last"]);
    assert!(traced.stdout.contains("has not ended"), "{}", traced.shown());
}

#[test]
fn failed_message_is_explained_and_can_be_repeated() {
    let place = Place::new();
    let (is_down, answers) = (Arc::new(Mutex::new(true)), r#"{"error":{"message":"model `m` not found"}}"#);
    let down = Arc::clone(&is_down);
    let server = Server::start(move |_| match *down.lock().unwrap() {
        true => answer("404 Not Found", answers),
        false => answer("200 OK", FOUR),
    });
    place.file("shelly.yaml", server.config(""));
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Count to four.");
    let text = chat.wait_for("Enter alone tries again");
    assert!(text.contains("error: the request to the model `local` failed") && text.contains("hint:"), "{text}");
    *is_down.lock().unwrap() = false;
    chat.press("\r");
    chat.wait_for("Four.");
    chat.leave();
}

#[test]
fn narrow_and_resized_terminals_keep_the_input() {
    let place = reader("");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Read the note.");
    chat.wait_for("• two");
    chat.press("a draft that is longer than a narrow row");
    chat.wait_for("narrow row");
    chat.resize(24, 12);
    chat.wait("the broken input", |text| text.contains("› a draft that is long"));
    chat.resize(100, 30);
    chat.wait_for("› a draft that is longer than a narrow row");
    chat.press("\x15");
    chat.leave();
}

#[test]
fn commands_of_the_chat_act_on_its_session() {
    let place = reader("");
    place.file(".shelly/commands/again.md", "Read the note, $ARGUMENTS.\n");
    let mut chat = ChatTerminal::open(&place, &[]);
    let mut done = |typed: &str, shown: &str| {
        chat.say(typed);
        chat.wait_for(shown);
        chat.wait_for_rest();
    };
    done("/cost", "nothing was spent in this session yet");
    done("/export x.md", "the session begins with the first message");
    done("/agin", "there is no command /agin; did you mean /again?");
    done("\x15/again please", "› Read the note, please.");
    done("", "• two");
    done("/cost", "together: ");
    done("/context", "tool results");
    done("/tools", "read_file  ");
    done("/agents", "* reader  agent Reads notes");
    done("/agent other", "from now on: agent other, model script");
    done("/agent nobody", "there is no agent `nobody`");
    done("/model", "script");
    done("/sessions", "Read the note, please.");
    done("/fork", "a copy of");
    done("/undo", "this session has no changes to undo");
    done("/export session.md", "written to session.md");
    done("/export session.md", "the file is there already");
    done("!echo $((6 * 7)) for me", "42 for me");
    done("!!echo for the agent", "the output goes with your next message");
    done("/agent reader", "from now on: agent reader");
    done("What was it?", "› What was it?");
    chat.wait_for_times("• two", 2);
    chat.say("/clear");
    chat.wait_for("a new session begins with your next message");
    chat.say("/resume nothing");
    chat.wait_for("nothing");
    chat.say("/resume");
    chat.wait_for("name it: /resume SESSION");
    chat.leave();
    assert!(fs::read_to_string(place.path().join("session.md")).unwrap().contains("Read the note, please."));
    let listed = place.run(&["session", "list"]);
    assert_eq!(listed.stdout.lines().count(), 3, "the copy and its original: {}", listed.shown());
    let shown = place.run(&["session", "show", "last", "--full"]);
    assert!(shown.stdout.contains("for the agent") && !shown.stdout.contains("for me"), "{}", shown.shown());
}

#[test]
fn changes_are_shown_asked_for_and_undone() {
    let place = Place::new();
    place.file("docs/a.txt", "one\n");
    let config = format!(
        r#"plugin_dirs: ['{PLUGIN_ROOT}']
providers:
  - name: script
    kind: plugin
    plugin: scripted-model
    params:
      replies:
        - calls: [{{tool: fs_write, arguments: {{path: docs/b.txt, content: "two\n"}}}}]
        - Done.
agents:
  - name: writer
    provider: script
    plugins: {{filesystem: {{files: [{{path: docs, mode: read}}], powers: [propose-files]}}}}
"#
    );
    place.file("shelly.yaml", config);
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Write it.");
    let text = chat.wait_for("apply the changes? [y]es");
    assert!(text.contains("+two"), "the change is shown: {text}");
    chat.press("y\r");
    chat.wait_for("Done.");
    assert_eq!(fs::read_to_string(place.path().join("docs/b.txt")).unwrap(), "two\n");
    chat.say("/undo");
    chat.wait_for("undo these changes? [y]es; [n]o:");
    chat.press("n\r");
    chat.wait_for("nothing was undone");
    chat.say("/undo");
    chat.wait_for("undo these changes? [y]es; [n]o:");
    // The question comes while a command runs, and the next message begins before its answer.
    chat.press("n\r");
    chat.wait_for_times("nothing was undone", 2);
    chat.press("/undo\r!sleep 1\rAnd now?\r");
    chat.wait_for("undo these changes? [y]es; [n]o:");
    chat.wait("the message", |text| text.contains("› And now?") && !text.contains("undo these changes?"));
    chat.wait_for_rest();
    chat.say("/undo");
    chat.wait_for("undo these changes? [y]es; [n]o:");
    chat.press("y\r");
    chat.wait("the word", |text| text.lines().any(|line| line == "undone"));
    assert!(!place.path().join("docs/b.txt").exists());
    chat.leave();
}

#[test]
fn hostile_texts_do_not_reach_the_terminal() {
    let place = Place::new();
    let evil = r"\u001b]52;c;aGk=\u0007\u001b[2J\u202e";
    let body = format!(
        r#"{{"choices":[{{"message":{{"content":"{evil}said {evil}\n\n```{evil}\n{evil}code\n```\n"}},"finish_reason":"stop"}}]}}"#
    );
    let server = Server::start(move |_| answer("200 OK", &body));
    place.file("shelly.yaml", server.config(""));
    place.file("a\u{1b}[2Jb", "");
    place.file("evil.txt", "");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Speak.");
    chat.wait_for("code");
    chat.say("!printf 'tool \\033]52;c;aGk=\\007\\033[2J said\\n'");
    chat.wait_for("said");
    chat.press("@\t");
    chat.wait_for("evil.txt");
    chat.press("\x15");
    chat.say("/quit");
    let (code, text, bytes) = chat.end();
    assert_eq!(code, 0, "{text}");
    let bytes = String::from_utf8_lossy(&bytes).into_owned();
    for sequence in ["\x1b]52", "\x1b[2J", "\u{202e}"] {
        assert!(!bytes.contains(sequence), "{sequence:?}: {text}");
    }
}

#[test]
fn chat_takes_the_options_of_a_run() {
    let place = reader(", confirm: true");
    place.file("other.yaml", fs::read_to_string(place.path().join("shelly.yaml")).unwrap().replace("reader", "second"));
    for (arguments, shown) in [
        (&["--config", "none.yaml"][..], "none.yaml"),
        (&["--plugins", "none"], "none"),
        (&["--agent", "nobody"], "there is no agent `nobody`"),
        (&["--model", "nothing"], "nothing"),
        (&["--resume", "nothing"], "nothing"),
        (&["--continue"], "there is no session"),
    ] {
        let (code, text, _) = ChatTerminal::start(&place, &[&["chat", "--trust"], arguments].concat()).end();
        assert!(code == 2 && text.contains("error: ") && text.contains(shown), "{arguments:?}: {text}");
    }
    let chat = ChatTerminal::open(&place, &["--config", "other.yaml", "--model", "script"]);
    assert!(chat.leave().contains("second on script"), "the agent and the model");
    let mut chat = ChatTerminal::open(&place, &["--approve", "all", "--verbose", "--agent", "reader"]);
    chat.say("Read the note.");
    let text = chat.wait_for("• two");
    assert!(text.contains("tool.call: ok"), "{text}");
    chat.leave();
    let config = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    place.file(
        "priced.yaml",
        config.replace("    params:", "    price: {input: 1000000, output: 1000000}\n    params:"),
    );
    let mut chat = ChatTerminal::open(&place, &["--config", "priced.yaml", "--approve", "all", "--max-cost", "0.01"]);
    chat.say("Read the note.");
    chat.wait_for("budget");
    chat.leave();
    let (code, text, _) = ChatTerminal::start(&place, &["chat", "--resume", "x", "--continue"]).end();
    assert!(code == 2 && text.contains("cannot be used with"), "{text}");
}

#[test]
fn chat_needs_a_terminal_and_a_trusted_project() {
    let place = reader("");
    let ran = place.run(&["chat"]);
    assert_eq!(ran.code, 2, "{}", ran.shown());
    assert!(
        ran.stderr.contains("a chat needs a terminal") && ran.stderr.contains("shelly-host run"),
        "{}",
        ran.shown()
    );
    let mut chat = ChatTerminal::start(&place, &["chat"]);
    chat.wait_for("(Enter: no):");
    chat.press("n\r");
    let (code, text, _) = chat.end();
    assert!(code == 2 && text.contains("you declined"), "{text}");
    let mut chat = ChatTerminal::start(&place, &["chat"]);
    chat.wait_for("(Enter: no):");
    chat.press("y\r");
    chat.wait_for("/help shows keys and commands");
    chat.leave();
}

#[test]
fn bare_command_opens_the_chat_or_says_how_to_get_a_model() {
    let place = Place::new();
    let (code, text, _) = ChatTerminal::start(&place, &["chat", "--agent", "typo"]).end();
    assert!(code == 2 && text.contains("typo") && !text.contains("There is no model"), "{text}");
    let (code, text, _) = ChatTerminal::start(&place, &[]).end();
    assert_eq!(code, 2, "{text}");
    // This machine may have a model server, which then is the model.
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("  ") || line.starts_with("There is no")).collect();
    assert_eq!(lines.len(), 5, "{text}");
    for says in ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "Ollama: not found", "shelly-host chat --model offline-model"] {
        assert!(text.replace('\n', "").contains(says), "{says}: {text}");
    }
    let place = reader("");
    let chat = ChatTerminal::start(&place, &[]);
    chat.wait_for("the files of this project name what needs your consent");
}
