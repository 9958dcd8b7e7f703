use std::sync::Arc;

use rmcp::service::serve_server_with_ct;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::{
    handler::McpServerHandler, served_line_transport::ServedLineTransport, server_setup::McpServerSetup,
    server_state::McpServerState,
};
use crate::{connection_monitor::ConnectionMonitor, line_transport::LineTransport};

/// A server for any number of clients. Clones are the same server.
#[derive(Clone)]
pub struct McpServer(pub(super) Arc<McpServerState>);

impl McpServer {
    /// Returns a server with this setup.
    pub fn new(served: McpServerSetup) -> Self {
        Self(Arc::new(McpServerState::new(served)))
    }

    /// Serves a client over two pipes until it closes them, breaks the protocol, or `stop` is cancelled. Then its calls are
    /// cancelled.
    pub async fn pipes(
        &self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        stop: CancellationToken,
    ) {
        let patience = Arc::<ConnectionMonitor>::default();
        // `rmcp` cancels its token when the connection ends, so it gets a token of its own.
        let (gone, stop) = (stop.child_token(), stop.child_token());
        let lines = LineTransport::new(read, write, Arc::clone(&patience));
        let lines = ServedLineTransport { lines, patience, gone: gone.clone() };
        let handler = McpServerHandler::new(Arc::clone(&self.0), gone);
        // An error here is the client's fault, and was reported to the client.
        if let Ok(serving) = serve_server_with_ct(handler, lines, stop).await {
            let _ = serving.waiting().await;
        }
    }
}
