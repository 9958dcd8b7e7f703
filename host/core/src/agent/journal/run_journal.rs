use std::sync::Arc;

use super::{DelegationId, Journal, JournalPosition, JournalRecord, SideChatRef};
use crate::chat::Chat;

/// The part of a journal that belongs to one run.
#[derive(Debug, Clone)]
pub(crate) struct RunJournal {
    pub journal: Arc<Journal>,
    pub run: u64,
    /// The previous run in its conversation.
    pub continues: Option<u64>,
    /// The relation of its conversation to the parent's.
    pub beside: Option<SideChatRef>,
}

impl RunJournal {
    /// Starts the journal of a new run that a person starts. An interrupted run in this conversation can no longer be
    /// resumed.
    pub fn main(journal: &Arc<Journal>, chat: &Chat) -> Self {
        let (run, earlier) = journal.begin(chat);
        if earlier.is_some_and(|(line, _)| journal.is_resumed_line(line)) {
            drop(journal.take_unfinished());
        }
        Self { journal: Arc::clone(journal), run, continues: earlier.map(|(_, last)| last), beside: None }
    }

    /// Starts the journal of a new sub-run in a conversation that no later run continues.
    pub fn below(journal: &Arc<Journal>) -> Self {
        Self::of(journal, journal.next_run())
    }

    /// Starts the journal of a new sub-run in a conversation that may have had earlier runs.
    pub fn beside(journal: &Arc<Journal>, chat: &Chat, beside: Option<SideChatRef>) -> Self {
        let (run, earlier) = journal.begin(chat);
        Self { journal: Arc::clone(journal), run, continues: earlier.map(|(_, last)| last), beside }
    }

    /// Continues the journal of a resumed run.
    pub fn of(journal: &Arc<Journal>, run: u64) -> Self {
        Self { journal: Arc::clone(journal), run, continues: None, beside: None }
    }

    /// Returns the id of a task that this run delegates.
    pub fn delegation_key(&self, call: &str, task: usize) -> DelegationId {
        DelegationId { run: self.run, call: call.into(), task }
    }

    pub fn write(&self, record: &JournalRecord) -> JournalPosition {
        self.journal.recorder().write(self.run, record)
    }
}
