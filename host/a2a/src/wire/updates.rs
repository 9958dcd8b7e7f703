use serde::{Deserialize, Serialize};

use super::{A2aArtifact, A2aMessage, A2aMetadata, A2aTask, A2aTaskStatus, or_default};

/// A new state of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskStatusUpdate {
    /// The task.
    #[serde(deserialize_with = "or_default")]
    pub task_id: String,
    /// Its conversation.
    #[serde(deserialize_with = "or_default")]
    pub context_id: String,
    /// The state.
    #[serde(deserialize_with = "or_default")]
    pub status: A2aTaskStatus,
    /// Further values.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "A2aMetadata::is_empty")]
    pub metadata: A2aMetadata,
}

/// A result of a task, or a piece of one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskArtifactUpdate {
    /// The task.
    #[serde(deserialize_with = "or_default")]
    pub task_id: String,
    /// Its conversation.
    #[serde(deserialize_with = "or_default")]
    pub context_id: String,
    /// The result.
    #[serde(deserialize_with = "or_default")]
    pub artifact: A2aArtifact,
    /// `true` if the parts follow those of the artifact of the same id; `false` if they replace it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub append: bool,
    /// `true` for the last piece.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub last_chunk: bool,
    /// Further values.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "A2aMetadata::is_empty")]
    pub metadata: A2aMetadata,
}

/// One item of the stream of a task. It is written as an object with one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TaskStreamItem {
    /// The task as it is now: the first item.
    Task(Box<A2aTask>),
    /// The whole answer of an agent that makes no task of it: the only item.
    Message(Box<A2aMessage>),
    /// A new state.
    StatusUpdate(Box<TaskStatusUpdate>),
    /// A result.
    ArtifactUpdate(Box<TaskArtifactUpdate>),
}

/// The result of sending a message. It is written as an object with one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SendMessageResult {
    /// The task that the message began or belongs to.
    Task(Box<A2aTask>),
    /// The whole answer of an agent that makes no task of it.
    Message(Box<A2aMessage>),
}
