//! Bounds of agents that are tools: shared budgets, parallel calls, depth, ceilings, and cancellation.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use shelly_host::{
    agent::{
        AgentEntry, AgentGroup, AgentRefusal, AgentRegistry, AgentTool, AgentToolOptions, ConversationMode,
        journal::JournalRecord,
    },
    capability::{Budget, Ceiling, CeilingBound},
    event::Event,
    limits,
};

use super::{agent, caller, fresh, kept, remembers, results, task};
use crate::{
    script::{Mind, act, acts, run, text, tool},
    sessions::memory,
    teams::says,
};

/// Returns the token budget of each call of the lead.
fn given(records: &[(u64, JournalRecord)]) -> Vec<Option<u64>> {
    let tasks = records.iter().filter_map(|(run, record)| match record {
        JournalRecord::Delegated { tasks, .. } if *run == 1 => Some(tasks[0].bounds.tokens),
        _ => None,
    });
    tasks.collect()
}

#[tokio::test(start_paused = true)]
async fn agent_tool_calls_and_caller_share_the_budget_equally() {
    for (count, tokens) in [(1_usize, 100_000_u64), (3, 100_000), (10, 1_000_003), (40, 900_000)] {
        let written = memory();
        let agent_group = Arc::new(AgentGroup::default().with_recorder(written.clone()));
        let calls = (0..count).map(|at| (["bob", "eve", "zoe"][at % 3], task("t"))).collect();
        let lead = caller(calls).with_tool(fresh(remembers("bob", 1))).with_tool(kept(remembers("eve", 2)));
        let lead = lead.with_tool(fresh(remembers("zoe", 3))).with_agent_group(Arc::clone(&agent_group), 0);
        let lead = lead.with_budget(Budget { tokens: Some(tokens), ..Budget::default() });
        let ran = run(&lead, "go").await;
        let answer = ran.end.as_ref().unwrap_or_else(|error| panic!("{}", error.in_full()));
        assert_eq!(answer.account.total().usage, agent_group.ledger().total().usage, "{count}: to the token");
        let given: Vec<_> = given(&written.records()).into_iter().flatten().collect();
        assert_eq!(given.len(), count);
        // The tokens of the lead's first reply are not divided; what sub-runs give back later is.
        let fair = (tokens - 1_000) / (count as u64 + 1);
        assert!(
            given.iter().take(limits::PARALLEL_TOOL_CALLS).all(|share| *share >= fair - 1_000),
            "{count}: {given:?}"
        );
        let first = given[0];
        let at_once = given.iter().take(count.min(limits::PARALLEL_TOOL_CALLS) / 3 + 1);
        assert!(at_once.clone().all(|share| share.abs_diff(first) <= first / 10), "{count}: {given:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn exhausted_budget_share_ends_only_its_agent_tool() {
    let greedy = agent("bob", Mind::new(|_| act("look", json!({"why": "x".repeat(2_000)}))));
    let greedy = greedy.with_tool(tool("look", |_| async { Ok("no".into()) }));
    let agent_group = Arc::new(AgentGroup::default());
    let lead = agent("lead", Mind::steps([act("bob", task("t")), text("I go on")])).with_tool(fresh(greedy));
    let lead = lead
        .with_budget(Budget { tokens: Some(20_000), ..Budget::default() })
        .with_agent_group(Arc::clone(&agent_group), 0);
    let ran = run(&lead, "go").await;
    assert_eq!(ran.told(), "I go on");
    let result = &ran.results()[0];
    assert!(result.starts_with("agent `bob` failed: the budget of "), "{result}");
    let account = ran.end.unwrap().account;
    assert_eq!(account.total().usage, agent_group.ledger().total().usage);
    assert!(account.of_children.usage.total() > 0, "{account:?}");
}

#[tokio::test(start_paused = true)]
async fn many_agent_tool_calls_run_with_bounded_parallelism() {
    let (working, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&working), Arc::clone(&most));
    let wait = tool("wait", move |_| {
        let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
        async move {
            peak.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(10)).await;
            now.fetch_sub(1, Ordering::Relaxed);
            Ok("waited".into())
        }
    });
    let mind = Mind::new(|asked| match asked.turn {
        0 => act("wait", json!({})),
        _ => text("done"),
    });
    let count = limits::CALLS_PER_REPLY + 72;
    let calls = (0..count).map(|at| ("bob", task(&at.to_string()))).collect();
    let ran = run(&caller(calls).with_tool(fresh(agent("bob", mind).with_tool(wait))), "go").await;
    let results = ran.results();
    assert_eq!(results.len(), count);
    let (made, beyond) = results.split_at(limits::CALLS_PER_REPLY);
    assert!(made.iter().all(|result| result == "done"), "{made:?}");
    assert!(beyond.iter().all(|result| result.contains("at most 128 calls")), "{beyond:?}");
    assert_eq!(most.load(Ordering::Relaxed), limits::PARALLEL_TOOL_CALLS);
}

