use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

/// A value that many hold, and a revision that counts its changes and wakes whoever waits for one.
#[derive(Debug, Default)]
pub(super) struct WatchedValue<T> {
    value: Mutex<T>,
    revision: watch::Sender<u64>,
}

impl<T> WatchedValue<T> {
    /// Looks at it.
    pub(super) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.lock())
    }

    /// Changes it. An `Err` means that it is as it was: nobody is woken.
    pub(super) fn change<R, E>(&self, change: impl FnOnce(&mut T) -> Result<R, E>) -> Result<R, E> {
        let done = change(&mut self.lock())?;
        self.revision.send_modify(|revision| *revision += 1);
        Ok(done)
    }

    /// Changes it, and wakes whoever waits.
    pub(super) fn set(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock());
        self.revision.send_modify(|revision| *revision += 1);
    }

    /// Looks now and after each change, until there is something to see.
    pub(super) async fn until<R>(&self, mut look: impl FnMut(&T) -> Option<R>) -> R {
        // Subscribed before the first look: a change between a look and the wait is not missed.
        let mut changes = self.revision.subscribe();
        loop {
            if let Some(found) = self.read(&mut look) {
                return found;
            }
            // Fails only without a sender, and that is in `self`.
            let _ = changes.changed().await;
        }
    }

    /// How often it was changed.
    pub(super) fn revision(&self) -> u64 {
        *self.revision.borrow()
    }

    /// Waits until it was changed more than `after` times; returns how often it was.
    pub(super) async fn changed(&self, after: u64) -> u64 {
        self.until(|_| Some(self.revision()).filter(|revision| *revision > after)).await
    }

    /// Every change is made whole or not at all, so that a panic of another holder leaves nothing to fear.
    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is told of changes; nobody by default. It is told under the lock, so that the order of what it is told is the order
/// of the changes.
pub(super) struct StateChangeHook<T>(Option<Arc<StateChangeFn<T>>>);

type StateChangeFn<T> = dyn Fn(&T) + Send + Sync;

impl<T> StateChangeHook<T> {
    pub(super) fn new(hook: Arc<StateChangeFn<T>>) -> Self {
        Self(Some(hook))
    }

    /// Tells of a change, which is made only if somebody is told.
    pub(super) fn tell(&self, change: impl FnOnce() -> T) {
        if let Some(hook) = &self.0 {
            hook(&change());
        }
    }
}

impl<T> Default for StateChangeHook<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> fmt::Debug for StateChangeHook<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Hook(told)" } else { "Hook(untold)" })
    }
}

/// What was written down of a board does not make one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place} cannot be restored: {cause}; what is written down of it was changed or is incomplete")]
pub struct StateRestoreError {
    /// Which task, or which change of a blackboard.
    pub place: String,
    /// What is wrong with it.
    pub cause: String,
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn no_change_is_missed_between_a_look_and_the_wait() {
        let shared = WatchedValue::<u32>::default();
        let mut looks = 0;
        let seen = shared.until(|_| {
            looks += 1;
            if looks == 1 {
                // As if it changed right after this look: the lock is held here, so that only the revision can.
                shared.revision.send_modify(|revision| *revision += 1);
            }
            (looks == 2).then_some(())
        });
        assert!(seen.now_or_never().is_some());
    }

    #[test]
    fn a_refused_change_wakes_nobody() {
        let shared = WatchedValue::<u32>::default();
        assert_eq!(shared.change(|_| Err::<(), _>("no")), Err("no"));
        assert_eq!(shared.revision(), 0);
    }
}
