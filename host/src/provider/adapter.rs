use std::{sync::Arc, time::Duration};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::Url;

use super::incoming_reply::ReplySource;
use crate::{
    error::Fault,
    limits,
    model::{CompletionRequest, ModelInfo, Price, ProviderRateLimiter, shorter},
    net::{
        AuthHeader, HttpClient, HttpRequest, Retries, RetryObserver, Secret, SuccessResponse, WebSocket, endpoint,
        header_name, origin,
    },
};

/// How a model is reached, whatever its server speaks.
#[derive(Debug, Clone)]
pub struct AdapterConfig {
    /// Its name in the config.
    pub name: String,
    /// Where the API begins, such as `https://api.openai.com/v1` or `http://localhost:11434/v1`.
    pub base_url: String,
    /// The vendor's name for it.
    pub model: String,
    /// The credential; local servers need none.
    pub auth: Option<AuthHeader>,
    /// Headers beside those that the API wants.
    pub headers: Vec<(String, Secret)>,
    /// Fields of each request beside those that the host writes.
    pub body: Map<String, Value>,
    /// Tokens that it can take, if that is known.
    pub context_window: Option<u64>,
    /// The longest reply in tokens where a request names none.
    pub max_tokens: Option<u32>,
    /// The temperature where a request names none.
    pub temperature: Option<f32>,
    /// What it costs, if that is known.
    pub price: Option<Price>,
    /// Attempts after the first, for failures that may pass.
    pub retries: usize,
    /// From the first attempt to the end of the reply.
    pub total: Duration,
    /// The longest silence in the middle of a reply.
    pub idle: Duration,
    /// The limit that it is asked within, which pauses where the server says that nothing is left; none: there is none.
    pub limit: Option<Arc<ProviderRateLimiter>>,
}

impl AdapterConfig {
    /// A model at an address, with what the house bounds everything else to.
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

    /// Adds headers, but for those that are there already.
    pub fn add_headers(&mut self, headers: &[(&str, &str)]) {
        for (name, value) in headers {
            if !self.headers.iter().any(|(there, _)| there.eq_ignore_ascii_case(name)) {
                self.headers.push(((*name).into(), Secret::new(value)));
            }
        }
    }
}

/// What every model behind an HTTP API has: a name, an address, a credential, headers, bounds, the client. A completer holds
/// one and adds what its vendor's wire is like.
pub struct ModelAdapter {
    client: HttpClient,
    info: ModelInfo,
    config: AdapterConfig,
    origin: String,
    /// What nothing that the server says may show.
    secrets: Vec<Secret>,
}

impl ModelAdapter {
    /// Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the base URL is none, or a header cannot be sent.
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

    /// Which model it is.
    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// The vendor's name for it.
    pub fn model(&self) -> &str {
        &self.info.model
    }

    /// The longest reply to a request in tokens, where it or the config bounds it.
    pub fn max_tokens(&self, request: &CompletionRequest) -> Option<u32> {
        shorter(request.max_output_tokens, self.config.max_tokens)
    }

    /// The temperature of a request, where it or the config names one.
    pub fn temperature(&self, request: &CompletionRequest) -> Option<f32> {
        request.temperature.or(self.config.temperature).filter(|value| value.is_finite())
    }

