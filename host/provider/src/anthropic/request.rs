//! The request body of the Messages API.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json, value::RawValue};

use super::opaque_state::{REDACTED, SIGNATURE};
use crate::{
    adapter::ModelAdapter,
    arguments,
    media::{Base64, placeholder},
    schema,
    tool_names::COMMON,
};
use shelly_core::{
    chat::{self, Media, Message, Part, Role, ThinkingPart, ToolCall, ToolResult, ToolSpec},
    error::{Fault, cut},
    limits,
    model::{CompletionRequest, ToolChoice},
};

/// Fields of the config that the body already merges.
pub const MERGED: &[&str] = &["thinking", "output_config"];

/// The first message of a conversation that does not begin with a user message.
const BEGINNING: &str = "[The conversation begins here.]";
/// The last message of a conversation that ends with a model message.
const GO_ON: &str = "Continue.";
/// The vendor's minimum thinking budget, in tokens.
const LEAST_THINKING: u32 = 1_024;
/// The maximum length of a document title, in characters.
const TITLE_CHARS: usize = 500;

/// Builds the body of a request. With `cache`, asks the vendor to cache the tools, the system prompt, and the conversation
/// up to its end and up to the end of the previous request.
///
/// # Errors
///
/// [`Fault::Invalid`] if the schema of the reply is not JSON.
pub fn body<'a>(
    adapter: &'a ModelAdapter,
    request: &'a CompletionRequest,
    cache: bool,
) -> Result<AnthropicRequest<'a>, Fault> {
    let (max_tokens, thinking) = thinking(adapter, request);
    let thinks = thinking.as_ref().is_some_and(|thinking| thinking["type"] != "disabled");
    let (system, messages) = conversation(request);
    let mut body = AnthropicRequest {
        model: adapter.model(),
        max_tokens,
        tools: request.tools.iter().map(|tool| AnthropicTool::new(tool)).collect(),
        tool_choice: if request.tools.is_empty() { None } else { tool_choice(&request.tool_choice, thinks) },
        system,
        messages,
        temperature: adapter.temperature(request).filter(|_| !thinks).map(|value| value.min(1.0)),
        thinking,
        output_config: output_config(adapter, request)?,
        stream: false,
    };
    if cache {
        body.mark();
    }
    Ok(body)
}

/// The JSON of a request. The vendor's cache uses the order tools, system prompt, conversation, independent of the field
/// order here.
#[derive(Serialize)]
pub struct AnthropicRequest<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<AnthropicTool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<AnthropicToolChoice<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<AnthropicBlock<'a>>,
    messages: Vec<AnthropicMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stream: bool,
}

#[derive(Serialize)]
struct AnthropicMessage<'a> {
    role: AnthropicRole,
    content: Vec<AnthropicBlock<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum AnthropicRole {
    User,
    Assistant,
}

#[derive(Serialize)]
struct AnthropicBlock<'a> {
    #[serde(flatten)]
    content: AnthropicContent<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<AnthropicCacheControl>,
}

