//! The Model Context Protocol, both sides: a client that offers the tools of MCP servers under the same rules as plugin
//! tools, and a server for the clients of others ([`serve`]). `rmcp` is used only in this module.
//!
//! A server runs outside the sandbox, so everything it sends is bounded and checked before use. [`McpClient`] counts and
//! cuts the messages of its connection, checks the texts of listed tools as it checks those of a plugin, and offers only
//! tools that were approved word for word ([`Pins`]).

mod call_output;
mod client;
mod client_features;
mod config;
mod connection;
mod connection_monitor;
mod depth;
mod error;
mod filtered_transport;
mod http;
mod line_transport;
mod listing;
mod names;
mod oauth;
mod pins;
mod request_broker;
pub mod serve;
mod server_process;
#[cfg(test)]
mod tests;
mod tool;
mod transport_role;

pub use client::McpClient;
pub use client_features::{
    ElicitationRequest, ElicitationResult, Elicitor, McpClientFeatures, McpRoot, Sampler, SamplingRequest,
    SamplingResult, ServerRequestOrigin,
};
pub use config::{
    McpHttpTarget, McpPipeConnector, McpPipePair, McpStdioTarget, McpTarget, ProtocolRevisions, ServerConfig,
};
pub use error::McpError;
pub use listing::{McpToolListing, RefusedTool, ServerTool};
pub use names::{check_server_name, tool_name};
pub use oauth::{
    Authorizer, LOG_OF_CODES, LoopbackAuthorizer, OAuthGrantType, OAuthOptions, TokenStore, login, logout,
};
pub use pins::{PinStatus, Pins};
pub use tool::{BlockedMcpTool, McpTool, McpToolOffer};

/// Returns a server's text, trimmed and cut, for use in an error message.
fn shown(text: &str) -> String {
    shelly_core::error::cut(text.trim(), shelly_core::limits::ERROR_BYTES / 4)
}
