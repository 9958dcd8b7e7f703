//! Conversations that record their changes, and conversations rebuilt from such a record.

use std::sync::Arc;

use super::{Chat, ChatChange, ChatEditError, ChatEntryRecord, log::ChatLog};

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
}
