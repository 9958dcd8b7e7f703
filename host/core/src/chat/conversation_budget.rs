//! The bytes that the conversations of one run hold together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

/// The bound on the bytes of all conversations of one run, and the bytes that they hold now.
///
/// A conversation counts from its first run until it is dropped. Messages and edits are checked against the bound when they
/// are made. A model's reply is not, since it has a bound of its own: each run checks the budget before it sends the next
/// request.
#[derive(Debug)]
pub struct ConversationBudget {
    most: usize,
    held: AtomicUsize,
}

impl ConversationBudget {
    /// Creates a budget of `most` bytes.
    pub fn new(most: usize) -> Self {
        Self { most, held: AtomicUsize::new(0) }
    }

    /// Returns the number of bytes that the conversations may hold together.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the number of bytes that the conversations hold now, including kept results.
    pub fn held(&self) -> usize {
        self.held.load(SeqCst)
    }

    /// Returns `true` if the conversations hold more than they may.
    pub fn is_exceeded(&self) -> bool {
        self.held() > self.most
    }
}

/// The bytes of one conversation that are charged to the budget; they are released when it is dropped.
#[derive(Debug, Default)]
pub(super) struct CountedBytes {
    budget: Option<Arc<ConversationBudget>>,
    bytes: usize,
}

impl CountedBytes {
    /// Creates a charge of no bytes to this budget.
    pub fn of(budget: &Arc<ConversationBudget>) -> Self {
        Self { budget: Some(Arc::clone(budget)), bytes: 0 }
    }

    /// Returns `true` if the bytes are charged to this budget.
    pub fn is_of(&self, budget: &Arc<ConversationBudget>) -> bool {
        self.budget.as_ref().is_some_and(|counted| Arc::ptr_eq(counted, budget))
    }

    /// Sets the charge of the conversation to `bytes`.
    pub fn set(&mut self, bytes: usize) {
        let Some(budget) = self.budget.as_ref().filter(|_| bytes != self.bytes) else { return };
        match bytes > self.bytes {
            true => budget.held.fetch_add(bytes - self.bytes, SeqCst),
            false => budget.held.fetch_sub(self.bytes - bytes, SeqCst),
        };
        self.bytes = bytes;
    }

    /// Returns the budget if it would be exceeded after adding `more` bytes and removing `gone`.
    pub fn exceeded_by(&self, more: usize, gone: usize) -> Option<&ConversationBudget> {
        let budget = self.budget.as_deref()?;
        (budget.held().saturating_add(more) > budget.most.saturating_add(gone)).then_some(budget)
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chat::{Chat, ChatEditError, Message};

    #[test]
    fn conversation_budget_counts_until_drop() {
        let budget = Arc::new(ConversationBudget::new(100));
        let (first, second) = (Chat::new(), Chat::new());
        first.append(Message::user("x".repeat(30))).unwrap();
        assert_eq!(budget.held(), 0);
        first.count_in(&budget);
        second.count_in(&budget);
        let of_first = first.snapshot().bytes();
        assert!(of_first >= 30);
        assert_eq!(budget.held(), of_first);
        second.append(Message::user("x".repeat(20))).unwrap();
        second.keep_result("call", "kept".into());
        assert_eq!(budget.held(), of_first + second.snapshot().bytes() + 4);
        let (clone, snapshot) = (second.clone(), second.snapshot());
        drop(second);
        assert_eq!(budget.held(), of_first + snapshot.bytes() + 4, "it is still there");
        drop(clone);
        assert_eq!(budget.held(), of_first);
        let other = Arc::new(ConversationBudget::new(100));
        first.count_in(&other);
        assert_eq!((budget.held(), other.held()), (0, of_first));
    }

    #[test]
    fn message_beyond_the_run_budget_is_refused() {
        let budget = Arc::new(ConversationBudget::new(1_000));
        let (first, second) = (Chat::new(), Chat::new());
        first.count_in(&budget);
        second.count_in(&budget);
        first.append(Message::user("x".repeat(900))).unwrap();
        let refused = second.append(Message::user("x".repeat(200)));
        assert_eq!(refused, Err(ChatEditError::RunFull(1_000)));
        second.append(Message::user("x".repeat(20))).unwrap();
        assert!(!budget.is_exceeded());
        drop(first);
        second.append(Message::user("x".repeat(900))).unwrap();
    }

    #[test]
    fn result_beyond_the_run_budget_is_replaced() {
        let budget = Arc::new(ConversationBudget::new(1_000));
        let chat = Chat::new();
        chat.count_in(&budget);
        chat.append(Message::user("go")).unwrap();
        let call = crate::chat::ToolCall { id: "c".into(), name: "t".into(), arguments: "{}".into(), meta: vec![] };
        let open = chat.reply(Message { parts: vec![crate::chat::Part::ToolCall(call)], ..Message::user("") });
        let text = crate::chat::ToolResultContent::Text("x".repeat(2_000));
        open.answer(vec![crate::chat::ToolResult { content: vec![text], ..crate::chat::ToolResult::error("c", "") }]);
        let told = chat.snapshot().last().unwrap().message.tool_results().next().unwrap().text();
        assert_eq!(
            told,
            "The result is too large for the conversations of this run, whose maximum is 1000 bytes in total."
        );
        assert!(!budget.is_exceeded());
    }
}
