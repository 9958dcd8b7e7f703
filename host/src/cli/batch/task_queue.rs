use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    schema_cache::SchemaCache,
    task_file::TaskFile,
    task_index::{TaskIndex, TaskState},
    task_line::BatchTask,
};
use crate::{
    error::{ErrorKind, Report, legible},
    limits,
};

/// The tasks of a file that are to be run, in the order of the file. A task is handed out once there is memory for its line and
/// its attached files, so that the file is read only as far as tasks can begin: one line waits at most.
pub(super) struct TaskQueue {
    tasks: TaskFile,
    index: TaskIndex,
    retries_failed: bool,
    /// The memory of all tasks at work, in KiB.
    memory_kib: Arc<Semaphore>,
    most_kib: u32,
    /// The next task, for which there was no memory, and the bytes that it needs.
    waiting: Option<(BatchTask, TaskState, u64)>,
}

/// A task that may begin.
#[derive(Debug)]
pub(super) struct AdmittedTask {
    pub task: BatchTask,
    pub state: TaskState,
    /// The memory of its line and its attached files, for other tasks again when this is dropped.
    pub memory: OwnedSemaphorePermit,
}

/// The next task of a queue.
#[derive(Debug)]
pub(super) enum NextTask {
    Admitted(Box<AdmittedTask>),
    /// There is one, but no memory until a task ends.
    NoMemory,
    /// No task is left.
    End,
}

impl TaskQueue {
    /// Creates the queue of those tasks of a file that are to be run: by their state, and `retries_failed`.
    pub fn new(tasks: TaskFile, index: TaskIndex, retries_failed: bool) -> Self {
        Self::within(tasks, index, retries_failed, kib(limits::TASKS_HELD_BYTES))
    }

    fn within(tasks: TaskFile, index: TaskIndex, retries_failed: bool, most_kib: u32) -> Self {
        let memory_kib = Arc::new(Semaphore::new(most_kib as usize));
        Self { tasks, index, retries_failed, memory_kib, most_kib, waiting: None }
    }

    /// Returns the next task. A task that alone takes more than all memory begins alone.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the file cannot be read, or has a task that it did not have when its tasks were counted.
    pub fn next(&mut self, schemas: &SchemaCache) -> Result<NextTask, Report> {
        let next = self.waiting.take().map_or_else(|| self.read_next(schemas), |waiting| Ok(Some(waiting)));
        let Some((task, state, bytes)) = next? else { return Ok(NextTask::End) };
        match Arc::clone(&self.memory_kib).try_acquire_many_owned(kib(bytes).min(self.most_kib)) {
            Ok(memory) => Ok(NextTask::Admitted(Box::new(AdmittedTask { task, state, memory }))),
            Err(_) => {
                self.waiting = Some((task, state, bytes));
                Ok(NextTask::NoMemory)
            }
        }
    }

    fn read_next(&mut self, schemas: &SchemaCache) -> Result<Option<(BatchTask, TaskState, u64)>, Report> {
        while let Some(task) = self.tasks.next()? {
            let state = self.index.state(&task.id).ok_or_else(|| {
                let (file, id) = (self.tasks.shown(), legible(&task.id));
                let report = Report::new(ErrorKind::Usage, format!("{file} was changed while the batch was running"));
                report
                    .cause(format!("the task `{id}` was added"))
                    .hint("run the same command again; answered tasks are not repeated")
            })?;
            if state.is_pending(self.retries_failed) {
                // A file that is gone meanwhile is the failure of the task itself.
                let bytes = task.check(schemas).unwrap_or(task.bytes);
                return Ok(Some((task, state, bytes)));
            }
        }
        Ok(None)
    }
}

/// Returns a number of bytes in KiB, rounded up.
fn kib(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_only_as_far_as_memory_allows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let long = "x".repeat(1_500);
        std::fs::write(folder.path().join("big.txt"), "x".repeat(9_000)).unwrap();
        let lines = [
            format!("{{\"id\": \"a\", \"task\": \"{long}\"}}"),
            format!("{{\"id\": \"b\", \"task\": \"{long}\"}}"),
            "{\"id\": \"c\", \"task\": \"c\"}".to_owned(),
            "{\"id\": \"d\", \"task\": \"d\", \"attachments\": [\"big.txt\"]}".to_owned(),
            "{\"id\": \"e\", \"task\": \"e\", \"attachments\": [\"gone.txt\"]}".to_owned(),
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let (schemas, mut index) = (SchemaCache::default(), TaskIndex::default());
        assert!(["a", "b", "c", "d", "e"].into_iter().all(|id| index.add(id)));
        // Two lines of 2 KiB, or one of 2 KiB and two short ones.
        let mut queue = TaskQueue::within(TaskFile::open(&path).unwrap(), index, false, 4);
        let mut next = || match queue.next(&schemas).unwrap() {
            NextTask::Admitted(admitted) => Some((admitted.task.id.clone(), admitted)),
            NextTask::NoMemory => None,
            NextTask::End => panic!("a task is left"),
        };
        let (a, b) = (next().unwrap(), next().unwrap());
        assert_eq!((a.0.as_str(), b.0.as_str()), ("a", "b"));
        assert!(next().is_none() && next().is_none(), "the lines of two tasks fill the memory");
        drop(b);
        let c = next().unwrap();
        assert_eq!(c.0, "c");
        drop(a);
        assert!(next().is_none(), "the attached file alone takes all memory");
        // A task that waits is looked at once, not each time that it is asked for.
        std::fs::remove_file(folder.path().join("big.txt")).unwrap();
        assert!(next().is_none(), "the file was there when its memory was counted");
        drop(c);
        let d = next().unwrap();
        assert_eq!(d.0, "d");
        drop(d);
        assert_eq!(next().unwrap().0, "e", "a file that is missing is the failure of the task");
        assert!(matches!(queue.next(&schemas), Ok(NextTask::End)));
    }

    #[test]
    fn task_that_was_added_meanwhile_ends_the_queue() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, "{\"id\": \"new\", \"task\": \"x\"}").unwrap();
        let mut queue = TaskQueue::new(TaskFile::open(&path).unwrap(), TaskIndex::default(), false);
        let report = queue.next(&SchemaCache::default()).unwrap_err();
        assert!(report.to_string().contains("the task `new` was added") && report.hint.is_some(), "{report}");
    }
}
