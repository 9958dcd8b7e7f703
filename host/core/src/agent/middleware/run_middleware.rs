use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    agent::{bounded_state::bounded_state, outcome::HANDED_OVER},
    chat::Message,
    error::{Fault, OnFailure},
    event::RunCx,
    model::Usage,
};

/// Middleware around whole runs of an agent or team: a pair of pure steps, with state passed from the first to the second.
#[async_trait]
pub trait RunMiddleware: Send + Sync {
    /// Returns its name, for people.
    fn name(&self) -> &str;

    /// Returns the time limit of the run inside, for each attempt; `None`: no limit.
    fn time_limit(&self) -> Option<Duration> {
        None
    }

    /// Returns `true` if a panic of the run inside becomes a failure for this middleware and those around it. Otherwise a
    /// panic ends the run.
    fn recovers(&self) -> bool {
        false
    }

    /// Returns `true` if it may replace the answer. Then nobody is shown a message before the middleware has passed it.
    fn may_replace(&self) -> bool {
        true
    }

    /// Returns the consequence of its failure for the run.
    fn on_failure(&self) -> OnFailure {
        OnFailure::Stop
    }

    /// Runs before a run, which proceeds by default. `input` holds the new messages: the task, not the chat.
    ///
    /// # Errors
    ///
    /// Returns a [`Fault`] if it could not do its work; [`RunMiddleware::on_failure`] decides what that means for the run.
    async fn before(&self, cx: &RunCx, input: &[Message]) -> Result<BeforeRunDecision, Fault> {
        let _ = (cx, input);
        Ok(BeforeRunDecision::Proceed { input: None, state: Vec::new() })
    }

    /// Runs after a run, and after each further attempt. By default the outcome is accepted.
    ///
    /// # Errors
    ///
    /// The errors of [`RunMiddleware::before`].
    async fn after(&self, cx: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        let _ = (cx, outcome, state);
        Ok(AfterRunDecision::Accept)
    }
}

/// The decision about a run that has not begun.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum BeforeRunDecision {
    /// Run, with `input` in place of the original input if it is set; `state` is passed to `after`.
    Proceed { input: Option<Vec<Message>>, state: Vec<u8> },
    /// Do not run: this is the answer.
    Answer(Message),
    /// Do not run: fail.
    Reject(Fault),
}

/// The outcome of an attempt.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// The final message, or the failure. If the agent handed over, it is the message for the next agent; if the agent
    /// reported the end of its task, it is that report.
    pub reply: Result<Message, Fault>,
    /// The usage of this attempt.
    pub usage: Usage,
    /// The duration of this attempt.
    pub duration: Duration,
    /// The number of earlier attempts that this middleware rejected with a retry.
    pub attempt: u32,
}

impl RunOutcome {
    /// Returns `true` if the agent hands over: then the reply is the message for the next agent, and no answer.
    pub fn is_handoff(&self) -> bool {
        self.reply.as_ref().is_ok_and(|reply| reply.ending() == Some(HANDED_OVER))
    }
}

/// Returns `true` if one of these may replace or withhold an answer.
pub(crate) fn may_replace_answers(around: &[Arc<dyn RunMiddleware>]) -> bool {
    around.iter().any(|middleware| middleware.may_replace())
}

/// The decision about a run that has ended.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum AfterRunDecision {
    /// Accept the outcome.
    Accept,
    /// Replace it with this message.
    Replace(Message),
    /// Fail.
    Reject(Fault),
    /// Run again on the chat as it is now, after `delay`. `feedback` becomes a user message; without it the agent is told
    /// to go on.
    Retry { feedback: Option<String>, delay: Duration, state: Vec<u8> },
}

impl BeforeRunDecision {
    /// Checks the size of the state.
    pub(crate) fn bounded(self) -> Result<Self, Fault> {
        match self {
            Self::Proceed { input, state } => Ok(Self::Proceed { input, state: bounded_state(state)? }),
            other => Ok(other),
        }
    }
}

impl AfterRunDecision {
    /// Checks the size of the state.
    pub(crate) fn bounded(self) -> Result<Self, Fault> {
        match self {
            Self::Retry { feedback, delay, state } => Ok(Self::Retry { feedback, delay, state: bounded_state(state)? }),
            other => Ok(other),
        }
    }
}
