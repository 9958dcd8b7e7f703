//! Teams: agents that work on one conversation, and what decides who works next.

mod coordinator;

pub use coordinator::{Action, Assignment, Coordinator, Fared, Moment, Profile, Report, Step};
