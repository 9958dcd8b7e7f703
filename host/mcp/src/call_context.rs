use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use shelly_core::{event::RunCx, limits};

/// A call in progress, as the connection and the request broker know it.
#[derive(Debug)]
pub(super) struct McpCallCx {
    pub run: RunCx,
    pub call: String,
    pub progress: watch::Sender<Option<McpCallProgress>>,
    /// Cancelled when the call has ended or was dropped.
    pub over: CancellationToken,
    asks: AtomicU32,
}

impl McpCallCx {
    pub fn new(run: RunCx, call: String) -> Arc<Self> {
        let (progress, over, asks) = (watch::Sender::new(None), CancellationToken::new(), AtomicU32::new(0));
        Arc::new(Self { run, call, progress, over, asks })
    }

    pub fn is_of_run_of(&self, other: &Self) -> bool {
        self.run.run == other.run.run && self.run.agent == other.run.agent
    }

    /// Counts one more request of the server; returns `true` if the call may still make it.
    pub fn may_ask(&self) -> bool {
        self.asks.fetch_add(1, Ordering::Relaxed) < limits::MCP_ASKS_PER_CALL
    }
}

/// The progress of a call, as its server reports it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct McpCallProgress {
    pub done: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// A request extension: the call for which the request is made.
#[derive(Debug, Clone)]
pub(super) struct McpCallExtension(pub Arc<McpCallCx>);
