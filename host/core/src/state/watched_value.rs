use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::tool::ToolCallId;

/// A shared value with a revision that counts its changes and wakes waiting tasks.
#[derive(Debug, Default)]
pub(super) struct WatchedValue<T> {
    value: Mutex<T>,
    revision: watch::Sender<u64>,
}

impl<T> WatchedValue<T> {
    /// Applies `look` to the value.
    pub(super) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Applies `change`. On `Err` the value is unchanged and no waiter is notified.
    pub(super) fn change<R, E>(&self, change: impl FnOnce(&mut T) -> Result<R, E>) -> Result<R, E> {
        let done = change(&mut self.lock())?;
        self.revision.send_modify(|revision| *revision += 1);
        Ok(done)
    }

    /// Applies `change` and notifies the waiters.
    pub(super) fn set(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock());
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Applies `look` now and after each change, until it returns `Some`.
    pub(super) async fn until<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> R {
        // Subscribed before the first look: a change between a look and the wait is not missed.
        let mut changes = self.revision.subscribe();
        loop {
            if let Some(found) = self.read(&mut look) {
                return found;
            }
            // Fails only without a sender, which `self` holds.
            let _ = changes.changed().await;
        }
    }

    /// Returns the number of changes so far.
    pub(super) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }

    /// Waits until the value has changed more than `after` times; returns the number of changes.
    pub(super) async fn changed(&self, after: u64) -> u64 {
        self.until(|_| Some(self.revision()).filter(|revision| *revision > after)).await
    }

    /// Every change is atomic, so a lock poisoned by another holder's panic is safe to use.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A callback for changes; none by default. It is called under the lock, so that calls have the order of the changes.
pub(super) struct StateChangeHook<T> {
    callback: Option<Arc<StateChangeFn<T>>>,
    /// The tool call that makes the change under way; `None` if the host makes it.
    pub(super) author: Option<Arc<ToolCallId>>,
}

/// A callback that is told of a change, and which tool call made it; `None` for a change of the host.
pub type StateChangeFn<T> = dyn Fn(&T, Option<&ToolCallId>) + Send + Sync;

impl<T> StateChangeHook<T> {
    pub(super) fn new(hook: Arc<StateChangeFn<T>>) -> Self {
        Self { callback: Some(hook), author: None }
    }

    /// Reports a change, which is created only if there is a callback.
    pub(super) fn tell(&self, change: impl FnOnce() -> T) {
        if let Some(callback) = &self.callback {
            callback(&change(), self.author.as_deref());
        }
    }
}

impl<T> Default for StateChangeHook<T> {
    fn default() -> Self {
        Self { callback: None, author: None }
    }
}

impl<T> fmt::Debug for StateChangeHook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.callback.is_some() { "StateChangeHook(set)" } else { "StateChangeHook(none)" })
    }
}

/// The error for recorded changes that cannot be replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot restore {position}: {cause}; the record is damaged or incomplete")]
pub struct StateRestoreError {
    /// The affected task, or the change of a blackboard.
    pub position: String,
    /// The reason.
    pub cause: String,
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn watched_value_misses_no_change_before_waiting() {
        let shared = WatchedValue::<u32>::default();
        let mut looks = 0;
        let seen = shared.until(|_| {
            looks += 1;
            if looks == 1 {
                // Simulates a change right after this look: the lock is held here, so only the revision can change.
                shared.revision.send_modify(|revision| *revision += 1);
            }
            (looks == 2).then_some(())
        });
        assert!(seen.now_or_never().is_some());
    }

    #[test]
    fn failed_change_notifies_no_waiter() {
        let shared = WatchedValue::<u32>::default();
        assert_eq!(shared.change(|_| Err::<(), _>("no")), Err("no"));
        assert_eq!(shared.revision(), 0);
    }
}
