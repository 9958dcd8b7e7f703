//! Between the contract's types and ours, with the bounds of what a guest may say.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use sha2::{Digest as _, Sha256};

use super::bindings::types as wit;
use crate::{
    capability::{Power, Powers},
    chat::{
        Content, Media, Message, Meta, Opaque, Part, Role, Snapshot, Source, StopReason, Thinking, ToolCall, ToolHints,
        ToolResult, ToolSpec, Usage,
    },
    error::Fault,
    limits,
    model::{Completion, CompletionRequest, ToolChoice},
};

pub use wit::Error as WitError;

/// At most `bytes` of a text, cut between characters, with a mark where it was cut.
pub fn bounded(mut text: String, bytes: usize) -> String {
    const MARK: &str = "…";
    if text.len() > bytes {
        let end = bytes.saturating_sub(MARK.len());
        let end = (0..=end).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push_str(MARK);
    }
    text
}

fn too_large(what: &str, bytes: usize, most: usize) -> Fault {
    Fault::TooLarge { message: format!("{what} has {bytes} bytes, at most {most} are taken") }
}

// ---- from a guest

/// A failure that a guest returned.
pub fn fault(error: WitError) -> Fault {
    let text = |message| bounded(message, limits::ERROR_BYTES);
    let retry = |retry: wit::Retry| (text(retry.message), retry.after_ms.map(Duration::from_millis));
    match error {
        WitError::Invalid(message) => Fault::Invalid { message: text(message) },
        WitError::Denied(message) => Fault::Denied { message: text(message) },
        WitError::NotFound(message) => Fault::NotFound { message: text(message) },
        WitError::TooLarge(message) => Fault::TooLarge { message: text(message) },
        WitError::Exhausted(message) => Fault::Exhausted { message: text(message) },
        WitError::RateLimited(again) => {
            let (message, after) = retry(again);
            Fault::RateLimited { message, after }
        }
        WitError::Unavailable(again) => {
            let (message, after) = retry(again);
            Fault::Unavailable { message, after }
        }
        WitError::Timeout(message) => Fault::Timeout { message: text(message) },
        WitError::Other(message) => Fault::Other { message: text(message) },
    }
}

pub fn usage(usage: wit::Usage) -> Usage {
    Usage {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
    }
}

pub fn meta(meta: Vec<(String, String)>) -> Result<Meta, Fault> {
    let bytes: usize = meta.iter().map(|(key, value)| key.len() + value.len()).sum();
    if meta.len() > limits::META_PAIRS || bytes > limits::META_BYTES {
        return Err(too_large("a `meta`", bytes, limits::META_BYTES));
    }
    let mut seen = HashSet::new();
    if let Some((twice, _)) = meta.iter().find(|(key, _)| !seen.insert(key)) {
        return Err(Fault::invalid(format!("a `meta` has the key `{}` twice", twice.escape_debug())));
    }
    Ok(meta)
}

/// The media that one call was handed, so that it can hand them back by their ids: to a guest bytes are an attachment.
pub struct Attached<'a> {
    media: Vec<&'a Arc<[u8]>>,
    /// Made for the first id that is looked up: most calls hand back none.
    by_id: OnceCell<HashMap<String, &'a Arc<[u8]>>>,
}

impl<'a> Attached<'a> {
    /// Nothing.
    pub fn none() -> Self {
        Self::in_parts([])
    }

    /// What is in these parts, results of tools included.
    pub fn in_parts(parts: impl IntoIterator<Item = &'a Part>) -> Self {
        let mut media = Vec::new();
        let mut take = |piece: &'a Media| match &piece.source {
            Source::Bytes(bytes) => media.push(bytes),
            Source::Url(_) => {}
        };
        for part in parts {
            match part {
                Part::Media(piece) => take(piece),
                Part::ToolResult(result) => {
                    let pieces = result.content.iter();
                    pieces.for_each(|content| {
                        if let Content::Media(piece) = content {
                            take(piece)
                        }
                    });
                }
                _ => {}
            }
        }
        Self { media, by_id: OnceCell::new() }
    }

    /// What is in a conversation.
    pub fn in_chat(chat: &'a Snapshot) -> Self {
        Self::in_parts(chat.iter().flat_map(|entry| &entry.message.parts))
    }

    fn find(&self, id: &str) -> Option<Arc<[u8]>> {
        let by_id = || self.media.iter().map(|bytes| (attachment_id(bytes), *bytes)).collect();
        self.by_id.get_or_init(by_id).get(id).map(|bytes| Arc::clone(bytes))
    }
}

