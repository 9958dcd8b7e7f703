//! `chat --dev`: a plugin that is built again while the chat runs.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{Sender, channel},
    thread,
    time::{Duration, Instant},
};

use super::terminal::{ChatTerminal, PATIENCE};
use crate::{
    bad_input::{FOUR, Server, answer},
    scripted_build::{command, component, project_of},
    support::Place,
};

/// The reply that calls the tool of the calculator.
const CALL: &str = r#"{"choices":[{"message":{"tool_calls":[{"id":"c1","type":"function","function":{"name":"calculate","arguments":"{\"expression\":\"6 * 7\"}"}}]},"finish_reason":"tool_calls"}]}"#;

/// Opens a chat with the project `dice`.
fn open(place: &Place) -> ChatTerminal {
    let path = path(place);
    ChatTerminal::open_with(place, &["--dev", "dice"], &[("PATH", &path)])
}

/// The search path on which the scripted cargo is.
fn path(place: &Place) -> String {
    format!("{}:/usr/bin:/bin", place.path().join("bin").display())
}

/// Makes a project of the calculator, and a config with an agent that has it.
fn calculator(place: &Place, server: &Server) {
    project_of(place, "calculator");
    let agents = server.config("").replace("{name: helper}", "{name: helper, plugins: {calculator: {}}}");
    place.file("shelly.yaml", agents);
}

