//! Sessions: the records of runs, and the runs that are resumed from them.

#[cfg(unix)]
mod all_projects;
mod altered;
mod around;
pub mod chance;
mod copied;
#[cfg(unix)]
mod crash;
mod edges;
mod ends;
mod faults;
mod hidden;
mod prefixes;
#[cfg(unix)]
mod program;
#[cfg(unix)]
mod remembered;
mod resume;
pub mod same_end;
mod shown;
mod traced;
mod world;

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex},
};

use shelly_host::agent::journal::{JournalPosition, JournalRecord, JournalWriteError, Recorder};

/// A recorder that keeps records in memory, as they would be read from a disk.
#[derive(Debug, Default)]
pub struct Memory(Mutex<Vec<(u64, String)>>);

impl Memory {
    /// Returns the records that were written so far.
    pub fn records(&self) -> Vec<(u64, JournalRecord)> {
        let read = |(run, json): &(u64, String)| {
            (*run, serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}")))
        };
        self.0.lock().unwrap().iter().map(read).collect()
    }
}

impl Recorder for Memory {
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

/// Returns a recorder whose records can be read by the test.
pub fn memory() -> Arc<Memory> {
    Arc::default()
}
