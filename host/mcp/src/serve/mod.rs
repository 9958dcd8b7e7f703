//! An MCP server: tools, prompts and resources for MCP clients, over pipes and over HTTP.
//!
//! The server offers a [`McpCatalog`], which may change at any time. A [`McpToolCaller`] makes the calls; an
//! [`McpResourceProvider`] provides the resources. A client is as untrusted as an MCP server: its messages are counted and
//! cut, its calls are bounded, and its calls are cancelled when it disconnects.

mod argument_completion;
mod call_notifier;
mod client_call_slots;
mod client_elicitor;
mod handler;
mod http;
mod parked_calls;
mod results;
mod served_call;
mod served_line_transport;
mod server;
mod server_setup;
mod server_state;
mod sessions;
#[cfg(test)]
mod tests;

pub use http::{McpHttpService, PATH};
pub use server::McpServer;
pub use server_setup::{
    McpCatalog, McpPrompt, McpResource, McpResourceContent, McpResourceProvider, McpServerSetup, McpToolCaller,
    ServedCallContext,
};
