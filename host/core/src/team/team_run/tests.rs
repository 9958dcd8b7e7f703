use std::sync::Mutex;

use async_trait::async_trait;

use super::*;
use crate::{
    agent::{
        Agent, AgentRegistry, BeforeRunDecision, RunMiddleware,
        testing::{MemoryRecorder, position_of, recorded_group, resumed_group},
    },
    event::RunCx,
    model::ScriptedCompleter,
    team::Coordinator,
};

/// A coordinator that gives the same members a task in one step, and takes the last reply as the answer.
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
                0 => CoordinatorAction::Run(self.0.iter().map(|name| assignment(name)).collect()),
                _ => CoordinatorAction::Done(None),
            },
        ))
    }
}

fn assignment(member: &str) -> MemberAssignment {
    MemberAssignment { member: member.into(), task: Some("Do it.".into()) }
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

/// The action of a [`FirstRun`] in the first run.
#[derive(Clone, Copy, PartialEq)]
enum FirstAction {
    Pass,
    Fail,
    Hang,
}

/// A middleware that lets every run but the first pass.
struct FirstRun(Mutex<FirstAction>);

#[async_trait]
impl RunMiddleware for FirstRun {
    fn name(&self) -> &str {
        "first-run"
    }

    async fn before(&self, _: &RunCx, _: &[Message]) -> Result<BeforeRunDecision, Fault> {
        let action = std::mem::replace(&mut *self.0.lock().unwrap(), FirstAction::Pass);
        match action {
            FirstAction::Pass => Ok(BeforeRunDecision::Proceed { input: None, state: Vec::new() }),
            FirstAction::Fail => Err(Fault::other("not yet")),
            FirstAction::Hang => std::future::pending().await,
        }
    }
}

fn bob(model: &Arc<ScriptedCompleter>, first: FirstAction) -> Member {
    let bob = Agent::new("bob", "", Arc::clone(model) as _);
    Member::new(bob.with_middleware(FirstRun(Mutex::new(first)))).with_retries(1)
}

#[tokio::test]
async fn member_stopped_before_it_had_its_input_hears_it_later() {
    let ada = scripted(vec![Err(Fault::other("no luck")), ScriptedCompleter::text("ada")]);
    let model = scripted(vec![ScriptedCompleter::text("bob")]);
    let team = Team::new("desk", OneStep(&["ada", "bob"]));
    let team = team.with_member(member("ada", &ada)).with_member(bob(&model, FirstAction::Hang));
    let (cx, chat) = (RunCx::new("desk"), Chat::new());
    let failed = team.run(&cx, &chat, vec![Message::user("first")]).await;
    assert!(matches!(failed, Err(RunError::Member { .. })) && model.requests().is_empty(), "{failed:?}");
    team.run(&cx, &chat, vec![Message::user("second")]).await.unwrap();
    assert_eq!(heard(&model), ["first", "second", "Do it."]);
}

#[tokio::test]
async fn interrupted_member_hears_what_was_not_delivered() {
    let (recorder, registry, cx) = (Arc::<MemoryRecorder>::default(), AgentRegistry::new(), RunCx::new("desk"));
    let desk = |group, model: &Arc<ScriptedCompleter>, first| {
        Team::new("desk", OneStep(&["bob"])).with_member(bob(model, first)).with_agent_group(group)
    };
    let model = || scripted(vec![ScriptedCompleter::text("bob")]);
    let whole = desk(recorded_group(&recorder, &registry), &model(), FirstAction::Fail);
    whole.run(&cx, &Chat::recorded(), vec![Message::user("first")]).await.unwrap();
    let records = recorder.records();
    let began = |record: &JournalRecord| matches!(record, JournalRecord::Began { side_chat: Some(_), .. });
    let first = position_of(&records, began);
    let second = first + 1 + position_of(&records[first + 1..], began);
    // Before the first attempt passed its middleware, between the attempts, and when the second had begun.
    for cut in [first, second - 1, second] {
        let (group, chat) = resumed_group(&records[..=cut], &registry);
        let resumed = model();
        desk(group, &resumed, FirstAction::Pass).resume(&cx, &chat, vec![]).await.unwrap().unwrap();
        assert_eq!(heard(&resumed), ["first", "Do it."], "resumed after {:?}", records[cut]);
        // The person begins anew instead.
        let (group, chat) = resumed_group(&records[..=cut], &registry);
        let anew = model();
        desk(group, &anew, FirstAction::Pass).run(&cx, &chat, vec![Message::user("second")]).await.unwrap();
        assert_eq!(heard(&anew), ["first", "second", "Do it."], "begun anew after {:?}", records[cut]);
    }
}
