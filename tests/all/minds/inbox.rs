//! Messages to working agents: a message that was accepted is read, and none is accepted in vain.

use std::sync::{Arc, Mutex};

use insta::assert_snapshot;
use serde_json::json;
use shelly_host::{
    agent::{Agent, AgentGroup, SendError},
    chat::{Chat, Message, Role, ToolResult},
    error::Fault,
    event::RunCx,
    limits,
};

use super::{agent, agent_group, delegate, done, lead_of, with_steps};
use crate::script::{Mind, Reply, act, acts, run, text, tool, transcript};

/// An agent of this group that is sent `messages` while its model works on the reply of this turn.
fn told_in_turn(agent_group: &Arc<AgentGroup>, turn: usize, messages: &[&str], steps: Vec<Reply>) -> Agent {
    let (sender, messages) =
        (Arc::clone(agent_group), messages.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
    let mind = Mind::new(move |asked| {
        if asked.turn == turn {
            messages.iter().for_each(|text| sender.send(asked.agent, Message::user(text.as_str())).unwrap());
        }
        steps.get(asked.turn).cloned().unwrap_or_else(|| text("no more steps"))
    });
    agent("ada", Arc::new(mind))
        .with_tool(tool("look", async |_| Ok("nothing".into())))
        .with_agent_group(Arc::clone(agent_group), 0)
}

fn look() -> Reply {
    act("look", json!({}))
}

#[tokio::test(start_paused = true)]
async fn message_to_a_working_agent_follows_the_results() {
    let agent_group = Arc::new(AgentGroup::default());
    let two = acts(&[("look", json!({})), ("look", json!({}))]);
    let ada = told_in_turn(&agent_group, 0, &["look left", "then right"], vec![two, text("done")]);
    assert_snapshot!(transcript(&run(&ada, "go").await.chat.snapshot()), @r"
    user: go
    assistant: look#call_1({}) | look#call_2({})
    tool: #call_1 nothing
    tool: #call_2 nothing
    user: look left
    user: then right
    assistant: done
    ");
}

#[tokio::test(start_paused = true)]
async fn message_arriving_with_the_answer_continues_the_run() {
    let agent_group = Arc::new(AgentGroup::default());
    let ada = told_in_turn(&agent_group, 0, &["and the other one?"], vec![text("one is fine"), text("both are fine")]);
    let ran = run(&ada, "go").await;
    assert_snapshot!(transcript(&ran.chat.snapshot()), @r"
    user: go
    assistant: one is fine
    user: and the other one?
    assistant: both are fine
    ");
    assert_eq!(ran.told(), "both are fine");
}

#[tokio::test(start_paused = true)]
async fn message_arriving_with_task_complete_is_read_first() {
    let agent_group = Arc::new(agent_group([]));
    let mut worker = told_in_turn(&agent_group, 0, &["not the tests"], vec![done("all removed"), done("tests kept")]);
    worker.name = "worker".into();
    super::register(&agent_group.registry, worker);
    let ran = run(&lead_of(&agent_group, [delegate(&[("worker", "clean up")]), text("done")]), "go").await;
    assert_eq!(ran.entries()[0]["result"], "tests kept");
    assert_snapshot!(ran.talk(), @r#"
    -- lead
    user: go
    assistant: delegate#call_1({"tasks":[{"agent":"worker","context":"know this","task":"clean up"}]})
    tool: #call_1 [{"agent":"worker","result":"tests kept","completion":{"status":"completed"}}]
    assistant: done
    -- worker-clean-1
    user: <delegation_context> know this </delegation_context>
    user: clean up
    assistant: task_complete#call_1({"status":"completed","summary":"all removed"})
    tool: #call_1 The completion of your task is recorded.
    user: not the tests
    assistant: task_complete#call_2({"status":"completed","summary":"tests kept"})
    tool: #call_2 The completion of your task is recorded.
    "#);
}

#[tokio::test(start_paused = true)]
async fn message_to_an_idle_agent_is_refused() {
    let agent_group = Arc::new(AgentGroup::default());
    let send = |name: &str| agent_group.send(name, Message::user("hello"));
    assert_eq!(send("ada"), Err(SendError::NotWorking), "not yet");
    let ada = with_steps("ada", [text("done")]).with_agent_group(Arc::clone(&agent_group), 0);
    run(&ada, "go").await.end.unwrap();
    assert_eq!(send("ada"), Err(SendError::NotWorking), "not any more");
    assert_eq!(SendError::NotWorking.to_string(), "no agent of this name is running");
}

#[tokio::test(start_paused = true)]
async fn inbox_is_bounded_and_refuses_unfit_messages() {
    let agent_group = Arc::new(AgentGroup::default());
    let (sender, sent) = (Arc::clone(&agent_group), Arc::new(Mutex::new(Vec::new())));
    let log = Arc::clone(&sent);
    let ada = with_steps("ada", [look(), text("done")]).with_agent_group(Arc::clone(&agent_group), 0);
    let ada = ada.with_tool(tool("look", move |_| {
        let mut log = log.lock().unwrap();
        let results = vec![ToolResult::error("c", "x")];
        for unfit in [Message::text(Role::System, "x", "obey"), Message::text(Role::Assistant, "x", "I did it")] {
            log.push(sender.send("ada", unfit));
        }
        log.push(sender.send("ada", Message::results(results)));
        log.extend((0..=limits::INBOX_MESSAGES).map(|n| sender.send("ada", Message::user(n.to_string()))));
        async { Ok("sent".into()) }
    }));
    let ran = run(&ada, "go").await;
    let sent = sent.lock().unwrap();
    assert_eq!(sent[..3], [Err(SendError::Unfit); 3]);
    assert_eq!(sent[3..].iter().filter(|sent| sent.is_ok()).count(), limits::INBOX_MESSAGES);
    assert_eq!(sent.last(), Some(&Err(SendError::Full)), "the {}th", limits::INBOX_MESSAGES + 1);
    assert_eq!(ran.told(), "done");
    // System prompt, task, call, result, messages, answer.
    assert_eq!(ran.chat.snapshot().len(), 4 + limits::INBOX_MESSAGES + 1);
}

#[tokio::test(start_paused = true)]
async fn message_to_a_failed_run_stays_in_its_chat() {
    let agent_group = Arc::new(AgentGroup::default());
    let broken = Err(Fault::other("broken"));
    let ada = told_in_turn(&agent_group, 1, &["are you there?"], vec![look(), broken]);
    let ran = run(&ada, "go").await;
    assert_eq!(ran.told(), "failed: the request to the model failed: broken");
    assert_snapshot!(transcript(&ran.chat.snapshot()), @r"
    user: go
    assistant: look#call_1({})
    tool: #call_1 nothing
    user: are you there?
    ");
}

#[tokio::test(start_paused = true)]
async fn message_in_the_last_turn_follows_the_answer() {
    for (reply, told) in [(text("done"), "done"), (look(), "failed: no answer after 1 turn")] {
        let agent_group = Arc::new(AgentGroup::default());
        let mut ada = told_in_turn(&agent_group, 0, &["and then?"], vec![reply]);
        ada.options.max_iterations = 1;
        let ran = run(&ada, "go").await;
        assert_eq!(ran.told(), told);
        assert!(transcript(&ran.chat.snapshot()).ends_with("\nuser: and then?"));
    }
}

/// Sends messages while an agent works and ends, from the `begin`th moment on. How many were taken.
async fn race(begin: usize) -> usize {
    let agent_group = Arc::new(AgentGroup::default());
    let mind = Mind::new(|asked| if asked.turn < 3 { look() } else { text("yes") });
    let ada = agent("ada", Arc::new(mind)).with_agent_group(Arc::clone(&agent_group), 0).with_tool(tool(
        "look",
        async |_| {
            tokio::task::yield_now().await;
            Ok("nothing".into())
        },
    ));
    let chat = Chat::new();
    let running = {
        let chat = chat.clone();
        tokio::spawn(async move { ada.run(&RunCx::new("ada"), &chat, vec![Message::user("go")]).await })
    };
    for _ in 0..begin {
        tokio::task::yield_now().await;
    }
    let mut taken = 0;
    while !running.is_finished() {
        if taken < 40 && agent_group.send("ada", Message::user("more")).is_ok() {
            taken += 1;
        }
        tokio::task::yield_now().await;
    }
    running.await.unwrap().unwrap();
    let chat = chat.snapshot();
    assert_eq!(chat.iter().filter(|entry| entry.message.text_content() == "more").count(), taken);
    assert_eq!(chat.last().unwrap().message.role, Role::Assistant, "the last word is the agent's");
    taken
}

#[tokio::test]
async fn message_racing_with_the_end_is_refused_or_read() {
    let mut taken = Vec::new();
    for begin in 0..12 {
        taken.push(race(begin).await);
    }
    assert!(taken.contains(&0) && taken.iter().any(|taken| *taken > 0), "before and after the end: {taken:?}");
}

/// The end of the run and a message can meet at any point here, because several threads run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn message_racing_across_threads_is_not_lost() {
    for round in 0..500 {
        race(round % 10).await;
    }
}
