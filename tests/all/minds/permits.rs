//! Limits on concurrent agents and calls, without deadlock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use serde_json::json;
use shelly_host::{
    agent::{Agent, AgentEntry, AgentGroup, AgentRegistry, InteractionMode},
    chat::{Chat, Message},
    event::RunCx,
    limits,
    tool::ToolConcurrency,
};
use tokio::time::Instant;

use super::{agent, delegate, done, failed, lead, lead_of, order, orders, register, with_steps};
use crate::script::{Mind, Reply, act, acts, hangs, run, spec_of, text};

/// The number of agents at work, now and at most.
#[derive(Clone, Default)]
struct Gauge(Arc<(AtomicUsize, AtomicUsize)>);

impl Gauge {
    fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }

    /// An agent whose tool `work` takes a second.
    fn on(&self, agent: Agent) -> Agent {
        let gauge = self.clone();
        let work = spec_of("work", move |_, _| {
            let Gauge(counts) = gauge.clone();
            async move {
                let now = counts.0.fetch_add(1, SeqCst) + 1;
                counts.1.fetch_max(now, SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                counts.0.fetch_sub(1, SeqCst);
                Ok("worked".into())
            }
        });
        agent.with_tool(work.with_concurrency(ToolConcurrency::Independent))
    }
}

fn work() -> Reply {
    act("work", json!({}))
}

fn bounded(registry: &AgentRegistry, agent: Agent, most: u32) {
    let entry = AgentEntry { max_concurrency: Some(most), ..AgentEntry::new(Arc::clone(&agent.name), "") };
    registry.register(entry, move || agent.clone());
}

#[tokio::test(start_paused = true)]
async fn instances_of_one_agent_are_bounded_by_max_concurrency() {
    // 0 would be nobody, for ever.
    for (most, at_once, seconds) in [(0, 1, 6), (1, 1, 6), (2, 2, 3), (4, 4, 2), (6, 6, 1), (9, 6, 1)] {
        let (gauge, registry, began) = (Gauge::default(), AgentRegistry::new(), Instant::now());
        bounded(&registry, gauge.on(with_steps("worker", [work(), done("done")])), most);
        let ran = run(&lead(AgentGroup::new(registry), [delegate(&[("worker", "go"); 6]), text("done")]), "go").await;
        assert_eq!(gauge.most(), at_once, "{most}");
        assert_eq!(began.elapsed().as_secs(), seconds, "every place is used: {most}");
        assert!(ran.entries().as_array().unwrap().iter().all(|entry| entry["result"] == "done"));
    }
}

#[tokio::test(start_paused = true)]
async fn working_agents_are_bounded_in_total() {
    let (gauge, registry) = (Gauge::default(), AgentRegistry::new());
    register(&registry, gauge.on(with_steps("worker", [work(), text("done")])));
    let tasks = |count| json!({"tasks": vec![order("worker", "go"); count]});
    let two = acts(&[("delegate", tasks(limits::WORKING_AGENTS)), ("delegate", tasks(9))]);
    let (chat, lead) = (Chat::new(), lead(AgentGroup::new(registry), [two, text("done")]));
    lead.run(&RunCx::new("lead"), &chat, vec![Message::user("go")]).await.unwrap();
    assert_eq!(gauge.most(), limits::WORKING_AGENTS);
}

#[tokio::test(start_paused = true)]
async fn parallel_calls_of_one_reply_are_bounded() {
    let gauge = Gauge::default();
    let many = vec![("work", json!({})); limits::PARALLEL_TOOL_CALLS + 4];
    let ran = run(&gauge.on(with_steps("ada", [acts(&many), text("done")])), "go").await;
    assert_eq!((gauge.most(), ran.results().len()), (limits::PARALLEL_TOOL_CALLS, many.len()));
}

/// Delegates to `other` as long as it is not too deep, and works.
fn mutual(name: &str, other: &'static str, depth: u32, gauge: &Gauge) -> Agent {
    let mind = Mind::new(move |asked| {
        let may = asked.request.tools.iter().any(|tool| tool.name == "delegate");
        match (asked.turn, may) {
            (0, true) => delegate(&[(other, "go"), (other, "go")]),
            (1, true) | (0, false) => work(),
            _ => done("done"),
        }
    });
    let mut agent = gauge.on(agent(name, Arc::new(mind)));
    agent.options.max_delegation_depth = depth;
    agent
}

