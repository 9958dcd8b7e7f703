//! Teams: agents that work on one conversation, with a coordinator that decides which of them work next.
//!
//! A [`Team`] is a [`Runner`](crate::agent::Runner) like an agent: members can be teams, and a team can be delegated to.
//! `team_run.rs` drives its runs: the [`Coordinator`] decides, the members of the step receive the new messages and work
//! side by side, and their replies are added to the shared conversation.

mod coordinator;
mod coordinators;
mod members;
#[expect(clippy::module_inception, reason = "the type that the module is named after")]
mod team;
mod team_chat_mode;
mod team_run;
mod transfer_tools;

pub use coordinator::{
    Coordinator, CoordinatorAction, CoordinatorInput, CoordinatorStep, MemberAssignment, MemberOutcome, MemberProfile,
    MemberReport,
};
pub use coordinators::{
    HandoffCoordinator, LoopCoordinator, ModelCoordinator, ModelCoordinatorOptions, OnRoundsEnd, RoleRoundRobin,
    RoundRobinUntil, SequenceCoordinator, StopCondition,
};
pub use members::{JoinError, Member, Members};
pub use team::Team;
pub use team_chat_mode::TeamChatMode;
