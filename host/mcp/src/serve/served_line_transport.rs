use std::{io, sync::Arc};

use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::{connection_monitor::ConnectionMonitor, line_transport::LineTransport};
use shelly_core::limits;

/// A transport that cancels the client's calls when its pipes end.
pub(super) struct ServedLineTransport<R, W> {
    pub lines: LineTransport<RoleServer, R, W>,
    pub patience: Arc<ConnectionMonitor>,
    pub gone: CancellationToken,
}

impl<R, W> Transport<RoleServer> for ServedLineTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = tokio::select! {
            biased;
            _ = self.patience.until_lost() => None,
            message = self.lines.receive() => message,
        };
        if message.is_none() {
            // A client that closed its input may still read answers for a while; one that broke the protocol is cut off at
            // once.
            let (gone, time) = (self.gone.clone(), limits::MCP_SERVE_CLOSE_TIME);
            match self.patience.ended() {
                Some(_) => gone.cancel(),
                None => drop(tokio::spawn(async move {
                    tokio::time::sleep(time).await;
                    gone.cancel();
                })),
            }
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        self.gone.cancel();
        self.lines.close().await
    }
}
