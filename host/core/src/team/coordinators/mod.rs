//! The built-in coordinators. Like those of plugins, each is a pure step that keeps everything it must remember in its
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

/// The meaning of the end of all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRoundsEnd {
    /// The team is done; its answer is the last message.
    Done,
    /// The team should have been done before: [`Fault::Exhausted`].
    Fail,
}

/// Reads the state that a coordinator returned in its last call; the default in the first call of a run.
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

/// Checks that there are members, and that the team may take another step.
fn check(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    check_members(moment)?;
    check_steps(moment)
}

/// Checks that there are members.
fn check_members(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    match moment.members.is_empty() {
        true => Err(Fault::NotFound { message: "the team has no members".into() }),
        false => Ok(()),
    }
}

/// Checks that the team may take another step; only called if it is not done.
fn check_steps(moment: &CoordinatorInput<'_>) -> Result<(), Fault> {
    match moment.step < limits::TEAM_STEPS {
        true => Ok(()),
        false => Err(exhausted(format!("the team has taken {} steps and is not done", moment.step))),
    }
}

fn exhausted(message: String) -> Fault {
    Fault::Exhausted { message }
}

/// Lists the members for an error message, at most [`limits::NAMES_SHOWN`] of them.
fn names(members: &[MemberProfile]) -> String {
    let shown: Vec<_> = members.iter().take(limits::NAMES_SHOWN).map(|member| format!("`{}`", member.name)).collect();
    match members.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
