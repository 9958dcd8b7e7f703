//! The Model Context Protocol: tools of servers that are no plugins, under the same law, and what is here for clients of
//! others ([`serve`]). Only here: rmcp.
//!
//! A server runs outside the sandbox, so everything that it says is bounded before it is believed: [`McpClient`] stands on a
//! connection whose messages are counted and cut, lists tools whose texts are checked as a plugin's are, and offers only
//! those that somebody has approved word for word ([`Pins`]).

mod asking;
mod child;
mod client;
mod config;
mod depth;
mod desk;
mod error;
mod gate;
mod http;
mod lines;
mod link;
mod listing;
mod names;
mod oauth;
mod patience;
mod pins;
mod results;
pub mod serve;
mod side;
#[cfg(test)]
mod tests;
mod tool;

pub use asking::{
    ElicitationRequest, ElicitationResult, Elicitor, McpClientFeatures, McpRoot, Sampler, SamplingRequest,
    SamplingResult, ServerRequestOrigin,
};
pub use client::McpClient;
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
