//! Reading of a reply from an event stream, or from one JSON document of a server that does not stream.
//!
//! All content arrives up to four times: in deltas, at the end of a part, of its item, and of the reply. The first arrival
//! counts. Servers differ in the events that they omit, and in how an event refers to its item: by an index, by an id, by
//! the id of the call, or not at all.

use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::items::{ResponsesItemKind, ResponsesItemRef, ResponsesItems};
use crate::{
    arguments,
    assembly::ReplyAssembly,
    borrowed_text::BorrowedText,
    incoming_reply::{ReplyReader, ReplySource},
    openai::token_counts::OpenAiTokenCounts,
    responses::opaque_state,
    tool_names::ToolNames,
};
use shelly_core::{
    error::Fault,
    limits,
    model::{Completion, DeltaSink, StopReason, Usage},
};
use shelly_net::sse::{SseEvent, SseEventStream};

/// An event of any type. The type determines the contents of each field.
#[derive(Deserialize)]
struct ResponsesEvent<'a> {
    #[serde(borrow, default)]
    r#type: BorrowedText<'a>,
    output_index: Option<i64>,
    #[serde(borrow)]
    item_id: Option<BorrowedText<'a>>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow)]
    part: Option<&'a RawValue>,
    #[serde(borrow)]
    item: Option<&'a RawValue>,
    #[serde(borrow)]
    response: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// A reply as one JSON document.
#[derive(Deserialize)]
struct ResponsesReply<'a> {
    status: Option<String>,
    model: Option<String>,
    #[serde(borrow)]
    output: Option<Vec<&'a RawValue>>,
    usage: Option<ResponsesUsage>,
    incomplete_details: Option<ResponsesIncompleteDetails>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ResponsesIncompleteDetails {
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ResponsesUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    total_tokens: Option<u64>,
    input_tokens_details: Option<ResponsesInputDetails>,
}

#[derive(Default, Deserialize)]
struct ResponsesInputDetails {
    cached_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
}

impl ResponsesUsage {
    fn usage(&self) -> Usage {
        let details = self.input_tokens_details.as_ref();
        let counts = OpenAiTokenCounts {
            input: self.input_tokens,
            cache_read: details.and_then(|details| details.cached_tokens),
            cache_write: details.and_then(|details| details.cache_write_tokens),
            output: self.output_tokens,
            total: self.total_tokens,
        };
        counts.to_usage()
    }
}

/// A message, a thought, a call, or an item of another kind.
#[derive(Deserialize)]
struct ResponsesOutputItem<'a> {
    #[serde(default)]
    r#type: String,
    id: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    content: Option<ResponsesOutputContent>,
    summary: Option<ResponsesOutputContent>,
    encrypted_content: Option<String>,
    phase: Option<String>,
}

impl ResponsesOutputItem<'_> {
    fn kind(&self) -> ResponsesItemKind {
        match self.r#type.as_str() {
            "message" => ResponsesItemKind::Message,
            "reasoning" => ResponsesItemKind::Reasoning,
            "function_call" => ResponsesItemKind::Call,
            _ => ResponsesItemKind::Other,
        }
    }

    /// Returns `true` if a thought is worth sending back: encrypted content is meant for the server alone, plain text for
    /// models with visible reasoning.
    fn is_of_use(&self) -> bool {
        let is_encrypted = self.encrypted_content.as_ref().is_some_and(|text| !text.is_empty());
        is_encrypted || self.content.as_ref().is_some_and(ResponsesOutputContent::says_something)
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ResponsesOutputContent {
    Text(String),
    Parts(Vec<ResponsesOutputPart>),
}

#[derive(Default, Deserialize)]
struct ResponsesOutputPart {
    #[serde(default)]
    r#type: String,
    text: Option<String>,
    refusal: Option<String>,
}

impl ResponsesOutputContent {
    fn parts(self) -> Vec<ResponsesOutputPart> {
        match self {
            Self::Text(text) => vec![ResponsesOutputPart { text: Some(text), ..ResponsesOutputPart::default() }],
            Self::Parts(parts) => parts,
        }
    }

    fn says_something(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::Parts(parts) => parts.iter().flat_map(|part| &part.text).any(|text| !text.is_empty()),
        }
    }
}

/// The state of a reply that is being read.
pub struct ResponsesReplyReader<'a> {
    assembly: ReplyAssembly<'a>,
    source: &'a ReplySource<'a>,
    items: ResponsesItems,
    stop: Option<StopReason>,
    refused: bool,
}

