//! The built-in coordinators. Like those of plugins, each is a pure step that keeps everything it must remember in its
//! state.

mod handoff;
mod model;
mod on_rounds_end;
#[cfg(test)]
mod properties;
mod quote;
mod role_round_robin;
mod round_robin_until;
mod rounds;
mod step_checks;
mod stored_state;
#[cfg(test)]
mod testing;

pub use handoff::HandoffCoordinator;
pub(super) use handoff::words_of;
pub use model::{ModelCoordinator, ModelCoordinatorOptions};
pub use on_rounds_end::OnRoundsEnd;
pub use role_round_robin::RoleRoundRobin;
pub use round_robin_until::{RoundRobinUntil, StopCondition};
pub use rounds::{LoopCoordinator, SequenceCoordinator};
