use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{A2aMetadata, or_default};

/// The sender of a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum A2aRole {
    /// The client.
    #[serde(rename = "ROLE_USER")]
    User,
    /// The server.
    #[serde(rename = "ROLE_AGENT")]
    Agent,
    /// Nobody in particular.
    #[default]
    #[serde(rename = "ROLE_UNSPECIFIED", other)]
    Unspecified,
}

/// A message of a client to an agent, or of an agent to a client.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct A2aMessage {
    /// The id, which its sender has made.
    #[serde(deserialize_with = "or_default")]
    pub message_id: String,
    /// The conversation to which it belongs; empty: a new one, or that of the task.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub context_id: String,
    /// The task to which it belongs; empty: a new one.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub task_id: String,
    /// The sender.
    #[serde(deserialize_with = "or_default")]
    pub role: A2aRole,
    /// The content.
    #[serde(deserialize_with = "or_default")]
    pub parts: Vec<A2aPart>,
    /// Further values.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "A2aMetadata::is_empty")]
    pub metadata: A2aMetadata,
    /// The extensions that contributed to it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    /// Other tasks that it is about.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub reference_task_ids: Vec<String>,
}

impl A2aMessage {
    /// Returns a message of an agent with this text.
    pub fn of_agent(message_id: impl Into<String>, text: impl Into<String>) -> Self {
        let parts = vec![A2aPart::text(text)];
        Self { message_id: message_id.into(), role: A2aRole::Agent, parts, ..Self::default() }
    }

    /// Returns the text parts, one after the other on lines of their own.
    pub fn text(&self) -> String {
        joined_text(&self.parts)
    }
}

/// Returns the text parts of these, one after the other on lines of their own.
pub(crate) fn joined_text(parts: &[A2aPart]) -> String {
    let texts = parts.iter().filter_map(|part| match &part.content {
        A2aPartContent::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// A part of a message or of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aPart {
    /// The content.
    #[serde(flatten)]
    pub content: A2aPartContent,
    /// The media type of the content.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    /// The name of the content, if it is a file.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub filename: String,
    /// Further values.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "A2aMetadata::is_empty")]
    pub metadata: A2aMetadata,
}

/// The content of a part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum A2aPartContent {
    /// Text.
    Text(String),
    /// The bytes of a file, in base64.
    Raw(String),
    /// The address of a file.
    Url(String),
    /// A JSON value.
    Data(Value),
}

impl A2aPart {
    /// Returns a part with this content and nothing else.
    pub fn of(content: A2aPartContent) -> Self {
        Self { content, media_type: String::new(), filename: String::new(), metadata: A2aMetadata::new() }
    }

    /// Returns a part of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(A2aPartContent::Text(text.into()))
    }
}
