use std::sync::Arc;

use super::{ChatEditError, ChatEntry, Role, edit::check_pairs, entries::ChatEntries, full_results::FullToolResults};

/// A conversation as it was at one moment. Cheap to take and to clone: it shares everything with the chat.
#[derive(Debug, Clone, Default)]
pub struct ChatSnapshot {
    pub(super) entries: ChatEntries,
    pub(super) kept: Arc<FullToolResults>,
    pub(super) tokens: u64,
    pub(super) bytes: usize,
    pub(super) revision: u64,
}

impl ChatSnapshot {
    /// Checks that the conversation can be sent to a model, which is not the case while calls are open.
    ///
    /// # Errors
    ///
    /// [`ChatEditError::Unpaired`] if a call has no result.
    pub fn check(&self) -> Result<(), ChatEditError> {
        check_pairs(self.iter().map(|entry| &*entry.message), true)
    }

    /// Returns the number of messages.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there are no messages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the estimated tokens of all messages.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the bytes that all messages hold in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the full text of a result that the conversation holds only the beginning of, if it is still kept.
    pub fn kept_result(&self, call_id: &str) -> Option<&Arc<str>> {
        self.kept.get(call_id)
    }

    /// Returns `true` if the full text of any result is kept.
    pub fn keeps_results(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Returns the revision of the chat; every change increases it.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Iterates over the entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ChatEntry> {
        self.since(0)
    }

    /// Iterates over the entries from position `start` up to but excluding `end`, as far as they exist.
    pub fn range(&self, start: usize, end: usize) -> impl DoubleEndedIterator<Item = &ChatEntry> {
        self.entries.range(start, end)
    }

    /// Iterates over the entries from position `start`; empty beyond the end.
    pub fn since(&self, start: usize) -> impl DoubleEndedIterator<Item = &ChatEntry> {
        self.range(start, usize::MAX)
    }

    /// Iterates over the entries with an id greater than `id`, in chat order: those that a reader who remembers its largest
    /// id has not seen, even if messages were replaced in between. `None`: all entries.
    pub fn newer_than(&self, id: Option<u64>) -> impl Iterator<Item = &ChatEntry> {
        self.iter().filter(move |entry| id.is_none_or(|id| entry.id > id))
    }

    /// Iterates over the messages of one sender, in order.
    pub fn by_sender<'a>(&'a self, sender: &'a str) -> impl DoubleEndedIterator<Item = &'a ChatEntry> {
        self.iter().filter(move |entry| entry.message.sender == sender)
    }

    /// Returns the text of the system message.
    pub fn system_prompt(&self) -> Option<String> {
        let entry = self.iter().next().filter(|entry| entry.message.role == Role::System)?;
        Some(entry.message.text_content())
    }

    /// Returns the position of the message with this id.
    pub fn find(&self, id: u64) -> Option<usize> {
        // Lookups are mostly for one of the newest messages.
        self.entries.iter().rposition(|entry| entry.id == id)
    }

    /// Returns the newest message.
    pub fn last(&self) -> Option<&ChatEntry> {
        self.entries.get(self.len().checked_sub(1)?)
    }
}