/// Names bytes: their SHA-256 in hexadecimal.
fn attachment_id(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn media(media: wit::Media, attached: &Attached<'_>) -> Result<Media, Fault> {
    let within = |what, bytes, most| if bytes > most { Err(too_large(what, bytes, most)) } else { Ok(()) };
    within("a media type", media.media_type.len(), limits::MEDIA_NAME_BYTES)?;
    within("the name of a medium", media.name.as_ref().map_or(0, String::len), limits::MEDIA_NAME_BYTES)?;
    match &media.source {
        wit::Source::Bytes(bytes) => within("a medium", bytes.len(), limits::MEDIA_BYTES)?,
        wit::Source::Url(url) => within("the address of a medium", url.len(), limits::MEDIA_NAME_BYTES)?,
        wit::Source::Attachment(_) => {}
    }
    let source = match media.source {
        wit::Source::Bytes(bytes) => Source::Bytes(bytes.into()),
        wit::Source::Url(url) => Source::Url(url),
        wit::Source::Attachment(id) => match attached.find(&id) {
            Some(bytes) => Source::Bytes(bytes),
            None => {
                let message = format!("this call was handed no attachment `{}`", bounded(id, 100));
                return Err(Fault::NotFound { message });
            }
        },
    };
    Ok(Media { media_type: media.media_type, name: media.name, source })
}

fn opaque(opaque: wit::Opaque) -> Opaque {
    Opaque { kind: opaque.kind, json: opaque.json }
}

/// What a tool said.
pub fn content(contents: Vec<wit::Content>, attached: &Attached<'_>) -> Result<Vec<Content>, Fault> {
    let bytes: usize = contents.iter().map(wit_content_bytes).sum();
    if bytes > limits::RESULT_BYTES {
        return Err(too_large("the result", bytes, limits::RESULT_BYTES));
    }
    let one = |content| match content {
        wit::Content::Text(text) => Ok(Content::Text(text)),
        wit::Content::Json(json) => Ok(Content::Json(json)),
        wit::Content::Media(piece) => media(piece, attached).map(Content::Media),
        wit::Content::Other(piece) => Ok(Content::Other(opaque(piece))),
        wit::Content::Change(_) => Err(Fault::Other {
            message: "it proposed a change to a file, which this version of shelly-host does not make yet".into(),
        }),
    };
    contents.into_iter().map(one).collect()
}

fn media_bytes(media: &wit::Media) -> usize {
    let source = match &media.source {
        wit::Source::Bytes(bytes) => bytes.len(),
        wit::Source::Attachment(text) | wit::Source::Url(text) => text.len(),
    };
    media.media_type.len() + media.name.as_ref().map_or(0, String::len) + source
}

fn wit_content_bytes(content: &wit::Content) -> usize {
    match content {
        wit::Content::Text(text) | wit::Content::Json(text) => text.len(),
        wit::Content::Media(media) => media_bytes(media),
        wit::Content::Change(change) => change.content.as_ref().map_or(0, Vec::len) + change.path.len(),
        wit::Content::Other(opaque) => opaque.kind.len() + opaque.json.len(),
    }
}

fn tool_call(call: wit::ToolCall) -> Result<ToolCall, Fault> {
    Ok(ToolCall { id: call.id, name: call.name, arguments: call.arguments, meta: meta(call.meta)? })
}

fn part(part: wit::Part, attached: &Attached<'_>) -> Result<Part, Fault> {
    Ok(match part {
        wit::Part::Text(text) => Part::Text(text),
        wit::Part::Media(piece) => Part::Media(media(piece, attached)?),
        wit::Part::Thinking(wit::Thinking { text, opaque }) => Part::Thinking(Thinking { text, opaque }),
        wit::Part::ToolCall(call) => Part::ToolCall(tool_call(call)?),
        wit::Part::ToolResult(result) => Part::ToolResult(ToolResult {
            call_id: result.call_id,
            content: content(result.content, attached)?,
            is_error: result.is_error,
        }),
        wit::Part::Other(piece) => Part::Other(opaque(piece)),
    })
}

/// A message that a guest wrote.
pub fn message(message: wit::Message, attached: &Attached<'_>) -> Result<Message, Fault> {
    let bytes = message_bytes(&message);
    if bytes > limits::REPLY_BYTES {
        return Err(too_large("a message", bytes, limits::REPLY_BYTES));
    }
    let role = match message.role {
        wit::Role::System => Role::System,
        wit::Role::User => Role::User,
        wit::Role::Assistant => Role::Assistant,
        wit::Role::Tool => Role::Tool,
    };
    let parts = message.parts.into_iter().map(|piece| part(piece, attached)).collect::<Result<_, _>>()?;
    Ok(Message { sender: message.sender, role, parts, meta: meta(message.meta)? })
}

/// A completion that a provider plugin returned.
pub fn completion(completion: wit::Completion, attached: &Attached<'_>) -> Result<Completion, Fault> {
    let bytes: usize = completion.parts.iter().map(part_bytes).sum();
    if bytes > limits::REPLY_BYTES {
        return Err(too_large("the reply", bytes, limits::REPLY_BYTES));
    }
    let parts = completion.parts.into_iter().map(|piece| part(piece, attached)).collect::<Result<Vec<_>, _>>()?;
    if parts.iter().any(|part| matches!(part, Part::ToolResult(_))) {
        return Err(Fault::other("the model's reply holds a tool result, which only the host can give"));
    }
    let stop = match completion.stop {
        wit::StopReason::EndTurn => StopReason::EndTurn,
        wit::StopReason::ToolCalls => StopReason::ToolCalls,
        wit::StopReason::MaxTokens => StopReason::MaxTokens,
        wit::StopReason::StopSequence => StopReason::StopSequence,
        wit::StopReason::Refusal => StopReason::Refusal,
        wit::StopReason::Other(word) => StopReason::Other(bounded(word, 100)),
    };
    Ok(Completion {
        parts,
        stop,
        usage: usage(completion.usage),
        model: bounded(completion.model, 200),
        meta: meta(completion.meta)?,
    })
}

/// A tool as a guest describes it, checked: what a model is shown must not mislead who reads it.
pub fn tool_spec(spec: wit::ToolSpec) -> Result<ToolSpec, String> {
    let name = spec.name;
    if !ToolSpec::is_valid_name(&name) {
        return Err(format!(
            "`{}` is not a tool's name: 1 to 64 of A-Z, a-z, 0-9, _ and -",
            bounded(name, 100).escape_debug()
        ));
    }
    let over = |what: &str, bytes: usize, most: usize| {
        format!("the {what} of `{name}` has {bytes} bytes, at most {most} are taken")
    };
    if spec.description.len() > limits::TOOL_DESCRIPTION_BYTES {
        return Err(over("description", spec.description.len(), limits::TOOL_DESCRIPTION_BYTES));
    }
    if spec.input_schema.len() > limits::TOOL_SCHEMA_BYTES {
        return Err(over("schema", spec.input_schema.len(), limits::TOOL_SCHEMA_BYTES));
    }
    let schema: serde_json::Value = serde_json::from_str(&spec.input_schema)
        .map_err(|error| format!("the schema of `{name}` is not JSON: {error}"))?;
    if schema.get("type").and_then(|kind| kind.as_str()) != Some("object") {
        return Err(format!("the schema of `{name}` is not that of an object: its `type` must be \"object\""));
    }
    meta(spec.meta).map_err(|fault| format!("of `{name}`: {fault}"))?;
    let input_schema =
        serde_json::value::RawValue::from_string(spec.input_schema).map_err(|error| error.to_string())?;
    let hints = ToolHints {
        read_only: spec.hints.contains(wit::ToolHints::READ_ONLY),
        non_destructive: spec.hints.contains(wit::ToolHints::NON_DESTRUCTIVE),
        idempotent: spec.hints.contains(wit::ToolHints::IDEMPOTENT),
        closed_world: spec.hints.contains(wit::ToolHints::CLOSED_WORLD),
    };
    Ok(ToolSpec { name, description: spec.description, input_schema: input_schema.into(), hints })
}

/// Bytes of all that a guest says of a tool.
pub fn tool_spec_bytes(spec: &wit::ToolSpec) -> usize {
    let wit::ToolSpec { name, description, input_schema, output_schema, hints: _, meta } = spec;
    let meta: usize = meta.iter().map(|(key, value)| key.len() + value.len()).sum();
    name.len() + description.len() + input_schema.len() + output_schema.as_ref().map_or(0, String::len) + meta
}

/// A request that an effect wants made.
pub fn request(request: wit::Request, attached: &Attached<'_>) -> Result<CompletionRequest, Fault> {
    let messages = request.messages.into_iter().map(|one| message(one, attached)).collect::<Result<Vec<_>, _>>()?;
    let messages = Snapshot::from_messages(messages).map_err(|error| Fault::invalid(error.to_string()))?;
    let tools = request.tools.into_iter().map(|spec| tool_spec(spec).map(Arc::new));
    let tools = tools.collect::<Result<_, _>>().map_err(Fault::invalid)?;
    let tool_choice = match request.tool_choice {
        wit::ToolChoice::Auto => ToolChoice::Auto,
        wit::ToolChoice::Never => ToolChoice::Never,
        wit::ToolChoice::Required => ToolChoice::Required,
        wit::ToolChoice::Tool(name) => ToolChoice::Tool(name),
    };
    Ok(CompletionRequest {
        messages,
        tools,
        tool_choice,
        max_output_tokens: request.max_output_tokens,
        temperature: request.temperature,
        response_schema: request.response_schema,
        meta: meta(request.meta)?,
    })
}

/// Bytes that a message takes to cross.
pub fn message_bytes(message: &wit::Message) -> usize {
    message.sender.len() + message.parts.iter().map(part_bytes).sum::<usize>()
}

fn part_bytes(part: &wit::Part) -> usize {
    match part {
        wit::Part::Text(text) => text.len(),
        wit::Part::Media(media) => media_bytes(media),
        wit::Part::Thinking(thinking) => thinking.text.len() + thinking.opaque.as_ref().map_or(0, String::len),
        wit::Part::ToolCall(call) => call.id.len() + call.name.len() + call.arguments.len(),
        wit::Part::ToolResult(result) => {
            result.call_id.len() + result.content.iter().map(wit_content_bytes).sum::<usize>()
        }
        wit::Part::Other(opaque) => opaque.kind.len() + opaque.json.len(),
    }
}

// ---- to a guest

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
        // A guest is told which bytes they are, and is not handed them.
        Source::Bytes(bytes) => wit::Source::Attachment(attachment_id(bytes)),
        Source::Url(url) => wit::Source::Url(url.clone()),
    };
    wit::Media { media_type: media.media_type.clone(), name: media.name.clone(), source }
}

