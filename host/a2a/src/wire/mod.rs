//! The objects of the protocol, as JSON has them.
//!
//! The names of fields are those of `specification/a2a.proto` in lower camel case, and those of enums as they stand there
//! (ProtoJSON). Unknown fields are ignored, and `null` is an absent field. A field that has its default is not written.

mod agent_card;
mod artifact;
mod message;
mod open_fields;
mod push_notification;
mod requests;
mod task;
mod updates;

pub use agent_card::{
    AgentCapabilities, AgentCard, AgentCardSkill, AgentExtension, AgentInterface, CardSecurityRequirement,
    CardSecurityScheme, HttpAuthSecurityScheme, ProtocolBinding, RequiredScopes,
};
pub use artifact::A2aArtifact;
pub use message::{A2aMessage, A2aPart, A2aPartContent, A2aRole};
pub use open_fields::A2aMetadata;
pub(crate) use open_fields::or_default;
pub use push_notification::{ListPushConfigsResult, PushAuthentication, PushConfigParams, TaskPushNotificationConfig};
pub use requests::{
    ListTasksParams, ListTasksResult, SendMessageConfiguration, SendMessageParams, TaskIdParams, TaskQueryParams,
};
pub use task::{A2aTask, A2aTaskState, A2aTaskStatus};
pub use updates::{SendMessageResult, TaskArtifactUpdate, TaskStatusUpdate, TaskStreamItem};
