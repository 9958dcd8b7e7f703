//! Files that the person has open in the editor.

use std::time::Instant;

use serde_json::{Value, json};
use shelly_host::limits;

use super::{TRUST, calling, editor::ScriptedEditor};
use crate::{
    bad_input::Server,
    changes::{self, docs},
    support::Place,
};

const SAVED: &str = "1\n2\n3\n";
const EDITED: &str = "1\n2\nTHREE\n";

/// The options with which the tools of guests are found.
const OPTIONS: &[&str] = &["--trust", "--plugins", crate::GUEST_ROOT];

fn files() -> Value {
    json!({"fs": {"readTextFile": true, "writeTextFile": true}})
}

/// A project whose agent changes the first line of a file.
fn project() -> (Place, Server) {
    let place = Place::new();
    place.file("docs/a.txt", SAVED);
    let calls = [json!([changes::edit("a.txt", SAVED, "ONE\n2\n3\n")])];
    let server = changes::configure(&place, "powers: [propose-files]", &calls);
    (place, server)
}

fn allow() -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}})
}

#[test]
fn unsaved_text_is_changed_in_the_editor() {
    let (place, server) = project();
    let mut editor = ScriptedEditor::greeted(&place, OPTIONS, files());
    let session = editor.conversation(&place);
    let prompt = editor.prompt(&session, "go");
    let path = place.path().join("docs/a.txt");
    let read = editor.called("fs/read_text_file");
    assert_eq!(read["params"], json!({"sessionId": session, "path": path}));
    editor.respond(&read, json!({"content": EDITED}));
    let asked = editor.called("session/request_permission");
    let after = "ONE\n2\nTHREE\n";
    let diff = json!({"type": "diff", "path": path, "oldText": EDITED, "newText": after});
    assert!(asked["params"]["toolCall"]["content"].as_array().unwrap().contains(&diff), "{asked}");
    assert!(asked.to_string().contains("your unsaved changes in the editor are saved, too"), "{asked}");
    editor.respond(&asked, allow());
    // The person may have typed on while the question was open.
    let read = editor.called("fs/read_text_file");
    editor.respond(&read, json!({"content": EDITED}));
    for text in [EDITED, after] {
        let written = editor.called("fs/write_text_file");
        assert_eq!(written["params"], json!({"sessionId": session, "path": path, "content": text}));
        place.file("docs/a.txt", text);
        editor.respond(&written, json!({}));
    }
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(docs(&place)["a.txt"], after);
    let before = Instant::now();
    assert_eq!(editor.end().0, 0);
    assert!(before.elapsed() < limits::CANCEL_GRACE, "nothing is waited for");
    let undone = place.run(&["session", "undo", &session, "--yes"]);
    assert_eq!((undone.code, &*docs(&place)["a.txt"]), (0, EDITED), "{}", undone.shown());
    drop(server);
}

#[test]
fn agent_reads_what_the_person_has_not_saved() {
    for toolbox in ["filesystem", "{name: filesystem, files: [{path: docs}]}"] {
        let place = Place::new();
        place.file("docs/a.txt", SAVED);
        let server = calling("fs_read", &json!({"path": "docs/a.txt"}));
        place.file("shelly.yaml", super::agent(&server, &format!("toolboxes: [{toolbox}]")));
        let options = ["--trust", "--plugins", crate::PLUGIN_ROOT];
        let mut editor = ScriptedEditor::greeted(&place, &options, files());
        let session = editor.conversation(&place);
        let prompt = editor.prompt(&session, "go");
        let read = editor.called("fs/read_text_file");
        assert_eq!(read["params"]["path"], json!(place.path().join("docs/a.txt")), "{toolbox}");
        editor.respond(&read, json!({"content": EDITED}));
        assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
        let told = server.asked.lock().unwrap().pop().unwrap();
        assert!(told.contains("unsaved changes of") && told.contains(r"-3\n+THREE\n"), "{toolbox}: {told}");
    }
}

