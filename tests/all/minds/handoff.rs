//! Handoffs of tasks: which agent goes on, with what, and how often.

use insta::assert_snapshot;
use serde_json::{Value, json};
use shelly_host::{
    agent::{Agent, InteractionMode},
    event::Event,
    limits,
    state::{NewTask, TaskActor, TaskBoard, TaskStatus},
};

use super::{agent, agent_group, delegate, done, failed, lead, order, orders, with, with_steps};
use crate::script::{Mind, Reply, act, run, text};

fn hand_to(agent: &str) -> Reply {
    act("handoff", json!({"target_agent": agent, "reason": "it knows more", "context": "half is done"}))
}

/// An agent that may hand over.
fn may(name: &str, steps: impl IntoIterator<Item = Reply>) -> Agent {
    let mut agent = with_steps(name, steps);
    agent.options.max_handoffs = 1;
    agent
}

#[tokio::test(start_paused = true)]
async fn handed_off_task_is_reported_by_the_successor() {
    let agent_group =
        agent_group([may("coder", [hand_to("expert")]), with_steps("expert", [done("done by the expert")])]);
    let ran = run(&lead(agent_group, [delegate(&[("coder", "parse")]), text("done")]), "go").await;
    assert_snapshot!(ran.talk(), @r#"
    -- lead
    user: go
    assistant: delegate#call_1({"tasks":[{"agent":"coder","context":"know this","task":"parse"}]})
    tool: #call_1 [{"agent":"coder","result":"done by the expert","completion":{"status":"completed"},"handed_over_to":"expert"}]
    assistant: done
    -- coder-parse-1
    user: <delegation_context> know this </delegation_context>
    user: parse
    assistant: handoff#call_1({"context":"half is done","reason":"it knows more","target_agent":"expert"})
    tool: #call_1 expert takes over your task.
    -- expert-parse-1
    user: <handoff_context> coder hands this task over to you. Reason: it knows more half is done </handoff_context>
    user: parse
    assistant: task_complete#call_1({"status":"completed","summary":"done by the expert"})
    tool: #call_1 The completion of your task is recorded.
    "#);
}

#[tokio::test(start_paused = true)]
async fn invalid_handoff_is_refused_and_the_run_continues() {
    let with_args = |target: &str, reason: &str, context: &str| json!({"target_agent": target, "reason": reason, "context": context});
    let cases: [(Value, &str); 7] = [
        (with_args("CODER", "x", "y"), "error: you are coder and cannot hand over to yourself; choose another agent"),
        (with_args("nobody", "x", "y"), "error: unknown agent `nobody`; available agents: expert"),
        (with_args("", "x", "y"), "error: `target_agent` is empty"),
        (with_args("expert", " ", "y"), "error: `reason` is empty"),
        (with_args("expert", "x", ""), "error: `context` is empty"),
        (
            json!({"target_agent": "expert", "reason": "x"}),
            "error: the arguments do not match the schema: missing field `context`",
        ),
        (
            json!({"reason": "x", "context": "y"}),
            "error: the arguments do not match the schema: missing field `target_agent`",
        ),
    ];
    for (arguments, told) in cases {
        let mind = Mind::new(move |asked| match asked.turn {
            0 => act("handoff", arguments.clone()),
            _ => done(&asked.heard),
        });
        let mut coder = agent("coder", std::sync::Arc::new(mind));
        coder.options.max_handoffs = 1;
        let agent_group = agent_group([coder, with_steps("expert", [done("by the expert")])]);
        let ran = run(&lead(agent_group, [delegate(&[("coder", "go")]), text("done")]), "go").await;
        let result = ran.entries()[0]["result"].as_str().unwrap().to_owned();
        assert!(result.ends_with(told), "{result}");
        assert_eq!(ran.entries()[0].get("handed_over_to"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn handoffs_of_a_task_are_bounded() {
    // Each hands to the other as long as it may.
    let to = |other: &'static str| {
        Mind::new(move |asked| match asked.turn {
            0 => hand_to(other),
            _ => done(&format!("{} did it: {}", asked.agent, asked.heard.contains("its maximum number of handoffs"))),
        })
    };
    for (most, by) in [(0, "pong-play-2"), (1, "pong-play-1"), (2, "ping-play-2"), (5, "pong-play-3")] {
        let member = |name: &str, other| {
            let mut member = agent(name, std::sync::Arc::new(to(other)));
            member.options.max_handoffs = 1;
            member
        };
        let mut lead = lead(
            agent_group([member("ping", "pong"), member("pong", "ping")]),
            [delegate(&[("ping", "play")]), text("done")],
        );
        lead.options.max_handoffs = most;
        let ran = run(&lead, "go").await;
        assert_eq!(ran.entries()[0]["result"], format!("{by} did it: true"), "{most}: {}", ran.talk());
        assert_eq!(ran.entries()[0]["agent"], "ping", "the one that was asked for");
        assert_eq!(ran.entries()[0]["handed_over_to"], by.split('-').next().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn handoff_reason_is_bounded() {
    let args =
        json!({"target_agent": "expert", "reason": "é".repeat(limits::DELEGATION_ANSWER_CHARS + 1), "context": "x"});
    let agent_group = agent_group([may("coder", [act("handoff", args)]), with_steps("expert", [done("done")])]);
    let ran = run(&lead(agent_group, [delegate(&[("coder", "go")]), text("done")]), "go").await;
    let reasons = ran.events.iter().filter_map(|event| match event {
        Event::HandedOver { reason, .. } => Some(reason.ends_with("é… [1 more characters were cut]")),
        _ => None,
    });
    assert_eq!(reasons.collect::<Vec<_>>(), [true]);
}

#[tokio::test(start_paused = true)]
async fn handoff_transfers_the_board_task() {
    for (last, status) in [(done("done"), TaskStatus::Completed), (failed("no"), TaskStatus::Failed)] {
        let board = TaskBoard::new();
        let task = board.create(NewTask { title: "parse".into(), ..NewTask::default() }, TaskActor::Host).unwrap();
        let seen = board.clone();
        let mind = Mind::new(move |_| {
            assert_eq!(seen.get("task-1").unwrap().assignee.as_deref(), Some("expert-parse-1"));
            last.clone()
        });
        let agent_group = agent_group([may("coder", [hand_to("expert")]), agent("expert", std::sync::Arc::new(mind))]);
        let task_of_board = with(order("coder", "parse"), "task_id", task.id);
        let ran =
            run(&lead(agent_group.with_board(board.clone()), [orders([task_of_board]), text("done")]), "go").await;
        let task = board.get("task-1").unwrap();
        assert_eq!((task.status, task.assignee.as_deref()), (status, Some("expert-parse-1")), "{}", ran.talk());
        assert_eq!(ran.entries()[0].get("warning"), None);
    }
}

#[tokio::test(start_paused = true)]
async fn questions_after_a_handoff_are_answered_like_before() {
    let asks = || {
        Mind::new(|asked| match asked.turn {
            0 => act("request_input", json!({"question": "which one?"})),
            _ => done(&asked.heard),
        })
    };
    let agent_group = || agent_group([may("coder", [hand_to("expert")]), agent("expert", std::sync::Arc::new(asks()))]);
    let ran = run(&lead(agent_group(), [delegate(&[("coder", "go")]), text("done")]), "go").await;
    let result = ran.entries()[0]["result"].as_str().unwrap().to_owned();
    assert!(result.contains("half is done") && !result.contains("know this"), "what it was handed answers: {result}");

    let answer =
        act("answer_delegation_questions", json!({"answers": [{"delegation_id": "d-1", "answer": "the left"}]}));
    let mut lead = lead(agent_group(), [delegate(&[("coder", "go")]), answer, text("done")]);
    lead.options.interaction = InteractionMode::Interactive;
    let ran = run(&lead, "go").await;
    assert_eq!(
        ran.entries(),
        json!([{
            "agent": "coder",
            "delegation_id": "d-1",
            "pending_question": {"id": "q-1", "agent": "expert-task-1", "content": "which one?"},
        }])
    );
    let told: Value = serde_json::from_str(&ran.results()[1]).unwrap();
    assert!(told[0]["result"].as_str().unwrap().ends_with("the left"), "{told}");
    assert_eq!((&told[0]["agent"], &told[0]["handed_over_to"]), (&json!("coder"), &json!("expert")));
}
