//! Conversions from the host's values to the guest's, limited to what its powers let it see.

use std::time::Duration;

use super::text::sha256;
use crate::bindings::types::{self as wit, Error as WitError};
use shelly_core::{
    capability::{Power, Powers},
    chat::{
        ChatSnapshot, Media, MediaData, Message, OpaqueContent, Part, Role, StopReason, ThinkingPart, ToolCall,
        ToolHints, ToolResultContent, ToolSpec, Usage,
    },
    error::Fault,
    model::{Completion, CompletionRequest, ToolChoice},
};

pub fn fault_to_wit(fault: &Fault) -> WitError {
    let retry = |message: &str, after: Option<Duration>| wit::Retry {
        message: message.into(),
        after_ms: after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
    };
    match fault {
        Fault::Invalid { message } => WitError::Invalid(message.clone()),
        Fault::Denied { message } => WitError::Denied(message.clone()),
        Fault::NotFound { message } => WitError::NotFound(message.clone()),
        Fault::TooLarge { message } => WitError::TooLarge(message.clone()),
        Fault::Exhausted { message } => WitError::Exhausted(message.clone()),
        Fault::RateLimited { message, after } => WitError::RateLimited(retry(message, *after)),
        Fault::Unavailable { message, after } => WitError::Unavailable(retry(message, *after)),
        Fault::Timeout { message } => WitError::Timeout(message.clone()),
        Fault::Other { message } => WitError::Other(message.clone()),
    }
}

pub fn usage_to_wit(usage: Usage) -> wit::Usage {
    wit::Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
    }
}

pub fn role_to_wit(role: Role) -> wit::Role {
    match role {
        Role::System => wit::Role::System,
        Role::User => wit::Role::User,
        Role::Assistant => wit::Role::Assistant,
        Role::Tool => wit::Role::Tool,
    }
}

fn media_to_wit(media: &Media) -> wit::Media {
    let source = match &media.source {
        // A guest gets the id of the bytes, not the bytes.
        MediaData::Bytes(bytes) => wit::Source::Attachment(sha256(bytes)),
        MediaData::Url(url) => wit::Source::Url(url.clone()),
    };
    wit::Media { media_type: media.media_type.clone(), name: media.name.clone(), source }
}

fn opaque_to_wit(opaque: &OpaqueContent) -> wit::Opaque {
    wit::Opaque { kind: opaque.kind.clone(), json: opaque.json.clone() }
}

fn content_to_wit(content: &ToolResultContent) -> wit::Content {
    match content {
        ToolResultContent::Text(text) => wit::Content::Text(text.clone()),
        ToolResultContent::Json(json) => wit::Content::Json(json.clone()),
        ToolResultContent::Media(media) => wit::Content::Media(media_to_wit(media)),
        ToolResultContent::Other(opaque) => wit::Content::Other(opaque_to_wit(opaque)),
    }
}

pub fn tool_call_to_wit(call: &ToolCall) -> wit::ToolCall {
    wit::ToolCall {
        id: call.id.clone(),
        name: call.name.clone(),
        arguments: call.arguments.clone(),
        meta: call.meta.clone(),
    }
}

/// Converts a whole message, for a model and for run middleware.
pub fn message_to_wit(message: &Message) -> wit::Message {
    let all = [Power::SeeMessages, Power::SeeArguments, Power::SeeResults];
    message_seen(message, &all.into())
}

/// Converts the parts of a message that these powers make visible.
pub fn message_seen(message: &Message, powers: &Powers) -> wit::Message {
    let sees = |power| powers.contains(&power);
    let part = |part: &Part| match part {
        Part::Text(text) => wit::Part::Text(text.clone()),
        Part::Media(media) => wit::Part::Media(media_to_wit(media)),
        Part::Thinking(ThinkingPart { text, opaque }) => {
            wit::Part::Thinking(wit::Thinking { text: text.clone(), opaque: opaque.clone() })
        }
        Part::ToolCall(call) if sees(Power::SeeArguments) => wit::Part::ToolCall(tool_call_to_wit(call)),
        Part::ToolCall(call) => wit::Part::ToolCall(wit::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: "{}".into(),
            meta: vec![],
        }),
        Part::ToolResult(result) => wit::Part::ToolResult(wit::ToolResult {
            call_id: result.call_id.clone(),
            content: if sees(Power::SeeResults) { result.content.iter().map(content_to_wit).collect() } else { vec![] },
            is_error: result.is_error,
        }),
        Part::Other(opaque) => wit::Part::Other(opaque_to_wit(opaque)),
    };
    let parts = if sees(Power::SeeMessages) { message.parts.iter().map(part).collect() } else { vec![] };
    wit::Message { sender: message.sender.clone(), role: role_to_wit(message.role), parts, meta: message.meta.clone() }
}

