//! The failures of the tasks of a batch, counted by what they say.

use crate::{
    cli::render::{DIM, PLAIN, one_line},
    error::{Report, count},
    limits,
};

/// The failures of tasks in this start.
#[derive(Debug, Default)]
pub(super) struct BatchFailures {
    groups: Vec<FailureGroup>,
    /// Tasks whose failure is of none of the groups, because there are too many different ones.
    others: u64,
}

/// Tasks that failed alike.
#[derive(Debug)]
struct FailureGroup {
    text: String,
    hint: Option<String>,
    tasks: u64,
}

impl BatchFailures {
    /// Counts the failure of a task.
    pub fn note(&mut self, report: &Report) {
        let text = one_line(&report.to_string(), limits::FAILURE_SHOWN_CHARS);
        let is_full = self.groups.len() == limits::TASK_FAILURES_COUNTED;
        match self.groups.iter_mut().find(|group| group.text == text) {
            Some(group) => group.tasks += 1,
            None if is_full => self.others += 1,
            None => {
                let hint = report.hint.as_deref().map(|hint| one_line(hint, limits::FAILURE_SHOWN_CHARS));
                self.groups.push(FailureGroup { text, hint, tasks: 1 });
            }
        }
    }

    /// Returns the lines for a person, the most frequent failure first; the results file has them all.
    pub fn lines(&self) -> Vec<String> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        // The sort is stable: of equally frequent failures the earlier one is first.
        groups.sort_by_key(|group| std::cmp::Reverse(group.tasks));
        let shown = groups.len().min(limits::TASK_FAILURES_SHOWN);
        let mut lines = Vec::new();
        for group in &groups[..shown] {
            lines.push(format!("{}: {}", count(group.tasks, "task failed", "tasks failed"), group.text));
            lines.extend(group.hint.iter().map(|hint| format!("  {DIM}hint: {hint}{PLAIN}")));
        }
        let rest = groups[shown..].iter().map(|group| group.tasks).sum::<u64>() + self.others;
        if rest > 0 {
            let rest = count(rest, "task failed otherwise", "tasks failed otherwise");
            lines.push(format!("{rest}; the results file has each failure under `error`"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn failed(message: &str) -> Report {
        Report::new(ErrorKind::Provider, message)
    }

    #[test]
    fn equal_failures_are_counted_together() {
        let mut failures = BatchFailures::default();
        failures.note(&failed("the model is down").cause("refused").hint("start it"));
        for _ in 0..2 {
            failures.note(&failed("no\nluck \u{1b}[2J"));
        }
        let hint = format!("  {DIM}hint: start it{PLAIN}");
        let lines = ["2 tasks failed: no luck \\u{1b}[2J", "1 task failed: the model is down: refused", &hint];
        assert_eq!(failures.lines(), lines);
        assert!(BatchFailures::default().lines().is_empty());
    }

    #[test]
    fn different_failures_are_bounded() {
        let mut failures = BatchFailures::default();
        for n in 0..limits::TASK_FAILURES_COUNTED + 2 {
            failures.note(&failed(&format!("failure {n}")));
        }
        assert_eq!(failures.groups.len(), limits::TASK_FAILURES_COUNTED);
        let lines = failures.lines();
        assert_eq!(lines.len(), limits::TASK_FAILURES_SHOWN + 1);
        let rest = limits::TASK_FAILURES_COUNTED + 2 - limits::TASK_FAILURES_SHOWN;
        assert!(lines[limits::TASK_FAILURES_SHOWN].starts_with(&format!("{rest} tasks failed otherwise")), "{lines:?}");
    }
}
