use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use super::{
    ChatChange, ChatEditError, ChatEntry, ChatEntryRecord, ChatSnapshot, Message, Role, ToolCall, ToolResult,
    conversation_budget::CountedBytes, edit::check_pairs, entries::ChatEntries, full_results::FullToolResults,
};
use crate::limits;

/// The messages of a conversation with their counts.
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

impl ChatSnapshot {
    /// Builds a conversation from these messages.
    ///
    /// # Errors
    ///
    /// [`ChatEditError`] if calls and results do not pair up.
    pub fn from_messages(messages: Vec<Message>) -> Result<Self, ChatEditError> {
        check_pairs(&messages, true)?;
        let mut log = ChatLog::default();
        log.push_all(messages);
        Ok(log.snapshot())
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
    pub fn entry(&mut self, message: impl Into<Arc<Message>>, group: Option<u64>) -> ChatEntry {
        let message = message.into();
        let (id, tokens, note) = (self.next_id, message.tokens(), message.is_note());
        self.tokens += u64::from(tokens);
        self.bytes += message.bytes();
        self.next_id += 1;
        self.revision += 1;
        ChatEntry { id, message, tokens, group, note, edited: false, digest: OnceLock::new() }
    }

    /// Creates and counts the entries of messages whose calls and results pair up.
    pub fn grouped(&mut self, messages: Vec<Message>) -> Vec<ChatEntry> {
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

    pub fn bytes_of(&self, start: usize, end: usize) -> usize {
        self.entries.range(start, end).map(|entry| entry.message.bytes()).sum()
    }

    /// Refuses an edit after which the conversation exceeds its bounds, unless the edit does not enlarge it.
    pub fn check_size(&self, gone: usize, more: usize) -> Result<(), ChatEditError> {
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

    pub fn claim_call_id(&mut self, call: &mut ToolCall) {
        let mut n = self.call_ids.len() + 1;
        while call.id.is_empty() || self.call_ids.contains(&call.id) {
            call.id = format!("call_{n}");
            n += 1;
        }
        self.call_ids.insert(call.id.clone());
    }

    /// Checks that new calls have ids that no other message uses; ids of the replaced messages are free.
    pub fn check_call_ids(&mut self, messages: &[Message], start: usize, end: usize) -> Result<(), ChatEditError> {
        let ids = |message: &Message| message.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>();
        let free: HashSet<_> = self.entries.range(start, end + 1).flat_map(|entry| ids(&entry.message)).collect();
        let mut new = HashSet::new();
        for id in messages.iter().flat_map(ids) {
            if (self.call_ids.contains(&id) && !free.contains(&id)) || !new.insert(id.clone()) {
                return Err(ChatEditError::Unpaired(format!("duplicate call id `{id}`")));
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
    pub fn check_beginning(&self, messages: &[Message], start: usize, end: usize) -> Result<(), ChatEditError> {
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
    pub fn check_group_border(&self, position: usize) -> Result<(), ChatEditError> {
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

    /// Answers the open calls, if any; a call without a result gets an error result with the reason. Then appends the
    /// waiting messages.
    pub fn close(&mut self, mut results: Vec<ToolResult>, otherwise: &str) {
        let Some(group) = self.open.take() else { return };
        for id in self.calls_of(group) {
            let found = results.iter().position(|result| result.call_id == id);
            let message = match found {
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
                too_large(format!("the conversations of this run, whose maximum is {} bytes in total", budget.most()))
            } else {
                message
            };
            self.push(message, Some(group));
        }
        for message in std::mem::take(&mut self.waiting) {
            self.push(message, None);
        }
    }

    /// Updates the charge; call it after every change.
    pub fn count(&mut self) {
        let bytes = self.bytes.saturating_add(self.kept.bytes());
        self.counted.set(bytes);
    }

    /// Records a change, if changes are recorded.
    pub fn keep(&mut self, change: impl FnOnce() -> ChatChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
    }

    pub fn redo(&mut self, change: ChatChange) -> Result<(), ChatEditError> {
        match change {
            ChatChange::Answered { call, .. } => {
                return Err(ChatEditError::Unpaired(format!("the result of call `{call}` is missing")));
            }
            ChatChange::Kept { call, text } => Arc::make_mut(&mut self.kept).add(call, text),
            ChatChange::Waits(message) => self.waiting.push(Message::clone(&message)),
            ChatChange::Added(written) => {
                if written.id < self.next_id {
                    return Err(ChatEditError::NoMessage(written.id));
                }
                let entry = self.counted(written);
                if entry.message.role != Role::Tool && !self.waiting.is_empty() {
                    // The results are complete; the waiting messages follow in order.
                    self.waiting.remove(0);
                }
                self.entries.push(entry);
            }
            ChatChange::Prompted { id } => {
                let there = self.entries.get(0).is_some_and(|first| first.message.role == Role::System);
                self.forget(0, usize::from(there));
                // Blank until the run sets it.
                let message = Arc::new(Message::text(Role::System, "", "."));
                let entry = self.counted(ChatEntryRecord { id, group: None, note: false, edited: false, message });
                self.entries.splice(0, usize::from(there), [entry]);
            }
            ChatChange::Replaced { first, last, by } => {
                let position =
                    |log: &Self, id| log.all().position(|entry| entry.id == id).ok_or(ChatEditError::NoMessage(id));
                let (start, end) = (position(self, first)?, position(self, last)?);
                if start > end {
                    return Err(ChatEditError::Backwards(first, last));
                }
                self.forget(start, end + 1);
                let new: Vec<_> = by.into_iter().map(|written| self.counted(written)).collect();
                self.entries.splice(start, end + 1, new);
            }
        }
        self.revision += 1;
        Ok(())
    }

    /// Counts a message that is about to be put back into the log.
    fn counted(&mut self, written: ChatEntryRecord) -> ChatEntry {
        let entry = ChatEntry::from(written);
        self.tokens += u64::from(entry.tokens);
        self.bytes += entry.message.bytes();
        self.next_id = self.next_id.max(entry.id.saturating_add(1));
        self.call_ids.extend(entry.message.tool_calls().map(|call| call.id.clone()));
        entry
    }

    /// Checks that this is a valid conversation, whose last reply may have open calls, and finds those calls.
    pub fn check_all(&mut self) -> Result<(), ChatEditError> {
        let last_reply = self.all().rev().find(|entry| entry.message.role != Role::Tool).cloned();
        let open = last_reply.filter(|reply| {
            let calls = reply.message.tool_calls().count();
            let results = self.all().rev().take_while(|entry| entry.message.role == Role::Tool).count();
            calls > 0 && results == 0
        });
        let closed = self.entries.len() - usize::from(open.is_some());
        check_pairs(self.entries.iter().take(closed).map(|entry| &*entry.message), true)?;
        self.open = open.map(|reply| reply.id);
        if self.open.is_none() && !self.waiting.is_empty() {
            return Err(ChatEditError::Unpaired("a message waits for results, and no call is open".into()));
        }
        Ok(())
    }
}
