use std::sync::Arc;

use async_trait::async_trait;

use super::{call_output, operation::ApiOperation};
use shelly_core::{
    chat::{ToolCall, ToolSpec},
    error::Fault,
    tool::{ConcurrencyDomain, Tool, ToolConcurrency, ToolCx, ToolOutput},
};
use shelly_net::egress::{Egress, EgressRequest};

/// An operation of an API as a tool of an agent. Its requests go through an [`Egress`], which is given only what the
/// operation needs.
pub struct OperationTool {
    operation: Arc<ApiOperation>,
    egress: Egress,
    origin: String,
}

impl OperationTool {
    /// Creates the tool. `api` is the name of the API. `egress` bounds the requests of all operations of the API together,
    /// and holds its credential.
    pub fn new(api: &str, operation: Arc<ApiOperation>, egress: &Egress) -> Self {
        let egress = egress.for_requests(operation.grant.clone());
        Self { operation, egress, origin: origin_of(api) }
    }
}

/// Returns the origin of the tools of an API.
pub fn origin_of(api: &str) -> String {
    format!("openapi:{api}")
}

#[async_trait]
impl Tool for OperationTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.operation.spec
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    /// Puts all operations of one API into one domain: they share the state of the server, so their order matters.
    fn concurrency(&self) -> ToolConcurrency {
        ToolConcurrency::touching(self.operation.spec.hints, [ConcurrencyDomain::named(self.origin())])
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let request = self.operation.request(&call.arguments)?;
        let request = EgressRequest { span: cx.run.events.step_span(), ..request };
        let response = self.egress.send(request).await.map_err(|failure| failure.fault)?;
        call_output::output(response).await
    }
}
