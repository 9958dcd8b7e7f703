use std::{fmt, future::Future, pin::Pin};

use super::JournalRecord;
use crate::agent::outcome::JournalWriteError;

/// Writes journal records in the order of the calls.
pub trait Recorder: Send + Sync + fmt::Debug {
    /// Writes a record of a run after all earlier ones, and starts its way to the disk. Never waits.
    fn write(&self, run: u64, record: &JournalRecord) -> JournalPosition;

    /// Waits until a record and all before it would survive a loss of power.
    fn kept(&self, mark: JournalPosition) -> Pin<Box<dyn Future<Output = Result<(), JournalWriteError>> + Send + '_>>;

    /// Returns the reason if nothing more can be written.
    fn lost(&self) -> Option<JournalWriteError>;
}

/// A position in the journal; a larger one comes later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalPosition(pub u64);
