//! Conversions from the guest's values to the host's: bounded and checked.

use std::{
    cell::OnceCell,
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use super::text::{bounded, too_large};
use crate::bindings::types::{self as wit, Error as WitError};
use shelly_core::{
    agent::ModelQuery,
    change::{ChangePath, FileChange, FileChangeAction, content_digest},
    chat::{
        ChatSnapshot, Media, MediaData, Message, MessageMeta, OpaqueContent, Part, Role, StopReason, ThinkingPart,
        ToolCall, ToolHints, ToolResult, ToolResultContent, ToolSpec, Usage,
    },
    digest::Sha256Digest,
    error::Fault,
    limits,
    model::{Completion, CompletionRequest, ToolChoice},
    tool::{self, ChangeProposalPart, ToolNeed, ToolOutput},
};

/// Converts a failure that a guest returned.
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

pub fn meta(meta: Vec<(String, String)>) -> Result<MessageMeta, Fault> {
    let bytes: usize = meta.iter().map(|(key, value)| key.len() + value.len()).sum();
    if meta.len() > limits::META_PAIRS || bytes > limits::META_BYTES {
        return Err(too_large("a `meta`", bytes, limits::META_BYTES));
    }
    let mut seen = HashSet::new();
    if let Some((twice, _)) = meta.iter().find(|(key, _)| !seen.insert(key)) {
        return Err(Fault::invalid(format!("a `meta` has the duplicate key `{}`", twice.escape_debug())));
    }
    Ok(meta)
}

/// Checks a `meta` that the guest wrote itself and did not receive: it must not have keys of the host.
fn own_meta(own: Vec<(String, String)>) -> Result<MessageMeta, Fault> {
    let own = meta(own)?;
    match own.iter().find(|(key, _)| key.starts_with("shelly.")) {
        Some((key, _)) => Err(Fault::invalid(format!(
            "a `meta` has the key `{}`, which is reserved for the host",
            key.escape_debug()
        ))),
        None => Ok(own),
    }
}

/// The media that one call received, by their ids: a guest gets an id in place of the bytes, and may return it. The
/// index is built at the first lookup, since most calls return none and a conversation is long.
pub struct GuestMediaIndex<'a> {
    parts: Box<dyn Fn() -> ChatPartIter<'a> + 'a>,
    by_id: OnceCell<HashMap<String, Arc<[u8]>>>,
}

type ChatPartIter<'a> = Box<dyn Iterator<Item = &'a Part> + 'a>;

impl<'a> GuestMediaIndex<'a> {
    /// Creates an empty index.
    pub fn none() -> Self {
        Self::in_parts(&[])
    }

    /// Indexes the media in these parts, tool results included.
    pub fn in_parts(parts: &'a [Part]) -> Self {
        Self::of(move || parts.iter())
    }

    /// Indexes the media in these messages.
    pub fn in_messages(messages: &'a [Message]) -> Self {
        Self::of(move || messages.iter().flat_map(|message| &message.parts))
    }

    /// Indexes the media in a conversation.
    pub fn in_chat(chat: &'a ChatSnapshot) -> Self {
        Self::in_chat_and(chat, &[])
    }

    /// Indexes the media in a conversation and in these parts.
    pub fn in_chat_and(chat: &'a ChatSnapshot, parts: &'a [Part]) -> Self {
        Self::of(move || chat.iter().flat_map(|entry| &entry.message.parts).chain(parts))
    }

    fn of<I: Iterator<Item = &'a Part> + 'a>(parts: impl Fn() -> I + 'a) -> Self {
        Self { parts: Box::new(move || Box::new(parts())), by_id: OnceCell::new() }
    }

    fn find(&self, id: &str) -> Option<Arc<[u8]>> {
        self.by_id.get_or_init(|| self.all()).get(id).map(Arc::clone)
    }

    /// Returns all media by their ids.
    pub fn all(&self) -> HashMap<String, Arc<[u8]>> {
        let media = (self.parts)().flat_map(media_in);
        media.map(|bytes| (Sha256Digest::of(bytes).hex(), Arc::clone(bytes))).collect()
    }
}

