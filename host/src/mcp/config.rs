use std::{fmt, io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use url::Url;

use super::{McpError, OAuthOptions, check_server_name};
use crate::{
    error::Fault,
    limits,
    net::{AuthHeader, HttpClient, Secret, header_name, is_loopback},
};

/// One server: where it is, and what bounds it.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Begins the names of its tools; see [`check_server_name`].
    pub name: Arc<str>,
    /// Where it is.
    pub target: McpTarget,
    /// Which revisions of the protocol are spoken with it.
    pub revisions: ProtocolRevisions,
    /// Time to start it and shake hands, its list of tools not counted.
    pub connect_time: Duration,
    /// Wall time of one call, without the time in which the server waits for an answer of ours.
    pub call_time: Duration,
    /// Characters of a result that a model is shown; the rest is cut.
    pub output_chars: usize,
}

impl ServerConfig {
    /// A server within the bounds of the house.
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

    pub(super) fn check(&self) -> Result<(), McpError> {
        let wrong = |why| McpError::Config { server: Arc::clone(&self.name), why };
        check_server_name(&self.name).map_err(wrong)?;
        let most = limits::PLUGIN_TIME_CEILING;
        for (what, time) in [("connecting", self.connect_time), ("a call", self.call_time)] {
            if time.is_zero() || time > most {
                return Err(wrong(format!("{what} may take {time:?}: more than nothing and at most {most:?} can be")));
            }
        }
        if let McpTarget::Http(http) = &self.target {
            if !matches!(http.url.scheme(), "http" | "https") {
                return Err(wrong("its URL begins neither with http:// nor with https://".into()));
            }
            for (name, _) in &http.headers {
                header_name(name).map_err(|fault| wrong(fault.to_string()))?;
            }
            if let Some(oauth) = &http.oauth {
                let is_said = |(name, _): &(String, Secret)| name.eq_ignore_ascii_case("authorization");
                if http.auth.is_some() || http.headers.iter().any(is_said) {
                    return Err(wrong("it has a login, and a credential of its own beside it".into()));
                }
                oauth.check(&http.url).map_err(wrong)?;
            }
        }
        Ok(())
    }
}

/// Which revisions of the protocol are spoken with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ProtocolRevisions {
    /// The newest that it knows: it is asked for that first, and greeted in the old way if it does not know the question.
    #[default]
    Any,
    /// Those that begin with a handshake, up to 2025-11-25.
    Handshake,
    /// Those without, from 2026-07-28 on.
    Stateless,
}

/// Where a server is.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there are few of them, and they stay where they are")]
pub enum McpTarget {
    /// A program that is started for it, and ended with it.
    Program(McpStdioTarget),
    /// A server on the web, over Streamable HTTP.
    Http(McpHttpTarget),
    /// Whatever else has two pipes, such as a server in this process.
    Pipes(McpPipeConnector),
}

impl McpTarget {
    /// Returns `true` if the server runs on this machine, as far as its address says.
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
    /// A path, or a name that is looked for in the `PATH` of its environment.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// All of its environment: it inherits nothing. What most programs cannot do without, `PATH` and `HOME`, whoever reads
    /// the environment puts here too; whatever else this process holds, keys among it, is none of its business.
    pub environment: Vec<(String, Secret)>,
    /// The folder that it works in.
    pub folder: PathBuf,
}

impl McpStdioTarget {
    /// A program with these arguments that works in `folder`, with these variables alone.
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

/// A server on the web.
#[derive(Debug, Clone)]
pub struct McpHttpTarget {
    /// What sends the requests.
    pub client: HttpClient,
    /// Where it is.
    pub url: Url,
    /// Who asks, such as a bearer token; none: nobody in particular.
    pub auth: Option<AuthHeader>,
    /// Headers beside those of the protocol, by name.
    pub headers: Vec<(String, Secret)>,
    /// A login in place of `auth`, by OAuth.
    pub oauth: Option<OAuthOptions>,
}

impl McpHttpTarget {
    /// A server that is asked directly, in nobody's name.
    ///
    /// # Errors
    ///
    /// [`Fault::Other`] if TLS cannot be set up.
    pub fn new(url: Url) -> Result<Self, Fault> {
        Ok(Self { client: HttpClient::new()?, url, auth: None, oauth: None, headers: Vec::new() })
    }
}

/// Makes a new connection each time.
pub type McpPipeConnector = Arc<dyn Fn() -> BoxFuture<'static, io::Result<McpPipePair>> + Send + Sync>;

/// What a server says, and what it is told.
pub type McpPipePair = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);
