//! Commands, keys and notifications of `chat`.

use std::{fs, sync::mpsc::channel};

use super::terminal::{ChatTerminal, PATIENCE, reader, slow_model};
use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    support::Place,
};

const SERVER: &str = env!("CARGO_BIN_EXE_shelly-mcp-server");

/// The body of a reply with this text.
fn reply(text: &str) -> String {
    format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#)
}

#[test]
fn summary_takes_the_place_of_the_conversation() {
    let place = Place::new();
    let server = Server::start(|request| match request.contains("Summarize this conversation") {
        true => answer("200 OK", &reply("In short: it was counted.")),
        false => answer("200 OK", FOUR),
    });
    place.file("shelly.yaml", server.config(""));
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("/compact");
    chat.wait_for("there is no answer yet that a summary could replace");
    chat.say("Count to four.");
    chat.wait_for("Four.");
    chat.say("/compact and keep the numbers");
    chat.wait_for("In short: it was counted.");
    chat.wait_for("the agent continues from this summary: ");
    chat.leave();
    // The session has it so, whoever continues it.
    let mut chat = ChatTerminal::open(&place, &["--continue"]);
    chat.say("Go on.");
    chat.wait_for("Four.");
    chat.leave();
    let asked = server.asked.lock().unwrap();
    let [.., summary, last] = &asked[..] else { panic!("{asked:?}") };
    for said in ["Count to four.", "and keep the numbers"] {
        assert!(summary.contains(said) && !last.contains(said), "{said}: {last}");
    }
    for said in ["In short: it was counted.", "Go on."] {
        assert_eq!(last.matches(said).count(), 1, "{said}: {last}");
    }
    let shown = place.run(&["session", "show", "last"]);
    assert!(shown.code == 0 && shown.stdout.contains("In short"), "{}", shown.shown());
}

#[test]
fn failed_summary_leaves_the_conversation_as_it_was() {
    let place = Place::new();
    let server = Server::start(|request| match request.contains("Summarize this conversation") {
        true => answer("400 Bad Request", r#"{"error":{"message":"no"}}"#),
        false => answer("200 OK", FOUR),
    });
    place.file("shelly.yaml", server.config(""));
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Count to four.");
    chat.wait_for("Four.");
    for times in 1..=2 {
        chat.say("/compact");
        chat.wait_for_times("nothing was replaced; /compact tries again", times);
    }
    chat.wait_for_rest();
    assert!(server.asked.lock().unwrap().last().unwrap().contains("Count to four."));
    chat.say("Go on.");
    chat.wait_for_times("Four.", 2);
    let text = chat.leave();
    assert!(!text.contains("continues from this summary"), "{text}");
    let asked = server.asked.lock().unwrap();
    let last = asked.last().unwrap();
    assert!(last.contains("Count to four.") && last.contains("Go on.") && !last.contains("Summarize"), "{last}");
}

#[test]
fn interrupted_summary_leaves_the_conversation_as_it_was() {
    let place = Place::new();
    let (go, gone) = channel::<()>();
    let server = Server::start(move |request| {
        if request.contains("Go on.") || !request.contains("Summarize this conversation") {
            return answer("200 OK", FOUR);
        }
        let _ = gone.recv_timeout(PATIENCE);
        answer("200 OK", &reply("Too late."))
    });
    place.file("shelly.yaml", server.config(""));
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Count to four.");
    chat.wait_for("Four.");
    chat.wait_for_rest();
    chat.say("/compact");
    chat.wait_for("waiting for the model");
    chat.press("\x1b");
    chat.wait("the end", |text| text.lines().any(|line| line == "interrupted"));
    go.send(()).unwrap();
    chat.leave();
    let mut chat = ChatTerminal::open(&place, &["--continue"]);
    chat.say("/rewind");
    let text = chat.wait_for("/rewind NUMBER continues");
    assert!(!text.contains("Summarize"), "it is no message of the person: {text}");
    chat.say("Go on.");
    chat.wait_for_times("Four.", 2);
    chat.leave();
    let asked = server.asked.lock().unwrap();
    let last = asked.last().unwrap();
    assert!(last.contains("Count to four.") && last.contains("Go on.") && !last.contains("Summarize"), "{last}");
}

#[test]
fn rewind_continues_from_before_an_earlier_message() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("shelly.yaml", server.config(""));
    place.file("notes.md", "kept out of the list\n");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("/rewind");
    chat.wait_for("the session begins with the first message");
    for (at, message) in ["Message one", "Message two of @notes.md", "Message three"].iter().enumerate() {
        chat.say(message);
        chat.wait_for_times("Four.", at + 1);
    }
    chat.say("/rewind");
    chat.wait_for("   2  Message two of @notes.md\n   3  Message three\n/rewind NUMBER continues");
    chat.say("/rewind 4");
    chat.wait_for("name a number from 1 to 3");
    chat.say("/rewind 2");
    chat.wait_for("Files are as they are now");
    let text = chat.wait("the message", |text| text.contains("› Message two of @notes.md\n"));
    assert!(text.contains("before message 2: the session ") && text.contains("a copy up to there"), "{text}");
    chat.press("\x15");
    chat.say("Another one");
    chat.wait_for_times("Four.", 4);
    {
        let asked = server.asked.lock().unwrap();
        let last = asked.last().unwrap();
        assert!(last.contains("Message one") && last.contains("Another one"), "{last}");
        assert!(!last.contains("Message two") && !last.contains("Message three"), "{last}");
    }
    chat.say("/rewind 1");
    chat.wait_for("a new session, which begins with your next message");
    chat.press("\x15");
    chat.leave();
    let listed = place.run(&["session", "list"]);
    assert_eq!(listed.stdout.lines().count(), 3, "the original is kept: {}", listed.shown());
}

