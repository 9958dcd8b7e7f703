//! Servers, each a process of its own, and clients of them.

use std::{
    env,
    io::{BufRead, BufReader},
    net::TcpListener,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use rmcp::{
    RoleClient,
    model::{CallToolRequestParams, JsonObject},
    service::{ClientLifecycleMode, ClientServiceExt, RunningService},
};
use serde_json::json;
use shelly_host::{
    chat::ToolCall,
    event::RunCx,
    mcp::{
        McpClient, McpClientFeatures, McpHttpTarget, McpStdioTarget, McpTarget, Pins, ProtocolRevisions, ServerConfig,
    },
    net::{HttpClient, Secret},
    tool::{ToolBox, ToolCx},
};
use tokio::net::unix::pipe;

use super::web;

pub type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The variable with the path of the script of `@modelcontextprotocol/server-everything`; without it that server is left
/// out.
const EVERYTHING: &str = "MCP_EVERYTHING";
/// Requests of the library's client that wait for an answer at once: it shall not be what is measured.
const AT_ONCE: usize = 1_000;
const TEXT: &str = "hello, how are you today?";

/// The implementation of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The least one of the protocol's library.
    Echo,
    /// This program, with a sandboxed tool.
    Ours,
    /// The one of the protocol's authors, in Node.
    Everything,
}

/// The transport to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    Pipes,
    Web,
}

impl Kind {
    /// Those that are there.
    pub fn all() -> Vec<Self> {
        let all = [Self::Echo, Self::Ours, Self::Everything];
        all.into_iter().filter(|kind| *kind != Self::Everything || env::var_os(EVERYTHING).is_some()).collect()
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "rmcp echo",
            Self::Ours => "shelly-host",
            Self::Everything => "everything",
        }
    }

    /// Its smallest tool, the name of the one argument of it, and what a result of it has in it.
    fn tool(self) -> [&'static str; 3] {
        match self {
            Self::Echo => ["echo", "text", TEXT],
            Self::Ours => ["count_text", "text", "words"],
            Self::Everything => ["echo", "message", TEXT],
        }
    }

    /// The program; what it compiles it keeps in `cache`.
    fn command(self, over: Over, place: &Path, cache: &Path) -> Result<(Command, Option<String>), Failed> {
        let (mut url, is_web) = (None, over == Over::Web);
        let mut command = match self {
            Self::Echo => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-mcp-echo"));
                command.args(is_web.then_some("http"));
                command
            }
            Self::Ours => {
                std::fs::write(place.join("bench.yaml"), "agents: [{name: a, plugins: {count-text: }}]\n")?;
                let mut command = Command::new(env!("CARGO_BIN_EXE_shelly-host-under-test"));
                command.args(["mcp", "--config", "bench.yaml", "--plugins", super::PLUGIN_ROOT]);
                command.args(if is_web { &["--http", "127.0.0.1:0"][..] } else { &[] });
                command
            }
            Self::Everything => {
                let script = env::var_os(EVERYTHING).ok_or_else(|| format!("{EVERYTHING} is not set"))?;
                let mut command = Command::new("node");
                command.arg(script).arg(if is_web { "streamableHttp" } else { "stdio" });
                if is_web {
                    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
                    command.env("PORT", port.to_string());
                    url = Some(format!("http://127.0.0.1:{port}/mcp"));
                }
                command
            }
        };
        command.current_dir(place).env("SHELLY_CACHE_DIR", cache).env("XDG_STATE_HOME", place);
        Ok((command, url))
    }
}

/// A process that ends with this.
pub struct Server(Child);

impl Server {
    /// Bytes of it that are in memory; none where the system does not say.
    pub fn resident(&self) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client of a server.
pub struct Way {
    pub name: String,
    /// None: it belongs to the client.
    pub server: Option<Arc<Server>>,
    client: Client,
    tool: [&'static str; 3],
}

enum Client {
    /// The library's own.
    Plain(RunningService<RoleClient, ()>),
    /// The client that agents use.
    Ours(Arc<McpClient>, ToolBox),
}

/// The folder in which servers work and keep what they compile.
pub struct Ground {
    pub place: PathBuf,
    pub cache: PathBuf,
}

impl Ground {
    /// A server, and the library's client of it.
    pub async fn plain(&self, kind: Kind, over: Over) -> Result<Way, Failed> {
        let name = format!("{} ({over:?})", kind.name());
        let (client, server) = match over {
            Over::Pipes => {
                let (mut command, _) = kind.command(over, &self.place, &self.cache)?;
                let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
                let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
                let server = Server(child);
                let (Some(stdin), Some(stdout)) = (stdin, stdout) else { return Err("it has no pipes".into()) };
                let read = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
                let write = pipe::Sender::from_owned_fd(OwnedFd::from(stdin))?;
                (().serve_with_lifecycle((read, write), ClientLifecycleMode::Initialize).await?, server)
            }
            Over::Web => {
                let (server, url) = self.web(kind)?;
                // It brings the crypto without which the library makes no client.
                let _host = HttpClient::new().map_err(|fault| fault.to_string())?;
                let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build()?;
                let transport = web::transport(&client, &url, AT_ONCE);
                (().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await?, server)
            }
        };
        let server = Some(Arc::new(server));
        Ok(Way { name, server, client: Client::Plain(client), tool: kind.tool() })
    }

