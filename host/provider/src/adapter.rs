use std::{sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::Url;

use super::incoming_reply::ReplySource;
use shelly_core::{
    error::Fault,
    limits,
    model::{CompletionRequest, ModelInfo, Price, ProviderRateLimiter, shorter},
};
use shelly_net::{
    AuthHeader, HttpClient, HttpRequest, Retries, RetryObserver, Secret, SuccessResponse, endpoint, header_name, origin,
};

/// The settings with which a model is reached, independent of its wire protocol.
#[derive(Debug, Clone)]
pub struct AdapterConfig {
    /// The model's name in the config.
    pub name: String,
    /// The base URL of the API, such as `https://api.openai.com/v1` or `http://localhost:11434/v1`.
    pub base_url: String,
    /// The vendor's name for the model.
    pub model: String,
    /// The credential; local servers need none.
    pub auth: Option<AuthHeader>,
    /// Headers in addition to those that the API needs.
    pub headers: Vec<(String, Secret)>,
    /// Fields of each request body in addition to those that the host writes.
    pub body: Map<String, Value>,
    /// The context window in tokens, if it is known.
    pub context_window: Option<u64>,
    /// The token limit of a reply if the request sets none.
    pub max_tokens: Option<u32>,
    /// The temperature if the request sets none.
    pub temperature: Option<f32>,
    /// The price of the model, if it is known.
    pub price: Option<Price>,
    /// The number of attempts after the first, for transient failures.
    pub retries: usize,
    /// The time limit from the first attempt to the end of the reply.
    pub total: Duration,
    /// The longest silence in the middle of a reply.
    pub idle: Duration,
    /// The provider's rate limiter, paused when the server reports that nothing is left of a limit; `None`: no limiter.
    pub limit: Option<Arc<ProviderRateLimiter>>,
}

impl AdapterConfig {
    /// Creates a config for a model at an address, with the default limits of the host.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            name: model.clone(),
            base_url: base_url.into(),
            model,
            auth: None,
            headers: Vec::new(),
            body: Map::new(),
            context_window: None,
            max_tokens: None,
            temperature: None,
            price: None,
            retries: limits::HTTP_RETRIES,
            total: limits::COMPLETION_TIME,
            idle: limits::STREAM_IDLE_TIME,
            limit: None,
        }
    }

    /// Adds headers, except those whose name is already present.
    pub fn add_headers(&mut self, headers: &[(&str, &str)]) {
        for (name, value) in headers {
            if !self.headers.iter().any(|(there, _)| there.eq_ignore_ascii_case(name)) {
                self.headers.push(((*name).into(), Secret::new(value)));
            }
        }
    }
}

/// The parts that all models behind an HTTP API share: name, address, credential, headers, limits and client. A completer
/// holds one and adds its vendor's wire protocol.
pub struct ModelAdapter {
    client: HttpClient,
    info: ModelInfo,
    config: AdapterConfig,
    origin: String,
    /// The secrets that are redacted from everything the server sends.
    secrets: Vec<Secret>,
}

impl ModelAdapter {
    /// Creates an adapter; sends nothing.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the base URL is not a URL, or a header cannot be sent.
    pub fn new(client: HttpClient, config: AdapterConfig) -> Result<Self, Fault> {
        let url = endpoint(&config.base_url, &[])?;
        let origin = origin(&url);
        let names = config.headers.iter().map(|(name, _)| name).chain(config.auth.as_ref().map(|auth| &auth.header));
        names.map(|name| header_name(name)).collect::<Result<Vec<_>, _>>()?;
        let info = ModelInfo {
            name: config.name.clone(),
            model: config.model.clone(),
            context_window: config.context_window.into(),
            price: config.price,
            retries: Some(config.retries),
        };
        let secrets = client.secrets(&request(&config, url));
        Ok(Self { client, info, config, origin, secrets })
    }

    /// Returns the description of the model.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Returns the vendor's name for the model.
    pub fn model(&self) -> &str {
        &self.info.model
    }

    /// Returns the token limit of the reply to a request: the lower of those of the request and the config, if any.
    pub fn max_tokens(&self, request: &CompletionRequest) -> Option<u32> {
        shorter(request.max_output_tokens, self.config.max_tokens)
    }

    /// Returns the temperature of a request: that of the request, else that of the config, if any.
    pub fn temperature(&self, request: &CompletionRequest) -> Option<f32> {
        request.temperature.or(self.config.temperature).filter(|value| value.is_finite())
    }

