//! Events of a run: every event that agents can cause is caused here, and the others are tested elsewhere.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use serde_json::json;
use shelly_host::{
    agent::{
        AfterRunDecision, BeforeRunDecision, EffectEdit, EffectFn, EffectPhase, InputGuardrail, OnFailure,
        OutputGuardrail, RunMiddleware, RunOutcome,
    },
    capability::{Budget, Power, Powers},
    chat::Message,
    error::Fault,
    event::{Event, RunCx},
    model::Usage,
};

use super::{
    agent, agent_group,
    broken::{Line, breaks, whole},
    delegate, done, lead, with_steps,
};
use crate::script::{Mind, act, run, text, tool};

/// Cases that agents cannot cause by themselves, and a file that tests them.
const ELSEWHERE: [(&str, &str); 13] = [
    ("MemberReplied", "tests/all/teams/steps.rs"),
    ("TeamStep", "tests/all/teams/steps.rs"),
    ("ToolProgress", "tests/all/hostile/call.rs"),
    ("PluginCall", "tests/all/hostile/call.rs"),
    ("PluginWaits", "tests/all/hostile/memory.rs"),
    ("PluginRequest", "tests/all/egress/mod.rs"),
    ("CapabilityDecided", "tests/all/ceilings.rs"),
    ("FileChange", "host/src/builtin/file_change_tool/tests.rs"),
    ("PluginLog", "tests/all/hostile/call.rs"),
    ("QuestionAsked", "host/core/src/approval/tests.rs"),
    ("QuestionAnswered", "host/core/src/approval/tests.rs"),
    ("ModelWaits", "host/core/src/model/batched_completer/tests.rs"),
    ("Missed", "host/core/src/event/sink.rs"),
];

