//! The end of a run that delegates: its sub-runs have ended by then, have reported their end and are charged.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use shelly_host::{
    agent::{Agent, AgentGroup, InteractionMode, RunError},
    capability::{Budget, BudgetAccount},
    chat::{Chat, Message, Usage},
    event::{Event, EventSink, RunCx},
    limits,
    state::{NewTask, TaskActor, TaskBoard, TaskFilter, TaskStatus},
};
use tokio::time::Instant;

use super::{agent, agent_group, delegate, done, lead_of, order, orders, register, with, with_steps};
use crate::script::{Mind, Ran, Reply, act, hangs, run, text, tool};

/// An agent whose every reply uses 15 tokens and whose tool never comes back.
fn waits(name: &str) -> Agent {
    with_steps(name, [act("wait", json!({}))]).with_tool(hangs("wait", Duration::from_secs(50_000)))
}

fn asks(name: &str) -> Agent {
    with_steps(name, [act("request_input", json!({"question": "which one?"})), done("done")])
}

/// `lead` with `middle` below it and `deep` below that.
fn chain(deep: Agent, steps: impl IntoIterator<Item = Reply>) -> (Arc<AgentGroup>, Agent) {
    let mut middle = with_steps("middle", [delegate(&[("deep", "dig"), ("deep", "dig")]), done("done")]);
    middle.options.max_delegation_depth = 2;
    middle.options.interaction = InteractionMode::Interactive;
    let agent_group = Arc::new(agent_group([middle]));
    register(&agent_group.registry, deep);
    let lead = lead_of(&agent_group, steps);
    (agent_group, lead)
}

/// Returns the agents whose runs ended, in this order, and their errors.
fn ends(events: &[Event]) -> Vec<(&str, Option<&str>)> {
    let mut ends = Vec::new();
    for event in events {
        if let Event::RunFinished { agent, error, .. } = event {
            ends.push((&**agent, error.as_deref()));
        }
    }
    ends
}

/// Of all that were below the lead, as its last event has it.
fn of_children(ran: &Ran) -> u64 {
    match ran.events.last() {
        Some(Event::RunFinished { of_children, .. }) => of_children.total(),
        other => panic!("the lead ends last: {other:?}"),
    }
}

const CANCELLED: Option<&str> = Some("the run was cancelled");

