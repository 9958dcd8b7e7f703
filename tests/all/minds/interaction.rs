//! Questions of agents that were delegated to.

use std::{sync::Arc, time::Duration};

use insta::assert_snapshot;
use serde_json::{Value, json};
use shelly_host::{
    agent::{
        Agent, AgentGroup, InputGuardrail, InteractionMode, LoggingMiddleware, OutputGuardrail, RecoveryMiddleware,
        TimeoutMiddleware,
    },
    chat::Message,
};

use super::{agent, agent_group, delegate, done, lead, order, orders, with, with_steps};
use crate::script::{Mind, Ran, Reply, act, acts, hangs, run, text, tool};

fn ask(question: &str) -> Reply {
    act("request_input", json!({"question": question}))
}

fn answers(list: &[(&str, &str)]) -> Reply {
    let answer = |(id, answer): &(&str, &str)| json!({"delegation_id": id, "answer": answer});
    act("answer_delegation_questions", json!({"answers": list.iter().map(answer).collect::<Vec<_>>()}))
}

/// Asks these, one after the other, and reports the last that it heard.
fn asker(name: &str, questions: &'static [&'static str]) -> Agent {
    let mind = Mind::new(move |asked| match questions.get(asked.turn) {
        Some(question) => ask(question),
        None => done(&asked.heard),
    });
    agent(name, Arc::new(mind))
}

fn interactive(agent_group: AgentGroup, steps: impl IntoIterator<Item = Reply>) -> Agent {
    let mut lead = lead(agent_group, steps);
    lead.options.interaction = InteractionMode::Interactive;
    lead
}