/// Asks the vendor to cache everything up to and including the marked block.
#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicCacheControl {
    Ephemeral,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicContent<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: AnthropicMediaSource<'a>,
    },
    Document {
        source: AnthropicMediaSource<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<Cow<'a, str>>,
    },
    Thinking {
        thinking: &'a str,
        signature: &'a str,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<AnthropicContent<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicMediaSource<'a> {
    Base64 { media_type: &'static str, data: Base64<'a> },
    Url { url: &'a str },
    Text { media_type: &'static str, data: &'a str },
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    input_schema: Cow<'a, RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<AnthropicCacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicToolChoice<'a> {
    None,
    Any,
    Tool { name: Cow<'a, str> },
}

impl AnthropicRequest<'_> {
    /// Returns the request with streaming enabled.
    pub fn streamed(self) -> Self {
        Self { stream: true, ..self }
    }

    /// Sets at most four cache marks, the vendor's maximum. The mark on the second-to-last user turn finds what the previous
    /// request cached, however much was appended since.
    fn mark(&mut self) {
        if let Some(tool) = self.tools.last_mut() {
            tool.cache_control = Some(AnthropicCacheControl::Ephemeral);
        }
        let turns = self.messages.iter_mut().rev().filter(|message| message.role == AnthropicRole::User).take(2);
        let ends = turns.filter_map(|message| message.content.last_mut());
        for block in ends.chain(self.system.last_mut()) {
            block.cache_control = Some(AnthropicCacheControl::Ephemeral);
        }
    }
}

impl<'a> From<AnthropicContent<'a>> for AnthropicBlock<'a> {
    fn from(content: AnthropicContent<'a>) -> Self {
        Self { content, cache_control: None }
    }
}

impl<'a> AnthropicTool<'a> {
    fn new(tool: &'a ToolSpec) -> Self {
        Self {
            name: COMMON.wire(&tool.name),
            description: tool.description.trim(),
            input_schema: schema::object(&tool.input_schema),
            cache_control: None,
        }
    }
}

/// Returns the token limit of the reply, and `thinking` from the config. The thinking budget is part of the limit and must
/// be less.
fn thinking(adapter: &ModelAdapter, request: &CompletionRequest) -> (u32, Option<Value>) {
    let mut thinking = adapter.field("thinking").filter(|value| !value.is_null()).cloned();
    let budget = thinking.as_ref().and_then(|thinking| thinking["budget_tokens"].as_u64());
    let budget = budget.map(|budget| u32::try_from(budget).unwrap_or(u32::MAX));
    let Some(most) = adapter.max_tokens(request) else {
        return (limits::ANTHROPIC_REPLY_TOKENS.saturating_add(budget.unwrap_or(0)), thinking);
    };
    if budget.is_some_and(|budget| budget >= most) {
        thinking = Some(match most / 2 {
            LEAST_THINKING.. => json!({"type": "enabled", "budget_tokens": most / 2}),
            _ => json!({"type": "disabled"}),
        });
    }
    (most.max(1), thinking)
}

fn tool_choice(choice: &ToolChoice, thinks: bool) -> Option<AnthropicToolChoice<'_>> {
    match choice {
        ToolChoice::Auto => None,
        ToolChoice::Never => Some(AnthropicToolChoice::None),
        // The vendor refuses to force a tool call while thinking is enabled.
        ToolChoice::Required | ToolChoice::Tool(_) if thinks => None,
        ToolChoice::Required => Some(AnthropicToolChoice::Any),
        ToolChoice::Tool(name) => Some(AnthropicToolChoice::Tool { name: COMMON.wire(name) }),
    }
}

/// Returns `output_config` from the config, with the schema of the reply added.
fn output_config(adapter: &ModelAdapter, request: &CompletionRequest) -> Result<Option<Value>, Fault> {
    let configured = adapter.field("output_config").cloned();
    let Some(schema) = &request.response_schema else { return Ok(configured) };
    let mut schema = schema::of_reply(schema)?;
    close(&mut schema);
    let mut config = match configured {
        Some(Value::Object(config)) => config,
        _ => Map::new(),
    };
    config.insert("format".into(), json!({"type": "json_schema", "schema": schema}));
    Ok(Some(config.into()))
}

/// Forbids additional properties in every object that does not mention them. The vendor requires it, and what it then
/// enforces still satisfies the schema. Parts of an `allOf` are left alone: once closed, they would exclude each other.
fn close(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for (keyword, value) in schema.iter_mut() {
        match (keyword.as_str(), value) {
            ("properties" | "$defs" | "definitions", Value::Object(named)) => named.values_mut().for_each(close),
            ("anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter_mut().for_each(close),
            ("items", items) => close(items),
            _ => {}
        }
    }
    let is_object = match schema.get("type") {
        Some(Value::Array(types)) => types.iter().any(|one| one == "object"),
        Some(one) => one == "object",
        None => schema.contains_key("properties"),
    };
    if is_object && !schema.contains_key("additionalProperties") {
        schema.insert("additionalProperties".into(), false.into());
    }
}

/// Returns the system prompt and the turns. No two turns in a row have the same role, none is empty, and the first and last
/// are the user's.
fn conversation(request: &CompletionRequest) -> (Vec<AnthropicBlock<'_>>, Vec<AnthropicMessage<'_>>) {
    let (mut system, mut turns) = (Vec::new(), Vec::with_capacity(request.messages.len()));
    for entry in request.messages.iter() {
        let message = &*entry.message;
        match message.role {
            Role::System if turns.is_empty() => system.extend(user_content(message).map(AnthropicBlock::from)),
            Role::System | Role::User => add(&mut turns, AnthropicRole::User, user_content(message)),
            Role::Assistant => add(&mut turns, AnthropicRole::Assistant, assistant_content(message)),
            Role::Tool => add(&mut turns, AnthropicRole::User, message.tool_results().map(tool_result)),
        }
    }
    if turns.last().is_none_or(|last| last.role == AnthropicRole::Assistant) {
        add(&mut turns, AnthropicRole::User, [AnthropicContent::Text { text: GO_ON.into() }]);
    }
    (system, turns)
}

fn add<'a>(
    turns: &mut Vec<AnthropicMessage<'a>>,
    role: AnthropicRole,
    content: impl IntoIterator<Item = AnthropicContent<'a>>,
) {
    let mut content = content.into_iter().map(AnthropicBlock::from).peekable();
    if content.peek().is_none() {
        return;
    }
    if turns.is_empty() && role == AnthropicRole::Assistant {
        let beginning = AnthropicContent::Text { text: BEGINNING.into() };
        turns.push(AnthropicMessage { role: AnthropicRole::User, content: vec![beginning.into()] });
    }
    match turns.last_mut() {
        Some(last) if last.role == role => last.content.extend(content),
        _ => turns.push(AnthropicMessage { role, content: content.collect() }),
    }
}

/// Returns a text block; `None` for blank text, which the vendor refuses.
fn text<'a>(text: impl Into<Cow<'a, str>>) -> Option<AnthropicContent<'a>> {
    let text = text.into();
    (!text.trim().is_empty()).then_some(AnthropicContent::Text { text })
}

