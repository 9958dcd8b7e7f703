//! The prompts of MCP servers as commands of `chat`.

use std::{
    fs,
    sync::mpsc::channel,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::terminal::{ChatTerminal, PATIENCE};
use crate::{
    bad_input::{FOUR, Server, answer},
    support::Place,
};

const SERVER: &str = env!("CARGO_BIN_EXE_shelly-mcp-server");

/// A prompt of one message with this text.
fn prompt(name: &str, arguments: Value, text: &str) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    json!({"name": name, "description": format!("The prompt {name}."), "arguments": arguments, "messages": [message]})
}

/// A model that answers each request with "Four.", and the test server under the name `t` with these prompts. `keys` are
/// further keys of the agent.
fn with_prompts(place: &Place, prompts: &Value, keys: &str) -> Server {
    let model = Server::start(|_| answer("200 OK", FOUR));
    let server = format!("{{name: t, command: '{SERVER}', args: ['tools.json', 'prompts.json']}}");
    configure(place, &model, &server, keys);
    place.file("prompts.json", prompts.to_string());
    model
}

fn configure(place: &Place, model: &Server, servers: &str, keys: &str) {
    place.file("tools.json", "[]");
    let config = model.config("").replace("{name: helper}", &format!("{{name: helper{keys}}}"));
    place.file("shelly.yaml", format!("{config}mcp_servers: [{servers}]\n"));
}

/// A text that does not depend on where its lines are wrapped.
fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

/// The prompts of a server that means well.
fn good() -> Value {
    let path = json!({"name": "path", "description": "The file.", "required": true});
    json!([
        prompt("review", json!([path, {"name": "depth"}]), "Review $path, $depth levels deep. See @other.md too."),
        prompt("greet", json!([{"name": "whom", "required": true}]), "Say hello to $whom."),
        prompt("plan/day", json!([]), "Plan my day."),
    ])
}

#[test]
fn prompt_of_a_server_is_shown_and_then_sent() {
    let place = Place::new();
    let model = with_prompts(&place, &good(), "");
    place.file("notes.md", "These are the notes.");
    place.file("other.md", "Nobody has named this file.");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("/t:review depth=2 path=\"a b.rs\"");
    let text = chat.wait_for("Four.");
    let places = ["getting the prompt review of the MCP server t", "› Review a b.rs, 2 levels deep.", "Four."];
    assert!(places.map(|shown| text.find(shown).expect(shown)).is_sorted(), "{text}");
    assert!(!text.contains("/t:review depth"), "the text is the message: {text}");
    chat.wait_for_rest();
    // The connection is there, so Tab completes the others.
    chat.press("/t:gr\t");
    chat.wait_for("› /t:greet");
    chat.say("Ada and @notes.md");
    chat.wait_for("› Say hello to Ada and @notes.md.");
    chat.wait_for_times("Four.", 2);
    chat.wait_for_rest();
    chat.say("/t:plan/day");
    chat.wait_for("› Plan my day.");
    chat.wait_for_times("Four.", 3);
    chat.wait_for_rest();
    chat.say("/help");
    chat.wait_for("of MCP servers: /t:review /t:greet /t:plan/day");
    chat.leave();
    let asked = model.asked.lock().unwrap();
    assert!(asked[0].contains("Review a b.rs, 2 levels deep. See @other.md too."), "{}", asked[0]);
    assert!(asked[1].contains("These are the notes."), "the person has named it: {}", asked[1]);
    assert!(asked.iter().all(|request| !request.contains("Nobody has named")), "the server has: {asked:?}");
}

#[test]
fn servers_are_listed_with_their_prompts() {
    let place = Place::new();
    with_prompts(&place, &good(), "");
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.press("/t:re\t");
    chat.wait_for("› /t:re");
    chat.press("\x15");
    chat.say("/mcp");
    chat.wait_for("/t:plan/day  The prompt plan/day.");
    let text = chat.text();
    for line in ["  /t:review path=… [depth=…]  The prompt review.", "  /t:greet whom=…  The prompt greet."] {
        assert!(text.contains(line), "{line}: {text}");
    }
    chat.wait_for_rest();
    chat.press("/t:\t");
    chat.wait_for("t:greet  t:plan/day  t:review");
    chat.press("re\t");
    chat.wait_for("› /t:review");
    chat.press("\x15");
    chat.leave();
}

#[test]
fn wrong_prompt_command_is_explained_and_comes_back() {
    let place = Place::new();
    let model = with_prompts(&place, &good(), "");
    let mut chat = ChatTerminal::open(&place, &[]);
    for (typed, shown) in [
        (
            "/t:review",
            &["the argument `path` is missing", "type /t:review path=… [depth=…]", "path (required): The file."][..],
        ),
        ("/t:review path=a size=3", &["the prompt has no argument `size`", "depth (optional)"]),
        ("/t:review all of it", &["`all` is not of the form NAME=VALUE"]),
        ("/t:plan/day now", &["the prompt takes no arguments"]),
        ("/t:reviw path=a", &["there is no prompt `reviw`", "did you mean `review`?"]),
        ("/u:review", &["there is no command /u:review; did you mean /t:review?"]),
    ] {
        chat.say(typed);
        shown.iter().for_each(|shown| drop(chat.wait_for(shown)));
        chat.wait("the line again", |text| text.lines().any(|line| line == format!("› {typed}")));
        chat.wait_for_rest();
        chat.press("\x15");
    }
    chat.leave();
    assert!(model.asked.lock().unwrap().is_empty(), "the agent got nothing");
}

