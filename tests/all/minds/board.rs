//! Board tasks that delegations name: claimed before the work and settled after it, whatever happens in between.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use shelly_host::{
    agent::{Agent, AgentGroup},
    chat::{Chat, Message},
    event::RunCx,
    state::{NewTask, TaskActor, TaskBoard, TaskStatus, TaskUpdate, task_tools},
};

use super::{agent, agent_group, done, failed, lead, lead_of, order, orders, with, with_steps};
use crate::script::{Mind, Ran, Reply, act, hangs, run, text, tool};

const ID: &str = "task-1";

/// A board with one task.
fn board() -> TaskBoard {
    let board = TaskBoard::new();
    board.create(NewTask { title: "parse".into(), ..NewTask::default() }, TaskActor::Host).unwrap();
    board
}

fn on_board(agent: &str) -> Value {
    with(order(agent, "parse"), "task_id", ID)
}

/// `lead` delegates the task of the board to `worker`.
async fn delegated(board: &TaskBoard, worker: Agent) -> Ran {
    let agent_group = agent_group([worker]).with_board(board.clone());
    run(&lead(agent_group, [orders([on_board("worker")]), text("done")]), "go").await
}

fn status(board: &TaskBoard) -> TaskStatus {
    board.get(ID).unwrap().status
}

/// One that waits for ever until it is stopped.
fn waits(name: &str) -> Agent {
    with_steps(name, [act("wait", json!({}))]).with_tool(hangs("wait", Duration::from_secs(50_000)))
}