/// The JSON of the tool result at this place.
fn result(ran: &Ran, at: usize) -> Value {
    let text = &ran.results()[at];
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

#[tokio::test(start_paused = true)]
async fn question_without_interaction_is_answered_by_the_context() {
    let lead = lead(agent_group([asker("worker", &["which one?"])]), [delegate(&[("worker", "go")]), text("done")]);
    assert_snapshot!(run(&lead, "go").await.talk(), @r##"
    -- lead
    user: go
    assistant: delegate#call_1({"tasks":[{"agent":"worker","context":"know this","task":"go"}]})
    tool: #call_1 [{"agent":"worker","result":"#call_1 No agent can answer questions now. The context of your task:\n\nknow this\n\nDecide from it as well as you can, and say in your report what you decided.","completion":{"status":"completed"}}]
    assistant: done
    -- worker-task-1
    user: <delegation_context> know this </delegation_context>
    user: go
    assistant: request_input#call_1({"question":"which one?"})
    tool: #call_1 No agent can answer questions now. The context of your task:

    know this

    Decide from it as well as you can, and say in your report what you decided.
    assistant: task_complete#call_2({"status":"completed","summary":"#call_1 No agent can answer questions now. The context of your task:\n\nknow this\n\nDecide from it as well as you can, and say in your report what you decided."})
    tool: #call_2 The completion of your task is recorded.
    "##);
}

#[tokio::test(start_paused = true)]
async fn sub_run_question_is_answered_by_the_lead() {
    let steps = [delegate(&[("worker", "go")]), answers(&[("d-1", "the left one")]), text("done")];
    let ran = run(&interactive(agent_group([asker("worker", &["which one?"])]), steps), "go").await;
    assert_snapshot!(ran.talk(), @r##"
    -- lead
    user: go
    assistant: delegate#call_1({"tasks":[{"agent":"worker","context":"know this","task":"go"}]})
    tool: #call_1 [{"agent":"worker","delegation_id":"d-1","pending_question":{"id":"q-1","agent":"worker-task-1","content":"which one?"}}]
    assistant: answer_delegation_questions#call_2({"answers":[{"answer":"the left one","delegation_id":"d-1"}]})
    tool: #call_2 [{"agent":"worker","result":"#call_1 the left one","completion":{"status":"completed"},"delegation_id":"d-1"}]
    assistant: done
    -- worker-task-1
    user: <delegation_context> know this </delegation_context>
    user: go
    assistant: request_input#call_1({"question":"which one?"})
    tool: #call_1 the left one
    assistant: task_complete#call_2({"status":"completed","summary":"#call_1 the left one"})
    tool: #call_2 The completion of your task is recorded.
    "##);
}

#[tokio::test(start_paused = true)]
async fn interaction_mode_follows_the_lead_and_then_the_task() {
    use InteractionMode::{Auto, Blocking, Interactive};
    for (interaction, mode, asks) in [
        (Blocking, None, false),
        (Blocking, Some("interactive"), false),
        (Auto, None, false),
        (Auto, Some("interactive"), true),
        (Auto, Some("blocking"), false),
        (Interactive, None, true),
        (Interactive, Some("interactive"), true),
        (Interactive, Some("blocking"), false),
    ] {
        let task = order("worker", "go");
        let task = mode.map_or(task.clone(), |mode| with(task, "mode", mode));
        let mut lead = lead(agent_group([asker("worker", &["which one?"])]), [orders([task]), text("done")]);
        lead.options.interaction = interaction;
        let ran = run(&lead, "go").await;
        assert_eq!(ran.entries()[0].get("pending_question").is_some(), asks, "{interaction:?} {mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_call_may_differ_in_interaction_mode() {
    let agent_group = agent_group([asker("asks", &["which one?"]), asker("decides", &["which one?"])]);
    let tasks = [order("asks", "go"), with(order("decides", "go"), "mode", "blocking")];
    let ran = run(&interactive(agent_group, [orders(tasks), text("done")]), "go").await;
    assert!(ran.entries()[0].get("pending_question").is_some());
    assert!(ran.entries()[1]["result"].as_str().unwrap().contains("No agent can answer questions now."));
}

#[tokio::test(start_paused = true)]
async fn parallel_questions_are_answered_in_any_order() {
    let agent_group =
        agent_group([asker("one", &["1a", "1b"]), asker("two", &["2a"]), with_steps("three", [done("three")])]);
    let steps = [
        delegate(&[("one", "x"), ("two", "x"), ("three", "x")]),
        answers(&[("d-2", "to 2a"), ("d-1", "to 1a")]),
        answers(&[("d-1", "to 1b")]),
        text("done"),
    ];
    let ran = run(&interactive(agent_group, steps), "go").await;
    let question = |id: u32, question: &str, agent: &str, content: &str| {
        json!({
            "agent": agent,
            "delegation_id": format!("d-{id}"),
            "pending_question": {"id": question, "agent": format!("{agent}-task-1"), "content": content},
        })
    };
    let three = json!({
        "agent": "three", "result": "three", "completion": {"status": "completed"}, "delegation_id": "d-3",
    });
    assert_eq!(ran.entries(), json!([question(1, "q-1", "one", "1a"), question(2, "q-2", "two", "2a"), three]));
    let second = result(&ran, 1);
    assert!(second[0]["result"].as_str().unwrap().ends_with("to 2a"), "in the order of the answers: {second}");
    assert_eq!(second[1], question(1, "q-1.2", "one", "1b"), "the same delegation, another question");
    assert!(result(&ran, 2)[0]["result"].as_str().unwrap().ends_with("to 1b"));
}

#[tokio::test(start_paused = true)]
async fn questions_of_one_reply_are_asked_in_turn() {
    let both = acts(&[("request_input", json!({"question": "a?"})), ("request_input", json!({"question": "b?"}))]);
    let worker = with_steps("worker", [both, done("done")]);
    let steps = [delegate(&[("worker", "x")]), answers(&[("d-1", "A")]), answers(&[("d-1", "B")]), text("done")];
    let ran = run(&interactive(agent_group([worker]), steps), "go").await;
    assert_snapshot!(ran.talk(), @r#"
    -- lead
    user: go
    assistant: delegate#call_1({"tasks":[{"agent":"worker","context":"know this","task":"x"}]})
    tool: #call_1 [{"agent":"worker","delegation_id":"d-1","pending_question":{"id":"q-1","agent":"worker-task-1","content":"a?"}}]
    assistant: answer_delegation_questions#call_2({"answers":[{"answer":"A","delegation_id":"d-1"}]})
    tool: #call_2 [{"agent":"worker","delegation_id":"d-1","pending_question":{"id":"q-1.2","agent":"worker-task-1","content":"b?"}}]
    assistant: answer_delegation_questions#call_3({"answers":[{"answer":"B","delegation_id":"d-1"}]})
    tool: #call_3 [{"agent":"worker","result":"done","completion":{"status":"completed"},"delegation_id":"d-1"}]
    assistant: done
    -- worker-task-1
    user: <delegation_context> know this </delegation_context>
    user: x
    assistant: request_input#call_1({"question":"a?"}) | request_input#call_2({"question":"b?"})
    tool: #call_1 A
    tool: #call_2 B
    assistant: task_complete#call_3({"status":"completed","summary":"done"})
    tool: #call_3 The completion of your task is recorded.
    "#);
}

#[tokio::test(start_paused = true)]
async fn answers_with_an_unknown_or_repeated_id_are_refused_whole() {
    let steps =
        |wrong: Reply| [delegate(&[("one", "x"), ("two", "x")]), wrong, answers(&[("d-2", "right")]), text("done")];
    let members = || agent_group([asker("one", &["1?"]), asker("two", &["2?"])]);
    for wrong in [answers(&[("d-2", "wrong"), ("d-9", "x")]), answers(&[("d-2", "wrong"), ("d-2", "x")])] {
        let ran = run(&interactive(members(), steps(wrong)), "go").await;
        let told = &ran.results()[1];
        assert!(told.ends_with("or is listed twice; delegations with an open question: d-1, d-2"), "{told}");
        assert!(result(&ran, 2)[0]["result"].as_str().unwrap().ends_with("right"), "it had still no answer");
    }
    let ran = run(&interactive(agent_group([]), [answers(&[("d-1", "x")]), answers(&[]), text("done")]), "go").await;
    assert!(ran.results()[0].ends_with("an open question: none"), "{}", ran.results()[0]);
    assert_eq!(ran.results()[1], "[]");
}

#[tokio::test(start_paused = true)]
async fn empty_question_is_refused_and_blocking_has_no_answer_tool() {
    let ran =
        run(&interactive(agent_group([asker("worker", &[" "])]), [delegate(&[("worker", "x")]), text("done")]), "go")
            .await;
    assert!(ran.entries()[0]["result"].as_str().unwrap().ends_with("error: `question` is empty"));
    let ran = run(&lead(agent_group([]), [answers(&[]), text("done")]), "go").await;
    assert!(ran.results()[0].starts_with("tool not found: answer_delegation_questions;"));
}

fn with_timeout(mut lead: Agent, seconds: u64) -> Agent {
    lead.options.question_timeout = Some(Duration::from_secs(seconds));
    lead
}

#[tokio::test(start_paused = true)]
async fn question_timeout_runs_only_while_a_question_waits() {
    // Works much longer than a question may wait, before and after it.
    let steps = [act("work", json!({})), ask("which one?"), act("work", json!({})), done("took its time")];
    let worker = with_steps("worker", steps).with_tool(hangs("work", Duration::from_secs(50)));
    let steps = [delegate(&[("worker", "x")]), answers(&[("d-1", "left")]), text("done")];
    let ran = run(&with_timeout(interactive(agent_group([worker]), steps), 5), "go").await;
    assert_eq!(result(&ran, 1)[0]["result"], "took its time", "{}", ran.talk());
    assert!(ran.talk().contains("tool: #call_2 left"));
}

#[tokio::test(start_paused = true)]
async fn timed_out_question_lets_its_agent_continue() {
    let steps = [delegate(&[("worker", "x")]), act("think", json!({})), answers(&[("d-1", "too late")]), text("done")];
    let lead = interactive(agent_group([asker("worker", &["which one?"])]), steps);
    let lead = with_timeout(lead.with_tool(hangs("think", Duration::from_secs(20))), 5);
    let ran = run(&lead, "go").await;
    let told = result(&ran, 2)[0]["result"].as_str().unwrap().to_owned();
    assert!(told.contains("error: no answer within 5 seconds; decide as well as you can"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn timed_out_question_does_not_block_later_ones() {
    // It asks three times while nobody answers; only the last still waits when the lead comes back.
    let lead = interactive(
        agent_group([asker("worker", &["first?", "second?", "third?"])]),
        [
            delegate(&[("worker", "x")]),
            act("think", json!({})),
            answers(&[("d-1", "to the first")]),
            answers(&[("d-1", "to the third")]),
            text("done"),
        ],
    );
    let lead = with_timeout(lead.with_tool(hangs("think", Duration::from_secs(12))), 5);
    let ran = run(&lead, "go").await;
    assert_eq!(result(&ran, 2)[0]["pending_question"]["content"], "third?", "{}", ran.talk());
    assert!(result(&ran, 3)[0]["result"].as_str().unwrap().ends_with("to the third"), "{}", ran.talk());
}

#[tokio::test(start_paused = true)]
async fn fail_fast_holds_after_a_question() {
    let bad = agent(
        "bad",
        Arc::new(Mind::new(|asked| match asked.turn {
            0 => ask("may I fail?"),
            _ => super::failed("I did"),
        })),
    );
    let tasks = json!({"tasks": [order("bad", "x"), order("other", "x")], "fail_fast": true});
    let steps = [
        act("delegate", tasks),
        answers(&[("d-1", "yes")]),
        act("pause", json!({})),
        answers(&[("d-2", "go on")]),
        text("done"),
    ];
    let lead = interactive(agent_group([bad, asker("other", &["and I?"])]), steps);
    let lead = lead.with_tool(tool("pause", async |_| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(String::new())
    }));
    let ran = run(&lead, "go").await;
    assert_eq!(result(&ran, 1)[0]["result"], "I did");
    assert_eq!(result(&ran, 3)[0]["error"], "stopped: another task of the same call failed", "{}", ran.talk());
}

#[tokio::test(start_paused = true)]
async fn delegation_ids_follow_the_task_order() {
    let slow = [act("wait", json!({})), ask("slow?"), done("slow")];
    let slow = || with_steps("slow", slow.clone()).with_tool(hangs("wait", Duration::from_secs(5)));
    let members = || agent_group([slow(), asker("quick", &["quick?"]), with_steps("silent", [done("silent")])]);
    let ids = |entries: &Value| -> Vec<String> {
        let entries = entries.as_array().unwrap().iter();
        entries.map(|entry| format!("{} {}", entry["delegation_id"], entry["agent"]).replace('"', "")).collect()
    };
    let steps = [
        delegate(&[("slow", "x"), ("silent", "x"), ("quick", "x")]),
        delegate(&[("quick", "y"), ("nobody", "y")]),
        answers(&[("d-4", "four"), ("d-1", "one"), ("d-3", "three")]),
        text("done"),
    ];
    let ran = run(&interactive(members(), steps), "go").await;
    assert_eq!(ids(&result(&ran, 0)), ["d-1 slow", "d-2 silent", "d-3 quick"], "{}", ran.talk());
    assert_eq!(ids(&result(&ran, 1)), ["d-4 quick", "d-5 nobody"]);
    assert_eq!(ids(&result(&ran, 2)), ["d-4 quick", "d-1 slow", "d-3 quick"], "in the order of the answers");
    let told = result(&ran, 2).to_string();
    assert!(told.contains("four") && told.contains("three") && !told.contains("one"), "each its own: {told}");
    // Where nobody can be answered an id is of no use.
    let ran = run(&lead(members(), [delegate(&[("silent", "x")]), text("done")]), "go").await;
    assert_eq!(ids(&ran.entries()), ["null silent"]);
}

/// Only what may still change what an agent says holds its questions back.
#[tokio::test(start_paused = true)]
async fn only_answer_changing_middleware_blocks_questions() {
    let limits = || TimeoutMiddleware(Duration::from_secs(60));
    let looks = || InputGuardrail::new("looks", |_: &[Message]| Ok(()));
    let blots = || OutputGuardrail::new("blots", |_: &Message| Ok(()));
    for (worker, asks) in [
        (asker("worker", &["which one?"]).with_middleware(LoggingMiddleware).with_middleware(RecoveryMiddleware), true),
        (asker("worker", &["which one?"]).with_middleware(limits()).with_middleware(looks()), true),
        (asker("worker", &["which one?"]).with_middleware(limits()).with_middleware(blots()), false),
    ] {
        let steps = [delegate(&[("worker", "go")]), answers(&[("d-1", "the left one")]), text("done")];
        let ran = run(&interactive(agent_group([worker]), steps), "go").await;
        assert_eq!(ran.results()[0].contains("pending_question"), asks, "{}", ran.talk());
        assert_eq!(ran.talk().contains("No agent can answer questions now"), !asks, "{}", ran.talk());
    }
}
