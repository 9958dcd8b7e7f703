use serde::{Deserialize, Serialize};

use crate::{
    agent::outcome::{RunAnswer, RunEnding, RunError},
    capability::BudgetBreakdown,
    chat::{Message, Usage},
    tool::{TaskCompletion, TaskHandoff},
};

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum RecordedRunEnd {
    /// The run ended with an answer.
    Answered { message: Message },
    /// The agent reported that its task has ended.
    Completed { message: Message, completed: TaskCompletion },
    /// The agent handed its task over.
    HandedOver { message: Message, to: TaskHandoff },
    /// The run ended without an answer. `exhausted` if a bound on turns, spending, time or the size of all conversations
    /// ended it.
    Failed { error: String, exhausted: bool, cancelled: bool },
}

impl RecordedRunEnd {
    /// Returns the end of a run with this result.
    pub(crate) fn of(reply: &Result<Message, RunError>, ending: &RunEnding) -> Self {
        let message = match reply {
            Ok(message) => message.clone(),
            Err(error) => {
                let (exhausted, cancelled) = (error.is_exhausted(), matches!(error, RunError::Cancelled));
                return Self::Failed { error: error.in_full(), exhausted, cancelled };
            }
        };
        match ending {
            RunEnding::Answered => Self::Answered { message },
            RunEnding::Completed(completed) => Self::Completed { message, completed: completed.clone() },
            RunEnding::HandedOver(to) => Self::HandedOver { message, to: to.clone() },
        }
    }

    /// Returns the answer or report; `None` if the run failed.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Self::Answered { message } | Self::Completed { message, .. } | Self::HandedOver { message, .. } => {
                Some(message)
            }
            Self::Failed { .. } => None,
        }
    }

    /// Returns the result as the parent run needs it.
    pub(crate) fn into_answer(self, account: BudgetBreakdown) -> Result<RunAnswer, RecordedFailure> {
        let (message, ending) = match self {
            Self::Answered { message } => (message, RunEnding::Answered),
            Self::Completed { message, completed } => (message, RunEnding::Completed(completed)),
            Self::HandedOver { message, to } => (message, RunEnding::HandedOver(to)),
            Self::Failed { error, exhausted, cancelled } => {
                return Err(RecordedFailure { error, exhausted, cancelled });
            }
        };
        Ok(RunAnswer { message, ending, iterations: 0, usage: Usage::default(), account })
    }
}

/// The failure of a run that had ended before its parent run was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedFailure {
    pub error: String,
    /// Set if a bound on turns, spending, time or the size of all conversations ended the run.
    pub exhausted: bool,
    pub cancelled: bool,
}
