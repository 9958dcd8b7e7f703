use serde::{Deserialize, Serialize};

use super::{A2aMetadata, A2aPart, message::joined_text, or_default};

/// A result of a task.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct A2aArtifact {
    /// The id, unique in its task.
    #[serde(deserialize_with = "or_default")]
    pub artifact_id: String,
    /// The name, for people.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The description.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The content.
    #[serde(deserialize_with = "or_default")]
    pub parts: Vec<A2aPart>,
    /// Further values.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "A2aMetadata::is_empty")]
    pub metadata: A2aMetadata,
}

impl A2aArtifact {
    /// Returns the text parts, one after the other on lines of their own.
    pub fn text(&self) -> String {
        joined_text(&self.parts)
    }
}
