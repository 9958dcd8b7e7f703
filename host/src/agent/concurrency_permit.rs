use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An agent's place among those that work at once. While it waits for others it has none: so an agent that may work only
/// once can be delegated to by those that it delegated to, and nobody waits for ever.
#[derive(Debug, Default)]
pub(crate) struct ConcurrencyPermit {
    of: Vec<Arc<Semaphore>>,
    held: Mutex<HeldPermits>,
}

#[derive(Debug, Default)]
struct HeldPermits {
    permits: Vec<OwnedSemaphorePermit>,
    /// For how many things it waits.
    away: usize,
}

impl ConcurrencyPermit {
    /// For an agent that a person started: there is always one.
    pub fn free() -> Self {
        Self::default()
    }

    /// Waits for a place in each of these.
    pub async fn take(of: Vec<Arc<Semaphore>>) -> Self {
        let place = Self { of, held: Mutex::default() };
        place.enter().await;
        place
    }

    /// Waits for `work`, which is done by others, without the place; [`enter`](Self::enter) takes it again.
    pub async fn wait_for<T>(&self, work: impl Future<Output = T>) -> T {
        let _away = self.leave();
        work.await
    }

    /// Waits for the place; at once if it is held, or something else is still waited for.
    pub async fn enter(&self) {
        let is_free = |held: &HeldPermits| held.away == 0 && held.permits.is_empty();
        if self.of.is_empty() || !is_free(&self.held()) {
            return;
        }
        let permits = self.permits().await;
        let mut held = self.held();
        if is_free(&held) {
            held.permits = permits;
        }
    }

    fn leave(&self) -> PermitReleaseGuard<'_> {
        let mut held = self.held();
        held.away += 1;
        held.permits.clear();
        PermitReleaseGuard(self)
    }

    async fn permits(&self) -> Vec<OwnedSemaphorePermit> {
        let mut permits = Vec::with_capacity(self.of.len());
        for places in &self.of {
            // They are never closed.
            permits.extend(Arc::clone(places).acquire_owned().await);
        }
        permits
    }

    fn held(&self) -> MutexGuard<'_, HeldPermits> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One thing that is waited for. Whoever stops waiting, in whichever way, is no longer away for it.
struct PermitReleaseGuard<'a>(&'a ConcurrencyPermit);

impl Drop for PermitReleaseGuard<'_> {
    fn drop(&mut self) {
        self.0.held().away -= 1;
    }
}
