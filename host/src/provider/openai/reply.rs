//! A reply put together from its stream, or from one piece of JSON where a server does not stream.
//!
//! Servers differ in how they tell tool calls apart: by index, by id, or by sending each call whole, with index 0 or
//! none and an id that is empty or used twice. [`Assembly::call`] takes all of them.

use futures_util::{FutureExt, StreamExt, stream};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    chat::{Part, Thinking, ToolCall},
    error::Fault,
    limits,
    model::{Completion, Delta, DeltaSink, StopReason, Usage},
    net::{ByteStream, Secret, fault_in_reply, shown},
    provider::sse::{Event, Events},
};

/// Calls of one reply that are put together. More than an agent answers, so that it can say so.
const MAX_CALLS: usize = 8 * limits::CALLS_PER_REPLY;

/// Bytes of a model's name that are kept.
const MODEL_NAME_BYTES: usize = 256;

/// Whom a reply comes from.
pub struct Source<'a> {
    pub origin: &'a str,
    /// The model that was asked.
    pub model: &'a str,
    pub key: Option<&'a Secret>,
}

/// Reads a reply to its end; pieces go to `sink` as they come.
///
/// # Errors
///
/// A [`Fault`]: [`Fault::Unavailable`] if the reply is cut off, garbled or silent for too long, [`Fault::TooLarge`] if
/// it or one event of it is, and whatever an error inside it means.
pub async fn read(mut stream: ByteStream, source: &Source<'_>, sink: &DeltaSink) -> Result<Completion, Fault> {
    let (mut start, mut blank): (Vec<u8>, usize) = (Vec::new(), 0);
    // The content type is not asked: some servers send either kind under the other's name.
    let first = loop {
        if let Some(at) = start.iter().position(|byte| !byte.is_ascii_whitespace()) {
            // What stands before it is left out, into however many pieces it was cut.
            start.drain(..at);
            break start[0];
        }
        blank += start.len();
        if blank > limits::REPLY_BYTES {
            return Err(too_large());
        }
        match stream.next().await {
            Some(chunk) => start = chunk?,
            None => return Err(source.unavailable("sent an empty reply")),
        }
    };
    let stream = stream::iter([Ok(start)]).chain(stream).boxed();
    match first {
        b'{' | b'[' => read_json(stream, source, sink).await,
        b'<' => {
            Err(Fault::other(format!("{} answered with a web page: is this the base URL of an API?", source.origin)))
        }
        _ => read_events(stream, source, sink).await,
    }
}

async fn read_events(stream: ByteStream, source: &Source<'_>, sink: &DeltaSink) -> Result<Completion, Fault> {
    let mut events = Events::new(stream, limits::STREAM_EVENT_BYTES);
    let mut assembly = Assembly::default();
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => break,
            // All has been said but the usage; to fail now would have it said and paid for again.
            Err(fault) if assembly.stop.is_some() => {
                tracing::debug!(%fault, "the stream broke after its end was announced");
                break;
            }
            Err(fault) => return Err(fault),
        };
        if event.data.trim() == "[DONE]" {
            // A server that says so without a reason has still said that this is the end.
            assembly.stop.get_or_insert_with(|| "stop".into());
            // The connection can be used again if its end is seen, which as a rule is there already.
            let _ = events.next().now_or_never();
            break;
        }
        if let Some(chunk) = parse(&event, source)? {
            assembly.take(chunk, false, sink).await?;
        }
    }
    if assembly.stop.is_none() {
        return Err(source.unavailable("cut its reply off"));
    }
    assembly.finish(source)
}

fn parse<'a>(event: &'a Event, source: &Source<'_>) -> Result<Option<Chunk<'a>>, Fault> {
    if event.data.trim().is_empty() {
        return Ok(None);
    }
    match serde_json::from_str::<Chunk>(&event.data) {
        Ok(Chunk { error: Some(error), .. }) => Err(source.fault(error.get())),
        _ if event.name == "error" => Err(source.fault(&event.data)),
        Ok(chunk) => Ok(Some(chunk)),
        Err(error) => Err(source.garbled(&error)),
    }
}

async fn read_json(mut stream: ByteStream, source: &Source<'_>, sink: &DeltaSink) -> Result<Completion, Fault> {
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        body.extend(chunk?);
        if body.len() > limits::REPLY_BYTES {
            return Err(too_large());
        }
    }
    let chunk: Chunk = serde_json::from_slice(&body).map_err(|error| source.garbled(&error))?;
    if let Some(error) = chunk.error {
        return Err(source.fault(error.get()));
    }
    if chunk.choices.as_ref().is_none_or(Vec::is_empty) {
        return Err(source.unavailable("sent a reply without a choice"));
    }
    let mut assembly = Assembly::default();
    assembly.take(chunk, true, sink).await?;
    assembly.stop.get_or_insert_with(|| "stop".into());
    assembly.finish(source)
}

