use std::sync::Arc;

use serde::{Deserialize, Serialize};

use shelly_core::{
    agent::journal::JournalRecord,
    chat::{ChatChange, Message},
};

/// The place of a message in the journal, which a recorded event has instead of the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct MessagePlace {
    /// The number of the journal line.
    pub line: u64,
    /// The position of the change in the record, from 0 on; `None`: the message is the result of a call's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<usize>,
    /// The position among the messages of a change that replaces messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<usize>,
}

impl MessagePlace {
    /// Returns the message at this place of the record in its line; `None` if there is none.
    pub fn message_in(self, record: &JournalRecord) -> Option<Arc<Message>> {
        let Some(change) = self.change else {
            let JournalRecord::CallEnded { result, .. } = record else { return None };
            return Some(Arc::new(Message::results(vec![result.clone()])));
        };
        match (changes_of(record).get(change)?, self.entry) {
            (ChatChange::Added(added), None) => Some(Arc::clone(&added.message)),
            (ChatChange::Replaced { by, .. }, Some(entry)) => Some(Arc::clone(&by.get(entry)?.message)),
            _ => None,
        }
    }
}

/// Returns the changes of a conversation that a record holds.
pub(super) fn changes_of(record: &JournalRecord) -> &[ChatChange] {
    match record {
        JournalRecord::Began { changes, .. }
        | JournalRecord::Turn { changes, .. }
        | JournalRecord::Replied { changes, .. }
        | JournalRecord::Looked { changes, .. }
        | JournalRecord::Retried { changes, .. }
        | JournalRecord::WentOn { changes, .. }
        | JournalRecord::Chose { changes, .. }
        | JournalRecord::Ended { changes, .. } => changes,
        JournalRecord::Asked { .. }
        | JournalRecord::Wasted { .. }
        | JournalRecord::GaveRemoteTask { .. }
        | JournalRecord::CallBegan { .. }
        | JournalRecord::CallEnded { .. }
        | JournalRecord::Sent { .. }
        | JournalRecord::Passed { .. }
        | JournalRecord::Delegated { .. }
        | JournalRecord::Parked { .. }
        | JournalRecord::Answered { .. }
        | JournalRecord::Returned { .. }
        | JournalRecord::Task { .. }
        | JournalRecord::Blackboard { .. }
        | JournalRecord::Decided { .. }
        | JournalRecord::Given { .. } => &[],
    }
}
