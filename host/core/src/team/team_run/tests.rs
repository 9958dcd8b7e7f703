use async_trait::async_trait;

use super::*;
use crate::{
    agent::{
        Agent, AgentRegistry,
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