    /// A server, and our client of it.
    pub async fn ours(&self, kind: Kind, over: Over) -> Result<Way, Failed> {
        let name = format!("{} ({over:?}), our client", kind.name());
        let (target, server) = match over {
            Over::Pipes => {
                let (command, _) = kind.command(over, &self.place, &self.cache)?;
                let text = |text: &std::ffi::OsStr| text.to_string_lossy().into_owned();
                let environment = command.get_envs().filter_map(|(name, value)| Some((text(name), text(value?))));
                let environment = environment.map(|(name, value)| (name, Secret::new(value))).collect();
                let arguments = command.get_args().map(text).collect();
                let program = text(command.get_program());
                let folder = self.place.clone();
                (McpTarget::Program(McpStdioTarget { program, arguments, environment, folder }), None)
            }
            Over::Web => {
                let (server, url) = self.web(kind)?;
                let client = HttpClient::new().map_err(|fault| fault.to_string())?;
                let http = McpHttpTarget { client, url: url.parse()?, auth: None, headers: Vec::new(), oauth: None };
                (McpTarget::Http(http), Some(Arc::new(server)))
            }
        };
        // As the library's client is told to.
        let config = ServerConfig { revisions: ProtocolRevisions::Handshake, ..ServerConfig::new("bench", target) };
        let client = McpClient::connect(config, McpClientFeatures::default()).await?;
        let mut tools = ToolBox::new();
        for tool in client.offer(&Pins::of(&client.listing())).tools {
            tools.register(tool)?;
        }
        Ok(Way { name, server, client: Client::Ours(client, tools), tool: kind.tool() })
    }

    /// A server on the web, and its URL.
    fn web(&self, kind: Kind) -> Result<(Server, String), Failed> {
        let (mut command, url) = kind.command(Over::Web, &self.place, &self.cache)?;
        // Where each says that it listens.
        let (out, err) = match kind {
            Kind::Echo => (Stdio::piped(), Stdio::null()),
            Kind::Ours | Kind::Everything => (Stdio::null(), Stdio::piped()),
        };
        let mut child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let server = Server(child);
        let says: Box<dyn std::io::Read + Send> = match (stdout, stderr) {
            (Some(says), _) => Box::new(says),
            (None, Some(says)) => Box::new(says),
            (None, None) => return Err("it has no pipes".into()),
        };
        let mut lines = BufReader::new(says).lines();
        let url = loop {
            let line = lines.next().ok_or("it has ended before it listened")??;
            let at = line.find("http://").map(|at| line[at..].trim().to_owned());
            if let Some(url) = url.clone().filter(|_| line.contains("listening")).or(at) {
                break url;
            }
        };
        // A full pipe would stop it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok((server, url))
    }
}

impl Way {
    /// One call, and whether it came to what it should.
    pub async fn call(&self) -> Result<(), Failed> {
        let [tool, argument, expected] = self.tool;
        let arguments = json!({argument: TEXT});
        let said = match &self.client {
            Client::Plain(client) => {
                let params = CallToolRequestParams::new(tool);
                let arguments: JsonObject = serde_json::from_value(arguments)?;
                let result = client.peer().call_tool(params.with_arguments(arguments)).await?;
                serde_json::to_value(&result)?.to_string()
            }
            Client::Ours(_, tools) => {
                let run = RunCx::new("bench");
                let cx = ToolCx::new(run);
                let (id, name) = ("c".to_owned(), format!("bench__{tool}"));
                let call = ToolCall { id, name, arguments: arguments.to_string(), meta: vec![] };
                tools.dispatch(&cx, &call).await.result.text()
            }
        };
        if said.contains(expected) { Ok(()) } else { Err(said.into()) }
    }

    /// Returns the number of tools of the server.
    pub async fn list(&self) -> Result<usize, Failed> {
        match &self.client {
            Client::Plain(client) => Ok(client.peer().list_all_tools().await?.len()),
            Client::Ours(client, _) => Ok(client.listing().tools.len()),
        }
    }
}
