//! HTTP requests of guests through both interfaces, the host's own and `wasi:http`, with real guests, servers on loopback,
//! and the program itself.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use serde::Deserialize;
use serde_json::{Value, json};
use shelly_host::{
    capability::HttpGrant,
    chat::ToolCall,
    event::{Event, EventSink, EventStream, RunCx},
    plugin::{Plugin, PluginEngine, PluginError, PluginPackage, PluginSettings, PluginTool},
    tool::{ToolBox, ToolCx},
};

mod bodies;
mod credentials;
mod gone;
mod grants;
mod headers;
mod program;
mod redirects;
pub mod server;
mod targets;

use server::{Answer, Server};

/// The host's own interface, and the standard's.
const OWN: &str = "probe-http";
const WASI: &str = "probe-wasi-http";
const DOORS: [&str; 2] = [OWN, WASI];

fn engine() -> &'static Arc<PluginEngine> {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    ENGINE.get_or_init(|| Arc::new(PluginEngine::new(Some(cache)).unwrap()))
}

/// Returns the HTTP grant of these config entries, with every method.
fn http<S: AsRef<str>>(entries: &[S]) -> HttpGrant {
    entries.iter().fold(HttpGrant::default(), |all, url| {
        all.join(&HttpGrant::entry(url.as_ref(), &["*".to_owned()], &[]).unwrap())
    })
}

/// A guest that uses one of the two HTTP interfaces.
struct Guest {
    door: &'static str,
    tools: ToolBox,
}

impl Guest {
    /// Loads the guest for the agent `ada`, which grants it these requests.
    async fn granted<S: AsRef<str>>(door: &'static str, entries: &[S]) -> Self {
        Self::with(door, "ada", |settings| settings.grant.http = http(entries)).await
    }

    /// Loads the guest for this agent, with changed settings.
    async fn with(door: &'static str, agent: &str, give: impl FnOnce(&mut PluginSettings)) -> Self {
        let mut settings = PluginSettings::new(agent, format!("agents.{agent}.plugins.{door}"));
        give(&mut settings);
        let plugin = load(&guest(door), &settings).await.unwrap();
        let mut tools = ToolBox::new();
        PluginTool::all(&plugin).for_each(|tool| tools.register(tool).unwrap());
        Self { door, tools }
    }

    /// Calls a tool, and returns its result and the events of the call.
    async fn call(&self, name: &str, arguments: &Value) -> (String, Vec<Event>) {
        let (events, stream) = EventSink::channel();
        tokio::join!(self.call_in(RunCx::new("ada").with_events(events), name, arguments), all(stream))
    }

    /// Calls a tool in this run, and returns its result.
    async fn call_in(&self, run: RunCx, name: &str, arguments: &Value) -> String {
        let cx = ToolCx::new(run);
        let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
        self.tools.dispatch(&cx, &call).await.result.text()
    }

    async fn fetch(&self, arguments: Value) -> Fetched {
        let (said, events) = self.call("fetch", &arguments).await;
        let mut fetched: Fetched =
            serde_json::from_str(&said).unwrap_or_else(|_| panic!("{}, {arguments}: {said}", self.door));
        fetched.requests = events.iter().filter_map(Told::of).collect();
        fetched.events = format!("{events:?} {}", serde_json::to_string(&events).unwrap());
        fetched
    }

    async fn get(&self, url: &str) -> Fetched {
        self.fetch(json!({ "url": url })).await
    }
}

/// Returns all events, until every sender has been dropped.
async fn all(mut stream: EventStream) -> Vec<Event> {
    let mut told = Vec::new();
    while let Some(event) = stream.next_event().await {
        told.push(event);
    }
    told
}

/// The folder of a guest.
fn guest(door: &str) -> PathBuf {
    Path::new(crate::GUEST_ROOT).join(door)
}

async fn load(folder: &Path, settings: &PluginSettings) -> Result<Arc<Plugin>, String> {
    let package = PluginPackage::read(folder).unwrap();
    let loaded = Plugin::load(engine(), &Arc::new(package), settings).await;
    let told = |error: PluginError| {
        let report = error.report();
        [std::slice::from_ref(&report.message), &report.causes, report.hint.as_slice()].concat().join("\n")
    };
    loaded.map(Arc::new).map_err(told)
}

/// The outcome of a request, as the guest reports it.
#[derive(Debug, Deserialize)]
struct Fetched {
    status: Option<u16>,
    headers: Vec<(String, String)>,
    body: String,
    bytes: u64,
    error: Option<(String, String)>,
    found: Option<usize>,
    /// The events of the requests.
    #[serde(skip)]
    requests: Vec<Told>,
    /// All events, in full.
    #[serde(skip)]
    events: String,
}

impl Fetched {
    /// Returns `true` if the error is this one of the own interface or this one of `wasi:http`.
    fn is(&self, own: &str, wasi: &str) -> bool {
        self.error.as_ref().is_some_and(|(case, _)| case == own || case == wasi)
    }

    fn is_denied(&self) -> bool {
        self.is("Denied", "HttpRequestDenied")
    }

    /// Returns the guest's error message, or an empty text.
    fn why(&self) -> &str {
        self.error.as_ref().map_or("", |(_, why)| why)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| &**value)
    }

    /// Returns the event of the only request.
    fn told(&self) -> &Told {
        assert_eq!(self.requests.len(), 1, "{self:?}");
        &self.requests[0]
    }
}

/// The event of a request, as a listener receives it.
#[derive(Debug, Clone, PartialEq)]
struct Told {
    method: String,
    url: String,
    outcome: &'static str,
    status: Option<u16>,
    reason: String,
    credential: Option<String>,
    hops: u32,
}

impl Told {
    fn of(event: &Event) -> Option<Self> {
        let Event::PluginRequest { method, url, outcome, status, reason, credential, hops, .. } = event else {
            return None;
        };
        Some(Self {
            method: method.clone(),
            url: url.clone(),
            outcome: outcome.name(),
            status: *status,
            reason: reason.clone().unwrap_or_default(),
            credential: credential.clone(),
            hops: *hops,
        })
    }
}

/// Asserts that a guest fetches what it is granted, and nothing else.
pub async fn fetches(door: &'static str) {
    let server = Server::echo().await;
    let guest = Guest::granted(door, &[&server.url]).await;
    let fetched = guest.get(&format!("{}/x?y", server.url)).await;
    assert_eq!((fetched.status, fetched.told().outcome), (Some(200), "answered"), "{door}: {fetched:?}");
    assert!(fetched.body.starts_with("GET /x?y HTTP/1.1"), "{door}: {fetched:?}");
    let fetched = guest.get("http://169.254.169.254/").await;
    assert!(fetched.is_denied() && fetched.told().outcome == "refused", "{door}: {fetched:?}");
    for body in [json!({ "body": "x".repeat(20_000) }), json!({ "pieces": ["x".repeat(2_000), 10] })] {
        let mut arguments = json!({ "url": server.url, "method": "POST" });
        arguments.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        assert_eq!(guest.fetch(arguments).await.status, Some(200), "{door}");
        assert_eq!(server.last().body, [b'x'; 20_000], "{door}");
    }
}