    /// Returns the field of this name that the config adds to each request body.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.config.body.get(name)
    }

    /// Returns the address below the base URL.
    ///
    /// # Errors
    ///
    /// None in practice: [`ModelAdapter::new`] checked the base URL.
    pub fn url(&self, path: &[&str]) -> Result<Url, Fault> {
        endpoint(&self.config.base_url, path)
    }

    /// Returns the origin, model and secrets for reading a reply and for messages about it.
    pub fn source(&self) -> ReplySource<'_> {
        ReplySource { origin: &self.origin, model: &self.info.model, secrets: &self.secrets }
    }

    /// Posts JSON made by [`ModelAdapter::json`].
    ///
    /// # Errors
    ///
    /// The fault that the server's response stands for, or the reason why there is no response.
    pub async fn post(&self, url: Url, json: Vec<u8>) -> Result<SuccessResponse, Fault> {
        let observer = RetryObserver::default();
        self.post_until(Instant::now() + self.config.total, self.config.retries, observer, url, json).await
    }

    /// Posts like [`ModelAdapter::post`], with the given deadline for the end of the reply and number of attempts after the
    /// first. `observer` is notified of them.
    pub(super) async fn post_until(
        &self,
        deadline: Instant,
        retries: usize,
        observer: RetryObserver,
        url: Url,
        json: Vec<u8>,
    ) -> Result<SuccessResponse, Fault> {
        let total = deadline.saturating_duration_since(Instant::now());
        let request = HttpRequest { total, retries: Retries::times(retries), observer, ..request(&self.config, url) };
        let reply = self.client.post(&request, json).await?;
        if let (Some(limit), Some(time)) = (&self.config.limit, reply.rate_limits().used_up()) {
            limit.pause(time);
        }
        Ok(reply)
    }

    /// Posts JSON and parses the JSON of the response.
    ///
    /// # Errors
    ///
    /// The fault that the server's response stands for, or the reason why there is no response.
    pub async fn post_json<T: DeserializeOwned>(&self, url: Url, body: &impl Serialize) -> Result<T, Fault> {
        self.read_json(self.post(url, self.json(body)?).await?).await
    }

    /// Reads a whole reply and parses it as JSON.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if the reply is not the expected JSON or is cut off, [`Fault::TooLarge`] beyond
    /// [`limits::REPLY_BYTES`].
    pub(super) async fn read_json<T: DeserializeOwned>(&self, reply: SuccessResponse) -> Result<T, Fault> {
        let bytes = reply.read(limits::REPLY_BYTES).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.source().garbled(&error))
    }

    /// Returns the time limit from the first attempt to the end of a reply.
    pub(super) fn total(&self) -> Duration {
        self.config.total
    }

    /// Returns the time for which events may arrive without any progress of the reply.
    pub(super) fn idle_events_time(&self) -> Duration {
        self.config.idle.max(limits::STREAM_IDLE_EVENTS_TIME)
    }

    /// Returns the number of attempts after the first, for transient failures.
    pub(super) fn retries(&self) -> usize {
        self.config.retries
    }

    /// Returns the client that sends the requests.
    pub(super) fn client(&self) -> &HttpClient {
        &self.client
    }

    /// Returns a request with the credential, headers and limits of the config.
    pub(super) fn request(&self, url: Url) -> HttpRequest {
        request(&self.config, url)
    }

    /// Serializes `body`, an object with at least one field, and adds the fields of the config.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if it cannot be written as JSON.
    pub fn json(&self, body: &impl Serialize) -> Result<Vec<u8>, Fault> {
        self.write(Vec::new(), body, &[])
    }

    /// Serializes the body of a completion like [`ModelAdapter::json`], without the fields of the config called `names`:
    /// `body` already contains them.
    ///
    /// # Errors
    ///
    /// The errors of [`ModelAdapter::json`].
    pub fn completion_json(
        &self,
        request: &CompletionRequest,
        body: &impl Serialize,
        names: &[&str],
    ) -> Result<Vec<u8>, Fault> {
        self.write(Vec::with_capacity(about_bytes(request)), body, names)
    }

    fn write(&self, mut json: Vec<u8>, body: &impl Serialize, names: &[&str]) -> Result<Vec<u8>, Fault> {
        let unwritable = |error| Fault::invalid(format!("the request cannot be written as JSON: {error}"));
        serde_json::to_writer(&mut json, body).map_err(unwritable)?;
        for (key, value) in self.config.body.iter().filter(|(key, _)| !names.contains(&key.as_str())) {
            // `body` is an object with fields, so its JSON ends with `}`, which the next field replaces.
            json.pop();
            json.push(b',');
            serde_json::to_writer(&mut json, key).map_err(unwritable)?;
            json.push(b':');
            serde_json::to_writer(&mut json, value).map_err(unwritable)?;
            json.push(b'}');
        }
        Ok(json)
    }
}

fn request(config: &AdapterConfig, url: Url) -> HttpRequest {
    let AdapterConfig { auth, headers, retries, total, idle, .. } = config;
    let (auth, headers, retries) = (auth.clone(), headers.clone(), Retries::times(*retries));
    HttpRequest { auth, headers, retries, total: *total, idle: *idle, ..HttpRequest::new(url) }
}

/// Estimates the size of a request as JSON in bytes, so that the buffer of a long one is not reallocated while it is
/// written.
fn about_bytes(request: &CompletionRequest) -> usize {
    // Allows for field names and escapes of each message and tool.
    const OF_EACH: usize = 128;
    let tools: usize = request.tools.iter().map(|tool| tool.description.len() + tool.input_schema.get().len()).sum();
    let texts = request.messages.bytes() + tools;
    texts + texts / 8 + OF_EACH * (request.messages.len() + request.tools.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shelly_test_support::{TestServer, answer};

    #[tokio::test]
    async fn request_carries_credential_and_headers() {
        let server = TestServer::start(vec![answer("401 Unauthorized", "", "who are you?")]).await;
        let config = AdapterConfig {
            auth: Some(AuthHeader::header("x-own-key", Secret::new("sk-secret"))),
            headers: vec![("x-team".into(), Secret::new("birds"))],
            ..AdapterConfig::new(&server.url, "m")
        };
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config).unwrap();
        let fault = adapter.post(adapter.url(&["chat"]).unwrap(), b"{}".to_vec()).await.err().unwrap();
        assert!(matches!(fault, Fault::Denied { .. }), "{fault:?}");
        let sent = server.requests()[0].to_lowercase();
        assert!(sent.starts_with("post /chat http/1.1\r\n"), "{sent}");
        for line in ["x-own-key: sk-secret\r\n", "x-team: birds\r\n"] {
            assert!(sent.contains(line), "{line}{sent}");
        }
    }
}
