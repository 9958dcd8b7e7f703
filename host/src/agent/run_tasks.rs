use std::future::Future;

use tokio_util::task::{AbortOnDropHandle, TaskTracker};

/// The tasks that work for a run, and for those that it delegates to. Letting go of one only asks it to stop: a run has
/// not ended before they are gone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunTasks {
    own: TaskTracker,
    /// Those of the runs above, which wait for these too.
    above: Vec<TaskTracker>,
}

impl RunTasks {
    /// For a run below.
    pub fn below(&self) -> Self {
        let above = self.above.iter().chain([&self.own]).cloned().collect();
        Self { own: TaskTracker::new(), above }
    }

    /// A task that is stopped when its handle goes away.
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> AbortOnDropHandle<T> {
        let tokens: Vec<_> = self.above.iter().chain([&self.own]).map(TaskTracker::token).collect();
        // One value, so that the work goes away first also where it never began; in a box, since it would stand in the task
        // twice.
        let tracked = (Box::pin(work), tokens);
        AbortOnDropHandle::new(tokio::spawn(async move {
            let (work, _tokens) = tracked;
            work.await
        }))
    }

    /// Waits until all are gone. There must be nobody left who spawns.
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
    async fn what_was_let_go_is_waited_for_also_below() {
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
