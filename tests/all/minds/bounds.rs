//! Limits on the agents of one run: their number, how many work at once, and the memory of their conversations.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use serde_json::json;
use shelly_host::{
    agent::{AgentGroup, AgentRegistry, RunLimits},
    limits,
    tool::ToolConcurrency,
};

use super::{agent, agent_group, delegate, done, lead, lead_of, register, with_steps};
use crate::script::{Mind, act, run, spec_of, text};

#[tokio::test(start_paused = true)]
async fn delegation_bomb_stops_at_the_agent_limit() {
    for (limits, most) in
        [(RunLimits::default(), limits::AGENTS_PER_RUN), (RunLimits { agents: 40, ..RunLimits::default() }, 40)]
    {
        let names = Arc::new(Mutex::new(std::collections::HashSet::new()));
        let seen = Arc::clone(&names);
        // Every agent that may delegate has thirty others do the same, as deep as a config allows. No agent delegates to one
        // of its own name.
        let bomb = Arc::new(Mind::new(move |asked| {
            seen.lock().unwrap().insert(asked.agent.to_owned());
            let may = asked.request.tools.iter().any(|tool| tool.name == "delegate");
            let other = if asked.agent.starts_with("ping") { "pong" } else { "ping" };
            match (asked.turn, may) {
                (0, true) => delegate(&[(other, "again"); 30]),
                _ => done("done"),
            }
        }));
        let registry = AgentRegistry::new();
        for name in ["ping", "pong"] {
            let mut bomb = agent(name, Arc::clone(&bomb) as _);
            bomb.options.max_delegation_depth = limits::DELEGATION_DEPTH_CEILING;
            register(&registry, bomb);
        }
        let agent_group = Arc::new(AgentGroup::new(registry).with_limits(limits));
        let steps = [delegate(&[("ping", "go"); 30]), delegate(&[("pong", "go")]), text("done")];
        let mut lead = lead_of(&agent_group, steps);
        lead.options.max_delegation_depth = limits::DELEGATION_DEPTH_CEILING;
        let ran = run(&lead, "go").await;
        assert_eq!((ran.told().as_str(), names.lock().unwrap().len()), ("done", most), "it goes on itself");
        let refused = ran.results().pop().unwrap();
        let says = format!("this run has started its maximum of {most} agents (limit `runs.agents`)");
        assert!(refused.contains(&says), "{refused}");
        assert!(agent_group.working().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn agents_over_the_concurrency_limit_wait() {
    let counts = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let counted = Arc::clone(&counts);
    let work = spec_of("work", move |_, _| {
        let counts = Arc::clone(&counted);
        async move {
            let now = counts.0.fetch_add(1, SeqCst) + 1;
            counts.1.fetch_max(now, SeqCst);
            tokio::time::sleep(limits::EPOCH_TICK).await;
            counts.0.fetch_sub(1, SeqCst);
            Ok("worked".into())
        }
    });
    let worker = with_steps("worker", [act("work", json!({})), text("ok")]);
    let worker = worker.with_tool(work.with_concurrency(ToolConcurrency::Independent));
    let agent_group = agent_group([worker]).with_limits(RunLimits { working_agents: 3, ..RunLimits::default() });
    let ran = run(&lead(agent_group, [delegate(&[("worker", "go"); 20]), text("done")]), "go").await;
    assert!(ran.entries().as_array().unwrap().iter().all(|entry| entry["result"] == "ok"), "all of them come to work");
    assert_eq!(counts.1.load(SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn chats_of_a_run_stay_within_their_memory_limit() {
    const MOST: usize = 400_000;
    let agent_group_of = |chat_bytes: usize| {
        // Each has read some 90 KB when it ends, and all of them read at once.
        let look = spec_of("look", |_, _| async {
            tokio::time::sleep(limits::EPOCH_TICK).await;
            Ok("x".repeat(30_000))
        });
        let steps = [act("look", json!({})), act("look", json!({})), act("look", json!({})), text("ok")];
        agent_group([with_steps("worker", steps).with_tool(look)])
            .with_limits(RunLimits { chat_bytes, ..RunLimits::default() })
    };
    let ten = || [delegate(&[("worker", "go"); 10]), text("done")];
    let ran = run(&lead(agent_group_of(limits::CHATS_PER_RUN_BYTES), ten()), "go").await;
    assert!(ran.entries().as_array().unwrap().iter().all(|entry| entry["result"] == "ok"));

    let bounded = Arc::new(agent_group_of(MOST));
    let peak = Arc::new(AtomicUsize::new(0));
    let lead = lead_of(&bounded, ten());
    let watching = async {
        loop {
            peak.fetch_max(bounded.conversations().held(), SeqCst);
            tokio::time::sleep(limits::EPOCH_TICK / 10).await;
        }
    };
    let ran = tokio::select! {
        ran = run(&lead, "go") => ran,
        () = watching => unreachable!(),
    };
    assert_eq!(ran.told(), "done", "what is left of them is no burden to who delegated");
    let peak = peak.load(SeqCst);
    // Calls and replies are added whatever there is; they are small here.
    assert!(peak > MOST / 2 && peak < MOST + 20_000, "{peak}");
    assert_eq!(bounded.conversations().held(), ran.chat.snapshot().bytes(), "those of the others are gone");
}

#[tokio::test(start_paused = true)]
async fn agent_fails_when_the_chat_memory_is_full() {
    // Its one reply is larger than what the run may hold.
    let worker = with_steps("worker", [act("think", json!({"about": "x".repeat(50_000)})), text("ok")]);
    let agent_group = agent_group([worker]).with_limits(RunLimits { chat_bytes: 40_000, ..RunLimits::default() });
    let ran =
        run(&lead(agent_group, [delegate(&[("worker", "go")]), delegate(&[("worker", "go")]), text("done")]), "go")
            .await;
    let entry = ran.results().remove(0);
    assert!(entry.contains("the conversations of this run exceed 40000 bytes in total"), "{entry}");
    assert!(entry.contains("raise `runs.chat_bytes` in the config"), "{entry}");
    assert_eq!(ran.told(), "done");
}