impl Source<'_> {
    fn unavailable(&self, what: &str) -> Fault {
        Fault::Unavailable { message: format!("{} {what}", self.origin), after: None }
    }

    fn garbled(&self, error: &serde_json::Error) -> Fault {
        // What the parser says may quote the reply, and so whatever is in it.
        let error = shown(&error.to_string(), self.key, limits::ERROR_BYTES);
        self.unavailable(&format!("sent something that is no part of a reply: {error}"))
    }

    fn fault(&self, error: &str) -> Fault {
        fault_in_reply(self.origin, error, self.key)
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    model: Option<String>,
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<WireUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u32>,
    /// In a stream; some servers repeat all of the message so far beside it.
    #[serde(borrow)]
    delta: Option<WireDelta<'a>>,
    /// In one piece.
    #[serde(borrow)]
    message: Option<WireDelta<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireDelta<'a> {
    content: Option<WireContent>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    refusal: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<WireCall<'a>>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WireContent {
    Text(String),
    Parts(Vec<WirePart>),
}

#[derive(Deserialize)]
struct WirePart {
    text: Option<String>,
}

#[derive(Deserialize)]
struct WireCall<'a> {
    index: Option<i64>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<WireFunction<'a>>,
}

#[derive(Default, Deserialize)]
struct WireFunction<'a> {
    name: Option<String>,
    /// A string with JSON or a piece of it; from some servers the object itself.
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct WireUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    /// DeepSeek's word for `cached_tokens`.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

impl WireUsage {
    /// The counts without overlap: the wire counts cached tokens as prompt tokens too. Some vendors leave thinking out
    /// of `completion_tokens` but not out of the total.
    fn usage(&self) -> Usage {
        let prompt = self.prompt_tokens.unwrap_or(0);
        let cached = self.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
        let cached = cached.or(self.prompt_cache_hit_tokens).unwrap_or(0).min(prompt);
        let beside_prompt = self.total_tokens.unwrap_or(0).saturating_sub(prompt);
        Usage {
            input_tokens: prompt - cached,
            output_tokens: self.completion_tokens.unwrap_or(0).max(beside_prompt),
            cache_read_tokens: cached,
            cache_write_tokens: 0,
        }
    }
}

/// What has come so far.
#[derive(Default)]
struct Assembly {
    pieces: Vec<Piece>,
    calls: Vec<Call>,
    stop: Option<String>,
    refused: bool,
    usage: Option<Usage>,
    model: Option<String>,
    bytes: usize,
}

/// A piece of the reply, in the model's order.
enum Piece {
    Text(String),
    Thinking(String),
    /// One of the calls.
    Call(usize),
}

#[derive(Default)]
struct Call {
    index: Option<i64>,
    id: String,
    name: String,
    arguments: String,
    scan: ObjectScan,
}

