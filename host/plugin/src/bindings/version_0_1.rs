//! The types of version 0.1 of the contract that have another form in the newest version, as in `wit/0.1`, and their
//! conversions. Everything else has the same form in both.

use wasmtime::component::{ComponentType, Lift, Lower};

use super::{
    exports::{coordinator, effect},
    types,
};

/// The answer of an effect: `effect.step`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub struct EffectStep0_1 {
    state: Vec<u8>,
    action: effect::Action,
    wake: Option<effect::Wake>,
}

impl From<EffectStep0_1> for effect::Step {
    fn from(EffectStep0_1 { state, action, wake }: EffectStep0_1) -> Self {
        let next_call = match wake {
            None => effect::NextCall::NextPhase,
            Some(effect::Wake { iteration: None, request_tokens: None, run_tokens: None, model_ms: None }) => {
                effect::NextCall::Never
            }
            Some(wake) => effect::NextCall::When(wake),
        };
        Self { state, action, next_call }
    }
}

/// The report on a member: `coordinator.report`. It does not say that the member hands over; a note in the chat does.
#[derive(ComponentType, Lower)]
#[component(record)]
pub struct MemberReport0_1 {
    member: String,
    failure: Option<types::Error>,
}

impl From<coordinator::Report> for MemberReport0_1 {
    fn from(coordinator::Report { member, outcome }: coordinator::Report) -> Self {
        let failure = match outcome {
            coordinator::MemberOutcome::Replied | coordinator::MemberOutcome::HandedOver(_) => None,
            coordinator::MemberOutcome::Failed(error) => Some(error),
        };
        Self { member, failure }
    }
}

/// The input of a coordinator: `coordinator.moment`.
#[derive(ComponentType, Lower)]
#[component(record)]
pub struct CoordinatorInput0_1 {
    cx: types::RunContext,
    step: u32,
    members: Vec<coordinator::Member>,
    reports: Vec<MemberReport0_1>,
    reply: Option<Result<types::Completion, types::Error>>,
}

impl From<coordinator::CoordinatorInput> for CoordinatorInput0_1 {
    fn from(input: coordinator::CoordinatorInput) -> Self {
        let coordinator::CoordinatorInput { cx, step, members, reports, reply } = input;
        Self { cx, step, members, reports: reports.into_iter().map(Into::into).collect(), reply }
    }
}

/// The action of a coordinator: `coordinator.action`.
#[derive(ComponentType, Lift)]
#[component(variant)]
pub enum CoordinatorAction0_1 {
    #[component(name = "run")]
    Run(Vec<coordinator::Assignment>),
    #[component(name = "done")]
    Done(Option<Vec<types::Content>>),
    #[component(name = "ask-model")]
    AskModel(types::Ask),
}

/// The answer of a coordinator: `coordinator.step`.
#[derive(ComponentType, Lift)]
#[component(record)]
pub struct CoordinatorStep0_1 {
    state: Vec<u8>,
    action: CoordinatorAction0_1,
}

impl From<CoordinatorStep0_1> for coordinator::Step {
    fn from(CoordinatorStep0_1 { state, action }: CoordinatorStep0_1) -> Self {
        let action = match action {
            CoordinatorAction0_1::Run(assignments) => coordinator::Action::Run(assignments),
            CoordinatorAction0_1::Done(None) => coordinator::Action::Done(coordinator::TeamAnswer::LastReply),
            CoordinatorAction0_1::Done(Some(content)) => {
                coordinator::Action::Done(coordinator::TeamAnswer::Content(content))
            }
            CoordinatorAction0_1::AskModel(ask) => coordinator::Action::AskModel(ask),
        };
        Self { state, action }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effect_step_of_0_1_keeps_its_next_call() {
        let never = effect::Wake { iteration: None, request_tokens: None, run_tokens: None, model_ms: None };
        let next = |wake| {
            let old = EffectStep0_1 { state: vec![1], action: effect::Action::Edits(vec![]), wake };
            let step = effect::Step::from(old);
            assert_eq!(step.state, [1]);
            step.next_call
        };
        assert!(matches!(next(None), effect::NextCall::NextPhase));
        assert!(matches!(next(Some(never)), effect::NextCall::Never));
        for wake in [
            effect::Wake { iteration: Some(0), ..never },
            effect::Wake { request_tokens: Some(0), ..never },
            effect::Wake { run_tokens: Some(0), ..never },
            effect::Wake { model_ms: Some(0), ..never },
        ] {
            assert!(matches!(next(Some(wake)), effect::NextCall::When(_)), "{wake:?}");
        }
    }

    #[test]
    fn coordinator_of_0_1_reads_failures_alone() {
        let failed = || types::Error::Denied("no".into());
        for (outcome, failure) in [
            (coordinator::MemberOutcome::Replied, None),
            (coordinator::MemberOutcome::HandedOver("bob".into()), None),
            (coordinator::MemberOutcome::Failed(failed()), Some("no")),
        ] {
            let report = MemberReport0_1::from(coordinator::Report { member: "ada".into(), outcome });
            let text = match &report.failure {
                Some(types::Error::Denied(text)) => Some(text.as_str()),
                _ => None,
            };
            assert_eq!((report.member.as_str(), text), ("ada", failure));
        }
    }

    #[test]
    fn coordinator_action_of_0_1_keeps_its_meaning() {
        let action = |action| coordinator::Step::from(CoordinatorStep0_1 { state: vec![], action }).action;
        let done = |answer| match action(CoordinatorAction0_1::Done(answer)) {
            coordinator::Action::Done(answer) => answer,
            other => panic!("{other:?}"),
        };
        assert!(matches!(done(None), coordinator::TeamAnswer::LastReply));
        let content = vec![types::Content::Text("a".into())];
        assert!(matches!(done(Some(content)), coordinator::TeamAnswer::Content(content) if content.len() == 1));
        let assigned = vec![coordinator::Assignment { member: "ada".into(), task: None }];
        let run = action(CoordinatorAction0_1::Run(assigned));
        assert!(matches!(run, coordinator::Action::Run(members) if members[0].member == "ada"));
    }
}
