//! The request body of the Responses API.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use super::opaque_state::{ResponsesOpaqueState, kept};
use crate::{
    adapter::ModelAdapter,
    arguments, incoming_reply,
    media::{InlineFile, data_uri, placeholder},
    schema, text,
    tool_names::COMMON,
};
use shelly_core::{
    chat::{Media, MediaData, Message, Part, Role, ToolCall, ToolResult, ToolResultContent, ToolSpec},
    error::Fault,
    limits,
    model::{CompletionRequest, ToolChoice},
};

/// The body field that a config can extend.
pub const TEXT: &str = "text";

/// Builds the body of a streaming request. `asks_for_thoughts` requests encrypted reasoning, to be sent back later.
///
/// # Errors
///
/// [`Fault::Invalid`] if the schema of the reply is not JSON.
pub fn body<'a>(
    adapter: &'a ModelAdapter,
    asks_for_thoughts: bool,
    request: &'a CompletionRequest,
) -> Result<ResponsesRequest<'a>, Fault> {
    let source = adapter.source();
    let mut messages = request.messages.iter().map(|entry| &*entry.message).peekable();
    let mut input = Vec::with_capacity(request.messages.len());
    let mut instructions = messages.next_if(|message| message.role == Role::System).and_then(text_of);
    if messages.peek().is_none() {
        // Instructions without input are not a valid request.
        input.extend(
            instructions
                .take()
                .map(|text| ResponsesInputItem::message(ResponsesRole::System, ResponsesInputContent::Text(text))),
        );
    }
    messages.for_each(|message| push_message(&mut input, &source, message));
    Ok(ResponsesRequest {
        model: adapter.model(),
        instructions,
        input,
        tools: request.tools.iter().map(|tool| ResponsesTool::new(tool)).collect(),
        tool_choice: if request.tools.is_empty() { None } else { tool_choice(&request.tool_choice) },
        text: ResponsesTextConfig::new(adapter, request.response_schema.as_deref())?,
        temperature: adapter.temperature(request),
        // The API refuses lower values.
        max_output_tokens: adapter.max_tokens(request).map(|tokens| tokens.max(limits::RESPONSES_LEAST_TOKENS)),
        include: if asks_for_thoughts { &["reasoning.encrypted_content"] } else { &[] },
        store: false,
        stream: true,
    })
}

/// The JSON of a request.
#[derive(Serialize)]
pub struct ResponsesRequest<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<Cow<'a, str>>,
    input: Vec<ResponsesInputItem<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ResponsesTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ResponsesToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<ResponsesTextConfig<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'static [&'static str],
    store: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

