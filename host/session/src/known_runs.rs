use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use shelly_core::agent::journal::JournalRecord;

/// The runs that a session has had when it is opened.
#[derive(Debug, Default)]
pub(super) struct KnownRuns {
    /// The runs that a person started.
    pub top: HashSet<u64>,
    /// The newest run of each instance that has not ended.
    pub instances: HashMap<Arc<str>, u64>,
}

impl KnownRuns {
    /// Adds the record of a run.
    pub fn add(&mut self, run: u64, record: &JournalRecord) {
        match record {
            JournalRecord::Began { delegation_key, instance, .. } => {
                if delegation_key.is_none() {
                    self.top.insert(run);
                }
                self.instances.insert(Arc::clone(instance), run);
            }
            JournalRecord::Ended { .. } => self.instances.retain(|_, of| *of != run),
            _ => {}
        }
    }
}
