use std::sync::Arc;

use futures_util::{FutureExt, future::BoxFuture};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    hints::{ADDS, CHANGES, READS, concurrency, watches},
    waiting::{change, wait, wait_limit},
};
use crate::{
    chat::{ToolHints, ToolResultContent},
    error::Fault,
    limits,
    state::{
        NewTask, Task, TaskActor, TaskBlocker, TaskBoard, TaskFilter, TaskMetadata, TaskStatus, TaskUpdate,
        shown_name::shown_name,
    },
    tool::{FnTool, ToolBox, ToolCx, ToolOutput, function},
};

#[derive(Deserialize, JsonSchema)]
struct TaskCreateArgs {
    /// The title, in one line.
    title: String,
    /// What is to be done and how to know that it is done, complete for a reader who knows nothing else.
    #[serde(default)]
    description: String,
    /// Ids of tasks that must be completed before this one can be claimed.
    #[serde(default)]
    blocked_by: Vec<String>,
    /// Further facts, by name.
    #[serde(default)]
    metadata: TaskMetadata,
    #[schemars(skip)]
    status: Option<TaskStatus>,
    #[schemars(skip)]
    assignee: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct TaskListArgs {
    /// Only tasks of this status.
    #[serde(default)]
    #[schemars(with = "TaskStatus")]
    status: Option<TaskStatus>,
    /// Only tasks of this agent.
    assignee: Option<String>,
    /// True: only pending tasks that wait for others; false: only those that can be claimed.
    blocked: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
struct TaskIdArgs {
    /// The id of the task.
    id: String,
}

#[derive(Deserialize, JsonSchema)]
struct TaskUpdateArgs {
    /// The id of the task.
    id: String,
    /// The new title.
    title: Option<String>,
    /// The new description.
    description: Option<String>,
    /// `completed` or `failed` when your work on it has ended; `pending` to give it back or to reopen it.
    #[serde(default)]
    #[schemars(with = "TaskStatus")]
    status: Option<TaskStatus>,
    /// The new list of ids of tasks that it waits for; only while the task is pending.
    blocked_by: Option<Vec<String>>,
    /// Facts to add or replace, such as the result; a fact set to null is removed.
    #[serde(default)]
    metadata: TaskMetadata,
}

#[derive(Deserialize, JsonSchema)]
struct TaskWatchArgs {
    /// The id of the task.
    id: String,
    /// How long to wait, 1 to 300 seconds; 300 if left out.
    timeout_seconds: Option<u64>,
}

/// A task in a list.
#[derive(Serialize)]
struct TaskRow<'a> {
    id: &'a str,
    title: &'a str,
    status: TaskStatus,
    assignee: Option<&'a str>,
    blocked_by: &'a [String],
}

impl<'a> TaskRow<'a> {
    fn of(task: &'a Task) -> Self {
        let Task { id, title, status, assignee, blocked_by, .. } = task;
        Self { id, title, status: *status, assignee: assignee.as_deref(), blocked_by }
    }
}

/// A task with its unfinished dependencies.
#[derive(Serialize)]
struct TaskDetails {
    #[serde(flatten)]
    task: Task,
    waits_for: Vec<TaskBlocker>,
}

/// Returns the tools `shared_tasks_create`, `_list`, `_get`, `_claim`, `_update`, `_watch` and `_cancel` of a task board.
/// The caller acts as the agent of its instance name.
pub fn task_tools(board: &TaskBoard) -> ToolBox {
    let (reading, changing) = ((board, BoardUse::Read), (board, BoardUse::Change));
    let create = tool(
        changing,
        "create",
        "Adds a task to the board that all agents share.",
        |board, me, args: TaskCreateArgs| ToolOutput::json(&board.create(new_task(args)?, TaskActor::Agent(me))?),
    );
    let list = tool(
        reading,
        "list",
        "Lists the tasks of the board that all agents share, oldest first. `_get` shows one in full.",
        |board, _, TaskListArgs { status, assignee, blocked }: TaskListArgs| {
            rows(&board.list(&TaskFilter { status, assignee, blocked }))
        },
    );
    let get = tool(reading, "get", "Shows a task in full, and what it waits for.", |board, _, args: TaskIdArgs| {
        let waits_for = board.why_blocked(&args.id)?;
        ToolOutput::json(&TaskDetails { task: board.get(&args.id)?, waits_for })
    });
    let claim = tool(
        changing,
        "claim",
        "Makes you the assignee of a pending task that has no assignee, and sets it to in progress.",
        |board, me, args: TaskIdArgs| ToolOutput::json(&board.claim(&args.id, me)?),
    );
    let update = tool(
        changing,
        "update",
        "Changes a task that you created or that is assigned to you: its status when you are done, its metadata, its \
         text.",
        |board, me, args: TaskUpdateArgs| {
            let TaskUpdateArgs { id, title, description, status, blocked_by, metadata } = args;
            let update = TaskUpdate { title, description, status, blocked_by, metadata };
            ToolOutput::json(&board.update(&id, update, TaskActor::Agent(me))?)
        },
    );
    let cancel = tool(
        changing,
        "cancel",
        "Cancels a task that you created or that is assigned to you and that has not ended; its assignee is stopped.",
        |board, me, args: TaskIdArgs| ToolOutput::json(&board.cancel(&args.id, TaskActor::Agent(me))?),
    );
    let of_watch = board.clone();
    let watch = function(
        "shared_tasks_watch",
        "Waits until a task has ended: completed, failed or canceled.",
        move |_, args: TaskWatchArgs| {
            let board = of_watch.clone();
            async move {
                board.refresh().await?;
                let in_vain = format!("`{}` did not end", shown_name(&args.id));
                ToolOutput::json(&wait(args.timeout_seconds, in_vain, board.watch(&args.id)).await??)
            }
        },
    );
    let (reads, changes) = (concurrency(READS, BOARD), concurrency(CHANGES, BOARD));
    ToolBox::new()
        .with(create.with_hints(ADDS).with_concurrency(changes.clone()))
        .with(list.with_hints(READS).with_concurrency(reads.clone()))
        .with(get.with_hints(READS).with_concurrency(reads))
        .with(claim.with_hints(ToolHints { idempotent: true, ..ADDS }).with_concurrency(changes.clone()))
        .with(update.with_hints(CHANGES).with_concurrency(changes.clone()))
        .with(watch.with_hints(READS).with_concurrency(watches(BOARD)).with_time_limit(wait_limit()))
        .with(cancel.with_hints(CHANGES).with_concurrency(changes))
}

/// The name of the concurrency domain of the board: an agent has one board.
const BOARD: &str = "host:tasks";

/// The use that a tool makes of the board.
#[derive(Clone, Copy)]
enum BoardUse {
    /// Reads it as it is after all changes so far.
    Read,
    Change,
}

/// Creates a tool of the board: `call` gets the board and the name of the calling agent.
fn tool<A, C>(
    (board, board_use): (&TaskBoard, BoardUse),
    name: &str,
    description: &str,
    call: C,
) -> FnTool<A, impl Fn(ToolCx, A) -> BoxFuture<'static, Result<ToolOutput, Fault>> + Send + Sync + use<A, C>>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    C: Fn(&TaskBoard, &str, A) -> Result<ToolOutput, Fault> + Send + Sync + 'static,
{
    let (board, call) = (board.clone(), Arc::new(call));
    let call = move |cx: ToolCx, args: A| {
        let (board, agent, call) = (board.attributed_to(cx.call_id()), Arc::clone(&cx.run.agent), Arc::clone(&call));
        async move {
            match board_use {
                BoardUse::Read => {
                    board.refresh().await?;
                    call(&board, &agent, args)
                }
                BoardUse::Change => change(board.is_shared(), move || call(&board, &agent, args)).await?,
            }
        }
        .boxed()
    };
    // An interrupted call that changed the board is not repeated: the change is recorded with the id of the call.
    function(&format!("shared_tasks_{name}"), description, call).repeatable()
}

/// Rejects fields that a model must not set on a new task.
fn new_task(args: TaskCreateArgs) -> Result<NewTask, Fault> {
    if let Some(status) = args.status.filter(|status| *status != TaskStatus::Pending) {
        let message = format!("a new task is pending and cannot be {}; leave out `status`", status.as_str());
        return Err(Fault::invalid(message));
    }
    if args.assignee.is_some_and(|assignee| !assignee.is_empty()) {
        let message =
            "a new task has no assignee; leave out `assignee`, and claim or delegate the task after it is created";
        return Err(Fault::invalid(message));
    }
    let TaskCreateArgs { title, description, blocked_by, metadata, .. } = args;
    Ok(NewTask { title, description, blocked_by, metadata })
}

fn rows(tasks: &[Task]) -> Result<ToolOutput, Fault> {
    let listed: Vec<_> = tasks.iter().take(limits::TASKS_LISTED).map(TaskRow::of).collect();
    let mut output = ToolOutput::json(&listed)?;
    if let (ToolOutput::Reply(content), more @ 1..) = (&mut output, tasks.len() - listed.len()) {
        let note = format!("[{more} more tasks are not listed; list those of one status or assignee]");
        content.push(ToolResultContent::Text(note));
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use serde_json::{Value, json};

    use super::{super::tests::call, *};

    async fn answer(tools: &ToolBox, agent: &str, tool: &str, arguments: Value) -> Value {
        let answer = call(tools, agent, &format!("shared_tasks_{tool}"), arguments).await;
        serde_json::from_str(&answer).unwrap_or(Value::String(answer))
    }

    #[tokio::test]
    async fn task_tools_let_agents_share_work() {
        let tools = task_tools(&TaskBoard::new());
        assert_eq!(answer(&tools, "lead", "list", json!({})).await, json!([]));
        let first = json!({"id": "task-1", "title": "dig", "description": "a hole", "status": "pending",
            "assignee": null, "blocked_by": [], "metadata": {"deep": 2}, "created_by": "lead"});
        let arguments = json!({"title": "dig", "description": "a hole", "metadata": {"deep": 2}, "status": "pending"});
        assert_eq!(answer(&tools, "lead", "create", arguments).await, first);
        answer(&tools, "lead", "create", json!({"title": "fill", "blocked_by": ["task-1"]})).await;

        let row = |id, title, status, assignee, blocked_by| json!({"id": id, "title": title, "status": status, "assignee": assignee, "blocked_by": blocked_by});
        let fill = row("task-2", "fill", "pending", Value::Null, json!(["task-1"]));
        assert_eq!(answer(&tools, "ann", "list", json!({"blocked": true})).await, json!([fill]));
        let shown = answer(&tools, "ann", "get", json!({"id": "task-2"})).await;
        assert_eq!(shown["waits_for"], json!([{"id": "task-1", "status": "pending", "dead_end": null}]));

        let claimed = answer(&tools, "ann", "claim", json!({"id": "task-1"})).await;
        assert_eq!((&claimed["assignee"], &claimed["description"]), (&json!("ann"), &json!("a hole")));
        let told = answer(&tools, "bob", "claim", json!({"id": "task-1"})).await;
        assert!(told.as_str().unwrap().starts_with("error: `task-1` is already assigned to ann"), "{told}");
        let told = answer(&tools, "bob", "update", json!({"id": "task-1", "status": "failed"})).await;
        assert!(told.as_str().unwrap().contains("only by its creator (lead) and its assignee (ann)"), "{told}");
        let told = answer(&tools, "ann", "update", json!({"id": "task-1", "status": "done"})).await;
        assert!(told.as_str().unwrap().contains("expected one of `pending`, `in_progress`"), "{told}");

        let done = json!({"id": "task-1", "status": "completed", "metadata": {"result": "dug"}});
        let report = answer(&tools, "ann", "update", done).await;
        assert_eq!((&report["status"], &report["unblocked"]), (&json!("completed"), &json!(["task-2"])));
        let report = answer(&tools, "lead", "cancel", json!({"id": "task-2"})).await;
        assert_eq!(
            (&report["status"], &report["previous"], &report["by"]),
            (&json!("canceled"), &json!("pending"), &json!("lead"))
        );
        let told = answer(&tools, "ann", "get", json!({"id": "task-7"})).await;
        assert_eq!(told, "error: there is no task `task-7`; list the tasks to see their ids");
    }

    #[tokio::test]
    async fn task_tool_creates_pending_unassigned_tasks() {
        let tools = task_tools(&TaskBoard::new());
        for (arguments, told) in [
            (json!({"title": "t", "status": "completed"}), "a new task is pending and cannot be completed"),
            (json!({"title": "t", "assignee": "ann"}), "a new task has no assignee"),
            (json!({"title": "t", "blocked_by": ["task-1"]}), "there is no task `task-1`"),
            (json!({"title": ""}), "the title has 0 characters; use 1 to 200"),
            (json!({}), "the arguments do not match the schema: missing field `title`"),
        ] {
            let answer = answer(&tools, "lead", "create", arguments).await;
            assert!(answer.as_str().unwrap().starts_with(&format!("error: {told}")), "{answer}");
        }
        assert_eq!(answer(&tools, "lead", "list", json!({})).await, json!([]));
    }

    #[tokio::test(start_paused = true)]
    async fn task_watch_tool_waits_for_the_end() {
        let board = TaskBoard::new();
        let tools = task_tools(&board);
        let title = "é".repeat(limits::TASK_TITLE_CHARS);
        board.create(NewTask { title, ..NewTask::default() }, TaskActor::Host).unwrap();
        let watch = |arguments| call(&tools, "lead", "shared_tasks_watch", arguments);
        let told = watch(json!({"id": "task-1"})).await;
        assert_eq!(told, "error: nobody claimed `task-1` for 15 seconds; claim it, delegate it, or wait again later");
        board.claim("task-1", "ann").unwrap();
        for (arguments, seconds) in
            [(json!({"id": "task-1", "timeout_seconds": 20}), 20), (json!({"id": "task-1"}), 300)]
        {
            let told = watch(arguments).await;
            let expected =
                format!("error: `task-1` did not end within {seconds} seconds; do something else, or wait again");
            assert_eq!(told, expected);
        }
        let mut waiting = Box::pin(watch(json!({"id": "task-1"})));
        assert!(poll!(&mut waiting).is_pending());
        board.set_status("task-1", TaskStatus::Failed, TaskActor::Host).unwrap();
        assert!(waiting.await.contains(r#""status":"failed","assignee":"ann""#));
    }

    #[tokio::test]
    async fn long_task_list_says_how_many_are_omitted() {
        let board = TaskBoard::new();
        for _ in 0..limits::TASKS_LISTED + 3 {
            board
                .create(NewTask { title: "t".repeat(limits::TASK_TITLE_CHARS), ..NewTask::default() }, TaskActor::Host)
                .unwrap();
        }
        let listed = call(&task_tools(&board), "lead", "shared_tasks_list", json!({})).await;
        let (rows, told) = listed.split_once('\n').unwrap();
        assert_eq!(serde_json::from_str::<Vec<Value>>(rows).unwrap().len(), limits::TASKS_LISTED);
        assert!(told.starts_with("[3 more tasks are not listed"), "{told}");
    }

    #[test]
    fn task_tool_schemas_state_allowed_values() {
        let tools = task_tools(&TaskBoard::new());
        let names: Vec<_> = ["create", "list", "get", "claim", "update", "watch", "cancel"]
            .map(|name| format!("shared_tasks_{name}"))
            .into();
        assert_eq!(tools.names().collect::<Vec<_>>(), names);
        let schema = |name: &str| {
            let tool = tools.iter().find(|tool| tool.spec().name.ends_with(name)).unwrap();
            serde_json::from_str::<Value>(tool.spec().input_schema.get()).unwrap()
        };
        let create = schema("create");
        assert_eq!(create["required"], json!(["title"]));
        let known: Vec<_> = create["properties"].as_object().unwrap().keys().collect();
        assert_eq!(known, ["blocked_by", "description", "metadata", "title"]);
        for (name, required) in [("list", json!(null)), ("update", json!(["id"]))] {
            let words = json!(["pending", "in_progress", "completed", "failed", "canceled"]);
            assert_eq!(schema(name)["properties"]["status"]["enum"], words);
            assert_eq!(schema(name)["required"], required);
        }
        let watch = schema("watch").to_string();
        assert!(watch.contains(&format!("1 to {} seconds", limits::SHARED_WAIT.as_secs())), "{watch}");
    }
}
