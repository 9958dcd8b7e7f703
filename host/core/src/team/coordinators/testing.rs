//! Helpers shared by the tests of all coordinators.

use std::sync::LazyLock;

use super::super::{Coordinator, CoordinatorAction, CoordinatorInput, MemberProfile};
use crate::{
    chat::{ChatSnapshot, Part},
    error::Fault,
    event::RunCx,
};

/// Returns the input of the first call of a run with an empty conversation.
pub fn moment(members: &[MemberProfile]) -> CoordinatorInput<'_> {
    static NOTHING: LazyLock<ChatSnapshot> = LazyLock::new(ChatSnapshot::default);
    CoordinatorInput { step: 0, shared: &NOTHING, members, reports: &[], active: None, reply: None }
}

/// Returns members from `name:role` pairs; a name alone has the role `member`.
pub fn profiles(all: &str) -> Vec<MemberProfile> {
    let profile = |one: &str| {
        let (name, role) = one.split_once(':').unwrap_or((one, "member"));
        MemberProfile { name: name.into(), role: role.into(), description: format!("is good at {role}").into() }
    };
    all.split_whitespace().map(profile).collect()
}

pub fn cx() -> RunCx {
    RunCx::new("team")
}

/// Returns the action of a coordinator in a word.
pub fn shown(action: Result<&CoordinatorAction, &Fault>) -> String {
    match action {
        Ok(CoordinatorAction::Run(run)) => run.iter().map(|one| one.member.to_string()).collect::<Vec<_>>().join("+"),
        Ok(CoordinatorAction::Done(None)) => "done".into(),
        Ok(CoordinatorAction::Done(Some(parts))) => match &parts[..] {
            [Part::Text(text)] => format!("done: {text}"),
            parts => format!("done: {parts:?}"),
        },
        Ok(CoordinatorAction::Ask(_)) => "ask".into(),
        Err(Fault::Exhausted { .. }) => "exhausted".into(),
        Err(fault) => format!("error: {fault}"),
    }
}

/// Returns the actions of a coordinator with these members, step by step, until it is done or fails.
pub async fn play(coordinator: &dyn Coordinator, members: &[&str]) -> String {
    let (mut state, mut told) = (Vec::new(), Vec::new());
    for (step, members) in (0..).zip(members) {
        let members = profiles(members);
        let next = coordinator.next(&cx(), &CoordinatorInput { step, ..moment(&members) }, state).await;
        told.push(shown(next.as_ref().map(|step| &step.action)));
        match next {
            Ok(next) if matches!(next.action, CoordinatorAction::Run(_)) => state = next.state,
            _ => break,
        }
    }
    told.join(", ")
}
