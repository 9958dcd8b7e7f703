//! What a model is to the agent: something that completes a conversation.

mod completer;
mod scripted;
mod sink;

pub use completer::{Completer, Completion, CompletionRequest, ModelInfo, ToolChoice};
pub use scripted::ScriptedCompleter;
pub use sink::{DeltaSink, DeltaTarget};

pub use crate::chat::{Delta, StopReason, Usage};
