//! The tools of a server, as one agent has them.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    approval::ApprovalBroker,
    builtin::ConfirmedTool,
    capability::{CapabilityDecision, Ceiling, Grant},
    config::McpServerUse,
    mcp::{McpClient, McpToolListing, Pins},
    tool::{Tool, ToolBox, ToolSource},
};

/// A server that an agent uses.
#[derive(Clone)]
pub(in crate::app) struct GrantedServer {
    pub client: Arc<McpClient>,
    /// What of it may be used.
    pub pins: Arc<Pins>,
    /// What is started, or where it is: see [`App::target_digest`](super::App::target_digest).
    pub target: Arc<str>,
    pub uses: McpServerUse,
}

impl GrantedServer {
    /// The capability that it takes to use it.
    pub fn grant(&self) -> Grant {
        Grant { mcp: [self.uses.name.clone()].into_iter().collect(), ..Grant::default() }
    }

    /// Whether it may be used under a ceiling, and which rule says so. `place` is where the config gives it.
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

/// What stands for a tool that a person trusts: whose it is, and all that it says of itself. Another program under the same
/// name may say the same.
pub(super) fn trusted_as(target: &str, digest: &str) -> String {
    format!("{target} {digest}")
}

/// Its tools as they are now: those that are approved, and that the agent is to have.
pub(in crate::app) struct ServerTools {
    hired: GrantedServer,
    agent: String,
    desk: ApprovalBroker,
    /// Those of the listing that was looked at last.
    made: Mutex<(Arc<McpToolListing>, ToolBox)>,
}

impl ServerTools {
    pub fn new(hired: GrantedServer, agent: &str, desk: &ApprovalBroker) -> Self {
        let (agent, desk) = (agent.to_owned(), desk.clone());
        let tools = Self { hired, agent, desk, made: Mutex::default() };
        let listing = tools.hired.client.listing();
        let made = tools.make();
        Self { made: Mutex::new((listing, made)), ..tools }
    }

    fn make(&self) -> ToolBox {
        let GrantedServer { client, pins, target, uses } = &self.hired;
        let is_wanted = |name: &String| uses.tools.as_ref().is_none_or(|tools| tools.contains(name));
        let mut tools = ToolBox::new();
        for tool in client.offer(pins).tools.into_iter().filter(|tool| is_wanted(&tool.as_listed().name)) {
            let digest = trusted_as(target, &tool.as_listed().digest);
            let tool: Arc<dyn Tool> = match uses.confirm.unwrap_or(tool.as_listed().is_destructive) {
                true => Arc::new(ConfirmedTool::new(tool, self.desk.clone(), &*self.agent, digest)),
                false => tool,
            };
            // No two of one list have one name.
            let _ = tools.register(tool);
        }
        tools
    }
}

impl ToolSource for ServerTools {
    fn tools(&self) -> ToolBox {
        let listing = self.hired.client.listing();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&made.0, &listing) {
            *made = (listing, self.make());
        }
        made.1.clone()
    }
}
