//! Connects agents to MCP servers: approved tools, and the requests that servers may make.

mod roots;
mod server_requests;
mod tools;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures_util::future::join_all;
use tokio::sync::watch;
use url::{Position, Url};

pub(super) use roots::Roots;
use server_requests::{BrokerElicitor, CallerModelSampler};
pub(super) use tools::{GrantedServer, ServerTools};

use super::{App, StartupNotices, http_models::http_client};
use crate::{
    config::{AgentConfig, LoginGrant, McpServerConfig, McpServerUse, OAuthConfig, ToolboxUse, check_url, variables},
    digest::Sha256Digest,
    error::{ErrorKind, Report},
    limits,
    mcp::{
        McpClient, McpClientFeatures, McpHttpTarget, McpRoot, McpStdioTarget, McpTarget, OAuthGrantType, OAuthOptions,
        PinStatus, Pins, ServerConfig,
    },
    net::{self, HttpClientConfig, Secret, is_readable_on_the_way},
    trust::PinnedServer,
};

/// A connected MCP server, and the person's approvals of it.
pub struct ConnectedMcpServer {
    /// Its connection.
    pub client: Arc<McpClient>,
    /// The approved tools; `None`: nothing was approved yet.
    pub pins: Option<Pins>,
    /// Digest of the server's program or address.
    target: String,
}

/// The connected servers by name and by the requests that each may make.
#[derive(Default)]
pub(super) struct GrantedServers(HashMap<(String, AllowedServerRequests), GrantedServer>);

/// The connections in use; another user of the same server shares its connection.
#[derive(Default)]
pub(super) struct McpClientPool {
    connected: Mutex<HashMap<(String, AllowedServerRequests), Weak<McpClient>>>,
    /// The folders that the servers are told of as roots.
    pub roots: Arc<Roots>,
}

impl McpClientPool {
    fn find(&self, key: &(String, AllowedServerRequests)) -> Option<Arc<McpClient>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).get(key)?.upgrade()
    }

    fn all(&self) -> Vec<Arc<McpClient>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner).values().filter_map(Weak::upgrade).collect()
    }

    fn keep(&self, key: (String, AllowedServerRequests), client: &Arc<McpClient>) {
        let mut clients = self.connected.lock().unwrap_or_else(PoisonError::into_inner);
        clients.insert(key, Arc::downgrade(client));
    }
}

/// The requests that a server may make of an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct AllowedServerRequests {
    model: bool,
    person: bool,
}

impl From<&McpServerUse> for AllowedServerRequests {
    fn from(uses: &McpServerUse) -> Self {
        Self { model: uses.sampling, person: uses.elicitation }
    }
}

impl GrantedServers {
    /// Returns the server for this use, if it was reached.
    pub fn of(&self, uses: &McpServerUse) -> Option<GrantedServer> {
        let granted_server = self.0.get(&(uses.name.clone(), uses.into()))?;
        Some(GrantedServer { uses: uses.clone(), ..granted_server.clone() })
    }
}

impl App {
    /// Connects to the servers of these agents concurrently. A server that cannot be reached is reported and left out.
    pub(super) async fn reach_servers(&self, agents: &[&AgentConfig], notices: &mut StartupNotices) -> GrantedServers {
        let uses = agents.iter().flat_map(|agent| agent.toolboxes.iter().filter_map(ToolboxUse::server));
        let wanted: BTreeSet<_> = uses.map(|uses| (uses.name.clone(), AllowedServerRequests::from(uses))).collect();
        let reached = join_all(wanted.iter().map(|(name, may_ask)| self.reach(name, *may_ask))).await;
        // A server may offer different tools depending on the requests it may make: a first approval covers all of them.
        let mut met = HashMap::<&str, Pins>::new();
        for ((name, _), reached) in wanted.iter().zip(&reached) {
            if let Ok(ConnectedMcpServer { client, pins: None, .. }) = reached {
                met.entry(name.as_str()).or_default().extend(&Pins::of(&client.listing()));
            }
        }
        let mut servers = GrantedServers::default();
        let mut told: Vec<String> = Vec::new();
        for ((name, may_ask), reached) in wanted.clone().into_iter().zip(reached) {
            match reached {
                Ok(server) => {
                    let met = met.get(name.as_str());
                    let pins = self.approved(&name, &server, met, !told.contains(&name), notices);
                    let (pins, target, uses) = (Arc::new(pins), server.target.into(), McpServerUse::default());
                    let granted_server = GrantedServer { client: server.client, pins, target, uses };
                    servers.0.insert((name.clone(), may_ask), granted_server);
                }
                Err(report) if told.contains(&name) => drop(report),
                Err(report) => {
                    notices.warnings.push(format!("{}: its tools are not there", report.with_hint()));
                }
            }
            told.push(name);
        }
        servers
    }

