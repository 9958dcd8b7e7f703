use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use shelly_core::{error::Fault, limits};

/// Limits the calls of one client.
pub(super) struct ClientCallSlots {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// A permit of the client's own limit and one of the limit of all clients.
pub(super) struct ClientCallPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl ClientCallSlots {
    pub fn new() -> Self {
        Self { permits: Arc::new(Semaphore::new(limits::MCP_SERVE_CALLS)), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a permit.
    ///
    /// # Errors
    ///
    /// A [`Fault`] if too many calls wait already.
    pub async fn take(&self, all: &Arc<Semaphore>) -> Result<ClientCallPermit, Fault> {
        let _waiting = QueuedCallGuard::new(&self.waiting).ok_or_else(|| {
            let most = limits::MCP_SERVE_CALLS_WAITING;
            Fault::RateLimited { message: format!("{most} calls wait already; make fewer at once"), after: None }
        })?;
        // The semaphores are never closed.
        let closed = |_| Fault::other("the server is closed");
        let own = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        let all = Arc::clone(all).acquire_owned().await.map_err(closed)?;
        Ok(ClientCallPermit { _own: own, _all: all })
    }
}

/// Counts a call as waiting until it is dropped.
struct QueuedCallGuard<'a>(&'a AtomicUsize);

impl<'a> QueuedCallGuard<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        let this = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < limits::MCP_SERVE_CALLS_WAITING).then_some(this)
    }
}

impl Drop for QueuedCallGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;

    use super::*;

    #[tokio::test]
    async fn calls_take_turns_and_too_many_are_refused() {
        let (turns, all) = (ClientCallSlots::new(), Arc::new(Semaphore::new(limits::MCP_SERVE_CALLS_OF_ALL)));
        let mut permits = Vec::new();
        for _ in 0..limits::MCP_SERVE_CALLS {
            permits.push(turns.take(&all).await.ok().unwrap());
        }
        let mut waiting: Vec<_> = (0..limits::MCP_SERVE_CALLS_WAITING).map(|_| Box::pin(turns.take(&all))).collect();
        for waiting in &mut waiting {
            assert!(poll!(waiting).is_pending());
        }
        assert!(matches!(turns.take(&all).await.err(), Some(Fault::RateLimited { .. })));
        permits.pop();
        assert!(poll!(&mut waiting[0]).is_ready());
        drop(waiting);
        permits.clear();
        assert!(turns.take(&all).await.is_ok(), "whoever gave up waits no more");
        let _all: Vec<_> =
            (0..limits::MCP_SERVE_CALLS_OF_ALL).map(|_| Arc::clone(&all).try_acquire_owned().unwrap()).collect();
        assert!(poll!(Box::pin(ClientCallSlots::new().take(&all))).is_pending(), "others have all places");
    }
}