#[tokio::test(start_paused = true)]
async fn agent_tool_recursion_is_bounded() {
    for conversation in [ConversationMode::Fresh, ConversationMode::Kept] {
        let how = AgentToolOptions { conversation, ..AgentToolOptions::default() };
        let made = Arc::new(AtomicUsize::new(0));
        let again = AgentTool::registered("again", "", how.clone()).unwrap();
        let registry = AgentRegistry::new();
        let mind = || {
            Mind::new(|asked| match results(asked).pop() {
                None => act("again", task("once more")),
                Some(result) => text(&result),
            })
        };
        let count = Arc::clone(&made);
        let inner = how.clone();
        registry.register(AgentEntry::new("again", ""), move || {
            count.fetch_add(1, Ordering::Relaxed);
            agent("again", mind()).with_tool(AgentTool::registered("again", "", inner.clone()).unwrap())
        });
        let lead = agent("lead", mind()).with_tool(again).with_agent_group(Arc::new(AgentGroup::new(registry)), 0);
        let ran = run(&lead, "go").await;
        let most = limits::DELEGATION_DEPTH_CEILING;
        let says = format!("agent `again` failed: agents can be nested at most {most} deep; do the task yourself");
        assert_eq!(ran.told(), says);
        assert_eq!(made.load(Ordering::Relaxed), most as usize);
    }
}

#[tokio::test]
async fn registered_agent_tool_is_built_under_its_callers_ceiling() {
    let ceilings = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&ceilings);
    let registry = AgentRegistry::new();
    registry.register_under(AgentEntry::new("bob", ""), move |ceiling| {
        seen.lock().unwrap().push(ceiling.paths().iter().map(|path| path.to_string()).collect::<Vec<_>>());
        match ceiling.budget().tool_calls {
            Some(0) => Err(AgentRefusal("grant more".into())),
            _ => Ok(says("bob", |_| text("here"))),
        }
    });
    let ceiling = |agents: Option<&[&str]>, tool_calls| {
        let agents = agents.map(|agents| agents.iter().map(|name| name.to_string()).collect());
        let budget = Budget { tool_calls, ..Budget::default() };
        Ceiling::of("agents.lead.delegable", CeilingBound { agents, budget, ..CeilingBound::default() })
    };
    for (ceiling, says) in [
        (Ceiling::default(), "here"),
        (ceiling(Some(&["bob"]), None), "here"),
        (ceiling(Some(&["eve"]), None), "agent `bob` failed: unknown agent `bob`; there are no other agents"),
        (ceiling(None, Some(0)), "agent `bob` failed: agent `bob` cannot be started by this agent"),
    ] {
        let tool = AgentTool::registered("bob", "", AgentToolOptions::default()).unwrap();
        let mut lead = caller(vec![("bob", task("t"))]).with_tool(tool);
        lead.delegable = ceiling;
        let ran = run(&lead.with_agent_group(Arc::new(AgentGroup::new(registry.clone())), 0), "go").await;
        assert_eq!(ran.told(), says);
        let warned = ran
            .events
            .iter()
            .any(|event| matches!(event, Event::Warning { message } if message.contains("grant more")));
        assert_eq!(warned, says.contains("cannot be started"), "only the operator is told why");
    }
    let seen = ceilings.lock().unwrap().clone();
    assert_eq!(seen, [vec![], vec!["agents.lead.delegable".to_owned()], vec!["agents.lead.delegable".to_owned()]]);
    // Without an agent group there is no agent of that name.
    let tool = AgentTool::registered("bob", "", AgentToolOptions::default()).unwrap();
    let ran = run(&caller(vec![("bob", task("t"))]).with_tool(tool), "go").await;
    assert_eq!(
        ran.told(),
        "agent `bob` failed: the calling agent `lead` belongs to no group of agents, so it cannot start other agents"
    );
}

