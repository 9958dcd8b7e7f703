//! The progress of a run of the queue, as the journal of its session tells it.

use std::collections::BTreeMap;

use crate::{
    agent::journal::{JournalRecord, RecordedRunEnd},
    model::UsageTally,
    session::{JournalLineContent, SessionError, SessionStore},
};

/// The progress of a run of the queue.
#[derive(Debug, Default, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one at a time, which is taken apart at once")]
pub(super) enum RecordedProgress {
    /// The journal does not have its task.
    #[default]
    NotBegun,
    /// The run began and was cut off.
    Unfinished {
        /// Its usage so far, with that of all agents that worked for it.
        spent: UsageTally,
    },
    /// The run has ended.
    Ended {
        /// The end.
        outcome: RecordedRunEnd,
        /// Its usage, with that of all agents that worked for it.
        spent: UsageTally,
        /// Its tool calls, with those of all agents that worked for it.
        tool_calls: u64,
        /// The ids of the tasks that agents of other hosts had when it ended: their cost is not counted above.
        left: Vec<String>,
    },
}

/// The place of a run in a journal, found line by line.
struct RunSearch<'a> {
    id: &'a str,
    /// `false`: the run goes on with what is in the session, so that it is the newest one that a person started.
    has_task: bool,
    /// The number of the run in the journal.
    run: Option<u64>,
    outcome: Option<RecordedRunEnd>,
    spent: UsageTally,
    tool_calls: u64,
    /// The ids of the tasks of agents of other hosts whose cost is not recorded, by the messages that gave them.
    left: BTreeMap<String, String>,
}

/// Reads the progress of the run `id` from its session. `has_task`: the run was submitted with a task, which carries its id
/// in the journal; otherwise it is the newest run there.
///
/// # Errors
///
/// [`SessionError`] if the session cannot be read.
pub(super) fn recorded_progress(
    store: &SessionStore,
    session: &str,
    id: &str,
    has_task: bool,
) -> Result<RecordedProgress, SessionError> {
    if !store.contains(session) {
        return Ok(RecordedProgress::NotBegun);
    }
    let mut search = RunSearch::new(id, has_task);
    for line in store.read(session)? {
        let line = line?;
        if let JournalLineContent::Record(record) = line.what {
            search.see(line.run, &record);
        }
    }
    Ok(search.progress())
}

impl<'a> RunSearch<'a> {
    fn new(id: &'a str, has_task: bool) -> Self {
        let (spent, left) = (UsageTally::default(), BTreeMap::new());
        Self { id, has_task, run: None, outcome: None, spent, tool_calls: 0, left }
    }

    /// Begins to count with this run.
    fn begin(&mut self, run: u64) {
        *self = Self { run: Some(run), ..Self::new(self.id, self.has_task) };
    }

    fn see(&mut self, run: u64, record: &JournalRecord) {
        match record {
            JournalRecord::Began { delegation_key: None, input, .. } => {
                let is_it = || input.iter().any(|message| message.queued_run() == Some(self.id));
                if !self.has_task || is_it() {
                    self.begin(run);
                }
            }
            // The task was given to a run that had been cut off before.
            JournalRecord::Sent { message } if self.has_task && message.queued_run() == Some(self.id) => {
                self.begin(run);
            }
            JournalRecord::Ended { outcome, account, .. } if self.run == Some(run) => {
                (self.outcome, self.tool_calls) = (Some(outcome.clone()), account.total().tool_calls);
            }
            // A run on another worker has its own session; what it has spent counts here.
            JournalRecord::GaveRemoteTask { given } => {
                // One that ends after the run itself is left behind by it.
                if self.run.is_some() && self.outcome.is_none() {
                    match (&given.task, given.spent) {
                        (Some(task), None) => self.left.insert(given.message.clone(), task.clone()),
                        _ => self.left.remove(&given.message),
                    };
                }
                let spent = given.spent.unwrap_or_default();
                self.pay(UsageTally {
                    completions: u64::from(given.spent.is_some()),
                    usage: spent.usage,
                    usd: spent.usd,
                });
            }
            JournalRecord::Replied { usage, cost, .. } | JournalRecord::Wasted { usage, cost } => {
                self.pay(UsageTally { completions: 1, usage: *usage, usd: *cost });
            }
            JournalRecord::Asked { completion, cost, .. } => {
                self.pay(UsageTally { completions: 1, usage: completion.usage, usd: *cost });
            }
            _ => {}
        }
    }

    fn pay(&mut self, more: UsageTally) {
        if self.run.is_some() && self.outcome.is_none() {
            self.spent = sum(&self.spent, &more);
        }
    }

    fn progress(self) -> RecordedProgress {
        match (self.run, self.outcome) {
            (None, _) => RecordedProgress::NotBegun,
            (Some(_), None) => RecordedProgress::Unfinished { spent: self.spent },
            (Some(_), Some(outcome)) => RecordedProgress::Ended {
                outcome,
                spent: self.spent,
                tool_calls: self.tool_calls,
                left: self.left.into_values().collect(),
            },
        }
    }
}

