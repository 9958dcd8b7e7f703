//! The objects of the protocol, as JSON has them.
//!
//! The names of fields are those of `specification/a2a.proto` in lower camel case, and those of enums as they stand there
//! (ProtoJSON). Unknown fields are ignored, and `null` is an absent field. A field that has its default is not written.

mod agent_card;
mod artifact;
mod message;
mod requests;
mod task;
mod updates;

pub use agent_card::{
    AgentCapabilities, AgentCard, AgentCardSkill, AgentExtension, AgentInterface, CardSecurityRequirement,
    CardSecurityScheme, HttpAuthSecurityScheme, ProtocolBinding, RequiredScopes,
};
pub use artifact::A2aArtifact;
pub use message::{A2aMessage, A2aPart, A2aPartContent, A2aRole};
pub use requests::{
    ListTasksParams, ListTasksResult, SendMessageConfiguration, SendMessageParams, TaskIdParams, TaskQueryParams,
};
pub use task::{A2aTask, A2aTaskState, A2aTaskStatus};
pub use updates::{SendMessageResult, TaskArtifactUpdate, TaskStatusUpdate, TaskStreamItem};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// Values under names that the protocol leaves open.
pub type A2aMetadata = Map<String, Value>;

/// Deserializes a field that may be `null`, which means its default.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}
