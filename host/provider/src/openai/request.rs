//! The request body of the Chat Completions API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::options::MaxTokensField;
use crate::{
    adapter::ModelAdapter,
    arguments,
    media::{InlineFile, data_uri, placeholder},
    schema, text,
    tool_names::{COMMON, ToolNameRule},
};
use shelly_core::{
    chat::{Media, MediaData, Message, Part, Role, ToolCall, ToolResult, ToolSpec},
    error::Fault,
    limits,
    model::{CompletionRequest, ToolChoice},
};

/// The rule for ids that replace those that are too long.
const CALL_IDS: ToolNameRule = ToolNameRule { longest: limits::CHAT_CALL_ID_BYTES, any_first: true };

/// Builds the body of a streaming request.
///
/// # Errors
///
/// [`Fault::Invalid`] if the schema of the reply is not JSON.
pub fn body<'a>(
    adapter: &'a ModelAdapter,
    max_tokens_field: MaxTokensField,
    request: &'a CompletionRequest,
) -> Result<OpenAiRequest<'a>, Fault> {
    let mut messages = Vec::with_capacity(request.messages.len());
    for entry in request.messages.iter() {
        push_message(&mut messages, &entry.message);
    }
    let as_field = |field| adapter.max_tokens(request).filter(|_| max_tokens_field == field);
    Ok(OpenAiRequest {
        model: adapter.model(),
        messages,
        tools: request.tools.iter().map(|tool| OpenAiTool::new(tool)).collect(),
        tool_choice: if request.tools.is_empty() { None } else { tool_choice(&request.tool_choice) },
        response_format: request.response_schema.as_deref().map(OpenAiResponseFormat::new).transpose()?,
        temperature: adapter.temperature(request),
        max_tokens: as_field(MaxTokensField::MaxTokens),
        max_completion_tokens: as_field(MaxTokensField::MaxCompletionTokens),
        stream: true,
        stream_options: Some(OpenAiStreamOptions { include_usage: true }),
    })
}

/// The JSON of a request.
#[derive(Serialize)]
pub struct OpenAiRequest<'a> {
    model: &'a str,
    messages: Vec<OpenAiMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<OpenAiTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<OpenAiToolChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<OpenAiResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<OpenAiStreamOptions>,
}

impl OpenAiRequest<'_> {
    /// Returns the request with streaming disabled.
    pub fn whole(self) -> Self {
        Self { stream: false, stream_options: None, ..self }
    }
}

#[derive(Serialize)]
struct OpenAiStreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum OpenAiMessage<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: OpenAiUserContent<'a>,
    },
    Assistant {
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<OpenAiToolCall<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum OpenAiUserContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<OpenAiUserPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OpenAiUserPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: OpenAiImageUrl<'a> },
    File { file: InlineFile<'a> },
}

#[derive(Serialize)]
struct OpenAiImageUrl<'a> {
    url: Cow<'a, str>,
}

#[derive(Serialize)]
struct OpenAiToolCall<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: OpenAiCalledFunction<'a>,
}

#[derive(Serialize)]
struct OpenAiCalledFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct OpenAiTool<'a> {
    r#type: &'static str,
    function: OpenAiFunction<'a>,
}

#[derive(Serialize)]
struct OpenAiFunction<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: Cow<'a, RawValue>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum OpenAiToolChoice<'a> {
    Word(&'static str),
    Tool { r#type: &'static str, function: OpenAiFunctionName<'a> },
}

#[derive(Serialize)]
struct OpenAiFunctionName<'a> {
    name: Cow<'a, str>,
}

#[derive(Serialize)]
struct OpenAiResponseFormat<'a> {
    r#type: &'static str,
    json_schema: OpenAiJsonSchema<'a>,
}

#[derive(Serialize)]
struct OpenAiJsonSchema<'a> {
    name: &'static str,
    schema: &'a RawValue,
}

