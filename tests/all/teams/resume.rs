//! Teams that are interrupted anywhere: they resume to the same end, in each pattern.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use serde_json::json;
use shelly_host::{
    agent::{
        AgentGroup, AgentRegistry, ModelQuery, Runner,
        journal::{JournalRecord, JournalState},
    },
    capability::Budget,
    chat::{Chat, ChatSnapshot, Message, Role},
    error::{Fault, OnFailure},
    event::{Event, EventSink, RunCx},
    model::CompletionRequest,
    plugin::PluginCoordinator,
    team::{
        Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, HandoffCoordinator, Member,
        MemberAssignment, SequenceCoordinator, Team, TeamChatMode,
    },
};

use super::{agent, plan, says};
use crate::{
    effects::plugin,
    guest::PROBE_TEAM,
    plugin::STATE_MACHINE,
    script::{Mind, act, text, tool},
    sessions::{
        memory,
        same_end::{Outside, resumes_to_the_same_end},
    },
};

/// An agent that does something outside once in each of its runs, and then says what it heard.
fn worker(name: &'static str, outside: &Outside) -> Member {
    let outside = Arc::clone(outside);
    let send = tool("send", move |cx| {
        let said = cx.chat.iter().filter(|entry| entry.message.role == Role::User).count();
        outside.lock().unwrap().push(format!("{} {said}", cx.run.agent));
        async { Ok("sent".to_owned()) }
    });
    let mind = Mind::new(move |asked| match asked.heard.contains("sent") || asked.heard.contains("interrupted") {
        true => text(&format!("{name} in turn {}", asked.turn)),
        false => act("send", json!({})),
    });
    Member::new(agent(name, mind).with_tool(send))
}

/// Asks a model whom to choose, each time, and counts in its state.
struct Asking;

#[async_trait]
impl Coordinator for Asking {
    fn name(&self) -> &str {
        "asking"
    }

    async fn next(&self, _: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        let Some(reply) = &moment.reply else {
            let question = format!("who after {} steps? {}", moment.step, moment.shared.len());
            let messages = ChatSnapshot::from_messages(vec![Message::user(question)]).unwrap();
            let request = CompletionRequest::new(messages, [].into());
            return Ok(CoordinatorStep::new(
                state,
                CoordinatorAction::Ask(Box::new(ModelQuery { model: None, request })),
            ));
        };
        let reply = reply.clone()?.into_message("").text_content();
        let state = [&state[..], reply.as_bytes()].concat();
        Ok(match &*reply {
            "done" => CoordinatorStep::new(state, CoordinatorAction::Done(None)),
            who => {
                let task = Some(format!("step {} of {}", moment.step, String::from_utf8_lossy(&state)));
                CoordinatorStep::new(
                    state.clone(),
                    CoordinatorAction::Run(vec![MemberAssignment { member: who.into(), task }]),
                )
            }
        })
    }
}

fn asked(asked: &crate::script::Asked<'_>) -> crate::script::Reply {
    let who = ["ada", "bob", "ada", "done"];
    let step = who.iter().enumerate().find(|(at, _)| asked.heard.contains(&format!("after {at} steps")));
    text(step.map_or("done", |(_, who)| who))
}

/// The patterns, by name.
fn pattern(name: &str, outside: &Outside) -> Team {
    let work = |name| worker(name, outside);
    let flaky = |name: &'static str| {
        let outside = Arc::clone(outside);
        // Whether it fails follows from its conversation, as all that a mind does.
        says(name, move |heard| {
            let _ = &outside;
            match heard.contains("Go on") {
                true => text(&format!("{name} at last")),
                false => Err(Fault::other("no luck")),
            }
        })
    };
    match name {
        "side by side" => {
            let team = Team::new("desk", plan(&[&["ada", "bob"], &["eve"], &["bob", "ada", "eve"]]));
            team.with_member(work("ada")).with_member(work("bob")).with_member(work("eve"))
        }
        "nested" => {
            let inner = Team::new("inner", SequenceCoordinator).with_member(work("ada")).with_member(work("bob"));
            let middle = Team::new("middle", plan(&[&["inner", "eve"], &["inner"]]));
            let middle = middle.with_member(Member::new(inner)).with_member(work("eve"));
            Team::new("desk", SequenceCoordinator).with_member(Member::new(middle)).with_member(work("zoe"))
        }
        "asking" => {
            let team = Team::new("desk", Asking).with_completer(Arc::new(Mind::new(asked)));
            team.with_member(work("ada")).with_member(work("bob"))
        }
        "failing" => {
            let team = Team::new("desk", plan(&[&["ada", "bob"], &["eve"]]));
            team.with_member(work("ada"))
                .with_member(Member::new(flaky("bob")).with_retries(1).with_on_failure(OnFailure::Skip))
                .with_member(work("eve"))
        }
        "handed over" | "handed over in one" => {
            let passes = |name: &'static str, to: &'static str| {
                let outside = Arc::clone(outside);
                let mind = Mind::new(move |asked| {
                    outside.lock().unwrap().len();
                    match asked.request.messages.iter().any(|entry| entry.message.text_content().contains("again")) {
                        true => text(&format!("{name} knows")),
                        false => act(&format!("transfer_to_{to}"), json!({"reason": format!("{to} knows better")})),
                    }
                });
                Member::new(agent(name, mind))
            };
            let meeting = if name == "handed over" { TeamChatMode::Handoff } else { TeamChatMode::SharedHandoff };
            let team = Team::new("desk", HandoffCoordinator::default()).with_meeting(meeting);
            team.with_member(passes("ada", "bob")).with_member(passes("bob", "eve")).with_member(work("eve"))
        }
        _ => unreachable!("{name}"),
    }
}