#[tokio::test(start_paused = true)]
async fn agent_tool_honours_max_concurrency() {
    let registry = AgentRegistry::new();
    let entry = AgentEntry { max_concurrency: Some(2), ..AgentEntry::new("bob", "") };
    registry.register(entry, || agent("bob", Mind::new(|_| text("done")).slow(Duration::from_secs(1))));
    let tool = AgentTool::registered("bob", "", AgentToolOptions::default()).unwrap();
    let calls = (0..6).map(|_| ("bob", task("t"))).collect();
    let began = tokio::time::Instant::now();
    run(&caller(calls).with_tool(tool).with_agent_group(Arc::new(AgentGroup::new(registry)), 0), "go")
        .await
        .end
        .unwrap();
    assert_eq!(began.elapsed().as_secs(), 3);
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_caller_cancels_its_agent_tools_only_downwards() {
    for (whom, says) in [
        ("lead", "failed: the run was cancelled"),
        ("lead/bob", "agent `bob` failed: the run was cancelled"),
        ("lead/eve#1", "bob: hello"),
    ] {
        let wait = tool("wait", |_| std::future::pending());
        let eve = agent("eve", Mind::new(|_| act("wait", json!({})))).with_tool(wait);
        let bob = agent("bob", Mind::new(|asked| text(&format!("bob: {}", asked.heard))).slow(Duration::from_secs(5)));
        let middle = agent(
            "bob",
            Mind::new(|asked| match asked.turn {
                0 => act("inner", task("hello")),
                _ => text(&results(asked).join("")),
            }),
        );
        let inner = AgentTool::new(bob, AgentToolOptions { name: Some("inner".into()), ..AgentToolOptions::default() })
            .unwrap();
        let calls =
            if whom == "lead/eve#1" { vec![("bob", task("t")), ("eve", task("t"))] } else { vec![("bob", task("t"))] };
        let mind = Mind::new(move |asked| match results(asked).first() {
            None => acts(&calls),
            Some(result) => text(result),
        });
        let agent_group = Arc::new(AgentGroup::default());
        let lead = agent("lead", mind).with_tool(kept(middle.with_tool(inner))).with_tool(fresh(eve));
        let lead = lead.with_agent_group(Arc::clone(&agent_group), 0);
        let watch = {
            let agent_group = Arc::clone(&agent_group);
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let working: Vec<_> = agent_group.working().iter().map(|name| name.to_string()).collect();
                assert!(
                    ["lead", "lead/bob", "lead/bob/inner#1"].iter().all(|name| working.contains(&name.to_string())),
                    "{working:?}"
                );
                assert!(agent_group.cancel(whom));
            })
        };
        let ran = run(&lead, "go").await;
        watch.await.unwrap();
        assert_eq!(ran.told(), says, "{whom}");
        assert!(agent_group.working().is_empty(), "{whom}");
    }
}
