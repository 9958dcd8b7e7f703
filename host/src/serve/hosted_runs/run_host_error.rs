use crate::{
    agent::SendError,
    approval::AnswerError,
    error::{Report, count},
    limits,
};

/// The reason why a [`RunHost`](super::RunHost) refuses a request.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum RunHostError {
    /// The maximum number of runs is at work.
    #[error("{} at work, which is the maximum", count(*most as u64, "run is", "runs are"))]
    Busy { most: usize },
    /// The maximum number of streams of events is read.
    #[error("{} streams of events are read, which is the maximum", limits::SERVE_WATCHERS)]
    TooManyWatchers,
    /// The host ends.
    #[error("the server is stopping")]
    Stopping,
    /// No run has this id, or it ended long ago.
    #[error("there is no run `{id}`")]
    NoRun { id: String },
    /// Another run, or another process, works in the session.
    #[error("the session `{id}` is in use")]
    SessionInUse { id: String },
    /// The run could not begin: it names what is not there, or something that it needs cannot be used.
    #[error(transparent)]
    NotBegun(Report),
    /// The run was cancelled while it was prepared.
    #[error("the run was cancelled before it began")]
    Cancelled,
    /// The message was not accepted.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The answer was not accepted.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// Nobody is asked by this host: a policy answers all questions.
    #[error("no question waits for a person, as a policy answers them")]
    NobodyAsked,
}
