use super::{Chat, Message, ToolCall, ToolResult, log::ChatLog};
use crate::limits;

/// The calls of a reply that have no results yet.
#[derive(Debug)]
pub struct OpenCalls {
    pub(super) chat: Chat,
    pub(super) calls: Vec<ToolCall>,
    /// The id of the reply.
    pub(super) group: Option<u64>,
}

impl OpenCalls {
    /// Returns the calls in the model's order, with the ids that the chat knows them by.
    pub fn calls(&self) -> &[ToolCall] {
        &self.calls
    }

    /// Answers the calls: one message per result, in the order of the calls.
    pub fn answer(mut self, results: Vec<ToolResult>) {
        self.settle(results, "no result was given");
    }

    /// Answers every call with an error result that says why it was not run.
    pub fn abandon(mut self, why: &str) {
        self.settle(Vec::new(), why);
    }

    fn settle(&mut self, results: Vec<ToolResult>, otherwise: &str) {
        self.calls.clear();
        let mut log = self.chat.lock();
        // If another reply was appended first, it has answered these calls.
        if self.group.is_some() && log.open == self.group {
            log.close(results, otherwise);
            drop(log);
            self.chat.shared.changed.notify_waiters();
        }
    }
}

impl ChatLog {
    /// Answers the open calls, if any; a call without a result gets an error result with the reason. Then appends the
    /// waiting messages.
    pub fn close(&mut self, mut results: Vec<ToolResult>, otherwise: &str) {
        let Some(group) = self.open.take() else { return };
        for id in self.calls_of(group) {
            let given = results.iter().position(|result| result.call_id == id);
            let message = match given {
                Some(position) => Message::results(vec![results.swap_remove(position)]),
                None => Message::results(vec![ToolResult::error(&id, format!("The call was not run: {otherwise}."))]),
            };
            let too_large = |of: String| {
                Message::results(vec![ToolResult::error(&id, format!("The result is too large for {of}."))])
            };
            // Additions since the last count are not charged yet.
            self.count();
            let message = if self.bytes + message.bytes() > limits::CHAT_BYTES {
                too_large("this conversation".into())
            } else if let Some(budget) = self.counted.exceeded_by(message.bytes(), 0) {
                too_large(format!("the conversations of this run, which may hold {} bytes together", budget.most()))
            } else {
                message
            };
            self.push(message, Some(group));
        }
        for message in std::mem::take(&mut self.waiting) {
            self.push(message, None);
        }
    }
}

impl Drop for OpenCalls {
    fn drop(&mut self) {
        if !self.calls.is_empty() {
            self.settle(Vec::new(), "the run ended before");
        }
    }
}
