use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The permit of an agent that works, out of a bounded number. An agent that waits for others holds none. So an agent that
/// may work only once can be started by the agents that it started, without a deadlock.
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyPermit {
    semaphores: Vec<Arc<Semaphore>>,
    held: Mutex<HeldPermits>,
}

#[derive(Debug, Default)]
struct HeldPermits {
    permits: Vec<OwnedSemaphorePermit>,
    /// The number of things that it waits for.
    away: usize,
}

impl ConcurrencyPermit {
    /// Returns a permit without a bound, for an agent that a person started.
    pub fn free() -> Self {
        Self::default()
    }

    /// Waits for a permit of each semaphore.
    pub async fn take(semaphores: Vec<Arc<Semaphore>>) -> Self {
        let permit = Self { semaphores, held: Mutex::default() };
        permit.acquire().await;
        permit
    }

    /// Releases the permit and waits for `work`, which others do; [`acquire`](Self::acquire) takes the permit again.
    pub async fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        let _away = self.leave();
        work.await
    }

    /// Waits for the permit; returns at once if it is held, or while something else is waited for.
    pub async fn acquire(&self) {
        let is_free = |held: &HeldPermits| held.away == 0 && held.permits.is_empty();
        if self.semaphores.is_empty() || !is_free(&self.held()) {
            return;
        }
        let permits = self.permits().await;
        let mut held = self.held();
        if is_free(&held) {
            held.permits = permits;
        }
    }

    fn leave(&self) -> PermitReleaseGuard<'_> {
        self.begin_wait();
        PermitReleaseGuard(self)
    }

    /// Releases the permit. It can be taken again after as many calls of [`end_wait`](Self::end_wait).
    pub fn begin_wait(&self) {
        let mut held = self.held();
        held.away += 1;
        held.permits.clear();
    }

    /// Ends a wait.
    pub fn end_wait(&self) {
        self.held().away -= 1;
    }

    async fn permits(&self) -> Vec<OwnedSemaphorePermit> {
        let mut permits = Vec::with_capacity(self.semaphores.len());
        for semaphore in &self.semaphores {
            // The semaphores are never closed.
            permits.extend(Arc::clone(semaphore).acquire_owned().await);
        }
        permits
    }

    fn held(&self) -> MutexGuard<'_, HeldPermits> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait for something. Dropping it ends the wait, also if it is cancelled.
struct PermitReleaseGuard<'a>(&'a ConcurrencyPermit);

impl Drop for PermitReleaseGuard<'_> {
    fn drop(&mut self) {
        self.0.end_wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permit_is_free_while_anything_is_waited_for() {
        let semaphore = Arc::new(Semaphore::new(1));
        let permit = ConcurrencyPermit::take(vec![Arc::clone(&semaphore)]).await;
        let mut free = vec![semaphore.available_permits()];
        for is_begin in [true, true, false, false] {
            if is_begin {
                permit.begin_wait()
            } else {
                permit.end_wait()
            }
            permit.acquire().await;
            free.push(semaphore.available_permits());
        }
        assert_eq!(free, [0, 1, 1, 1, 0]);
    }
}
