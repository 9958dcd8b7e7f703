//! One connection for all users of a namespace, made at the first use.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use tokio::sync::oneshot;

use super::{
    ClusterOptions,
    cluster_error::ClusterError,
    connection::{ClusterCallError, ClusterConnection, ClusterHandles},
};

/// The connection of a namespace. Clones share it.
#[derive(Clone)]
pub(crate) struct SharedConnection {
    options: Arc<ClusterOptions>,
    /// `None` until the first use.
    connected: Arc<Mutex<Option<Arc<ClusterConnection>>>>,
    /// Held while a task connects: others wait for it instead of blocking threads of their own.
    connecting: Arc<tokio::sync::Mutex<()>>,
}

impl SharedConnection {
    /// Creates a connection that is made at the first use. A failed attempt is repeated at the next use.
    pub fn new(options: ClusterOptions) -> Self {
        Self { options: Arc::new(options), connected: Arc::default(), connecting: Arc::default() }
    }

    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }

    /// Returns the connection. Blocks while it is made.
    pub fn blocking(&self) -> Result<Arc<ClusterConnection>, ClusterError> {
        let mut connected = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = &*connected {
            return Ok(Arc::clone(connection));
        }
        let connection = Arc::new(ClusterConnection::open(ClusterOptions::clone(&self.options))?);
        *connected = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Returns the connection. It is made on a thread of its own, so that no thread of the caller's runtime blocks.
    pub async fn get(&self) -> Result<Arc<ClusterConnection>, ClusterError> {
        let _connecting = self.connecting.lock().await;
        // While another thread connects, the lock is held.
        let there = self.connected.try_lock().ok().and_then(|connected| connected.clone());
        if let Some(there) = there {
            return Ok(there);
        }
        let (sender, receiver) = oneshot::channel();
        let shared = self.clone();
        let failed = |reason: String| ClusterError::Unreachable { servers: self.options.shown_servers(), reason };
        thread::Builder::new()
            .name("cluster-connect".into())
            .spawn(move || drop(sender.send(shared.blocking())))
            .map_err(|error| failed(error.to_string()))?;
        receiver.await.unwrap_or_else(|_| Err(failed("the connection has ended".into())))
    }

    /// Runs a task on the server; `doing` and the place are named in errors.
    pub async fn call<T, F>(
        &self,
        doing: &'static str,
        place: &str,
        task: impl FnOnce(ClusterHandles) -> F,
    ) -> Result<T, ClusterError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterCallError>> + Send + 'static,
    {
        self.get().await?.call((doing, place), task).await
    }
}

impl fmt::Debug for SharedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedConnection").field("namespace", &self.options.namespace).finish_non_exhaustive()
    }
}
