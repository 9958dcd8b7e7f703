use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;

use super::*;
use crate::{
    agent::{
        AfterRunDecision, Agent, AgentRegistry, BeforeRunDecision, RunLimits, RunMiddleware, RunOutcome,
        testing::{MemoryRecorder, position_of, recorded_group, resumed_group},
    },
    event::RunCx,
    model::ScriptedCompleter,
    team::Coordinator,
};

/// A coordinator that chooses the same members in one step, and takes the last reply as the answer.
struct OneStep(&'static [&'static str]);

#[async_trait]
impl Coordinator for OneStep {
    fn name(&self) -> &str {
        "one-step"
    }

    async fn next(&self, _: &RunCx, moment: &CoordinatorInput<'_>, state: Vec<u8>) -> Result<CoordinatorStep, Fault> {
        Ok(CoordinatorStep::new(
            state,
            match moment.step {
                0 => CoordinatorAction::Run(self.0.iter().map(|name| MemberAssignment::of(*name)).collect()),
                _ => CoordinatorAction::Done(None),
            },
        ))
    }
}

fn member(name: &str, model: &Arc<ScriptedCompleter>) -> Member {
    Member::new(Agent::new(name, "", Arc::clone(model) as _))
}

fn scripted(script: Vec<Result<Completion, Fault>>) -> Arc<ScriptedCompleter> {
    Arc::new(ScriptedCompleter::new(script))
}

#[tokio::test]
async fn resumed_team_does_not_answer_with_an_old_reply() {
    let (recorder, registry, cx) = (Arc::<MemoryRecorder>::default(), AgentRegistry::new(), RunCx::new("desk"));
    let desk = |group, script| {
        let ada = member("ada", &scripted(script)).with_on_failure(OnFailure::Skip);
        Team::new("desk", OneStep(&["ada"])).with_member(ada).with_agent_group(group)
    };
    let fails = || Err(Fault::other("no luck"));
    let whole = desk(recorded_group(&recorder, &registry), vec![ScriptedCompleter::text("one"), fails()]);
    let chat = Chat::recorded();
    whole.run(&cx, &chat, vec![Message::user("first")]).await.unwrap();
    let first = recorder.records().len();
    let answer = whole.run(&cx, &chat, vec![Message::user("second")]).await;
    assert!(matches!(answer, Err(RunError::Empty)), "{answer:?}");
    let records = recorder.records();
    let chose = first + position_of(&records[first..], |record| matches!(record, JournalRecord::Chose { .. }));
    let (group, chat) = resumed_group(&records[..=chose], &registry);
    let resumed = desk(group, vec![fails()]).resume(&cx, &chat, vec![]).await.unwrap();
    assert!(matches!(resumed, Err(RunError::Empty)), "{resumed:?}");
}

/// Returns the texts of the user messages in the newest request to a model.
fn heard(model: &ScriptedCompleter) -> Vec<String> {
    let requests = model.requests();
    let messages = &requests.last().unwrap().messages;
    messages.iter().filter(|entry| entry.message.role == Role::User).map(|entry| entry.message.text_content()).collect()
}

#[tokio::test(start_paused = true)]
async fn member_that_was_stopped_before_its_run_hears_later() {
    let limits = RunLimits { working_agents: 1, ..RunLimits::default() };
    let group = Arc::new(AgentGroup::new(AgentRegistry::new()).with_limits(limits));
    let ada = scripted(vec![Err(Fault::other("no luck")), ScriptedCompleter::text("ada")]);
    let bob = scripted(vec![ScriptedCompleter::text("bob")]);
    let team = Team::new("desk", OneStep(&["ada", "bob"])).with_member(member("ada", &ada));
    let team = team.with_member(member("bob", &bob)).with_agent_group(group);
    let (cx, chat) = (RunCx::new("desk"), Chat::new());
    let failed = team.run(&cx, &chat, vec![Message::user("first")]).await;
    assert!(matches!(failed, Err(RunError::Member { .. })) && bob.requests().is_empty(), "{failed:?}");
    team.run(&cx, &chat, vec![Message::user("second")]).await.unwrap();
    assert_eq!(heard(&bob), ["first", "second"]);
}

/// A middleware that lets every run pass, and fails first if so created.
struct FailsFirst(AtomicBool);

#[async_trait]
impl RunMiddleware for FailsFirst {
    fn name(&self) -> &str {
        "fails-first"
    }

    async fn before(&self, _: &RunCx, _: &[Message]) -> Result<BeforeRunDecision, Fault> {
        match self.0.swap(false, Ordering::Relaxed) {
            true => Err(Fault::other("not yet")),
            false => Ok(BeforeRunDecision::Proceed { input: None, state: Vec::new() }),
        }
    }

    async fn after(&self, _: &RunCx, _: &RunOutcome, _: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        Ok(AfterRunDecision::Accept)
    }
}

#[tokio::test]
async fn interrupted_member_hears_what_was_not_delivered() {
    let (recorder, registry, cx) = (Arc::<MemoryRecorder>::default(), AgentRegistry::new(), RunCx::new("desk"));
    let desk = |group, bob: &Arc<ScriptedCompleter>, fails| {
        let bob = Agent::new("bob", "", Arc::clone(bob) as _).with_middleware(FailsFirst(AtomicBool::new(fails)));
        Team::new("desk", OneStep(&["bob"])).with_member(Member::new(bob).with_retries(1)).with_agent_group(group)
    };
    let bob = || scripted(vec![ScriptedCompleter::text("bob")]);
    let whole = desk(recorded_group(&recorder, &registry), &bob(), true);
    whole.run(&cx, &Chat::recorded(), vec![Message::user("first")]).await.unwrap();
    let records = recorder.records();
    let began = |record: &JournalRecord| matches!(record, JournalRecord::Began { beside: Some(_), .. });
    let first = position_of(&records, began);
    let second = first + 1 + position_of(&records[first + 1..], began);
    // Before the first attempt passed its middleware, between the attempts, and when the second had begun.
    for cut in [first, second - 1, second] {
        let (group, chat) = resumed_group(&records[..=cut], &registry);
        let resumed = bob();
        desk(group, &resumed, false).resume(&cx, &chat, vec![]).await.unwrap().unwrap();
        assert_eq!(heard(&resumed), ["first"], "resumed after {:?}", records[cut]);
        // The person begins anew instead.
        let (group, chat) = resumed_group(&records[..=cut], &registry);
        let anew = bob();
        desk(group, &anew, false).run(&cx, &chat, vec![Message::user("second")]).await.unwrap();
        assert_eq!(heard(&anew), ["first", "second"], "begun anew after {:?}", records[cut]);
    }
}
