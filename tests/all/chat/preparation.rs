//! A message that a person types while a chat is prepared, which takes seconds if its plugins must be compiled.

use std::{fs, process::Command};

use super::terminal::{ChatTerminal, reader};
use crate::support::Place;

/// A chat that compiles its plugins now.
fn in_preparation(place: &Place) -> ChatTerminal {
    // Enough plugins for seconds, also on a fast machine.
    let path = place.path().join("shelly.yaml");
    let config = fs::read_to_string(&path).unwrap();
    let more = "plugins: {tables: {files: [{path: ., mode: read}]}, json-query: {}, calculator: {}, convert: {}, encode: {}, compare: {}, ";
    fs::write(path, config.replace("plugins: {", more)).unwrap();
    let cache = place.path().join("cache");
    let variables = [("SHELLY_CACHE_DIR", cache.to_str().unwrap())];
    let chat = ChatTerminal::start_with(place, &["chat", "--trust"], &variables);
    chat.wait_for("preparing the agent");
    chat
}

#[test]
fn message_typed_while_the_chat_is_prepared_is_sent() {
    let place = reader("");
    let mut chat = in_preparation(&place);
    chat.say("Read the note.");
    let text = chat.wait_for("• two");
    assert_eq!(text.matches("› Read the note.").count(), 1, "{text}");
    assert_eq!(text.matches("Read the note.").count(), 1, "it is not echoed beside the chat: {text}");
    chat.leave();
}

#[test]
fn signal_while_the_chat_is_prepared_brings_the_echo_back() {
    let place = reader("");
    let mut chat = in_preparation(&place);
    let id = chat.child.process_id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    chat.child.wait().unwrap();
    chat.wait_until_it_echoes();
}
