use serde::{Deserialize, Serialize};

use crate::capability::BudgetUsage;

/// A task that an agent gives to an agent of another host, so that a resumed run finds it again. A later record of the same
/// entry replaces an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoteTaskRecord {
    /// The newest message of the conversation when the task was given, by its id there.
    pub entry: u64,
    /// The id of the message that gave the task: the other host takes it once.
    pub message: String,
    /// The id of the task at the other host; `None` until it has answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The cost of the task, once it is over and the other host has said it. It counts as spent by the run that gave the
    /// task from this record on, and not before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<BudgetUsage>,
    /// The number of messages to the run that were passed on to the agent of the other host with this record: the first ones
    /// that the run had not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub passed_on: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}