#[test]
fn lists_say_what_there_is_or_that_there_is_none() {
    let place = reader(", confirm: true");
    place.file(".shelly/skills/words/SKILL.md", "---\ndescription: Counts words.\n---\nCount them.\n");
    let mut chat = ChatTerminal::open(&place, &[]);
    let mut done = |typed: &str, shown: &str| {
        chat.say(typed);
        chat.wait_for(shown);
    };
    done("/board", "the session begins with the first message");
    done("/permissions", "  nothing yet");
    done("/permissions", "asked each time, by");
    done("Read the note.", "allow? [y]es, once;");
    done("t", "• two");
    done("/permissions", "reader may call the tool `read_file` of `read-files`, in this project");
    done("/permissions", "read-files: files: [{path: ");
    done("/plugins", "read-files ");
    done("/skills", "/words  Counts words.");
    done("/mcp", "the config has no MCP server");
    done("/tasks", "there is no task on the board of this session");
    done("/board", "there is nothing on the blackboards of this session");
    done("/resume zzz", "/sessions lists the sessions of this project");
    done("/message reader hello", "no agent works now");
    done("/stop", "name it: /stop NAME");
    done("/doctor soon", "type /doctor, or /doctor offline");
    done("/doctor offline", "programs       git");
    done("/help", "* at once, also while the agent works");
    // A skill is a command.
    chat.press("/wo\t");
    chat.wait_for("› /words");
    chat.say("of notes.md");
    chat.wait_for("› Use the skill `words`; load it first unless it is part of your instructions.");
    chat.wait_for_times("• two", 2);
    chat.leave();
}

