//! The other way round: tools, prompts and resources for clients that speak the protocol, over pipes and over HTTP.
//!
//! What is served is plain: a [`McpCatalog`] that may change at any time, a [`McpToolCaller`] that makes calls, an [`McpResourceProvider`] that
//! hands out resources. What a client says is as untrusted as what a server says: its messages are counted and cut, its
//! calls take turns, and whoever goes away takes what was done for it along.

mod access_policy;
mod argument_completion;
mod call_notifier;
mod client_elicitor;
mod connections;
mod handler;
mod http;
mod results;
mod served_call;
mod sessions;
#[cfg(test)]
mod tests;
mod write_timeout;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use async_trait::async_trait;
use bytes::Bytes;
use rmcp::service::serve_server_with_ct;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{Semaphore, watch},
};
use tokio_util::sync::CancellationToken;

pub use access_policy::{AccessPolicy, BearerToken};
pub use http::PATH;

use self::{handler::McpServerHandler, served_call::ParkedCalls};
use super::{Elicitor, connection_monitor::ConnectionMonitor, line_transport::LineTransport};
use crate::{
    chat::{ToolCall, ToolResult, ToolSpec},
    error::Fault,
    event::EventSink,
    limits,
};

/// What is served, and who does what is asked.
#[derive(Clone)]
pub struct McpServerSetup {
    /// What clients are told that it is called.
    pub name: Arc<str>,
    /// What a model should know of all of it; may be empty.
    pub instructions: Arc<str>,
    /// What there is. Clients are told when it changes.
    pub shelf: watch::Receiver<Arc<McpCatalog>>,
    /// Makes the calls.
    pub caller: Arc<dyn McpToolCaller>,
    /// Hands out resources, if there are any.
    pub archive: Option<Arc<dyn McpResourceProvider>>,
    /// Who is told what happens in calls and is told to no client.
    pub events: EventSink,
}

/// What there is at one moment.
#[derive(Clone, Default)]
pub struct McpCatalog {
    /// Tools, in order.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Prompts, in order; no two have one name.
    pub prompts: Arc<[McpPrompt]>,
}

/// A text that a person hands to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPrompt {
    /// Its name.
    pub name: String,
    /// When to use it; may be empty.
    pub description: String,
    /// What the model reads.
    pub text: String,
}

/// In whose name a call is made.
#[derive(Clone)]
pub struct ServedCallContext {
    /// Names the call: no two of this process have the same.
    pub run: Arc<str>,
    /// Who is told how it goes.
    pub events: EventSink,
    /// The person behind the client; none if it cannot ask one.
    pub person: Option<Arc<dyn Elicitor>>,
}

/// Makes calls.
#[async_trait]
pub trait McpToolCaller: Send + Sync + 'static {
    /// Makes one. Never fails: whatever goes wrong is in the result, which is bounded. Dropping the future cancels it.
    async fn call(&self, making: ServedCallContext, call: ToolCall) -> ToolResult;

    /// Returns a text of a call's progress or log as a client may be shown it.
    fn shown(&self, text: &str) -> String {
        text.to_owned()
    }
}

/// Hands out resources.
#[async_trait]
pub trait McpResourceProvider: Send + Sync + 'static {
    /// What there is after the resource of this URI, the newest first, at most [`limits::MCP_SERVE_PAGE`]; and whether there
    /// is more. What has gone meanwhile is at its end.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which the client is told.
    async fn list(&self, after: Option<String>) -> Result<(Vec<McpResource>, bool), Fault>;

    /// One of them; none if there is none of that URI. At most [`limits::MCP_SERVE_RESOURCE_BYTES`].
    ///
    /// # Errors
    ///
    /// As [`McpResourceProvider::list`].
    async fn read(&self, uri: String) -> Result<Option<McpResourceContent>, Fault>;

    /// How its URIs are made, as a URI template, and what they are.
    fn template(&self) -> (&'static str, &'static str);
}

/// A resource in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpResource {
    /// Names it.
    pub uri: String,
    /// A name to show.
    pub name: String,
    /// What it is from.
    pub description: String,
    /// Its bytes.
    pub size: u64,
}

/// What is in a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpResourceContent {
    /// Such as `image/png`.
    pub media_type: String,
    /// All of it.
    pub bytes: Bytes,
}

/// Serves any number of clients. Clones are the same server.
#[derive(Clone)]
pub struct McpServer(Arc<McpServerState>);

/// What all clients share.
struct McpServerState {
    served: McpServerSetup,
    /// For the calls of all.
    places: Arc<Semaphore>,
    parked: ParkedCalls,
    calls: AtomicU64,
}

impl McpServer {
    /// Serves this.
    pub fn new(served: McpServerSetup) -> Self {
        let places = Arc::new(Semaphore::new(limits::MCP_SERVE_CALLS_OF_ALL));
        Self(Arc::new(McpServerState { served, places, parked: ParkedCalls::default(), calls: AtomicU64::new(0) }))
    }

    /// Serves a client over two pipes until it closes them, breaks the rules, or `stop` is cancelled; its calls are
    /// cancelled then.
    pub async fn pipes(
        &self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        stop: CancellationToken,
    ) {
        let patience = Arc::<ConnectionMonitor>::default();
        // The library ends its token with the connection: it has one of its own.
        let (gone, stop) = (stop.child_token(), stop.child_token());
        let lines = ServedLineTransport {
            lines: LineTransport::new(read, write, Arc::clone(&patience)),
            patience,
            gone: gone.clone(),
        };
        let handler = McpServerHandler::new(Arc::clone(&self.0), gone);
        // What goes wrong here is the client's own doing, and it has been told.
        if let Ok(serving) = serve_server_with_ct(handler, lines, stop).await {
            let _ = serving.waiting().await;
        }
    }
}

impl McpServerState {
    /// A name for a call.
    fn next(&self) -> Arc<str> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        format!("mcp-{n}").into()
    }
}

/// Pipes whose end is the end of what is done for their client.
struct ServedLineTransport<R, W> {
    lines: LineTransport<rmcp::RoleServer, R, W>,
    patience: Arc<ConnectionMonitor>,
    gone: CancellationToken,
}

impl<R, W> rmcp::transport::Transport<rmcp::RoleServer> for ServedLineTransport<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: rmcp::model::ServerJsonRpcMessage,
    ) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
        self.lines.send(message)
    }

    async fn receive(&mut self) -> Option<rmcp::model::ClientJsonRpcMessage> {
        let message = tokio::select! {
            biased;
            _ = self.patience.until_lost() => None,
            message = self.lines.receive() => message,
        };
        if message.is_none() {
            // Who has said all may still listen for a while; who has broken the rules is not served any more.
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

    async fn close(&mut self) -> std::io::Result<()> {
        self.gone.cancel();
        self.lines.close().await
    }
}
