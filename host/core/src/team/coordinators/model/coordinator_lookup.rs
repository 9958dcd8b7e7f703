use serde::{Deserialize, Serialize};

/// Information that a model requests before it decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoordinatorLookup {
    /// The status of the members.
    Status,
    /// A page of the messages before those that are shown; the first page has the newest ones.
    Older(u32),
}
