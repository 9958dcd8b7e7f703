use std::fmt;

use serde::{Deserialize, Serialize};

use super::or_default;

/// An address that is told of the updates of a task.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskPushNotificationConfig {
    /// The value that the interface of the agent card asks for.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The id, unique in the task; empty: the server makes one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// The task.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// The URL that gets the updates.
    #[serde(deserialize_with = "or_default")]
    pub url: String,
    /// A text by which the receiver knows that an update is meant for it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// The proof of the sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication: Option<PushAuthentication>,
}

impl TaskPushNotificationConfig {
    /// Returns the config without what proves the sender, as other clients may see it.
    pub fn without_secrets(&self) -> Self {
        let authentication = self
            .authentication
            .as_ref()
            .map(|own| PushAuthentication { scheme: own.scheme.clone(), credentials: String::new() });
        Self { token: String::new(), authentication, ..self.clone() }
    }
}

impl fmt::Debug for TaskPushNotificationConfig {
    /// Leaves out what proves the sender.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskPushNotificationConfig")
            .field("id", &self.id)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// The proof of the sender of updates: the parts of the header `authorization`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushAuthentication {
    /// The scheme, such as `Bearer`.
    #[serde(deserialize_with = "or_default")]
    pub scheme: String,
    /// The value in this scheme.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub credentials: String,
}

/// The parameters of `GetTaskPushNotificationConfig`, `ListTaskPushNotificationConfigs` and
/// `DeleteTaskPushNotificationConfig`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PushConfigParams {
    /// The value that the interface of the agent card asks for.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The task.
    #[serde(deserialize_with = "or_default")]
    pub task_id: String,
    /// The id of the config; empty in a list.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub id: String,
}

/// The result of `ListTaskPushNotificationConfigs`. There is one page, as a task has few of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListPushConfigsResult {
    /// The configs, in the order in which they were made.
    pub configs: Vec<TaskPushNotificationConfig>,
    /// The token of the next page; always empty.
    pub next_page_token: String,
}
