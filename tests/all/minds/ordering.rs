//! The order of the calls of one reply: in sequence where one could depend on another, in parallel where none can.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use proptest::prelude::*;
use shelly_host::{
    agent::RunError,
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects, Verdict},
    builtin::ConfirmedTool,
    capability::Budget,
    chat::ToolHints,
    error::Fault,
    limits,
    tool::{ConcurrencyDomain, FnTool, RunControl, TaskHandoff, Tool, ToolConcurrency, ToolCx, ToolOutput},
};
use tokio::time::Instant;

use super::*;
use crate::script::{Ran, acts, run, spec_of, text};

/// The action of a call once it has begun.
#[derive(Debug, Clone, Copy)]
enum Does {
    Answer,
    Fail,
    Panic,
    /// Runs into its time limit.
    Hang,
    Handoff,
}

/// A call of a tool of its own.
#[derive(Debug, Clone)]
struct Planned {
    concurrency: ToolConcurrency,
    /// Milliseconds.
    takes: u64,
    does: Does,
}

/// The start and end of each call, in milliseconds since the run began.
#[derive(Clone)]
struct Times {
    since: Instant,
    seen: Arc<Mutex<Vec<Span>>>,
}

/// The start and end of a call.
type Span = (Option<u64>, Option<u64>);

/// Notes the end of a call, however it ends.
struct Ended(Times, usize);

impl Times {
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap()
    }

    fn begin(&self, call: usize) -> Ended {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)[call].0 = Some(self.now());
        Ended(self.clone(), call)
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        let Self(times, call) = self;
        times.seen.lock().unwrap_or_else(PoisonError::into_inner)[*call].1 = Some(times.now());
    }
}

fn recorded(at: usize, plan: &Planned, times: &Times) -> impl Tool + 'static {
    let (times, Planned { concurrency, takes, does }) = (times.clone(), plan.clone());
    let call = move |_: ToolCx, _: Value| {
        let times = times.clone();
        async move {
            let _ended = times.begin(at);
            tokio::time::sleep(Duration::from_millis(takes)).await;
            match does {
                Does::Answer => Ok(ToolOutput::from(format!("did {at}"))),
                Does::Fail => Err(Fault::other(format!("failed {at}"))),
                Does::Panic => panic!("crashed on purpose"),
                Does::Hang => std::future::pending().await,
                Does::Handoff => {
                    let to = TaskHandoff { agent: at.to_string(), reason: String::new(), context: String::new() };
                    Ok(ToolOutput::Control(Vec::new(), RunControl::Handoff(to)))
                }
            }
        }
    };
    let spec = Arc::clone(spec_of(&format!("t{at}"), |_, _| async { Ok(String::new()) }).spec());
    FnTool::with_spec(spec, call).with_concurrency(concurrency).with_time_limit(Duration::from_millis(LIMIT))
}

/// Milliseconds that one call may take.
const LIMIT: u64 = 1_000;

/// Runs an agent whose first reply makes these calls, and gives when each began and ended.
async fn play(plan: &[Planned]) -> (Ran, Vec<(Option<u64>, Option<u64>)>) {
    let times = Times { since: Instant::now(), seen: Arc::new(Mutex::new(vec![(None, None); plan.len()])) };
    let calls: Vec<_> = (0..plan.len()).map(|at| format!("t{at}")).collect();
    let calls: Vec<_> = calls.iter().map(|name| (name.as_str(), json!({}))).collect();
    let agent = with_steps("ada", [acts(&calls), text("done")]);
    let agent = plan.iter().enumerate().fold(agent, |agent, (at, plan)| agent.with_tool(recorded(at, plan, &times)));
    let ran = run(&agent, "go").await;
    let seen = times.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
    (ran, seen)
}

fn hints(read_only: bool) -> ToolHints {
    ToolHints { read_only, ..ToolHints::default() }
}

