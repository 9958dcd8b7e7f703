use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::{
    chat::ToolCall,
    event::RunCx,
    state::{Blackboard, BlackboardChange, NoteStore, Task, TaskBoard},
    tool::{ToolBox, ToolCallId, ToolCx},
};

#[test]
fn shared_state_tools_are_repeatable() {
    let folder = tempfile::tempdir().unwrap();
    let board = super::blackboard_tools(&Blackboard::new(), "t").unwrap();
    for tools in [board, super::task_tools(&TaskBoard::new()), super::note_tools(&NoteStore::new(folder.path()))] {
        for tool in tools.iter() {
            assert!(tool.is_repeatable() && !tool.begins_itself(), "{}", tool.spec().name);
        }
    }
}

#[tokio::test]
async fn state_change_hook_knows_the_calling_tool_call() {
    let (board, blackboard, told) = (TaskBoard::new(), Blackboard::new(), Arc::new(Mutex::new(Vec::new())));
    let by = |told: &Arc<Mutex<Vec<String>>>, what: &'static str| {
        let told = Arc::clone(told);
        move |by: Option<&ToolCallId>| {
            let by = by.map_or("nobody".into(), |by| format!("{} {}", by.agent, by.call));
            told.lock().unwrap().push(format!("{what} by {by}"));
        }
    };
    let (task, change) = (by(&told, "task"), by(&told, "change"));
    board.on_change(Arc::new(move |_: &Task, by| task(by)));
    blackboard.on_change(Arc::new(move |_: &BlackboardChange, by| change(by)));
    call(&super::task_tools(&board), "ann", "shared_tasks_create", json!({"title": "t"})).await;
    let tools = super::blackboard_tools(&blackboard, "t").unwrap();
    call(&tools, "bob", "t_state_set", json!({"key": "k", "value": 1})).await;
    blackboard.delete("k");
    assert_eq!(*told.lock().unwrap(), ["task by ann c", "change by bob c", "change by nobody"]);
}

/// Calls a tool as a model does, and returns its answer, or the error after `error: `.
pub(super) async fn call(tools: &ToolBox, agent: &str, name: &str, arguments: serde_json::Value) -> String {
    let cx = ToolCx::new(RunCx::new(agent));
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
    let result = tools.dispatch(&cx, &call).await.result;
    format!("{}{}", if result.is_error { "error: " } else { "" }, result.text())
}
