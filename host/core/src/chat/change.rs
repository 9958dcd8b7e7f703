use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::{ChatEntry, Message};

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
