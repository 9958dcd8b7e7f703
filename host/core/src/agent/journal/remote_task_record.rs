use serde::{Deserialize, Serialize};

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
}
