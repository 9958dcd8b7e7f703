use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use async_trait::async_trait;

use super::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, ReplyDelta, StopReason, Usage};
use crate::{
    chat::{Part, ToolCall},
    error::Fault,
    event::RunCx,
};

/// A model that replies from a list, for tests of the code around a model.
///
/// When the list is used up, it fails with [`Fault::Exhausted`], which reveals a loop that sends too many requests.
#[derive(Debug)]
pub struct ScriptedCompleter {
    info: ModelInfo,
    replies: Mutex<VecDeque<Result<Completion, Fault>>>,
    requests: Mutex<Vec<CompletionRequest>>,
}

impl ScriptedCompleter {
    /// Creates a model with these replies, in order.
    pub fn new(replies: impl IntoIterator<Item = Result<Completion, Fault>>) -> Self {
        Self {
            info: ModelInfo::named("scripted"),
            replies: Mutex::new(replies.into_iter().collect()),
            requests: Mutex::new(Vec::new()),
        }
    }

    /// Returns a final reply.
    pub fn text(text: &str) -> Result<Completion, Fault> {
        Ok(Self::completion(vec![Part::Text(text.into())], StopReason::EndTurn))
    }

    /// Returns a reply that calls tools: `(id, name, arguments)`.
    pub fn calls(calls: &[(&str, &str, &str)]) -> Result<Completion, Fault> {
        let call = |&(id, name, arguments): &(&str, &str, &str)| {
            Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), meta: vec![] })
        };
        Ok(Self::completion(calls.iter().map(call).collect(), StopReason::ToolCalls))
    }

    fn completion(parts: Vec<Part>, stop: StopReason) -> Completion {
        let usage = Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() };
        Completion { parts, stop, usage, model: "scripted".into(), meta: vec![] }
    }

    /// Returns the requests received so far.
    pub fn requests(&self) -> Vec<CompletionRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Completer for ScriptedCompleter {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, _: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
        let next = self.replies.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let reply =
            next.unwrap_or_else(|| Err(Fault::Exhausted { message: "the script has no more replies".into() }))?;
        for part in &reply.parts {
            if let Part::Text(text) = part {
                sink.emit(ReplyDelta::Text(text.clone())).await;
            }
        }
        Ok(reply)
    }
}
