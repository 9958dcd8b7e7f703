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

use crate::{
    chat::{self, Entry, Traits},
    types::Role,
};

/// Returns the member to whom a member of the last step hands over, and which should work next. Returns `None` if all
/// members of the last step have replied or failed. If several hand over, the last one in the order of selection counts.
pub fn handed_over(moment: &Moment) -> Option<String> {
    let is_said = |entry: &Entry| entry.role != Role::User || entry.traits.contains(Traits::NOTE);
    let ended: Vec<&str> =
        moment.reports.iter().filter(|one| one.failure.is_none()).map(|one| one.member.as_str()).collect();
    // Each member of the step ended with one message at the end of the chat. Messages that a person has sent meanwhile
    // come after those.
    let newest = chat::newest(chat::length()).skip_while(|(_, entry)| !is_said(entry)).take(ended.len());
    let notes = newest.filter(|(_, entry)| entry.traits.contains(Traits::NOTE)).filter_map(|(at, _)| chat::message(at));
    let mut of_step = notes.filter(|note| ended.contains(&note.sender.as_str()));
    of_step.find_map(|note| note.hand_over().map(str::to_owned))
}

impl Step {
    /// Starts these members in parallel.
    pub fn run(state: Vec<u8>, assignments: Vec<Assignment>) -> Step {
        Step { state, action: Action::Run(assignments) }
    }

    /// Ends the team's run with the last reply in the chat as its answer.
    pub fn done() -> Step {
        Step { state: Vec::new(), action: Action::Done(None) }
    }

    /// Ends the team's run with this answer.
    pub fn answer(content: impl Into<Content>) -> Step {
        Step { state: Vec::new(), action: Action::Done(Some(vec![content.into()])) }
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
