//! Sessions with agent tools, also nested ones, that are cut after any record: they resume to the same end, and nothing is
//! done twice.

use std::sync::Arc;

use serde_json::json;
use shelly_host::{
    agent::{
        Agent, AgentGroup, AgentRegistry, AgentTool, AgentToolOptions, ConversationMode, Runner,
        journal::{JournalRecord, JournalState, Recorder},
    },
    chat::{Chat, Message, Role},
    error::Fault,
    event::RunCx,
    team::{Member, SequenceCoordinator, Team},
};

use super::{agent, fresh, kept, results};
use crate::{
    script::{Asked, Mind, Reply, act, acts, text, tool},
    sessions::{
        memory,
        same_end::{Outside, resumes_to_the_same_end},
    },
};

/// An agent that does something outside once for each task, and says how many tasks it has had.
fn worker(name: &'static str, outside: &Outside) -> Agent {
    let outside = Arc::clone(outside);
    let send = tool("send", move |cx| {
        outside.lock().unwrap().push(cx.run.agent.to_string());
        async { Ok("sent".to_owned()) }
    });
    let mind = Mind::new(move |asked| match asked.heard.contains("sent") || asked.heard.contains("interrupted") {
        true => text(&format!("{name} has had {} tasks, in turn {}", tasks(asked), asked.turn)),
        false => act("send", json!({})),
    });
    agent(name, mind).with_tool(send)
}

fn tasks(asked: &Asked<'_>) -> usize {
    asked.request.messages.iter().filter(|entry| entry.message.role == Role::User).count()
}

/// An agent that makes these calls for each task, one list after the other, and says what came of them.
fn lead(name: &'static str, turns: &'static [&'static [(&'static str, &'static str)]]) -> Agent {
    agent(name, Mind::new(move |asked| steps(asked, turns)))
}

fn steps(asked: &Asked<'_>, turns: &[&[(&str, &str)]]) -> Reply {
    let since = asked.request.messages.iter().rev().take_while(|entry| entry.message.role != Role::User);
    let turn = since.filter(|entry| entry.message.role == Role::Assistant).count();
    match turns.get(turn) {
        Some(calls) => acts(&calls.iter().map(|(tool, task)| (*tool, json!({"task": task}))).collect::<Vec<_>>()),
        None => text(&format!("so it is: {}", results(asked).join("; "))),
    }
}

const PATTERNS: [&str; 8] =
    ["fresh", "kept", "side by side", "two at once", "nested", "a team", "in a team", "failing"];

/// The patterns, by name. What works there is the same each time that it is made.
fn pattern(name: &str, outside: &Outside, agent_group: &Arc<AgentGroup>) -> Arc<dyn Runner> {
    let alone = |agent: Agent| Arc::new(agent.with_agent_group(Arc::clone(agent_group), 0)) as Arc<dyn Runner>;
    let work = |name| worker(name, outside);
    let one: &'static [&'static [(&str, &str)]] = &[&[("bob", "first")], &[("bob", "second")]];
    match name {
        "fresh" => alone(lead("lead", one).with_tool(fresh(work("bob")))),
        "kept" => alone(lead("lead", one).with_tool(kept(work("bob")))),
        "side by side" => {
            let lead = lead("lead", &[&[("bob", "first"), ("eve", "second"), ("bob", "third")]]);
            alone(lead.with_tool(fresh(work("bob"))).with_tool(fresh(work("eve"))))
        }
        "two at once" => {
            let lead = lead("lead", &[&[("bob", "first"), ("bob", "second"), ("eve", "third")], &[("bob", "fourth")]]);
            alone(lead.with_tool(kept(work("bob"))).with_tool(kept(work("eve"))))
        }
        "nested" => {
            let middle = lead("middle", &[&[("bob", "one"), ("eve", "two")], &[("bob", "three")]]);
            let middle = middle.with_tool(kept(work("bob"))).with_tool(fresh(work("eve")));
            let lead = lead("lead", &[&[("middle", "first"), ("zoe", "meanwhile")], &[("middle", "second")]]);
            alone(lead.with_tool(kept(middle)).with_tool(fresh(work("zoe"))))
        }
        "a team" => {
            let broker = Team::new("desk", SequenceCoordinator)
                .with_member(Member::new(work("bob")))
                .with_member(Member::new(work("eve")));
            let how = AgentToolOptions { conversation: ConversationMode::Kept, ..AgentToolOptions::default() };
            let broker = AgentTool::new(broker, how).unwrap();
            alone(lead("lead", &[&[("desk", "first")], &[("desk", "second")]]).with_tool(broker))
        }
        "in a team" => {
            let ada = lead("ada", one).with_tool(kept(work("bob")));
            let zoe = lead("zoe", one).with_tool(fresh(work("bob")));
            let team =
                Team::new("team", SequenceCoordinator).with_member(Member::new(ada)).with_member(Member::new(zoe));
            Arc::new(team.with_agent_group(Arc::clone(agent_group)))
        }
        "failing" => {
            let fails = agent("bob", Mind::new(|_| Err(Fault::other("out of paper"))));
            let gone = AgentTool::registered("nobody", "", AgentToolOptions::default()).unwrap();
            let lead =
                lead("lead", &[&[("bob", "first"), ("nobody", "second")], &[("eve", "third"), ("bob", "fourth")]]);
            alone(lead.with_tool(kept(fails)).with_tool(gone).with_tool(fresh(work("eve"))))
        }
        _ => unreachable!("{name}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_journal_prefix_resumes_to_the_same_end() {
    let is_typical = |record: &JournalRecord| matches!(record, JournalRecord::Delegated { .. });
    for name in PATTERNS {
        let pattern = |outside: &Outside, agent_group: &Arc<AgentGroup>| pattern(name, outside, agent_group);
        resumes_to_the_same_end(name, pattern, is_typical, false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn kept_conversation_cut_in_a_call_accepts_the_next_task() {
    let outside = Outside::default();
    let written = memory();
    let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_recorder(written.clone()));
    let lead = pattern("kept", &outside, &agent_group);
    let cx = RunCx::new("lead");
    lead.run(&cx, &Chat::recorded(), vec![Message::user("go")]).await.unwrap();
    let records = written.records();
    let began = records.iter().position(|(_, record)| matches!(record, JournalRecord::CallBegan { .. })).unwrap();
    let past = JournalState::of(records[..=began].iter().cloned()).unwrap();
    let (chat, written) = (past.chat().unwrap(), memory());
    for (run, record) in &records[..=began] {
        written.write(*run, record);
    }
    let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).resuming(written.clone(), past, &chat));
    chat.reopen().abandon("nobody goes on with it");
    let lead = pattern("kept", &outside, &agent_group);
    let answer = lead.run(&cx, &chat, vec![Message::user("something else")]).await.unwrap();
    let said = answer.message.text_content();
    assert_eq!(said, "so it is: bob has had 2 tasks, in turn 2; bob has had 3 tasks, in turn 4");
    assert!(!JournalState::of(written.records()).unwrap().is_unfinished());
}