#[tokio::test(start_paused = true)]
async fn sub_runs_end_before_their_parent_and_are_charged() {
    let time = Budget { time: Some(Duration::from_secs(9)), ..Budget::default() };
    for (budget, cancels, how) in [
        (Budget::default(), true, "failed: the run was cancelled"),
        (time, false, "failed: the time budget of 9s is used up"),
    ] {
        let (agent_group, lead) = chain(waits("deep"), [delegate(&[("middle", "go")])]);
        let lead = lead.with_budget(budget);
        let cancel = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            assert!(!cancels || agent_group.cancel("lead"));
        };
        let (ran, ()) = tokio::join!(run(&lead, "go"), cancel);
        assert_eq!(ran.told(), how);
        let told = ends(&ran.events);
        let mut names: Vec<_> = told.iter().map(|(name, _)| *name).collect();
        names[..3].sort_unstable();
        assert_eq!(names, ["deep-dig-1", "deep-dig-2", "middle-task-1", "lead"], "{told:?}");
        assert_eq!(of_children(&ran), 3 * 15);
        assert!(agent_group.working().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn asking_sub_run_is_stopped_and_charged_at_its_parents_end() {
    let (agent_group, lead) = chain(asks("deep"), [delegate(&[("middle", "go")]), text("done")]);
    let ran = run(&lead, "go").await;
    assert_eq!(ran.told(), "done");
    let told = ends(&ran.events);
    assert_eq!(told[..2].iter().map(|(_, error)| *error).collect::<Vec<_>>(), [CANCELLED; 2]);
    assert_eq!(told[2..], [("middle-task-1", None), ("lead", None)]);
    assert_eq!(of_children(&ran), (2 + 2) * 15);
    let account = ran.end.unwrap().account;
    assert_eq!((account.own.usage.total(), account.of_children.usage.total()), (30, 60));
    assert_eq!(account.of_children.tool_calls, 1 + 2, "delegate and two questions; a report is free");
    assert!(agent_group.working().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cancelled_sub_run_cancels_its_descendants() {
    let (agent_group, lead) = chain(waits("deep"), [delegate(&[("middle", "go"), ("deep", "alone")]), text("done")]);
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(agent_group.working().len(), 5);
        assert!(agent_group.cancel("middle-task-1"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        let left: Vec<_> = agent_group.working().iter().map(ToString::to_string).collect();
        assert_eq!(left, ["deep-alone-1", "lead"]);
        assert!(agent_group.cancel("deep-alone-1"));
    };
    let (ran, ()) = tokio::join!(run(&lead, "go"), cancel);
    let canceled = |agent: &str| json!({"agent": agent, "error": "task canceled"});
    assert_eq!(ran.entries(), json!([canceled("middle"), canceled("deep")]));
    assert_eq!(ran.told(), "done");
}

#[tokio::test(start_paused = true)]
async fn dropped_run_drops_its_sub_runs_and_is_charged() {
    let slow = Mind::steps([done("late")]).slow(Duration::from_secs(50_000));
    let (agent_group, lead) = chain(agent("deep", Arc::new(slow)), [delegate(&[("middle", "go")])]);
    let budget_account = BudgetAccount::new(&Budget::default(), Instant::now());
    let (chat, cx) = (Chat::new(), RunCx::new("lead"));
    let run = lead.run_on(&cx, &chat, vec![Message::user("go")], &budget_account);
    assert!(tokio::time::timeout(Duration::from_secs(9), run).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(agent_group.working().is_empty());
    // The replies that `deep` was in the middle of had told of their tokens.
    let spent = budget_account.spent();
    assert_eq!((spent.own.usage.total(), spent.of_children.usage.total()), (15, 15 + 2 * 15));
}

#[tokio::test(start_paused = true)]
async fn reply_cut_by_cancellation_is_charged() {
    let agent_group = Arc::new(agent_group([]));
    let mind = Mind::steps([text("late")]).slow(Duration::from_secs(50));
    let ada = agent("ada", Arc::new(mind)).with_agent_group(Arc::clone(&agent_group), 0);
    let budget_account = BudgetAccount::new(&Budget::default(), Instant::now());
    let (chat, cx) = (Chat::new(), RunCx::new("ada"));
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        agent_group.cancel("ada")
    };
    let (end, _) = tokio::join!(ada.run_on(&cx, &chat, vec![Message::user("go")], &budget_account), cancel);
    assert!(matches!(end, Err(RunError::Cancelled)));
    let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
    assert_eq!(budget_account.spent().own.usage, usage);
}

#[tokio::test(start_paused = true)]
async fn delegation_and_question_time_are_bounded() {
    let took_too_long = format!("the call took longer than {} seconds", limits::DELEGATION_TIME.as_secs());
    let forever = limits::DELEGATION_TIME + Duration::from_secs(9);
    let worker = with_steps("worker", [act("wait", json!({}))]).with_tool(hangs("wait", forever));
    let agent_group = Arc::new(agent_group([worker]));
    let ran = run(&lead_of(&agent_group, [delegate(&[("worker", "go")]), text("done")]), "go").await;
    assert_eq!(ran.results(), [took_too_long.as_str()]);
    assert_eq!(ends(&ran.events), [("worker-task-1", CANCELLED), ("lead", None)]);

    register(&agent_group.registry, asks("worker"));
    let mut lead = lead_of(&agent_group, [delegate(&[("worker", "go")]), act("wait", json!({})), text("done")]);
    lead.options.interaction = InteractionMode::Interactive;
    let ran = run(&lead.with_tool(hangs("wait", forever)), "go").await;
    assert!(ran.talk().contains(&format!("tool: #call_1 error: {took_too_long}")), "{}", ran.talk());
}

#[tokio::test(start_paused = true)]
async fn ended_agents_are_freed() {
    let model = Arc::new(Mind::steps([act("request_input", json!({"question": "?"})), done("done")]));
    let weak = Arc::downgrade(&model);
    let (agent_group, lead) = chain(agent("deep", model), [delegate(&[("middle", "go")]), text("done")]);
    let weak_agent_group = Arc::downgrade(&agent_group);
    run(&lead, "go").await.end.unwrap();
    drop((agent_group, lead));
    assert!(weak_agent_group.upgrade().is_none(), "somebody still holds the group");
    assert!(weak.upgrade().is_none(), "somebody still holds the model");
}

#[tokio::test(start_paused = true)]
async fn stalled_event_reader_delays_only_the_end_of_sub_runs() {
    let (agent_group, lead) = chain(waits("deep"), [delegate(&[("middle", "go")])]);
    let (events, stream) = EventSink::channel();
    let cx = RunCx::new("lead").with_events(events.clone());
    let chat = Chat::new();
    let run = async {
        let run = lead.run(&cx, &chat, vec![Message::user("go")]);
        let _ = tokio::time::timeout(Duration::from_secs(9), run).await;
    };
    // Fills the queue while they wait, so that nobody can tell of its end.
    let fill = async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let full = async {
            loop {
                events.emit(Event::Warning { message: "full".into() }).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), full).await;
        assert!(agent_group.cancel("lead"));
        tokio::time::sleep(limits::CANCEL_GRACE + Duration::from_millis(100)).await;
        assert_eq!(agent_group.working().iter().map(|name| &**name).collect::<Vec<_>>(), ["lead"]);
    };
    tokio::join!(run, fill);
    assert!(agent_group.working().is_empty(), "{:?}", agent_group.working());
    drop(stream);
}

/// Cancels three levels of agents on several threads at any point, and looks at what is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_cancellation_keeps_sums_exact_and_leaves_nothing() {
    let mut cancelled = 0;
    for round in 0..150_usize {
        let board = TaskBoard::new();
        let deep = with_steps("deep", [act("step", json!({})), act("step", json!({})), done("done")]).with_tool(tool(
            "step",
            async |_| {
                tokio::task::yield_now().await;
                Ok("stepped".into())
            },
        ));
        let tasks = ["deep", "deep", "deep"].map(|name| {
            let task = board.create(NewTask { title: "dig".into(), ..NewTask::default() }, TaskActor::Host).unwrap();
            with(order(name, "dig"), "task_id", task.id)
        });
        let mut middle = with_steps("middle", [orders(tasks), done("done")]);
        middle.options.max_delegation_depth = 2;
        let agent_group = Arc::new(agent_group([middle, deep]).with_board(board.clone()));
        let steps = [delegate(&[("middle", "go"), ("deep", "alone")]), text("done")];
        let lead = lead_of(&agent_group, steps).with_budget(Budget { tokens: Some(1_000_000), ..Budget::default() });
        let cancel = async {
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            agent_group.cancel("lead")
        };
        let (ran, _) = tokio::join!(run(&lead, "go"), cancel);
        cancelled += usize::from(ran.end.is_err());
        assert!(agent_group.working().is_empty(), "{round}: {:?}", agent_group.working());
        let in_progress = TaskFilter { status: Some(TaskStatus::InProgress), ..TaskFilter::default() };
        assert_eq!(board.list(&in_progress), [], "{round}");
        let begun = ran.events.iter().filter(|event| matches!(event, Event::RunStarted { .. })).count();
        assert_eq!(begun, ends(&ran.events).len(), "{round}: who begins ends");
        let each = ran.events.iter().filter_map(|event| match event {
            Event::RunFinished { usage, .. } => Some(usage.total()),
            _ => None,
        });
        let own: u64 = each.sum();
        match ran.events.last() {
            Some(Event::RunFinished { usage, of_children, .. }) => {
                assert_eq!(own, usage.total() + of_children.total(), "{round}");
            }
            other => panic!("{round}: {other:?}"),
        }
    }
    assert!(cancelled > 0, "none was cancelled in time");
}