impl ReplyReader for ResponsesReplyReader<'_> {
    async fn read_events(mut self, mut events: SseEventStream) -> Result<Completion, Fault> {
        while self.stop.is_none() {
            let Some(event) = events.next().await? else { return Err(self.source.unavailable("cut its reply off")) };
            if event.data.trim() == "[DONE]" {
                // The event ends the reply, even if the server gave no status.
                self.stop = Some(StopReason::EndTurn);
            } else if !event.data.trim().is_empty() {
                self.event(event).await?;
            }
            events.note_progress(self.assembly.progress());
        }
        // The connection is reusable once its end is read; that end has usually arrived already.
        let _ = events.next().now_or_never();
        self.finish().await
    }

    async fn read_json(mut self, json: &[u8]) -> Result<Completion, Fault> {
        let whole: ResponsesReply = serde_json::from_slice(json).map_err(|error| self.source.garbled(&error))?;
        if whole.output.is_none() && whole.error.is_none() {
            return Err(self.source.unavailable("sent a reply without an output"));
        }
        self.whole(whole, "").await?;
        self.finish().await
    }
}

impl<'a> ResponsesReplyReader<'a> {
    /// Creates the reader of one reply. With `printed`, calls and thoughts are looked for in the text.
    pub fn new(printed: bool, source: &'a ReplySource<'a>, names: &'a ToolNames, sink: &'a DeltaSink) -> Self {
        let assembly = ReplyAssembly::new(names, sink).reading_text(printed, printed);
        Self { assembly, source, items: ResponsesItems::default(), stop: None, refused: false }
    }

    fn parse<'j, T: Deserialize<'j>>(&self, json: &'j str) -> Result<T, Fault> {
        serde_json::from_str(json).map_err(|error| self.source.garbled(&error))
    }

