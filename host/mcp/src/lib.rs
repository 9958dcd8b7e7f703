//! The Model Context Protocol, both sides: a client that offers the tools of MCP servers under the same rules as plugin
//! tools, and their prompts to a person; and a server for the clients of others ([`serve`]).
//!
//! A server runs outside the sandbox, so everything it sends is bounded and checked before use. [`McpClient`] counts and
//! cuts the messages of its connection, checks the texts of listed tools as it checks those of a plugin, and offers only
//! tools that were approved word for word ([`Pins`]).
//!
//! # Modules
//!
//! In reading order; [`McpClient`] has an example:
//!
//! | module | contents |
//! |---|---|
//! | `config`, `names`, `error` | a server in the config: how it is reached, its name, the reasons why it cannot be used |
//! | `tool_digest`, `pins` | what a person approves, and what was approved |
//! | `depth`, `message_reading`, `error_text` | messages of a peer, parsed within bounds |
//! | `line_transport`, `transport_role`, `server_process`, `http` | transports: pipes, a child process, HTTP |
//! | `filtered_transport`, `connection_monitor` | between transport and `rmcp`: what is counted, answered or dropped |
//! | `client_features`, `call_context`, `request_broker` | what a server may ask of the host, and the answers |
//! | `connection`, `paging`, `listing`, `client` | one connection, the tools listed on it, the client that outlives both |
//! | `client_request`, `call_output`, `tool` | a server's tool as a tool of an agent |
//! | `prompt_listing`, `prompt` | a server's prompts, and the content of one of them |
//! | `oauth` | logins at remote servers |
//! | [`serve`] | the server |
//!
//! # What it must not name
//!
//! This is the only crate that names `rmcp`, and no type of `rmcp` is in its public interface. Its requests go through
//! `shelly-net`; it knows no agent's config and no plugin: what the server offers comes through traits.

mod call_context;
mod call_output;
mod client;
mod client_features;
mod client_request;
mod config;
mod connection;
mod connection_monitor;
mod depth;
mod error;
mod error_text;
mod filtered_transport;
mod http;
mod line_transport;
mod listing;
mod message_reading;
mod names;
mod oauth;
mod paging;
mod pins;
mod prompt;
mod prompt_listing;
mod request_broker;
pub mod serve;
mod server_process;
#[cfg(test)]
mod tests;
mod tool;
mod tool_digest;
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
pub use listing::{McpToolListing, ServerTool};
pub use names::{check_server_name, tool_name};
pub use oauth::{
    Authorizer, LOG_OF_CODES, LoopbackAuthorizer, OAuthGrantType, OAuthOptions, TokenStore, login, logout,
};
pub use paging::RefusedItem;
pub use pins::{PinStatus, Pins};
pub use prompt::{ServerPromptContent, ServerPromptPart};
pub use prompt_listing::{McpPromptListing, ServerPrompt, ServerPromptArgument};
pub use tool::{BlockedMcpTool, McpTool, McpToolOffer};
