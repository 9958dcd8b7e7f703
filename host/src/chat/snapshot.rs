use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

use super::{
    ChatEditError, Message, Role, edit::check_pairs, entries::ChatEntries, full_results::FullToolResults, log::ChatLog,
};

/// A message in a chat, with what is known of it without reading it.
#[derive(Debug, Clone)]
pub struct ChatEntry {
    /// Names the message in this chat for good; never used again.
    pub id: u64,
    /// The message.
    pub message: Arc<Message>,
    /// Estimate of its tokens.
    pub tokens: u32,
    /// The `id` of the assistant message whose calls opened the group that this one belongs to.
    pub group: Option<u64>,
    /// Put there by the host or an effect.
    pub note: bool,
    /// Not as it was first written.
    pub edited: bool,
    /// Of its message; none until somebody asks.
    pub(super) digest: OnceLock<Box<[u8; 32]>>,
}

impl ChatEntry {
    /// SHA-256 of its message as JSON, which is made once: a conversation is long, and each request is looked at.
    pub fn digest(&self) -> &[u8; 32] {
        self.digest.get_or_init(|| {
            let json = serde_json::to_vec(&self.message).expect("a message is JSON");
            Box::new(Sha256::digest(json).into())
        })
    }
}

/// The conversation as it was at one moment. Cheap to take and to clone: it shares everything with the chat.
#[derive(Debug, Clone, Default)]
pub struct ChatSnapshot {
    pub(super) entries: ChatEntries,
    pub(super) kept: Arc<FullToolResults>,
    pub(super) tokens: u64,
    pub(super) bytes: usize,
    pub(super) revision: u64,
}

impl ChatSnapshot {
    /// A conversation made of these messages.
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

    /// Whether a model can be shown it: not while calls are open.
    ///
    /// # Errors
    ///
    /// [`ChatEditError::Unpaired`] if a call has no result.
    pub fn check(&self) -> Result<(), ChatEditError> {
        check_pairs(self.iter().map(|entry| &*entry.message), true)
    }

    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Estimate of the tokens of all messages.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Bytes that all messages keep in memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The whole text of a result of which the conversation has only the beginning, if it is still kept.
    pub fn kept_result(&self, call_id: &str) -> Option<&Arc<str>> {
        self.kept.get(call_id)
    }

    /// Whether the text of any result is kept.
    pub fn keeps_results(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Which state of the chat it is: every change makes the next one.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &ChatEntry> {
        self.since(0)
    }

    /// The entries from position `start` up to but without `end`, as far as they exist.
    pub fn range(&self, start: usize, end: usize) -> impl DoubleEndedIterator<Item = &ChatEntry> {
        self.entries.range(start, end)
    }

    /// The entries from position `start` on; none beyond the end.
    pub fn since(&self, start: usize) -> impl DoubleEndedIterator<Item = &ChatEntry> {
        self.range(start, usize::MAX)
    }

    /// The entries that came after the one with this id, in the order of the chat: what a reader who remembers the
    /// largest id that it saw has not seen yet, also if messages were replaced in between. None: all.
    pub fn newer_than(&self, id: Option<u64>) -> impl Iterator<Item = &ChatEntry> {
        self.iter().filter(move |entry| id.is_none_or(|id| entry.id > id))
    }

    /// The messages of one sender, in order.
    pub fn by_sender<'a>(&'a self, sender: &'a str) -> impl DoubleEndedIterator<Item = &'a ChatEntry> {
        self.iter().filter(move |entry| entry.message.sender == sender)
    }

    /// The text of the system message.
    pub fn system_prompt(&self) -> Option<String> {
        let entry = self.iter().next().filter(|entry| entry.message.role == Role::System)?;
        Some(entry.message.text_content())
    }

    /// The position of the message with this id.
    pub fn find(&self, id: u64) -> Option<usize> {
        // Whoever looks for one mostly looks for one of the newest.
        self.entries.iter().rposition(|entry| entry.id == id)
    }

    /// The newest message.
    pub fn last(&self) -> Option<&ChatEntry> {
        self.entries.get(self.len().checked_sub(1)?)
    }
}
