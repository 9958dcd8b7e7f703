//! Shortens the conversation of a request that is larger than its model's window.

use super::{
    agent_loop::AgentLoop,
    effect::EffectPhase,
    effects::EffectSelection,
    outcome::{RunError, WindowExceeded, unread},
    run::Run,
};
use crate::{
    chat::{ChatSnapshot, ToolCall, ToolResult, ToolResultContent},
    event::Event,
    model::CompletionRequest,
};

impl AgentLoop<'_> {
    /// Shortens the conversation for a model whose window is smaller than was known: unread results to their share of the
    /// window, the rest by means of the effects. Returns `true` if the request is smaller now.
    pub(super) async fn shorten_for(
        &mut self,
        run: &mut Run<'_>,
        exceeded: &WindowExceeded,
        iteration: u32,
    ) -> Result<bool, RunError> {
        let before = self.request_tokens(run);
        self.cut_unread_results(run);
        self.offer_to_read_on(run);
        self.effects.wake();
        self.eval_effects(run, EffectPhase::BeforeModel, iteration, EffectSelection::Due).await?;
        self.end_with_a_user(run);
        let again = self.request_tokens(run) < before;
        if let Some(refusal) = &exceeded.refusal {
            let reason = format!("the host assumes a window of {} tokens from now on: {refusal}", exceeded.window);
            let (agent, model) = (run.me.cx.agent.clone(), exceeded.model.clone());
            run.me.cx.events.emit(Event::ModelFailed { agent, model, reason, again }).await;
        }
        Ok(again)
    }

    /// Returns the estimated tokens of the next request.
    fn request_tokens(&self, run: &Run<'_>) -> u64 {
        CompletionRequest::new(run.chat.snapshot(), self.tools.specs()).tokens()
    }

    /// Cuts the results that the model has not read to their share of its window; the model can read the rest with a tool.
    fn cut_unread_results(&self, run: &Run<'_>) {
        let chat = run.chat.snapshot();
        let results: Vec<_> = unread(&chat).iter().flat_map(|entry| entry.message.tool_results().cloned()).collect();
        let window = self.agent.completer.info().context_window.tokens();
        let tools = self.tools.clone().for_calls(results.len(), window);
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
                run.chat.keep_result(&result.call_id, whole);
            }
            // Cannot fail: the result was found in the conversation.
            let _ = run.chat.replace_result(&result.call_id, result.content);
        }
    }
}

/// Returns the call that a result answers.
fn call_of<'a>(chat: &'a ChatSnapshot, result: &ToolResult) -> Option<&'a ToolCall> {
    let mut calls = chat.iter().rev().flat_map(|entry| entry.message.tool_calls());
    calls.find(|call| call.id == result.call_id)
}