/// A model that calls the calculator once in each conversation, and waits before each reply until the test lets it.
fn calling_model() -> (Sender<()>, Server) {
    let (go, gone) = channel();
    let server = Server::start(move |request| {
        let _ = gone.recv_timeout(PATIENCE);
        answer("200 OK", if request.contains(r#""role":"tool""#) { FOUR } else { CALL })
    });
    (go, server)
}

/// Waits until a file holds what it should.
fn wait_for_file(path: &Path, what: &str, is_there: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let begun = Instant::now();
    loop {
        if let Some(bytes) = fs::read(path).ok().filter(|bytes| is_there(bytes)) {
            return bytes;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}: {}", path.display());
        thread::sleep(Duration::from_millis(10));
    }
}

/// The requests for a reply: others ask for the models that the server has.
fn requests(server: &Server) -> Vec<String> {
    let asked = server.asked.lock().unwrap();
    asked.iter().filter(|request| request.contains("\"messages\"")).cloned().collect()
}

/// The text of the screen on one line: the terminal breaks long lines.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn rebuilt_tool_is_offered_with_the_next_message() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    calculator(&place, &server);
    // The one that is developed comes before others of its id.
    let config = fs::read_to_string(place.path().join("shelly.yaml")).unwrap();
    place.file("shelly.yaml", format!("plugin_dirs: ['{}']\n{config}", crate::PLUGIN_ROOT));
    let mut chat = open(&place);
    let text = chat.text();
    assert!(text.contains("building the plugin calculator in dice") && text.contains("built "), "{text}");
    chat.say("Count to four.");
    chat.wait_for("Four.");
    chat.wait_for_rest();
    place.file("dice/component.txt", component("compare"));
    let text = on_one_line(&chat.wait("the rebuilt plugin", |text| on_one_line(text).contains("+ tool text_diff")));
    assert!(text.contains("plugin calculator rebuilt in ") && text.contains("- tool calculate"), "{text}");
    chat.wait_for_rest();
    chat.say("/tools");
    chat.wait_for("text_diff  ");
    chat.say("Count again.");
    chat.wait_for_times("Four.", 2);
    // The session says so, as of every plugin that changed.
    let text = chat.leave();
    assert!(text.contains("since the session was last used: plugin `calculator` has changed"), "{text}");
    let asked = requests(&server);
    let [first, second] = &asked[..] else { panic!("{asked:?}") };
    assert!(first.contains(r#""calculate""#) && !first.contains("text_diff"), "{first}");
    assert!(second.contains("text_diff") && !second.contains(r#""calculate""#), "{second}");
}

/// A component whose function `answer` returns this number.
fn answering(number: u32) -> Vec<u8> {
    let text = format!(
        "(component (core module $m (func (export \"f\") (result i32) i32.const {number})) \
         (core instance $i (instantiate $m)) \
         (func (export \"answer\") (result u32) (canon lift (core func $i \"f\"))))"
    );
    wat::parse_str(text).unwrap()
}

#[test]
fn tool_of_a_message_under_way_is_called_in_the_new_plugin() {
    let place = Place::new();
    let (go, gone) = channel();
    // The tool is called twice, then the message is answered.
    let server = Server::start(move |request| {
        let _ = gone.recv_timeout(PATIENCE);
        let turn = request.matches(r#""role":"tool""#).count();
        let called = CALL.replace("c1", &format!("c{turn}")).replace("calculate", "answer");
        let called = called.replace(r#"{\"expression\":\"6 * 7\"}"#, "{}");
        answer("200 OK", if turn < 2 { called.as_str() } else { FOUR })
    });
    project_of(&place, "calculator");
    place.file("dice/plugin.toml", "id = \"answer\"\ncomponent = \"answer.wasm\"\nkinds = [\"functions\"]\n");
    let component = |number: u32| place.file(&format!("{number}.wasm"), answering(number)).display().to_string();
    place.file("dice/component.txt", component(4_100_001));
    place.file("shelly.yaml", server.config("").replace("{name: helper}", "{name: helper, plugins: {answer: {}}}"));
    let mut chat = open(&place);
    chat.say("What is the answer?");
    go.send(()).unwrap();
    chat.wait_for("✓ answer");
    place.file("dice/component.txt", component(4_200_002));
    chat.wait_for("plugin answer rebuilt: 1 tool is called in it from now on; the next message uses all of it");
    (0..3).for_each(|_| go.send(()).unwrap());
    chat.wait_for("Four.");
    chat.wait_for("plugin answer rebuilt in ");
    chat.leave();
    let asked = requests(&server);
    let last = asked.last().unwrap();
    assert!(last.contains("4100001") && last.contains("4200002"), "{last}");
}

#[test]
fn message_under_way_keeps_its_plugin() {
    let place = Place::new();
    let (go, server) = calling_model();
    calculator(&place, &server);
    let mut chat = open(&place);
    chat.say("What is six times seven?");
    chat.wait_for("waiting for the model");
    let built = place.path().join("dice/build/calculator/calculator.wasm");
    let before = fs::read(&built).unwrap();
    place.file("dice/component.txt", component("compare"));
    wait_for_file(&built, "the new component", |bytes| bytes != before);
    // The message that waits gets the new one.
    chat.say("And now?");
    chat.wait_for("waits: And now?");
    (0..3).for_each(|_| go.send(()).unwrap());
    let text = chat.wait("two answers", |text| text.matches("Four.").count() == 2);
    let (answer, rebuilt) = (text.find("Four.").unwrap(), text.find("plugin calculator rebuilt in ").unwrap());
    assert!(text.contains("✓ calculate") && answer < rebuilt && rebuilt < text.rfind("Four.").unwrap(), "{text}");
    chat.leave();
    let asked = requests(&server);
    let [_, result, next] = &asked[..] else { panic!("{asked:?}") };
    assert!(result.contains("42") && !result.contains("text_diff"), "{result}");
    assert!(next.contains("text_diff"), "{next}");
}

#[test]
fn broken_build_keeps_the_plugin_and_says_why() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    calculator(&place, &server);
    let mut chat = open(&place);
    place.file("dice/broken", "");
    chat.wait_for("plugin calculator was not built again; the chat keeps the one before");
    let text = chat.wait_for("hint:");
    for says in ["error: cargo failed (exit code 101)", "cause: error: the source is broken"] {
        assert!(text.contains(says), "{says}: {text}");
    }
    chat.say("Count to four.");
    chat.wait_for("Four.");
    chat.wait_for_rest();
    fs::remove_file(place.path().join("dice/broken")).unwrap();
    chat.wait("the mended plugin", |text| on_one_line(text).contains("no change in what it wants, imports and offers"));
    chat.leave();
    let asked = requests(&server);
    assert!(asked.last().unwrap().contains(r#""calculate""#), "{asked:?}");
}

#[test]
fn plugin_that_wants_more_is_not_used_without_a_grant() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    calculator(&place, &server);
    let mut chat = open(&place);
    let manifest = "id = \"calculator\"\ncomponent = \"calculator.wasm\"\nkinds = [\"tool\"]\n";
    place.file("dice/plugin.toml", format!("{manifest}[wants]\nclock = true\n"));
    place.file("dice/component.txt", component("date-time"));
    chat.wait_for("plugin calculator was rebuilt and cannot be used; the chat keeps the one before");
    let text = on_one_line(&chat.wait_for("start it again with --continue"));
    assert!(text.contains("grant it under agents.helper.plugins.calculator in the config: `clock: true`"), "{text}");
    chat.say("Count to four.");
    chat.wait_for("Four.");
    chat.wait_for_rest();
    // What is only wished is taken, shown and not granted.
    place.file("dice/component.txt", component("compare"));
    let shown = |text: &str| on_one_line(text).contains("+ tool text_diff");
    chat.wait("the plugin with a wish", shown);
    chat.wait_for_rest();
    chat.say("/permissions");
    let text = chat.wait_for("not granted by");
    assert!(text.contains("calculator: clock: true"), "{text}");
    chat.leave();
    let asked = requests(&server);
    assert!(asked.last().unwrap().contains(r#""calculate""#), "{asked:?}");
}

#[test]
fn deleted_project_leaves_its_plugin_usable() {
    let place = Place::new();
    let (go, server) = calling_model();
    calculator(&place, &server);
    let mut chat = open(&place);
    fs::remove_dir_all(place.path().join("dice")).unwrap();
    chat.wait_for("plugin calculator was not built again; the chat keeps the one before");
    chat.wait_for("error: cannot read ");
    (0..2).for_each(|_| go.send(()).unwrap());
    chat.say("What is six times seven?");
    let text = chat.wait_for("Four.");
    assert!(text.contains("✓ calculate"), "{text}");
    // It is watched again when it is there again.
    project_of(&place, "calculator");
    chat.wait_for("plugin calculator rebuilt in ");
    chat.leave();
    assert!(requests(&server)[1].contains("42"));
}

#[test]
fn rebuilt_model_answers_the_next_message() {
    let place = Place::new();
    project_of(&place, "scripted-model");
    let model = "{name: script, kind: plugin, plugin: scripted-model, params: {replies: [One.]}}";
    place.file("shelly.yaml", format!("providers: [{model}]\nagents: [{{name: helper}}]\n"));
    let mut chat = open(&place);
    chat.say("How many words are in \"one two three\"?");
    chat.wait_for("One.");
    chat.wait_for_rest();
    place.file("dice/component.txt", component("offline-model"));
    chat.wait_for("plugin scripted-model rebuilt in ");
    chat.wait_for_rest();
    chat.say("How many words are in \"one two three\"?");
    let text = chat.wait("another answer", |text| text.contains("3 words"));
    assert_eq!(text.matches("One.").count(), 1, "{text}");
    chat.leave();
}

#[test]
fn first_build_must_succeed_unless_there_is_an_earlier_one() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    calculator(&place, &server);
    place.file("dice/broken", "");
    let path = path(&place);
    let start = |words: &[&str]| {
        ChatTerminal::start_with(&place, &[&["chat", "--trust"], words].concat(), &[("PATH", &path)]).end()
    };
    let (code, text, _) = start(&["--dev", "dice"]);
    assert!(code == 3 && text.contains("error: cargo failed"), "{code} {text}");
    let (code, text, _) = start(&["--dev", "nowhere"]);
    assert!(code == 2 && text.contains("there is no plugin.toml in nowhere"), "{code} {text}");
    fs::remove_file(place.path().join("dice/broken")).unwrap();
    let (code, text, _) = start(&["--dev", "dice", "--dev", "dice"]);
    assert!(code == 2 && text.contains("--dev names two projects of the plugin `calculator`"), "{code} {text}");
    // That has built it.
    place.file("dice/broken", "");
    let mut chat = open(&place);
    chat.wait_for("the chat begins with the last build of the plugin `calculator`");
    chat.say("Count to four.");
    chat.wait_for("Four.");
    chat.leave();
    let built = place.ran(command(&place, &["plugin", "build", "dice"]).output().unwrap());
    assert_eq!(built.code, 3, "{}", built.shown());
    assert!(requests(&server).last().unwrap().contains(r#""calculate""#));
}

#[test]
fn build_under_way_ends_with_the_chat() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    calculator(&place, &server);
    let chat = open(&place);
    place.file("dice/endless", "");
    let pid = wait_for_file(&place.path().join("dice/.pid"), "the build", |bytes| bytes.ends_with(b"\n"));
    chat.leave();
    let pid = String::from_utf8(pid).unwrap();
    let is_alive = Command::new("kill").args(["-0", pid.trim()]).stderr(Stdio::null()).status().unwrap().success();
    assert!(!is_alive, "{pid}");
}
