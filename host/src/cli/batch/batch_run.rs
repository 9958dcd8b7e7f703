//! All tasks of a batch: so many at once, until none is left or something stops it.

use std::{pin::Pin, sync::Arc};

use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval_at, timeout},
};

use super::{
    result_file::ResultWriter,
    task_queue::{AdmittedTask, NextTask, TaskQueue},
    task_runner::{FinishedTask, TaskRunner},
};
use crate::{capability::Usd, error::Report, limits};

/// The tasks of a batch that are to be run.
pub(super) struct BatchRun {
    pub runner: Arc<TaskRunner>,
    pub queue: TaskQueue,
    /// The number of tasks at once.
    pub jobs: usize,
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
    /// A task has ended; `Err`: no further task can be recorded.
    Finished(Result<FinishedTask, Report>),
    /// A task has noted a warning.
    Warned,
    Show,
}

/// The outcome of an attempt to begin a task.
enum BeginAttempt {
    Begun,
    /// There is no memory until a task ends.
    NoMemory,
    /// No task can begin any more.
    End(Result<BatchEnd, Report>),
}

impl BatchRun {
    /// Runs the tasks and writes their results. After a signal no task begins, and those at work are broken off; their
    /// sessions go on with the next start.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the tasks file has changed, no session can be created any more, or a result could not be written.
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
                match self.begin_next(&mut at_work) {
                    BeginAttempt::Begun => {}
                    BeginAttempt::NoMemory => break,
                    BeginAttempt::End(ended) => end = Some(ended),
                }
            }
            if at_work.is_empty() {
                break;
            }
            let step = tokio::select! {
                biased;
                code = &mut interrupt => BatchStep::Interrupted(code),
                // A panic is a result; only an abort, which comes later, leads to none.
                Some(Ok(finished)) = at_work.join_next() => BatchStep::Finished(finished),
                () = self.runner.progress.warned() => BatchStep::Warned,
                _ = ticks.tick() => BatchStep::Show,
            };
            match step {
                BatchStep::Show => self.runner.progress.show(),
                BatchStep::Warned => self.runner.progress.show_warnings(),
                BatchStep::Finished(Err(report)) => {
                    self.runner.progress.update(|counts| counts.at_work -= 1);
                    end.get_or_insert(Err(report));
                }
                BatchStep::Finished(Ok(finished)) => {
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
        self.runner.progress.show_warnings();
        self.runner.progress.clear();
        writer.finish().await?;
        end.unwrap_or(Ok(BatchEnd::Done))
    }

    /// Begins the next task that is to be run, if there is memory for it.
    fn begin_next(&mut self, at_work: &mut JoinSet<Result<FinishedTask, Report>>) -> BeginAttempt {
        let AdmittedTask { task, state, memory } = match self.queue.next(&self.runner.schemas) {
            Ok(NextTask::Admitted(admitted)) => *admitted,
            Ok(NextTask::NoMemory) => return BeginAttempt::NoMemory,
            Ok(NextTask::End) => return BeginAttempt::End(Ok(BatchEnd::Done)),
            Err(report) => return BeginAttempt::End(Err(report)),
        };
        if self.max_cost.is_some() {
            let cost = self.runner.costs.total();
            if self.max_cost.is_some_and(|most| cost >= most) {
                return BeginAttempt::End(Ok(BatchEnd::TooCostly(cost)));
            }
        }
        self.runner.progress.update(|counts| counts.at_work += 1);
        let runner = Arc::clone(&self.runner);
        at_work.spawn(async move {
            let _memory = memory;
            runner.run(task, state).await
        });
        BeginAttempt::Begun
    }

    /// Counts a task and writes its result. Returns `false` if results cannot be written any more.
    async fn finish(&self, finished: FinishedTask, writer: &ResultWriter) -> bool {
        let FinishedTask { result_line, failure } = finished;
        let usd = self.runner.costs.total();
        failure.iter().for_each(|report| self.runner.progress.note_failure(report));
        self.runner.progress.update(|counts| {
            counts.at_work -= 1;
            *if failure.is_none() { &mut counts.answered } else { &mut counts.failed } += 1;
            counts.usd = usd;
        });
        writer.append(result_line).await
    }

    /// Breaks off the tasks at work, and writes the results of those that have ended by then.
    async fn break_off(&self, at_work: &mut JoinSet<Result<FinishedTask, Report>>, writer: &ResultWriter) {
        at_work.abort_all();
        // Dropping a task ends the programs that it has started.
        let ending = async {
            while let Some(ended) = at_work.join_next().await {
                if let Ok(Ok(finished)) = ended {
                    self.finish(finished, writer).await;
                }
            }
        };
        let _ = timeout(limits::CANCEL_GRACE, ending).await;
        self.runner.progress.update(|counts| counts.at_work = 0);
    }
}
