//! Journals for tests.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
};

use super::{
    context::{AgentGroup, AgentRegistry},
    journal::{JournalPosition, JournalRecord, JournalState, JournalWriteError, Recorder},
};
use crate::chat::Chat;

/// A recorder that keeps the records as they would be read from a disk.
#[derive(Debug, Default)]
pub(crate) struct MemoryRecorder(Mutex<Vec<(u64, String)>>);

impl MemoryRecorder {
    /// Returns the records that were written so far.
    pub fn records(&self) -> Vec<(u64, JournalRecord)> {
        let records = self.0.lock().unwrap();
        records.iter().map(|(run, json)| (*run, serde_json::from_str(json).unwrap())).collect()
    }
}

impl Recorder for MemoryRecorder {
    fn write(&self, run: u64, record: &JournalRecord) -> JournalPosition {
        let mut records = self.0.lock().unwrap();
        records.push((run, serde_json::to_string(record).unwrap()));
        JournalPosition(records.len() as u64)
    }

    fn kept(&self, _: JournalPosition) -> Pin<Box<dyn Future<Output = Result<(), JournalWriteError>> + Send + '_>> {
        Box::pin(async { Ok(()) })
    }

    fn lost(&self) -> Option<JournalWriteError> {
        None
    }
}

/// Returns a group that records to `recorder` and has these agents.
pub(crate) fn recorded_group(recorder: &Arc<MemoryRecorder>, registry: &AgentRegistry) -> Arc<AgentGroup> {
    Arc::new(AgentGroup::new(registry.clone()).with_recorder(Arc::clone(recorder) as _))
}

/// Returns the group and the conversation of a session that was interrupted after these records.
pub(crate) fn resumed_group(records: &[(u64, JournalRecord)], registry: &AgentRegistry) -> (Arc<AgentGroup>, Chat) {
    let state = JournalState::of(records.iter().cloned()).unwrap();
    let chat = state.chat().unwrap();
    let recorder = Arc::<MemoryRecorder>::default();
    (Arc::new(AgentGroup::new(registry.clone()).resuming(recorder, state, &chat)), chat)
}

/// Returns the position of the first record for which `is_wanted` holds.
pub(crate) fn position_of(records: &[(u64, JournalRecord)], is_wanted: impl Fn(&JournalRecord) -> bool) -> usize {
    records.iter().position(|(_, record)| is_wanted(record)).unwrap()
}