/// Returns the media in a part that are held as bytes.
fn media_in(part: &Part) -> Vec<&Arc<[u8]>> {
    fn bytes(piece: &Media) -> Option<&Arc<[u8]>> {
        match &piece.source {
            MediaData::Bytes(bytes) => Some(bytes),
            MediaData::Url(_) => None,
        }
    }
    match part {
        Part::Media(piece) => bytes(piece).into_iter().collect(),
        Part::ToolResult(result) => {
            let pieces = result.content.iter();
            pieces
                .filter_map(|content| if let ToolResultContent::Media(piece) = content { bytes(piece) } else { None })
                .collect()
        }
        _ => Vec::new(),
    }
}

fn media(media: wit::Media, attached: &GuestMediaIndex<'_>) -> Result<Media, Fault> {
    let within = |what, bytes, most| if bytes > most { Err(too_large(what, bytes, most)) } else { Ok(()) };
    within("a media type", media.media_type.len(), limits::MEDIA_NAME_BYTES)?;
    within("the name of a medium", media.name.as_ref().map_or(0, String::len), limits::MEDIA_NAME_BYTES)?;
    match &media.source {
        wit::Source::Bytes(bytes) => within("a medium", bytes.len(), limits::MEDIA_BYTES)?,
        wit::Source::Url(url) => within("the URL of a medium", url.len(), limits::MEDIA_NAME_BYTES)?,
        wit::Source::Attachment(_) => {}
    }
    let source = match media.source {
        wit::Source::Bytes(bytes) => MediaData::Bytes(bytes.into()),
        wit::Source::Url(url) => MediaData::Url(url),
        wit::Source::Attachment(id) => match attached.find(&id) {
            Some(bytes) => MediaData::Bytes(bytes),
            None => {
                let message = format!("this call has no attachment `{}`", bounded(id, 100));
                return Err(Fault::NotFound { message });
            }
        },
    };
    Ok(Media { media_type: media.media_type, name: media.name, source })
}

fn opaque(opaque: wit::Opaque) -> OpaqueContent {
    OpaqueContent { kind: opaque.kind, json: opaque.json }
}

/// Converts the content of a result that cannot propose changes.
pub fn content(contents: Vec<wit::Content>, attached: &GuestMediaIndex<'_>) -> Result<Vec<ToolResultContent>, Fault> {
    within_result(&contents)?;
    contents.into_iter().map(|content| piece(content, attached)).collect()
}

/// Converts the output of a tool, with the changes that it proposes; `place` resolves the plugin's paths.
pub fn tool_output(
    contents: Vec<wit::Content>,
    attached: &GuestMediaIndex<'_>,
    place: impl Fn(&str) -> Result<ChangePath, Fault>,
) -> Result<ToolOutput, Fault> {
    within_result(&contents)?;
    let proposed = |content| match content {
        wit::Content::Change(change) => file_change(change, &place).map(ChangeProposalPart::Change),
        content => piece(content, attached).map(ChangeProposalPart::Content),
    };
    match contents.iter().any(|content| matches!(content, wit::Content::Change(_))) {
        false => contents
            .into_iter()
            .map(|content| piece(content, attached))
            .collect::<Result<_, _>>()
            .map(ToolOutput::Reply),
        true => contents.into_iter().map(proposed).collect::<Result<_, _>>().map(ToolOutput::Propose),
    }
}

fn within_result(contents: &[wit::Content]) -> Result<(), Fault> {
    let bytes: usize = contents.iter().map(content_bytes).sum();
    match bytes > limits::RESULT_BYTES {
        true => Err(too_large("the result", bytes, limits::RESULT_BYTES)),
        false => Ok(()),
    }
}

fn piece(content: wit::Content, attached: &GuestMediaIndex<'_>) -> Result<ToolResultContent, Fault> {
    match content {
        wit::Content::Text(text) => Ok(ToolResultContent::Text(text)),
        wit::Content::Json(json) => Ok(ToolResultContent::Json(json)),
        wit::Content::Media(piece) => media(piece, attached).map(ToolResultContent::Media),
        wit::Content::Other(piece) => Ok(ToolResultContent::Other(opaque(piece))),
        wit::Content::Change(_) => Err(Fault::invalid("only the result of a tool can propose a file change")),
    }
}

