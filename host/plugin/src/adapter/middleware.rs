use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use super::run_context::run_context;
use crate::{
    bindings::{exports::run_middleware as wit, types},
    convert::{self, GuestMediaIndex, GuestPayload},
    loader::{Plugin, RunMiddlewareFunctions},
    metering::Lane,
    runtime::CallSetup,
};
use shelly_core::{
    agent::{AfterRunDecision, BeforeRunDecision, RunMiddleware, RunOutcome},
    chat::Message,
    error::{Fault, OnFailure},
    event::{CalledFunction, RunCx},
    limits,
};

/// A run middleware that is implemented by a plugin.
pub struct PluginRunMiddleware {
    plugin: Arc<Plugin>,
}

impl PluginRunMiddleware {
    /// Creates the run middleware of a plugin; `None` if the plugin has none.
    pub fn new(plugin: &Arc<Plugin>) -> Option<Self> {
        plugin.kinds.run_middleware.is_some().then(|| Self { plugin: Arc::clone(plugin) })
    }

    /// Returns `true` if the middleware looks at tasks alone.
    fn is_before_only(&self) -> bool {
        self.plugin.package().manifest.before_only
    }

    fn kind(&self) -> Result<&RunMiddlewareFunctions, Fault> {
        self.plugin.kinds.run_middleware.as_ref().ok_or_else(|| Fault::other("the plugin has no middleware"))
    }
}

#[async_trait]
impl RunMiddleware for PluginRunMiddleware {
    fn name(&self) -> &str {
        self.plugin.id()
    }

    fn may_replace(&self) -> bool {
        !self.is_before_only()
    }

    fn on_failure(&self) -> OnFailure {
        self.plugin.on_failure
    }

    async fn before(&self, cx: &RunCx, input: &[Message]) -> Result<BeforeRunDecision, Fault> {
        let kind = self.kind()?;
        let (context, wit_input) = (run_context(cx), input.iter().map(convert::message_to_wit).collect::<Vec<_>>());
        let setup = CallSetup {
            function: CalledFunction::RunMiddlewareBefore,
            time: self.plugin.limits().step_time,
            lane: Lane::Step,
            input: wit_input.bytes(),
        };
        let decision = self.plugin.executor.call(
            cx,
            setup,
            |_| {},
            async |store, instance| kind.before(store, instance, &context, &wit_input).await,
        );
        let decision = decision.await?;
        let seen = GuestMediaIndex::in_messages(input);
        Ok(match decision {
            wit::BeforeDecision::Proceed(pass) => BeforeRunDecision::Proceed {
                input: pass
                    .input
                    .map(|input| input.into_iter().map(|message| plain_message(message, &seen)).collect())
                    .transpose()?,
                state: pass.state,
            },
            wit::BeforeDecision::Answer(message) => BeforeRunDecision::Answer(plain_message(message, &seen)?),
            wit::BeforeDecision::Reject(error) => BeforeRunDecision::Reject(convert::fault(error)),
        })
    }

    async fn after(&self, cx: &RunCx, outcome: &RunOutcome, state: Vec<u8>) -> Result<AfterRunDecision, Fault> {
        if self.is_before_only() {
            return Ok(AfterRunDecision::Accept);
        }
        let kind = self.kind()?;
        let context = run_context(cx);
        let wit_outcome = wit::Outcome {
            reply: outcome.reply.as_ref().map(convert::message_to_wit).map_err(convert::fault_to_wit),
            usage: convert::usage_to_wit(outcome.usage),
            attempt: outcome.attempt,
        };
        let setup = CallSetup {
            function: CalledFunction::RunMiddlewareAfter,
            time: self.plugin.limits().step_time,
            lane: Lane::Step,
            input: wit_outcome.bytes() + state.len(),
        };
        let decision = self.plugin.executor.call(
            cx,
            setup,
            |_| {},
            async |store, instance| kind.after(store, instance, &context, &wit_outcome, &state).await,
        );
        let decision = decision.await?;
        let seen = outcome
            .reply
            .as_ref()
            .map_or_else(|_| GuestMediaIndex::none(), |reply| GuestMediaIndex::in_parts(&reply.parts));
        Ok(match decision {
            wit::AfterDecision::Accept => AfterRunDecision::Accept,
            wit::AfterDecision::Replace(message) => AfterRunDecision::Replace(plain_message(message, &seen)?),
            wit::AfterDecision::Reject(error) => AfterRunDecision::Reject(convert::fault(error)),
            wit::AfterDecision::Retry(again) => AfterRunDecision::Retry {
                feedback: again.feedback.map(|text| convert::bounded(text, limits::NOTE_BYTES)),
                delay: Duration::from_millis(again.delay_ms),
                state: again.state,
            },
        })
    }
}

/// Converts a message; refuses one with tool calls or tool results.
fn plain_message(message: types::Message, seen: &GuestMediaIndex<'_>) -> Result<Message, Fault> {
    let message = convert::message(message, seen)?;
    if message.is_paired() {
        return Err(Fault::other("the message of a middleware must not have tool calls or results"));
    }
    Ok(message)
}
