use std::sync::Arc;

use shelly_core::error::Fault;

/// A failure to use a server. `stderr` holds the last lines of its program's standard error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the message above them")]
pub enum McpError {
    /// Its config is invalid.
    #[error("cannot use the MCP server `{server}`: {why}")]
    Config { server: Arc<str>, why: String },
    /// Its program did not start.
    #[error("cannot start the MCP server `{server}`: `{program}`: {why}")]
    Start { server: Arc<str>, program: String, why: String },
    /// The connection or the handshake failed.
    #[error("cannot reach the MCP server `{server}`: {why}{}", stderr_suffix(.stderr))]
    Connect { server: Arc<str>, why: String, stderr: Vec<String> },
    /// The server rejects the credential, or the lack of one.
    #[error("the MCP server `{server}` rejects the credential, or needs one: {why}")]
    Denied { server: Arc<str>, why: String },
    /// Its tools cannot be listed.
    #[error("cannot list the tools of the MCP server `{server}`: {why}{}", stderr_suffix(.stderr))]
    List { server: Arc<str>, why: String, stderr: Vec<String> },
    /// Its prompts cannot be listed.
    #[error("cannot list the prompts of the MCP server `{server}`: {why}")]
    Prompts { server: Arc<str>, why: String },
    /// One of its prompts cannot be used.
    #[error("cannot use the prompt `{prompt}` of the MCP server `{server}`: {why}")]
    Prompt { server: Arc<str>, prompt: String, why: String },
}

impl McpError {
    /// Returns the name of the server.
    pub fn server(&self) -> &str {
        let (Self::Config { server, .. }
        | Self::Start { server, .. }
        | Self::Connect { server, .. }
        | Self::Denied { server, .. }
        | Self::List { server, .. }
        | Self::Prompts { server, .. }
        | Self::Prompt { server, .. }) = self;
        server
    }

    /// Returns `true` if a retry may succeed without any change.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::List { .. })
    }

    /// Returns the error as the [`Fault`] that a tool's caller gets.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Denied { .. } => Fault::Denied { message: self.to_string() },
            Self::Connect { .. } | Self::List { .. } => Fault::Unavailable { message: self.to_string(), after: None },
            Self::Config { .. } | Self::Start { .. } | Self::Prompts { .. } | Self::Prompt { .. } => {
                Fault::other(self.to_string())
            }
        }
    }
}

fn stderr_suffix(stderr: &[String]) -> String {
    if stderr.is_empty() { String::new() } else { format!("; its standard error: {}", stderr.join(" / ")) }
}