#[test]
fn failing_editor_keeps_the_agent_from_old_text() {
    for (code, is_failed) in [(-32603, true), (-32002, false), (-32601, false)] {
        let place = Place::new();
        place.file("docs/a.txt", SAVED);
        let server = calling("fs_read", &json!({"path": "docs/a.txt"}));
        place.file("shelly.yaml", super::agent(&server, "toolboxes: [filesystem]"));
        let options = ["--trust", "--plugins", crate::PLUGIN_ROOT];
        let mut editor = ScriptedEditor::greeted(&place, &options, files());
        let session = editor.conversation(&place);
        let prompt = editor.prompt(&session, "go");
        let read = editor.called("fs/read_text_file");
        editor.refuse(&read, code);
        assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
        let told = server.asked.lock().unwrap().pop().unwrap();
        assert_eq!(told.contains("could not be read: the editor refused: busy"), is_failed, "{code}: {told}");
    }
    for (code, is_failed) in [(-32603, true), (-32002, false)] {
        let (place, server) = project();
        let options = [OPTIONS, &["--approve", "all"]].concat();
        let mut editor = ScriptedEditor::greeted(&place, &options, json!({"fs": {"readTextFile": true}}));
        let session = editor.conversation(&place);
        let prompt = editor.prompt(&session, "go");
        let read = editor.called("fs/read_text_file");
        editor.refuse(&read, code);
        assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
        assert_eq!(docs(&place)["a.txt"] == SAVED, is_failed, "{code}");
        drop(server);
    }
}

#[test]
fn text_larger_than_a_message_is_not_taken_for_none() {
    let (place, server) = project();
    let options = [OPTIONS, &["--approve", "all"]].concat();
    let mut editor = ScriptedEditor::greeted(&place, &options, files());
    let session = editor.conversation(&place);
    let prompt = editor.prompt(&session, "go");
    let read = editor.called("fs/read_text_file");
    editor.respond(&read, json!({"content": "x".repeat(limits::ACP_LINE_BYTES)}));
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(docs(&place)["a.txt"], SAVED);
    let told = server.asked.lock().unwrap().pop().unwrap();
    assert!(told.contains("the editor refused: the line has more than 33554432 bytes"), "{told}");
}

#[test]
fn editor_that_saves_nothing_keeps_its_text() {
    let (place, server) = project();
    let mut editor = ScriptedEditor::greeted(&place, OPTIONS, json!({"fs": {"readTextFile": true}}));
    let session = editor.conversation(&place);
    let prompt = editor.prompt(&session, "go");
    let read = editor.called("fs/read_text_file");
    editor.respond(&read, json!({"content": EDITED}));
    let asked = editor.called("session/request_permission");
    editor.respond(&asked, allow());
    let read = editor.called("fs/read_text_file");
    editor.respond(&read, json!({"content": EDITED}));
    assert_eq!(editor.answer(prompt)["result"]["stopReason"], "end_turn");
    assert_eq!(docs(&place)["a.txt"], SAVED, "the person's text would be overwritten");
    let told = server.asked.lock().unwrap().pop().unwrap();
    assert!(told.contains("the editor does not offer to write files"), "{told}");
}

#[test]
fn files_that_the_agent_cannot_reach_are_not_asked_for() {
    let place = Place::new();
    place.file("docs/a.txt", SAVED);
    place.file("other/b.txt", SAVED);
    let calls =
        [json!([changes::edit("../other/b.txt", SAVED, "x")]), json!([changes::edit("/etc/passwd", SAVED, "x")])];
    let server = changes::configure(&place, "powers: [propose-files]", &calls);
    let mut editor = ScriptedEditor::greeted(&place, OPTIONS, files());
    let session = editor.conversation(&place);
    // A request of the program would be waited for, and is none of the messages before the answer.
    assert_eq!(editor.prompted(&session, "go"), "end_turn");
    assert!(!editor.has_called("fs/read_text_file"));
    drop(server);
}

#[test]
fn editor_without_files_is_asked_for_none() {
    let place = Place::new();
    let server = calling("shared_tasks_create", &json!({"title": "docs/a.txt"}));
    place.file("shelly.yaml", super::agent(&server, "toolboxes: [tasks]"));
    let mut editor =
        ScriptedEditor::greeted(&place, TRUST, json!({"fs": {"readTextFile": false, "writeTextFile": true}}));
    let session = editor.conversation(&place);
    assert_eq!(editor.prompted(&session, "go"), "end_turn");
    assert!(!editor.has_called("fs/read_text_file"));
}
