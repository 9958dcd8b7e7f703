use serde::{Deserialize, Serialize};

use super::{A2aArtifact, A2aMessage, A2aMetadata, or_default};

/// A task of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct A2aTask {
    /// The id, which the server has made.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// The conversation to which it belongs.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    /// The state.
    #[serde(deserialize_with = "or_default")]
    pub status: A2aTaskStatus,
    /// The results; `None`: they were not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<A2aArtifact>>,
    /// The messages so far, the oldest first.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<A2aMessage>,
    /// Further values.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "A2aMetadata::is_empty")]
    pub metadata: A2aMetadata,
}

/// The state of a task, and since when it is so.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct A2aTaskStatus {
    /// The state.
    #[serde(deserialize_with = "or_default")]
    pub state: A2aTaskState,
    /// Words about it: the question of a task that needs input, or the reason of a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<A2aMessage>,
    /// The time since when it is so, in RFC 3339.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub timestamp: String,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum A2aTaskState {
    /// Accepted, and not begun.
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    /// At work.
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    /// Done.
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    /// Ended with an error.
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    /// Ended because the client asked for it.
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    /// Waiting for a message of the client.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    /// Not accepted.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// Waiting until the client has authenticated itself at another place.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
    /// Unknown, or a state of a later version.
    #[default]
    #[serde(rename = "TASK_STATE_UNSPECIFIED", other)]
    Unspecified,
}

impl A2aTaskState {
    /// Returns `true` if the task is over.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Returns `true` if the task waits for its client.
    pub fn is_interrupted(self) -> bool {
        matches!(self, Self::InputRequired | Self::AuthRequired)
    }
}
