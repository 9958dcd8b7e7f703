//! The coordinators that are no plugins. Like those that are, each is a pure step: what it must remember is in its
//! state.

mod hand_off;
mod model;
#[cfg(test)]
mod properties;
mod quote;
mod role_round_robin;
mod round_robin_until;
mod rounds;
#[cfg(test)]
mod testing;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{CoordinatorInput, MemberProfile};
use crate::{error::Fault, limits};

pub use hand_off::HandOffCoordinator;
pub(super) use hand_off::words_of;
pub use model::{ModelCoordinator, ModelCoordinatorOptions};
pub use role_round_robin::RoleRoundRobin;
pub use round_robin_until::{RoundRobinUntil, StopCondition};
pub use rounds::{LoopCoordinator, SequenceCoordinator};

/// What it means that all rounds are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRoundsEnd {
    /// The team is done; its answer is the last message.
    Done,
    /// It should have been done before: [`Fault::Exhausted`].
    Fail,
}

/// What a coordinator wrote in its last call; the beginning in the first call of a run.
fn read<T: Default + DeserializeOwned>(state: &[u8]) -> Result<T, Fault> {
    if state.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(state).map_err(|error| unreadable(&error.to_string()))
}

fn unreadable(why: &str) -> Fault {
    Fault::other(format!("the state of the coordinator cannot be read: {why}"))
}

fn write<T: Serialize>(state: &T) -> Result<Vec<u8>, Fault> {
    bounded(serde_json::to_vec(state).expect("a state is JSON"))
}

fn bounded(state: Vec<u8>) -> Result<Vec<u8>, Fault> {
    match state.len() <= limits::STATE_BYTES {
        true => Ok(state),
        false => Err(Fault::TooLarge {
            message: format!(
                "the state of the coordinator has {} bytes, at most {} are kept",
                state.len(),
                limits::STATE_BYTES
            ),
        }),
    }
}

/// Whether anybody can be chosen, and the team may take another step.
fn check(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    check_members(moment)?;
    check_steps(moment)
}

/// Whether anybody can be chosen.
fn check_members(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    match moment.members.is_empty() {
        true => Err(Fault::NotFound { message: "the team has no members".into() }),
        false => Ok(()),
    }
}

/// Whether the team may take another step: for who is not done.
fn check_steps(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    match moment.step < limits::TEAM_STEPS {
        true => Ok(()),
        false => Err(exhausted(format!("the team has taken {} steps and is not done", moment.step))),
    }
}

fn exhausted(message: String) -> Fault {
    Fault::Exhausted { message }
}

/// Who there is, for an error: not more names than anybody reads.
fn names(members: &[MemberProfile]) -> String {
    let shown: Vec<_> = members.iter().take(limits::NAMES_SHOWN).map(|member| format!("`{}`", member.name)).collect();
    match members.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
