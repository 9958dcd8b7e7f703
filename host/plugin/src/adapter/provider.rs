use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use async_trait::async_trait;
use tokio::time::Instant;

use crate::{
    bindings::types,
    convert::{self, GuestMediaIndex, GuestPayload},
    http_client::PluginHttpClient,
    loader::Plugin,
    metering::Lane,
    runtime::CallSetup,
    store::GuestAttachments,
};
use shelly_core::{
    error::Fault,
    event::{CalledFunction, Event, RunCx},
    limits,
    model::{self, Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
};
use shelly_net::{FailedAttempt, Retries, RetryObserver};

/// A model that is implemented by the provider of a plugin. A call that fails with a transient fault before any part of
/// a reply was passed on is retried, unless its server would be on this machine and nobody listens there.
pub struct PluginModel {
    plugin: Arc<Plugin>,
    info: ModelInfo,
    max_tokens: Option<u32>,
    temperature: Option<f32>,
    retries: Retries,
    idle: Duration,
}

impl PluginModel {
    /// Creates the model `info.model` of a plugin; `None` if the plugin is no provider. `max_tokens` bounds every
    /// request; `temperature` is the default for requests without one.
    pub fn new(
        plugin: &Arc<Plugin>,
        info: ModelInfo,
        max_tokens: Option<u32>,
        temperature: Option<f32>,
    ) -> Option<Self> {
        let (retries, idle) = (Retries::DEFAULT, limits::STREAM_IDLE_TIME);
        plugin.kinds.provider.is_some().then(|| Self {
            plugin: Arc::clone(plugin),
            info,
            max_tokens,
            temperature,
            retries,
            idle,
        })
    }

    /// Sets the retry policy.
    pub fn with_retries(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// Sets how long a server may be silent in the middle of a response; the default is [`limits::STREAM_IDLE_TIME`].
    pub fn with_idle(self, idle: Duration) -> Self {
        Self { idle, ..self }
    }

    async fn attempt(
        &self,
        cx: &RunCx,
        request: &CompletionRequest,
        asked: &types::Request,
        sink: DeltaSink,
        client: Option<PluginHttpClient>,
    ) -> Result<Completion, Fault> {
        let Some(kind) = &self.plugin.kinds.provider else { return Err(Fault::other("the plugin has no provider")) };
        let setup = CallSetup {
            function: CalledFunction::ProviderComplete,
            time: self.plugin.limits().completion_time,
            lane: Lane::Stream,
            input: asked.bytes(),
        };
        let completion = self.plugin.executor.call(
            cx,
            setup,
            |state| {
                state.sink = sink;
                state.http = client;
                state.attachments = GuestAttachments::of(&request.messages);
            },
            async |store, instance| kind.complete(store, instance, &self.info.model, asked).await,
        );
        let completion = completion.await?;
        convert::completion(completion, &GuestMediaIndex::in_chat(&request.messages))
    }

    /// Warns that the streamed pieces differ from the final reply, which is the one that counts.
    async fn tell_difference(&self, cx: &RunCx, what: &str) {
        let (agent, model, plugin) = (&cx.agent, &self.info.name, self.plugin.id());
        let message = format!(
            "the model `{}` of plugin `{}` streamed {what} to agent `{}` that its final reply does not have; using \
             the final reply",
            model.escape_debug(),
            plugin.escape_debug(),
            agent.escape_debug()
        );
        cx.events.emit(Event::Warning { message }).await;
    }
}

#[async_trait]
impl Completer for PluginModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let mut asked = convert::request_to_wit(request);
        asked.max_output_tokens = model::shorter(asked.max_output_tokens, self.max_tokens);
        asked.temperature = asked.temperature.or(self.temperature);
        let deadline = Instant::now() + self.plugin.limits().completion_time;
        let attempt = || async {
            let (sink, seen) = sink.observed();
            let (sink, shown) = sink.compared();
            let client = self.plugin.http_client(cx).map(|client| PluginHttpClient { idle: Some(self.idle), ..client });
            let nobody_listens = client.as_ref().map(|client| Arc::clone(&client.nobody_listens)).unwrap_or_default();
            let completion = self.attempt(cx, request, &asked, sink, client).await;
            if let Some(what) = completion.as_ref().ok().and_then(|reply| shown.differs_from(&reply.parts)) {
                self.tell_difference(cx, what).await;
            }
            let in_vain = || nobody_listens.load(Ordering::Relaxed);
            completion.map_err(|fault| FailedAttempt { fault, again: !seen.is_set() && !in_vain() })
        };
        let observer = RetryObserver::of_model(cx, &self.info.name);
        self.retries.repeat(self.plugin.id(), deadline, &observer, attempt).await
    }
}
