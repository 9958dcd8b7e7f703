use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::{Chat, ChatEditError, ChatEntry, Message, Role, edit::check_pairs, log::ChatLog};

/// A change of a conversation as the journal records it: replaying all changes in order rebuilds the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatChange {
    /// A message was appended.
    Added(ChatEntryRecord),
    /// The result of a call was appended and the journal already holds it in the record of the call's end. A reader that has
    /// that record turns this case into `added`.
    Answered {
        /// The [`ChatEntry::id`].
        id: u64,
        /// The [`ChatEntry::group`].
        group: u64,
        /// The id of the call.
        call: String,
    },
    /// A user message waits until the open calls have their results. An `added` change follows then.
    Waits(Arc<Message>),
    /// Messages were replaced or removed, or one was changed.
    Replaced {
        /// The id of the first replaced message.
        first: u64,
        /// The id of the last replaced message.
        last: u64,
        /// The messages that replace them.
        by: Vec<ChatEntryRecord>,
    },
    /// The full text of a result is kept whose beginning alone is in the conversation.
    Kept {
        /// The id of the call.
        call: String,
        /// The full text.
        text: Arc<str>,
    },
    /// The agent's system prompt was inserted at the front or replaced the previous one. Its text is not recorded: each run
    /// composes it again.
    Prompted {
        /// The id of the message.
        id: u64,
    },
}

/// A message in a conversation with the attributes that do not follow from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatEntryRecord {
    /// The [`ChatEntry::id`].
    pub id: u64,
    /// The [`ChatEntry::group`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u64>,
    /// The [`ChatEntry::note`], where the message does not say so itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub note: bool,
    /// The [`ChatEntry::edited`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub edited: bool,
    /// The message.
    pub message: Arc<Message>,
}

impl From<&ChatEntry> for ChatEntryRecord {
    fn from(entry: &ChatEntry) -> Self {
        let ChatEntry { id, group, note, edited, ref message, .. } = *entry;
        Self { id, group, note: note && !message.is_note(), edited, message: Arc::clone(message) }
    }
}

impl From<ChatEntryRecord> for ChatEntry {
    fn from(written: ChatEntryRecord) -> Self {
        let ChatEntryRecord { id, group, note, edited, message } = written;
        let (tokens, note, digest) = (message.tokens(), note || message.is_note(), OnceLock::new());
        Self { id, tokens, group, note, edited, message, digest }
    }
}

impl Chat {
    /// Creates an empty conversation that records its changes until they are taken: see [`Chat::take_changes`].
    pub fn recorded() -> Self {
        let chat = Self::new();
        chat.lock().changes = Some(Vec::new());
        chat
    }

    /// Rebuilds the conversation from these changes and records its further changes. Calls of its last reply may be open:
    /// see [`Chat::reopen`].
    ///
    /// # Errors
    ///
    /// [`ChatEditError`] if they do not form a valid conversation: the record of changes is untrusted input.
    pub fn restore(changes: impl IntoIterator<Item = ChatChange>) -> Result<Self, ChatEditError> {
        let mut log = ChatLog::default();
        changes.into_iter().try_for_each(|change| log.redo(change))?;
        log.check_all()?;
        log.changes = Some(Vec::new());
        Ok(log.into())
    }

    /// Returns the changes since the last call; empty for a conversation that is not [recorded](Chat::recorded).
    pub fn take_changes(&self) -> Vec<ChatChange> {
        self.lock().changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Starts to record changes. Returns changes that rebuild the conversation as it is now.
    pub(crate) fn record(&self) -> Vec<ChatChange> {
        let mut log = self.lock();
        log.changes = Some(Vec::new());
        let by: Vec<_> = log.all().map(ChatEntryRecord::from).collect();
        let Some(first) = by.first().cloned() else { return Vec::new() };
        let kept = log.kept.iter().map(|(call, text)| ChatChange::Kept { call: call.into(), text: Arc::clone(text) });
        let (id, first) = (first.id, ChatChange::Added(first));
        // The ids need not be in order: edited messages have later ones.
        let all = ChatChange::Replaced { first: id, last: id, by };
        [first, all]
            .into_iter()
            .chain(log.waiting.iter().map(|message| ChatChange::Waits(Arc::new(message.clone()))))
            .chain(kept)
            .collect()
    }

    /// Returns `true` if the system prompt was edited or removed since a run set it.
    pub(crate) fn has_edited_prompt(&self) -> bool {
        self.lock().entries.get(0).is_none_or(|first| first.message.role != Role::System || first.edited)
    }

    /// Returns the calls of the last reply that have no results yet, of a conversation that was [restored](Chat::restore).
    pub fn reopen(&self) -> super::OpenCalls {
        let log = self.lock();
        let entry = log.open.and_then(|group| log.all().rev().find(|entry| entry.id == group));
        let calls = entry.map(|entry| entry.message.tool_calls().cloned().collect()).unwrap_or_default();
        super::OpenCalls { chat: self.clone(), calls, group: log.open }
    }
}

impl ChatLog {
    /// Records a change, if changes are recorded.
    pub fn keep(&mut self, change: impl FnOnce() -> ChatChange) {
        if let Some(changes) = &mut self.changes {
            changes.push(change());
        }
    }

    fn redo(&mut self, change: ChatChange) -> Result<(), ChatEditError> {
        match change {
            ChatChange::Answered { call, .. } => {
                return Err(ChatEditError::Unpaired(format!("the result of call `{call}` is not there")));
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
    fn check_all(&mut self) -> Result<(), ChatEditError> {
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
