use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::Instant;

use crate::{
    error::Fault,
    event::RunCx,
    model::{self, Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
    net::{Failed, Retries},
    plugin::{
        bindings::types,
        convert::{self, Attached, Weigh},
        imports::Attachments,
        loader::Plugin,
        runtime::{CallSetup, Lane},
    },
};

/// A model behind the provider of a plugin. A call that fails in a way that may pass, before anything of a reply was handed
/// on, is made again.
pub struct PluginModel {
    plugin: Arc<Plugin>,
    info: ModelInfo,
    max_tokens: Option<u32>,
    temperature: Option<f32>,
    retries: Retries,
}

impl PluginModel {
    /// The model `info.model` of a plugin; none if the plugin is no provider. `max_tokens` and `temperature` hold where a
    /// request names none.
    pub fn new(
        plugin: &Arc<Plugin>,
        info: ModelInfo,
        max_tokens: Option<u32>,
        temperature: Option<f32>,
    ) -> Option<Self> {
        let retries = Retries::HOUSE;
        plugin.kinds.provider.is_some().then(|| Self {
            plugin: Arc::clone(plugin),
            info,
            max_tokens,
            temperature,
            retries,
        })
    }

    /// The same with other retries.
    pub fn with_retries(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    async fn attempt(
        &self,
        cx: &RunCx,
        request: &CompletionRequest,
        asked: &types::Request,
        sink: DeltaSink,
    ) -> Result<Completion, Fault> {
        let Some(kind) = &self.plugin.kinds.provider else { return Err(Fault::other("the plugin has no provider")) };
        let setup = CallSetup {
            function: "provider.complete",
            time: self.plugin.limits.completion_time,
            lane: Lane::Stream,
            input: asked.bytes(),
        };
        let completion = self.plugin.call(
            cx,
            setup,
            |state| {
                state.sink = sink;
                state.asker = self.plugin.asker(cx);
                state.attachments = Attachments::of(&request.messages);
            },
            async |store, instance| {
                kind.load(&mut *store, instance)?.call_complete(store, &self.info.model, asked).await
            },
        );
        let completion = completion.await?;
        convert::completion(completion, &Attached::in_chat(&request.messages))
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
        let deadline = Instant::now() + self.plugin.limits.completion_time;
        let attempt = || async {
            let (sink, seen) = sink.observed();
            let completion = self.attempt(cx, request, &asked, sink).await;
            completion.map_err(|fault| Failed { fault, again: !seen.is_set() })
        };
        self.retries.repeat(&self.plugin.id, deadline, attempt).await
    }
}