/// The name of an event's case.
fn case(event: &Event) -> String {
    let debug = format!("{event:?}");
    debug.chars().take_while(|c| c.is_alphanumeric()).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All cases, as the source has them.
fn cases() -> BTreeSet<String> {
    let source = fs::read_to_string(root().join("host/core/src/event/event.rs")).unwrap();
    let (_, body) = source.split_once("pub enum Event {\n").unwrap();
    let (body, _) = body.split_once("\n}\n").unwrap();
    let is_case = |line: &&str| line.starts_with("    ") && line[4..].starts_with(|c: char| c.is_ascii_uppercase());
    body.lines().filter(is_case).map(|line| line.trim().split([' ', ',', '{']).next().unwrap().to_owned()).collect()
}

/// An effect that fails and may.
struct Fails(Powers);

#[async_trait::async_trait]
impl shelly_host::agent::Effect for Fails {
    fn name(&self) -> &str {
        "fails"
    }
    fn phases(&self) -> &[EffectPhase] {
        &[EffectPhase::BeforeModel]
    }
    fn powers(&self) -> &Powers {
        &self.0
    }
    fn on_failure(&self) -> OnFailure {
        OnFailure::Skip
    }
    async fn eval(
        &self,
        _: &RunCx,
        _: &shelly_host::agent::EffectInput,
        _: &shelly_host::chat::ChatSnapshot,
        _: &Arc<[Arc<shelly_host::chat::ToolSpec>]>,
        _: Vec<u8>,
    ) -> Result<shelly_host::agent::EffectStep, Fault> {
        Err(Fault::other("broken"))
    }
}

/// A middleware without which a run goes on.
struct Broken;

#[async_trait::async_trait]
impl RunMiddleware for Broken {
    fn name(&self) -> &str {
        "broken"
    }
    fn on_failure(&self) -> OnFailure {
        OnFailure::Skip
    }
    async fn before(&self, _: &RunCx, _: &[Message]) -> Result<BeforeRunDecision, Fault> {
        Err(Fault::other("broken"))
    }
    async fn after(&self, _: &RunCx, _: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        Err(Fault::other("broken"))
    }
}

/// A run in which everything happens.
async fn rich() -> Vec<Event> {
    let mut coder = with_steps(
        "coder",
        [act("handoff", json!({"target_agent": "expert", "reason": "it knows more", "context": "half is done"}))],
    );
    coder.options.max_handoffs = 1;
    let note = EffectFn::new("notes", EffectPhase::BeforeModel, [Power::Note], |moment, _| {
        Ok(match moment.iteration {
            0 => vec![EffectEdit::Note("be careful".into()), EffectEdit::HideTools(vec!["x".into()])],
            _ => vec![],
        })
    });
    let expert = with_steps("expert", [act("look", json!({})), done("done")])
        .with_tool(tool("look", async |_| Ok("seen".into())))
        .with_tool(tool("request_input", async |_| Ok("mine".into())))
        .with_effect(note)
        .with_effect(Fails(Powers::new()));
    let guarded = agent("guarded", Arc::new(Mind::steps([text("no")])))
        .with_middleware(Broken)
        .with_middleware(OutputGuardrail::new("guard", |_| Err(Fault::other("never"))));
    let lead =
        lead(agent_group([coder, expert, guarded]), [delegate(&[("coder", "go"), ("guarded", "go")]), text("done")]);
    // The four replies below the last cost 60.
    let budget = Budget { tokens: Some(100_000), ..Budget::default() };
    let mut events = run(&lead.with_budget(budget), "go").await.events;
    let dear = with_steps(
        "dear",
        [text("dear")].map(|reply| {
            reply.map(|mut reply| {
                reply.usage.output_tokens = 5_000;
                reply
            })
        }),
    );
    events.extend(run(&dear.with_budget(Budget { tokens: Some(1_000), ..Budget::default() }), "go").await.events);
    let overloaded = Fault::Unavailable { message: "overloaded".into(), after: None };
    let shaky = agent("shaky", Line::new([breaks(Usage::default(), overloaded), whole()]));
    events.extend(run(&shaky, "go").await.events);
    events
}

#[tokio::test(start_paused = true)]
async fn every_event_case_is_covered_by_a_test() {
    let told: BTreeSet<_> = rich().await.iter().map(case).collect();
    let elsewhere: BTreeSet<_> = ELSEWHERE.iter().map(|(case, _)| (*case).to_owned()).collect();
    assert_eq!(told.intersection(&elsewhere).collect::<Vec<_>>(), [""; 0], "agents cause it after all");
    assert_eq!(told.union(&elsewhere).cloned().collect::<BTreeSet<_>>(), cases());
    for (case, file) in ELSEWHERE {
        assert!(fs::read_to_string(root().join(file)).unwrap().contains(&format!("Event::{case}")), "{file}: {case}");
    }
}

/// Whoever waits for pieces is told once that none come, and because of what.
#[tokio::test(start_paused = true)]
async fn withheld_replies_are_reported_once() {
    let steps = || Arc::new(Mind::steps([text("one"), text("two")]));
    let ada = agent("ada", steps())
        .with_middleware(InputGuardrail::new("looks", |_| Ok(())))
        .with_middleware(OutputGuardrail::new("guard", |_| Ok(())));
    let (first, second) = (run(&ada, "go").await.events, run(&ada, "go").await.events);
    let withheld = |events: &[Event]| {
        let of = events.iter().filter_map(|event| match event {
            Event::RepliesWithheld { agent, by } => Some(format!("{agent} {}", by.join(", "))),
            _ => None,
        });
        of.collect::<Vec<_>>()
    };
    assert_eq!((withheld(&first), withheld(&second)), (vec!["ada guard".to_owned()], vec![]));
    let has_pieces = |events: &[Event]| events.iter().any(|event| matches!(event, Event::ModelDelta { .. }));
    assert!(!has_pieces(&first));
    let open = run(&agent("eve", steps()), "go").await.events;
    assert!(withheld(&open).is_empty() && has_pieces(&open));
}

#[tokio::test(start_paused = true)]
async fn start_and_end_events_match_per_instance() {
    let events = rich().await;
    let (mut runs, mut tools, mut models) = (Vec::new(), Vec::new(), Vec::new());
    for event in &events {
        match event {
            Event::RunStarted { agent, parent_agent: parent, depth, .. } => {
                assert_eq!(parent.as_deref(), (*depth > 0).then_some("lead"));
                runs.push(agent);
            }
            Event::RunFinished { agent, .. } => runs.retain(|there| *there != agent),
            Event::ToolStarted { agent, call, .. } => tools.push((agent, call)),
            Event::ToolFinished { agent, call, .. } => tools.retain(|there| *there != (agent, call)),
            Event::ModelStarted { agent, iteration, .. } => models.push((agent, iteration)),
            Event::ModelFinished { agent, iteration, .. } => models.retain(|there| *there != (agent, iteration)),
            Event::HandedOver { agent, to, reason } => {
                assert_eq!((&**agent, &**to, &**reason), ("coder-task-1", "expert", "it knows more"));
            }
            Event::MessageAdded { agent, message, .. } => {
                assert_eq!(
                    message.is_none(),
                    agent.starts_with("guarded"),
                    "what a middleware may replace is not shown"
                );
            }
            _ => {}
        }
    }
    assert!(runs.is_empty() && tools.is_empty() && models.is_empty(), "{runs:?} {tools:?} {models:?}");
}

#[tokio::test(start_paused = true)]
async fn rejected_task_makes_no_model_request() {
    let model = Arc::new(Mind::steps([text("done")]));
    let check = |input: &[Message]| match input.iter().any(|message| message.text_content() == "go") {
        true => Err(Fault::other("not that")),
        false => Ok(()),
    };
    let ada = agent("ada", model.clone()).with_middleware(InputGuardrail::new("guard", check));
    let ran = run(&ada, "go").await;
    assert_eq!(ran.told(), "failed: rejected by middleware `guard`: not that");
    assert!(model.asked().is_empty());
}
