//! An MCP server: tools, prompts and resources for MCP clients, over pipes and over HTTP.
//!
//! The server offers a [`McpCatalog`], which may change at any time. A [`McpToolCaller`] makes the calls; an
//! [`McpResourceProvider`] provides the resources. A client is as untrusted as an MCP server: its messages are counted and
//! cut, its calls are bounded, and its calls are cancelled when it disconnects.

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
use shelly_core::{
    chat::{ToolCall, ToolResult, ToolSpec},
    error::Fault,
    event::EventSink,
    limits,
};

/// The contents of a server and the handlers of its requests.
#[derive(Clone)]
pub struct McpServerSetup {
    /// The server's name, as clients see it.
    pub name: Arc<str>,
    /// Instructions for the client's model; may be empty.
    pub instructions: Arc<str>,
    /// The tools and prompts. Clients are notified of changes.
    pub shelf: watch::Receiver<Arc<McpCatalog>>,
    /// Makes the tool calls.
    pub caller: Arc<dyn McpToolCaller>,
    /// Provides the resources; `None` if there are none.
    pub archive: Option<Arc<dyn McpResourceProvider>>,
    /// Receives the events of calls, except log entries that were sent to the client.
    pub events: EventSink,
}

/// The tools and prompts at one moment.
#[derive(Clone, Default)]
pub struct McpCatalog {
    /// Tools, in order.
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Prompts, in order, with unique names.
    pub prompts: Arc<[McpPrompt]>,
}

/// A text that a person gives to a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpPrompt {
    /// Its name.
    pub name: String,
    /// A description of when to use it; may be empty.
    pub description: String,
    /// The text that the model reads.
    pub text: String,
}

/// The run, the events and the person of a call.
#[derive(Clone)]
pub struct ServedCallContext {
    /// The id of the call's run, unique in this process.
    pub run: Arc<str>,
    /// Receives the events of the call.
    pub events: EventSink,
    /// The person behind the client; `None` if the client cannot ask one.
    pub person: Option<Arc<dyn Elicitor>>,
}

/// Makes tool calls.
#[async_trait]
pub trait McpToolCaller: Send + Sync + 'static {
    /// Makes one call. Never fails: an error is part of the result, which is bounded. Dropping the future cancels the call.
    async fn call(&self, making: ServedCallContext, call: ToolCall) -> ToolResult;

    /// Returns the text of a progress report or log entry in the form that a client may see.
    fn shown(&self, text: &str) -> String {
        text.to_owned()
    }
}

/// Provides resources.
#[async_trait]
pub trait McpResourceProvider: Send + Sync + 'static {
    /// Returns the resources after the one with this URI, the newest first, at most [`limits::MCP_SERVE_PAGE`], and `true`
    /// if there are more. If that resource has been deleted, nothing comes after it.
    ///
    /// # Errors
    ///
    /// A [`Fault`], which is sent to the client.
    async fn list(&self, after: Option<String>) -> Result<(Vec<McpResource>, bool), Fault>;

    /// Returns a resource, at most [`limits::MCP_SERVE_RESOURCE_BYTES`]; `None` if there is none with this URI.
    ///
    /// # Errors
    ///
    /// A [`Fault`], as for [`McpResourceProvider::list`].
    async fn read(&self, uri: String) -> Result<Option<McpResourceContent>, Fault>;

    /// Returns the URI template of the resources, and its description.
    fn template(&self) -> (&'static str, &'static str);
}

/// A resource in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpResource {
    /// The unique URI.
    pub uri: String,
    /// A display name.
    pub name: String,
    /// A description of its content.
    pub description: String,
    /// The size in bytes.
    pub size: u64,
}

/// The content of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpResourceContent {
    /// The media type, such as `image/png`.
    pub media_type: String,
    /// The whole content.
    pub bytes: Bytes,
}

/// A server for any number of clients. Clones are the same server.
#[derive(Clone)]
pub struct McpServer(Arc<McpServerState>);

/// State shared by all clients.
struct McpServerState {
    served: McpServerSetup,
    /// Limits the calls of all clients together.
    places: Arc<Semaphore>,
    parked: ParkedCalls,
    calls: AtomicU64,
}

impl McpServer {
    /// Returns a server with this setup.
    pub fn new(served: McpServerSetup) -> Self {
        let places = Arc::new(Semaphore::new(limits::MCP_SERVE_CALLS_OF_ALL));
        Self(Arc::new(McpServerState { served, places, parked: ParkedCalls::default(), calls: AtomicU64::new(0) }))
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
        let lines = ServedLineTransport {
            lines: LineTransport::new(read, write, Arc::clone(&patience)),
            patience,
            gone: gone.clone(),
        };
        let handler = McpServerHandler::new(Arc::clone(&self.0), gone);
        // An error here is the client's fault, and was reported to the client.
        if let Ok(serving) = serve_server_with_ct(handler, lines, stop).await {
            let _ = serving.waiting().await;
        }
    }
}

impl McpServerState {
    /// Returns a new run id for a call.
    fn next(&self) -> Arc<str> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        format!("mcp-{n}").into()
    }
}

/// A transport that cancels the client's calls when its pipes end.
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

    async fn close(&mut self) -> std::io::Result<()> {
        self.gone.cancel();
        self.lines.close().await
    }
}
