use crate::{
    chat::{ChatEntry, ChatSnapshot, Role},
    error::Fault,
    model::{CompletionRequest, ModelInfo},
};

/// A request that was not sent, or was refused, because it exceeds the model's window.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the next request needs an estimated {tokens} tokens, but the window of model `{}` is {window}: {fixed} are \
     instructions and tools, {unread} are messages that the model has not read yet",
    .model.escape_debug()
)]
pub struct WindowExceeded {
    /// The model's name in the config.
    pub model: String,
    /// Estimated tokens of the request.
    pub tokens: u64,
    /// The model's window, in tokens.
    pub window: u64,
    /// Tokens of the system prompt and the tools.
    pub fixed: u64,
    /// Tokens of the messages since the model's newest reply, which are never dropped.
    pub unread: u64,
    /// The server's refusal, if the request was sent; the window is learned from it.
    #[source]
    pub refusal: Option<Fault>,
}

impl WindowExceeded {
    pub(crate) fn new(info: &ModelInfo, request: &CompletionRequest, window: u64, refusal: Option<Fault>) -> Self {
        let tokens = request.tokens();
        let of_tools = tokens - request.messages.tokens();
        let is_prompt = |entry: &&ChatEntry| entry.message.role == Role::System;
        let prompt = request.messages.iter().take_while(is_prompt).map(|entry| u64::from(entry.tokens)).sum::<u64>();
        let unread = unread(&request.messages).iter().map(|entry| u64::from(entry.tokens)).sum();
        Self { model: info.name.clone(), tokens, window, fixed: of_tools + prompt, unread, refusal }
    }
}

/// Returns the messages since the model's newest reply, without the system prompt.
pub(crate) fn unread(chat: &ChatSnapshot) -> Vec<&ChatEntry> {
    let since = chat.iter().rev().take_while(|entry| entry.message.role != Role::Assistant);
    since.filter(|entry| entry.message.role != Role::System).collect()
}
