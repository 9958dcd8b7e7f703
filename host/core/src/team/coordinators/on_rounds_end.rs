use serde::{Deserialize, Serialize};

/// The meaning of the end of all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRoundsEnd {
    /// The team is done; its answer is the last message.
    Done,
    /// The team should have been done before: [`Fault::Exhausted`](crate::error::Fault::Exhausted).
    Fail,
}