impl ResponsesRequest<'_> {
    /// Returns the request with streaming disabled.
    pub fn whole(self) -> Self {
        Self { stream: false, ..self }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesInputItem<'a> {
    /// A reasoning item, unchanged.
    Reasoning(&'a RawValue),
    Message {
        r#type: &'static str,
        role: ResponsesRole,
        content: ResponsesInputContent<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
    },
    Call {
        r#type: &'static str,
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    Output {
        r#type: &'static str,
        call_id: Cow<'a, str>,
        output: ResponsesInputContent<'a>,
    },
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum ResponsesRole {
    System,
    User,
    Assistant,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesInputContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ResponsesInputPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum ResponsesInputPart<'a> {
    #[serde(rename = "input_text")]
    Text { text: Cow<'a, str> },
    #[serde(rename = "input_image")]
    Image { detail: &'static str, image_url: Cow<'a, str> },
    #[serde(rename = "input_file")]
    File(ResponsesInputFile<'a>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesInputFile<'a> {
    At { file_url: &'a str },
    Inline(InlineFile<'a>),
}

#[derive(Serialize)]
struct ResponsesTool<'a> {
    r#type: &'static str,
    name: Cow<'a, str>,
    description: &'a str,
    parameters: Cow<'a, RawValue>,
    strict: bool,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ResponsesToolChoice<'a> {
    Word(&'static str),
    Tool { r#type: &'static str, name: Cow<'a, str> },
}

#[derive(Serialize)]
struct ResponsesTextConfig<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<ResponsesTextFormat<'a>>,
    /// Other settings from the config, such as the verbosity.
    #[serde(flatten)]
    more: IndexMap<&'a str, &'a Value>,
}

#[derive(Serialize)]
struct ResponsesTextFormat<'a> {
    r#type: &'static str,
    name: &'static str,
    schema: &'a RawValue,
    strict: bool,
}

impl<'a> ResponsesInputItem<'a> {
    /// Sets the optional type, because some servers require it.
    fn message(role: ResponsesRole, content: ResponsesInputContent<'a>) -> Self {
        Self::Message { r#type: "message", role, content, phase: None }
    }

    fn call(call: &'a ToolCall) -> Self {
        let (name, arguments) = (COMMON.wire(&call.name), arguments::text(call));
        Self::Call { r#type: "function_call", call_id: call_id(&call.id), name, arguments }
    }
}

impl<'a> ResponsesTextConfig<'a> {
    fn new(adapter: &'a ModelAdapter, schema: Option<&'a str>) -> Result<Option<Self>, Fault> {
        let format = schema.map(ResponsesTextFormat::new).transpose()?;
        let more: IndexMap<_, _> = match adapter.field(TEXT) {
            Some(Value::Object(more)) => {
                let more = more.iter().filter(|(key, _)| format.is_none() || *key != "format");
                more.map(|(key, value)| (key.as_str(), value)).collect()
            }
            Some(_) => {
                let fix = "write it as `{\"verbosity\": \"low\"}`";
                return Err(Fault::invalid(format!("`text` in the model's body is not an object; {fix}")));
            }
            None => IndexMap::new(),
        };
        Ok((format.is_some() || !more.is_empty()).then_some(Self { format, more }))
    }
}

impl<'a> ResponsesTextFormat<'a> {
    /// Leaves `strict` off: OpenAI accepts only some schemas with it, and the caller checks the reply anyway.
    fn new(schema: &'a str) -> Result<Self, Fault> {
        let schema = schema::of_reply(schema)?;
        Ok(Self { r#type: "json_schema", name: "reply", schema, strict: false })
    }
}

impl<'a> ResponsesTool<'a> {
    /// Turns `strict` off, which would be on by default: OpenAI accepts only some schemas with it.
    fn new(tool: &'a ToolSpec) -> Self {
        let (name, parameters) = (COMMON.wire(&tool.name), schema::object(&tool.input_schema));
        Self { r#type: "function", name, description: &tool.description, parameters, strict: false }
    }
}

fn tool_choice(choice: &ToolChoice) -> Option<ResponsesToolChoice<'_>> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Never => Some(ResponsesToolChoice::Word("none")),
        ToolChoice::Required => Some(ResponsesToolChoice::Word("required")),
        ToolChoice::Tool(name) => Some(ResponsesToolChoice::Tool { r#type: "function", name: COMMON.wire(name) }),
    }
}

/// Returns the id of a call in a form that this API accepts; an id from another vendor may be too long.
fn call_id(id: &str) -> Cow<'_, str> {
    if (1..=limits::RESPONSES_CALL_ID_BYTES).contains(&id.len()) { id.into() } else { COMMON.wire(id) }
}

fn push_message<'a>(
    input: &mut Vec<ResponsesInputItem<'a>>,
    source: &incoming_reply::ReplySource<'_>,
    message: &'a Message,
) {
    match message.role {
        Role::System => {
            input.extend(
                text_of(message)
                    .map(|text| ResponsesInputItem::message(ResponsesRole::System, ResponsesInputContent::Text(text))),
            );
        }
        Role::User => {
            input
                .extend(user_content(message).map(|content| ResponsesInputItem::message(ResponsesRole::User, content)));
        }
        Role::Assistant => push_reply(input, source, message),
        Role::Tool => input.extend(message.tool_results().map(|result| ResponsesInputItem::Output {
            r#type: "function_call_output",
            call_id: call_id(&result.call_id),
            output: output(result),
        })),
    }
}

/// Returns the text of a message; `None` if it is blank.
fn text_of(message: &Message) -> Option<Cow<'_, str>> {
    let text = text::of_message(message);
    (!text.trim().is_empty()).then_some(text)
}

/// Returns the content of a user message; `None` if it is empty.
fn user_content(message: &Message) -> Option<ResponsesInputContent<'_>> {
    if let [Part::Text(text)] = message.parts.as_slice() {
        return (!text.trim().is_empty()).then(|| ResponsesInputContent::Text(text.into()));
    }
    let parts: Vec<_> = message.parts.iter().filter_map(user_part).collect();
    (!parts.is_empty()).then_some(ResponsesInputContent::Parts(parts))
}

fn user_part(part: &Part) -> Option<ResponsesInputPart<'_>> {
    match part {
        Part::Text(text) if text.trim().is_empty() => None,
        Part::Text(text) => Some(ResponsesInputPart::Text { text: text.into() }),
        Part::Media(media) => Some(media_part(media)),
        Part::Other(opaque) => Some(ResponsesInputPart::Text { text: opaque.json.as_str().into() }),
        // These parts belong to other roles.
        Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}

fn media_part(media: &Media) -> ResponsesInputPart<'_> {
    let (is_image, is_pdf) = (media.media_type.starts_with("image/"), media.media_type == "application/pdf");
    match &media.source {
        MediaData::Url(url) if is_image => ResponsesInputPart::Image { detail: "auto", image_url: url.into() },
        MediaData::Url(file_url) if is_pdf => ResponsesInputPart::File(ResponsesInputFile::At { file_url }),
        MediaData::Bytes(bytes) if is_image => {
            ResponsesInputPart::Image { detail: "auto", image_url: data_uri(&media.media_type, bytes).into() }
        }
        MediaData::Bytes(bytes) if is_pdf => {
            ResponsesInputPart::File(ResponsesInputFile::Inline(InlineFile::pdf(media, bytes)))
        }
        MediaData::Bytes(bytes)
            if media.media_type.starts_with("text/")
                && let Ok(text) = str::from_utf8(bytes) =>
        {
            ResponsesInputPart::Text { text: text.into() }
        }
        _ => ResponsesInputPart::Text { text: placeholder(media).into() },
    }
}

/// Adds a reply as the items that it arrived in. Drops thoughts that nothing follows, because the server refuses them.
fn push_reply<'a>(
    input: &mut Vec<ResponsesInputItem<'a>>,
    source: &incoming_reply::ReplySource<'_>,
    message: &'a Message,
) {
    // The index of the text item that grows.
    let (mut text, mut end): (Option<usize>, _) = (None, input.len());
    for part in &message.parts {
        match part {
            Part::Text(piece) if piece.is_empty() => continue,
            Part::Text(piece) => match text.and_then(|at| input.get_mut(at)) {
                Some(ResponsesInputItem::Message { content: ResponsesInputContent::Text(before), .. }) => {
                    before.to_mut().push_str(piece)
                }
                _ => {
                    text = Some(input.len());
                    input.push(ResponsesInputItem::message(
                        ResponsesRole::Assistant,
                        ResponsesInputContent::Text(piece.into()),
                    ));
                }
            },
            Part::Thinking(thought) => {
                let at = text.take();
                match kept(source, thought) {
                    Some(ResponsesOpaqueState::Reasoning(item)) => input.push(ResponsesInputItem::Reasoning(item)),
                    Some(ResponsesOpaqueState::Phase(of_text)) => {
                        if let Some(ResponsesInputItem::Message { phase, .. }) = at.and_then(|at| input.get_mut(at)) {
                            *phase = Some(of_text);
                        }
                    }
                    None => {}
                }
                continue;
            }
            Part::ToolCall(call) => {
                text = None;
                input.push(ResponsesInputItem::call(call));
            }
            Part::Media(_) | Part::Other(_) | Part::ToolResult(_) => continue,
        }
        end = input.len();
    }
    input.truncate(end);
}

/// Returns the content of a tool result. The API cannot mark a failed call, so the text says that it failed.
fn output(result: &ToolResult) -> ResponsesInputContent<'_> {
    if !result.content.iter().any(|content| matches!(content, ToolResultContent::Media(_))) {
        return ResponsesInputContent::Text(text::of_outcome(result));
    }
    let failed = result.is_error.then(|| ResponsesInputPart::Text { text: "Error:".into() });
    let parts = result.content.iter().filter_map(|content| match content {
        ToolResultContent::Text(text) | ToolResultContent::Json(text) if text.trim().is_empty() => None,
        ToolResultContent::Text(text) | ToolResultContent::Json(text) => {
            Some(ResponsesInputPart::Text { text: text.into() })
        }
        ToolResultContent::Media(media) => Some(media_part(media)),
        ToolResultContent::Other(opaque) => Some(ResponsesInputPart::Text { text: opaque.json.as_str().into() }),
    });
    ResponsesInputContent::Parts(failed.into_iter().chain(parts).collect())
}
