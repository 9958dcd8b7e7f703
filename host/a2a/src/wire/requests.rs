use serde::{Deserialize, Serialize};

use super::{A2aMessage, A2aMetadata, A2aTask, A2aTaskState, TaskPushNotificationConfig, or_default};

/// The parameters of `SendMessage` and `SendStreamingMessage`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SendMessageParams {
    /// The value that the interface of the agent card asks for.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The message.
    #[serde(deserialize_with = "or_default")]
    pub message: A2aMessage,
    /// Options.
    #[serde(deserialize_with = "or_default")]
    pub configuration: SendMessageConfiguration,
    /// Further values.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "A2aMetadata::is_empty")]
    pub metadata: A2aMetadata,
}

/// The options of a message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SendMessageConfiguration {
    /// The media types that the client can use.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub accepted_output_modes: Vec<String>,
    /// The address that is told of updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_push_notification_config: Option<TaskPushNotificationConfig>,
    /// The maximum number of messages of the history in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
    /// `true` if the answer comes at once; `false` if it comes when the task is over or waits for its client.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub return_immediately: bool,
}

/// The parameters of `GetTask`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskQueryParams {
    /// The value that the interface of the agent card asks for.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The task.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// The maximum number of messages of the history in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
}

/// The parameters of `CancelTask` and `SubscribeToTask`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskIdParams {
    /// The value that the interface of the agent card asks for.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The task.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
}

/// The parameters of `ListTasks`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasksParams {
    /// The value that the interface of the agent card asks for.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The conversation of the tasks; empty: any.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    /// The state of the tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<A2aTaskState>,
    /// The maximum number of tasks in the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// The place at which the answer begins: the `nextPageToken` of the one before.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub page_token: String,
    /// The maximum number of messages of each history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_length: Option<u32>,
    /// The earliest time of the state, in RFC 3339.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub status_timestamp_after: String,
    /// `true` if results are in the answer.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub include_artifacts: bool,
}

/// The result of `ListTasks`. All fields are always written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListTasksResult {
    /// The tasks, the one with the newest state first.
    pub tasks: Vec<A2aTask>,
    /// The `page_token` of the next page; empty after the last one.
    pub next_page_token: String,
    /// The maximum number of tasks of this page.
    pub page_size: u32,
    /// The number of tasks on all pages.
    pub total_size: u32,
}
