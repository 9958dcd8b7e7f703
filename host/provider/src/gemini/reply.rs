//! Reading of a reply from an event stream or from one JSON document.
//!
//! Each event is a complete response that contains the new parts. The parts are complete, except for text, which continues
//! in the next event.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::opaque_state;
use crate::{
    assembly::ReplyAssembly,
    borrowed_text::BorrowedText,
    incoming_reply::{ReplyReader, ReplySource, next_event},
    tool_names::ToolNames,
};
use shelly_core::{
    error::Fault,
    model::{Completion, DeltaSink, StopReason, Usage},
};
use shelly_net::sse::SseEventStream;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiChunk<'a> {
    #[serde(borrow)]
    candidates: Option<Vec<GeminiCandidate<'a>>>,
    prompt_feedback: Option<GeminiPromptFeedback>,
    usage_metadata: Option<GeminiUsage>,
    #[serde(borrow)]
    model_version: Option<BorrowedText<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCandidate<'a> {
    index: Option<u32>,
    #[serde(borrow)]
    content: Option<GeminiReplyContent<'a>>,
    finish_reason: Option<String>,
    finish_message: Option<String>,
}

#[derive(Deserialize)]
struct GeminiReplyContent<'a> {
    #[serde(borrow)]
    parts: Option<Vec<GeminiReplyPart<'a>>>,
}

/// Parts of other kinds, such as code that the vendor ran, have none of these fields and are skipped.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiReplyPart<'a> {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<GeminiReplyCall<'a>>,
    inline_data: Option<GeminiReplyBlob>,
}

#[derive(Deserialize)]
struct GeminiReplyCall<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiReplyBlob {
    mime_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPromptFeedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GeminiUsage {
    prompt_token_count: Option<u64>,
    cached_content_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
}

impl GeminiUsage {
    /// Returns the counts without overlap. The API counts cached tokens as prompt tokens too, thoughts in addition to the
    /// reply, and the results of its own tools in addition to the prompt.
    fn usage(&self) -> Usage {
        let prompt = self.prompt_token_count.unwrap_or(0);
        let cached = self.cached_content_token_count.unwrap_or(0).min(prompt);
        let beside = |count: u64, more: Option<u64>| count.saturating_add(more.unwrap_or(0));
        Usage {
            input_tokens: beside(prompt - cached, self.tool_use_prompt_token_count),
            output_tokens: beside(self.candidates_token_count.unwrap_or(0), self.thoughts_token_count),
            cache_read_tokens: cached,
            cache_write_tokens: 0,
        }
    }
}

/// The state of a reply that is being read.
pub struct GeminiReplyReader<'a> {
    assembly: ReplyAssembly<'a>,
    source: &'a ReplySource<'a>,
    stop: Option<StopReason>,
    /// The fault of a reply that stopped because of a failure.
    failure: Option<Fault>,
}

impl ReplyReader for GeminiReplyReader<'_> {
    async fn read_events(mut self, mut events: SseEventStream) -> Result<Completion, Fault> {
        while let Some(event) = next_event(&mut events, self.stop.is_some()).await? {
            if event.data.trim().is_empty() || event.data.trim() == "[DONE]" {
                continue;
            }
            let chunk = serde_json::from_str(&event.data).map_err(|error| self.source.garbled(&error))?;
            self.take(chunk).await?;
            events.note_progress(self.assembly.progress());
        }
        self.finish().await
    }

    async fn read_json(mut self, json: &[u8]) -> Result<Completion, Fault> {
        // Without an event stream, the same chunks come as an array.
        let chunks: Result<Vec<GeminiChunk>, _> = match json.first() {
            Some(b'[') => serde_json::from_slice(json),
            _ => serde_json::from_slice(json).map(|chunk| vec![chunk]),
        };
        for chunk in chunks.map_err(|error| self.source.garbled(&error))? {
            self.take(chunk).await?;
        }
        self.finish().await
    }
}

impl<'a> GeminiReplyReader<'a> {
    /// Creates the reader of one reply.
    pub fn new(source: &'a ReplySource<'a>, names: &'a ToolNames, sink: &'a DeltaSink) -> Self {
        Self { assembly: ReplyAssembly::new(names, sink), source, stop: None, failure: None }
    }

