//! What guests send over HTTP, through both doors: the host's own interface and `wasi:http`.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
};

use serde_json::{Value, json};
use shelly_host::{
    capability::{Grant, Http},
    chat::{Snapshot, ToolCall},
    event::{Event, EventSink, RunCx},
    plugin::{Plugin, PluginEngine, PluginPackage, PluginTool, Settings},
    tool::{ToolBox, ToolCx},
};

mod server;

use server::Echo;

fn engine() -> &'static Arc<PluginEngine> {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    ENGINE.get_or_init(|| Arc::new(PluginEngine::new(Some(cache)).unwrap()))
}

/// The tools of a guest that is granted these requests.
async fn tools(door: &str, entries: &[&str]) -> ToolBox {
    let package = PluginPackage::read(&Path::new(crate::GUEST_ROOT).join(door)).unwrap();
    let http = entries.iter().fold(Http::default(), |all, url| all.join(&Http::entry(url, &[], &[]).unwrap()));
    let settings = Settings {
        grant: Grant { http, ..Grant::default() },
        ..Settings::new("ada", format!("agents.ada.plugins.{door}"))
    };
    let plugin = Arc::new(Plugin::load(engine(), &Arc::new(package), &settings).await.unwrap());
    let mut tools = ToolBox::new();
    PluginTool::all(&plugin).for_each(|tool| tools.register(tool).unwrap());
    tools
}

/// What a guest fetches, and what is told of that.
async fn fetch(tools: &ToolBox, arguments: Value) -> (Value, Vec<Event>) {
    let (events, mut told) = EventSink::channel();
    let mut stream = Vec::new();
    let run = RunCx::new("ada").with_events(events);
    let cx = ToolCx { run, chat: Snapshot::default(), tools: [].into(), begin: Default::default() };
    let call = ToolCall { id: "c".into(), name: "fetch".into(), arguments: arguments.to_string(), meta: vec![] };
    let text = tools.dispatch(&cx, &call).await.result.text();
    drop(cx);
    while let Some(event) = told.next().await {
        stream.push(event);
    }
    (serde_json::from_str(&text).unwrap_or_else(|_| json!({"failed": text})), stream)
}

/// A guest fetches what it is granted, and nothing else.
pub async fn fetches(door: &str) {
    {
        let server = Echo::start().await;
        let tools = tools(door, &[&server.url]).await;
        let (fetched, events) = fetch(&tools, json!({"url": format!("{}/x?y", server.url)})).await;
        assert_eq!(fetched["status"], 200, "{door}");
        assert!(fetched["body"].as_str().unwrap().starts_with("GET /x?y HTTP/1.1"), "{door}: {fetched}");
        assert!(
            events.iter().any(|event| matches!(event, Event::PluginRequest { outcome: "answered", .. })),
            "{door}: {events:?}"
        );
        let (fetched, events) = fetch(&tools, json!({"url": "http://169.254.169.254/"})).await;
        assert!(fetched["error"].is_array(), "{door}: {fetched}");
        assert!(
            events.iter().any(|event| matches!(event, Event::PluginRequest { outcome: "refused", .. })),
            "{door}: {events:?}"
        );
        let body = json!({"url": server.url, "method": "POST", "body": "x".repeat(20_000)});
        let (fetched, _) = fetch(&tools, body).await;
        assert_eq!(fetched["status"], 200, "{door}");
        let pieces = json!({"url": server.url, "method": "POST", "pieces": ["y".repeat(2_000), 10]});
        let (fetched, _) = fetch(&tools, pieces).await;
        assert_eq!(fetched["status"], 200, "{door}");
    }
}
