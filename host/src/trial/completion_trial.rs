use std::{sync::Arc, time::Instant};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{
    fixture::{CompletionFixture, FaultFixture, RequestFixture, RunFixture},
    record::{TrialRecord, TrialWatcher, recorded},
    step_outcome::not_of_kind,
};
use crate::{
    chat::Part,
    error::{Fault, Report},
    event::{Event, RunCx},
    model::{Completer, Completion, CompletionRequest, ContextWindow, DeltaSink, DeltaTarget, ModelInfo, ReplyDelta},
    net::Retries,
    plugin::{Plugin, PluginKind, PluginModel},
};

/// The outcome of one request to a provider.
#[derive(Debug)]
pub struct CompletionTrial {
    /// The whole reply, or the failure.
    pub reply: Result<Completion, Fault>,
    /// The log, the figures and the pieces of the reply.
    pub record: TrialRecord,
}

impl CompletionTrial {
    /// Returns the outcome as JSON: `reply`, `error`, `chunks`, and the record.
    pub fn to_json(&self) -> Value {
        let mut json = json!(self.record);
        json["reply"] = json!(self.reply.as_ref().ok().map(CompletionFixture::from));
        json["error"] = json!(self.reply.as_ref().err().map(FaultFixture::from));
        json["chunks"] = json!(self.record.chunks);
        json["more_chunks"] = json!(self.record.more_chunks);
        json
    }
}

/// Sends one request to a provider plugin. A failed request is not repeated. `watch` gets the pieces of the reply as they come.
///
/// # Errors
///
/// A [`Report`] if the request cannot be used, or the plugin is no provider. A failure of the plugin is part of the outcome.
pub async fn complete(
    plugin: &Arc<Plugin>,
    request: RequestFixture,
    watch: &mut TrialWatcher<'_>,
) -> Result<CompletionTrial, Report> {
    let model = request.model.clone().unwrap_or_else(|| plugin.id().to_owned());
    let info = ModelInfo {
        name: plugin.id().to_owned(),
        model,
        context_window: ContextWindow::default(),
        price: None,
        retries: Some(0),
    };
    let provider =
        PluginModel::new(plugin, info, None, None).ok_or_else(|| not_of_kind(plugin, PluginKind::Provider))?;
    let provider = provider.with_retries(Retries::NONE);
    let request = request.request()?;
    let work = async |cx: RunCx| watched(&provider, &cx, &request).await;
    let (reply, record) = recorded(&RunFixture::default(), watch, work).await;
    Ok(CompletionTrial { reply, record })
}

/// Sends the request, with the events of a request of an agent.
async fn watched(provider: &PluginModel, cx: &RunCx, request: &CompletionRequest) -> Result<Completion, Fault> {
    let (agent, model, started) = (|| Arc::clone(&cx.agent), provider.info().model.clone(), Instant::now());
    let sink = DeltaSink::new(Arc::new(DeltaEvents { cx: cx.clone() }));
    let reply = provider.complete(cx, request, &sink).await;
    let event = match &reply {
        Ok(reply) => Event::ModelFinished {
            agent: agent(),
            iteration: 0,
            model,
            stop: reply.stop.clone(),
            calls: reply.parts.iter().filter(|part| matches!(part, Part::ToolCall(_))).count(),
            usage: reply.usage,
            duration: started.elapsed(),
        },
        Err(fault) => Event::ModelFailed { agent: agent(), model, reason: fault.to_string(), again: false },
    };
    cx.events.emit(event).await;
    reply
}

/// Emits the pieces of a reply as events.
struct DeltaEvents {
    cx: RunCx,
}

#[async_trait]
impl DeltaTarget for DeltaEvents {
    async fn take(&self, delta: ReplyDelta) {
        self.cx.events.emit(Event::ModelDelta { agent: Arc::clone(&self.cx.agent), delta }).await;
    }
}