#[test]
fn shared_state_and_servers_are_listed() {
    let place = Place::new();
    place.file("tools.json", r#"[{"name": "echo", "description": "Says it.", "inputSchema": {"type": "object"}}]"#);
    let config = format!(
        r#"plugin_dirs: ['{PLUGIN_ROOT}']
mcp_servers: [{{name: t, command: '{SERVER}', args: ['tools.json']}}, {{name: gone, command: ./no-such-server}}]
providers:
  - name: script
    kind: plugin
    plugin: scripted-model
    params:
      replies:
        - calls:
            - {{tool: shared_tasks_create, arguments: {{title: Read the notes, description: All of them.}}}}
            - {{tool: project_state_set, arguments: {{key: plan, value: {{steps: 2}}}}}}
        - Done.
agents:
  - {{name: helper, provider: script, toolboxes: [tasks, {{name: state, ns: project}}, t]}}
"#
    );
    place.file("shelly.yaml", config);
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("/mcp");
    let text = chat.wait_for("no-such-server");
    assert!(text.lines().any(|line| line.starts_with("t: ") && line.contains("approved")), "{text}");
    chat.say("Plan it.");
    chat.wait_for("Done.");
    chat.wait_for_rest();
    chat.say("/tasks");
    chat.wait_for("  task-1  Read the notes  pending");
    chat.say("/board");
    chat.wait_for("  plan: {\"steps\":");
    chat.leave();
}

#[test]
fn team_has_no_summary_of_its_own() {
    let place = Place::new();
    let config = format!(
        r#"plugin_dirs: ['{PLUGIN_ROOT}']
providers: [{{name: script, kind: plugin, plugin: scripted-model, params: {{replies: [Done.], at_end: repeat}}}}]
agents: [{{name: one, provider: script}}, {{name: two, provider: script}}]
teams: [{{name: both, members: [{{agent: one}}, {{agent: two}}], coordinator: {{kind: sequence}}}}]
"#
    );
    place.file("shelly.yaml", config);
    let mut chat = ChatTerminal::open(&place, &["--agent", "both"]);
    chat.say("/compact");
    chat.wait_for("the conversation of a team cannot be replaced by a summary");
    chat.say("/plugins");
    chat.wait_for("both has no plugins of its own");
    chat.say("/skills");
    chat.wait_for("the agent has no skills");
    chat.leave();
}

#[test]
fn calls_are_shown_in_full_and_then_those_before() {
    let place = reader("");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.press("\x0f");
    chat.wait_for("there are no earlier tool calls here");
    chat.say("Read the note.");
    chat.wait_for("• two");
    chat.say("Read it again.");
    chat.wait_for_times("• two", 2);
    chat.press("\x0f");
    let text = chat.wait_for("    one two three");
    assert!(
        text.contains("✓ read_file of read-files (reader, ") && text.contains("      \"path\": \"notes.md\""),
        "{text}"
    );
    chat.press("\x0f");
    chat.wait_for_times("    one two three", 2);
    chat.press("\x0f");
    chat.wait_for("there are no earlier tool calls here");
    chat.leave();
}

#[test]
fn agent_at_work_is_messaged_and_stopped_by_name() {
    let place = Place::new();
    let (go, gone) = channel();
    let server = Server::start(move |_| {
        let _ = gone.recv_timeout(PATIENCE);
        answer("200 OK", FOUR)
    });
    let local = server.config("");
    let (providers, _) = local.split_once("agents:").unwrap();
    let providers = providers.trim_end().strip_suffix(']').unwrap();
    let config = format!(
        r#"plugin_dirs: ['{PLUGIN_ROOT}']
{providers}, {{name: script, kind: plugin, plugin: scripted-model, params: {{replies: [
  {{calls: [{{tool: delegate, arguments: {{tasks: [
    {{agent: worker, task: Count, context: For me.}}, {{agent: worker, task: Listen, context: For me.}}]}}}}]}},
  "That is all."]}}}}]
agents:
  - {{name: lead, provider: script, options: {{max_delegation_depth: 1}}}}
  - {{name: worker, provider: local, options: {{warn_iterations: 0}}}}
"#
    );
    place.file("shelly.yaml", config);
    let mut chat = ChatTerminal::open(&place, &["--agent", "lead"]);
    chat.say("Find out.");
    chat.wait_for("worker-count-1 waiting for the model");
    chat.wait_for("worker-listen-2 waiting for the model");
    chat.say("/agents");
    let text = chat.wait_for("/message NAME TEXT gives one a message");
    assert!(text.contains("\nat work\n") && text.contains("* lead  agent"), "{text}");
    chat.say("/message worker-listen-2 Mind the gap.");
    chat.wait_for("worker-listen-2 reads it before its next turn");
    chat.say("/stop worker-nobody");
    chat.wait_for("at work: lead, worker-count-1, worker-listen-2");
    chat.say("/stop worker-count-1");
    chat.wait_for("worker-count-1 is stopped");
    chat.wait_for("✗ worker-count-1");
    for _ in 0..4 {
        go.send(()).unwrap();
    }
    chat.wait_for("That is all.");
    chat.leave();
    let asked = server.asked.lock().unwrap();
    assert!(asked.last().unwrap().contains("Mind the gap."), "it was read: {asked:?}");
}

