//! The Model Context Protocol: tools of servers that are no plugins, under the same law, and what is here for clients of
//! others ([`serve`]). Only here: rmcp.
//!
//! A server runs outside the sandbox, so everything that it says is bounded before it is believed: [`McpClient`] stands on a
//! connection whose messages are counted and cut, lists tools whose texts are checked as a plugin's are, and offers only
//! those that somebody has approved word for word ([`Pins`]).

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

/// What a server says, where it explains a failure.
fn shown(text: &str) -> String {
    crate::error::cut(text.trim(), crate::limits::ERROR_BYTES / 4)
}
