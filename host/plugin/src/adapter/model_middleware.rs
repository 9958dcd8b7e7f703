use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;

use super::run_context::run_context;
use crate::{
    bindings::{exports::model_middleware as wit, types},
    convert::{self, GuestMediaIndex, GuestPayload},
    loader::{ModelMiddlewareFunctions, Plugin},
    metering::Lane,
    runtime::CallSetup,
    store::PluginState,
};
use shelly_core::{
    capability::{NameSet, Power},
    chat::ToolSpec,
    error::{Fault, OnFailure},
    event::{CalledFunction, RunCx},
    model::{Completion, CompletionRequest, ModelMiddleware, ModelRequestAttempt, ReplyVerdict, RequestVerdict},
};

/// A model middleware that is implemented by a plugin.
pub struct PluginModelMiddleware {
    plugin: Arc<Plugin>,
}

impl PluginModelMiddleware {
    /// Creates the model middleware of a plugin; `None` if the plugin has none.
    pub fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        plugin.kinds.model_middleware.is_some().then(|| Self { plugin: Arc::clone(plugin) })
    }

    fn kind(&self) -> Result<&ModelMiddlewareFunctions, Fault> {
        self.plugin.kinds.model_middleware.as_ref().ok_or_else(|| Fault::other("the plugin has no model middleware"))
    }

    fn setup(&self, function: CalledFunction, input: usize) -> CallSetup {
        CallSetup { function, time: self.plugin.limits().step_time, lane: Lane::Step, input }
    }

    /// Makes the request readable for the call, as far as the plugin's powers allow.
    fn lend(&self, request: &CompletionRequest) -> impl FnOnce(&mut PluginState) + use<> {
        let lent = (request.clone(), self.plugin.grant.powers.clone());
        move |store| store.outgoing = Some(lent)
    }

    fn needs(&self, powers: &[Power]) -> Result<(), Fault> {
        match powers.iter().find(|power| !self.plugin.grant.powers.contains(power)) {
            Some(power) => Err(Fault::Denied {
                message: format!(
                    "power `{power}` is not granted; add it to `powers` of the plugin's entry in the config"
                ),
            }),
            None => Ok(()),
        }
    }

    /// Converts the request that the plugin wants sent in place of the one that it saw.
    fn replaced(&self, request: types::Request, asked: &CompletionRequest) -> Result<CompletionRequest, Fault> {
        // Parts that the plugin may not see are blank to it, and it would write the blanks back.
        self.needs(&[Power::Rewrite, Power::SeeMessages, Power::SeeArguments, Power::SeeResults])?;
        let tools = kept(&request.tools, asked)?;
        let request = types::Request { tools: Vec::new(), ..request };
        Ok(CompletionRequest { tools, ..convert::request(request, &GuestMediaIndex::in_chat(&asked.messages))? })
    }
}

/// Returns the tools that are still offered: a middleware can remove tools, but not invent any.
fn kept(names: &[types::ToolSpec], asked: &CompletionRequest) -> Result<Arc<[Arc<ToolSpec>]>, Fault> {
    let there: HashMap<_, _> = asked.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
    let find = |spec: &types::ToolSpec| {
        there.get(spec.name.as_str()).map(|tool| Arc::clone(tool)).ok_or_else(|| {
            let name = convert::bounded(spec.name.clone(), 100);
            Fault::invalid(format!(
                "the request of the middleware offers the tool `{}`, which the agent does not have",
                name.escape_debug()
            ))
        })
    };
    names.iter().map(find).collect()
}

#[async_trait]
impl ModelMiddleware for PluginModelMiddleware {
    fn name(&self) -> &str {
        self.plugin.id()
    }

    fn models(&self) -> &NameSet {
        &self.plugin.grant.models
    }

    fn may_replace(&self) -> bool {
        self.plugin.grant.powers.contains(&Power::Rewrite)
    }

    fn on_failure(&self) -> OnFailure {
        self.plugin.on_failure
    }

    async fn before(&self, cx: &RunCx, sending: &ModelRequestAttempt<'_>) -> Result<RequestVerdict, Fault> {
        let kind = self.kind()?;
        let (context, wit_request) = (run_context(cx), sending_to_wit(sending));
        let decision = self.plugin.executor.call(
            cx,
            self.setup(CalledFunction::ModelMiddlewareBefore, wit_request.bytes()),
            self.lend(sending.request),
            async |store, instance| kind.before(store, instance, &context, &wit_request).await,
        );
        Ok(match decision.await? {
            wit::BeforeDecision::Proceed(wit::Pass { model, request, state }) => {
                let request = request.map(|request| self.replaced(request, sending.request)).transpose()?;
                RequestVerdict::Proceed { model, request, state }
            }
            wit::BeforeDecision::Answer(completion) => {
                self.needs(&[Power::Answer])?;
                let seen = GuestMediaIndex::in_chat(&sending.request.messages);
                RequestVerdict::Answer(convert::completion(completion, &seen)?)
            }
            wit::BeforeDecision::Reject(error) => RequestVerdict::Reject(convert::fault(error)),
        })
    }

    async fn after(
        &self,
        cx: &RunCx,
        sending: &ModelRequestAttempt<'_>,
        reply: Result<&Completion, &Fault>,
        state: Vec<u8>,
    ) -> Result<ReplyVerdict, Fault> {
        let kind = self.kind()?;
        let (context, wit_request) = (run_context(cx), sending_to_wit(sending));
        let answered = reply.map(convert::completion_to_wit).map_err(convert::fault_to_wit);
        let input =
            wit_request.bytes() + answered.as_ref().map_or_else(GuestPayload::bytes, GuestPayload::bytes) + state.len();
        let decision = self.plugin.executor.call(
            cx,
            self.setup(CalledFunction::ModelMiddlewareAfter, input),
            self.lend(sending.request),
            async |store, instance| {
                kind.after(store, instance, &context, &wit_request, answered.as_ref(), &state).await
            },
        );
        Ok(match decision.await? {
            wit::AfterDecision::Accept => ReplyVerdict::Accept,
            wit::AfterDecision::Replace(completion) => {
                self.needs(&[Power::Rewrite])?;
                let parts = reply.map_or(&[][..], |completion| &completion.parts);
                let seen = GuestMediaIndex::in_chat_and(&sending.request.messages, parts);
                ReplyVerdict::Replace(convert::completion(completion, &seen)?)
            }
            wit::AfterDecision::Reject(error) => ReplyVerdict::Reject(convert::fault(error)),
            wit::AfterDecision::Retry(wit::Again { model, delay_ms, state }) => {
                ReplyVerdict::Retry { model, delay: Duration::from_millis(delay_ms), state }
            }
        })
    }
}

fn sending_to_wit(sending: &ModelRequestAttempt<'_>) -> wit::Sending {
    wit::Sending {
        model: sending.model.into(),
        digest: sending.digest().into(),
        tokens: sending.request.tokens(),
        attempt: sending.attempt,
    }
}
