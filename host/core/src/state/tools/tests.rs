use std::sync::{Arc, Mutex};

use serde_json::json;

use crate::{
    bucket::MemoryBucket,
    chat::ToolCall,
    event::RunCx,
    state::{Blackboard, BlackboardChange, NewTask, NoteStore, Task, TaskActor, TaskBoard},
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

#[tokio::test(flavor = "multi_thread")]
async fn tools_read_what_other_hosts_have_changed() {
    let bucket = MemoryBucket::new();
    let boards = || {
        let (tasks, blackboard) = (TaskBoard::new(), Blackboard::new());
        tasks.share(Arc::new(bucket.clone()), "tasks".into(), None).unwrap();
        blackboard.share(Arc::new(bucket.clone()), "blackboard".into()).unwrap();
        (tasks, blackboard)
    };
    let ((tasks, blackboard), (other_tasks, other_blackboard)) = (boards(), boards());
    let (of_tasks, of_blackboard) = (super::task_tools(&tasks), super::blackboard_tools(&blackboard, "t").unwrap());
    let ask = async |tools: &ToolBox, name: &str, arguments| call(tools, "ann", name, arguments).await;
    for n in 1..=10 {
        let id = other_tasks.create(NewTask { title: "dig".into(), ..NewTask::default() }, TaskActor::Host).unwrap().id;
        let shown = ask(&of_tasks, "shared_tasks_get", json!({"id": &id})).await;
        assert!(shown.contains("pending"), "{shown}");
        other_tasks.claim(&id, "bob").unwrap();
        let listed = ask(&of_tasks, "shared_tasks_list", json!({"assignee": "bob"})).await;
        assert_eq!(listed.matches("in_progress").count(), n, "{listed}");
        other_blackboard.set("n", &n).unwrap();
        assert_eq!(ask(&of_blackboard, "t_state_get", json!({"key": "n"})).await, n.to_string());
        other_blackboard.set(&format!("k{n}"), &n).unwrap();
        let keys = ask(&of_blackboard, "t_state_list", json!({"prefix": "k"})).await;
        assert_eq!(keys.matches('k').count(), n, "{keys}");
    }
    bucket.set_away(true);
    for (tools, name, arguments) in [
        (&of_tasks, "shared_tasks_list", json!({})),
        (&of_tasks, "shared_tasks_get", json!({"id": "task-1"})),
        (&of_tasks, "shared_tasks_watch", json!({"id": "task-1"})),
        (&of_blackboard, "t_state_get", json!({"key": "n"})),
        (&of_blackboard, "t_state_list", json!({})),
        (&of_blackboard, "t_state_watch", json!({"key": "n"})),
    ] {
        let told = ask(tools, name, arguments).await;
        assert!(told.contains("cannot be used: the cluster does not answer"), "{name}: {told}");
    }
}

/// Calls a tool as a model does, and returns its answer, or the error after `error: `.
pub(super) async fn call(tools: &ToolBox, agent: &str, name: &str, arguments: serde_json::Value) -> String {
    let cx = ToolCx::new(RunCx::new(agent));
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
    let result = tools.dispatch(&cx, &call).await.result;
    format!("{}{}", if result.is_error { "error: " } else { "" }, result.text())
}
