//! Tools through which models use blackboards, tasks and notes.

mod blackboard;
mod notes;
mod tasks;

use std::{future::Future, time::Duration};

pub use blackboard::blackboard_tools;
pub use notes::note_tools;
pub use tasks::task_tools;

use crate::{
    chat::ToolHints,
    error::{self, Fault},
    limits,
    tool::{ConcurrencyDomain, ToolConcurrency},
};

const READS: ToolHints = ToolHints { read_only: true, non_destructive: true, idempotent: true, closed_world: true };
const ADDS: ToolHints = ToolHints { read_only: false, non_destructive: true, idempotent: false, closed_world: true };
const CHANGES: ToolHints =
    ToolHints { read_only: false, non_destructive: false, idempotent: false, closed_world: true };

/// Returns the concurrency of a tool with these hints, relative to other calls on the named resource.
fn concurrency(hints: ToolHints, of: &str) -> ToolConcurrency {
    ToolConcurrency::touching(hints, [ConcurrencyDomain::named(of)])
}

/// Returns the concurrency of a tool that waits for changes of the named resource.
fn watches(of: &str) -> ToolConcurrency {
    ToolConcurrency::Watches([ConcurrencyDomain::named(of)].into())
}

/// Returns the wall time limit of a tool that waits: the maximum wait, and time to report that nothing happened.
fn wait_limit() -> Duration {
    limits::SHARED_WAIT + limits::SHARED_WAIT_GRACE
}

/// Waits as long as the model asks; `what` begins the error message after a timeout.
async fn wait<R>(seconds: Option<u64>, what: String, future: impl Future<Output = R>) -> Result<R, Fault> {
    let most = limits::SHARED_WAIT.as_secs();
    let seconds = seconds.unwrap_or(most);
    if !(1..=most).contains(&seconds) {
        return Err(Fault::invalid(format!("`timeout_seconds` is {seconds}; it can be 1 to {most}")));
    }
    let time = Duration::from_secs(seconds);
    let in_vain = |_| {
        let message = format!("{what} within {}; do something else, or wait again", error::seconds(time));
        Fault::Timeout { message }
    };
    tokio::time::timeout(time, future).await.map_err(in_vain)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use crate::{
        chat::{ChatSnapshot, ToolCall},
        event::RunCx,
        state::{Blackboard, BlackboardChange, NoteStore, Task, TaskBoard},
        tool::{ToolBox, ToolCx, current_call},
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
            move || {
                let by = current_call().map_or("nobody".into(), |by| format!("{} {}", by.agent, by.call));
                told.lock().unwrap().push(format!("{what} by {by}"));
            }
        };
        let (task, change) = (by(&told, "task"), by(&told, "change"));
        board.on_change(Arc::new(move |_: &Task| task()));
        blackboard.on_change(Arc::new(move |_: &BlackboardChange| change()));
        call(&super::task_tools(&board), "ann", "shared_tasks_create", json!({"title": "t"})).await;
        let tools = super::blackboard_tools(&blackboard, "t").unwrap();
        call(&tools, "bob", "t_state_set", json!({"key": "k", "value": 1})).await;
        blackboard.delete("k");
        assert_eq!(*told.lock().unwrap(), ["task by ann c", "change by bob c", "change by nobody"]);
    }

    /// Calls a tool as a model does, and returns its answer, or the error after `error: `.
    pub(super) async fn call(tools: &ToolBox, agent: &str, name: &str, arguments: serde_json::Value) -> String {
        let cx = ToolCx {
            run: RunCx::new(agent),
            chat: ChatSnapshot::default(),
            tools: [].into(),
            begin: Default::default(),
        };
        let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
        let result = tools.dispatch(&cx, &call).await.result;
        format!("{}{}", if result.is_error { "error: " } else { "" }, result.text())
    }
}
