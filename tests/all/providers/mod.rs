//! The contract that every model behind an HTTP API keeps, whatever the wire format of its vendor.
//!
//! A vendor is described as a [`Vendor`]: how its server says something, and what of a request reaches it. [`contract`] is
//! one list of cases, run for each vendor: for those that the host speaks itself ([`Native`]), and for one behind a plugin
//! ([`guest`]).

mod contract;
mod requests;
mod server;

mod guest;

mod anthropic;
mod gemini;
mod ollama;
mod openai;
mod responses;

mod check;
mod configured;
mod example;
pub mod program;
mod secrecy;
mod streams;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use futures_util::{FutureExt, StreamExt, stream};
use serde_json::value::RawValue;
use shelly_host::{
    chat::{Chat, Message, Part, PropertyNames, ToolHints, ToolSpec},
    error::Fault,
    event::RunCx,
    limits,
    model::{Completer, Completion, CompletionRequest, DeltaSink, DeltaTarget, ReplyDelta, StopReason, Usage},
    net::{AuthHeader, HttpClient, Secret},
    provider::{AdapterConfig, HttpModel, IncomingReply, ModelAdapter, ReplySource, ToolNames, WireProtocol},
};

use server::{Sent, Server};

/// The key that every vendor's server is asked with.
pub const KEY: &str = "sk-a-key-that-nobody-may-see";

/// The server of a model, and its retries and timeouts.
#[derive(Debug, Clone)]
pub struct Setup {
    pub server: String,
    pub retries: usize,
    /// The time from the first attempt to the end of the reply.
    pub total: Duration,
    /// The longest silence in the middle of a reply.
    pub idle: Duration,
}

impl Setup {
    /// Returns the default setup for this server.
    pub fn on(server: &Server) -> Self {
        let (server, retries) = (server.url.clone(), limits::HTTP_RETRIES);
        Self { server, retries, total: limits::COMPLETION_TIME, idle: limits::STREAM_IDLE_TIME }
    }
}

/// A vendor's model behind some transport, and what can be observed on the way.
#[async_trait(?Send)]
pub trait Reached: 'static {
    /// Returns the model `m-1`, with [`KEY`] as its key.
    async fn model(setup: Setup) -> Arc<dyn Completer>;
    /// Returns the debug output of the parts that the model is made of.
    fn shown(setup: &Setup) -> String;
    /// Returns the outcome of a reply that arrives in these pieces.
    async fn read(pieces: Vec<Vec<u8>>, tools: &[Arc<ToolSpec>]) -> Heard;
    /// Returns the request that is sent.
    async fn sent(request: &CompletionRequest) -> Sent;
}

/// A vendor whose wire format the host speaks itself.
pub trait Native: Vendor {
    type Wire: WireProtocol + 'static;

    fn wire() -> Self::Wire;
    /// Returns the header that carries the key.
    fn auth(key: Secret) -> AuthHeader;
    /// Returns the URL at which the API of a server begins.
    fn base(server: &str) -> String;
}

/// A vendor, as far as the contract needs to know it.
pub trait Vendor: Reached {
    /// A call keeps the id that the server gave it.
    const KEEPS_IDS: bool = true;
    /// Arguments come as text, which need not be JSON.
    const ARGUMENTS_ARE_TEXT: bool = true;
    /// Tokens that were read from a cache are counted apart.
    const COUNTS_CACHE_READS: bool = true;
    /// Tools that must not be called are listed nevertheless.
    const LISTS_WHAT_MAY_NOT_BE_CALLED: bool = true;
    /// Reasons to stop that its server can give.
    const STOPS: &[StopReason];
    /// The text before and after the data of an event.
    const EVENT: (&str, &str) = ("data: ", "\n\n");
    /// Lines that may stand between events, without their end.
    const BESIDE: [&str; 2] = [": a comment", "id: 7\nretry: 100"];

    /// Returns the API key of a request.
    fn key(sent: &Sent) -> Option<&str>;
    /// Returns a stream of this reply, in pieces.
    fn stream(said: &Said) -> String;
    /// Returns the reply in one piece, as where nothing is streamed.
    fn whole(said: &Said) -> String;
    /// Returns an event of an unknown kind, as a stream may have it after its first event.
    fn unknown() -> &'static str;
    /// Returns the body of an error response.
    fn error(status: u16, message: &str) -> String;
    /// Returns an event that breaks a stream off.
    fn broken_off(message: &str) -> String;
    /// Returns a stream with so many pieces of text of so many bytes, without its end.
    fn flood(times: usize, bytes: usize) -> String;

    /// Returns the relevant parts of a request.
    ///
    /// # Panics
    ///
    /// If the vendor would refuse it.
    fn asked(sent: &Sent) -> Asked;
}

/// A reply of a server.
#[derive(Debug, Clone)]
pub struct Said {
    pub pieces: Vec<Piece>,
    pub stop: StopReason,
    /// Nothing is written to caches.
    pub usage: Usage,
    pub model: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Thinking(String),
    Text(String),
    Call { id: String, name: String, arguments: String },
}

