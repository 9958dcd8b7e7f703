use super::{Chat, Message, Part, Role, ToolCall, ToolResult};

/// The calls of a reply that have no results yet.
#[derive(Debug)]
pub struct OpenCalls {
    chat: Chat,
    calls: Vec<ToolCall>,
    /// The id of the reply.
    group: Option<u64>,
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

impl Drop for OpenCalls {
    fn drop(&mut self) {
        if !self.calls.is_empty() {
            self.settle(Vec::new(), "the run ended first");
        }
    }
}

impl Chat {
    /// Appends the reply of a model. Its calls are open until the returned guard answers them. If the guard is dropped, or
    /// another reply is appended first, each gets a result that says it was not run.
    ///
    /// A call whose id is empty or already used gets a new one: ids are unique in a chat whatever a vendor sends. Results in
    /// the reply are removed, since only the host can provide them. A reply that [has no content](Message::says_nothing) is
    /// not appended: vendors refuse such a message.
    pub fn reply(&self, mut message: Message) -> OpenCalls {
        message.role = Role::Assistant;
        message.parts.retain(|part| !matches!(part, Part::ToolResult(_)));
        let mut log = self.lock();
        log.close(Vec::new(), "another reply came first");
        if message.says_nothing() {
            return OpenCalls { chat: self.clone(), calls: Vec::new(), group: None };
        }
        for part in &mut message.parts {
            if let Part::ToolCall(call) = part {
                log.claim_call_id(call);
            }
        }
        let calls: Vec<_> = message.tool_calls().cloned().collect();
        let group = (!calls.is_empty()).then_some(log.next_id);
        log.push(message, group);
        log.open = group;
        drop(log);
        self.shared.changed.notify_waiters();
        OpenCalls { chat: self.clone(), calls, group }
    }

    /// Returns the calls of the last reply that have no results yet, of a conversation that was [restored](Chat::restore).
    pub fn reopen(&self) -> OpenCalls {
        let log = self.lock();
        let entry = log.open.and_then(|group| log.all().rev().find(|entry| entry.id == group));
        let calls = entry.map(|entry| entry.message.tool_calls().cloned().collect()).unwrap_or_default();
        OpenCalls { chat: self.clone(), calls, group: log.open }
    }
}
