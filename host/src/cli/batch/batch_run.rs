//! All tasks of a batch: so many at once, until none is left or something stops it.

use std::{pin::Pin, sync::Arc};

use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval_at, timeout},
};

use super::{
    result_file::ResultWriter,
    task_file::TaskFile,
    task_index::{TaskIndex, TaskState},
    task_line::BatchTask,
    task_runner::{FinishedTask, TaskRunner},
};
use crate::{
    capability::Usd,
    error::{ErrorKind, Report, legible},
    limits,
};

/// The tasks of a batch that are to be run.
pub(super) struct BatchRun {
    pub runner: Arc<TaskRunner>,
    pub tasks: TaskFile,
    pub index: TaskIndex,
    /// The number of tasks at once.
    pub jobs: usize,
    pub retries_failed: bool,
    /// The cost from which on no task begins.
    pub max_cost: Option<Usd>,
}

/// The reason for which a batch has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BatchEnd {
    /// Every task has a result.
    Done,
    /// Tasks are left that did not begin, because the batch has cost so much.
    TooCostly(Usd),
    /// A signal with this exit code has stopped it.
    Interrupted(u8),
}

/// The next step of a batch.
enum BatchStep {
    Interrupted(u8),
    Finished(FinishedTask),
    Show,
}

impl BatchRun {
    /// Runs the tasks and writes their results. After a signal no task begins, and those at work are broken off; their
    /// sessions go on with the next start.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the tasks file has changed, or a result could not be written.
    pub async fn execute(
        mut self,
        writer: ResultWriter,
        mut interrupt: Pin<&mut impl Future<Output = u8>>,
    ) -> Result<BatchEnd, Report> {
        let mut at_work = JoinSet::new();
        let interval = self.runner.progress.interval();
        let mut ticks = interval_at(tokio::time::Instant::now() + interval, interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // `None`: more tasks may begin.
        let mut end: Option<Result<BatchEnd, Report>> = None;
        loop {
            while end.is_none() && at_work.len() < self.jobs {
                end = self.begin_next(&mut at_work);
            }
            if at_work.is_empty() {
                break;
            }
            let step = tokio::select! {
                biased;
                code = &mut interrupt => BatchStep::Interrupted(code),
                // A panic is a result; only an abort, which comes later, leads to none.
                Some(Ok(finished)) = at_work.join_next() => BatchStep::Finished(finished),
                _ = ticks.tick() => BatchStep::Show,
            };
            match step {
                BatchStep::Show => self.runner.progress.show(),
                BatchStep::Finished(finished) => {
                    if !self.finish(finished, &writer).await {
                        break;
                    }
                }
                BatchStep::Interrupted(code) => {
                    end = Some(Ok(BatchEnd::Interrupted(code)));
                    self.break_off(&mut at_work, &writer).await;
                    break;
                }
            }
        }
        drop(at_work);
        self.runner.progress.clear();
        writer.finish().await?;
        end.unwrap_or(Ok(BatchEnd::Done))
    }

    /// Begins the next task that is to be run. Returns the end of the batch if no task can begin.
    fn begin_next(&mut self, at_work: &mut JoinSet<FinishedTask>) -> Option<Result<BatchEnd, Report>> {
        let (task, state) = match self.next_task() {
            Ok(Some(next)) => next,
            Ok(None) => return Some(Ok(BatchEnd::Done)),
            Err(report) => return Some(Err(report)),
        };
        if self.max_cost.is_some() {
            let cost = self.runner.costs.total();
            if self.max_cost.is_some_and(|most| cost >= most) {
                return Some(Ok(BatchEnd::TooCostly(cost)));
            }
        }
        self.runner.progress.count(|counts| counts.at_work += 1);
        let runner = Arc::clone(&self.runner);
        at_work.spawn(async move { runner.run(task, state).await });
        None
    }

    /// Returns the next task that is to be run, with its state.
    fn next_task(&mut self) -> Result<Option<(BatchTask, TaskState)>, Report> {
        while let Some(task) = self.tasks.next()? {
            let state = self.index.state(&task.id).ok_or_else(|| {
                let (file, id) = (self.tasks.shown(), legible(&task.id));
                let report = Report::new(ErrorKind::Usage, format!("{file} was changed while the batch was running"));
                report
                    .cause(format!("the task `{id}` was added"))
                    .hint("run the same command again; answered tasks are not repeated")
            })?;
            if state.is_pending(self.retries_failed) {
                return Ok(Some((task, state)));
            }
        }
        Ok(None)
    }

    /// Counts a task and writes its result. Returns `false` if results cannot be written any more.
    async fn finish(&self, finished: FinishedTask, writer: &ResultWriter) -> bool {
        let FinishedTask { line, is_answered } = finished;
        let usd = self.runner.costs.total();
        self.runner.progress.count(|counts| {
            counts.at_work -= 1;
            *if is_answered { &mut counts.answered } else { &mut counts.failed } += 1;
            counts.usd = usd;
        });
        writer.append(line).await
    }

    /// Breaks off the tasks at work, and writes the results of those that have ended by then.
    async fn break_off(&self, at_work: &mut JoinSet<FinishedTask>, writer: &ResultWriter) {
        at_work.abort_all();
        // Dropping a task ends the programs that it has started.
        let ending = async {
            while let Some(ended) = at_work.join_next().await {
                if let Ok(finished) = ended {
                    self.finish(finished, writer).await;
                }
            }
        };
        let _ = timeout(limits::CANCEL_GRACE, ending).await;
        self.runner.progress.count(|counts| counts.at_work = 0);
    }
}
