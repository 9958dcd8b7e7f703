use std::{
    ops::{Deref, DerefMut},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use tokio::sync::Notify;

use super::{
    ChatChange, ChatEditError, ChatEntry, ChatEntryRecord, ChatSnapshot, ConversationBudget, Message,
    MessageReplacement, Part, Role, ToolResultContent, conversation_budget::CountedBytes, edit::check_pairs,
    log::ChatLog, side_chats::SideChats,
};

/// A conversation: a shared append-only log. Clones refer to the same conversation.
#[derive(Debug, Clone, Default)]
pub struct Chat {
    pub(super) shared: Arc<ChatInner>,
}

#[derive(Debug, Default)]
pub(super) struct ChatInner {
    log: Mutex<ChatLog>,
    pub changed: Notify,
    /// Held by the run that works in this conversation.
    turn: tokio::sync::Mutex<()>,
    pub side_chats: SideChats,
}

impl Chat {
    /// Creates an empty conversation.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns `true` if both are the same conversation.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Returns a weak reference to this conversation.
    pub(crate) fn downgrade(&self) -> WeakChat {
        WeakChat(Arc::downgrade(&self.shared))
    }

    /// Waits until no other run works in this conversation: two at once would answer each other's messages.
    pub(crate) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.shared.turn.lock().await
    }

    /// Returns the conversation as it is now.
    pub fn snapshot(&self) -> ChatSnapshot {
        self.lock().snapshot()
    }

    /// Waits for a state after this [revision](ChatSnapshot::revision); returns at once if there is one.
    pub async fn changed(&self, revision: u64) -> ChatSnapshot {
        loop {
            let mut changed = pin!(self.shared.changed.notified());
            // From here on no change is missed.
            changed.as_mut().enable();
            let now = self.snapshot();
            if now.revision > revision {
                return now;
            }
            changed.await;
        }
    }

    /// Waits until there are more than `count` messages.
    pub async fn wait(&self, count: usize) -> ChatSnapshot {
        let mut now = self.snapshot();
        while now.len() <= count {
            now = self.changed(now.revision).await;
        }
        now
    }

    /// Appends a message without tool calls or results. While calls are open, the message waits until after their results.
    ///
    /// # Errors
    ///
    /// [`ChatEditError::Unpaired`] if the message has calls or results, [`ChatEditError::Empty`] if it has no content,
    /// [`ChatEditError::MisplacedSystem`] for a system message that is not the first, [`ChatEditError::NoUserFirst`] for an
    /// assistant message before any user message, [`ChatEditError::Full`] or [`ChatEditError::RunFull`] if it does not fit.
    pub fn append(&self, message: Message) -> Result<(), ChatEditError> {
        if message.is_paired() {
            return Err(ChatEditError::Unpaired(
                "a message with calls or results must be a reply of the model or its results".into(),
            ));
        }
        if message.says_nothing() {
            return Err(ChatEditError::Empty);
        }
        let mut log = self.lock();
        if message.role == Role::System && log.entries.len() > 0 {
            return Err(ChatEditError::MisplacedSystem);
        }
        let is_first = log.entries.iter().all(|entry| entry.message.role == Role::System);
        if message.role == Role::Assistant && is_first {
            return Err(ChatEditError::NoUserFirst);
        }
        log.check_size(0, message.bytes())?;
        if log.open.is_some() {
            log.keep(|| ChatChange::Waits(Arc::new(message.clone())));
            log.waiting.push(message);
        } else {
            log.push(message, None);
            self.shared.changed.notify_waiters();
        }
        Ok(())
    }

    /// Sets the system message: inserts it at the front or replaces the existing one.
    pub fn set_system_prompt(&self, sender: &str, text: String) {
        self.share_system_prompt(Arc::new(Message::text(Role::System, sender, text)));
    }

    /// Sets a system message that other conversations share.
    pub(crate) fn share_system_prompt(&self, message: Arc<Message>) {
        let mut log = self.lock();
        let there = log.entries.get(0).map(|first| &first.message).filter(|first| first.role == Role::System).cloned();
        if there.as_ref().is_some_and(|there| there.parts == message.parts) {
            return;
        }
        log.forget(0, usize::from(there.is_some()));
        let entry = log.entry(message, None);
        log.keep(|| ChatChange::Prompted { id: entry.id });
        match there {
            Some(_) => log.entries.set(0, entry),
            None => log.entries.splice(0, 0, [entry]),
        }
        drop(log);
        self.shared.changed.notify_waiters();
    }

    /// Returns `true` if the system prompt was edited or removed since a run set it.
    pub(crate) fn has_edited_prompt(&self) -> bool {
        self.lock().entries.get(0).is_none_or(|first| first.message.role != Role::System || first.edited)
    }

    /// Appends a [`Message::note`] if it has content and fits; while calls are open, after their results.
    pub fn note(&self, sender: &str, text: impl Into<String>) {
        // No other error is possible: a note is a user message without calls or results.
        let _ = self.append(Message::note(sender, text));
    }

    /// Replaces the content of a tool result; its error flag is unchanged.
    ///
    /// # Errors
    ///
    /// [`ChatEditError::NoResult`] if no result answers that call, [`ChatEditError::Full`] or [`ChatEditError::RunFull`] if
    /// the content does not fit.
    pub fn replace_result(&self, call_id: &str, content: Vec<ToolResultContent>) -> Result<(), ChatEditError> {
        let mut log = self.lock();
        let answers = |entry: &ChatEntry| entry.message.tool_results().any(|result| result.call_id == call_id);
        let position = log.all().position(answers).ok_or_else(|| ChatEditError::NoResult(call_id.into()))?;
        let mut entry = log.entries.get(position).expect("it was found").clone();
        let message = Arc::make_mut(&mut entry.message);
        for part in &mut message.parts {
            if let Part::ToolResult(result) = part
                && result.call_id == call_id
            {
                result.content = content;
                break;
            }
        }
        (entry.tokens, entry.edited, entry.digest) = (message.tokens(), true, OnceLock::new());
        log.check_size(log.bytes_of(position, position + 1), entry.message.bytes())?;
        log.forget(position, position + 1);
        log.tokens += u64::from(entry.tokens);
        log.bytes += entry.message.bytes();
        log.keep(|| ChatChange::Replaced { first: entry.id, last: entry.id, by: vec![ChatEntryRecord::from(&entry)] });
        log.entries.set(position, entry);
        log.revision += 1;
        self.shared.changed.notify_waiters();
        Ok(())
    }

    /// Stores the full text of a result that the conversation holds only the beginning of, for
    /// [`ChatSnapshot::kept_result`]. Beyond [`KEPT_RESULTS_BYTES`](crate::limits::KEPT_RESULTS_BYTES) the oldest texts are
    /// removed.
    pub fn keep_result(&self, call_id: &str, text: String) {
        let text: Arc<str> = text.into();
        let mut log = self.lock();
        log.keep(|| ChatChange::Kept { call: call_id.into(), text: Arc::clone(&text) });
        Arc::make_mut(&mut log.kept).add(call_id.into(), text);
    }

    /// Replaces or removes messages, in whole groups only.
    ///
    /// # Errors
    ///
    /// [`ChatEditError`]; the conversation is unchanged then.
    pub fn replace(&self, replacement: MessageReplacement) -> Result<(), ChatEditError> {
        let mut log = self.lock();
        let position = |id| log.all().position(|entry| entry.id == id).ok_or(ChatEditError::NoMessage(id));
        let (start, end) = (position(replacement.first)?, position(replacement.last)?);
        if start > end {
            return Err(ChatEditError::Backwards(replacement.first, replacement.last));
        }
        log.check_group_border(start)?;
        log.check_group_border(end + 1)?;
        if log.open.is_some() && end + 1 == log.entries.len() {
            return Err(ChatEditError::CutsGroup(replacement.last));
        }
        check_pairs(&replacement.messages, start == 0)?;
        log.check_beginning(&replacement.messages, start, end)?;
        log.check_call_ids(&replacement.messages, start, end)?;
        log.check_size(log.bytes_of(start, end + 1), replacement.messages.iter().map(Message::bytes).sum())?;

        log.forget(start, end + 1);
        let mut new = log.grouped(replacement.messages);
        for entry in &mut new {
            entry.edited = true;
            // The replacement is neither a person's nor a model's message.
            entry.note = true;
        }
        let MessageReplacement { first, last, .. } = replacement;
        log.keep(|| ChatChange::Replaced { first, last, by: new.iter().map(ChatEntryRecord::from).collect() });
        log.entries.splice(start, end + 1, new);
        log.revision += 1;
        self.shared.changed.notify_waiters();
        Ok(())
    }

    /// Charges this conversation to the budget of a run, and no longer to that of another one.
    pub(crate) fn count_in(&self, budget: &Arc<ConversationBudget>) {
        let mut log = self.lock();
        if !log.counted.is_of(budget) {
            log.counted = CountedBytes::of(budget);
        }
    }

    pub(super) fn lock(&self) -> LockedChatLog<'_> {
        // Nothing panics half-way through a change, so a poisoned log is still consistent.
        LockedChatLog(self.shared.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Exclusive access to a log; when dropped, it updates the log's charge to the conversation budget.
pub(super) struct LockedChatLog<'a>(MutexGuard<'a, ChatLog>);

impl Deref for LockedChatLog<'_> {
    type Target = ChatLog;

    fn deref(&self) -> &ChatLog {
        &self.0
    }
}

impl DerefMut for LockedChatLog<'_> {
    fn deref_mut(&mut self) -> &mut ChatLog {
        &mut self.0
    }
}

impl Drop for LockedChatLog<'_> {
    fn drop(&mut self) {
        self.0.count();
    }
}

/// A weak reference to a conversation.
#[derive(Debug)]
pub(crate) struct WeakChat(Weak<ChatInner>);

impl WeakChat {
    pub fn is(&self, chat: &Chat) -> bool {
        self.0.as_ptr() == Arc::as_ptr(&chat.shared)
    }

    pub fn is_gone(&self) -> bool {
        self.0.strong_count() == 0
    }
}

impl From<ChatLog> for Chat {
    fn from(log: ChatLog) -> Self {
        Self { shared: Arc::new(ChatInner { log: Mutex::new(log), ..ChatInner::default() }) }
    }
}