#[test]
fn editor_opens_on_the_text_and_gives_the_terminal_back() {
    let place = reader("");
    place.file("edit.sh", "stty -a > modes.txt\nsed -i s/one/two/ \"$1\"\n");
    let mut chat = ChatTerminal::open_with(&place, &[], &[("EDITOR", "sh ./edit.sh")]);
    chat.press("one\\\rline");
    chat.wait_for("  line");
    chat.press("\x18\x05");
    chat.wait("the edited text", |text| text.contains("› two\n  line"));
    let modes = fs::read_to_string(place.path().join("modes.txt")).unwrap();
    assert!(modes.contains(" icanon") && modes.contains(" echo "), "the editor has a normal terminal: {modes}");
    let written = chat.written();
    let (off, on) = (written.rfind("\x1b[?2004l"), written.rfind("\x1b[?2004h"));
    assert!(off.is_some() && off < on, "pastes are told apart again");
    chat.press("\x15\x15\x15");
    chat.say("Read the note.");
    chat.wait_for("• two");
    chat.leave();
    let mut chat = ChatTerminal::open_with(&place, &[], &[("EDITOR", "false"), ("VISUAL", " ")]);
    chat.press("as it was\x18\x05");
    let text = chat.wait_for("the text is unchanged");
    assert!(text.contains("› as it was"), "{text}");
    chat.press("\x15");
    chat.leave();
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.press("\x18\x05");
    chat.wait_for("set VISUAL or EDITOR");
    chat.leave();
}

#[test]
fn cursor_of_the_terminal_is_where_the_person_types() {
    let place = Place::new();
    let (_go, _server) = slow_model(&place);
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.press("日本 text");
    chat.wait("the cursor", |_| chat.before_cursor().as_deref() == Some("› 日本 text"));
    chat.press("\x1b[D\x1b[D");
    chat.wait("the cursor", |_| chat.before_cursor().as_deref() == Some("› 日本 te"));
    chat.say("");
    chat.wait_for("waiting for the model");
    chat.press("more");
    chat.wait("the cursor", |_| chat.before_cursor().as_deref() == Some("› more"));
    chat.press("\x12mo");
    chat.wait("the cursor", |_| chat.before_cursor().as_deref() == Some("search the history: mo"));
    chat.press("\x1b");
    chat.wait("the cursor", |_| chat.before_cursor().as_deref() == Some("› more"));
    chat.press("\x15");
    chat.leave();
}

#[test]
fn question_is_notified_unless_the_terminal_has_the_focus() {
    let place = reader(", confirm: true");
    let notified = "\x1b]9;shelly-host: reader needs your answer\x1b\\\x07";
    for (keys, variables, expected) in
        [("", &[][..], true), ("\x1b[O", &[], true), ("\x1b[I", &[], false), ("", &[("SHELLY_NOTIFY", "off")], false)]
    {
        let mut chat = ChatTerminal::open_with(&place, &[], variables);
        assert!(chat.written().contains("\x1b[?1004h"), "the terminal is asked to tell about its focus");
        chat.press(keys);
        chat.say("Read the note.");
        chat.wait_for("allow? [y]es, once;");
        assert_eq!(chat.written().contains(notified), expected, "{keys:?} {variables:?}");
        chat.press("n\r");
        chat.wait_for("✗ read_file");
        chat.say("/quit");
        let (code, text, bytes) = chat.end();
        assert!(code == 0 && String::from_utf8_lossy(&bytes).contains("\x1b[?1004l"), "{text}");
    }
}

