//! Sends one tiny real request to a model, to see whether it answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    assemble::{App, ResolvedModel, StartupNotices},
    capability::Usd,
    chat::{Chat, Message},
    config::ProviderKind,
    error::{Fault, Report},
    event::RunCx,
    kv::KvStores,
    limits,
    model::{Completion, CompletionRequest, DeltaSink},
    plugin::CompileStep,
};

/// The question; any answer will do.
const QUESTION: &str = "This is a test of the connection. Answer with the one word: ready";

/// The result of probing a model.
#[derive(Debug, Clone)]
pub struct ModelProbe {
    /// The model's name in the config, or the vendor's name if no config names it.
    pub name: String,
    /// The vendor's name for the model.
    pub model: String,
    /// The source of the model, for hints.
    pub source: String,
    /// The vendor, or `Plugin`.
    pub kind: ProviderKind,
    /// The context window in tokens, if it is known.
    pub context_window: Option<u64>,
    /// Notices about how the model was set up.
    pub warnings: Vec<String>,
    /// The answer and its cost, if that is known.
    pub answer: Result<(Completion, Option<Usd>), Fault>,
    /// The time from the question to the end of the answer.
    pub took: Duration,
}

impl App {
    /// Returns the names of the config's models, in order.
    pub fn model_names(&self) -> impl Iterator<Item = &str> {
        self.config.providers.iter().map(|provider| provider.name.as_str())
    }

    /// Asks a model one tiny question; `None` selects the model that a run would use.
    ///
    /// # Errors
    ///
    /// A [`Report`] if no request can be made: there is no such model, or a part of its config is missing.
    pub async fn probe(&self, name: Option<&str>) -> Result<ModelProbe, Report> {
        self.catalog.open(self.model_plugin(name), CompileStep::Compile).await;
        let mut notices = StartupNotices::default();
        let ResolvedModel { completer, source, kind } =
            self.make_model(name, &KvStores::default(), &mut notices).await?;
        let chat = Chat::new();
        chat.append(Message::user(QUESTION)).expect("it has no calls");
        let mut request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
        request.max_output_tokens = Some(limits::PROBE_TOKENS);
        let info = completer.info().clone();
        let started = Instant::now();
        let answer = completer.complete(&RunCx::new(info.name.as_str()), &request, &DeltaSink::none()).await;
        let took = started.elapsed();
        let priced = |completion: Completion| {
            let cost = info.price.map(|price| price.of(&completion.usage));
            (completion, cost)
        };
        let answer = answer.map(priced);
        let StartupNotices { notes, warnings } = notices;
        let warnings = notes.into_iter().chain(warnings).collect();
        // A local server may say it only once the model is loaded.
        let context_window = completer.info().context_window.tokens();
        let (name, model) = (info.name, info.model);
        Ok(ModelProbe { name, model, source, kind, context_window, warnings, answer, took })
    }
}
