//! Reading of a reply from an event stream, or from one JSON document of a server that does not stream.

use std::{borrow::Cow, collections::HashMap};

use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::opaque_state::{REDACTED, SIGNATURE};
use crate::{
    arguments,
    assembly::ReplyAssembly,
    borrowed_text::BorrowedText,
    incoming_reply::{ReplyReader, ReplySource, next_event},
    tool_names::ToolNames,
};
use shelly_core::{
    error::Fault,
    limits,
    model::{Completion, DeltaSink, StopReason, Usage},
};
use shelly_net::sse::SseEventStream;

/// The stop reason that is assumed if the server ends a reply without one.
const END: &str = "end_turn";
/// The characters in the JSON of an object without fields.
const IN_EMPTY: &[char] = &['{', '}', ' ', '\n', '\r', '\t'];

/// An event. Its contents are parsed once its kind is known, because the vendor adds kinds.
#[derive(Deserialize)]
struct AnthropicEvent<'a> {
    #[serde(borrow)]
    r#type: Option<BorrowedText<'a>>,
    index: Option<u64>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    usage: Option<AnthropicUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

/// A whole reply, or the head of a streamed one.
#[derive(Deserialize)]
struct AnthropicReplyMessage<'a> {
    model: Option<String>,
    #[serde(borrow)]
    content: Option<Vec<&'a RawValue>>,
    stop_reason: Option<String>,
    usage: Option<AnthropicUsage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AnthropicReplyBlock<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct AnthropicBlockDelta<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    text: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    partial_json: Option<String>,
}

#[derive(Deserialize)]
struct AnthropicMessageDelta {
    stop_reason: Option<String>,
}

/// Cumulative token counts, which do not overlap.
#[derive(Deserialize)]
struct AnthropicUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

/// The state of a reply that is being read.
pub struct AnthropicReplyReader<'a> {
    assembly: ReplyAssembly<'a>,
    source: &'a ReplySource<'a>,
    /// The newest block of each index.
    blocks: HashMap<u64, AnthropicOpenBlock>,
    begun: usize,
    usage: Usage,
    stop: Option<String>,
}

/// A block that may still grow.
#[derive(Clone, Copy)]
enum AnthropicOpenBlock {
    /// Text, with its index in the assembly.
    Text(usize),
    /// A thought, with its index in the assembly; `true` once its signature has begun.
    Thought(usize, bool),
    /// A tool call, with its index in the assembly; `true` if its arguments came whole.
    Call(usize, bool),
    /// A block that is not kept.
    Other,
}

impl ReplyReader for AnthropicReplyReader<'_> {
    async fn read_events(mut self, mut events: SseEventStream) -> Result<Completion, Fault> {
        while let Some(event) = next_event(&mut events, self.stop.is_some()).await? {
            let is_end = match event.data.trim() {
                "" => false,
                // Servers that translate from another API may end with that API's marker.
                "[DONE]" => true,
                data => {
                    let mut wire: AnthropicEvent =
                        serde_json::from_str(data).map_err(|error| self.source.garbled(&error))?;
                    let kind = wire.r#type.take();
                    let kind = kind.as_deref().unwrap_or(&event.name);
                    if kind == "error" || wire.error.is_some() {
                        return Err(self.source.fault(wire.error.map_or(data, RawValue::get)));
                    }
                    self.take(kind, wire).await?;
                    kind == "message_stop"
                }
            };
            if is_end {
                // The event ends the reply, even if the server gave no stop reason.
                self.stop.get_or_insert_with(|| END.into());
                // The connection is reusable once its end is read; that end has usually arrived already.
                let _ = events.next().now_or_never();
                break;
            }
            events.note_progress(self.assembly.progress());
        }
        self.finish().await
    }

    async fn read_json(mut self, json: &[u8]) -> Result<Completion, Fault> {
        let message: AnthropicReplyMessage =
            serde_json::from_slice(json).map_err(|error| self.source.garbled(&error))?;
        if let Some(error) = message.error {
            return Err(self.source.fault(error.get()));
        }
        let Some(blocks) = &message.content else {
            return Err(self.source.unavailable("sent a reply without content"));
        };
        for (index, block) in (0..).zip(blocks) {
            self.begin(index, block).await?;
        }
        self.head(&message).await;
        self.stop = Some(message.stop_reason.unwrap_or_else(|| END.into()));
        self.finish().await
    }
}

