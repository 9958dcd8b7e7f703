//! The operations of an API as tools of one agent.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use super::api_documents::ReadApi;
use crate::{
    approval::ApprovalBroker,
    assemble::mcp::trusted_as,
    builtin::ConfirmedTool,
    capability::{CapabilityDecision, Ceiling, Grant, HttpGrant},
    config::OpenApiUse,
    mcp::PinStatus,
    net::egress::{Credential, Egress, EgressLimits},
    openapi::{ApiOperation, OperationTool, origin_of},
    tool::{Tool, ToolBox},
};

/// The APIs whose documents were read, by name.
#[derive(Default)]
pub(crate) struct ReachedApis(HashMap<String, ReachedApi>);

/// An API whose document was read, and its credential.
struct ReachedApi {
    api: ReadApi,
    credential: Option<Arc<Credential>>,
}

impl ReachedApis {
    /// Adds an API.
    pub fn add(&mut self, name: &str, api: ReadApi, credential: Option<Arc<Credential>>) {
        self.0.insert(name.to_owned(), ReachedApi { api, credential });
    }

    /// Returns the API for this use at `place` in the config, if its document was read. A name that selects no operation, or
    /// too many, causes a warning.
    pub fn of(&self, uses: &OpenApiUse, place: &str, warnings: &mut Vec<String>) -> Option<GrantedApi> {
        let ReachedApi { api, credential } = self.0.get(&uses.name)?;
        let selected = match uses.selected(&api.listing) {
            Ok(selected) => selected,
            Err(why) => {
                warnings.push(format!("{place}.{}: {why}; continuing without its tools", uses.name));
                return None;
            }
        };
        let unknown = selected.unknown.iter().map(|name| name.escape_debug());
        warnings.extend(unknown.map(|name| format!("{place}.{}: the API has no operation `{name}`", uses.name)));
        let is_approved = |one: &Arc<ApiOperation>| {
            api.pins.as_ref().is_none_or(|pins| pins.state(&one.name, &one.digest) == PinStatus::Unchanged)
        };
        let operations: Vec<_> = selected.operations.into_iter().filter(is_approved).collect();
        let http = operations.iter().fold(HttpGrant::default(), |all, one| all.join(&one.grant));
        let egress = Egress::new(http, credential.iter().cloned().collect(), EgressLimits::default());
        let credential = credential.as_ref().map(|credential| credential.name().to_owned());
        Some(GrantedApi { operations, egress, credential, target: api.target.clone().into(), uses: uses.clone() })
    }
}

/// The operations of an API that an agent uses.
#[derive(Clone)]
pub(crate) struct GrantedApi {
    /// The operations that the agent selects and that are approved.
    operations: Vec<Arc<ApiOperation>>,
    /// The network access for all of them together.
    egress: Egress,
    /// The name of the credential that the host adds.
    credential: Option<String>,
    /// The digest of the document's place and the base.
    target: Arc<str>,
    uses: OpenApiUse,
}

impl GrantedApi {
    /// Returns the name of the API.
    pub fn name(&self) -> &str {
        &self.uses.name
    }

    /// Returns the tools that a ceiling leaves to an agent, and a decision with its rule for each request that an operation
    /// needs. `place` is the position in the config.
    pub fn under(
        &self,
        agent: &str,
        ceiling: &Ceiling,
        broker: &ApprovalBroker,
        place: &str,
    ) -> (ToolBox, Vec<CapabilityDecision>) {
        let (mut tools, mut decided) = (ToolBox::new(), BTreeSet::new());
        for operation in &self.operations {
            let credentials = self.credential.iter().cloned().collect();
            let needed = Grant { http: operation.grant.clone(), credentials, ..Grant::default() };
            let request = operation.grant.rules().map(ToString::to_string).collect::<BTreeSet<_>>();
            let request = request.into_iter().collect::<Vec<_>>().join(", ");
            let withheld = ceiling.withheld(&needed);
            if withheld.is_empty() {
                decided.insert((format!("http: [{request}]"), true, Arc::from(place)));
                // The names within one document are unique.
                let _ = tools.register(self.tool(agent, operation, broker));
            }
            decided.extend(withheld.into_iter().map(|(rule, missing)| (missing.line, false, rule)));
        }
        let plugin: Arc<str> = origin_of(self.name()).into();
        let decision = |(capability, allowed, rule): (String, bool, Arc<str>)| CapabilityDecision {
            plugin: Arc::clone(&plugin),
            capability,
            allowed,
            rule,
        };
        (tools, decided.into_iter().map(decision).collect())
    }

    fn tool(&self, agent: &str, operation: &Arc<ApiOperation>, broker: &ApprovalBroker) -> Arc<dyn Tool> {
        let tool = Arc::new(OperationTool::new(self.name(), Arc::clone(operation), &self.egress));
        match self.uses.confirm.unwrap_or(!operation.spec.hints.read_only) {
            true => {
                let digest = trusted_as(&self.target, &operation.digest);
                Arc::new(ConfirmedTool::new(tool, broker.clone(), agent, digest))
            }
            false => tool,
        }
    }
}