fn opaque_to_wit(opaque: &Opaque) -> wit::Opaque {
    wit::Opaque { kind: opaque.kind.clone(), json: opaque.json.clone() }
}

fn content_to_wit(content: &Content) -> wit::Content {
    match content {
        Content::Text(text) => wit::Content::Text(text.clone()),
        Content::Json(json) => wit::Content::Json(json.clone()),
        Content::Media(media) => wit::Content::Media(media_to_wit(media)),
        Content::Other(opaque) => wit::Content::Other(opaque_to_wit(opaque)),
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

/// A message whole: for a model and for what stands around a run.
pub fn message_to_wit(message: &Message) -> wit::Message {
    let all = [Power::SeeMessages, Power::SeeArguments, Power::SeeResults];
    message_seen(message, &all.into())
}

/// A message as far as these powers let it be seen.
pub fn message_seen(message: &Message, powers: &Powers) -> wit::Message {
    let sees = |power| powers.contains(&power);
    let part = |part: &Part| match part {
        Part::Text(text) => wit::Part::Text(text.clone()),
        Part::Media(media) => wit::Part::Media(media_to_wit(media)),
        Part::Thinking(Thinking { text, opaque }) => {
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

fn tool_spec_to_wit(spec: &ToolSpec) -> wit::ToolSpec {
    let when = |on, flag| if on { flag } else { wit::ToolHints::empty() };
    let hints = when(spec.hints.read_only, wit::ToolHints::READ_ONLY)
        | when(spec.hints.non_destructive, wit::ToolHints::NON_DESTRUCTIVE)
        | when(spec.hints.idempotent, wit::ToolHints::IDEMPOTENT)
        | when(spec.hints.closed_world, wit::ToolHints::CLOSED_WORLD);
    wit::ToolSpec {
        name: spec.name.clone(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.get().into(),
        output_schema: None,
        hints,
        meta: vec![],
    }
}

pub fn request_to_wit(request: &CompletionRequest) -> wit::Request {
    wit::Request {
        messages: request.messages.iter().map(|entry| message_to_wit(&entry.message)).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(bounded("abc".into(), 3), "abc");
        assert_eq!(bounded("éééé".into(), 6), "é…");
        assert_eq!(bounded("éééé".into(), 2), "…");
    }

    fn full() -> Message {
        let call = ToolCall { id: "c".into(), name: "t".into(), arguments: r#"{"a":1}"#.into(), meta: vec![] };
        let result = ToolResult { call_id: "c".into(), content: vec![Content::Text("found".into())], is_error: true };
        let thought = Thinking { text: "hm".into(), opaque: Some("sig".into()) };
        let other = Opaque { kind: "x.y".into(), json: "1".into() };
        let parts = vec![
            Part::Text("hello".into()),
            Part::Thinking(thought),
            Part::ToolCall(call),
            Part::ToolResult(result),
            Part::Other(other),
        ];
        Message { sender: "ada".into(), role: Role::Assistant, parts, meta: vec![("k".into(), "v".into())] }
    }

    #[test]
    fn a_message_crosses_unchanged() {
        assert_eq!(message(message_to_wit(&full()), &Attached::none()).unwrap(), full());
    }

    #[test]
    fn media_come_back_by_the_id_that_was_handed_out() {
        let media = |bytes: &[u8]| Media {
            media_type: "image/png".into(),
            name: Some("a.png".into()),
            source: Source::Bytes(bytes.into()),
        };
        let content = vec![Content::Media(media(b"of a tool"))];
        let result = ToolResult { call_id: "c".into(), content, is_error: false };
        let parts = vec![Part::Media(media(b"one")), Part::Media(media(b"two")), Part::ToolResult(result)];
        let original = Message { parts, ..Message::text(Role::Tool, "", "") };
        let attached = Attached::in_parts(&original.parts);
        assert_eq!(message(message_to_wit(&original), &attached).unwrap(), original);
        let other = Attached::in_parts(&original.parts[..1]);
        assert!(matches!(message(message_to_wit(&original), &other), Err(Fault::NotFound { .. })));
    }

    #[test]
    fn a_key_of_a_meta_is_there_once() {
        let pair = |key: &str| (key.to_owned(), "v".to_owned());
        assert_eq!(meta(vec![pair("a"), pair("b")]).unwrap().len(), 2);
        let fault = meta(vec![pair("a"), pair("b"), pair("a")]).unwrap_err();
        assert_eq!(fault, Fault::invalid("a `meta` has the key `a` twice"));
    }

    #[test]
    fn what_may_not_be_seen_is_blank() {
        let seen = |powers: &[Power]| {
            message(message_seen(&full(), &powers.iter().copied().collect()), &Attached::none()).unwrap()
        };
        assert!(seen(&[Power::SeeArguments, Power::SeeResults]).parts.is_empty());
        let text = seen(&[Power::SeeMessages]);
        assert_eq!(text.tool_calls().next().unwrap().arguments, "{}");
        assert!(text.tool_results().next().unwrap().content.is_empty());
        assert!(text.tool_results().next().unwrap().is_error, "that it failed is no secret");
    }

    #[test]
    fn every_failure_keeps_its_meaning() {
        let after = Some(Duration::from_millis(1_500));
        let message = || "why".to_owned();
        for original in [
            Fault::Invalid { message: message() },
            Fault::Denied { message: message() },
            Fault::NotFound { message: message() },
            Fault::TooLarge { message: message() },
            Fault::Exhausted { message: message() },
            Fault::RateLimited { message: message(), after },
            Fault::Unavailable { message: message(), after: None },
            Fault::Timeout { message: message() },
            Fault::Other { message: message() },
        ] {
            assert_eq!(fault(fault_to_wit(&original)), original);
        }
    }

    #[test]
    fn tools_that_mislead_are_refused() {
        let spec = |name: &str, schema: &str| wit::ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema: schema.into(),
            output_schema: None,
            hints: wit::ToolHints::empty(),
            meta: vec![],
        };
        let object = r#"{"type":"object"}"#;
        assert!(tool_spec(spec("read_file", object)).is_ok());
        let twice = vec![("a".into(), String::new()), ("a".into(), String::new())];
        let error = tool_spec(wit::ToolSpec { meta: twice, ..spec("t", object) }).unwrap_err();
        assert_eq!(error, "of `t`: a `meta` has the key `a` twice");
        for (name, schema, says) in [
            ("read file", object, "not a tool's name"),
            ("", object, "not a tool's name"),
            ("r\u{202e}ead", object, "not a tool's name"),
            (&"x".repeat(65), object, "not a tool's name"),
            ("t", "{", "not JSON"),
            ("t", "{\"type\":\"string\"}", "not that of an object"),
            (
                "t",
                &format!("{{\"type\":\"object\",\"x\":\"{}\"}}", "x".repeat(limits::TOOL_SCHEMA_BYTES)),
                "at most 65536",
            ),
        ] {
            let error = tool_spec(spec(name, schema)).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
