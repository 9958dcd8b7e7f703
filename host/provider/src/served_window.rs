//! The context window that a local model server reports for its model. Each kind of server reports it in its own way.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use async_trait::async_trait;
use serde_json::Value;
use url::Url;

use super::{AdapterConfig, Vendor};
use shelly_core::{
    error::Fault,
    event::RunCx,
    limits,
    model::{Completer, Completion, CompletionRequest, DeltaSink, ModelInfo},
};
use shelly_net::{HttpClient, HttpRequest, Retries, endpoint};

/// The context window that a server reports for a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedWindow {
    /// The size of the window in tokens.
    pub tokens: u64,
    /// `true` if the model runs with this window. Otherwise the model is not loaded yet, and may get a smaller one.
    pub is_settled: bool,
}

/// Queries a local model server for the context window of a model.
#[derive(Clone)]
pub struct WindowProbe {
    client: HttpClient,
    vendor: Vendor,
    config: AdapterConfig,
}

impl WindowProbe {
    /// Creates a probe for the server and model of `config`. Returns `None` for vendors whose servers do not report a
    /// window.
    pub fn new(client: &HttpClient, vendor: Vendor, config: &AdapterConfig) -> Option<Self> {
        let says = matches!(vendor, Vendor::Ollama | Vendor::Llamacpp | Vendor::Vllm | Vendor::Lmstudio);
        says.then(|| Self { client: client.clone(), vendor, config: config.clone() })
    }

    /// Queries the server. Returns `None` if it does not respond or reports no window. Waits for at most
    /// [`limits::DISCOVERY_TIME`] for each response.
    pub async fn ask(&self) -> Option<ServedWindow> {
        let settled = |tokens: &Value| tokens.as_u64().map(|tokens| ServedWindow { tokens, is_settled: true });
        let window = match self.vendor {
            Vendor::Ollama => self.ask_ollama().await,
            Vendor::Llamacpp => settled(&self.get(&["props"]).await?["default_generation_settings"]["n_ctx"]),
            Vendor::Vllm => {
                let models = self.vendor.list_models(&self.client, &self.config, limits::DISCOVERY_TIME).await.ok()?;
                let model = models.into_iter().find(|model| model.id == self.config.model)?;
                model.context_window.map(|tokens| ServedWindow { tokens, is_settled: true })
            }
            Vendor::Lmstudio => {
                let path: Vec<_> = ["api", "v0", "models"].into_iter().chain(self.config.model.split('/')).collect();
                let model = self.get(&path).await?;
                let most = model["max_context_length"].as_u64();
                let most = most.map(|tokens| ServedWindow { tokens, is_settled: false });
                settled(&model["loaded_context_length"]).or(most)
            }
            _ => None,
        };
        window.filter(|window| window.tokens > 0)
    }

    /// Queries Ollama: a loaded model reports its actual window; for other models, Ollama reports the configured window or
    /// the maximum.
    async fn ask_ollama(&self) -> Option<ServedWindow> {
        let name = |name: &str| if name.contains(':') { name.to_owned() } else { format!("{name}:latest") };
        let wanted = name(&self.config.model);
        let loaded = self.get(&["api", "ps"]).await.unwrap_or_default();
        let is_it = |model: &&Value| model["model"].as_str().is_some_and(|model| name(model) == wanted);
        let mut loaded = loaded["models"].as_array().into_iter().flatten();
        if let Some(tokens) = loaded.find(is_it).and_then(|model| model["context_length"].as_u64()) {
            return Some(ServedWindow { tokens, is_settled: true });
        }
        let asked = serde_json::json!({ "model": self.config.model }).to_string();
        let request = self.request(&["api", "show"])?;
        let shown = read(self.client.post(&request, asked.into_bytes()).await).await?;
        let set = shown["parameters"].as_str().into_iter().flat_map(str::lines).find_map(|line| {
            let (name, value) = line.split_once(char::is_whitespace)?;
            value.trim().parse().ok().filter(|_| name == "num_ctx")
        });
        let most = shown["model_info"].as_object().into_iter().flatten();
        let most = most.filter(|(name, _)| name.ends_with(".context_length")).find_map(|(_, value)| value.as_u64());
        let set = set.map(|tokens| ServedWindow { tokens, is_settled: true });
        set.or(most.map(|tokens| ServedWindow { tokens, is_settled: false }))
    }

    async fn get(&self, path: &[&str]) -> Option<Value> {
        read(self.client.get(&self.request(path)?).await).await
    }

    /// Builds a request for an address outside the API that the base URL names.
    fn request(&self, path: &[&str]) -> Option<HttpRequest> {
        let base = self.config.base_url.trim_end_matches('/');
        let url: Url = endpoint(base.strip_suffix("/v1").unwrap_or(base), path).ok()?;
        let (auth, headers, time) = (self.config.auth.clone(), self.config.headers.clone(), limits::DISCOVERY_TIME);
        Some(HttpRequest { auth, headers, retries: Retries::NONE, total: time, idle: time, ..HttpRequest::new(url) })
    }
}

