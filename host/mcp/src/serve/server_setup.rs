use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::watch;

use crate::Elicitor;
use shelly_core::{
    chat::{ToolCall, ToolResult, ToolSpec},
    error::Fault,
    event::EventSink,
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
    ///
    /// [`limits::MCP_SERVE_PAGE`]: shelly_core::limits::MCP_SERVE_PAGE
    async fn list(&self, after: Option<String>) -> Result<(Vec<McpResource>, bool), Fault>;

    /// Returns a resource, at most [`limits::MCP_SERVE_RESOURCE_BYTES`]; `None` if there is none with this URI.
    ///
    /// # Errors
    ///
    /// A [`Fault`], as for [`McpResourceProvider::list`].
    ///
    /// [`limits::MCP_SERVE_RESOURCE_BYTES`]: shelly_core::limits::MCP_SERVE_RESOURCE_BYTES
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
