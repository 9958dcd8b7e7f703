use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    agent::text::cut,
    limits,
    tool::{CompletionStatus, TaskCompletion},
};

/// The report on a delegated task that the delegating agent reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DelegationReport {
    /// The agent that was asked for.
    pub agent: String,
    /// The result, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The structured part of the agent's report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion: Option<TaskCompletionDetails>,
    /// The reason why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Problems other than the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// The agent that the task was handed over to last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_over_to: Option<Arc<str>>,
    /// The id of the delegation, in the order of the tasks, for an agent that answers questions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delegation_id: Option<String>,
    /// The question that the agent waits for an answer to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_question: Option<PendingQuestion>,
}

/// A [`TaskCompletion`] without its summary, which is the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskCompletionDetails {
    pub status: CompletionStatus,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files_modified: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests_run: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caveats: Option<String>,
}

/// A question of an agent to the agent that delegated to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PendingQuestion {
    pub id: String,
    pub agent: Arc<str>,
    pub content: String,
}

impl DelegationReport {
    pub fn of(agent: &str) -> Self {
        Self { agent: agent.into(), ..Self::default() }
    }

    pub fn failed(agent: &str, error: impl Into<String>) -> Self {
        Self { error: Some(error.into()), ..Self::of(agent) }
    }

    /// Adds a completion to the report.
    pub fn completed(mut self, completed: TaskCompletion) -> Self {
        let TaskCompletion { status, summary, files_modified, tests_run, caveats } = completed;
        self.result = Some(summary);
        self.completion = Some(TaskCompletionDetails { status, files_modified, tests_run, caveats });
        self
    }

    pub fn has_failed(&self) -> bool {
        let said_so = self.completion.as_ref().is_some_and(|said| said.status == CompletionStatus::Failed);
        self.error.is_some() || said_so
    }

    pub fn warn(&mut self, warning: String) {
        self.warning = Some(self.warning.take().map_or(warning.clone(), |before| format!("{before}; {warning}")));
    }
}

/// Shortens the texts of the reports so that all of them fit together: each gets the same share, and no text more than
/// `most` characters.
pub(crate) fn fit(entries: &mut [DelegationReport], most: usize) {
    // The characters of a report apart from its texts.
    const FRAME: usize = 200;
    let share = (limits::DELEGATION_RESULT_CHARS / entries.len().max(1)).saturating_sub(FRAME).max(FRAME / 4);
    let words = share.min(most);
    for entry in entries {
        cut(&mut entry.agent, limits::NAME_SHOWN_CHARS);
        for text in [&mut entry.result, &mut entry.error, &mut entry.warning].into_iter().flatten() {
            cut(text, words);
        }
        if let Some(question) = &mut entry.pending_question {
            cut(&mut question.content, words);
        }
        let Some(said) = &mut entry.completion else { continue };
        let mut left = words;
        for list in [&mut said.files_modified, &mut said.tests_run] {
            let before = list.len();
            list.retain_mut(|item| {
                cut(item, words);
                // Includes the quotes and the comma.
                let length = item.len() + 3;
                let fits = length <= left;
                left = left.saturating_sub(length);
                fits
            });
            if list.len() < before {
                list.push(format!("[{} more omitted]", before - list.len()));
            }
        }
        if let Some(caveats) = &mut said.caveats {
            cut(caveats, words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delegation_reports_are_cut_only_when_they_do_not_fit() {
        let entries = |count: usize, chars: usize| {
            let completed = TaskCompletion {
                status: CompletionStatus::Failed,
                summary: "é".repeat(chars),
                files_modified: vec!["x".repeat(chars), "y".into()],
                tests_run: vec![],
                caveats: Some("ü".repeat(chars)),
            };
            let mut entries = vec![DelegationReport::of("worker").completed(completed); count];
            fit(&mut entries, limits::DELEGATION_ANSWER_CHARS);
            entries
        };
        let few = entries(2, 1_000);
        assert_eq!(few[0].result.as_deref().map(|text| text.chars().count()), Some(1_000));
        assert_eq!(few[1].completion.as_ref().unwrap().files_modified.len(), 2);
        let many = entries(limits::TASKS_PER_DELEGATION, 10_000);
        let json = serde_json::to_string(&many).unwrap();
        assert!(json.chars().count() < limits::DELEGATION_RESULT_CHARS * 3, "{}", json.chars().count());
        assert!(many[0].result.as_ref().unwrap().ends_with("[9950 more characters were cut]"));
    }
}
