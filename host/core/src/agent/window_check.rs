//! Handles requests that are larger than their model's window.

use super::{
    RunError,
    agent_loop::AgentRun,
    effect::{EffectPhase, EffectSelection},
};
use crate::{
    chat::{ChatEntry, ChatSnapshot, Role, ToolCall, ToolResult, ToolResultContent},
    error::Fault,
    event::Event,
    model::{CompletionRequest, ModelInfo},
};

/// A request that was not sent, or was refused, because it exceeds the model's window.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "the next request is estimated at {tokens} tokens, and the model `{}` can take {window}: {fixed} are instructions and \
     tools, {unread} what the model has not read yet",
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
    fn new(info: &ModelInfo, request: &CompletionRequest, window: u64, refusal: Option<Fault>) -> Self {
        let tokens = request.tokens();
        let of_tools = tokens - request.messages.tokens();
        let is_prompt = |entry: &&ChatEntry| entry.message.role == Role::System;
        let prompt = request.messages.iter().take_while(is_prompt).map(|entry| u64::from(entry.tokens)).sum::<u64>();
        let unread = unread(&request.messages).iter().map(|entry| u64::from(entry.tokens)).sum();
        Self { model: info.name.clone(), tokens, window, fixed: of_tools + prompt, unread, refusal }
    }
}

/// Returns the messages since the model's newest reply, without the system prompt.
fn unread(chat: &ChatSnapshot) -> Vec<&ChatEntry> {
    let since = chat.iter().rev().take_while(|entry| entry.message.role != Role::Assistant);
    since.filter(|entry| entry.message.role != Role::System).collect()
}

/// Refuses a request that is estimated beyond the model's known window.
pub(super) fn check(info: &ModelInfo, request: &CompletionRequest) -> Result<(), RunError> {
    match info.context_window.tokens() {
        Some(window) if request.tokens() > window => {
            Err(RunError::Window(Box::new(WindowExceeded::new(info, request, window, None))))
        }
        _ => Ok(()),
    }
}

/// Turns a fault of a request into a failure of the run. If its message is about the context window, the window is learned
/// from it and the failure is [`RunError::Window`]. `Invalid` and `Other` are examined too: provider plugins do not always
/// use `TooLarge`.
pub(super) fn refused(info: &ModelInfo, request: &CompletionRequest, fault: Fault) -> RunError {
    let (Fault::TooLarge { message } | Fault::Invalid { message } | Fault::Other { message }) = &fault else {
        return RunError::Model(fault);
    };
    match info.context_window.learn(message, request.tokens()) {
        Some(window) => RunError::Window(Box::new(WindowExceeded::new(info, request, window, Some(fault)))),
        None => RunError::Model(fault),
    }
}

impl AgentRun<'_> {
    /// Shortens the conversation for a model whose window is smaller than was known: unread results to their share of the
    /// window, the rest by means of the effects. Returns `true` if the request is smaller now.
    pub(super) async fn shorten_for(&mut self, exceeded: &WindowExceeded, iteration: u32) -> Result<bool, RunError> {
        let before = self.request_tokens();
        self.cut_unread_results();
        self.offer_to_read_on();
        self.work.effects.wake();
        self.eval_effects(EffectPhase::BeforeModel, iteration, EffectSelection::Due).await?;
        self.end_with_a_user();
        let again = self.request_tokens() < before;
        if let Some(refusal) = &exceeded.refusal {
            let reason = format!("its window is taken as {} tokens from now on: {refusal}", exceeded.window);
            let (agent, model) = (self.me.cx.agent.clone(), exceeded.model.clone());
            self.me.cx.events.emit(Event::ModelFailed { agent, model, reason, again }).await;
        }
        Ok(again)
    }

    /// Returns the estimated tokens of the next request.
    fn request_tokens(&self) -> u64 {
        CompletionRequest::new(self.chat.snapshot(), self.work.tools.specs()).tokens()
    }

    /// Cuts the results that the model has not read to their share of its window; the model can read the rest with a tool.
    fn cut_unread_results(&self) {
        let chat = self.chat.snapshot();
        let results: Vec<_> = unread(&chat).iter().flat_map(|entry| entry.message.tool_results().cloned()).collect();
        let window = self.work.agent.completer.info().context_window.tokens();
        let tools = self.work.tools.clone().for_calls(results.len(), window);
        for mut result in results {
            let Some(call) = call_of(&chat, &result) else { continue };
            // A result that was cut before is restored and cut anew, so that its note about the rest is right.
            let kept = chat.kept_result(&result.call_id);
            if let Some(whole) = kept {
                result.content.retain(|piece| matches!(piece, ToolResultContent::Media(_)));
                result.content.insert(0, ToolResultContent::Text(String::from(&**whole)));
            }
            let Some(whole) = tools.cut_to_read_on(call, &mut result) else { continue };
            if kept.is_none() {
                self.chat.keep_result(&result.call_id, whole);
            }
            // Cannot fail: the result was found in the conversation.
            let _ = self.chat.replace_result(&result.call_id, result.content);
        }
    }
}

/// Returns the call that a result answers.
fn call_of<'a>(chat: &'a ChatSnapshot, result: &ToolResult) -> Option<&'a ToolCall> {
    let mut calls = chat.iter().rev().flat_map(|entry| entry.message.tool_calls());
    calls.find(|call| call.id == result.call_id)
}