fn file_change(
    change: wit::FileChange,
    place: impl Fn(&str) -> Result<ChangePath, Fault>,
) -> Result<FileChange, Fault> {
    let act = match change.act {
        wit::FileAct::Write(content) => FileChangeAction::Write(content.into()),
        wit::FileAct::Remove => FileChangeAction::Remove,
        wit::FileAct::MoveTo(to) => FileChangeAction::MoveTo(place(&to)?),
        wit::FileAct::CopyTo(to) => FileChangeAction::CopyTo(place(&to)?),
        wit::FileAct::MakeFolder => FileChangeAction::MakeFolder,
    };
    let expected = change.expected.as_deref().map(content_digest).transpose()?;
    Ok(FileChange { path: place(&change.path)?, expected, act })
}

/// The kind of opaque content with which a tool reports what it lacks.
const NEEDS: &str = "shelly.needs";

/// Returns what a tool lacks for a call, if its content reports that.
pub fn need(contents: &[wit::Content]) -> Result<Option<ToolNeed>, Fault> {
    let need_bytes = |content: &wit::Content| match content {
        wit::Content::Other(opaque) if opaque.kind == NEEDS => Some(opaque.json.len()),
        _ => None,
    };
    let wrong = |what: String| Fault::invalid(format!("invalid content `{NEEDS}`: {what}"));
    let Some(bytes) = contents.iter().find_map(need_bytes) else { return Ok(None) };
    let [wit::Content::Other(opaque)] = contents else {
        return Err(wrong("a result must have no other content beside it".into()));
    };
    if bytes > limits::NEED_BYTES {
        return Err(wrong(format!("{bytes} bytes, the maximum is {}", limits::NEED_BYTES)));
    }
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum GuestNeed {
        Folder(String),
        Server(String),
    }
    match serde_json::from_str(&opaque.json) {
        Ok(GuestNeed::Folder(path)) => Ok(Some(ToolNeed::Folder(path))),
        Ok(GuestNeed::Server(url)) => Ok(Some(ToolNeed::Server(url))),
        Err(error) => Err(wrong(error.to_string())),
    }
}

fn media_bytes(media: &wit::Media) -> usize {
    let source = match &media.source {
        wit::Source::Bytes(bytes) => bytes.len(),
        wit::Source::Attachment(text) | wit::Source::Url(text) => text.len(),
    };
    media.media_type.len() + media.name.as_ref().map_or(0, String::len) + source
}

fn change_bytes(change: &wit::FileChange) -> usize {
    let act = match &change.act {
        wit::FileAct::Write(bytes) => bytes.len(),
        wit::FileAct::MoveTo(path) | wit::FileAct::CopyTo(path) => path.len(),
        wit::FileAct::Remove | wit::FileAct::MakeFolder => 0,
    };
    change.path.len() + change.expected.as_ref().map_or(0, String::len) + act
}

/// Returns the bytes that a piece of a result takes to cross.
pub fn content_bytes(content: &wit::Content) -> usize {
    match content {
        wit::Content::Text(text) | wit::Content::Json(text) => text.len(),
        wit::Content::Media(media) => media_bytes(media),
        wit::Content::Change(change) => change_bytes(change),
        wit::Content::Other(opaque) => opaque.kind.len() + opaque.json.len(),
    }
}

fn tool_call(call: wit::ToolCall) -> Result<ToolCall, Fault> {
    Ok(ToolCall { id: call.id, name: call.name, arguments: call.arguments, meta: own_meta(call.meta)? })
}

fn part(part: wit::Part, attached: &GuestMediaIndex<'_>) -> Result<Part, Fault> {
    Ok(match part {
        wit::Part::Text(text) => Part::Text(text),
        wit::Part::Media(piece) => Part::Media(media(piece, attached)?),
        wit::Part::Thinking(wit::Thinking { text, opaque }) => Part::Thinking(ThinkingPart { text, opaque }),
        wit::Part::ToolCall(call) => Part::ToolCall(tool_call(call)?),
        wit::Part::ToolResult(result) => Part::ToolResult(ToolResult {
            call_id: result.call_id,
            content: content(result.content, attached)?,
            is_error: result.is_error,
        }),
        wit::Part::Other(piece) => Part::Other(opaque(piece)),
    })
}

