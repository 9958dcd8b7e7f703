//! What a person types while a chat is prepared, which here takes until an MCP server may start.

use std::{fs, path::PathBuf, process::Command};

use super::terminal::ChatTerminal;
use crate::{
    bad_input::{FOUR, Server, answer},
    support::Place,
};

/// A chat whose server waits for a writer of the file that is returned. The model answers each request with "Four.".
fn in_preparation(place: &Place) -> (ChatTerminal, Server, PathBuf) {
    let start = place.path().join("start");
    assert!(Command::new("mkfifo").arg(&start).status().unwrap().success());
    let model = Server::start(|_| answer("200 OK", FOUR));
    let server = env!("CARGO_BIN_EXE_shelly-mcp-server");
    let waits = format!("cat {} && exec {server} tools.json", start.display());
    place.file("tools.json", "[]");
    place.file(
        "shelly.yaml",
        format!("{}mcp_servers: [{{name: t, command: sh, args: ['-c', '{waits}']}}]\n", model.config("")),
    );
    let chat = ChatTerminal::start(place, &["chat", "--trust"]);
    chat.wait_for("preparing the agent");
    (chat, model, start)
}

#[test]
fn message_typed_while_the_chat_is_prepared_is_sent() {
    let place = Place::new();
    let (mut chat, _model, start) = in_preparation(&place);
    chat.say("Count to four.");
    fs::write(start, "").unwrap();
    let text = chat.wait_for("Four.");
    assert_eq!(text.matches("Count to four.").count(), 1, "it is not echoed beside the chat: {text}");
    chat.leave();
}

#[test]
fn signal_while_the_chat_is_prepared_brings_the_echo_back() {
    let place = Place::new();
    let (mut chat, _model, _start) = in_preparation(&place);
    assert!(!chat.echoes());
    let id = chat.child.process_id().unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    chat.child.wait().unwrap();
    assert!(chat.echoes(), "what the person types next is shown");
}
