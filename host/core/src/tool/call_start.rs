use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;

use crate::error::Fault;

/// A hook that a call awaits right before it does what must not be repeated; by default it does nothing.
#[derive(Clone, Default)]
pub struct CallStartHook {
    callback: Option<Arc<CallStartCallback>>,
    is_again: bool,
}

type CallStartCallback = dyn Fn() -> BoxFuture<'static, Result<(), Fault>> + Send + Sync;

impl CallStartHook {
    /// Creates a hook from a callback whose future the call awaits. If that fails, the call is not made, and its result is
    /// the fault.
    pub fn new(callback: impl Fn() -> BoxFuture<'static, Result<(), Fault>> + Send + Sync + 'static) -> Self {
        Self { callback: Some(Arc::new(callback)), is_again: false }
    }

    /// Returns the hook for a call that was under way when the host was interrupted, and is repeated.
    pub fn again(self, is_again: bool) -> Self {
        Self { is_again, ..self }
    }

    /// Returns `true` if the call may have been made, wholly or in part, before the host was interrupted.
    pub fn is_again(&self) -> bool {
        self.is_again
    }

    /// Calls the callback, if there is one.
    pub(super) async fn call(&self) -> Result<(), Fault> {
        match &self.callback {
            Some(callback) => callback().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for CallStartHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.callback.is_some() { "Begin(told)" } else { "Begin(untold)" })
    }
}
