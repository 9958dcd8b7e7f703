//! Coordinators: decide who in a team works next.
//!
//! The conversation that the team shares is read through [`crate::chat`]. What a coordinator must remember it returns as
//! state: [`state`] makes it and [`remembered`] reads it. It is empty again when the team runs again.
//!
//! Where the team's config says `hand_over`, members have tools to hand over to each other: [`handed_over`] finds to whom.

#[doc(inline)]
pub use crate::bindings::coordinator::exports::shelly::plugin::coordinator::*;

/// The trait of this kind.
pub use crate::bindings::coordinator::exports::shelly::plugin::coordinator::Guest as Coordinator;

pub use crate::effect::{remembered, state};

use crate::{
    chat::{self, Entry, Traits},
    types::Role,
};

/// Returns the member to whom a member of the last step hands over, which should work next; none if all of them have
/// replied or failed. Of several the one that was selected last counts.
pub fn handed_over(moment: &Moment) -> Option<String> {
    let is_said = |entry: &Entry| entry.role != Role::User || entry.traits.contains(Traits::NOTE);
    let ended: Vec<&str> =
        moment.reports.iter().filter(|one| one.failure.is_none()).map(|one| one.member.as_str()).collect();
    // Each has come to the end of the chat with one message; what a person has sent meanwhile stands behind them.
    let newest = chat::newest(chat::length()).skip_while(|(_, entry)| !is_said(entry)).take(ended.len());
    let notes = newest.filter(|(_, entry)| entry.traits.contains(Traits::NOTE)).filter_map(|(at, _)| chat::message(at));
    let mut of_step = notes.filter(|note| ended.contains(&note.sender.as_str()));
    of_step.find_map(|note| note.hand_over().map(str::to_owned))
}

impl Step {
    /// These work now, side by side.
    pub fn run(state: Vec<u8>, assignments: Vec<Assignment>) -> Step {
        Step { state, action: Action::Run(assignments) }
    }

    /// The team is done, with the last reply in the chat.
    pub fn done() -> Step {
        Step { state: Vec::new(), action: Action::Done(None) }
    }

    /// The team is done, with this answer.
    pub fn answer(content: impl Into<Content>) -> Step {
        Step { state: Vec::new(), action: Action::Done(Some(vec![content.into()])) }
    }

    /// Asks a model; the coordinator is called again with the reply.
    pub fn ask(state: Vec<u8>, ask: crate::types::Ask) -> Step {
        Step { state, action: Action::AskModel(ask) }
    }
}

impl Assignment {
    /// This member, without a task of its own: it sees what is new in the chat.
    pub fn of(member: impl Into<String>) -> Assignment {
        Assignment { member: member.into(), task: None }
    }

    /// The same with this task, which it sees alone.
    pub fn with_task(self, task: impl Into<String>) -> Assignment {
        Assignment { task: Some(task.into()), ..self }
    }
}
