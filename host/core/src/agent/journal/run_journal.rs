use std::sync::Arc;

use super::{DelegationKey, Journal, JournalPosition, JournalRecord, SideChatRef};
use crate::chat::Chat;

/// The part of a journal that belongs to one run.
#[derive(Debug, Clone)]
pub(crate) struct RunJournal {
    pub journal: Arc<Journal>,
    pub run: u64,
    /// The previous run in its conversation.
    pub continues: Option<u64>,
    /// The relation of its conversation to the parent's.
    pub side_chat: Option<SideChatRef>,
}

impl RunJournal {
    /// Starts the journal of a new run that a person starts. An interrupted run in this conversation can no longer be
    /// resumed.
    pub fn main(journal: &Arc<Journal>, chat: &Chat) -> Self {
        let (run, earlier) = journal.begin(chat);
        if earlier.is_some_and(|(conversation, _)| journal.is_resumed_conversation(conversation)) {
            drop(journal.take_unfinished());
        }
        Self { journal: Arc::clone(journal), run, continues: earlier.map(|(_, last)| last), side_chat: None }
    }

    /// Starts the journal of a new sub-run in a conversation that no later run continues.
    pub fn below(journal: &Arc<Journal>) -> Self {
        Self::of(journal, journal.next_run())
    }

    /// Starts the journal of a new sub-run in a conversation that may have had earlier runs.
    pub fn in_shared_chat(journal: &Arc<Journal>, chat: &Chat, side_chat: Option<SideChatRef>) -> Self {
        let (run, earlier) = journal.begin(chat);
        Self { journal: Arc::clone(journal), run, continues: earlier.map(|(_, last)| last), side_chat }
    }

    /// Continues the journal of a resumed run.
    pub fn of(journal: &Arc<Journal>, run: u64) -> Self {
        Self { journal: Arc::clone(journal), run, continues: None, side_chat: None }
    }

    /// Returns the key of a task that this run delegates.
    pub fn delegation_key(&self, call: &str, position: usize) -> DelegationKey {
        DelegationKey { run: self.run, call: call.into(), position }
    }

    pub fn write(&self, record: &JournalRecord) -> JournalPosition {
        self.journal.recorder().write(self.run, record)
    }
}