    /// Connects to a server of the config, for a person to review. It is told that it may make every request that any
    /// agent allows, since its tools may depend on that.
    ///
    /// # Errors
    ///
    /// A [`Report`]: there is no such server, it cannot be reached, or the stored approvals cannot be read.
    pub async fn server(&self, name: &str) -> Result<ConnectedMcpServer, Report> {
        self.server_config(name)?;
        let uses = self.config.agents.iter().flat_map(|agent| agent.toolboxes.iter().filter_map(ToolboxUse::server));
        let uses = uses.filter(|uses| uses.name == name).map(AllowedServerRequests::from);
        let may_ask = uses.fold(AllowedServerRequests::default(), |all, one| AllowedServerRequests {
            model: all.model || one.model,
            person: all.person || one.person,
        });
        self.reach(name, may_ask).await
    }

    /// Stores the approved tools of a server.
    ///
    /// # Errors
    ///
    /// A [`Report`] if they cannot be stored.
    pub fn approve(&self, name: &str, pins: &Pins) -> Result<(), Report> {
        let pinned = self.pinned(self.server_config(name)?, pins);
        let kept = self.trust.change(&self.config.root, |answered| answered.pin(pinned));
        kept.map_err(|error| error.report())
    }

    /// Closes all servers so that each can finish its work, before the program ends. It takes at most twice
    /// [`limits::MCP_CLOSE_TIME`].
    pub async fn close_servers(&self) {
        let clients = self.clients.all();
        join_all(clients.iter().map(|client| client.close())).await;
    }

    /// Returns the servers of the config.
    pub fn servers(&self) -> &[McpServerConfig] {
        &self.config.mcp_servers
    }

    /// Warns if a server cannot be started or reached as configured, as far as possible without trying.
    pub(super) fn doubt_of_server(&self, name: &str) -> Option<String> {
        let server = self.server_config(name).ok()?;
        let doubt = self.server_target(server).err();
        // A missing variable may be set where the agent is run.
        doubt.map(|report| format!("mcp_servers.{name}: {report}"))
    }

    fn server_config(&self, name: &str) -> Result<&McpServerConfig, Report> {
        let found = self.config.mcp_servers.iter().find(|server| server.name == name);
        let names = self.config.mcp_servers.iter().map(|server| server.name.as_str());
        found.ok_or_else(|| crate::config::unknown("MCP server", name, names))
    }

    async fn reach(&self, name: &str, may_ask: AllowedServerRequests) -> Result<ConnectedMcpServer, Report> {
        let server = self.server_config(name)?;
        let (pins, target, key) = (self.pins(server)?, self.target_digest(server), (name.to_owned(), may_ask));
        if let Some(client) = self.clients.find(&key) {
            return Ok(ConnectedMcpServer { client, pins, target });
        }
        let asking = McpClientFeatures {
            sampler: may_ask.model.then(|| Arc::new(CallerModelSampler) as _),
            elicitor: may_ask.person.then(|| Arc::new(BrokerElicitor(self.broker.clone())) as _),
            roots: server.roots.as_ref().map(|_| self.roots(server)),
        };
        let config = self.server_target(server)?;
        if server.command.is_some() && self.nested() >= limits::MCP_NESTED {
            let most = limits::MCP_NESTED;
            let why = format!("the MCP server `{name}` is not started: {most} of this program have started each other");
            return Err(Report::new(ErrorKind::Usage, why)
                .hint("one that serves the config that starts it has no end: give it another one with --config"));
        }
        let client = McpClient::connect(config, asking).await;
        let client = client.map_err(|error| {
            let report = Report::new(ErrorKind::Usage, error.to_string());
            match error {
                crate::mcp::McpError::Start { .. } => {
                    report.hint(format!("check mcp_servers.{name}.command: it is looked for in PATH"))
                }
                error => match net::mend(&error.fault()) {
                    Some(mend) => report.hint(mend),
                    None => report,
                },
            }
        })?;
        self.clients.keep(key, &client);
        Ok(ConnectedMcpServer { client, pins, target })
    }