#[test]
fn second_terminal_watches_and_then_takes_over() {
    let place = Place::new();
    let (go, server) = slow_model(&place);
    let mut first = ChatTerminal::open(&place, &[]);
    first.say("Count to four.");
    first.wait_for("waiting for the model");
    let mut second = ChatTerminal::open(&place, &["--continue"]);
    second.wait_for("another program works in this session");
    second.say("Mine is next.");
    second.wait_for("waits: Mine is next.");
    go.send(()).unwrap();
    first.wait_for("Four.");
    let text = second.wait_for("the other program has finished");
    assert!(text.contains("› Count to four.") && text.contains("Four."), "{text}");
    // The message is not sent by itself: the answer may have made it needless.
    second.wait_for("› Mine is next.");
    assert_eq!(server.asked.lock().unwrap().len(), 1);
    second.press("\r");
    second.wait_for("waiting for the model");
    // The first one watches now.
    first.say("Mine, too.");
    first.wait_for("another program works in this session");
    go.send(()).unwrap();
    second.wait_for_times("Four.", 2);
    let text = first.wait_for("the other program has finished");
    assert!(text.contains("› Mine is next.") && text.matches("Four.").count() == 2, "{text}");
    first.wait("the message", |text| text.contains("› Mine, too.\n"));
    first.press("\x15");
    first.leave();
    second.leave();
    assert!(server.asked.lock().unwrap()[1].contains("Count to four."));
}

#[test]
fn resumed_session_in_use_is_watched() {
    let place = Place::new();
    let (go, _server) = slow_model(&place);
    let mut first = ChatTerminal::open(&place, &[]);
    first.say("Count to four.");
    first.wait_for("waiting for the model");
    let mut second = ChatTerminal::open(&place, &[]);
    second.say("/resume 2");
    second.wait_for("another program works in this session");
    go.send(()).unwrap();
    first.wait_for("Four.");
    let text = second.wait_for("the other program has finished");
    assert!(text.contains("› Count to four.") && text.contains("Four."), "{text}");
    first.leave();
    second.leave();
}

#[test]
fn mention_of_no_file_keeps_the_message_in_the_input() {
    let place = Place::new();
    place.file(".shelly/commands/empty.md", "\n");
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("shelly.yaml", server.config(""));
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Read @missing.md.");
    let text = chat.wait_for("missing.md: no such file");
    assert!(text.contains("write the word without the @"), "{text}");
    chat.wait("the message again", |text| text.contains("› Read @missing.md.\n"));
    chat.press("\x15");
    chat.say("/empty of it");
    chat.wait_for("the file has no text");
    chat.wait("the line again", |text| text.contains("› /empty of it\n"));
    chat.press("\x15");
    chat.leave();
    assert!(server.asked.lock().unwrap().is_empty());
}

#[test]
fn messages_behind_a_waiting_command_are_sent() {
    let place = Place::new();
    let (go, _server) = slow_model(&place);
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Count to four.");
    chat.wait_for("waiting for the model");
    chat.say("/sessions");
    chat.say("And once more.");
    chat.wait_for("waits: And once more.");
    for _ in 0..4 {
        go.send(()).unwrap();
    }
    chat.wait_for_times("Four.", 2);
    let text = chat.leave();
    assert!(text.contains("› /sessions") && text.contains("› And once more."), "{text}");
}

#[test]
fn program_that_outlives_its_command_can_be_ended() {
    let place = Place::new();
    let (_go, _server) = slow_model(&place);
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("!sleep 1000 & echo begun");
    chat.wait_for("› !sleep 1000 & echo begun");
    chat.press("\x1b");
    chat.wait("the output", |text| text.lines().any(|line| line.trim() == "begun"));
    chat.leave();
}
