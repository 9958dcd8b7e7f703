use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    error::Fault,
    event::RunCx,
    model::{self, Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
    plugin::{
        convert::{self, Attached, Weigh},
        loader::Plugin,
        runtime::{CallSetup, Lane},
    },
};

/// A model behind the provider of a plugin.
pub struct PluginModel {
    plugin: Arc<Plugin>,
    info: ModelInfo,
    max_tokens: Option<u32>,
    temperature: Option<f32>,
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
        plugin.kinds.provider.is_some().then(|| Self { plugin: Arc::clone(plugin), info, max_tokens, temperature })
    }
}

#[async_trait]
impl Completer for PluginModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let Some(kind) = &self.plugin.kinds.provider else { return Err(Fault::other("the plugin has no provider")) };
        let mut asked = convert::request_to_wit(request);
        asked.max_output_tokens = model::shorter(asked.max_output_tokens, self.max_tokens);
        asked.temperature = asked.temperature.or(self.temperature);
        let setup = CallSetup {
            function: "provider.complete",
            time: self.plugin.limits.completion_time,
            lane: Lane::Stream,
            input: asked.bytes(),
        };
        let completion = self.plugin.call(
            cx,
            setup,
            |state| state.sink = sink.clone(),
            async |store, instance| {
                kind.load(&mut *store, instance)?.call_complete(store, &self.info.model, &asked).await
            },
        );
        let completion = completion.await?;
        convert::completion(completion, &Attached::in_chat(&request.messages))
    }
}