    /// Returns the tools of a server that may be used. On first contact that is everything that it offers: consent to the
    /// server includes its present tools.
    fn approved(
        &self,
        name: &str,
        server: &ConnectedMcpServer,
        met: Option<&Pins>,
        is_told: bool,
        notices: &mut StartupNotices,
    ) -> Pins {
        let listing = server.client.listing();
        let now = Pins::of(&listing);
        if is_told {
            for refused in &listing.refused {
                let (tool, why) = (refused.name.escape_debug(), &refused.why);
                notices.warnings.push(format!("mcp_servers.{name}: its tool `{tool}` is left out: {why}"));
            }
        }
        let Some(pins) = server.pins.clone() else {
            let met = met.cloned().unwrap_or(now);
            if is_told {
                let count = met.iter().count();
                let tools = if count == 1 { "one tool is" } else { &format!("{count} tools are") };
                notices.notes.push(format!("MCP server {name}: {tools} approved as of now"));
                if let Err(report) = self.approve(name, &met) {
                    notices.warnings.push(format!("mcp_servers.{name}: it is approved this once: {report}"));
                }
            }
            return met;
        };
        if self.approves_all {
            return now;
        }
        let blocked = server.client.offer(&pins).blocked;
        let named = |state| {
            let of_it = blocked.iter().filter(|blocked| blocked.state == state);
            of_it.map(|blocked| format!("`{}`", blocked.tool.name.escape_debug())).collect::<Vec<_>>()
        };
        let (new, changed) = (named(PinStatus::New), named(PinStatus::Changed));
        for (what, names) in [("new", new), ("not what you have approved", changed)] {
            if is_told && !names.is_empty() {
                let (count, beyond) = (names.len(), names.len().saturating_sub(limits::NAMES_SHOWN));
                let more = if beyond > 0 { format!(" and {beyond} more") } else { String::new() };
                let shown = names[..count - beyond].join(", ");
                notices.warnings.push(format!(
                    "mcp_servers.{name}: {shown}{more}: {what}, and left out until you approve it: see `shelly-host mcp \
                     list {name}` and `shelly-host mcp approve {name}`"
                ));
            }
        }
        pins
    }

    /// Returns the approved tools of a server with its present program or address; `None` if there are none yet.
    fn pins(&self, server: &McpServerConfig) -> Result<Option<Pins>, Report> {
        let answered = self.trust.of(&self.config.root).map_err(|error| error.report())?;
        let target = self.target_digest(server);
        let pinned = answered.servers.into_iter().find(|pinned| pinned.name == server.name && pinned.target == target);
        Ok(pinned.map(|pinned| pinned.tools.into_iter().collect()))
    }

    fn pinned(&self, server: &McpServerConfig, pins: &Pins) -> PinnedServer {
        let tools = pins.iter().map(|(name, digest)| (name.to_owned(), digest.to_owned())).collect();
        PinnedServer { name: server.name.clone(), target: self.target_digest(server), tools }
    }

    /// Returns the approved digest of a tool. `origin` is `mcp:SERVER`, `tool` its name as a model calls it.
    pub(super) fn digest_of_tool(&self, origin: &str, tool: &str) -> Option<String> {
        let server = self.server_config(origin.strip_prefix("mcp:")?).ok()?;
        let pins = self.pins(server).ok()??;
        let found = pins.iter().find(|(name, _)| crate::mcp::tool_name(&server.name, name) == tool);
        found.map(|(_, digest)| tools::trusted_as(&self.target_digest(server), digest))
    }

