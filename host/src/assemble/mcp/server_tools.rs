//! The tools of an MCP server for one agent.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    approval::ApprovalBroker,
    builtin::ConfirmedTool,
    capability::{CapabilityDecision, Ceiling, Grant},
    config::McpServerUse,
    mcp::{McpClient, McpToolListing, Pins},
    tool::{Tool, ToolBox, ToolSource},
};

/// An MCP server that an agent uses.
#[derive(Clone)]
pub(crate) struct GrantedServer {
    pub client: Arc<McpClient>,
    /// The approved tools.
    pub pins: Arc<Pins>,
    /// The digest of its program or address; see [`App::target_digest`](crate::assemble::App::target_digest).
    pub target: Arc<str>,
    pub uses: McpServerUse,
}

impl GrantedServer {
    /// Returns the capability that is needed to use the server.
    pub fn grant(&self) -> Grant {
        Grant { mcp: [self.uses.name.clone()].into_iter().collect(), ..Grant::default() }
    }

    /// Returns whether a ceiling allows the server, and the rule that decides. `place` is its position in the config.
    pub fn decisions(&self, ceiling: &Ceiling, place: &str) -> Vec<CapabilityDecision> {
        let (plugin, capability): (Arc<str>, _) =
            (format!("mcp:{}", self.uses.name).into(), format!("mcp: [{}]", self.uses.name));
        let decision = |allowed, rule: Arc<str>| CapabilityDecision {
            plugin: Arc::clone(&plugin),
            capability: capability.clone(),
            allowed,
            rule,
        };
        let withheld = ceiling.withheld(&self.grant());
        if withheld.is_empty() {
            return vec![decision(true, place.into())];
        }
        withheld.into_iter().map(|(rule, _)| decision(false, rule)).collect()
    }
}

/// Returns the digest under which a person trusts a tool: that of its server, and that of its own description. Another
/// program under the same name may describe the same tool.
pub(crate) fn trusted_as(target: &str, digest: &str) -> String {
    format!("{target} {digest}")
}

/// The present tools of a server that are approved and that the agent uses.
pub(crate) struct ServerTools {
    granted_server: GrantedServer,
    agent: String,
    broker: ApprovalBroker,
    /// The tools of the last listing that was seen.
    made: Mutex<(Arc<McpToolListing>, ToolBox)>,
}

impl ServerTools {
    pub fn new(granted_server: GrantedServer, agent: &str, broker: &ApprovalBroker) -> Self {
        let (agent, broker) = (agent.to_owned(), broker.clone());
        let tools = Self { granted_server, agent, broker, made: Mutex::default() };
        let listing = tools.granted_server.client.listing();
        let made = tools.make();
        Self { made: Mutex::new((listing, made)), ..tools }
    }

    fn make(&self) -> ToolBox {
        let GrantedServer { client, pins, target, uses } = &self.granted_server;
        let is_wanted = |name: &String| uses.tools.as_ref().is_none_or(|tools| tools.contains(name));
        let mut tools = ToolBox::new();
        for tool in client.offer(pins).tools.into_iter().filter(|tool| is_wanted(&tool.as_listed().name)) {
            let digest = trusted_as(target, &tool.as_listed().digest);
            let tool: Arc<dyn Tool> = match uses.confirm.unwrap_or(tool.as_listed().is_destructive) {
                true => Arc::new(ConfirmedTool::new(tool, self.broker.clone(), &*self.agent, digest)),
                false => tool,
            };
            // The names within one listing are unique.
            let _ = tools.register(tool);
        }
        tools
    }
}

impl ToolSource for ServerTools {
    fn tools(&self) -> ToolBox {
        let listing = self.granted_server.client.listing();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&made.0, &listing) {
            *made = (listing, self.make());
        }
        made.1.clone()
    }
}
