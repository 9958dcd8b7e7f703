//! Editors that send what no editor should.

use serde_json::{Value, json};
use shelly_host::limits;

use super::{TRUST, editor::ScriptedEditor};
use crate::support::Place;

#[test]
fn malformed_input_is_answered_and_survived() {
    let place = Place::new();
    let folder = place.path().display().to_string();
    let huge = format!(r#"{{"jsonrpc":"2.0","id":70,"method":"x","params":"{}"}}"#, "x".repeat(limits::ACP_LINE_BYTES));
    let method = |id: u64, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let longer = huge.replacen("70", "71", 1) + &"x".repeat(limits::ACP_LINE_BYTES);
    let unknown = "x".repeat(limits::ACP_LINE_BYTES + 1);
    let mut editor = ScriptedEditor::start(&place, TRUST);
    let early = method(1, "session/new", json!({"cwd": folder, "mcpServers": []}));
    let answered = |editor: &mut ScriptedEditor, line: &str, id: Value, code: i64| {
        editor.say(line);
        let answer = editor.next().unwrap();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{line:.100}: {answer}");
    };
    answered(&mut editor, &early, json!(1), -32600);
    answered(&mut editor, &method(2, "session/prompt", json!({"sessionId": "s", "prompt": []})), json!(2), -32600);
    editor.ask("initialize", json!({"protocolVersion": 1}));
    for (line, id, code) in [
        ("hello".to_owned(), Value::Null, -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":3".into(), Value::Null, -32700),
        ("[]".into(), Value::Null, -32600),
        ("{}".into(), Value::Null, -32600),
        (r#"{"jsonrpc":"1.0","id":4,"method":"initialize"}"#.into(), json!(4), -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"initialize"}"#.into(), Value::Null, -32600),
        (huge, json!(70), -32600),
        (longer, json!(71), -32600),
        (unknown, Value::Null, -32700),
        (method(5, "no/such", json!({})), json!(5), -32601),
        (method(6, "fs/read_text_file", json!({})), json!(6), -32601),
        (method(7, "authenticate", json!({"methodId": "x"})), json!(7), -32600),
        (method(8, "session/new", json!({"cwd": "relative", "mcpServers": []})), json!(8), -32602),
        (method(9, "session/new", json!({"cwd": 7})), json!(9), -32602),
        (method(10, "session/new", json!({"cwd": "/no/such/folder", "mcpServers": []})), json!(10), -32603),
        (method(11, "session/prompt", json!({"sessionId": "none", "prompt": []})), json!(11), -32002),
        (method(12, "session/prompt", json!({"sessionId": "none", "prompt": [{"type": "odd"}]})), json!(12), -32602),
        (method(13, "session/set_mode", json!({"sessionId": "none", "modeId": "a"})), json!(13), -32002),
        (method(14, "session/close", json!({"sessionId": "none"})), json!(14), -32002),
        (method(15, "session/list", json!({"cwd": folder, "cursor": "-1"})), json!(15), -32602),
        (method(16, "session/load", json!({"sessionId": "none", "cwd": folder, "mcpServers": []})), json!(16), -32002),
    ] {
        answered(&mut editor, &line, id, code);
    }
    // Nothing answers these.
    editor.notify("session/cancel", json!({"sessionId": "none"}));
    editor.notify("session/cancel", json!([]));
    editor.notify("no/such", json!({}));
    editor.say(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#);
    editor.say("");
    assert!(editor.ask("initialize", json!({"protocolVersion": 7})).get("error").is_none(), "it still serves");
    assert_eq!(editor.end().0, 0);
}

#[test]
fn editor_that_sends_only_garbage_is_given_up() {
    let place = Place::new();
    let mut editor = ScriptedEditor::start(&place, &[]);
    let mut answers = 0;
    for _ in 0..=limits::ACP_GARBAGE_LINES {
        editor.say("no");
        assert!(editor.next().is_some());
        answers += 1;
    }
    assert_eq!((editor.next(), answers), (None, limits::ACP_GARBAGE_LINES + 1));
    let (code, said) = editor.end();
    assert!(code == 1 && said.contains("the editor sent 1001 lines that are no messages"), "{code}: {said}");
}
