//! A reply put together from its stream, or from one piece of JSON where a server does not stream.
//!
//! Servers differ in how they tell tool calls apart: by index, by id, or by sending each call whole, with index 0 or
//! none and an id that is empty or used twice. [`ReplyAssembly::call`] takes all of them.

use std::fmt;

use futures_util::FutureExt;
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::value::RawValue;

use super::ChatCompletions;
use crate::{
    error::Fault,
    model::{Completion, DeltaSink, StopReason, Usage},
    provider::{
        arguments,
        assembly::ReplyAssembly,
        borrowed_text::BorrowedText,
        incoming_reply::{IncomingReply, ReplySource},
        sse::{SseEvent, SseEventStream},
        tool_names::ToolNames,
    },
};

/// Reads a reply to its end; pieces go to `sink` as they come. `names` are those of the tools that were sent.
///
/// # Errors
///
/// A [`Fault`]: [`Fault::Unavailable`] if the reply is cut off, garbled or silent for too long, [`Fault::TooLarge`] if
/// it or one event of it is, and whatever an error inside it means.
pub async fn read(
    incoming: IncomingReply,
    options: &ChatCompletions,
    source: &ReplySource<'_>,
    names: &ToolNames,
    sink: &DeltaSink,
) -> Result<Completion, Fault> {
    let reply = OpenAiReplyReader::new(options, names, sink, source);
    match incoming {
        IncomingReply::Events(events) => read_events(*events, reply).await,
        IncomingReply::Json(json) => read_json(&json, reply).await,
    }
}

async fn read_events(mut events: SseEventStream, mut reply: OpenAiReplyReader<'_>) -> Result<Completion, Fault> {
    loop {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => break,
            // All has been said but the usage; to fail now would have it said and paid for again.
            Err(fault) if reply.stop.is_some() => {
                tracing::debug!(%fault, "the stream broke after its end was announced");
                reply.assembly.estimate_usage().await;
                break;
            }
            Err(fault) => return Err(fault),
        };
        if event.data.trim() == "[DONE]" {
            // A server that says so without a reason has still said that this is the end.
            reply.stop.get_or_insert_with(|| "stop".into());
            // The connection can be used again if its end is seen, which as a rule is there already.
            let _ = events.next().now_or_never();
            break;
        }
        if let Some(chunk) = parse(event, reply.source)? {
            reply.take(chunk, false).await?;
        }
        events.note_progress(reply.assembly.progress());
    }
    reply.finish().await
}

fn parse<'a>(event: &'a SseEvent, source: &ReplySource<'_>) -> Result<Option<OpenAiChunk<'a>>, Fault> {
    if event.data.trim().is_empty() {
        return Ok(None);
    }
    match serde_json::from_str::<OpenAiChunk>(&event.data) {
        Ok(OpenAiChunk { error: Some(error), .. }) => Err(source.fault(error.get())),
        _ if event.name == "error" => Err(source.fault(&event.data)),
        Ok(chunk) => Ok(Some(chunk)),
        Err(error) => Err(source.garbled(&error)),
    }
}

async fn read_json(json: &[u8], mut reply: OpenAiReplyReader<'_>) -> Result<Completion, Fault> {
    let chunk: OpenAiChunk = serde_json::from_slice(json).map_err(|error| reply.source.garbled(&error))?;
    if let Some(error) = chunk.error {
        return Err(reply.source.fault(error.get()));
    }
    if chunk.choices.as_ref().is_none_or(Vec::is_empty) {
        return Err(reply.source.unavailable("sent a reply without a choice"));
    }
    reply.take(chunk, true).await?;
    reply.stop.get_or_insert_with(|| "stop".into());
    reply.finish().await
}

