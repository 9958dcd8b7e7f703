//! The MCP server against clients: our own over all transports, and hand-written ones that send anything.

mod hostile;
mod pipes;
mod web;
mod whole;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::{Value, json, value::to_raw_value};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::watch,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::{
    McpCatalog, McpPrompt, McpResource, McpResourceContent, McpResourceProvider, McpServer, McpServerSetup,
    McpToolCaller, ServedCallContext,
};
use crate::{ElicitationRequest, ElicitationResult, Elicitor, ServerRequestOrigin};
use shelly_core::{
    chat::{self, Media, MediaData, PropertyNames, ToolCall, ToolHints, ToolResult, ToolSpec},
    error::Fault,
    event::{Event, EventSink, EventStream, LogLevel, RunCx},
    limits,
};

/// Makes the calls of the tests.
#[derive(Default)]
struct Hands {
    /// The numbers of calls begun, of calls running at once, and of calls dropped before their end.
    begun: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
    dropped: AtomicUsize,
}

/// A running call; a drop before its end counts as dropped.
struct AtWork<'a>(&'a Hands, bool);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
        self.0.dropped.fetch_add(usize::from(!self.1), Ordering::SeqCst);
    }
}

#[async_trait]
impl McpToolCaller for Hands {
    async fn call(&self, making: ServedCallContext, call: ToolCall) -> ToolResult {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let mut work = AtWork(self, false);
        let text = |text: &str| vec![chat::ToolResultContent::Text(text.into())];
        let (content, is_error) = match &*call.name {
            "echo" => (text(&call.arguments), false),
            "fail" => (text("it went wrong"), true),
            "image" => {
                let source = MediaData::Bytes(b"\x89PNG"[..].into());
                let media = Media { media_type: "image/png".into(), name: None, source };
                (vec![chat::ToolResultContent::Text("look:".into()), chat::ToolResultContent::Media(media)], false)
            }
            "large" => (text(&"x".repeat(1 << 20)), false),
            "report" => {
                report(&making, &call).await;
                (text("done"), false)
            }
            "ask" => (text(&ask(&making).await), false),
            "hang" => std::future::pending().await,
            // Short enough for every timeout, and long enough for other calls to arrive.
            _ => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                (text("so"), false)
            }
        };
        work.1 = true;
        ToolResult { call_id: call.id, content, is_error }
    }
}

async fn report(making: &ServedCallContext, call: &ToolCall) {
    let agent: Arc<str> = "ada".into();
    for done in [0.0, 1.0, 2.0] {
        let (agent, call) = (Arc::clone(&agent), call.id.clone());
        let event = Event::ToolProgress { agent, call, done, total: Some(2.0), message: Some(format!("at {done}")) };
        making.events.emit(event).await;
    }
    for (level, message) in [(LogLevel::Debug, "low"), (LogLevel::Warn, "high")] {
        let (agent, plugin) = (Arc::clone(&agent), "p".into());
        making.events.emit(Event::PluginLog { agent, plugin, level, message: message.into() }).await;
    }
}

/// Asks the person; returns the answer as text.
async fn ask(making: &ServedCallContext) -> String {
    let Some(person) = &making.person else { return "nobody is there".into() };
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    let form = ElicitationRequest { message: "name?".into(), schema: to_raw_value(&schema).unwrap() };
    let asked = ServerRequestOrigin { server: "test".into(), run: RunCx::new("ada"), call: String::new() };
    match person.elicit(&asked, form).await {
        Ok(ElicitationResult::Accept(filled)) => filled.get("name").map_or("nothing".into(), Value::to_string),
        Ok(other) => format!("{other:?}"),
        Err(fault) => fault.to_string(),
    }
}

/// Provides two resources.
struct Texts;

#[async_trait]
impl McpResourceProvider for Texts {
    async fn list(&self, after: Option<String>) -> Result<(Vec<McpResource>, bool), Fault> {
        let one = |n: u32| McpResource {
            uri: format!("test://{n}"),
            name: format!("text {n}"),
            description: "a text".into(),
            size: 3,
        };
        match after.as_deref() {
            None => Ok((vec![one(1)], true)),
            Some("test://1") => Ok((vec![one(2)], false)),
            Some(_) => Err(Fault::invalid("invalid cursor")),
        }
    }

    async fn read(&self, uri: String) -> Result<Option<McpResourceContent>, Fault> {
        let content = |kind: &str, bytes: &'static [u8]| {
            Ok(Some(McpResourceContent { media_type: kind.into(), bytes: Bytes::from_static(bytes) }))
        };
        match &*uri {
            "test://1" => content("text/plain", b"one"),
            "test://2" => content("image/png", b"\x89PNG"),
            "test://broken" => Err(Fault::other("the disk is gone")),
            _ => Ok(None),
        }
    }

    fn template(&self) -> (&'static str, &'static str) {
        ("test://{n}", "a text")
    }
}