    /// What the config has under this name for the body of each request.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.config.body.get(name)
    }

    /// The address below the base URL.
    ///
    /// # Errors
    ///
    /// None in practice: the base URL was looked at.
    pub fn url(&self, path: &[&str]) -> Result<Url, Fault> {
        endpoint(&self.config.base_url, path)
    }

    /// Who answers, for messages.
    pub fn source(&self) -> ReplySource<'_> {
        ReplySource { origin: &self.origin, model: &self.info.model, secrets: &self.secrets }
    }

    /// Posts JSON, as [`ModelAdapter::json`] makes it.
    ///
    /// # Errors
    ///
    /// What the server's answer means, or why there is none.
    pub async fn post(&self, url: Url, json: Vec<u8>) -> Result<SuccessResponse, Fault> {
        let observer = RetryObserver::default();
        self.post_until(Instant::now() + self.config.total, self.config.retries, observer, url, json).await
    }

    /// The same with the reply's end by then, and with so many attempts after the first, of which `observer` is told.
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

    /// Posts JSON and reads the JSON that comes back.
    ///
    /// # Errors
    ///
    /// What the server's answer means, or why there is none.
    pub async fn post_json<T: DeserializeOwned>(&self, url: Url, body: &impl Serialize) -> Result<T, Fault> {
        self.read_json(self.post(url, self.json(body)?).await?).await
    }

    /// Reads all of a reply that is JSON.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if it is something else or cut off, [`Fault::TooLarge`] beyond [`limits::REPLY_BYTES`].
    pub(super) async fn read_json<T: DeserializeOwned>(&self, reply: SuccessResponse) -> Result<T, Fault> {
        let bytes = reply.read(limits::REPLY_BYTES).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.source().garbled(&error))
    }

    /// Opens a WebSocket with the credential, the headers and the bounds that requests have.
    ///
    /// # Errors
    ///
    /// What the server's answer means, or why there is none.
    pub async fn dial(&self, url: Url) -> Result<WebSocket, Fault> {
        self.client.dial(&self.request(url)).await
    }

    /// From the first attempt to the end of a reply.
    pub(super) fn total(&self) -> Duration {
        self.config.total
    }

    /// Time for which a stream may go on without moving the reply on.
    pub(super) fn idle_events_time(&self) -> Duration {
        self.config.idle.max(limits::STREAM_IDLE_EVENTS_TIME)
    }

    /// Attempts after the first, for failures that may pass.
    pub(super) fn retries(&self) -> usize {
        self.config.retries
    }

    /// What requests are sent with.
    pub(super) fn client(&self) -> &HttpClient {
        &self.client
    }

    /// A request with the credential, the headers and the bounds of the config.
    pub(super) fn request(&self, url: Url) -> HttpRequest {
        request(&self.config, url)
    }

    /// `body`, which is an object with fields, as JSON with the fields of the config beside its own.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if it cannot be written as JSON.
    pub fn json(&self, body: &impl Serialize) -> Result<Vec<u8>, Fault> {
        self.write(Vec::new(), body, &[])
    }

    /// As [`ModelAdapter::json`], for the body of a completion, without the fields of the config with these names: `body` has
    /// them already.
    ///
    /// # Errors
    ///
    /// As [`ModelAdapter::json`].
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
            // An object that has fields ends with one.
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

/// About as many bytes as a request has as JSON, so that a long one is not copied while it is written.
fn about_bytes(request: &CompletionRequest) -> usize {
    // Names of fields for each, and what has to be escaped.
    const OF_EACH: usize = 128;
    let tools: usize = request.tools.iter().map(|tool| tool.description.len() + tool.input_schema.get().len()).sum();
    let texts = request.messages.bytes() + tools;
    texts + texts / 8 + OF_EACH * (request.messages.len() + request.tools.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::test_server::{TestServer, answer};

    #[tokio::test]
    async fn a_socket_is_asked_for_with_the_credential_and_the_headers() {
        let server = TestServer::start(vec![answer("401 Unauthorized", "", "who are you?")]).await;
        let config = AdapterConfig {
            auth: Some(AuthHeader::header("x-own-key", Secret::new("sk-secret"))),
            headers: vec![("x-team".into(), Secret::new("birds"))],
            ..AdapterConfig::new(&server.url, "m")
        };
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config).unwrap();
        let fault = adapter.dial(adapter.url(&["realtime"]).unwrap()).await.err().unwrap();
        assert!(matches!(fault, Fault::Denied { .. }), "{fault:?}");
        let sent = server.requests()[0].to_lowercase();
        assert!(sent.starts_with("get /realtime http/1.1\r\n"), "{sent}");
        for line in ["upgrade: websocket\r\n", "x-own-key: sk-secret\r\n", "x-team: birds\r\n"] {
            assert!(sent.contains(line), "{line}{sent}");
        }
    }
}
