use std::sync::Arc;

use crate::error::Fault;

/// Why a server cannot be used. `stderr` is what its program said last.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the message above them")]
pub enum McpError {
    /// What the config says of it cannot be.
    #[error("the MCP server `{server}` cannot be used: {why}")]
    Config { server: Arc<str>, why: String },
    /// Its program did not start.
    #[error("the MCP server `{server}` cannot be started: `{program}`: {why}")]
    Start { server: Arc<str>, program: String, why: String },
    /// It was not reached, or there was no agreement with it.
    #[error("the MCP server `{server}` cannot be reached: {why}{}", told(.stderr))]
    Connect { server: Arc<str>, why: String, stderr: Vec<String> },
    /// It wants to know who asks.
    #[error("the MCP server `{server}` wants a credential, or another one: {why}")]
    Denied { server: Arc<str>, why: String },
    /// Its list of tools could not be had.
    #[error("the tools of the MCP server `{server}` cannot be listed: {why}{}", told(.stderr))]
    List { server: Arc<str>, why: String, stderr: Vec<String> },
}

impl McpError {
    /// The server that this is about.
    pub fn server(&self) -> &str {
        let (Self::Config { server, .. }
        | Self::Start { server, .. }
        | Self::Connect { server, .. }
        | Self::Denied { server, .. }
        | Self::List { server, .. }) = self;
        server
    }

    /// Whether it may pass if nothing is changed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::List { .. })
    }

    /// The same as a tool's caller is told it.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Denied { .. } => Fault::Denied { message: self.to_string() },
            Self::Connect { .. } | Self::List { .. } => Fault::Unavailable { message: self.to_string(), after: None },
            Self::Config { .. } | Self::Start { .. } => Fault::other(self.to_string()),
        }
    }
}

fn told(stderr: &[String]) -> String {
    if stderr.is_empty() { String::new() } else { format!("; it said: {}", stderr.join(" / ")) }
}
