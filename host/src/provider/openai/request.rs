//! A request as the wire has it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;

use super::MaxTokensField;
use crate::{
    chat::{Media, Message, Part, Role, Source, ToolCall, ToolResult, ToolSpec},
    error::Fault,
    limits,
    model::{CompletionRequest, ToolChoice},
    provider::{
        adapter::ModelAdapter,
        arguments,
        media::{data_uri, placeholder},
        names::{COMMON, NameRule},
        schema, text,
    },
};

/// What an id becomes that is too long.
const CALL_IDS: NameRule = NameRule { longest: limits::CHAT_CALL_ID_BYTES, any_first: true };

/// The body of a request for a stream.
///
/// # Errors
///
/// [`Fault::Invalid`] if the schema of the reply is no JSON.
pub fn body<'a>(
    adapter: &'a ModelAdapter,
    max_tokens_field: MaxTokensField,
    request: &'a CompletionRequest,
) -> Result<Body<'a>, Fault> {
    let mut messages = Vec::with_capacity(request.messages.len());
    for entry in request.messages.iter() {
        push_message(&mut messages, &entry.message);
    }
    let as_field = |field| adapter.max_tokens(request).filter(|_| max_tokens_field == field);
    Ok(Body {
        model: adapter.model(),
        messages,
        tools: request.tools.iter().map(|tool| Tool::new(tool)).collect(),
        tool_choice: if request.tools.is_empty() { None } else { tool_choice(&request.tool_choice) },
        response_format: request.response_schema.as_deref().map(ResponseFormat::new).transpose()?,
        temperature: adapter.temperature(request),
        max_tokens: as_field(MaxTokensField::MaxTokens),
        max_completion_tokens: as_field(MaxTokensField::MaxCompletionTokens),
        stream: true,
        stream_options: Some(StreamOptions { include_usage: true }),
    })
}

/// A request as JSON.
#[derive(Serialize)]
pub struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<WireChoice<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

impl Body<'_> {
    /// The same request for a reply in one piece.
    pub fn whole(self) -> Self {
        Self { stream: false, stream_options: None, ..self }
    }
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "snake_case")]
enum WireMessage<'a> {
    System {
        content: Cow<'a, str>,
    },
    User {
        content: UserContent<'a>,
    },
    Assistant {
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Cow<'a, str>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<Call<'a>>,
    },
    Tool {
        tool_call_id: Cow<'a, str>,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum UserContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<UserPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum UserPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: File<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: Cow<'a, str>,
}

#[derive(Serialize)]
struct File<'a> {
    filename: &'a str,
    file_data: String,
}

#[derive(Serialize)]
struct Call<'a> {
    id: Cow<'a, str>,
    r#type: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    parameters: Cow<'a, RawValue>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WireChoice<'a> {
    Word(&'static str),
    Tool { r#type: &'static str, function: Name<'a> },
}

#[derive(Serialize)]
struct Name<'a> {
    name: Cow<'a, str>,
}

#[derive(Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Serialize)]
struct JsonSchema<'a> {
    name: &'static str,
    schema: &'a RawValue,
}

impl<'a> ResponseFormat<'a> {
    /// Without `strict`: OpenAI takes only some schemas with it, and what came of it is checked by whoever asked.
    fn new(schema: &'a str) -> Result<Self, Fault> {
        let schema = serde_json::from_str(schema)
            .map_err(|error| Fault::invalid(format!("the schema of the reply is not JSON: {error}")))?;
        Ok(Self { r#type: "json_schema", json_schema: JsonSchema { name: "reply", schema } })
    }
}

impl<'a> Tool<'a> {
    fn new(tool: &'a ToolSpec) -> Self {
        let function = Function {
            name: COMMON.wire(&tool.name),
            description: &tool.description,
            parameters: schema::object(&tool.input_schema),
        };
        Self { r#type: "function", function }
    }
}

fn tool_choice(choice: &ToolChoice) -> Option<WireChoice<'_>> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Never => Some(WireChoice::Word("none")),
        ToolChoice::Required => Some(WireChoice::Word("required")),
        ToolChoice::Tool(name) => {
            Some(WireChoice::Tool { r#type: "function", function: Name { name: COMMON.wire(name) } })
        }
    }
}

fn push_message<'a>(messages: &mut Vec<WireMessage<'a>>, message: &'a Message) {
    match message.role {
        Role::System => messages.push(WireMessage::System { content: text::of_message(message) }),
        Role::User => messages.push(WireMessage::User { content: user_content(message) }),
        Role::Assistant => messages.push(assistant(message)),
        Role::Tool => messages.extend(message.tool_results().map(tool_result)),
    }
}

fn user_content(message: &Message) -> UserContent<'_> {
    if let [Part::Text(text)] = message.parts.as_slice() {
        return UserContent::Text(text.into());
    }
    let parts: Vec<_> = message.parts.iter().filter_map(user_part).collect();
    // Nobody takes an empty list.
    if parts.is_empty() { UserContent::Text("".into()) } else { UserContent::Parts(parts) }
}

fn user_part(part: &Part) -> Option<UserPart<'_>> {
    match part {
        Part::Text(text) => Some(UserPart::Text { text: text.into() }),
        Part::Media(media) => Some(media_part(media)),
        Part::Other(opaque) => Some(UserPart::Text { text: opaque.json.as_str().into() }),
        // These belong to other roles.
        Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}

fn media_part(media: &Media) -> UserPart<'_> {
    let is_text = media.media_type.starts_with("text/");
    match &media.source {
        Source::Url(url) if media.media_type.starts_with("image/") => {
            UserPart::ImageUrl { image_url: ImageUrl { url: url.into() } }
        }
        Source::Bytes(bytes) if media.media_type.starts_with("image/") => {
            UserPart::ImageUrl { image_url: ImageUrl { url: data_uri(&media.media_type, bytes).into() } }
        }
        Source::Bytes(bytes) if is_text && let Ok(text) = str::from_utf8(bytes) => UserPart::Text { text: text.into() },
        Source::Bytes(bytes) if media.media_type == "application/pdf" => {
            let filename = media.name.as_deref().unwrap_or("document.pdf");
            UserPart::File { file: File { filename, file_data: data_uri(&media.media_type, bytes) } }
        }
        _ => UserPart::Text { text: placeholder(media).into() },
    }
}

fn assistant(message: &Message) -> WireMessage<'_> {
    let tool_calls: Vec<_> = message.tool_calls().map(call).collect();
    // A message with neither is refused, one with an empty text is not.
    let content = Some(text::of_message(message)).filter(|text| !text.is_empty() || tool_calls.is_empty());
    WireMessage::Assistant { content, tool_calls }
}

fn call(call: &ToolCall) -> Call<'_> {
    Call {
        id: call_id(&call.id),
        r#type: "function",
        function: CalledFunction { name: COMMON.wire(&call.name), arguments: arguments::text(call) },
    }
}

/// The id of a call as this wire takes it. Only a long one is changed: some servers read something into their own.
fn call_id(id: &str) -> Cow<'_, str> {
    if id.len() <= limits::CHAT_CALL_ID_BYTES { id.into() } else { CALL_IDS.wire(id) }
}

/// The wire has no word for a failed call, so the text says it.
fn tool_result(result: &ToolResult) -> WireMessage<'_> {
    WireMessage::Tool { tool_call_id: call_id(&result.call_id), content: text::of_outcome(result) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_calls_are_no_longer_than_is_taken() {
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
