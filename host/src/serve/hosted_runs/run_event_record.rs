use std::sync::Arc;

use crate::event::StreamEvent;

/// One event of a run.
#[derive(Debug, Clone)]
pub struct RunEventRecord {
    /// The event, without credentials in replies.
    pub event: Arc<StreamEvent>,
    /// The event as JSON, without any credential.
    pub json: Arc<str>,
    /// `false` if another record of the same sequence follows: a reader that resumes after this sequence would miss it.
    pub completes_sequence: bool,
}

/// One event of a run as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEventLine {
    /// The sequence of the event.
    pub sequence: u64,
    /// `false` if another line of the same sequence follows: a reader that resumes after this sequence would miss it.
    pub completes_sequence: bool,
    /// The event, without any credential.
    pub json: Arc<str>,
}

impl From<RunEventRecord> for RunEventLine {
    fn from(record: RunEventRecord) -> Self {
        let RunEventRecord { event, json, completes_sequence } = record;
        Self { sequence: event.sequence, completes_sequence, json }
    }
}
