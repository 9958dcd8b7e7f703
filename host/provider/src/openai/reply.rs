//! Reading of a reply from an event stream, or from one JSON document of a server that does not stream.
//!
//! Servers differ in how they tell tool calls apart: by index, by id, or by sending each call whole, with index 0 or none
//! and an id that is empty or used twice. [`OpenAiReplyReader::call`] handles all of them.

use std::fmt;

use futures_util::FutureExt;
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use serde_json::value::RawValue;

use super::{options::ChatCompletions, token_counts::OpenAiTokenCounts};
use crate::{
    arguments,
    assembly::ReplyAssembly,
    borrowed_text::BorrowedText,
    incoming_reply::{ReplyReader, ReplySource, accept_late_failure},
    tool_names::ToolNames,
};
use shelly_core::{
    error::Fault,
    model::{Completion, DeltaSink, StopReason, Usage},
};
use shelly_net::sse::{SseEvent, SseEventStream};

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
    /// The new part, in a stream. Some servers add a `message` that repeats the whole reply so far.
    #[serde(borrow)]
    delta: Option<OpenAiDelta<'a>>,
    /// The whole message, in a reply that is not streamed.
    #[serde(borrow)]
    message: Option<OpenAiDelta<'a>>,
    finish_reason: Option<String>,
    /// The place where some servers report the usage.
    usage: Option<OpenAiUsage>,
}

#[derive(Deserialize)]
struct OpenAiDelta<'a> {
    content: Option<OpenAiReplyContent>,
    reasoning_content: Option<String>,
    reasoning: Option<String>,
    /// OpenRouter's field, usually in addition to `reasoning`.
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
    /// Takes the thought out of the delta. A server that sends it in several fields sends the same text in each.
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

/// Written by hand, because the derived implementation for an untagged enum copies the content to try each variant.
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
    /// DeepSeek's name for `cached_tokens`.
    prompt_cache_hit_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct OpenAiPromptDetails {
    cached_tokens: Option<u64>,
}

impl OpenAiUsage {
    fn usage(&self) -> Usage {
        let cached = self.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens);
        let counts = OpenAiTokenCounts {
            input: self.prompt_tokens,
            cache_read: cached.or(self.prompt_cache_hit_tokens),
            cache_write: None,
            output: self.completion_tokens,
            total: self.total_tokens,
        };
        counts.to_usage()
    }
}

/// The state of a reply that is being read.
pub struct OpenAiReplyReader<'a> {
    assembly: ReplyAssembly<'a>,
    source: &'a ReplySource<'a>,
    /// The data that tells each call from the next, by the call's index in the assembly.
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

impl ReplyReader for OpenAiReplyReader<'_> {
    async fn read_events(mut self, mut events: SseEventStream) -> Result<Completion, Fault> {
        loop {
            let event = match events.next().await {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(fault) => {
                    accept_late_failure(fault, self.stop.is_some())?;
                    // Only the usage is missing.
                    self.assembly.estimate_usage().await;
                    break;
                }
            };
            if event.data.trim() == "[DONE]" {
                // The event ends the reply, even if the server gave no finish reason.
                self.stop.get_or_insert_with(|| "stop".into());
                // The connection is reusable once its end is read; that end has usually arrived already.
                let _ = events.next().now_or_never();
                break;
            }
            if let Some(chunk) = parse(event, self.source)? {
                self.take(chunk, false).await?;
            }
            events.note_progress(self.assembly.progress());
        }
        self.finish().await
    }

    async fn read_json(mut self, json: &[u8]) -> Result<Completion, Fault> {
        let chunk: OpenAiChunk = serde_json::from_slice(json).map_err(|error| self.source.garbled(&error))?;
        if let Some(error) = chunk.error {
            return Err(self.source.fault(error.get()));
        }
        if chunk.choices.as_ref().is_none_or(Vec::is_empty) {
            return Err(self.source.unavailable("sent a reply without a choice"));
        }
        self.take(chunk, true).await?;
        self.stop.get_or_insert_with(|| "stop".into());
        self.finish().await
    }
}

impl<'a> OpenAiReplyReader<'a> {
    /// Creates the reader of one reply.
    pub fn new(
        options: &ChatCompletions,
        source: &'a ReplySource<'a>,
        names: &'a ToolNames,
        sink: &'a DeltaSink,
    ) -> Self {
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
        // The request asks for one choice; others are ignored.
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

    /// Returns the call that a delta seems to belong to: the newest with its index; without an index, the one with its id;
    /// otherwise the newest call if the delta has no name.
    fn find(&self, index: Option<i64>, id: &str, name: &str) -> Option<usize> {
        if index.is_some() {
            return self.habits.iter().rposition(|call| call.index == index);
        }
        let with_id = (0..self.habits.len()).rev().find(|at| !id.is_empty() && self.assembly.call(*at).id == id);
        with_id.or_else(|| self.habits.len().checked_sub(1).filter(|_| name.is_empty()))
    }

    /// Returns `true` if a delta that seems to belong to a call begins another one: it has a name, and either another id or
    /// name, or arguments although those of the call are complete.
    fn is_followed_by(&self, at: usize, id: &str, name: &str, arguments: &str) -> bool {
        let (call, wire) = (self.assembly.call(at), &self.habits[at]);
        let differs = |a: &str, b: &str| !a.is_empty() && !b.is_empty() && a != b;
        let is_more = wire.scan.is_complete() && !arguments.trim().is_empty();
        !name.is_empty() && (differs(&call.id, id) || differs(&wire.name, name) || is_more)
    }

    async fn finish(mut self) -> Result<Completion, Fault> {
        let Some(stop) = self.stop.take() else { return Err(self.source.unavailable("ended its reply early")) };
        let Self { assembly, source, refused, .. } = self;
        let stop = match stop.as_str() {
            _ if refused => StopReason::Refusal,
            // Some servers always report `stop`.
            "stop" | "tool_calls" | "function_call" => StopReason::EndTurn,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            "stop_sequence" => StopReason::StopSequence,
            other => StopReason::Other(source.word(other)),
        };
        assembly.finish(stop, source).await
    }
}

/// An incremental scanner that detects the end of a JSON object and looks at each byte once.
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