#[tokio::test(start_paused = true)]
async fn mutual_delegation_with_single_slots_does_not_deadlock() {
    let (gauge, registry) = (Gauge::default(), AgentRegistry::new());
    bounded(&registry, mutual("ping", "pong", 5, &gauge), 1);
    bounded(&registry, mutual("pong", "ping", 5, &gauge), 1);
    let ran =
        run(&lead(AgentGroup::new(registry), [delegate(&[("ping", "go"), ("pong", "go")]), text("done")]), "go").await;
    assert_eq!(ran.entries()[0]["result"], "done");
    assert_eq!(ran.entries()[1]["result"], "done");
    assert_eq!(gauge.most(), 2, "one of each");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutual_delegation_on_threads_does_not_deadlock() {
    for _ in 0..20 {
        let registry = AgentRegistry::new();
        for (name, other) in [("ping", "pong"), ("pong", "ping")] {
            let mind = Mind::new(move |asked| match asked.turn {
                0 if asked.request.tools.iter().any(|tool| tool.name == "delegate") => delegate(&[(other, "go"); 3]),
                _ => done("done"),
            });
            let mut agent = agent(name, Arc::new(mind));
            agent.options.max_delegation_depth = 4;
            bounded(&registry, agent, 1);
        }
        let steps = [delegate(&[("ping", "go"), ("pong", "go")]), text("done")];
        let lead = lead(AgentGroup::new(registry), steps);
        let ran = tokio::time::timeout(Duration::from_secs(60), run(&lead, "go")).await.expect("nobody waits for ever");
        assert_eq!(ran.entries()[1]["result"], "done");
    }
}

#[tokio::test(start_paused = true)]
async fn asking_agent_releases_its_slot_and_regains_it() {
    let ask = || act("request_input", json!({"question": "which one?"}));
    let answers = act(
        "answer_delegation_questions",
        json!({"answers": [{"delegation_id": "d-1", "answer": "a"}, {"delegation_id": "d-2", "answer": "b"}]}),
    );
    // With an answer, and without one in time.
    for (timeout, second) in [(None, answers), (Some(Duration::from_secs(5)), act("think", json!({})))] {
        let (gauge, registry) = (Gauge::default(), AgentRegistry::new());
        bounded(&registry, gauge.on(with_steps("worker", [ask(), work(), done("done")])), 1);
        let steps = [delegate(&[("worker", "go"), ("worker", "go")]), second, text("done")];
        let mut lead = lead(AgentGroup::new(registry), steps).with_tool(hangs("think", Duration::from_secs(50)));
        (lead.options.interaction, lead.options.question_timeout) = (InteractionMode::Interactive, timeout);
        let ran = run(&lead, "go").await;
        let waiting =
            ran.entries().as_array().unwrap().iter().filter(|entry| entry.get("pending_question").is_some()).count();
        assert_eq!(waiting, 2, "both ask though only one may work");
        assert_eq!(gauge.most(), 1, "{timeout:?}");
        assert_eq!(ran.talk().matches("worked").count(), 2, "{}", ran.talk());
    }
}

#[tokio::test(start_paused = true)]
async fn agent_stopped_while_waiting_for_a_slot_never_starts() {
    let (registry, model) = (AgentRegistry::new(), Arc::new(Mind::steps([failed("no")]).slow(Duration::from_secs(1))));
    bounded(&registry, agent("worker", model.clone()), 1);
    let tasks = json!({"tasks": vec![order("worker", "go"); 3], "fail_fast": true});
    let ran = run(&lead(AgentGroup::new(registry), [act("delegate", tasks), text("done")]), "go").await;
    // The second may have the place that the first gave back before the failure is seen.
    assert!(model.asked().iter().all(|(agent, _)| agent != "worker-task-3"));
    assert_eq!(ran.entries()[2]["error"], "stopped: another task of the same call failed");
}

#[tokio::test(start_paused = true)]
async fn slot_is_released_after_a_crash_or_cancellation() {
    let registry = AgentRegistry::new();
    let mad = Mind::new(|asked| match asked.agent {
        "worker-crash-1" => panic!("mad"),
        "worker-wait-2" => act("wait", json!({})),
        _ => done("done"),
    });
    bounded(&registry, agent("worker", Arc::new(mad)).with_tool(hangs("wait", Duration::from_secs(50_000))), 1);
    let agent_group = Arc::new(AgentGroup::new(registry));
    let steps = ["crash", "wait", "last"].map(|task| orders([order("worker", task)]));
    let lead = lead_of(&agent_group, steps.into_iter().chain([text("done")]));
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(agent_group.cancel("worker-wait-2"));
    };
    let (ran, ()) = tokio::join!(run(&lead, "go"), cancel);
    let told = ran.results();
    assert!(told[0].contains("the run crashed: mad") && told[1].contains("task canceled"), "{told:?}");
    assert!(told[2].contains(r#""result":"done""#));
}