/// A server, with access to its state.
struct Bench {
    server: McpServer,
    hands: Arc<Hands>,
    shelf: watch::Sender<Arc<McpCatalog>>,
    untold: EventStream,
    stop: CancellationToken,
}

fn spec(name: &str) -> Arc<ToolSpec> {
    let input_schema = to_raw_value(&json!({"type": "object"})).unwrap().into();
    let hints = ToolHints { read_only: true, non_destructive: true, idempotent: true, closed_world: false };
    Arc::new(ToolSpec {
        name: name.into(),
        description: format!("The tool {name}."),
        input_schema,
        hints,
        property_names: PropertyNames::default(),
    })
}

fn shelf(tools: &[&str]) -> Arc<McpCatalog> {
    let prompt = McpPrompt { name: "flight".into(), description: "When to fly.".into(), text: "Flap.".into() };
    Arc::new(McpCatalog { tools: tools.iter().map(|name| spec(name)).collect(), prompts: [prompt].into() })
}

const TOOLS: [&str; 8] = ["echo", "fail", "image", "large", "report", "ask", "hang", "slow"];

impl Bench {
    fn new() -> Self {
        let (hands, shelf) = (Arc::<Hands>::default(), watch::Sender::new(shelf(&TOOLS)));
        let (events, untold) = EventSink::channel();
        let server = McpServer::new(McpServerSetup {
            name: "test".into(),
            instructions: "Be kind.".into(),
            shelf: shelf.subscribe(),
            caller: Arc::clone(&hands) as _,
            archive: Some(Arc::new(Texts)),
            events,
        });
        Self { server, hands, shelf, untold, stop: CancellationToken::new() }
    }

    /// Serves one end of a pipe as long as the handle lives. Returns the other end.
    fn pipe(&self) -> (DuplexStream, AbortOnDropHandle<()>) {
        let (here, there) = tokio::io::duplex(limits::MCP_PIPE_BYTES);
        let (read, write) = tokio::io::split(here);
        let (server, stop) = (self.server.clone(), self.stop.clone());
        (there, AbortOnDropHandle::new(tokio::spawn(async move { server.pipes(read, write, stop).await })))
    }

    fn client(&self) -> Client {
        let (pipe, served) = self.pipe();
        let (read, write) = tokio::io::split(pipe);
        Client { lines: BufReader::new(read).lines(), write, told: Vec::new(), served: Some(served), last: 0 }
    }

    async fn until_dropped(&self, count: usize) {
        until(|| self.hands.dropped.load(Ordering::SeqCst) == count).await;
    }
}

/// Waits until a condition holds.
async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it does not come about");
}

/// A client's end of a connection, line by line.
struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
    /// Received messages that were not awaited.
    told: Vec<Value>,
    served: Option<AbortOnDropHandle<()>>,
    last: u64,
}

impl Client {
    /// Sends these bytes; errors are ignored, since the server may have hung up.
    async fn say_raw(&mut self, bytes: &[u8]) {
        let _ = self.write.write_all(bytes).await;
    }

    async fn say(&mut self, message: Value) {
        self.say_raw(format!("{message}\n").as_bytes()).await;
    }

    /// Sends a request without waiting for the answer. Returns its id.
    async fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.say(json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params})).await;
        self.last
    }

    /// Returns the next message; `None` when the server has hung up.
    async fn next(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.ok()??;
        Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("no message: {line}")))
    }

    /// Returns the answer to a request.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await.expect("it has hung up");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.told.push(message);
        }
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// Sends a request that names the newest revision, and waits for the answer.
    async fn ask_stateless(&mut self, method: &str, params: Value, capabilities: &Value) -> Value {
        self.ask(method, stateless(params, capabilities)).await
    }

    async fn call(&mut self, name: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments})).await;
        answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
    }

    async fn shake_hands(&mut self, capabilities: Value) -> Value {
        let us = json!({"name": "client", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": us});
        let answer = self.ask("initialize", params).await;
        self.say(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer["result"].clone()
    }

    /// Reads to the next message with this method.
    async fn told_of(&mut self, method: &str) -> Value {
        if let Some(at) = self.told.iter().position(|told| told["method"] == method) {
            return self.told.remove(at);
        }
        loop {
            let message = self.next().await.expect("it has hung up");
            if message["method"] == method {
                return message;
            }
            self.told.push(message);
        }
    }
}

fn stateless(mut params: Value, capabilities: &Value) -> Value {
    let about = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    });
    let mut meta = params.get("_meta").cloned().unwrap_or(json!({}));
    meta.as_object_mut().unwrap().extend(about.as_object().unwrap().clone());
    params["_meta"] = meta;
    params
}
