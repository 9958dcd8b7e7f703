//! Models behind plugins, asked through the sandbox and over connections of their own.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use serde_json::{json, value::RawValue};
use shelly_host::{
    capability::{Grant, HttpGrant},
    chat::ToolSpec,
    limits,
    model::{Completer, CompletionRequest, ModelInfo},
    net::{AuthHeader, Retries, Secret, egress::Credential},
    plugin::{Limits, Plugin, PluginEngine, PluginModel, PluginPackage, PluginSettings},
};
use tokio::runtime::Runtime;

use super::{
    Heard, KEY, Setup, heard, question,
    server::{Answer, Sent, Server},
};

pub fn engine() -> &'static Arc<PluginEngine> {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    ENGINE.get_or_init(|| Arc::new(PluginEngine::new(Some(cache)).unwrap()))
}

/// A plugin that may ask this server, with the key.
pub fn settings(server: &str, limits: Limits) -> PluginSettings {
    let http = HttpGrant::entry(server, &["*".to_owned()], &[]).unwrap();
    let credential = Credential::new("key", &AuthHeader::bearer(Secret::new(KEY)), http.clone()).unwrap();
    PluginSettings {
        grant: Grant { http, credentials: ["key".to_owned()].into_iter().collect(), ..Grant::default() },
        params: RawValue::from_string(json!({"base_url": server}).to_string()).unwrap(),
        limits,
        credentials: vec![Arc::new(credential)],
        ..PluginSettings::new("providers.m", "providers.m")
    }
}

pub fn limits_of(setup: &Setup) -> Limits {
    Limits { completion_time: setup.total, ..Limits::default() }
}

/// The plugin `ollama`, which asks this server.
pub async fn ollama(server: &str, limits: Limits) -> Arc<Plugin> {
    let package = PluginPackage::read(&Path::new(crate::PLUGIN_ROOT).join("ollama")).unwrap();
    Arc::new(Plugin::load(engine(), &Arc::new(package), &settings(server, limits)).await.unwrap())
}

/// A model of a plugin.
pub fn model_of(plugin: &Arc<Plugin>, name: &str) -> PluginModel {
    let info = ModelInfo { model: name.into(), ..ModelInfo::named("m") };
    PluginModel::new(plugin, info, None, None).unwrap()
}

pub async fn model(setup: &Setup) -> Arc<dyn Completer> {
    let plugin = ollama(&setup.server, limits_of(setup)).await;
    Arc::new(model_of(&plugin, "m-1").with_retries(Retries::times(setup.retries)).with_idle(setup.idle))
}

/// Returns the request that is sent to a server that answers with this stream.
pub async fn sent(request: &CompletionRequest, answer: String) -> Sent {
    let server = Server::start(move |_, _| Answer::stream(answer.clone())).await;
    heard(&*model(&Setup::on(&server)).await, request).await.result.unwrap();
    server.seen().remove(0)
}

type Replies = Arc<Mutex<HashMap<String, Vec<Vec<u8>>>>>;

/// A server that says to each model what was put down for it, and the plugin that asks it: for many short replies.
struct Reader {
    plugin: Arc<Plugin>,
    replies: Replies,
    _server: Server,
    /// Tests have one each, and it ends with them.
    _runtime: Runtime,
}

impl Reader {
    fn start() -> Self {
        let (runtime, replies) = (Runtime::new().unwrap(), Replies::default());
        let put_down = replies.clone();
        let answer = move |_: usize, sent: &Sent| {
            let reply = put_down.lock().unwrap().remove(sent.body["model"].as_str().unwrap());
            Answer::pieces(&reply.expect("it is asked once"))
        };
        let (server, plugin) = runtime.block_on(async {
            let server = Server::start(answer).await;
            // More than a plugin sends in a minute where nobody says otherwise.
            let often = limits::EGRESS_REQUESTS_PER_MINUTE_CEILING;
            let plugin = ollama(&server.url, Limits { http_requests_per_minute: often, ..Limits::default() }).await;
            (server, plugin)
        });
        Self { plugin, replies, _server: server, _runtime: runtime }
    }
}

/// A reply that comes over a connection in these pieces.
pub async fn read(pieces: Vec<Vec<u8>>, tools: &[Arc<ToolSpec>]) -> Heard {
    static READER: OnceLock<Reader> = OnceLock::new();
    static READS: AtomicUsize = AtomicUsize::new(0);
    // A runtime cannot wait within another.
    let reader = READER.get_or_init(|| thread::spawn(Reader::start).join().unwrap());
    let name = format!("m-{}", READS.fetch_add(1, Ordering::Relaxed));
    reader.replies.lock().unwrap().insert(name.clone(), pieces);
    let request = CompletionRequest { tools: tools.into(), ..question("Hi") };
    heard(&model_of(&reader.plugin, &name).with_retries(Retries::NONE), &request).await
}