impl<'a> OpenAiResponseFormat<'a> {
    /// Omits `strict`, with which OpenAI accepts only some schemas. The caller checks the reply anyway.
    fn new(schema: &'a str) -> Result<Self, Fault> {
        let schema = schema::of_reply(schema)?;
        Ok(Self { r#type: "json_schema", json_schema: OpenAiJsonSchema { name: "reply", schema } })
    }
}

impl<'a> OpenAiTool<'a> {
    fn new(tool: &'a ToolSpec) -> Self {
        let function = OpenAiFunction {
            name: COMMON.wire(&tool.name),
            description: &tool.description,
            parameters: schema::object(&tool.input_schema),
        };
        Self { r#type: "function", function }
    }
}

fn tool_choice(choice: &ToolChoice) -> Option<OpenAiToolChoice<'_>> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Never => Some(OpenAiToolChoice::Word("none")),
        ToolChoice::Required => Some(OpenAiToolChoice::Word("required")),
        ToolChoice::Tool(name) => Some(OpenAiToolChoice::Tool {
            r#type: "function",
            function: OpenAiFunctionName { name: COMMON.wire(name) },
        }),
    }
}

fn push_message<'a>(messages: &mut Vec<OpenAiMessage<'a>>, message: &'a Message) {
    match message.role {
        Role::System => messages.push(OpenAiMessage::System { content: text::of_message(message) }),
        Role::User => messages.push(OpenAiMessage::User { content: user_content(message) }),
        Role::Assistant => messages.push(assistant(message)),
        Role::Tool => messages.extend(message.tool_results().map(tool_result)),
    }
}

fn user_content(message: &Message) -> OpenAiUserContent<'_> {
    if let [Part::Text(text)] = message.parts.as_slice() {
        return OpenAiUserContent::Text(text.into());
    }
    let parts: Vec<_> = message.parts.iter().filter_map(user_part).collect();
    // No server accepts an empty list.
    if parts.is_empty() { OpenAiUserContent::Text("".into()) } else { OpenAiUserContent::Parts(parts) }
}

fn user_part(part: &Part) -> Option<OpenAiUserPart<'_>> {
    match part {
        Part::Text(text) => Some(OpenAiUserPart::Text { text: text.into() }),
        Part::Media(media) => Some(media_part(media)),
        Part::Other(opaque) => Some(OpenAiUserPart::Text { text: opaque.json.as_str().into() }),
        // These parts belong to other roles.
        Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}

fn media_part(media: &Media) -> OpenAiUserPart<'_> {
    let is_text = media.media_type.starts_with("text/");
    match &media.source {
        MediaData::Url(url) if media.media_type.starts_with("image/") => {
            OpenAiUserPart::ImageUrl { image_url: OpenAiImageUrl { url: url.into() } }
        }
        MediaData::Bytes(bytes) if media.media_type.starts_with("image/") => {
            OpenAiUserPart::ImageUrl { image_url: OpenAiImageUrl { url: data_uri(&media.media_type, bytes).into() } }
        }
        MediaData::Bytes(bytes) if is_text && let Ok(text) = str::from_utf8(bytes) => {
            OpenAiUserPart::Text { text: text.into() }
        }
        MediaData::Bytes(bytes) if media.media_type == "application/pdf" => {
            OpenAiUserPart::File { file: InlineFile::pdf(media, bytes) }
        }
        _ => OpenAiUserPart::Text { text: placeholder(media).into() },
    }
}

fn assistant(message: &Message) -> OpenAiMessage<'_> {
    let tool_calls: Vec<_> = message.tool_calls().map(call).collect();
    // Servers refuse a message with neither text nor calls, but accept one with an empty text.
    let content = Some(text::of_message(message)).filter(|text| !text.is_empty() || tool_calls.is_empty());
    OpenAiMessage::Assistant { content, tool_calls }
}

fn call(call: &ToolCall) -> OpenAiToolCall<'_> {
    OpenAiToolCall {
        id: call_id(&call.id),
        r#type: "function",
        function: OpenAiCalledFunction { name: COMMON.wire(&call.name), arguments: arguments::text(call) },
    }
}

/// Returns the id of a call in a form that this API accepts. Only a long id is changed, because some servers attach meaning
/// to their own ids.
fn call_id(id: &str) -> Cow<'_, str> {
    if id.len() <= limits::CHAT_CALL_ID_BYTES { id.into() } else { CALL_IDS.wire(id) }
}

/// Returns a tool result as a message. The API cannot mark a failed call, so the text says that it failed.
fn tool_result(result: &ToolResult) -> OpenAiMessage<'_> {
    OpenAiMessage::Tool { tool_call_id: call_id(&result.call_id), content: text::of_outcome(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_call_ids_are_shortened() {
        for id in ["functions.read:0", &"c".repeat(limits::CHAT_CALL_ID_BYTES)] {
            assert_eq!(call_id(id), id);
        }
        let [one, other] =
            ["chatcmpl-tool-0123456789abcdef0123456789abcdef", "chatcmpl-tool-0123456789abcdef0123456789abcdee"];
        assert_ne!(call_id(one), call_id(other));
        assert_eq!(call_id(one).len(), limits::CHAT_CALL_ID_BYTES);
        assert_eq!(call_id(one), call_id(one));
    }
}