/// Converts a message that a guest wrote.
pub fn message(message: wit::Message, attached: &GuestMediaIndex<'_>) -> Result<Message, Fault> {
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

/// Converts a completion that a plugin returned.
pub fn completion(completion: wit::Completion, attached: &GuestMediaIndex<'_>) -> Result<Completion, Fault> {
    let bytes: usize = completion.parts.iter().map(part_bytes).sum();
    if bytes > limits::REPLY_BYTES {
        return Err(too_large("the reply", bytes, limits::REPLY_BYTES));
    }
    let parts = completion.parts.into_iter().map(|piece| part(piece, attached)).collect::<Result<Vec<_>, _>>()?;
    if parts.iter().any(|part| matches!(part, Part::ToolResult(_))) {
        return Err(Fault::other("the model's reply has a tool result, which only the host can create"));
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
        meta: own_meta(completion.meta)?,
    })
}

/// Converts a tool description of a guest, and checks that it cannot mislead a reader.
pub fn tool_spec(spec: wit::ToolSpec) -> Result<ToolSpec, String> {
    let hints = ToolHints {
        read_only: spec.hints.contains(wit::ToolHints::READ_ONLY),
        non_destructive: spec.hints.contains(wit::ToolHints::NON_DESTRUCTIVE),
        idempotent: spec.hints.contains(wit::ToolHints::IDEMPOTENT),
        closed_world: spec.hints.contains(wit::ToolHints::CLOSED_WORLD),
    };
    let tool = tool::described(spec.name, spec.description, spec.input_schema, hints)?;
    own_meta(spec.meta).map_err(|fault| format!("tool `{}`: {fault}", tool.name))?;
    Ok(tool)
}

/// Builds a tool from a name, a description and a schema alone, with the checks for one that a guest describes.
pub fn described(name: &str, description: &str, schema: &str) -> Result<ToolSpec, String> {
    tool_spec(wit::ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: schema.into(),
        output_schema: None,
        hints: wit::ToolHints::empty(),
        meta: vec![],
    })
}

/// Returns the bytes of a tool description.
pub fn tool_spec_bytes(spec: &wit::ToolSpec) -> usize {
    let wit::ToolSpec { name, description, input_schema, output_schema, hints: _, meta } = spec;
    let meta: usize = meta.iter().map(|(key, value)| key.len() + value.len()).sum();
    name.len() + description.len() + input_schema.len() + output_schema.as_ref().map_or(0, String::len) + meta
}

/// Converts a step's query to a model.
pub fn ask(ask: wit::Ask, attached: &GuestMediaIndex<'_>) -> Result<ModelQuery, Fault> {
    Ok(ModelQuery { model: ask.model, request: request(ask.request, attached)? })
}

/// Converts a request that a guest wants sent.
pub fn request(request: wit::Request, attached: &GuestMediaIndex<'_>) -> Result<CompletionRequest, Fault> {
    let messages = request.messages.into_iter().map(|one| message(one, attached)).collect::<Result<Vec<_>, _>>()?;
    let messages = ChatSnapshot::from_messages(messages).map_err(|error| Fault::invalid(error.to_string()))?;
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

/// Returns the bytes that a message takes to cross.
pub fn message_bytes(message: &wit::Message) -> usize {
    message.sender.len() + message.parts.iter().map(part_bytes).sum::<usize>()
}

/// Returns the bytes that a part of a message takes to cross.
pub fn part_bytes(part: &wit::Part) -> usize {
    match part {
        wit::Part::Text(text) => text.len(),
        wit::Part::Media(media) => media_bytes(media),
        wit::Part::Thinking(thinking) => thinking.text.len() + thinking.opaque.as_ref().map_or(0, String::len),
        wit::Part::ToolCall(call) => call.id.len() + call.name.len() + call.arguments.len(),
        wit::Part::ToolResult(result) => result.call_id.len() + result.content.iter().map(content_bytes).sum::<usize>(),
        wit::Part::Other(opaque) => opaque.kind.len() + opaque.json.len(),
    }
}