async fn read(reply: Result<shelly_net::SuccessResponse, Fault>) -> Option<Value> {
    let bytes = reply.ok()?.read(limits::STREAM_EVENT_BYTES).await.ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Wraps a model whose window is only known once its server has loaded it: queries the server again after the first reply.
pub struct ProbedModel {
    model: Arc<dyn Completer>,
    probe: WindowProbe,
    is_asked: AtomicBool,
}

impl ProbedModel {
    /// Wraps a model with a probe of its server.
    pub fn new(model: Arc<dyn Completer>, probe: WindowProbe) -> Self {
        Self { model, probe, is_asked: AtomicBool::new(false) }
    }
}

#[async_trait]
impl Completer for ProbedModel {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    async fn complete(&self, cx: &RunCx, request: &CompletionRequest, sink: &DeltaSink) -> Result<Completion, Fault> {
        let reply = self.model.complete(cx, request, sink).await;
        if reply.is_ok()
            && !self.is_asked.swap(true, Ordering::Relaxed)
            && let Some(window) = self.probe.ask().await
            // The maximum says less than a refusal may have taught in the meantime.
            && window.is_settled
        {
            self.info().context_window.set(Some(window.tokens));
        }
        reply
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WireOptions;
    use shelly_core::chat::{Chat, Message};
    use shelly_test_support::{CannedResponse, TestServer, answer};

    const NOTHING: &str = "{}";

    fn probe(vendor: Vendor, server: &TestServer, model: &str) -> WindowProbe {
        let config = AdapterConfig::new(format!("{}/v1", server.url), model);
        WindowProbe::new(&HttpClient::new().unwrap(), vendor, &config).unwrap()
    }

    fn ok(bodies: &[&str]) -> Vec<CannedResponse> {
        bodies.iter().map(|body| answer("200 OK", "", body)).collect()
    }

    #[tokio::test]
    async fn window_is_read_from_each_kind_of_server() {
        let settled = |tokens| Some(ServedWindow { tokens, is_settled: true });
        let most = |tokens| Some(ServedWindow { tokens, is_settled: false });
        let loaded =
            r#"{"models":[{"model":"other:1b","context_length":7},{"model":"m:latest","context_length":4096}]}"#;
        let other = r#"{"models":[{"model":"m:1b","context_length":7}]}"#;
        let shown = r#"{"model_info":{"general.architecture":"q","q.context_length":40960}}"#;
        let set = r#"{"parameters":"stop \"x\"\nnum_ctx    16384","model_info":{"q.context_length":40960}}"#;
        let ps_show = ["GET /api/ps HTTP/1.1", "POST /api/show HTTP/1.1"];
        let list = r#"{"data":[{"id":"n","max_model_len":1},{"id":"m","max_model_len":8192}]}"#;
        let props = r#"{"default_generation_settings":{"n_ctx":2048}}"#;
        let jit = r#"{"id":"m","state":"not-loaded","max_context_length":32768}"#;
        let there = r#"{"id":"m","state":"loaded","max_context_length":32768,"loaded_context_length":4096}"#;
        for (vendor, bodies, lines, window) in [
            (Vendor::Ollama, &[loaded][..], &ps_show[..1], settled(4_096)),
            (Vendor::Ollama, &[other, shown], &ps_show, most(40_960)),
            (Vendor::Ollama, &["no", set], &ps_show, settled(16_384)),
            (Vendor::Ollama, &[NOTHING, NOTHING], &ps_show, None),
            (Vendor::Llamacpp, &[props], &["GET /props HTTP/1.1"], settled(2_048)),
            (Vendor::Llamacpp, &[NOTHING], &["GET /props HTTP/1.1"], None),
            (Vendor::Vllm, &[list], &["GET /v1/models HTTP/1.1"], settled(8_192)),
            (Vendor::Lmstudio, &[jit], &["GET /api/v0/models/m HTTP/1.1"], most(32_768)),
            (Vendor::Lmstudio, &[there], &["GET /api/v0/models/m HTTP/1.1"], settled(4_096)),
        ] {
            let server = TestServer::start(ok(bodies)).await;
            assert_eq!(probe(vendor, &server, "m").ask().await, window, "{vendor:?} {bodies:?}");
            let sent = server.requests();
            let sent: Vec<_> = sent.iter().map(|request| request.lines().next().unwrap()).collect();
            assert_eq!(sent, lines, "{vendor:?}");
        }
        assert!(
            WindowProbe::new(&HttpClient::new().unwrap(), Vendor::Openai, &AdapterConfig::new("http://a", "m"))
                .is_none()
        );
    }

    #[tokio::test]
    async fn unloaded_model_is_probed_after_first_reply() {
        let reply = r#"{"choices":[{"message":{"content":"Hi"},"finish_reason":"stop"}]}"#;
        let loaded = r#"{"models":[{"model":"m:latest","context_length":4096}]}"#;
        let server = TestServer::start(ok(&[reply, loaded, reply])).await;
        let config =
            AdapterConfig { context_window: Some(40_960), ..AdapterConfig::new(format!("{}/v1", server.url), "m") };
        let client = HttpClient::new().unwrap();
        let model = Vendor::Ollama.completer(client, config, WireOptions::default()).unwrap();
        let model = ProbedModel::new(model, probe(Vendor::Ollama, &server, "m"));
        let chat = Chat::new();
        chat.append(Message::user("Hi")).unwrap();
        let request = CompletionRequest::new(chat.snapshot(), Arc::new([]));
        for _ in 0..2 {
            model.complete(&RunCx::new("a"), &request, &DeltaSink::none()).await.unwrap();
            assert_eq!(model.info().context_window.tokens(), Some(4_096));
        }
        assert_eq!(server.requests().len(), 3, "it is asked once");
    }
}