    /// Returns the SHA-256 digest of a server's program or address: an approval of one does not carry over to another.
    fn target_digest(&self, server: &McpServerConfig) -> String {
        let McpServerConfig { command, args, cwd, url, .. } = server;
        let cwd = self.folder(cwd.as_deref());
        let target = serde_json::json!([command, args, url, cwd.to_string_lossy()]).to_string();
        Sha256Digest::of(target).to_string()
    }

    fn folder(&self, cwd: Option<&std::path::Path>) -> std::path::PathBuf {
        cwd.map_or_else(|| self.config.root.clone(), |cwd| self.config.root.join(cwd))
    }

    /// Returns how many instances of this program have started each other, up to this one.
    fn nested(&self) -> u32 {
        let nested = (self.environment)(NESTED).and_then(|nested| nested.parse::<u32>().ok());
        nested.unwrap_or_default().min(limits::MCP_NESTED)
    }

    fn server_target(&self, server: &McpServerConfig) -> Result<ServerConfig, Report> {
        let expand = |key: String, value: &str| server.expand(&key, value, &*self.environment);
        let target = match (&server.command, &server.url) {
            (Some(command), _) => {
                let inherited = INHERITED.into_iter().filter(|name| !server.env.contains_key(*name));
                let inherited =
                    inherited.filter_map(|name| Some((name.to_owned(), Secret::new((self.environment)(name)?))));
                let own = server.env.iter().map(|(name, value)| {
                    Ok::<_, Report>((name.clone(), Secret::new(expand(format!("env.{name}"), value)?)))
                });
                let nested = (NESTED.to_owned(), Secret::new((self.nested() + 1).to_string()));
                let environment = inherited.map(Ok).chain(own).chain([Ok(nested)]).collect::<Result<_, _>>()?;
                let (program, arguments) = (command.clone(), server.args.clone());
                McpTarget::Program(McpStdioTarget {
                    program,
                    arguments,
                    environment,
                    folder: self.folder(server.cwd.as_deref()),
                })
            }
            (None, url) => {
                let url = expand("url".into(), url.as_deref().unwrap_or_default())?;
                let url = check_url(&url)
                    .map_err(|why| Report::new(ErrorKind::Usage, format!("mcp_servers.{}.url: {why}", server.name)))?;
                let header = |(name, value): (&String, &String)| {
                    Ok::<_, Report>((name.clone(), Secret::new(expand(format!("headers.{name}"), value)?)))
                };
                let headers = server.headers.iter().map(header).collect::<Result<_, _>>()?;
                let oauth = self.login(server, &url)?;
                McpTarget::Http(McpHttpTarget {
                    client: http_client(HttpClientConfig::default())?,
                    url,
                    auth: None,
                    headers,
                    oauth,
                })
            }
        };
        Ok(ServerConfig {
            revisions: server.protocol.into(),
            connect_time: server.connect_timeout,
            call_time: server.timeout,
            output_chars: server.output_chars,
            ..ServerConfig::new(server.name.as_str(), target)
        })
    }

    /// Returns the OAuth options for a server; `None` if there is no store of logins. Without `oauth` in the config it is also
    /// `None` if an `authorization` header is set, or if the connection is not encrypted.
    fn login(&self, server: &McpServerConfig, url: &Url) -> Result<Option<OAuthOptions>, Report> {
        let Some(store) = self.logins.clone() else { return Ok(None) };
        let has_header = server.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"));
        if server.oauth.is_none() && (has_header || is_readable_on_the_way(url)) {
            return Ok(None);
        }
        let oauth = server.oauth.clone().unwrap_or_default();
        let networks = oauth.networks();
        let OAuthConfig { client_id, client_secret, client_metadata_url, scopes, grant, issuer, networks: _ } = oauth;
        let expand = |key: &str, value: Option<String>| {
            value.map(|value| server.expand(&format!("oauth.{key}"), &value, &*self.environment)).transpose()
        };
        let metadata_url = client_metadata_url.map(|url| check_url(&url)).transpose().map_err(|why| {
            Report::new(ErrorKind::Usage, format!("mcp_servers.{}.oauth.client_metadata_url: {why}", server.name))
        })?;
        let grant = match grant {
            LoginGrant::Person => OAuthGrantType::Person,
            LoginGrant::Client => OAuthGrantType::Client,
        };
        Ok(Some(OAuthOptions {
            grant,
            client_id: expand("client_id", client_id)?,
            client_secret: expand("client_secret", client_secret)?.map(Secret::new),
            issuer,
            metadata_url,
            scopes,
            networks,
            ..OAuthOptions::new(store)
        }))
    }

