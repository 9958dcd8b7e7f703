//! Coordinators: decide which members of a team work next.
//!
//! The team's shared conversation is read through [`crate::chat`]. A coordinator returns the data that it needs in later
//! calls as state: [`state`] writes it and [`remembered`] reads it. The state is empty again when the team runs again.
//!
//! If the team's config sets `hand_over`, members have tools to hand over to each other: [`handed_over`] returns the
//! target.

#[doc(inline)]
pub use crate::bindings::coordinator::exports::shelly::plugin::coordinator::*;

/// The trait that a coordinator implements.
pub use crate::bindings::coordinator::exports::shelly::plugin::coordinator::Guest as Coordinator;

pub use crate::effect::{remembered, state};

/// Returns the member to whom a member of the last step hands over, and which should work next. Returns `None` if all
/// members of the last step have replied or failed. If several hand over, the last one in the order of selection counts.
pub fn handed_over(input: &CoordinatorInput) -> Option<String> {
    input.reports.iter().rev().find_map(|report| match &report.outcome {
        MemberOutcome::HandedOver(member) => Some(member.clone()),
        MemberOutcome::Replied | MemberOutcome::Failed(_) => None,
    })
}

impl Step {
    /// Starts these members in parallel.
    pub fn run(state: Vec<u8>, assignments: Vec<Assignment>) -> Step {
        Step { state, action: Action::Run(assignments) }
    }

    /// Ends the team's run with the last reply in the chat as its answer.
    pub fn done() -> Step {
        Step { state: Vec::new(), action: Action::Done(TeamAnswer::LastReply) }
    }

    /// Ends the team's run with this answer.
    pub fn answer(content: impl Into<Content>) -> Step {
        Step { state: Vec::new(), action: Action::Done(TeamAnswer::Content(vec![content.into()])) }
    }

    /// Asks a model. The host calls the coordinator again with the reply.
    pub fn ask(state: Vec<u8>, ask: crate::types::Ask) -> Step {
        Step { state, action: Action::AskModel(ask) }
    }
}

impl Assignment {
    /// Assigns this member without a task of its own: it sees what is new in the chat.
    pub fn of(member: impl Into<String>) -> Assignment {
        Assignment { member: member.into(), task: None }
    }

    /// Adds a task, which only this member sees.
    pub fn with_task(self, task: impl Into<String>) -> Assignment {
        Assignment { task: Some(task.into()), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Error, RunContext};

    #[test]
    fn last_member_that_hands_over_decides_who_continues() {
        let report = |member: &str, outcome| Report { member: member.into(), outcome };
        let to = |member: &str| MemberOutcome::HandedOver(member.into());
        let failed = || MemberOutcome::Failed(Error::Other("no".into()));
        for (reports, next) in [
            (vec![], None),
            (vec![report("ada", MemberOutcome::Replied), report("bob", failed())], None),
            (vec![report("ada", to("bob")), report("eve", MemberOutcome::Replied)], Some("bob")),
            (vec![report("ada", to("bob")), report("eve", to("ada"))], Some("ada")),
        ] {
            let cx = RunContext { run: "run".into(), agent: "team".into(), depth: 0 };
            let input = CoordinatorInput { cx, step: 1, members: vec![], reports, reply: None };
            assert_eq!(handed_over(&input).as_deref(), next, "{input:?}");
        }
    }
}