fn planned() -> impl Strategy<Value = Planned> {
    let domain = prop_oneof![Just(ConcurrencyDomain::Files), "[ab]".prop_map(ConcurrencyDomain::named)];
    let concurrency = prop_oneof![
        1 => Just(ToolConcurrency::Independent),
        1 => "[ab]".prop_map(|name| ToolConcurrency::Watches([ConcurrencyDomain::named(name)].into())),
        5 => (any::<bool>(), prop::collection::vec(domain, 0..3))
            .prop_map(|(read_only, domains)| ToolConcurrency::touching(hints(read_only), domains)),
        1 => prop::option::of("[xy]").prop_map(|name| ToolConcurrency::Delegation { conversation: name.map(Into::into) }),
        1 => any::<bool>().prop_map(|changes| ToolConcurrency::Anything { changes }),
    ];
    let does = prop_oneof![
        6 => Just(Does::Answer),
        1 => Just(Does::Fail),
        1 => Just(Does::Panic),
        1 => Just(Does::Hang),
        1 => Just(Does::Handoff),
    ];
    (concurrency, 1..50_u64, does).prop_map(|(concurrency, takes, does)| Planned { concurrency, takes, does })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Each call begins at the moment when the last of those that it waits for ends, and has one result, in its place.
    #[test]
    fn random_replies_keep_the_order_that_matters(
        plan in prop::collection::vec(planned(), 2..=limits::PARALLEL_TOOL_CALLS),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (ran, seen) = runtime.block_on(play(&plan));
        for (at, call) in plan.iter().enumerate() {
            let earlier = (0..at).filter(|earlier| call.concurrency.waits_for(&plan[*earlier].concurrency));
            let expected = earlier.filter_map(|earlier| seen[earlier].1).max().unwrap_or(0);
            prop_assert_eq!(seen[at].0, Some(expected), "call {} of {:?}", at, plan);
        }
        let (results, mut first) = (ran.results(), true);
        prop_assert_eq!(results.len(), plan.len());
        for (at, (call, result)) in plan.iter().zip(&results).enumerate() {
            let is_expected = match call.does {
                Does::Answer => *result == format!("did {at}"),
                Does::Fail => *result == format!("failed {at}"),
                Does::Panic => result.contains("panicked") || result.contains("crashed"),
                Does::Hang => result.contains("the call took longer than 1 second"),
                // The first of the reply ends the turn, and no other one does.
                Does::Handoff => std::mem::take(&mut first) || result.contains("has already ended your turn"),
            };
            prop_assert!(is_expected, "call {}: {}", at, result);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_take_no_slot_from_others() {
    let of =
        |concurrency: &ToolConcurrency, takes| Planned { concurrency: concurrency.clone(), takes, does: Does::Answer };
    let write = ToolConcurrency::touching(hints(false), [ConcurrencyDomain::Files]);
    // All but the first of the writes wait, and they are as many as may run at once.
    let mut plan: Vec<_> = (0..limits::PARALLEL_TOOL_CALLS).map(|_| of(&write, 10)).collect();
    plan.push(of(&ToolConcurrency::Independent, 10));
    let (_, seen) = play(&plan).await;
    assert_eq!(seen[limits::PARALLEL_TOOL_CALLS].0, Some(0), "{seen:?}");
    assert_eq!(seen[limits::PARALLEL_TOOL_CALLS - 1].0, Some(150), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_without_concurrency_hints_run_in_sequence() {
    let times = Times { since: Instant::now(), seen: Arc::new(Mutex::new(vec![(None, None); 4])) };
    let calls: Vec<_> = (0..4).map(|at| ("write", json!({ "at": at }))).collect();
    let of_tool = times.clone();
    let write = spec_of("write", move |_, args: Value| {
        let times = of_tool.clone();
        async move {
            let _ended = times.begin(usize::try_from(args["at"].as_u64().unwrap()).unwrap());
            tokio::time::sleep(Duration::from_millis(10)).await;
            Ok("done".into())
        }
    });
    run(&with_steps("ada", [acts(&calls), text("done")]).with_tool(write), "go").await;
    let seen = times.seen.lock().unwrap().clone();
    assert_eq!(seen, [0, 10, 20, 30].map(|at| (Some(at), Some(at + 10))));
}

#[tokio::test(start_paused = true)]
async fn no_call_starts_after_the_time_budget() {
    let times = Times { since: Instant::now(), seen: Arc::new(Mutex::new(vec![(None, None); 3])) };
    let write = ToolConcurrency::touching(hints(false), [ConcurrencyDomain::Files]);
    let plan = [80, 80, 1].map(|takes| Planned { concurrency: write.clone(), takes, does: Does::Answer });
    let calls = [("t0", json!({})), ("t1", json!({})), ("t2", json!({}))];
    let mut agent = with_steps("ada", [acts(&calls), text("done")]);
    agent = agent.with_budget(Budget { time: Some(Duration::from_millis(100)), ..Budget::default() });
    let agent = plan.iter().enumerate().fold(agent, |agent, (at, plan)| agent.with_tool(recorded(at, plan, &times)));
    let ran = run(&agent, "go").await;
    assert!(matches!(ran.end, Err(RunError::Budget(_))), "{:?}", ran.end.map(|_| ()));
    tokio::time::sleep(Duration::from_secs(10)).await;
    let seen = times.seen.lock().unwrap().clone();
    assert_eq!(seen, [(Some(0), Some(80)), (Some(80), Some(100)), (None, None)], "the second one was stopped");
    assert_eq!(ran.results().len(), 3, "each call has a result");
}

#[tokio::test(start_paused = true)]
async fn open_question_does_not_block_other_calls() {
    let times = Times { since: Instant::now(), seen: Arc::new(Mutex::new(vec![(None, None); 4])) };
    let of = |domain: &ConcurrencyDomain| ToolConcurrency::touching(hints(false), [domain.clone()]);
    let (files, server) = (of(&ConcurrencyDomain::Files), of(&ConcurrencyDomain::named("mcp:s")));
    let plan = [&files, &server, &files, &server];
    let plan = plan.map(|concurrency| Planned { concurrency: concurrency.clone(), takes: 10, does: Does::Answer });
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let mut inbox = broker.attend().unwrap();
    let calls: Vec<_> = (0..4).map(|at| (["t0", "t1", "t2", "t3"][at], json!({}))).collect();
    let mut agent = with_steps("ada", [acts(&calls), text("done")]);
    for (at, plan) in plan.iter().enumerate() {
        let tool = recorded(at, plan, &times);
        agent = match at {
            0 => agent.with_tool(ConfirmedTool::new(Arc::new(tool), broker.clone(), "ada", "")),
            _ => agent.with_tool(tool),
        };
    }
    let person = async {
        let asked = inbox.next().await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        inbox.decide(asked.id, Verdict::Yes).unwrap();
    };
    tokio::join!(run(&agent, "go"), person);
    let seen = times.seen.lock().unwrap().clone();
    let expected = [60_000, 0, 60_010, 10].map(|began| (Some(began), Some(began + 10)));
    assert_eq!(seen, expected);
}
