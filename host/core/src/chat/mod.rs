//! The conversation: the message types that all higher layers share, and the log that holds them.
//!
//! [`Chat`] keeps invariant 3: a transcript is always valid. A reply with tool calls is appended through
//! [`Chat::reply`], which returns a guard; however the guard is dropped, every call has exactly one result after it.

mod base64_serde;
mod change;
#[expect(clippy::module_inception, reason = "the type that the module is named after")]
mod chat;
mod chat_entry;
mod conversation_budget;
mod edit;
mod entries;
mod full_results;
mod log;
mod message;
mod open_calls;
mod property_names;
mod recording;
mod reply;
mod side_chats;
mod snapshot;
#[cfg(test)]
mod tests;
mod tool;

pub(crate) use base64_serde::as_base64;
pub use change::{ChatChange, ChatEntryRecord};
pub use chat::Chat;
pub(crate) use chat::WeakChat;
pub use chat_entry::ChatEntry;
pub use conversation_budget::ConversationBudget;
pub use edit::{ChatEditError, MessageReplacement};
pub use message::{BYTES_PER_TOKEN, UNREAD_CALL};
pub use message::{Media, MediaData, Message, MessageMeta, OpaqueContent, Part, Role, ThinkingPart};
pub use open_calls::OpenCalls;
pub use property_names::PropertyNames;
pub use property_names::name_with_digest;
pub use reply::{ReplyDelta, StopReason, Usage};
pub use snapshot::ChatSnapshot;
pub use tool::{ToolCall, ToolHints, ToolResult, ToolResultContent, ToolSpec};