    async fn take(&mut self, chunk: GeminiChunk<'_>) -> Result<(), Fault> {
        if let Some(error) = chunk.error {
            return Err(self.source.fault(error.get()));
        }
        if let Some(model) = &chunk.model_version {
            self.assembly.model(self.source, model);
        }
        if let Some(usage) = chunk.usage_metadata {
            self.assembly.usage(usage.usage()).await;
        }
        if chunk.prompt_feedback.is_some_and(|feedback| feedback.block_reason.is_some()) {
            self.stop = Some(StopReason::Refusal);
        }
        // The request asks for one candidate; others are ignored.
        let candidate = chunk.candidates.into_iter().flatten().find(|candidate| candidate.index.unwrap_or(0) == 0);
        if let Some(candidate) = candidate {
            for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
                self.part(part).await?;
            }
            if let Some(reason) = candidate.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stop(&reason, candidate.finish_message.as_deref());
            }
        }
        Ok(())
    }

    /// Adds a part. A signature must be sent back in the part that it came in, so text with a signature is kept apart from
    /// the text around it.
    async fn part(&mut self, part: GeminiReplyPart<'_>) -> Result<(), Fault> {
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            return self.call(call, signature).await;
        }
        if let Some(blob) = part.inline_data {
            // A completion holds only text and calls; other data is replaced by a note.
            let kind = self.source.word(blob.mime_type.as_deref().unwrap_or("data"));
            self.assembly.text(format!("[{kind}: cannot be shown]")).await?;
        }
        let text = part.text.unwrap_or_default();
        let Some(signature) = signature else {
            return match part.thought {
                Some(true) => self.assembly.thinking(text).await,
                _ => self.assembly.text(text).await,
            };
        };
        let kind = if part.thought == Some(true) {
            self.assembly.thinking(text).await?;
            opaque_state::THOUGHT
        } else {
            let kind = if text.is_empty() { opaque_state::ALONE } else { opaque_state::TEXT };
            self.assembly.split();
            self.assembly.text(text).await?;
            self.assembly.split();
            kind
        };
        self.assembly.seal(&format!("{kind}{signature}"))?;
        self.assembly.split();
        Ok(())
    }

    /// Adds a call. If its id is missing, the chat assigns one, because it knows which ids are taken.
    async fn call(&mut self, call: GeminiReplyCall<'_>, signature: Option<String>) -> Result<(), Fault> {
        let at = self.assembly.begin_call()?;
        if let Some(id) = call.id.filter(|id| !id.is_empty()) {
            self.assembly.call_fact(at, opaque_state::ID, id.clone())?;
            self.assembly.call_id(at, id)?;
        }
        if let Some(signature) = signature {
            self.assembly.call_fact(at, opaque_state::CALL, signature)?;
        }
        self.assembly.call_name(at, call.name.unwrap_or_default()).await?;
        let arguments = call.args.map(RawValue::get).filter(|arguments| *arguments != "null");
        self.assembly.arguments(at, arguments.unwrap_or_default())
    }

    fn stop(&mut self, reason: &str, message: Option<&str>) {
        let reason = match reason {
            "STOP" => StopReason::EndTurn,
            "MAX_TOKENS" => StopReason::MaxTokens,
            "SAFETY"
            | "RECITATION"
            | "PROHIBITED_CONTENT"
            | "BLOCKLIST"
            | "SPII"
            | "LANGUAGE"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION"
            | "MODEL_ARMOR" => StopReason::Refusal,
            other => {
                // The model wrote a call that its vendor could not parse, which happens now and then. There is nothing to
                // run, and another attempt usually succeeds.
                if matches!(other, "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE") {
                    let said = self.source.word(message.unwrap_or(other));
                    self.failure = Some(self.source.unavailable(&format!("aborted its reply: {said}")));
                }
                StopReason::Other(self.source.word(other))
            }
        };
        self.stop = Some(reason);
    }

    async fn finish(self) -> Result<Completion, Fault> {
        let Self { assembly, source, stop, failure } = self;
        if let Some(fault) = failure {
            return Err(fault);
        }
        match stop {
            None => Err(source.unavailable("ended its reply early")),
            Some(stop) => assembly.finish(stop, source).await,
        }
    }
}