fn user_content(message: &Message) -> impl Iterator<Item = AnthropicContent<'_>> {
    message.parts.iter().filter_map(|part| match part {
        Part::Text(written) => text(written),
        Part::Media(attached) if message.role == Role::User => media(attached),
        Part::Media(attached) => text(placeholder(attached)),
        Part::Other(opaque) => text(&opaque.json),
        // These parts belong to other roles.
        Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    })
}

fn assistant_content(message: &Message) -> impl Iterator<Item = AnthropicContent<'_>> {
    // The vendor refuses a message that ends with a thought, which happens when a reply was cut off.
    let ends = |part: &Part| match part {
        Part::Text(written) => !written.trim().is_empty(),
        Part::ToolCall(_) | Part::Media(_) => true,
        Part::Thinking(_) | Part::Other(_) | Part::ToolResult(_) => false,
    };
    let end = message.parts.iter().rposition(ends).map_or(0, |last| last + 1);
    message.parts[..end].iter().filter_map(|part| match part {
        Part::Text(written) => text(written),
        Part::Thinking(thinking) => thought(thinking),
        Part::ToolCall(call) => Some(tool_use(call)),
        // Only user messages may contain attachments.
        Part::Media(attached) => text(placeholder(attached)),
        Part::Other(_) | Part::ToolResult(_) => None,
    })
}

/// Returns a thought of this vendor's models. Thoughts of other models have no valid signature and are dropped.
fn thought(thinking: &ThinkingPart) -> Option<AnthropicContent<'_>> {
    let opaque = thinking.opaque.as_deref()?;
    match opaque.strip_prefix(REDACTED) {
        Some(data) => Some(AnthropicContent::RedactedThinking { data }),
        None => {
            let signature = opaque.strip_prefix(SIGNATURE)?;
            Some(AnthropicContent::Thinking { thinking: &thinking.text, signature })
        }
    }
}

fn tool_use(call: &ToolCall) -> AnthropicContent<'_> {
    AnthropicContent::ToolUse {
        id: COMMON.wire(&call.id),
        name: COMMON.wire(&call.name),
        input: arguments::object(call),
    }
}

fn tool_result(result: &ToolResult) -> AnthropicContent<'_> {
    let content: Vec<_> = result
        .content
        .iter()
        .filter_map(|content| match content {
            chat::ToolResultContent::Text(written) | chat::ToolResultContent::Json(written) => text(written),
            chat::ToolResultContent::Media(attached) => media(attached),
            chat::ToolResultContent::Other(opaque) => text(&opaque.json),
        })
        .collect();
    let tool_use_id = COMMON.wire(&result.call_id);
    let is_text = content.iter().all(|content| matches!(content, AnthropicContent::Text { .. }));
    if !result.is_error || is_text {
        return AnthropicContent::ToolResult { tool_use_id, content, is_error: result.is_error };
    }
    // The vendor refuses a failed result that contains anything but text, so the text marks the error.
    let says_so = [AnthropicContent::Text { text: "Error:".into() }];
    AnthropicContent::ToolResult { tool_use_id, content: says_so.into_iter().chain(content).collect(), is_error: false }
}

/// Returns the block for an attachment, or a text that stands for one that the vendor does not accept.
fn media(media: &Media) -> Option<AnthropicContent<'_>> {
    let image = match media.media_type.as_str() {
        "image/jpeg" | "image/jpg" => Some("image/jpeg"),
        "image/png" => Some("image/png"),
        "image/gif" => Some("image/gif"),
        "image/webp" => Some("image/webp"),
        _ => None,
    };
    let is_pdf = media.media_type == "application/pdf";
    let title = media.name.as_deref().filter(|name| !name.trim().is_empty()).map(|name| {
        let fits = name.chars().nth(TITLE_CHARS).is_none();
        if fits { name.into() } else { cut(name, TITLE_CHARS - 1).into() }
    });
    match &media.source {
        chat::MediaData::Url(url) if url.starts_with("https://") && media.media_type.starts_with("image/") => {
            Some(AnthropicContent::Image { source: AnthropicMediaSource::Url { url } })
        }
        chat::MediaData::Url(url) if url.starts_with("https://") && is_pdf => {
            Some(AnthropicContent::Document { source: AnthropicMediaSource::Url { url }, title })
        }
        chat::MediaData::Bytes(bytes) if let Some(media_type) = image => {
            Some(AnthropicContent::Image { source: AnthropicMediaSource::Base64 { media_type, data: Base64(bytes) } })
        }
        chat::MediaData::Bytes(bytes) if is_pdf => {
            let source = AnthropicMediaSource::Base64 { media_type: "application/pdf", data: Base64(bytes) };
            Some(AnthropicContent::Document { source, title })
        }
        chat::MediaData::Bytes(bytes)
            if media.media_type.starts_with("text/")
                && let Ok(data) = str::from_utf8(bytes)
                && !data.trim().is_empty() =>
        {
            Some(AnthropicContent::Document {
                source: AnthropicMediaSource::Text { media_type: "text/plain", data },
                title,
            })
        }
        _ => text(placeholder(media)),
    }
}