pub fn hints_to_wit(hints: &ToolHints) -> wit::ToolHints {
    let when = |on, flag| if on { flag } else { wit::ToolHints::empty() };
    when(hints.read_only, wit::ToolHints::READ_ONLY)
        | when(hints.non_destructive, wit::ToolHints::NON_DESTRUCTIVE)
        | when(hints.idempotent, wit::ToolHints::IDEMPOTENT)
        | when(hints.closed_world, wit::ToolHints::CLOSED_WORLD)
}

pub fn content_list_to_wit(content: &[ToolResultContent]) -> Vec<wit::Content> {
    content.iter().map(content_to_wit).collect()
}

fn tool_spec_to_wit(spec: &ToolSpec) -> wit::ToolSpec {
    wit::ToolSpec {
        name: spec.name.clone(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.get().into(),
        output_schema: None,
        hints: hints_to_wit(&spec.hints),
        meta: vec![],
    }
}

pub fn request_to_wit(request: &CompletionRequest) -> wit::Request {
    request_with(request, message_to_wit)
}

/// Converts the parts of a request that these powers make visible.
pub fn request_seen(request: &CompletionRequest, powers: &Powers) -> wit::Request {
    request_with(request, |message| message_seen(message, powers))
}

/// Returns the empty request, for a call that concerns none.
pub fn no_request() -> wit::Request {
    request_to_wit(&CompletionRequest::new(ChatSnapshot::default(), [].into()))
}

fn request_with(request: &CompletionRequest, message: impl Fn(&Message) -> wit::Message) -> wit::Request {
    wit::Request {
        messages: request.messages.iter().map(|entry| message(&entry.message)).collect(),
        tools: request.tools.iter().map(|spec| tool_spec_to_wit(spec)).collect(),
        tool_choice: match &request.tool_choice {
            ToolChoice::Auto => wit::ToolChoice::Auto,
            ToolChoice::Never => wit::ToolChoice::Never,
            ToolChoice::Required => wit::ToolChoice::Required,
            ToolChoice::Tool(name) => wit::ToolChoice::Tool(name.clone()),
        },
        max_output_tokens: request.max_output_tokens,
        temperature: request.temperature,
        response_schema: request.response_schema.clone(),
        meta: request.meta.clone(),
    }
}

/// Converts the answer to a step's query to a model.
pub fn reply_to_wit(reply: &Result<Completion, Fault>) -> Result<wit::Completion, WitError> {
    reply.as_ref().map(completion_to_wit).map_err(fault_to_wit)
}

pub fn completion_to_wit(completion: &Completion) -> wit::Completion {
    let Message { parts, meta, .. } = completion.clone().into_message("");
    let message = message_to_wit(&Message { sender: String::new(), role: Role::Assistant, parts, meta });
    wit::Completion {
        parts: message.parts,
        stop: match &completion.stop {
            StopReason::EndTurn => wit::StopReason::EndTurn,
            StopReason::ToolCalls => wit::StopReason::ToolCalls,
            StopReason::MaxTokens => wit::StopReason::MaxTokens,
            StopReason::StopSequence => wit::StopReason::StopSequence,
            StopReason::Refusal => wit::StopReason::Refusal,
            StopReason::Other(word) => wit::StopReason::Other(word.clone()),
        },
        usage: usage_to_wit(completion.usage),
        model: completion.model.clone(),
        meta: message.meta,
    }
}
