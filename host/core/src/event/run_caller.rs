use std::{
    any::Any,
    fmt,
    sync::{Arc, Weak},
};

/// A weak reference to the state of the run in which an agent works. Opaque here: only the module that sets it can read it.
#[derive(Clone, Default)]
pub struct RunCaller(Option<Weak<dyn Any + Send + Sync>>);

impl RunCaller {
    /// Creates a reference to this state.
    pub fn new<T: Any + Send + Sync>(state: Weak<T>) -> Self {
        Self(Some(state))
    }

    /// Returns the state, if it has this type and still exists.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.0.as_ref()?.upgrade()?.downcast().ok()
    }
}

impl fmt::Debug for RunCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "RunCaller(agent)" } else { "RunCaller(none)" })
    }
}
