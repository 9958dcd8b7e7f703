//! What the tests of all coordinators share.

use std::sync::LazyLock;

use super::super::{Action, Coordinator, Moment, Profile};
use crate::{
    chat::{Part, Snapshot},
    error::Fault,
    event::RunCx,
};

/// The first call of a run in which nobody has said anything.
pub fn moment(members: &[Profile]) -> Moment<'_> {
    static NOTHING: LazyLock<Snapshot> = LazyLock::new(Snapshot::default);
    Moment { step: 0, shared: &NOTHING, members, reports: &[], active: None, reply: None }
}

/// `name:role` each, or a name alone, whose role is `member`.
pub fn profiles(all: &str) -> Vec<Profile> {
    let profile = |one: &str| {
        let (name, role) = one.split_once(':').unwrap_or((one, "member"));
        Profile { name: name.into(), role: role.into(), description: format!("is good at {role}").into() }
    };
    all.split_whitespace().map(profile).collect()
}

pub fn cx() -> RunCx {
    RunCx::new("team")
}

/// What a coordinator does, in a word.
pub fn shown(action: Result<&Action, &Fault>) -> String {
    match action {
        Ok(Action::Run(run)) => run.iter().map(|one| one.member.to_string()).collect::<Vec<_>>().join("+"),
        Ok(Action::Done(None)) => "done".into(),
        Ok(Action::Done(Some(parts))) => match &parts[..] {
            [Part::Text(text)] => format!("done: {text}"),
            parts => format!("done: {parts:?}"),
        },
        Ok(Action::Ask(_)) => "ask".into(),
        Err(Fault::Exhausted { .. }) => "exhausted".into(),
        Err(fault) => format!("error: {fault}"),
    }
}

/// What it does with these members, one step after the other, until it is done or fails.
pub async fn play(coordinator: &dyn Coordinator, members: &[&str]) -> String {
    let (mut state, mut told) = (Vec::new(), Vec::new());
    for (step, members) in (0..).zip(members) {
        let members = profiles(members);
        let next = coordinator.next(&cx(), &Moment { step, ..moment(&members) }, state).await;
        told.push(shown(next.as_ref().map(|step| &step.action)));
        match next {
            Ok(next) if matches!(next.action, Action::Run(_)) => state = next.state,
            _ => break,
        }
    }
    told.join(", ")
}
