use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Semaphore;

use super::{parked_calls::ParkedCalls, server_setup::McpServerSetup};
use shelly_core::limits;

/// State shared by all clients.
pub(super) struct McpServerState {
    pub served: McpServerSetup,
    /// The permits for the calls of all clients together.
    pub permits: Arc<Semaphore>,
    pub parked: ParkedCalls,
    calls: AtomicU64,
}

impl McpServerState {
    pub fn new(served: McpServerSetup) -> Self {
        let permits = Arc::new(Semaphore::new(limits::MCP_SERVE_CALLS_OF_ALL));
        Self { served, permits, parked: ParkedCalls::default(), calls: AtomicU64::new(0) }
    }

    /// Returns a new run id for a call.
    pub fn next_run(&self) -> Arc<str> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        format!("mcp-{n}").into()
    }
}