impl<'a> AnthropicReplyReader<'a> {
    /// Creates the reader of one reply. With `printed`, calls and thoughts are looked for in the text.
    pub fn new(printed: bool, source: &'a ReplySource<'a>, names: &'a ToolNames, sink: &'a DeltaSink) -> Self {
        let assembly = ReplyAssembly::new(names, sink).reading_text(printed, printed);
        Self { assembly, source, blocks: HashMap::new(), begun: 0, usage: Usage::default(), stop: None }
    }

    async fn take(&mut self, kind: &str, event: AnthropicEvent<'_>) -> Result<(), Fault> {
        let index = event.index.unwrap_or(0);
        match (kind, event) {
            ("message_start", AnthropicEvent { message: Some(message), .. }) => {
                let message = self.parse(message)?;
                self.head(&message).await;
            }
            ("content_block_start", AnthropicEvent { content_block: Some(block), .. }) => {
                self.begin(index, block).await?
            }
            ("content_block_delta", AnthropicEvent { delta: Some(delta), .. }) => self.grow(index, delta).await?,
            ("message_delta", AnthropicEvent { delta, usage, .. }) => {
                if let Some(delta) = delta {
                    let AnthropicMessageDelta { stop_reason } = self.parse(delta)?;
                    self.stop = stop_reason.filter(|reason| !reason.is_empty()).or(self.stop.take());
                }
                self.count(usage.as_ref()).await;
            }
            // The end of a block, a ping, or an event that the vendor may add.
            _ => {}
        }
        Ok(())
    }

    async fn head(&mut self, message: &AnthropicReplyMessage<'_>) {
        if let Some(model) = &message.model {
            self.assembly.model(self.source, model);
        }
        self.count(message.usage.as_ref()).await;
    }

    /// Updates the counts, which are cumulative. Some servers know them only at the end, others only at the beginning.
    async fn count(&mut self, usage: Option<&AnthropicUsage>) {
        let Some(wire) = usage else { return };
        let Usage { input_tokens, output_tokens, cache_read_tokens, cache_write_tokens } = &mut self.usage;
        for (sum, count) in [
            (input_tokens, wire.input_tokens),
            (output_tokens, wire.output_tokens),
            (cache_read_tokens, wire.cache_read_input_tokens),
            (cache_write_tokens, wire.cache_creation_input_tokens),
        ] {
            *sum = count.unwrap_or(0).max(*sum);
        }
        self.assembly.usage(self.usage).await;
    }

    async fn begin(&mut self, index: u64, block: &RawValue) -> Result<(), Fault> {
        let kinds = ["text", "thinking", "redacted_thinking", "tool_use"];
        match self.known(block, &kinds)? {
            Some(block) => self.begin_block(index, block).await,
            None => self.place(index, AnthropicOpenBlock::Other),
        }
    }

