//! Connects agents to MCP servers: approved tools, and the requests that servers may make.

mod client_pool;
mod granted_servers;
mod roots;
mod server_requests;
mod server_target;
mod server_tools;
mod servers;
#[cfg(test)]
mod tests;

pub(crate) use client_pool::McpClientPool;
pub(crate) use granted_servers::GrantedServers;
pub(crate) use server_tools::{GrantedServer, ServerTools, trusted_as};
pub use servers::ConnectedMcpServer;
