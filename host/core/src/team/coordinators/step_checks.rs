use super::super::{CoordinatorInput, MemberProfile};
use crate::{error::Fault, limits};

/// Checks that there are members, and that the team may take another step.
pub(super) fn check(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    check_members(moment)?;
    check_steps(moment)
}

/// Checks that there are members.
pub(super) fn check_members(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    match moment.members.is_empty() {
        true => Err(Fault::NotFound { message: "the team has no members".into() }),
        false => Ok(()),
    }
}

/// Checks that the team may take another step; only called if it is not done.
pub(super) fn check_steps(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    match moment.step < limits::TEAM_STEPS {
        true => Ok(()),
        false => Err(exhausted(format!("the team has reached its maximum of {} steps and is not done", moment.step))),
    }
}

/// Returns the fault for too many rounds or steps.
pub(super) fn exhausted(message: String) -> Fault {
    Fault::Exhausted { message }
}

/// Lists the members for an error message, at most [`limits::NAMES_SHOWN`] of them.
pub(super) fn names(members: &[MemberProfile]) -> String {
    let shown: Vec<_> = members.iter().take(limits::NAMES_SHOWN).map(|member| format!("`{}`", member.name)).collect();
    match members.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
