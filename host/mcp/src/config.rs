use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use super::{McpError, OAuthOptions, check_server_name};
use shelly_core::{error::Fault, event::SpanDestination, limits};
use shelly_net::{AuthHeader, HttpClient, Secret, header_name, is_loopback};

/// The config of one server: its target and its limits.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The prefix of its tools' names; see [`check_server_name`].
    pub name: Arc<str>,
    /// The server's program, URL or pipes.
    pub target: McpTarget,
    /// The protocol revisions to use with it.
    pub revisions: ProtocolRevisions,
    /// The time to start it and shake hands, without the time to list its tools.
    pub connect_time: Duration,
    /// The wall time of one call, without the time in which the server waits for an answer to a request of its own.
    pub call_time: Duration,
    /// The characters of a result that a model sees; the rest is cut.
    pub output_chars: usize,
}

impl ServerConfig {
    /// Returns the config of a server with the default limits.
    pub fn new(name: impl Into<Arc<str>>, target: McpTarget) -> Self {
        Self {
            name: name.into(),
            target,
            revisions: ProtocolRevisions::default(),
            connect_time: limits::MCP_CONNECT_TIME,
            call_time: limits::TOOL_TIME,
            output_chars: limits::TOOL_RESULT_CHARS,
        }
    }

    /// Returns the server as a receiver of requests that name a span.
    pub(super) fn span_destination(&self) -> SpanDestination<'_> {
        match &self.target {
            McpTarget::Http(http) => SpanDestination::Server(&http.url),
            McpTarget::Program(_) | McpTarget::Pipes(_) => SpanDestination::McpProgram(&self.name),
        }
    }

    pub(super) fn check(&self) -> Result<(), McpError> {
        let wrong = |why| McpError::Config { server: Arc::clone(&self.name), why };
        check_server_name(&self.name).map_err(wrong)?;
        let most = limits::PLUGIN_TIME_CEILING;
        for (what, time) in [("connecting", self.connect_time), ("a call", self.call_time)] {
            if time.is_zero() || time > most {
                return Err(wrong(format!(
                    "the time limit of {what} is {time:?}; use more than 0 and at most {most:?}"
                )));
            }
        }
        if let McpTarget::Http(http) = &self.target {
            if !matches!(http.url.scheme(), "http" | "https") {
                return Err(wrong("invalid URL; begin it with http:// or https://".into()));
            }
            for (name, _) in &http.headers {
                header_name(name).map_err(|fault| wrong(fault.to_string()))?;
            }
            if let Some(oauth) = &http.oauth {
                let is_said = |(name, _): &(String, Secret)| name.eq_ignore_ascii_case("authorization");
                if http.auth.is_some() || http.headers.iter().any(is_said) {
                    return Err(wrong("a login and a credential are both configured; remove one of them".into()));
                }
                oauth.check(&http.url).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

/// The protocol revisions that are used with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProtocolRevisions {
    /// The newest that the server knows: the client sends the discovery request of the newest revision first, and falls
    /// back to the handshake if the server does not know it.
    #[default]
    Any,
    /// Revisions that begin with a handshake, up to 2025-11-25.
    Handshake,
    /// Revisions without a handshake, from 2026-07-28 on.
    Stateless,
}

/// The way to reach a server.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there are few of them, and they stay where they are")]
pub enum McpTarget {
    /// A program that is started with the connection and ended with it.
    Program(McpStdioTarget),
    /// A remote server, over Streamable HTTP.
    Http(McpHttpTarget),
    /// Any other pair of pipes, such as a server in this process.
    Pipes(McpPipeConnector),
}

impl McpTarget {
    /// Returns `true` if the server runs on this machine, judging by its address alone.
    pub fn is_here(&self) -> bool {
        match self {
            Self::Program(_) | Self::Pipes(_) => true,
            Self::Http(http) => is_loopback(&http.url),
        }
    }
}

impl fmt::Debug for McpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => program.fmt(f),
            Self::Http(http) => http.fmt(f),
            Self::Pipes(_) => f.write_str("Pipes"),
        }
    }
}

/// A program that speaks the protocol over its standard input and output, run without a shell.
#[derive(Debug, Clone)]
pub struct McpStdioTarget {
    /// A path, or a name that is looked up in the `PATH` of its environment.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment: it inherits nothing, so that it does not see the keys of this process. `PATH` and `HOME`,
    /// without which most programs do not work, must be put here too.
    pub environment: Vec<(String, Secret)>,
    /// Its working directory.
    pub folder: PathBuf,
}

impl McpStdioTarget {
    /// Returns a program with these arguments that runs in `folder`, with only these environment variables.
    pub fn new(
        program: impl Into<String>,
        arguments: Vec<String>,
        environment: impl IntoIterator<Item = (String, String)>,
        folder: PathBuf,
    ) -> Self {
        let environment = environment.into_iter().map(|(name, value)| (name, Secret::new(value))).collect();
        Self { program: program.into(), arguments, environment, folder }
    }
}

/// A remote server.
#[derive(Debug, Clone)]
pub struct McpHttpTarget {
    /// The client that sends the requests.
    pub client: HttpClient,
    /// The endpoint.
    pub url: Url,
    /// The credential, such as a bearer token; `None` for anonymous requests.
    pub auth: Option<AuthHeader>,
    /// Additional headers by name, beside those of the protocol.
    pub headers: Vec<(String, Secret)>,
    /// An OAuth login, in place of `auth`.
    pub oauth: Option<OAuthOptions>,
}

impl McpHttpTarget {
    /// Returns a server at `url` that is reached directly, without a credential.
    ///
    /// # Errors
    ///
    /// [`Fault::Other`] if TLS cannot be set up.
    pub fn new(url: Url) -> Result<Self, Fault> {
        Ok(Self { client: HttpClient::new()?, url, auth: None, oauth: None, headers: Vec::new() })
    }
}

/// Makes a new pair of pipes for each connection.
pub type McpPipeConnector = Arc<dyn Fn() -> BoxFuture<'static, io::Result<McpPipePair>> + Send + Sync>;

/// The server's output, which the client reads, and its input, which the client writes.
pub type McpPipePair = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);