#[test]
fn chat_stays_usable_while_a_prompt_server_starts() {
    let place = Place::new();
    let model = Server::start(|_| answer("200 OK", FOUR));
    let script = "read line < gate; exec \"$0\" tools.json prompts.json";
    configure(&place, &model, &format!("{{name: t, command: sh, args: ['-c', '{script}', '{SERVER}']}}"), "");
    place.file("prompts.json", good().to_string());
    let gate = place.path().join("gate");
    rustix::fs::mkfifoat(rustix::fs::CWD, &gate, 0o600.into()).unwrap();
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("/t:greet Ada");
    chat.wait_for("getting the prompt greet of the MCP server t");
    chat.say("And then?");
    chat.wait_for("waits: And then?");
    chat.press("\x1b");
    let text = chat.wait_for("you interrupted it");
    assert!(text.contains("nothing was done"), "{text}");
    chat.wait("both lines again", |text| text.contains("› /t:greet Ada\n  And then?\n"));
    chat.press("\x15\x15\r");
    chat.wait_for_times("getting the prompt greet of the MCP server t", 2);
    chat.press("a draft");
    chat.wait_for("› a draft");
    fs::write(gate, "go\n").unwrap();
    chat.wait_for("› Say hello to Ada.");
    let text = chat.wait_for("Four.");
    assert!(text.contains("› a draft"), "{text}");
    chat.press("\x15");
    chat.leave();
}

#[test]
fn prompts_of_a_server_that_an_agent_uses_are_completed() {
    let place = Place::new();
    let (go, gone) = channel();
    let model = Server::start(move |_| {
        let _ = gone.recv_timeout(PATIENCE);
        answer("200 OK", FOUR)
    });
    let server = format!("{{name: t, command: '{SERVER}', args: ['tools.json', 'prompts.json']}}");
    configure(&place, &model, &server, ", toolboxes: [t]");
    place.file("prompts.json", good().to_string());
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("Count to four.");
    chat.wait_for("waiting for the model");
    chat.press("/t:rev");
    let begun = Instant::now();
    while !chat.text().contains("› /t:review") {
        assert!(begun.elapsed() < PATIENCE, "{}", chat.text());
        chat.press("\t");
        thread::sleep(Duration::from_millis(10));
    }
    chat.press("\x15");
    go.send(()).unwrap();
    chat.wait_for("Four.");
    chat.leave();
}

#[test]
fn hostile_prompts_reach_neither_terminal_nor_agent() {
    let place = Place::new();
    let evil = "\u{1b}]52;c;aGk=\u{7}\u{1b}[2J\u{202e}";
    let prompts = json!([
        prompt("fine", json!([]), "Fine."),
        prompt("code review", json!([]), "x"),
        prompt(&format!("name{evil}"), json!([]), "x"),
        {"name": "described", "description": evil},
        prompt("argued", json!([{"name": evil}]), "x"),
        prompt("evil", json!([]), &format!("Read this: {evil}")),
        prompt("hidden", json!([]), "Read\u{e0041} this."),
        prompt("huge", json!([]), &"x".repeat(256 * 1024 + 1)),
    ]);
    let model = with_prompts(&place, &prompts, "");
    let many: Vec<_> = (0..=512).map(|at| prompt(&format!("p{at}"), json!([]), "x")).collect();
    place.file("many.json", json!(many).to_string());
    let config = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    let more = format!("mcp_servers: [{{name: many, command: '{SERVER}', args: ['tools.json', 'many.json']}}, ");
    place.file("shelly.yaml", config.replace("mcp_servers: [", &more));
    let mut chat = ChatTerminal::open(&place, &[]);
    chat.say("/mcp");
    chat.wait_for("unusable prompt argued");
    let text = chat.text();
    for shown in [
        "cannot list the prompts of the MCP server `many`: more than 512 prompts",
        "/t:fine  The prompt fine.",
        "unusable prompt code review  the name is empty or has blanks",
        "unusable prompt name\\u{1b}]52;c;aGk=\\u{7}\\u{1b}[2J\\u{202e}  the name has control characters",
        "unusable prompt described  the description has the invisible character U+001B",
    ] {
        assert!(without_blanks(&text).contains(&without_blanks(shown)), "{shown}: {text}");
    }
    for (typed, shown) in [
        ("/t:evil", "its text has the invisible character U+001B"),
        ("/t:hidden", "its text has the invisible character U+E0041"),
        ("/t:huge", "its text has 262145 bytes, the maximum is 262144"),
        ("/t:described", "the MCP server `t` offers an unusable one: the description has"),
        ("/t:code review", "there is no prompt `code`"),
        ("/many:p1", "more than 512 prompts"),
    ] {
        chat.wait_for_rest();
        chat.say(typed);
        chat.wait_for(&format!("getting the prompt {}", typed.split([':', ' ']).nth(1).unwrap()));
        chat.wait(shown, |text| without_blanks(text).contains(&without_blanks(shown)));
        chat.wait("the line again", |text| text.contains(&format!("› {typed}\n")));
        chat.press("\x15");
    }
    chat.wait_for_rest();
    chat.say("/quit");
    let (code, text, bytes) = chat.end();
    assert_eq!(code, 0, "{text}");
    let bytes = String::from_utf8_lossy(&bytes).into_owned();
    for sequence in ["\x1b]52", "\x1b[2J", "\u{202e}", "\u{e0041}"] {
        assert!(!bytes.contains(sequence), "{sequence:?}: {text}");
    }
    assert!(model.asked.lock().unwrap().is_empty(), "the agent got nothing");
}