const PATTERNS: [&str; 6] = ["side by side", "nested", "asking", "failing", "handed over", "handed over in one"];

#[tokio::test(start_paused = true)]
async fn every_journal_prefix_resumes_to_the_same_end() {
    for name in PATTERNS {
        goes_on_from_every_prefix(name, |outside| pattern(name, outside)).await;
    }
}

#[tokio::test]
async fn every_prefix_of_a_plugin_led_run_resumes_to_the_same_end() {
    let who = |asked: &crate::script::Asked<'_>| {
        let who = ["ada", "bob", "ada"].into_iter().enumerate();
        let mut steps = who.filter(|(at, _)| asked.heard.contains(&format!("after {at} steps")));
        text(steps.next().map_or("all is done", |(_, who)| who))
    };
    let review = json!({"states": [
        {"name": "draft", "members": ["ada"], "default": "review"},
        {"name": "review", "members": ["bob", "eve"], "default": "draft",
         "transitions": [{"matches": "turn [37]", "by": "all", "to": "done"}]},
    ]});
    for (name, component, params) in [
        ("a plugin's in turn", PROBE_TEAM, json!({"does": "in-turn"})),
        ("a plugin's that asks", PROBE_TEAM, json!({"does": "ask"})),
        ("a state machine's", STATE_MACHINE, review),
        ("a plugin's that hands over", PROBE_TEAM, json!({"does": "hand-over", "size": 9})),
    ] {
        let plugin = plugin(component, params).await;
        goes_on_from_every_prefix(name, |outside| {
            let coordinator = PluginCoordinator::new(&plugin).unwrap();
            if name.ends_with("hands over") {
                return Team { coordinator: Arc::new(coordinator), ..pattern("handed over", outside) };
            }
            let team = Team::new("desk", coordinator).with_completer(Arc::new(Mind::new(who)));
            ["ada", "bob", "eve"].into_iter().fold(team, |team, name| team.with_member(worker(name, outside)))
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn resumed_members_have_the_shares_that_they_had() {
    // Each of the two calls its tool once: the share of one that has returned must not be set aside again.
    goes_on_from_every_prefix("a shared budget", |outside| {
        Team::new("desk", plan(&[&["ada", "bob"]]))
            .with_member(worker("ada", outside))
            .with_member(worker("bob", outside))
            .with_budget(Budget { tool_calls: Some(2), ..Budget::default() })
    })
    .await;
}

async fn goes_on_from_every_prefix(name: &str, pattern: impl Fn(&Outside) -> Team) {
    let is_typical = |record: &JournalRecord| matches!(record, JournalRecord::Chose { .. });
    let team = |outside: &Outside, agent_group: &Arc<AgentGroup>| {
        Arc::new(pattern(outside).with_agent_group(Arc::clone(agent_group))) as Arc<dyn Runner>
    };
    resumes_to_the_same_end(name, team, is_typical, true).await;
}

/// Returns the task of each agent and team, from the event of its start.
async fn tasks_of(run: impl AsyncFnOnce(&RunCx)) -> BTreeMap<String, String> {
    let (sink, mut events) = EventSink::channel();
    let cx = RunCx::new("desk").with_events(sink);
    run(&cx).await;
    drop(cx);
    let mut tasks = BTreeMap::new();
    while let Some(event) = events.next_event().await {
        if let Event::RunStarted { agent, task, .. } = event {
            tasks.insert(agent.to_string(), task);
        }
    }
    tasks
}

#[tokio::test(start_paused = true)]
async fn resumed_nested_team_is_shown_with_its_own_task() {
    let outside = Outside::default();
    let team = || {
        let inner = pattern("handed over in one", &outside);
        Team::new("desk", SequenceCoordinator)
            .with_member(Member::new(inner).with_name("inner"))
            .with_member(worker("zoe", &outside))
    };
    let (written, chat) = (memory(), Chat::recorded());
    let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_recorder(written.clone()));
    let whole = team().with_agent_group(agent_group);
    let told = tasks_of(async |cx| {
        whole.run(cx, &chat, vec![Message::user("go")]).await.unwrap();
    })
    .await;
    assert_eq!((told["desk"].as_str(), told["desk/inner"].as_str()), ("go", "go"));
    let records = written.records();
    for cut in 1..records.len() {
        let past = JournalState::of(records[..cut].iter().cloned()).unwrap();
        let chat = past.chat().unwrap();
        let agent_group = Arc::new(AgentGroup::new(AgentRegistry::new()).resuming(memory(), past, &chat));
        let again = team().with_agent_group(agent_group);
        let seen = tasks_of(async |cx| {
            again.resume(cx, &chat, Vec::new()).await.unwrap().unwrap();
        })
        .await;
        for (agent, task) in &seen {
            assert_eq!(*task, told[agent], "{agent} after record {cut} ({:?})", records[cut - 1]);
        }
        assert_eq!(seen["desk"], "go");
    }
}
