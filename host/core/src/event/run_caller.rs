use std::{
    any::Any,
    fmt,
    sync::{Arc, Weak},
};

/// The state of a run in which an agent works, as far as modules below the agent use it.
pub trait RunCallerState: Any + Send + Sync {
    /// Releases the concurrency permit of the agent, which begins to wait for others.
    fn begin_wait(&self);

    /// Ends a wait. The agent takes its permit again before it next asks its model, unless it waits for something else.
    fn end_wait(&self);
}

/// A weak reference to the state of the run in which an agent works. Opaque here: only the module that sets it can read it.
#[derive(Clone, Default)]
pub struct RunCaller(Option<Weak<dyn RunCallerState + Send + Sync>>);

impl RunCaller {
    /// Creates a reference to this state.
    pub fn new<T: RunCallerState>(state: Weak<T>) -> Self {
        Self(Some(state))
    }

    /// Returns the state, if it has this type and still exists.
    pub fn get<T: RunCallerState>(&self) -> Option<Arc<T>> {
        let state: Arc<dyn Any + Send + Sync> = self.state()?;
        state.downcast().ok()
    }

    /// Lets the agent wait for others until the returned guard is dropped; `None` if no agent works in the run.
    pub(super) fn begin_wait(&self) -> Option<CallerWaitGuard> {
        let state = self.state()?;
        state.begin_wait();
        Some(CallerWaitGuard(state))
    }

    fn state(&self) -> Option<Arc<dyn RunCallerState + Send + Sync>> {
        self.0.as_ref()?.upgrade()
    }
}

impl fmt::Debug for RunCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "RunCaller(agent)" } else { "RunCaller(none)" })
    }
}

/// A wait of an agent for others. Dropping it ends the wait, also if it is cancelled.
pub(super) struct CallerWaitGuard(Arc<dyn RunCallerState + Send + Sync>);

impl Drop for CallerWaitGuard {
    fn drop(&mut self) {
        self.0.end_wait();
    }
}
