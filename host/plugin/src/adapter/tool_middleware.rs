use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::run_context::run_context;
use crate::{
    bindings::exports::tool_middleware as wit,
    convert::{self, GuestMediaIndex, GuestPayload},
    loader::{Plugin, ToolMiddlewareFunctions},
    metering::Lane,
    runtime::CallSetup,
};
use shelly_core::{
    chat::{Part, ToolCall, ToolResult, ToolResultContent},
    error::{Fault, OnFailure},
    event::{CalledFunction, RunCx},
    limits,
    tool::{ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget},
};

/// A tool middleware that is implemented by a plugin.
pub struct PluginToolMiddleware {
    plugin: Arc<Plugin>,
}

impl PluginToolMiddleware {
    /// Creates the tool middleware of a plugin; `None` if the plugin has none.
    pub fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        plugin.kinds.tool_middleware.is_some().then(|| Self { plugin: Arc::clone(plugin) })
    }

    fn kind(&self) -> Result<&ToolMiddlewareFunctions, Fault> {
        self.plugin.kinds.tool_middleware.as_ref().ok_or_else(|| Fault::other("the plugin has no tool middleware"))
    }

    fn setup(&self, function: CalledFunction, input: usize) -> CallSetup {
        CallSetup { function, time: self.plugin.limits().step_time, lane: Lane::Step, input }
    }
}

#[async_trait]
impl ToolMiddleware for PluginToolMiddleware {
    fn name(&self) -> &str {
        self.plugin.id()
    }

    fn on_failure(&self) -> OnFailure {
        self.plugin.on_failure
    }

    async fn before(&self, cx: &RunCx, call: &ToolCall, target: &ToolTarget) -> Result<ToolCallDecision, Fault> {
        let kind = self.kind()?;
        let (context, wit_call) = (run_context(cx), convert::tool_call_to_wit(call));
        let target = wit::Target { origin: target.origin.clone(), hints: convert::hints_to_wit(&target.hints) };
        let decision = self.plugin.executor.call(
            cx,
            self.setup(CalledFunction::ToolMiddlewareBefore, wit_call.bytes() + target.origin.len()),
            |_| {},
            async |store, instance| kind.before(store, instance, &context, &wit_call, &target).await,
        );
        let wit::Decision { verdict, arguments, state } = decision.await?;
        let verdict = match verdict {
            wit::Verdict::Allow => ToolCallVerdict::Allow,
            wit::Verdict::Ask(wit::Question { text, topic }) => ToolCallVerdict::Ask {
                text: convert::bounded(text, limits::QUESTION_BYTES),
                topic: convert::bounded(topic, limits::QUESTION_LABEL_BYTES),
            },
            wit::Verdict::Answer(content) => {
                ToolCallVerdict::Answer(convert::content(content, &GuestMediaIndex::none())?)
            }
            wit::Verdict::Deny(why) => ToolCallVerdict::Deny(convert::bounded(why, limits::ERROR_BYTES)),
        };
        if let Some(arguments) = &arguments {
            serde_json::from_str::<Map<String, Value>>(arguments).map_err(|error| {
                Fault::other(format!("the arguments of the middleware are not a JSON object: {error}"))
            })?;
        }
        Ok(ToolCallDecision { verdict, arguments, state })
    }

    async fn after(
        &self,
        cx: &RunCx,
        call: &ToolCall,
        outcome: Result<&[ToolResultContent], &Fault>,
        state: Vec<u8>,
    ) -> Result<Option<Vec<ToolResultContent>>, Fault> {
        let kind = self.kind()?;
        let (context, wit_call) = (run_context(cx), convert::tool_call_to_wit(call));
        let came = outcome.map(convert::content_list_to_wit).map_err(convert::fault_to_wit);
        let input =
            wit_call.bytes() + came.as_ref().map_or_else(GuestPayload::bytes, GuestPayload::bytes) + state.len();
        let content = self.plugin.executor.call(
            cx,
            self.setup(CalledFunction::ToolMiddlewareAfter, input),
            |_| {},
            async |store, instance| {
                let came = came.as_ref().map(|all| &all[..]);
                kind.after(store, instance, &context, &wit_call, came, &state).await
            },
        );
        let Some(content) = content.await? else { return Ok(None) };
        let content_there = outcome.unwrap_or_default().to_vec();
        let there = Part::ToolResult(ToolResult { call_id: String::new(), content: content_there, is_error: false });
        convert::content(content, &GuestMediaIndex::in_parts(&[there])).map(Some)
    }
}