#[tokio::test(start_paused = true)]
async fn board_task_is_claimed_and_settled_by_the_report() {
    let turn_bound = |mut agent: Agent| {
        agent.options.max_iterations = 0;
        agent
    };
    for (worker, ends) in [
        (with_steps("worker", [done("done")]), TaskStatus::Completed),
        (with_steps("worker", [text("just said")]), TaskStatus::Completed),
        (with_steps("worker", [failed("no")]), TaskStatus::Failed),
        (with_steps("worker", []), TaskStatus::Failed),
        (turn_bound(with_steps("worker", [])), TaskStatus::Failed),
        (agent("worker", Arc::new(Mind::new(|_| panic!("mad")))), TaskStatus::Failed),
    ] {
        let board = board();
        let ran = delegated(&board, worker).await;
        let task = board.get(ID).unwrap();
        assert_eq!((task.status, task.assignee.as_deref()), (ends, Some("worker-parse-1")), "{}", ran.talk());
        assert_eq!(board.revision(), 3, "made, claimed, settled");
        assert_eq!(ran.entries()[0].get("warning"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn delegation_takes_over_only_the_leads_own_claim() {
    for (holder, runs) in [("lead", true), ("somebody-1", false)] {
        let (board, model) = (board(), Arc::new(Mind::steps([done("done")])));
        board.claim(ID, holder).unwrap();
        let ran = delegated(&board, agent("worker", model.clone())).await;
        assert_eq!(model.asked().len(), usize::from(runs), "a claim that is refused runs nobody");
        if !runs {
            let error = "`task-1` is already assigned to somebody-1; take another task, or wait for this one";
            assert_eq!(ran.entries(), json!([{"agent": "worker", "error": error}]));
            assert_eq!(status(&board), TaskStatus::InProgress, "it stays with whoever has it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn missing_task_or_board_is_reported() {
    let worker = || with_steps("worker", [done("done")]);
    let ran = run(&lead(agent_group([worker()]), [orders([on_board("worker")]), text("done")]), "go").await;
    assert_eq!(ran.entries()[0]["warning"], "there is no task board; `task_id` was ignored");
    assert_eq!(ran.entries()[0]["result"], "done");
    let ran = delegated(&TaskBoard::new(), worker()).await;
    assert_eq!(ran.entries()[0]["error"], "there is no task `task-1`; list the tasks to see their ids");
    let steps = [orders([with(order("worker", "x"), "task_id", "")]), text("done")];
    let ran = run(&lead(agent_group([worker()]).with_board(board()), steps), "go").await;
    assert_eq!((&ran.entries()[0]["result"], ran.entries()[0].get("warning")), (&json!("done"), None));
}

#[tokio::test(start_paused = true)]
async fn failed_board_update_is_a_warning() {
    // It says on the board that it is done, and to the lead that it is not.
    let board = board();
    let tools = task_tools(&board);
    let update = tools.names().find(|name| name.contains("update")).unwrap().to_owned();
    let complete = act(&update, json!({"id": ID, "status": "completed"}));
    let mut worker = with_steps("worker", [complete, failed("not really")]);
    worker.tools = tools;
    let ran = delegated(&board, worker).await;
    assert_eq!(ran.entries()[0]["result"], "not really");
    let warning = ran.entries()[0]["warning"].as_str().unwrap().to_owned();
    assert!(warning.starts_with("the task board was not updated: `task-1` is already completed"), "{warning}");
    assert_eq!(status(&board), TaskStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn worker_cannot_settle_a_board_task_it_released() {
    let board = board();
    let gives_back = board.clone();
    let worker = with_steps("worker", [act("give_back", json!({})), done("somebody else does it")]).with_tool(tool(
        "give_back",
        move |cx| {
            let id = cx.run.agent.to_string();
            gives_back.set_status(ID, TaskStatus::Pending, TaskActor::Agent(&id)).unwrap();
            gives_back.claim(ID, "other-1").unwrap();
            async { Ok("given back".into()) }
        },
    ));
    let ran = delegated(&board, worker).await;
    let task = board.get(ID).unwrap();
    assert_eq!((task.status, task.assignee.as_deref()), (TaskStatus::InProgress, Some("other-1")));
    assert!(ran.entries()[0]["warning"].as_str().unwrap().contains("can be changed only by"), "{}", ran.talk());
}

/// Does something to the board as soon as the worker waits.
async fn while_it_waits(act: impl FnOnce(&TaskBoard, &AgentGroup)) -> (Ran, TaskBoard) {
    let board = board();
    let agent_group = Arc::new(agent_group([waits("worker")]).with_board(board.clone()));
    let lead = lead_of(&agent_group, [orders([on_board("worker"), order("worker", "else")]), text("done")]);
    let acting = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        act(&board, &agent_group);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert!(agent_group.cancel("worker-else-2"), "the sibling works on");
    };
    let (ran, ()) = tokio::join!(run(&lead, "go"), acting);
    (ran, board)
}

#[tokio::test(start_paused = true)]
async fn cancelled_task_stops_only_the_agents_working_on_it() {
    let (ran, board) = while_it_waits(|board, _| drop(board.cancel(ID, TaskActor::Host).unwrap())).await;
    let canceled = json!({"agent": "worker", "error": "task canceled"});
    assert_eq!(ran.entries(), json!([canceled, canceled]));
    assert_eq!(status(&board), TaskStatus::Canceled);
    assert_eq!(ran.talk().matches("failed: the run was cancelled").count(), 2, "each tells of its end");
}

#[tokio::test(start_paused = true)]
async fn cancelled_agent_cancels_its_task_but_not_its_siblings() {
    let (ran, board) = while_it_waits(|_, agent_group| assert!(agent_group.cancel("worker-parse-1"))).await;
    assert_eq!(ran.entries()[0], json!({"agent": "worker", "error": "task canceled"}));
    assert_eq!(status(&board), TaskStatus::Canceled);
}

#[tokio::test(start_paused = true)]
async fn already_cancelled_task_starts_no_agent() {
    let (board, model) = (board(), Arc::new(Mind::steps([done("done")])));
    board.cancel(ID, TaskActor::Host).unwrap();
    let ran = delegated(&board, agent("worker", model.clone())).await;
    assert_eq!(ran.entries(), json!([{"agent": "worker", "error": "task canceled"}]));
    assert!(model.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn reopened_task_is_worked_on() {
    let board = board();
    board.cancel(ID, TaskActor::Host).unwrap();
    let reopen = TaskUpdate { status: Some(TaskStatus::Pending), ..TaskUpdate::default() };
    board.update(ID, reopen, TaskActor::Host).unwrap();
    delegated(&board, with_steps("worker", [done("done")])).await;
    assert_eq!(status(&board), TaskStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn dropped_run_leaves_no_task_in_progress() {
    let board = board();
    let agent_group = Arc::new(agent_group([waits("worker")]).with_board(board.clone()));
    let steps: Vec<Reply> = vec![orders([on_board("worker")])];
    let (lead, chat) = (lead_of(&agent_group, steps), Chat::new());
    let cx = RunCx::new("lead");
    let run = lead.run(&cx, &chat, vec![Message::user("go")]);
    assert!(tokio::time::timeout(Duration::from_secs(9), run).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(status(&board), TaskStatus::Failed);
    assert!(agent_group.working().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelled_lead_fails_the_task_of_its_sub_run() {
    let board = board();
    let agent_group = Arc::new(agent_group([waits("worker")]).with_board(board.clone()));
    let lead = lead_of(&agent_group, [orders([on_board("worker")])]);
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(agent_group.cancel("lead"));
    };
    let (ran, ()) = tokio::join!(run(&lead, "go"), cancel);
    assert_eq!(ran.told(), "failed: the run was cancelled");
    assert_eq!(status(&board), TaskStatus::Failed, "nobody said that it need not be done");
}
