//! The conversation: the words that everything above shares, and the log that holds them.
//!
//! [`Chat`] keeps invariant 3: a transcript is always valid. A reply with tool calls is appended through
//! [`Chat::reply`], which returns a guard; however the guard goes away, every call has exactly one result after it.

mod beside;
mod bytes;
mod change;
mod edit;
mod entries;
mod kept;
mod log;
mod message;
mod open;
mod property_names;
mod reply;
mod run_bytes;
mod snapshot;
#[cfg(test)]
mod tests;
mod tool;

pub(crate) use beside::SideChat;
pub(crate) use bytes::as_base64;
pub use change::{ChatChange, ChatEntryRecord};
pub use edit::{ChatEditError, MessageReplacement};
pub use log::Chat;
pub(crate) use log::WeakChat;
pub(crate) use message::{BYTES_PER_TOKEN, UNREAD_CALL};
pub use message::{Media, MediaData, Message, MessageMeta, OpaqueContent, Part, Role, ThinkingPart};
pub use open::OpenCalls;
pub use property_names::PropertyNames;
pub(crate) use property_names::name_with_digest;
pub use reply::{ReplyDelta, StopReason, Usage};
pub use run_bytes::ConversationBudget;
pub use snapshot::{ChatEntry, ChatSnapshot};
pub use tool::{ToolCall, ToolHints, ToolResult, ToolResultContent, ToolSpec};