#[derive(Deserialize)]
struct OpenAiChunk<'a> {
    #[serde(borrow)]
    model: Option<BorrowedText<'a>>,
    #[serde(borrow)]
    choices: Option<Vec<OpenAiChoice<'a>>>,
    usage: Option<OpenAiUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OpenAiChoice<'a> {
    index: Option<u32>,
    /// In a stream; some servers repeat all of the message so far beside it.
    #[serde(borrow)]
    delta: Option<OpenAiDelta<'a>>,
    /// In one piece.
    #[serde(borrow)]
    message: Option<OpenAiDelta<'a>>,
    finish_reason: Option<String>,
    /// Where some servers put it.
    usage: Option<OpenAiUsage>,
}

#[derive(Deserialize)]
struct OpenAiDelta<'a> {
    content: Option<OpenAiReplyContent>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    /// OpenRouter's, mostly beside `reasoning`.
    reasoning_details: Option<Vec<OpenAiReasoningDetail>>,
    refusal: Option<String>,
    #[serde(borrow)]
    tool_calls: Option<Vec<OpenAiToolCallDelta<'a>>>,
}

#[derive(Deserialize)]
struct OpenAiReasoningDetail {
    text: Option<String>,
    summary: Option<String>,
}

impl OpenAiDelta<'_> {
    /// The thought in it. Where a server sends one under several names it is the same.
    fn thought(&mut self) -> String {
        let plain = [self.reasoning_content.take(), self.reasoning.take()].into_iter().flatten();
        let details = self.reasoning_details.take().into_iter().flatten();
        let of_details = || details.filter_map(|detail| detail.text.or(detail.summary)).collect();
        plain.into_iter().find(|thought| !thought.is_empty()).unwrap_or_else(of_details)
    }
}

enum OpenAiReplyContent {
    Text(String),
    Parts(Vec<OpenAiReplyPart>),
}

/// What serde derives for such an enum makes copies to try each.
impl<'de> Deserialize<'de> for OpenAiReplyContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OpenAiContentVisitor)
    }
}

struct OpenAiContentVisitor;

impl<'de> Visitor<'de> for OpenAiContentVisitor {
    type Value = OpenAiReplyContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a list of parts")
    }

    fn visit_str<E>(self, text: &str) -> Result<OpenAiReplyContent, E> {
        Ok(OpenAiReplyContent::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<OpenAiReplyContent, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(parts)).map(OpenAiReplyContent::Parts)
    }
}

#[derive(Deserialize)]
struct OpenAiReplyPart {
    text: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiToolCallDelta<'a> {
    index: Option<i64>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<OpenAiFunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
struct OpenAiFunctionDelta<'a> {
    name: Option<String>,
    /// A string with JSON or a piece of it; from some servers the object itself.
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct OpenAiUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    prompt_tokens_details: Option<OpenAiPromptDetails>,
    /// DeepSeek's word for `cached_tokens`.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OpenAiPromptDetails {
    cached_tokens: Option<u64>,
}

impl OpenAiUsage {
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
struct OpenAiReplyReader<'a> {
    assembly: ReplyAssembly<'a>,
    source: &'a ReplySource<'a>,
    /// What tells each call from the next.
    habits: Vec<OpenAiCallState>,
    stop: Option<String>,
    refused: bool,
}

#[derive(Default)]
struct OpenAiCallState {
    index: Option<i64>,
    name: String,
    scan: JsonObjectScan,
}

impl<'a> OpenAiReplyReader<'a> {
    fn new(options: &ChatCompletions, names: &'a ToolNames, sink: &'a DeltaSink, source: &'a ReplySource<'a>) -> Self {
        Self {
            assembly: ReplyAssembly::new(names, sink).reading_text(options.printed_calls, options.think_tags),
            source,
            habits: Vec::new(),
            stop: None,
            refused: false,
        }
    }

