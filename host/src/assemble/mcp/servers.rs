//! Connects to the MCP servers of agents, and keeps to the tools that a person has approved.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use futures_util::future::join_all;
use tokio::sync::watch;

use super::{
    client_pool::AllowedServerRequests,
    granted_servers::GrantedServers,
    server_requests::{BrokerElicitor, CallerModelSampler},
    server_tools::{GrantedServer, trusted_as},
};
use crate::{
    assemble::{App, StartupNotices, approved_tools::unapproved_warnings},
    config::{AgentConfig, McpServerConfig, McpServerUse, ToolboxUse},
    error::{ErrorKind, Report},
    limits,
    mcp::{McpClient, McpClientFeatures, McpError, McpRoot, PinStatus, Pins},
    net,
    openapi::origin_of,
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

impl App {
    /// Connects to the servers of these agents concurrently. A server that cannot be reached is reported and left out.
    pub(crate) async fn reach_servers(&self, agents: &[&AgentConfig], notices: &mut StartupNotices) -> GrantedServers {
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
                    servers.add(name.clone(), may_ask, granted_server);
                }
                Err(report) if told.contains(&name) => drop(report),
                Err(report) => {
                    notices.warnings.push(format!("{}; continuing without its tools", report.with_hint()));
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
        let toolboxes = self.config.agents.iter().flat_map(|agent| &agent.toolboxes).chain(&self.config.toolboxes);
        let uses = toolboxes.filter_map(ToolboxUse::server);
        let uses = uses.filter(|uses| uses.name == name).map(AllowedServerRequests::from);
        let may_ask = uses.fold(AllowedServerRequests::default(), |all, one| AllowedServerRequests {
            model: all.model || one.model,
            person: all.person || one.person,
        });
        self.reach(name, may_ask).await
    }

    /// Returns the connections to servers that are in use now.
    pub fn connected_servers(&self) -> Vec<Arc<McpClient>> {
        self.clients.all()
    }

    /// Stores the approved tools of a server.
    ///
    /// # Errors
    ///
    /// A [`Report`] if they cannot be stored.
    pub fn approve(&self, name: &str, pins: &Pins) -> Result<(), Report> {
        self.keep_pins(name.to_owned(), self.target_digest(self.server_config(name)?), pins)
    }

    /// Closes all servers so that each can finish its work, before the program ends. It takes at most twice
    /// [`limits::MCP_CLOSE_TIME`].
    pub async fn close_servers(&self) {
        let clients = self.connected_servers();
        join_all(clients.iter().map(|client| client.close())).await;
    }

    /// Returns the servers of the config.
    pub fn servers(&self) -> &[McpServerConfig] {
        &self.config.mcp_servers
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
            let why = format!("the MCP server `{name}` was not started: shelly-host is nested {most} deep");
            return Err(Report::new(ErrorKind::Usage, why)
                .hint("the server probably serves the config that starts it; give it another config with --config"));
        }
        let client = McpClient::connect(config, asking).await;
        let client = client.map_err(|error| {
            let report = Report::new(ErrorKind::Usage, error.to_string());
            match error {
                McpError::Start { .. } => report
                    .hint(format!("check mcp_servers.{name}.command; a name without a path is searched for in PATH")),
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
                notices.warnings.push(format!("mcp_servers.{name}: ignoring the tool `{tool}`: {why}"));
            }
        }
        let Some(pins) = server.pins.clone() else {
            let met = met.cloned().unwrap_or(now);
            if is_told {
                let count = met.iter().count();
                let tools = if count == 1 { "one tool is" } else { &format!("{count} tools are") };
                notices.notes.push(format!("MCP server {name}: {tools} now approved"));
                if let Err(report) = self.approve(name, &met) {
                    notices
                        .warnings
                        .push(format!("mcp_servers.{name}: the tools are approved for this run only: {report}"));
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
            of_it.map(|blocked| blocked.tool.name.as_str()).collect::<Vec<_>>()
        };
        if is_told {
            let (place, new, changed) =
                (format!("mcp_servers.{name}"), named(PinStatus::New), named(PinStatus::Changed));
            notices.warnings.extend(unapproved_warnings(&place, ("mcp", name), &new, &changed));
        }
        pins
    }

    /// Returns the approved tools of a server with its present program or address; `None` if there are none yet.
    fn pins(&self, server: &McpServerConfig) -> Result<Option<Pins>, Report> {
        self.pins_of(&server.name, &self.target_digest(server))
    }

    /// Returns the approved digest of a tool. `origin` is `mcp:SERVER` or that of an API, `tool` its name as a model calls
    /// it.
    pub(crate) fn digest_of_tool(&self, origin: &str, tool: &str) -> Option<String> {
        if let Some(api) = self.config.openapi.iter().find(|api| origin_of(&api.name) == origin) {
            return self.digest_of_operation(api, tool);
        }
        let server = self.server_config(origin.strip_prefix("mcp:")?).ok()?;
        let pins = self.pins(server).ok()??;
        let found = pins.iter().find(|(name, _)| crate::mcp::tool_name(&server.name, name) == tool);
        found.map(|(_, digest)| trusted_as(&self.target_digest(server), digest))
    }

    /// Returns the folders that a server is told of: those in its config, and those that the person has approved for this
    /// project.
    fn roots(&self, server: &McpServerConfig) -> watch::Receiver<Arc<[McpRoot]>> {
        let own = server.roots.iter().flatten().map(|root| self.config.root.join(root));
        self.clients.roots.watch(own.collect(), self.project.approved().folders)
    }
}
