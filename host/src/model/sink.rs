use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

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

    /// The same, and whether something was handed on through it.
    pub fn observed(&self) -> (Self, Seen) {
        let seen = Seen::default();
        (Self::new(Arc::new(Observed { sink: self.clone(), seen: seen.clone() })), seen)
    }

    /// Hands on one piece. Waits while the watcher is behind.
    pub async fn emit(&self, delta: Delta) {
        if let Some(target) = &self.0 {
            target.take(delta).await;
        }
    }
}

/// Whether some of a reply was handed on.
#[derive(Debug, Clone, Default)]
pub struct Seen(Arc<AtomicBool>);

impl Seen {
    /// Whether it was.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct Observed {
    sink: DeltaSink,
    seen: Seen,
}

#[async_trait]
impl DeltaTarget for Observed {
    async fn take(&self, delta: Delta) {
        self.seen.0.store(true, Ordering::Relaxed);
        self.sink.emit(delta).await;
    }
}

impl fmt::Debug for DeltaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "DeltaSink(watched)" } else { "DeltaSink(unwatched)" })
    }
}
