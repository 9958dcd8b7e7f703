use serde::{Deserialize, Serialize};

use crate::{
    agent::outcome::{RunAnswer, RunEnding, RunError},
    capability::BudgetBreakdown,
    chat::{Message, Usage},
    error::Fault,
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
    /// ended it. `fault` is the failure as its parent run receives it, with an empty message in place of `error`; absent in
    /// records of older versions.
    Failed {
        error: String,
        exhausted: bool,
        cancelled: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fault: Option<Fault>,
    },
}

impl RecordedRunEnd {
    /// Returns the end of a run with this result.
    pub(crate) fn of(reply: &Result<Message, RunError>, ending: &RunEnding) -> Self {
        let message = match reply {
            Ok(message) => message.clone(),
            Err(error) => {
                let (exhausted, cancelled) = (error.is_exhausted(), matches!(error, RunError::Cancelled));
                let fault = Some(error.as_fault().saying(""));
                return Self::Failed { error: error.in_full(), exhausted, cancelled, fault };
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
            Self::Failed { error, exhausted, cancelled, fault } => {
                let fault = match fault {
                    Some(fault) => fault.saying(error),
                    None if exhausted => Fault::Exhausted { message: error },
                    None => Fault::other(error),
                };
                return Err(RecordedFailure { fault, exhausted, cancelled });
            }
        };
        Ok(RunAnswer { message, ending, iterations: 0, usage: Usage::default(), account })
    }
}

/// The failure of a run that had ended before its parent run was interrupted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedFailure {
    /// The failure as the parent run receives it.
    pub fault: Fault,
    /// Set if a bound on turns, spending, time or the size of all conversations ended the run.
    pub exhausted: bool,
    pub cancelled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_failure_is_the_fault_that_it_was() {
        let stopped = || RunError::Stopped { by: "watch".into(), code: "loop".into(), message: "again".into() };
        let busy = Fault::Unavailable { message: "busy".into(), after: None };
        for error in [stopped(), RunError::ChatFull, RunError::Model(busy), RunError::Cancelled] {
            let end = RecordedRunEnd::of(&Err(error.clone()), &RunEnding::Answered);
            let json = serde_json::to_string(&end).unwrap();
            let end: RecordedRunEnd = serde_json::from_str(&json).unwrap();
            let failure = end.into_answer(BudgetBreakdown::default()).unwrap_err();
            assert_eq!(failure.fault, error.as_fault().saying(error.in_full()), "{json}");
            assert_eq!(failure.exhausted, error.is_exhausted(), "{json}");
        }
        let old = r#"{"failed":{"error":"no answer","exhausted":true,"cancelled":false}}"#;
        let failure = serde_json::from_str::<RecordedRunEnd>(old).unwrap().into_answer(BudgetBreakdown::default());
        assert_eq!(failure.unwrap_err().fault, Fault::Exhausted { message: "no answer".into() });
    }
}