    /// Returns the configuration of a server to log in to.
    ///
    /// # Errors
    ///
    /// A [`Report`]: there is no such server, it is a program, or its config cannot be used.
    pub fn server_to_log_in(&self, name: &str) -> Result<ServerConfig, Report> {
        let server = self.server_config(name)?;
        if server.command.is_some() {
            return Err(Report::new(ErrorKind::Usage, format!("the MCP server `{name}` is a program"))
                .hint("nobody logs in to it: give it what it wants under `env`"));
        }
        self.server_target(server)
    }

    /// Returns the known secrets of servers, which must not be recorded.
    pub(super) fn secrets_of_servers(&self) -> Vec<(String, Secret)> {
        let of = |server: &McpServerConfig| {
            // A value without a variable is usually no secret, and may be a common word.
            let named = |key: String, value: &String| {
                let whole = Some(value).filter(|value| value.contains("${"));
                let whole = whole.and_then(|value| server.expand(&key, value, &*self.environment).ok());
                // A variable within an address or a longer value is a secret by itself, too.
                let own = variables(value).filter(|name| !INHERITED.contains(name));
                let own = own.filter_map(|name| (self.environment)(name));
                let place = format!("mcp_servers.{}.{key}", server.name);
                whole.into_iter().chain(own).map(|value| (place.clone(), Secret::new(value))).collect::<Vec<_>>()
            };
            let env = server.env.iter().flat_map(|(name, value)| named(format!("env.{name}"), value));
            let headers = server.headers.iter().flat_map(|(name, value)| named(format!("headers.{name}"), value));
            let secret = server.oauth.iter().filter_map(|oauth| oauth.client_secret.as_ref());
            let secret = secret.flat_map(|secret| named("oauth.client_secret".into(), secret));
            // The host name is not a secret.
            let host = |url: &str| Url::parse(&server.expand("url", url, &*self.environment).ok()?).ok();
            let host = server
                .url
                .as_deref()
                .and_then(host)
                .map(|url| url[Position::BeforeHost..Position::AfterPort].to_owned());
            let url = server.url.iter().flat_map(|url| named("url".into(), url));
            let url = url.filter(|(_, value)| {
                host.as_ref().is_some_and(|host| !host.contains(&value.expose().to_ascii_lowercase()))
            });
            env.chain(headers).chain(secret).chain(url).collect::<Vec<_>>()
        };
        let all = self.config.mcp_servers.iter().flat_map(of);
        all.flat_map(|(name, secret)| secret.parts().into_iter().map(move |part| (name.clone(), part))).collect()
    }

    /// Returns the folders that a server is told of: those in its config, and those that the person has approved for this
    /// project.
    fn roots(&self, server: &McpServerConfig) -> watch::Receiver<Arc<[McpRoot]>> {
        let own = server.roots.iter().flatten().map(|root| self.config.root.join(root));
        self.clients.roots.watch(own.collect(), self.project.approved().folders)
    }
}

/// Variables that most programs need; a server gets nothing else of the environment.
const INHERITED: [&str; 2] = ["PATH", "HOME"];

/// The variable that tells a started program how many instances of this program stand above it, as it may be one itself.
const NESTED: &str = "SHELLY_HOST_NESTED";

#[cfg(test)]
mod tests;