    async fn begin_block(&mut self, index: u64, block: AnthropicReplyBlock<'_>) -> Result<(), Fault> {
        match &*block.r#type {
            "text" => {
                let place = self.assembly.split();
                self.place(index, AnthropicOpenBlock::Text(place))?;
                self.assembly.text(block.text.unwrap_or_default()).await
            }
            "thinking" => {
                let place = self.assembly.split();
                self.place(index, AnthropicOpenBlock::Thought(place, false))?;
                self.assembly.thinking(block.thinking.unwrap_or_default()).await?;
                self.sign(index, &block.signature.unwrap_or_default())
            }
            "redacted_thinking" => {
                self.place(index, AnthropicOpenBlock::Other)?;
                self.assembly.split();
                match block.data.unwrap_or_default() {
                    data if data.is_empty() => Ok(()),
                    data => self.assembly.seal(&format!("{REDACTED}{data}")),
                }
            }
            "tool_use" => {
                let at = self.assembly.begin_call()?;
                // Empty if the arguments follow in deltas.
                let input = block.input.map(arguments::read).filter(|input| !input.trim_matches(IN_EMPTY).is_empty());
                self.place(index, AnthropicOpenBlock::Call(at, input.is_some()))?;
                self.assembly.call_id(at, block.id.unwrap_or_default())?;
                self.assembly.arguments(at, &input.unwrap_or_default())?;
                self.assembly.call_name(at, block.name.unwrap_or_default()).await
            }
            _ => self.place(index, AnthropicOpenBlock::Other),
        }
    }

    async fn grow(&mut self, index: u64, delta: &RawValue) -> Result<(), Fault> {
        let kinds = ["text_delta", "thinking_delta", "signature_delta", "input_json_delta"];
        let Some(delta) = self.known::<AnthropicBlockDelta>(delta, &kinds)? else { return Ok(()) };
        let kind = &*delta.r#type;
        if !self.blocks.contains_key(&index) {
            // Some servers omit the start of a block.
            let begun = match kind {
                "text_delta" => "text",
                "thinking_delta" | "signature_delta" => "thinking",
                "input_json_delta" => return Err(self.source.unavailable("sent arguments without a tool call")),
                _ => return Ok(()),
            };
            self.begin_block(index, AnthropicReplyBlock { r#type: begun.into(), ..AnthropicReplyBlock::default() })
                .await?;
        }
        match (kind, self.blocks[&index]) {
            ("text_delta", AnthropicOpenBlock::Text(place)) => {
                self.assembly.return_to(place);
                self.assembly.text(delta.text.unwrap_or_default()).await
            }
            ("thinking_delta", AnthropicOpenBlock::Thought(place, _)) => {
                self.assembly.return_to(place);
                self.assembly.thinking(delta.thinking.unwrap_or_default()).await
            }
            ("signature_delta", AnthropicOpenBlock::Thought(..)) => {
                self.sign(index, &delta.signature.unwrap_or_default())
            }
            ("input_json_delta", AnthropicOpenBlock::Call(at, false)) => {
                self.assembly.arguments(at, &delta.partial_json.unwrap_or_default())
            }
            // Citations, and deltas of blocks that are not kept.
            _ => Ok(()),
        }
    }

    /// Appends to the signature that proves a thought to be the model's own.
    fn sign(&mut self, index: u64, signature: &str) -> Result<(), Fault> {
        if let Some(AnthropicOpenBlock::Thought(place, is_signed)) = self.blocks.get_mut(&index)
            && !signature.is_empty()
        {
            self.assembly.return_to(*place);
            if !std::mem::replace(is_signed, true) {
                self.assembly.seal(SIGNATURE)?;
            }
            self.assembly.seal(signature)?;
        }
        Ok(())
    }

    /// Registers a block under its index. An earlier block of that index stops growing.
    fn place(&mut self, index: u64, block: AnthropicOpenBlock) -> Result<(), Fault> {
        self.begun += 1;
        if self.begun > limits::ANTHROPIC_REPLY_BLOCKS {
            let message = format!("the reply has more than {} blocks", limits::ANTHROPIC_REPLY_BLOCKS);
            return Err(Fault::TooLarge { message });
        }
        self.blocks.insert(index, block);
        Ok(())
    }

    fn parse<'w, T: Deserialize<'w>>(&self, raw: &'w RawValue) -> Result<T, Fault> {
        serde_json::from_str(raw.get()).map_err(|error| self.source.garbled(&error))
    }

    /// Parses an object that may be of a kind other than `kinds`, in which case it may have any shape. Returns `None` for
    /// such a kind.
    fn known<'w, T: Deserialize<'w>>(&self, raw: &'w RawValue, kinds: &[&str]) -> Result<Option<T>, Fault> {
        #[derive(Deserialize)]
        struct AnthropicTypeTag<'w> {
            #[serde(borrow)]
            r#type: Cow<'w, str>,
        }
        match serde_json::from_str(raw.get()) {
            Ok(known) => Ok(Some(known)),
            Err(error) => match serde_json::from_str::<AnthropicTypeTag>(raw.get()) {
                Ok(kind) if !kinds.contains(&&*kind.r#type) => Ok(None),
                _ => Err(self.source.garbled(&error)),
            },
        }
    }

    async fn finish(self) -> Result<Completion, Fault> {
        let Self { assembly, source, stop, .. } = self;
        let Some(stop) = stop else { return Err(source.unavailable("ended its reply early")) };
        let stop = match stop.as_str() {
            // Some servers report the end of a turn even for tool calls.
            END | "tool_use" => StopReason::EndTurn,
            "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
            "stop_sequence" => StopReason::StopSequence,
            "refusal" => StopReason::Refusal,
            other => StopReason::Other(source.word(other)),
        };
        assembly.finish(stop, source).await
    }
}
