use std::{fmt, sync::Arc};

use async_trait::async_trait;

use crate::chat::Delta;

/// Whoever watches a reply come.
#[async_trait]
pub trait DeltaTarget: Send + Sync {
    /// Takes a piece; waits while the watcher is behind.
    async fn take(&self, delta: Delta);
}

/// Where the pieces of a reply go: to a watcher, or nowhere.
#[derive(Clone, Default)]
pub struct DeltaSink(Option<Arc<dyn DeltaTarget>>);

impl DeltaSink {
    /// Nobody watches.
    pub fn none() -> Self {
        Self::default()
    }

    /// Pieces go to this watcher.
    pub fn new(target: Arc<dyn DeltaTarget>) -> Self {
        Self(Some(target))
    }

    /// Hands on one piece. Waits while the watcher is behind.
    pub async fn emit(&self, delta: Delta) {
        if let Some(target) = &self.0 {
            target.take(delta).await;
        }
    }
}

impl fmt::Debug for DeltaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "DeltaSink(watched)" } else { "DeltaSink(unwatched)" })
    }
}
