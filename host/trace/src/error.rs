use std::io;

use shelly_core::error::{ErrorKind, Report, without_number};
use shelly_session::SessionError;

/// The reason for which a trace cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The session cannot be read.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The trace cannot be written to its destination.
    #[error("cannot write the trace")]
    Write(#[from] io::Error),
}

impl TraceError {
    /// Returns the error as a report with causes and a hint.
    pub fn report(&self) -> Report {
        match self {
            Self::Session(error) => error.report(),
            Self::Write(error) => {
                Report::new(ErrorKind::Run, self.to_string()).cause(without_number(&error.to_string()))
            }
        }
    }
}
