use std::future::Future;

use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The tasks that work for a run and for its sub-runs. Dropping a handle only asks its task to stop, so a run has not
/// ended before its tasks are gone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunTasks {
    own: TaskTracker,
    /// The trackers of the parent runs, which wait for these tasks too.
    above: Vec<TaskTracker>,
}

impl RunTasks {
    /// Returns the tasks of a sub-run.
    pub fn below(&self) -> Self {
        let above = self.above.iter().chain([&self.own]).cloned().collect();
        Self { own: TaskTracker::new(), above }
    }

    /// Spawns a task that is stopped when its handle is dropped.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> AbortOnDropHandle<T> {
        let tokens: Vec<_> = self.above.iter().chain([&self.own]).map(TaskTracker::token).collect();
        // One value, so that the work is dropped before the tokens even if it never began. Boxed, since the task would
        // otherwise hold it twice.
        let tracked = (Box::pin(work), tokens);
        AbortOnDropHandle::new(tokio::spawn(async move {
            let (work, _tokens) = tracked;
            work.await
        }))
    }

    /// Waits until all tasks are gone. Nothing may spawn tasks any more.
    pub async fn gone(&self) {
        self.own.close();
        self.own.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use super::*;

    struct Gone(Arc<AtomicBool>);

    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn dropped_tasks_of_sub_runs_are_awaited() {
        let (tasks, gone) = (RunTasks::default(), Arc::new(AtomicBool::new(false)));
        let (below, guard) = (tasks.below(), Gone(Arc::clone(&gone)));
        let child = tasks.spawn(async move {
            let grandchild = below.spawn(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
            grandchild.await
        });
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        drop(child);
        assert!(!gone.load(Ordering::Relaxed), "it was only asked to stop");
        tasks.gone().await;
        assert!(gone.load(Ordering::Relaxed));
    }
}
