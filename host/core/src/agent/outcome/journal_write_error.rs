/// The error that the journal can no longer be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct JournalWriteError {
    /// The reason, and what to do about it.
    pub reason: String,
}