/// Returns the sum of two tallies.
pub(super) fn sum(a: &UsageTally, b: &UsageTally) -> UsageTally {
    let mut usage = a.usage;
    usage += b.usage;
    let completions = a.completions.saturating_add(b.completions);
    UsageTally { completions, usage, usd: a.usd.saturating_add(b.usd) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        agent::journal::RemoteTaskRecord,
        capability::{BudgetBreakdown, BudgetUsage, Usd},
        chat::{Message, Role, Usage},
    };

    fn began(task: &str, queued: Option<&str>) -> JournalRecord {
        let message = Message::user(task);
        let message = queued.map_or(message.clone(), |id| message.with_queued_run(id));
        JournalRecord::Began {
            agent: "ada".into(),
            instance: "ada".into(),
            model: "m".into(),
            depth: 0,
            delegation_key: None,
            continues: None,
            side_chat: None,
            input: vec![message],
            prompt: Arc::from(""),
            changes: Vec::new(),
        }
    }

    fn wasted(tokens: u64) -> JournalRecord {
        JournalRecord::Wasted {
            usage: Usage { input_tokens: tokens, ..Usage::default() },
            cost: Usd::from_pico(tokens),
        }
    }

    fn ended(text: &str) -> (JournalRecord, RecordedRunEnd) {
        let outcome = RecordedRunEnd::Answered { message: Message::text(Role::Assistant, "ada", text) };
        let (usage, account) = (Usage::default(), BudgetBreakdown::default());
        (JournalRecord::Ended { changes: Vec::new(), outcome: outcome.clone(), iterations: 1, usage, account }, outcome)
    }

    fn progress(id: &str, has_task: bool, records: &[(u64, JournalRecord)]) -> RecordedProgress {
        let mut search = RunSearch::new(id, has_task);
        records.iter().for_each(|(run, record)| search.see(*run, record));
        search.progress()
    }

    #[test]
    fn run_is_known_by_the_mark_of_its_task() {
        let (first, first_end) = ended("One.");
        let (last, last_end) = ended("Two.");
        let all = [
            // The words of a person are no mark.
            (1, began("shelly.queued-run a", None)),
            (1, wasted(1)),
            (1, last.clone()),
            (2, began("first", Some("a"))),
            (2, wasted(3)),
            (3, wasted(4)),
            (2, first),
            (4, began("second", Some("b"))),
            (4, wasted(100)),
            (4, last),
        ];
        let spent = |tokens, completions| {
            let usage = Usage { input_tokens: tokens, ..Usage::default() };
            UsageTally { completions, usage, usd: Usd::from_pico(tokens) }
        };
        assert_eq!(progress("a", true, &all[..3]), RecordedProgress::NotBegun);
        assert_eq!(progress("a", true, &all[..6]), RecordedProgress::Unfinished { spent: spent(7, 2) });
        let of_first =
            RecordedProgress::Ended { outcome: first_end, spent: spent(7, 2), tool_calls: 0, left: Vec::new() };
        assert_eq!(progress("a", true, &all[..7]), of_first);
        assert_eq!(progress("a", true, &all), of_first, "a later run of the session changes nothing");
        assert_eq!(progress("b", true, &all[..9]), RecordedProgress::Unfinished { spent: spent(100, 1) });
        assert_eq!(progress("c", true, &all), RecordedProgress::NotBegun);
        assert_eq!(
            progress("c", false, &all),
            RecordedProgress::Ended { outcome: last_end, spent: spent(100, 1), tool_calls: 0, left: Vec::new() }
        );
    }

    #[test]
    fn cost_of_a_run_on_another_worker_counts_once() {
        let cost = |tokens| BudgetUsage {
            usage: Usage { input_tokens: tokens, ..Usage::default() },
            ..BudgetUsage::default()
        };
        let given = |spent| {
            let (message, task) = ("m".to_owned(), Some("child-1".to_owned()));
            JournalRecord::GaveRemoteTask { given: RemoteTaskRecord { entry: 1, message, task, spent, passed_on: 0 } }
        };
        let all = [(1, began("task", Some("a"))), (1, given(None)), (1, wasted(2)), (1, given(Some(cost(40))))];
        let unfinished = |until: usize| match progress("a", true, &all[..until]) {
            RecordedProgress::Unfinished { spent } => (spent.completions, spent.usage.input_tokens),
            other => panic!("{other:?}"),
        };
        assert_eq!((unfinished(3), unfinished(4)), ((1, 2), (2, 42)));
        // What it has left behind is known by its id, also if its cost came after the end.
        let (end, _) = ended("Done.");
        let left = |records: &[(u64, JournalRecord)]| match progress("a", true, records) {
            RecordedProgress::Ended { left, spent, .. } => (left, spent.usage.input_tokens),
            other => panic!("{other:?}"),
        };
        let late = [all[0].clone(), all[1].clone(), (1, end.clone()), all[3].clone()];
        let of_child = (vec!["child-1".to_owned()], 0);
        assert_eq!((left(&late[..3]), left(&late[..])), (of_child.clone(), of_child));
        let in_time = [all[0].clone(), all[1].clone(), all[3].clone(), (1, end)];
        assert_eq!(left(&in_time[..]), (Vec::<String>::new(), 40));
    }

    #[test]
    fn task_sent_to_an_interrupted_run_is_found() {
        let sent = JournalRecord::Sent { message: Message::user("more").with_queued_run("a") };
        let (end, outcome) = ended("Done.");
        let all = [(1, began("task", None)), (1, wasted(9)), (1, sent), (1, wasted(2)), (1, end)];
        assert_eq!(progress("a", true, &all[..2]), RecordedProgress::NotBegun);
        assert!(
            matches!(progress("a", true, &all[..3]), RecordedProgress::Unfinished { spent } if spent.completions == 0)
        );
        let RecordedProgress::Ended { outcome: found, spent, .. } = progress("a", true, &all) else {
            panic!("it has ended")
        };
        assert_eq!((found, spent.usage.input_tokens), (outcome, 2));
    }
}
