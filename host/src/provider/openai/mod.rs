//! The Chat Completions API of OpenAI, and of everyone who speaks it: Grok, Ollama, llama.cpp, vLLM, LM Studio, ….

pub(crate) mod reply;
mod request;
#[cfg(test)]
mod tests;

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    error::Fault,
    event::RunCx,
    limits,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo, Price},
    net::{HttpClient, Request, Secret, endpoint, origin},
};

/// How to reach a model.
#[derive(Debug, Clone)]
pub struct OpenAiConfig {
    /// Its name in the config.
    pub name: String,
    /// Where the API begins, such as `https://api.openai.com/v1` or `http://localhost:11434/v1`.
    pub base_url: String,
    /// The vendor's name for it.
    pub model: String,
    /// The key; local servers need none.
    pub key: Option<Secret>,
    /// Tokens that it can take, if that is known.
    pub context_window: Option<u64>,
    /// The longest reply in tokens where a request names none.
    pub max_tokens: Option<u32>,
    /// The temperature where a request names none.
    pub temperature: Option<f32>,
    /// How the longest reply is named; none: as the host of `base_url` wants it.
    pub max_tokens_field: Option<MaxTokensField>,
    /// What it costs, if that is known.
    pub price: Option<Price>,
}

/// The name of the field with the longest reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokensField {
    /// `max_tokens`: what nearly all servers know.
    MaxTokens,
    /// `max_completion_tokens`: what newer models of OpenAI insist on.
    MaxCompletionTokens,
}

impl MaxTokensField {
    fn of(url: &Url) -> Self {
        if url.host_str() == Some("api.openai.com") { Self::MaxCompletionTokens } else { Self::MaxTokens }
    }
}

/// A model behind a Chat Completions API.
pub struct OpenAi {
    client: HttpClient,
    info: ModelInfo,
    request: Request,
    origin: String,
    defaults: request::Defaults,
}

impl OpenAi {
    /// A model; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the base URL is none.
    pub fn new(client: HttpClient, config: OpenAiConfig) -> Result<Self, Fault> {
        let url = endpoint(&config.base_url, &["chat", "completions"])?;
        let defaults = request::Defaults {
            max_tokens: config.max_tokens,
            temperature: config.temperature,
            max_tokens_field: config.max_tokens_field.unwrap_or_else(|| MaxTokensField::of(&url)),
        };
        let info = ModelInfo {
            name: config.name,
            model: config.model,
            context_window: config.context_window,
            price: config.price,
        };
        let origin = origin(&url);
        let request = Request { key: config.key, ..Request::new(url) };
        Ok(Self { client, info, request, origin, defaults })
    }
}

#[async_trait]
impl Completer for OpenAi {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    async fn complete(&self, _: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let body = request::body(&self.info.model, &self.defaults, request)?;
        let reply = self.client.post(&self.request, body).await?;
        let source = reply::Source { origin: &self.origin, model: &self.info.model, key: self.request.key.as_ref() };
        reply::read(reply.into_stream(), &source, sink).await
    }
}

/// The models that a server offers, as it names them. Asks once and waits for at most `time`.
///
/// # Errors
///
/// [`Fault::Unavailable`] if nobody answers there, and whatever else the server's answer means.
pub async fn list_models(
    client: &HttpClient,
    base_url: &str,
    key: Option<Secret>,
    time: Duration,
) -> Result<Vec<String>, Fault> {
    #[derive(Deserialize)]
    struct List {
        data: Option<Vec<Model>>,
    }
    #[derive(Deserialize)]
    struct Model {
        id: String,
    }
    let url = endpoint(base_url, &["models"])?;
    let origin = origin(&url);
    let request = Request { key, retries: 0, total: time, idle: time, ..Request::new(url) };
    let body = client.get(&request).await?.read(limits::STREAM_EVENT_BYTES).await?;
    let list: List = serde_json::from_slice(&body)
        .map_err(|_| Fault::other(format!("{origin} answered with something that is no list of models")))?;
    Ok(list.data.unwrap_or_default().into_iter().map(|model| model.id).collect())
}
