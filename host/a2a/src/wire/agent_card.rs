use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{A2aMetadata, or_default};

/// The description of an agent, which its server publishes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// The name, for people.
    pub name: String,
    /// The purpose of the agent.
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    /// The addresses at which it is reached; the first one is preferred.
    #[serde(default, deserialize_with = "or_default")]
    pub supported_interfaces: Vec<AgentInterface>,
    /// The version of the agent.
    #[serde(default, deserialize_with = "or_default")]
    pub version: String,
    /// The optional parts of the protocol that it has.
    #[serde(default, deserialize_with = "or_default")]
    pub capabilities: AgentCapabilities,
    /// The ways in which clients may authenticate themselves, by name.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, CardSecurityScheme>,
    /// The schemes that a client must satisfy; one of these is enough.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<CardSecurityRequirement>,
    /// The media types that it takes.
    #[serde(default, deserialize_with = "or_default")]
    pub default_input_modes: Vec<String>,
    /// The media types that it returns.
    #[serde(default, deserialize_with = "or_default")]
    pub default_output_modes: Vec<String>,
    /// The things that it can do.
    #[serde(default, deserialize_with = "or_default")]
    pub skills: Vec<AgentCardSkill>,
}

/// An address of an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    /// The URL.
    #[serde(default, deserialize_with = "or_default")]
    pub url: String,
    /// The binding that is spoken there, as [`ProtocolBinding::name`] writes it; others exist.
    #[serde(default, deserialize_with = "or_default")]
    pub protocol_binding: String,
    /// The value that each request there must have as its `tenant`.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The version that is spoken there, such as `1.0`.
    #[serde(default, deserialize_with = "or_default")]
    pub protocol_version: String,
}

/// A way in which the operations of the protocol are sent over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtocolBinding {
    /// JSON-RPC 2.0 at one address.
    JsonRpc,
    /// A path for each operation.
    HttpJson,
}

impl ProtocolBinding {
    /// Returns the name in an [`AgentInterface`].
    pub fn name(self) -> &'static str {
        match self {
            Self::JsonRpc => "JSONRPC",
            Self::HttpJson => "HTTP+JSON",
        }
    }
}

/// The optional parts of the protocol that an agent has.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCapabilities {
    /// `true` if it sends updates of a task as a stream.
    #[serde(deserialize_with = "or_default")]
    pub streaming: bool,
    /// `true` if it sends updates of a task to an address of the client.
    #[serde(deserialize_with = "or_default")]
    pub push_notifications: bool,
    /// `true` if it has another card for clients that have authenticated themselves.
    #[serde(deserialize_with = "or_default")]
    pub extended_agent_card: bool,
    /// The extensions of the protocol that it knows.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<AgentExtension>,
}

/// An extension of the protocol that an agent knows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentExtension {
    /// Identifies the extension.
    #[serde(deserialize_with = "or_default")]
    pub uri: String,
    /// The use that the agent makes of it.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// `true` if clients must know it too.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Settings of the extension.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "A2aMetadata::is_empty")]
    pub params: A2aMetadata,
}

/// Something that an agent can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentCardSkill {
    /// Identifies the skill.
    #[serde(deserialize_with = "or_default")]
    pub id: String,
    /// The name, for people.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The description.
    #[serde(deserialize_with = "or_default")]
    pub description: String,
    /// Keywords.
    #[serde(deserialize_with = "or_default")]
    pub tags: Vec<String>,
    /// Examples of tasks.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
}

/// A way in which clients may authenticate themselves. Each but HTTP authentication is read as none of its fields.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CardSecurityScheme {
    /// HTTP authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_auth_security_scheme: Option<HttpAuthSecurityScheme>,
}

/// HTTP authentication by the header `Authorization`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpAuthSecurityScheme {
    /// The name of the scheme in the header, such as `Bearer`.
    #[serde(deserialize_with = "or_default")]
    pub scheme: String,
    /// The description.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// Schemes of which a client must satisfy all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CardSecurityRequirement {
    /// The scopes that are needed, by the name of the scheme.
    #[serde(deserialize_with = "or_default")]
    pub schemes: BTreeMap<String, RequiredScopes>,
}

/// The scopes of a scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequiredScopes {
    /// The scopes; empty for a scheme without them.
    #[serde(deserialize_with = "or_default")]
    pub list: Vec<String>,
}
