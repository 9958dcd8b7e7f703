use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    fixture::{CompletionFixture, CoordinatorFixture, MemberFixture, PartFixture, ReportFixture, TrialConversation},
    model_query::{StepAnswer, StepModels, StepQueries, query_json},
    record::{TrialWatcher, recorded},
    step_log::{StepLog, reply_or_error, state_json},
    step_outcome::{StepTrial, not_of_kind},
};
use crate::{
    error::{Fault, Report},
    event::RunCx,
    plugin::{Plugin, PluginCoordinator, PluginKind},
    team::{
        Coordinator, CoordinatorAction, CoordinatorInput, MemberAssignment, MemberOutcome, MemberProfile, MemberReport,
    },
};

/// Calls a coordinator for one step.
pub(super) async fn coordinator_step(
    plugin: &Arc<Plugin>,
    input: CoordinatorFixture,
    models: Option<&dyn StepModels>,
    watch: &mut TrialWatcher<'_>,
) -> Result<StepTrial, Report> {
    let coordinator = PluginCoordinator::new(plugin).ok_or_else(|| not_of_kind(plugin, PluginKind::Coordinator))?;
    let shared = TrialConversation::new(input.messages, false)?.chat.snapshot();
    let members: Vec<_> = input.members.into_iter().map(profile).collect();
    let reports: Vec<_> = input.reports.into_iter().map(report).collect();
    let reply = reply_or_error(input.reply.map(CompletionFixture::completion), input.error)?;
    let (state, mut log) = (input.state.0, StepLog::default());
    let (granted, may_ask) = (coordinator.models(), coordinator.may_ask());
    let mut queries = StepQueries { models, granted, may_ask, asked: Vec::new() };
    let work = async |cx: RunCx| {
        let answer = queries.answered(&cx, state, reply, async |reply, state| {
            let moment = CoordinatorInput {
                step: input.step,
                shared: &shared,
                members: &members,
                reports: &reports,
                active: None,
                reply,
            };
            let step = coordinator.next(&cx, &moment, state).await?;
            Ok(match step.action {
                CoordinatorAction::Ask(query) => StepAnswer::Query(query, step.state),
                action => StepAnswer::End((action, step.state)),
            })
        });
        let (state, facts) = match answer.await? {
            StepAnswer::Query(query, state) => (state, action_json(&CoordinatorAction::Ask(query))),
            StepAnswer::End((action, state)) => (state, action_json(&action)),
        };
        facts.into_iter().for_each(|(key, value)| log.set(&key, value));
        log.set("state", state_json(&state));
        Ok::<_, Fault>(())
    };
    let (done, record) = recorded(&input.run, watch, work).await;
    log.asked = queries.asked;
    Ok(log.end(done.err(), record))
}

fn profile(MemberFixture { name, role, description }: MemberFixture) -> MemberProfile {
    MemberProfile { name: name.into(), role: role.into(), description: description.into() }
}

fn report(ReportFixture { member, failure }: ReportFixture) -> MemberReport {
    let fared = failure.map_or(MemberOutcome::Replied, |failure| MemberOutcome::Failed(failure.into()));
    MemberReport { member: member.into(), fared }
}

fn action_json(action: &CoordinatorAction) -> Map<String, Value> {
    let assignment =
        |MemberAssignment { member, task }: &MemberAssignment| json!({ "member": &**member, "task": task });
    let json = match action {
        CoordinatorAction::Run(assignments) => {
            let assignments: Vec<_> = assignments.iter().map(assignment).collect();
            json!({ "decision": "run", "assignments": assignments })
        }
        CoordinatorAction::Done(answer) => {
            let answer = answer.as_ref().map(|parts| parts.iter().map(PartFixture::from).collect::<Vec<_>>());
            json!({ "decision": "done", "answer": answer })
        }
        CoordinatorAction::Ask(query) => json!({ "decision": "ask-model", "request": query_json(query) }),
    };
    match json {
        Value::Object(facts) => facts,
        _ => Map::new(),
    }
}
