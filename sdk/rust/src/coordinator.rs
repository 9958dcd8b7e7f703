//! Coordinators: decide who in a team works next.
//!
//! The conversation that the team shares is read through [`crate::chat`]. What a coordinator must remember it returns as
//! state: [`state`] makes it and [`remembered`] reads it. It is empty again when the team runs again.

#[doc(inline)]
pub use crate::bindings::coordinator::exports::shelly::plugin::coordinator::*;

/// The trait of this kind.
pub use crate::bindings::coordinator::exports::shelly::plugin::coordinator::Guest as Coordinator;

pub use crate::effect::{remembered, state};

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