pub fn thinking(text: &str) -> Piece {
    Piece::Thinking(text.into())
}

pub fn text(text: &str) -> Piece {
    Piece::Text(text.into())
}

pub fn call(id: &str, name: &str, arguments: &str) -> Piece {
    Piece::Call { id: id.into(), name: name.into(), arguments: arguments.into() }
}

impl Said {
    pub fn of(pieces: impl Into<Vec<Piece>>) -> Self {
        let pieces = pieces.into();
        let calls = pieces.iter().any(|piece| matches!(piece, Piece::Call { .. }));
        let stop = if calls { StopReason::ToolCalls } else { StopReason::EndTurn };
        let usage = Usage { input_tokens: 10, output_tokens: 7, cache_read_tokens: 20, cache_write_tokens: 0 };
        Self { pieces, stop, usage, model: "m-1-20260101" }
    }
}

/// A text in pieces, as a stream has it: of two to six characters.
pub fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<_> = text.chars().collect();
    let mut pieces = Vec::new();
    let (mut at, mut length) = (0, 2);
    while at < characters.len() {
        let end = characters.len().min(at + length);
        pieces.push(characters[at..end].iter().collect());
        (at, length) = (end, length % 5 + 2);
    }
    pieces
}

/// The relevant parts of a request, independent of the vendor's wire format.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Asked {
    pub model: String,
    pub system: String,
    pub turns: Vec<Turn>,
    /// Names as the vendor sees them, with their schemas.
    pub tools: Vec<(String, serde_json::Value)>,
    pub choice: Choice,
    pub max_tokens: Option<u64>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Choice {
    #[default]
    Auto,
    Never,
    Required,
    Tool(String),
}

/// Neighbours by one speaker are one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    pub by_model: bool,
    pub items: Vec<Item>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    Text(String),
    /// An image: its address, or as a `data:` URL.
    Image(String),
    Call {
        name: String,
        arguments: serde_json::Value,
    },
    /// The result of the call of this number, counted from the first of the conversation.
    Result {
        of: usize,
        text: String,
        is_error: bool,
    },
}

/// A word of a request.
pub fn word(value: &serde_json::Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text")).to_owned()
}

/// An image by its type and its bytes as base64.
pub fn image_of(media_type: &serde_json::Value, base64: &serde_json::Value) -> String {
    format!("data:{};base64,{}", word(media_type), word(base64))
}

/// Puts turns together.
#[derive(Default)]
pub struct Turns {
    pub turns: Vec<Turn>,
    calls: Vec<String>,
}

impl Turns {
    pub fn push(&mut self, by_model: bool, item: Item) {
        match self.turns.last_mut() {
            Some(turn) if turn.by_model == by_model => turn.items.push(item),
            _ => self.turns.push(Turn { by_model, items: vec![item] }),
        }
    }

    /// A call; `key` is by what a result names it.
    pub fn call(&mut self, key: &str, name: &str, arguments: serde_json::Value) {
        self.calls.push(key.into());
        self.push(true, Item::Call { name: name.into(), arguments });
    }

    /// A result of the latest call that has this key.
    pub fn result(&mut self, key: &str, text: &str, is_error: bool) {
        let of = self.calls.iter().rposition(|call| call == key);
        let of = of.unwrap_or_else(|| panic!("`{key}` is no call before its result"));
        self.push(false, Item::Result { of, text: text.into(), is_error });
    }
}

/// The outcome of a reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub result: Result<Completion, Fault>,
    pub deltas: Vec<ReplyDelta>,
}

impl Heard {
    /// Returns the pieces of the reply, in the order of the parts; ids and arguments as `V` has them.
    pub fn pieces<V: Vendor>(&self) -> Vec<Piece> {
        let completion = self.result.as_ref().unwrap();
        completion.parts.iter().filter_map(piece::<V>).collect()
    }

    /// All text that a watcher was told, and all thoughts.
    pub fn told(&self) -> (String, String) {
        let (mut text, mut thoughts) = (String::new(), String::new());
        for delta in &self.deltas {
            match delta {
                ReplyDelta::Text(piece) => text.push_str(piece),
                ReplyDelta::Thinking(piece) => thoughts.push_str(piece),
                _ => {}
            }
        }
        (text, thoughts)
    }
}

fn piece<V: Vendor>(part: &Part) -> Option<Piece> {
    Some(match part {
        Part::Text(said) => text(said),
        // A thought without words is the vendor's own.
        Part::Thinking(thought) if thought.text.is_empty() => return None,
        Part::Thinking(thought) => thinking(&thought.text),
        Part::ToolCall(said) => comparable::<V>(call(&said.id, &said.name, &said.arguments)),
        other => panic!("{other:?} is nothing that a model says"),
    })
}