    async fn take(&mut self, chunk: OpenAiChunk<'_>, whole: bool) -> Result<(), Fault> {
        if let Some(model) = &chunk.model {
            self.assembly.model(self.source, model);
        }
        // Only one choice is asked for; of another nothing is wanted.
        let choice = chunk.choices.into_iter().flatten().find(|choice| choice.index.unwrap_or(0) == 0);
        let mut usage = chunk.usage;
        if let Some(choice) = choice {
            usage = usage.or(choice.usage);
            let delta = if whole { choice.message.or(choice.delta) } else { choice.delta };
            if let Some(delta) = delta {
                self.delta(delta).await?;
            }
            self.stop = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.stop.take());
        }
        if let Some(usage) = usage {
            self.assembly.usage(usage.usage()).await;
        }
        Ok(())
    }

    async fn delta(&mut self, mut delta: OpenAiDelta<'_>) -> Result<(), Fault> {
        self.assembly.thinking(delta.thought()).await?;
        match delta.content {
            Some(OpenAiReplyContent::Text(text)) => self.assembly.text(text).await?,
            Some(OpenAiReplyContent::Parts(parts)) => {
                for text in parts.into_iter().filter_map(|part| part.text) {
                    self.assembly.text(text).await?;
                }
            }
            None => {}
        }
        if let Some(refusal) = delta.refusal.filter(|refusal| !refusal.is_empty()) {
            self.refused = true;
            self.assembly.text(refusal).await?;
        }
        for call in delta.tool_calls.into_iter().flatten() {
            self.call(call).await?;
        }
        Ok(())
    }

    async fn call(&mut self, wire: OpenAiToolCallDelta<'_>) -> Result<(), Fault> {
        let id = wire.id.unwrap_or_default();
        let function = wire.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let arguments = function.arguments.map(arguments::read).unwrap_or_default();
        let at = match self.find(wire.index, &id, &name) {
            Some(at) if !self.is_followed_by(at, &id, &name, &arguments) => at,
            _ => {
                self.habits.push(OpenAiCallState { index: wire.index, ..OpenAiCallState::default() });
                self.assembly.begin_call()?
            }
        };
        self.habits[at].scan.feed(&arguments);
        self.assembly.call_id(at, id)?;
        self.assembly.arguments(at, &arguments)?;
        if self.habits[at].name.is_empty() {
            self.habits[at].name.clone_from(&name);
        }
        self.assembly.call_name(at, name).await
    }

    /// The call that a piece seems to belong to: the newest with its index, else with its id, else the newest of all
    /// if the piece begins nothing.
    fn find(&self, index: Option<i64>, id: &str, name: &str) -> Option<usize> {
        if index.is_some() {
            return self.habits.iter().rposition(|call| call.index == index);
        }
        let with_id = (0..self.habits.len()).rev().find(|at| !id.is_empty() && self.assembly.call(*at).id == id);
        with_id.or_else(|| self.habits.len().checked_sub(1).filter(|_| name.is_empty()))
    }

    /// Whether a piece that seems to belong to a call begins another one: it has a name, and another id or name, or
    /// arguments though these are complete.
    fn is_followed_by(&self, at: usize, id: &str, name: &str, arguments: &str) -> bool {
        let (call, wire) = (self.assembly.call(at), &self.habits[at]);
        let differs = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
        let is_more = wire.scan.is_complete() && !arguments.trim().is_empty();
        !name.is_empty() && (differs(&call.id, id) || differs(&wire.name, name) || is_more)
    }

    async fn finish(mut self) -> Result<Completion, Fault> {
        let Some(stop) = self.stop.take() else { return Err(self.source.unavailable("cut its reply off")) };
        let Self { assembly, source, refused, .. } = self;
        let stop = match stop.as_str() {
            _ if refused => StopReason::Refusal,
            // Some servers say `stop` whatever comes.
            "stop" | "tool_calls" | "function_call" => StopReason::EndTurn,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            "stop_sequence" => StopReason::StopSequence,
            other => StopReason::Other(source.word(other)),
        };
        assembly.finish(stop, source).await
    }
}

/// Follows a JSON object as it comes, to see where it ends: each byte is looked at once.
#[derive(Default)]
struct JsonObjectScan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    begun: bool,
}

impl JsonObjectScan {
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