    async fn event(&mut self, event: &SseEvent) -> Result<(), Fault> {
        let wire: ResponsesEvent = self.parse(&event.data)?;
        let word = if wire.r#type.is_empty() { event.name.as_str() } else { &*wire.r#type };
        if let Some(error) = wire.error {
            return Err(self.source.fault(error.get()));
        }
        let name = ResponsesItemRef { index: wire.output_index, id: wire.item_id.as_deref().unwrap_or_default() };
        let said = |raw: Option<&RawValue>| raw.map(arguments::read).unwrap_or_default();
        match word {
            "error" => return Err(self.source.fault(&event.data)),
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(json) = wire.item {
                    let item: ResponsesOutputItem = self.parse(json.get())?;
                    let id = item.id.clone().or(wire.item_id.clone().map(BorrowedText::into_owned)).unwrap_or_default();
                    let name = ResponsesItemRef { id: &id, ..name };
                    if word.ends_with(".added") {
                        self.begin(name, &item).await?;
                    } else {
                        let known = self.items.find(item.kind(), name, item.call_id.as_deref());
                        let known = known.filter(|at| !self.is_another(*at, &item));
                        self.end(known, name, item, json).await?;
                    }
                }
            }
            "response.content_part.added" | "response.reasoning_summary_part.added" => {
                let part: ResponsesOutputPart =
                    wire.part.map(|part| self.parse(part.get())).transpose()?.unwrap_or_default();
                let is_thought = word.contains("reasoning") || part.r#type.contains("reasoning");
                self.items.begin_part(
                    if is_thought { ResponsesItemKind::Reasoning } else { ResponsesItemKind::Message },
                    name,
                );
            }
            "response.output_text.delta" => self.text(name, said(wire.delta), ResponsesTextKind::More).await?,
            "response.output_text.done" => self.text(name, said(wire.text), ResponsesTextKind::Again).await?,
            "response.refusal.delta" => self.refusal(name, said(wire.delta), ResponsesTextKind::More).await?,
            "response.refusal.done" => self.refusal(name, said(wire.refusal), ResponsesTextKind::Again).await?,
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought(name, said(wire.delta), ResponsesTextKind::More).await?;
            }
            "response.reasoning_summary_text.done" | "response.reasoning_text.done" => {
                self.thought(name, said(wire.text), ResponsesTextKind::Again).await?;
            }
            "response.function_call_arguments.delta" => {
                let at = self.call(name)?;
                self.assembly.arguments(at, &said(wire.delta))?;
            }
            "response.function_call_arguments.done" => {
                let at = self.call(name)?;
                self.rest_of_arguments(at, &said(wire.arguments))?;
            }
            "response.created" | "response.in_progress" | "response.queued" => {
                let whole = wire.response.and_then(|json| serde_json::from_str::<ResponsesReply>(json.get()).ok());
                if let Some(model) = whole.and_then(|whole| whole.model) {
                    self.assembly.model(self.source, &model);
                }
            }
            "response.completed"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.done" => {
                let json = wire.response.map_or("{}", RawValue::get);
                self.whole(self.parse(json)?, word.trim_start_matches("response.")).await?;
            }
            // Repetitions that the end of the item contains as well, and events of no use here.
            _ => {}
        }
        Ok(())
    }

    /// Returns the item of an event; adds one if no earlier event referred to it.
    fn item(&mut self, kind: ResponsesItemKind, name: ResponsesItemRef<'_>) -> Result<usize, Fault> {
        match self.items.find(kind, name, None) {
            Some(at) => Ok(at),
            None => self.push(kind, name),
        }
    }

    fn push(&mut self, kind: ResponsesItemKind, name: ResponsesItemRef<'_>) -> Result<usize, Fault> {
        let call = if kind == ResponsesItemKind::Call { Some(self.assembly.begin_call()?) } else { None };
        if kind == ResponsesItemKind::Reasoning {
            self.assembly.split();
        }
        self.items.push(kind, name, call)
    }

    /// Returns the index in the assembly of the call that an event refers to.
    fn call(&mut self, name: ResponsesItemRef<'_>) -> Result<usize, Fault> {
        let at = self.item(ResponsesItemKind::Call, name)?;
        Ok(self.items.call(at))
    }

    async fn begin(&mut self, name: ResponsesItemRef<'_>, item: &ResponsesOutputItem<'_>) -> Result<usize, Fault> {
        // Some servers announce an item twice.
        let at = match self.items.find_open(item.kind(), name.id, item.call_id.as_deref()) {
            Some(at) => at,
            None => self.push(item.kind(), name)?,
        };
        self.name_call(at, item).await?;
        Ok(at)
    }

    /// Returns `true` if a call that ends is not the one that ended under the same id.
    fn is_another(&self, at: usize, item: &ResponsesOutputItem<'_>) -> bool {
        if item.kind() != ResponsesItemKind::Call || !self.items.has_ended(at) {
            return false;
        }
        let call = self.assembly.call(self.items.call(at));
        item.arguments.is_some_and(|raw| arguments::read(raw) != call.arguments)
    }

    /// Sets the id and name of a call from its item, unless they are set.
    async fn name_call(&mut self, at: usize, item: &ResponsesOutputItem<'_>) -> Result<(), Fault> {
        if item.kind() != ResponsesItemKind::Call {
            return Ok(());
        }
        let call = self.items.call(at);
        // Without a call id, the id of its item serves.
        let id = [&item.call_id, &item.id].into_iter().flatten().find(|id| !id.is_empty());
        if let Some(id) = id.filter(|_| self.assembly.call(call).id.is_empty()) {
            self.items.call_id(at, id);
            self.assembly.call_id(call, id.clone())?;
        }
        if self.assembly.call(call).name.is_empty() {
            self.assembly.call_name(call, item.name.clone().unwrap_or_default()).await?;
        }
        Ok(())
    }

    /// Takes what only the end of an item contains; `json` is the whole item.
    async fn end(
        &mut self,
        known: Option<usize>,
        name: ResponsesItemRef<'_>,
        item: ResponsesOutputItem<'_>,
        json: &RawValue,
    ) -> Result<(), Fault> {
        let at = match known {
            Some(at) => at,
            None => self.begin(name, &item).await?,
        };
        let is_said = self.items.end(at);
        match item.kind() {
            ResponsesItemKind::Message => {
                for part in item.content.map(ResponsesOutputContent::parts).into_iter().flatten().filter(|_| !is_said) {
                    self.assembly.text(part.text.unwrap_or_default()).await?;
                    let refusal = part.refusal.unwrap_or_default();
                    self.refused |= !refusal.is_empty();
                    self.assembly.text(refusal).await?;
                }
                let phase = item.phase.filter(|phase| phase.len() <= limits::REPLY_WORD_BYTES);
                if let Some(phase) = phase
                    && self.items.keep(at)
                {
                    self.assembly.split();
                    self.assembly.seal(&opaque_state::phase(self.source, &phase))?;
                    self.assembly.split();
                }
            }
            ResponsesItemKind::Reasoning => {
                let is_of_use = item.is_of_use();
                if !is_said {
                    let words = item.summary.filter(ResponsesOutputContent::says_something).or(item.content);
                    let words =
                        words.map(ResponsesOutputContent::parts).into_iter().flatten().filter_map(|part| part.text);
                    self.assembly.thinking(words.collect::<Vec<_>>().join(BETWEEN_THOUGHTS)).await?;
                }
                if is_of_use && self.items.keep(at) {
                    self.assembly.seal(&opaque_state::reasoning(self.source, json))?;
                    self.assembly.split();
                }
            }
            ResponsesItemKind::Call => {
                self.name_call(at, &item).await?;
                let call = self.items.call(at);
                self.rest_of_arguments(call, &item.arguments.map(arguments::read).unwrap_or_default())?;
            }
            ResponsesItemKind::Other => {}
        }
        Ok(())
    }

    fn rest_of_arguments(&mut self, call: usize, whole: &str) -> Result<(), Fault> {
        let rest = whole.strip_prefix(self.assembly.call(call).arguments.as_str()).unwrap_or_default().to_owned();
        self.assembly.arguments(call, &rest)
    }

    async fn text(&mut self, name: ResponsesItemRef<'_>, text: String, says: ResponsesTextKind) -> Result<(), Fault> {
        let at = self.item(ResponsesItemKind::Message, name)?;
        if !text.is_empty() && (self.items.say(at).is_new_part || says == ResponsesTextKind::More) {
            self.assembly.text(text).await?;
        }
        Ok(())
    }

    async fn refusal(
        &mut self,
        name: ResponsesItemRef<'_>,
        text: String,
        says: ResponsesTextKind,
    ) -> Result<(), Fault> {
        self.refused |= !text.is_empty();
        self.text(name, text, says).await
    }

    async fn thought(
        &mut self,
        name: ResponsesItemRef<'_>,
        mut text: String,
        says: ResponsesTextKind,
    ) -> Result<(), Fault> {
        let at = self.item(ResponsesItemKind::Reasoning, name)?;
        if text.is_empty() {
            return Ok(());
        }
        let said = self.items.say(at);
        if said.is_new_part || says == ResponsesTextKind::More {
            if said.is_new_part && !said.is_first_part {
                text.insert_str(0, BETWEEN_THOUGHTS);
            }
            self.assembly.thinking(text).await?;
        }
        Ok(())
    }

    /// Takes what only the whole reply contains, and the stop reason. The reply's status decides, or without one the name of
    /// the event.
    async fn whole(&mut self, whole: ResponsesReply<'_>, event: &str) -> Result<(), Fault> {
        if let Some(model) = &whole.model {
            self.assembly.model(self.source, model);
        }
        if let Some(usage) = &whole.usage {
            self.assembly.usage(usage.usage()).await;
        }
        // A final event ends the reply even if the status in it says otherwise.
        let is_under_way = |status: &&str| !event.is_empty() && matches!(*status, "in_progress" | "queued");
        let status = whole.status.as_deref().filter(|status| !is_under_way(status)).unwrap_or(event);
        if let Some(error) = whole.error {
            return Err(self.source.fault(error.get()));
        }
        if matches!(status, "failed" | "cancelled" | "in_progress" | "queued") {
            return Err(self.source.unavailable(&format!("ended its reply with the status {status}")));
        }
        let mut order = self.items.in_order();
        for json in whole.output.into_iter().flatten() {
            let item: ResponsesOutputItem = self.parse(json.get())?;
            let id = item.id.clone().unwrap_or_default();
            let known = order.next(&self.items, item.kind(), &id, item.call_id.as_deref());
            self.end(known, ResponsesItemRef { index: None, id: &id }, item, json).await?;
        }
        let reason = whole.incomplete_details.and_then(|details| details.reason);
        self.stop = Some(match (status, reason.as_deref()) {
            (_, Some("max_output_tokens" | "max_tokens" | "length")) => StopReason::MaxTokens,
            (_, Some("content_filter")) => StopReason::Refusal,
            (_, Some(other)) => StopReason::Other(self.source.word(other)),
            ("incomplete", None) => StopReason::MaxTokens,
            _ => StopReason::EndTurn,
        });
        Ok(())
    }

    async fn finish(self) -> Result<Completion, Fault> {
        let Self { assembly, source, stop, refused, .. } = self;
        let stop = match stop {
            _ if refused => StopReason::Refusal,
            Some(stop) => stop,
            None => return Err(source.unavailable("ended its reply early")),
        };
        assembly.finish(stop, source).await
    }
}

/// The separator between the parts of a thought.
const BETWEEN_THOUGHTS: &str = "\n\n";

/// The relation of a text to its part: a further piece, or a repetition of the whole part.
#[derive(Clone, Copy, PartialEq)]
enum ResponsesTextKind {
    More,
    Again,
}
