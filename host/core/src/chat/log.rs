use std::{
    collections::HashSet,
    ops::{Deref, DerefMut},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
};

use tokio::sync::Notify;

use super::{
    ChatChange, ChatEditError, ChatEntry, ChatEntryRecord, ChatSnapshot, Message, MessageReplacement, OpenCalls, Part,
    Role, ToolCall, ToolResultContent, conversation_budget::CountedBytes, edit::check_pairs, entries::ChatEntries,
    full_results::FullToolResults, side_chats::SideChats,
};
use crate::limits;

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
    pub besides: SideChats,
}

#[derive(Debug, Default)]
pub(super) struct ChatLog {
    pub entries: ChatEntries,
    pub tokens: u64,
    pub bytes: usize,
    pub next_id: u64,
    pub revision: u64,
    pub call_ids: HashSet<String>,
    /// The id of the reply whose calls still lack results.
    pub open: Option<u64>,
    /// User messages that are appended after those results.
    pub waiting: Vec<Message>,
    /// Full texts of results that the conversation holds only the beginning of.
    pub kept: Arc<FullToolResults>,
    /// The bytes charged to the conversation budget of a run.
    pub counted: CountedBytes,
    /// Changes since they were last taken; `None` if changes are not recorded.
    pub changes: Option<Vec<ChatChange>>,
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
                "a message with calls or results can only be a reply or its answer".into(),
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

    /// Appends a [`Message::note`] if it has content and fits; while calls are open, after their results.
    pub fn note(&self, sender: &str, text: impl Into<String>) {
        // No other error is possible: a note is a user message without calls or results.
        let _ = self.append(Message::note(sender, text));
    }

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
        log.close(Vec::new(), "another reply came before");
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

impl ChatLog {
    pub fn snapshot(&self) -> ChatSnapshot {
        let Self { tokens, bytes, revision, .. } = *self;
        ChatSnapshot { entries: self.entries.clone(), kept: Arc::clone(&self.kept), tokens, bytes, revision }
    }

    pub fn push(&mut self, message: Message, group: Option<u64>) {
        let entry = self.entry(message, group);
        self.keep(|| ChatChange::Added(ChatEntryRecord::from(&entry)));
        self.entries.push(entry);
    }

    /// Appends messages whose calls and results pair up.
    pub fn push_all(&mut self, messages: Vec<Message>) {
        self.grouped(messages).into_iter().for_each(|entry| self.entries.push(entry));
    }

    /// Creates the entry of a message that is about to be added, and counts it.
    fn entry(&mut self, message: impl Into<Arc<Message>>, group: Option<u64>) -> ChatEntry {
        let message = message.into();
        let (id, tokens, note) = (self.next_id, message.tokens(), message.is_note());
        self.tokens += u64::from(tokens);
        self.bytes += message.bytes();
        self.next_id += 1;
        self.revision += 1;
        ChatEntry { id, message, tokens, group, note, edited: false, digest: OnceLock::new() }
    }

    /// Creates and counts the entries of messages whose calls and results pair up.
    fn grouped(&mut self, messages: Vec<Message>) -> Vec<ChatEntry> {
        let mut group = None;
        let entry = |message: Message| {
            if message.tool_calls().next().is_some() {
                group = Some(self.next_id);
            } else if message.role != Role::Tool {
                group = None;
            }
            self.entry(message, group)
        };
        messages.into_iter().map(entry).collect()
    }

    /// Subtracts the messages from `start` up to but excluding `end` from the counts: they are about to be removed.
    pub fn forget(&mut self, start: usize, end: usize) {
        self.tokens -= self.entries.range(start, end).map(|entry| u64::from(entry.tokens)).sum::<u64>();
        self.bytes -= self.bytes_of(start, end);
    }

    fn bytes_of(&self, start: usize, end: usize) -> usize {
        self.entries.range(start, end).map(|entry| entry.message.bytes()).sum()
    }

    /// Refuses an edit after which the conversation exceeds its bounds, unless the edit does not enlarge it.
    fn check_size(&self, gone: usize, more: usize) -> Result<(), ChatEditError> {
        let waiting: usize = self.waiting.iter().map(Message::bytes).sum();
        if more <= gone {
            return Ok(());
        }
        if self.bytes + waiting + more > limits::CHAT_BYTES + gone {
            return Err(ChatEditError::Full);
        }
        match self.counted.exceeded_by(waiting + more, gone) {
            Some(budget) => Err(ChatEditError::RunFull(budget.most())),
            None => Ok(()),
        }
    }

    pub fn all(&self) -> impl DoubleEndedIterator<Item = &ChatEntry> + ExactSizeIterator {
        self.entries.range(0, self.entries.len())
    }

    fn claim_call_id(&mut self, call: &mut ToolCall) {
        let mut n = self.call_ids.len() + 1;
        while call.id.is_empty() || self.call_ids.contains(&call.id) {
            call.id = format!("call_{n}");
            n += 1;
        }
        self.call_ids.insert(call.id.clone());
    }

    /// Checks that new calls have ids that no other message uses; ids of the replaced messages are free.
    fn check_call_ids(&mut self, messages: &[Message], start: usize, end: usize) -> Result<(), ChatEditError> {
        let ids = |message: &Message| message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>();
        let free: HashSet<_> = self.entries.range(start, end + 1).flat_map(|entry| ids(&entry.message)).collect();
        let mut new = HashSet::new();
        for id in messages.iter().flat_map(ids) {
            if (self.call_ids.contains(&id) && !free.contains(&id)) || !new.insert(id.clone()) {
                return Err(ChatEditError::Unpaired(format!("another call has the id `{id}`")));
            }
        }
        self.call_ids.extend(new);
        Ok(())
    }

    /// Returns the ids of the calls of this reply, in order.
    pub fn calls_of(&self, reply: u64) -> Vec<String> {
        let entry = self.entries.iter().rev().find(|entry| entry.id == reply);
        entry.into_iter().flat_map(|entry| entry.message.tool_calls()).map(|call| call.id.clone()).collect()
    }

    /// Checks that a conversation whose beginning is replaced still begins with a user message.
    fn check_beginning(&self, messages: &[Message], start: usize, end: usize) -> Result<(), ChatEditError> {
        let speaks = |message: &Message| message.role != Role::System;
        if self.entries.iter().take(start).any(|entry| speaks(&entry.message)) {
            return Ok(());
        }
        let after = self.entries.iter().skip(end + 1).map(|entry| &*entry.message);
        match messages.iter().chain(after).find(|message| speaks(message)) {
            Some(first) if first.role != Role::User => Err(ChatEditError::NoUserFirst),
            _ => Ok(()),
        }
    }

    /// Checks that the border before this position does not split a group.
    fn check_group_border(&self, position: usize) -> Result<(), ChatEditError> {
        let (Some(before), Some(after)) =
            (position.checked_sub(1).and_then(|p| self.entries.get(p)), self.entries.get(position))
        else {
            return Ok(());
        };
        match before.group {
            Some(group) if after.group == Some(group) => Err(ChatEditError::CutsGroup(after.id)),
            _ => Ok(()),
        }
    }
}