/// A piece without what the vendor's wire cannot keep.
pub fn comparable<V: Vendor>(piece: Piece) -> Piece {
    match piece {
        Piece::Call { id, name, arguments } => Piece::Call {
            id: if V::KEEPS_IDS { id } else { String::new() },
            name,
            arguments: if V::ARGUMENTS_ARE_TEXT { arguments } else { plain(&arguments) },
        },
        piece => piece,
    }
}

/// A count of tokens as the vendor's wire can tell it.
pub fn comparable_usage<V: Vendor>(usage: Usage) -> Usage {
    if V::COUNTS_CACHE_READS {
        return usage;
    }
    Usage { input_tokens: usage.input_tokens + usage.cache_read_tokens, cache_read_tokens: 0, ..usage }
}

/// JSON as it is written here.
fn plain(json: &str) -> String {
    serde_json::from_str::<serde_json::Value>(json).unwrap().to_string()
}

#[derive(Default)]
struct Watcher(Mutex<Vec<ReplyDelta>>);

#[async_trait]
impl DeltaTarget for Watcher {
    async fn take(&self, delta: ReplyDelta) {
        self.0.lock().unwrap().push(delta);
    }
}

/// Asks a model, and hears every piece.
async fn heard(model: &dyn Completer, request: &CompletionRequest) -> Heard {
    let watcher = Arc::new(Watcher::default());
    let result = model.complete(&RunCx::new("ada"), request, &DeltaSink::new(watcher.clone())).await;
    Heard { result, deltas: std::mem::take(&mut *watcher.0.lock().unwrap()) }
}

#[async_trait(?Send)]
impl<V: Native> Reached for V {
    async fn model(setup: Setup) -> Arc<dyn Completer> {
        Arc::new(HttpModel::new(HttpClient::new().unwrap(), config::<V>(&setup), V::wire()).unwrap())
    }

    fn shown(setup: &Setup) -> String {
        format!("{:?}", config::<V>(setup))
    }

    /// Without a network.
    async fn read(pieces: Vec<Vec<u8>>, tools: &[Arc<ToolSpec>]) -> Heard {
        let (watcher, key) = (Arc::new(Watcher::default()), Secret::new(KEY));
        let source = ReplySource { origin: "host", model: "asked", secrets: std::slice::from_ref(&key) };
        let names = ToolNames::of(&<V::Wire as WireProtocol>::NAMES, tools.iter().map(AsRef::as_ref));
        let sink = DeltaSink::new(watcher.clone());
        let read = async {
            let stream = stream::iter(pieces.into_iter().map(Ok)).boxed();
            let reply = IncomingReply::of(stream, &source).await?;
            V::wire().read(reply, &source, &names, &sink).await
        };
        let result = read.now_or_never().expect("it waits for more than there is");
        Heard { result, deltas: std::mem::take(&mut *watcher.0.lock().unwrap()) }
    }

    /// Without a network.
    async fn sent(request: &CompletionRequest) -> Sent {
        let setup =
            Setup { server: "http://localhost:1".into(), retries: 0, total: Duration::MAX, idle: Duration::MAX };
        let adapter = ModelAdapter::new(HttpClient::new().unwrap(), config::<V>(&setup)).unwrap();
        let url = V::wire().url(&adapter).unwrap();
        let path = url.query().map_or_else(|| url.path().into(), |query| format!("{}?{query}", url.path()));
        Sent::new(path, vec![], V::wire().body(&adapter, request).unwrap())
    }
}

/// Settings of a vendor's model.
fn config<V: Native>(setup: &Setup) -> AdapterConfig {
    AdapterConfig {
        auth: Some(V::auth(Secret::new(KEY))),
        retries: setup.retries,
        total: setup.total,
        idle: setup.idle,
        ..AdapterConfig::new(V::base(&setup.server), "m-1")
    }
}

pub async fn read_all<V: Vendor>(reply: impl Into<Vec<u8>>) -> Heard {
    V::read(vec![reply.into()], &[]).await
}

/// Asks the vendor's model on a server.
pub async fn ask<V: Vendor>(server: &Server, request: &CompletionRequest) -> Heard {
    ask_with::<V>(Setup::on(server), request).await
}

pub async fn ask_with<V: Vendor>(setup: Setup, request: &CompletionRequest) -> Heard {
    heard(&*V::model(setup).await, request).await
}

/// A conversation of one question.
pub fn question(text: &str) -> CompletionRequest {
    let chat = Chat::new();
    chat.append(Message::user(text)).unwrap();
    CompletionRequest::new(chat.snapshot(), Arc::new([]))
}

pub fn tool(name: &str) -> Arc<ToolSpec> {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
    Arc::new(ToolSpec {
        name: name.into(),
        description: "Reads a file.".into(),
        input_schema: RawValue::from_string(schema.into()).unwrap().into(),
        hints: ToolHints::default(),
        property_names: PropertyNames::default(),
    })
}
