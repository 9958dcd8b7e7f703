//! Conversations that are cancelled, go on later, or run side by side.

use std::{
    io::Write,
    net::TcpListener,
    sync::{Arc, Barrier},
    thread,
};

use serde_json::{Value, json};
use shelly_host::limits;

use super::{TRUST, WaitingModel, agent, calling, editor::ScriptedEditor};
use crate::{
    bad_input::{FOUR, Server, answer, request},
    support::Place,
};

#[test]
fn cancelled_prompts_end_with_their_reason() {
    let (place, model) = (Place::new(), WaitingModel::start());
    place.file("shelly.yaml", model.server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    let (running, waiting) = (editor.prompt(&session, "one"), editor.prompt(&session, "two"));
    model.asked.recv().unwrap();
    editor.notify("session/cancel", json!({ "sessionId": session }));
    for id in [running, waiting] {
        assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    }
    (0..2).for_each(|_| model.go.send(()).unwrap());
    assert_eq!(editor.prompted(&session, "three"), "end_turn");
    assert!(!model.server.asked.lock().unwrap().iter().any(|asked| asked.contains("\"two\"")), "it never began");
}

#[test]
fn one_prompt_is_cancelled_by_the_id_of_its_request() {
    let (place, model) = (Place::new(), WaitingModel::start());
    place.file("shelly.yaml", model.server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    let [running, waiting, last] = ["one", "two", "three"].map(|text| editor.prompt(&session, text));
    model.asked.recv().unwrap();
    // The one that waits is answered although another one runs.
    for id in [waiting, running] {
        editor.notify("$/cancel_request", json!({ "requestId": id }));
        assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    }
    (0..2).for_each(|_| model.go.send(()).unwrap());
    assert_eq!(editor.answer(last)["result"]["stopReason"], "end_turn", "it was not meant");
    assert!(!model.server.asked.lock().unwrap().iter().any(|asked| asked.contains("\"two\"")), "it never began");
    editor.notify("$/cancel_request", json!({ "requestId": last }));
    editor.say(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":null}}"#);
    assert!(editor.ask("session/close", json!({ "sessionId": session })).get("error").is_none(), "it still serves");
}

#[test]
fn editor_that_vanishes_leaves_a_session_to_resume() {
    let (place, model) = (Place::new(), WaitingModel::start());
    place.file("shelly.yaml", model.server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    editor.prompt(&session, "Count to four.");
    model.asked.recv().unwrap();
    assert_eq!(editor.vanish(), 0);
    let traced = place.run(&["trace", &session]);
    assert!(traced.stdout.contains("has not ended"), "{}", traced.shown());
    // From now on the model answers at once.
    drop(model.go);
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let loaded = editor.ask("session/load", json!({"sessionId": session, "cwd": place.path(), "mcpServers": []}));
    assert!(loaded.get("error").is_none(), "{loaded}");
    assert_eq!(editor.text(&session, "user_message_chunk"), "Count to four.");
    assert_eq!(editor.prompted(&session, "Go on."), "end_turn");
    assert_eq!(editor.text(&session, "agent_message_chunk"), "Four.Four.", "the interrupted run ends first");
    let asked = model.server.asked.lock().unwrap().pop().unwrap();
    assert!(asked.contains("Count to four.") && asked.contains("Go on."), "{asked}");
}

#[test]
fn loaded_conversation_is_shown_again() {
    let place = Place::new();
    let server = calling("shared_tasks_create", &json!({"title": "Read it"}));
    place.file("shelly.yaml", agent(&server, "toolboxes: [tasks]"));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    assert_eq!(editor.prompted(&session, "Plan it."), "end_turn");
    let again = json!({"sessionId": session, "cwd": place.path(), "mcpServers": []});
    let open = editor.ask("session/load", again.clone());
    assert_eq!(open["error"]["code"], -32600, "it is open: {open}");
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let loaded = editor.ask("session/load", again.clone());
    assert!(loaded.get("error").is_none(), "{loaded}");
    assert_eq!(editor.text(&session, "user_message_chunk"), "Plan it.");
    assert_eq!(editor.text(&session, "agent_message_chunk"), "Four.");
    let (_, call) = editor.update("tool_call");
    assert_eq!(
        (&call["title"], &call["rawInput"]["title"]),
        (&json!("shared_tasks_create Read it"), &json!("Read it"))
    );
    let (_, result) = editor.update("tool_call_update");
    assert_eq!((&result["toolCallId"], &result["status"]), (&call["toolCallId"], &json!("completed")));
    assert!(editor.ask("session/close", json!({ "sessionId": session })).get("error").is_none());
    let resumed = editor.ask("session/resume", again.clone());
    assert!(resumed.get("error").is_none(), "{resumed}");
    assert_eq!(editor.text(&session, "user_message_chunk"), "", "it is not shown again");
    let beginning = &session[..session.len() - 1];
    for id in ["20000101-000000-000000", beginning, "../x", ""] {
        let none = editor.ask("session/load", json!({"sessionId": id, "cwd": place.path(), "mcpServers": []}));
        assert_eq!(none["error"]["code"], -32002, "{id}: {none}");
    }
}

#[test]
fn conversation_without_a_session_is_not_recorded() {
    let place = Place::new();
    let server = Server::start(|_| answer("200 OK", FOUR));
    place.file("shelly.yaml", server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, &["--trust", "--no-session"], json!({}));
    let session = editor.conversation(&place);
    for text in ["one", "two"] {
        assert_eq!(editor.prompted(&session, text), "end_turn");
    }
    assert!(server.asked.lock().unwrap()[1].contains("one"), "the conversation goes on");
    let listed = editor.ask("session/list", json!({"cwd": place.path()}));
    assert_eq!(listed["result"]["sessions"], json!([]));
    assert!(!place.path().join(".shelly/local/sessions").exists());
}

#[test]
fn two_conversations_run_at_once() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (port, both) = (listener.local_addr().unwrap().port(), Arc::new(Barrier::new(2)));
    thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            let both = Arc::clone(&both);
            thread::spawn(move || {
                request(&mut connection);
                // Neither is answered before both have asked.
                both.wait();
                let _ = connection.write_all(answer("200 OK", FOUR).as_bytes());
            });
        }
    });
    let server = Server { port, asked: Arc::default() };
    place.file("shelly.yaml", server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let (one, two) = (editor.conversation(&place), editor.conversation(&place));
    assert_ne!(one, two);
    let prompts = [editor.prompt(&one, "one"), editor.prompt(&two, "two")];
    for id in prompts {
        assert_eq!(editor.answer(id)["result"]["stopReason"], "end_turn");
    }
    for session in [one, two] {
        assert_eq!(editor.text(&session, "agent_message_chunk"), "Four.");
    }
}

#[test]
fn conversations_and_waiting_prompts_are_bounded() {
    let (place, model) = (Place::new(), WaitingModel::start());
    place.file("shelly.yaml", model.server.config(""));
    let mut editor = ScriptedEditor::greeted(&place, TRUST, json!({}));
    let session = editor.conversation(&place);
    editor.prompt(&session, "first");
    model.asked.recv().unwrap();
    let waiting: Vec<_> = (0..limits::ACP_PROMPTS_WAITING).map(|_| editor.prompt(&session, "more")).collect();
    let beyond = editor.prompt(&session, "too many");
    let refused = editor.answer(beyond);
    assert!(refused["error"]["message"].as_str().unwrap().contains("16 prompts wait already"), "{refused}");
    editor.notify("session/cancel", json!({ "sessionId": session }));
    for id in waiting {
        assert_eq!(editor.answer(id)["result"]["stopReason"], "cancelled");
    }
    for _ in 1..limits::ACP_SESSIONS {
        editor.conversation(&place);
    }
    let open = json!({"cwd": place.path(), "mcpServers": []});
    let refused: Value = editor.ask("session/new", open.clone());
    assert!(refused["error"]["message"].as_str().unwrap().contains("32 sessions are open"), "{refused}");
    editor.ask("session/close", json!({ "sessionId": session }));
    assert!(editor.ask("session/new", open).get("error").is_none(), "there is room again");
    drop(model);
}