impl Assembly {
    async fn take(&mut self, chunk: Chunk<'_>, whole: bool, sink: &DeltaSink) -> Result<(), Fault> {
        if let Some(model) = chunk.model.filter(|model| self.model.is_none() && !model.is_empty()) {
            self.model = Some(shown(&model, None, MODEL_NAME_BYTES));
        }
        // Only one choice is asked for; of another nothing is wanted.
        let choice = chunk.choices.into_iter().flatten().find(|choice| choice.index.unwrap_or(0) == 0);
        if let Some(choice) = choice {
            let delta = if whole { choice.message.or(choice.delta) } else { choice.delta };
            if let Some(delta) = delta {
                self.delta(delta, sink).await?;
            }
            self.stop = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.stop.take());
        }
        if let Some(usage) = chunk.usage.map(|usage| usage.usage()).filter(|usage| self.usage != Some(*usage)) {
            self.usage = Some(usage);
            sink.emit(Delta::Usage(usage)).await;
        }
        Ok(())
    }

    async fn delta(&mut self, delta: WireDelta<'_>, sink: &DeltaSink) -> Result<(), Fault> {
        // Where a server sends a thought under both names it is the same one.
        if let Some(thought) = delta.reasoning_content.filter(|thought| !thought.is_empty()).or(delta.reasoning) {
            self.thinking(thought, sink).await?;
        }
        match delta.content {
            Some(WireContent::Text(text)) => self.text(text, sink).await?,
            Some(WireContent::Parts(parts)) => {
                for text in parts.into_iter().filter_map(|part| part.text) {
                    self.text(text, sink).await?;
                }
            }
            None => {}
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            self.text(refusal, sink).await?;
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call, sink).await?;
        }
        Ok(())
    }

    async fn text(&mut self, text: String, sink: &DeltaSink) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        match self.pieces.last_mut() {
            Some(Piece::Text(before)) => before.push_str(&text),
            _ => self.pieces.push(Piece::Text(text.clone())),
        }
        sink.emit(Delta::Text(text)).await;
        Ok(())
    }

    async fn thinking(&mut self, text: String, sink: &DeltaSink) -> Result<(), Fault> {
        if text.is_empty() {
            return Ok(());
        }
        self.grow(text.len())?;
        match self.pieces.last_mut() {
            Some(Piece::Thinking(before)) => before.push_str(&text),
            _ => self.pieces.push(Piece::Thinking(text.clone())),
        }
        sink.emit(Delta::Thinking(text)).await;
        Ok(())
    }

    async fn call(&mut self, wire: WireCall<'_>, sink: &DeltaSink) -> Result<(), Fault> {
        let id = wire.id.unwrap_or_default();
        let function = wire.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let arguments = function.arguments.map(argument_text).unwrap_or_default();
        let at = match self.find(wire.index, &id, &name) {
            Some(at) if !self.calls[at].is_followed_by(&id, &name, &arguments) => at,
            _ => self.begin(wire.index)?,
        };
        self.grow(id.len() + name.len() + arguments.len())?;
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        call.scan.feed(&arguments);
        call.arguments.push_str(&arguments);
        if call.name.is_empty() && !name.is_empty() {
            call.name.clone_from(&name);
            sink.emit(Delta::ToolCall(name)).await;
        }
        Ok(())
    }

    /// The call that a piece seems to belong to: the newest with its index, else with its id, else the newest of all
    /// if the piece begins nothing.
    fn find(&self, index: Option<i64>, id: &str, name: &str) -> Option<usize> {
        if index.is_some() {
            return self.calls.iter().rposition(|call| call.index == index);
        }
        let with_id = self.calls.iter().rposition(|call| !id.is_empty() && call.id == id);
        with_id.or_else(|| self.calls.len().checked_sub(1).filter(|_| name.is_empty()))
    }

    fn begin(&mut self, index: Option<i64>) -> Result<usize, Fault> {
        let at = self.calls.len();
        if at == MAX_CALLS {
            return Err(Fault::TooLarge { message: format!("the reply has more than {MAX_CALLS} tool calls") });
        }
        self.calls.push(Call { index, ..Call::default() });
        self.pieces.push(Piece::Call(at));
        Ok(at)
    }

    fn grow(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        if self.bytes > limits::REPLY_BYTES { Err(too_large()) } else { Ok(()) }
    }

    fn finish(self, source: &Source<'_>) -> Result<Completion, Fault> {
        if self.calls.iter().any(|call| call.name.is_empty()) {
            return Err(source.unavailable("sent a tool call without a name"));
        }
        let stop = match self.stop.as_deref().unwrap_or_default() {
            _ if self.refused => StopReason::Refusal,
            // Some servers say `stop` whatever comes.
            "stop" | "tool_calls" | "function_call" if !self.calls.is_empty() => StopReason::ToolCalls,
            "stop" | "tool_calls" | "function_call" => StopReason::EndTurn,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            "stop_sequence" => StopReason::StopSequence,
            other => StopReason::Other(shown(other, source.key, MODEL_NAME_BYTES)),
        };
        let mut calls: Vec<_> = self.calls.into_iter().map(Some).collect();
        let part = |piece| match piece {
            Piece::Text(text) => Some(Part::Text(text)),
            Piece::Thinking(text) => Some(Part::Thinking(Thinking { text, opaque: None })),
            Piece::Call(at) => calls[at].take().map(|call| Part::ToolCall(call.into_tool_call())),
        };
        Ok(Completion {
            parts: self.pieces.into_iter().filter_map(part).collect(),
            stop,
            usage: self.usage.unwrap_or_default(),
            model: self.model.unwrap_or_else(|| source.model.into()),
            meta: vec![],
        })
    }
}

impl Call {
    /// Whether a piece that seems to belong to this call begins another one: it has a name, and another id or name, or
    /// arguments though these are complete.
    fn is_followed_by(&self, id: &str, name: &str, arguments: &str) -> bool {
        let differs = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
        let is_more = self.scan.is_complete() && !arguments.trim().is_empty();
        !name.is_empty() && (differs(&self.id, id) || differs(&self.name, name) || is_more)
    }

    fn into_tool_call(self) -> ToolCall {
        let arguments = if self.arguments.trim().is_empty() { "{}".into() } else { self.arguments };
        ToolCall { id: self.id, name: self.name, arguments, meta: vec![] }
    }
}

fn argument_text(raw: &RawValue) -> String {
    match raw.get() {
        text if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        object => object.into(),
    }
}

fn too_large() -> Fault {
    Fault::TooLarge { message: format!("the reply has more than {} bytes", limits::REPLY_BYTES) }
}

/// Follows a JSON object as it comes, to see where it ends: each byte is looked at once.
#[derive(Default)]
struct ObjectScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl ObjectScan {
    fn feed(&mut self, piece: &str) {
        for byte in piece.bytes() {
            match byte {
                _ if std::mem::take(&mut self.escaped) => {}
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => (self.depth, self.begun) = (self.depth + 1, true),
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.begun && self.depth == 0
    }
}
