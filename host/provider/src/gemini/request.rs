//! The request body of the Gemini API.

use std::{borrow::Cow, collections::HashMap};

use indexmap::IndexMap;
use serde::{Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use super::opaque_state;
use crate::{
    adapter::ModelAdapter,
    arguments,
    media::{Base64, placeholder},
    schema, text,
    tool_names::GEMINI,
};
use shelly_core::{
    chat::{Media, MediaData, Message, Part, Role, ThinkingPart, ToolCall, ToolResult, ToolResultContent, ToolSpec},
    error::Fault,
    model::{CompletionRequest, ToolChoice},
};

/// Body fields that a config can extend.
pub const TOOLS: &str = "tools";
pub const GENERATION_CONFIG: &str = "generationConfig";

/// The first message of a conversation that does not begin with a user message.
const BEGINNING: &str = "(The conversation continues from here.)";
/// The placeholder that newer models accept in place of the signature of a call that they did not make. They insist on one.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// Builds the body of a request.
///
/// # Errors
///
/// [`Fault::Invalid`] if the schema of the reply is not JSON, or the fields of the config cannot be merged.
pub fn body<'a>(adapter: &'a ModelAdapter, request: &'a CompletionRequest) -> Result<GeminiRequest<'a>, Fault> {
    let is_old = is_old(adapter.model());
    let mut contents = GeminiConversation { is_old, ..GeminiConversation::default() };
    for entry in request.messages.iter() {
        contents.push(&entry.message);
    }
    let system_instruction = Some(contents.system).filter(|parts| !parts.is_empty());
    let mut contents = contents.list;
    if contents.first().is_none_or(|first| first.role != USER) {
        contents.insert(0, GeminiContent { role: USER, parts: vec![text_part(BEGINNING.into())] });
    }
    let has_tools = !request.tools.is_empty();
    // Older models refuse to enforce a schema if there are tools. The caller checks the reply anyway.
    let schema = request.response_schema.as_deref().filter(|_| !(is_old && has_tools));
    Ok(GeminiRequest {
        system_instruction: system_instruction.map(|parts| GeminiSystemInstruction { parts }),
        contents,
        tools: tools(adapter, request)?,
        tool_config: has_tools.then(|| GeminiToolConfig::new(&request.tool_choice)).flatten(),
        generation_config: generation_config(adapter, request, schema)?,
    })
}

/// Returns `true` for a model from before signatures were required and schemas were accepted together with tools.
fn is_old(model: &str) -> bool {
    let model = model.rsplit_once('/').map_or(model, |(_, model)| model);
    !model.starts_with("gemini-") || model.starts_with("gemini-1") || model.starts_with("gemini-2")
}

/// The JSON of a request.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeminiRequest<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<GeminiSystemInstruction<'a>>,
    contents: Vec<GeminiContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<GeminiTools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<GeminiToolConfig<'a>>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    generation_config: IndexMap<&'a str, GeminiSetting<'a>>,
}

#[derive(Serialize)]
struct GeminiSystemInstruction<'a> {
    parts: Vec<GeminiPart<'a>>,
}

const USER: &str = "user";
const MODEL: &str = "model";

#[derive(Serialize)]
struct GeminiContent<'a> {
    role: &'static str,
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum GeminiPart<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        thought: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    Bytes {
        inline_data: GeminiBlob<'a>,
    },
    File {
        file_data: GeminiFileData<'a>,
    },
    Call {
        function_call: GeminiFunctionCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    Response {
        function_response: GeminiFunctionResponse<'a>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiBlob<'a> {
    mime_type: &'a str,
    data: Base64<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiFileData<'a> {
    mime_type: &'a str,
    file_uri: &'a str,
}

#[derive(Serialize)]
struct GeminiFunctionCall<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    args: Cow<'a, RawValue>,
}

#[derive(Serialize)]
struct GeminiFunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: Cow<'a, str>,
    response: GeminiFunctionOutput<'a>,
}

/// Text even for JSON results: the vendor's own objects limit numbers to 53 bits and the nesting depth, and treat a key
/// `$ref` as a reference.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum GeminiFunctionOutput<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

#[derive(Serialize)]
#[serde(untagged)]
enum GeminiTools<'a> {
    #[serde(rename_all = "camelCase")]
    Declared { function_declarations: Vec<GeminiFunctionDeclaration<'a>> },
    /// Tools from the config, passed through unchanged.
    Other(&'a Value),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiFunctionDeclaration<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters_json_schema: Option<Cow<'a, RawValue>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiToolConfig<'a> {
    function_calling_config: GeminiCallingConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiCallingConfig<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[Cow<'a, str>; 1]>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum GeminiSetting<'a> {
    Count(u32),
    Number(f32),
    Word(&'static str),
    Schema(Cow<'a, RawValue>),
    /// A setting from the config, passed through unchanged.
    Other(&'a Value),
}

impl<'a> GeminiToolConfig<'a> {
    fn new(choice: &'a ToolChoice) -> Option<Self> {
        let (mode, allowed_function_names) = match choice {
            ToolChoice::Auto => return None,
            ToolChoice::Never => ("NONE", None),
            ToolChoice::Required => ("ANY", None),
            ToolChoice::Tool(name) => ("ANY", Some([GEMINI.wire(name)])),
        };
        Some(Self { function_calling_config: GeminiCallingConfig { mode, allowed_function_names } })
    }
}

fn tools<'a>(adapter: &'a ModelAdapter, request: &'a CompletionRequest) -> Result<Vec<GeminiTools<'a>>, Fault> {
    let mut tools = Vec::new();
    if !request.tools.is_empty() {
        let function_declarations = request.tools.iter().map(|tool| GeminiFunctionDeclaration::new(tool)).collect();
        tools.push(GeminiTools::Declared { function_declarations });
    }
    match adapter.field(TOOLS) {
        Some(Value::Array(more)) => tools.extend(more.iter().map(GeminiTools::Other)),
        Some(_) => {
            return Err(Fault::invalid("`tools` in the model's body is not a list; write it as `[{\"…\": {}}]`"));
        }
        None => {}
    }
    Ok(tools)
}

fn generation_config<'a>(
    adapter: &'a ModelAdapter,
    request: &'a CompletionRequest,
    schema: Option<&'a str>,
) -> Result<IndexMap<&'a str, GeminiSetting<'a>>, Fault> {
    let mut settings = IndexMap::new();
    if let Some(tokens) = adapter.max_tokens(request) {
        settings.insert("maxOutputTokens", GeminiSetting::Count(tokens));
    }
    if let Some(temperature) = adapter.temperature(request) {
        settings.insert("temperature", GeminiSetting::Number(temperature));
    }
    if let Some(text) = schema {
        let schema: &RawValue = schema::of_reply(text)?;
        settings.insert("responseMimeType", GeminiSetting::Word("application/json"));
        settings.insert("responseJsonSchema", GeminiSetting::Schema(schema::gemini(schema)));
    }
    match adapter.field(GENERATION_CONFIG) {
        Some(Value::Object(more)) => {
            for (key, value) in more {
                settings.entry(key.as_str()).or_insert(GeminiSetting::Other(value));
            }
        }
        Some(_) => {
            let fix = "write it as `{\"thinkingConfig\": {}}`";
            return Err(Fault::invalid(format!("`generationConfig` in the model's body is not an object; {fix}")));
        }
        None => {}
    }
    Ok(settings)
}

impl<'a> GeminiFunctionDeclaration<'a> {
    /// Declares a tool, without a schema if it has no parameters.
    fn new(tool: &'a ToolSpec) -> Self {
        let schema = schema::gemini_object(&tool.input_schema);
        let name = GEMINI.wire(&tool.name);
        // The API refuses a declaration without a description.
        let description = if tool.description.trim().is_empty() { tool.name.as_str() } else { &tool.description };
        let has_none = has_no_properties(&schema);
        Self { name, description, parameters_json_schema: (!has_none).then_some(schema) }
    }
}

/// Returns `true` if the schema admits only the empty object.
fn has_no_properties(schema: &RawValue) -> bool {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct GeminiSchemaFields {
        #[serde(default)]
        properties: HashMap<String, IgnoredAny>,
        #[serde(default)]
        additional_properties: Option<Value>,
    }
    // Schemas with properties are usually longer and need not be parsed again.
    const LONGEST: usize = 256;
    schema.get().len() < LONGEST
        && serde_json::from_str::<GeminiSchemaFields>(schema.get()).is_ok_and(|schema| {
            schema.properties.is_empty() && schema.additional_properties.is_none_or(|more| more == Value::Bool(false))
        })
}

/// The conversation in turns of the user and the model.
#[derive(Default)]
struct GeminiConversation<'a> {
    system: Vec<GeminiPart<'a>>,
    list: Vec<GeminiContent<'a>>,
    calls: HashMap<&'a str, &'a ToolCall>,
    is_old: bool,
}

impl<'a> GeminiConversation<'a> {
    fn push(&mut self, message: &'a Message) {
        match message.role {
            Role::System => {
                let texts = message.parts.iter().filter_map(|part| match part {
                    Part::Text(text) if !text.trim().is_empty() => plain(text),
                    _ => None,
                });
                self.system.extend(texts);
            }
            Role::User => self.extend(USER, message.parts.iter().filter_map(user_part)),
            Role::Assistant => self.push_reply(message),
            Role::Tool => {
                for result in message.tool_results() {
                    self.push_result(result);
                }
            }
        }
    }

    /// Merges consecutive turns of one role and skips empty turns, because the API refuses both.
    fn extend(&mut self, role: &'static str, parts: impl IntoIterator<Item = GeminiPart<'a>>) {
        let mut parts = parts.into_iter().peekable();
        if parts.peek().is_none() {
            return;
        }
        match self.list.last_mut() {
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => self.list.push(GeminiContent { role, parts: parts.collect() }),
        }
    }

    fn push_reply(&mut self, message: &'a Message) {
        let mut parts = Vec::new();
        let mut is_first_call = true;
        for part in &message.parts {
            match part {
                Part::Text(text) => parts.extend(plain(text)),
                Part::Media(media) => parts.extend(media_part(media)),
                Part::Thinking(thought) => push_thought(&mut parts, thought),
                Part::ToolCall(call) => {
                    self.calls.insert(&call.id, call);
                    let wants_signature = std::mem::take(&mut is_first_call) && !self.is_old;
                    let signature = fact(call, opaque_state::CALL).or(wants_signature.then_some(NO_SIGNATURE));
                    let name = GEMINI.wire(&call.name);
                    let function_call =
                        GeminiFunctionCall { id: fact(call, opaque_state::ID), name, args: arguments::object(call) };
                    parts.push(GeminiPart::Call { function_call, thought_signature: signature });
                }
                // These parts belong to other roles, or have no counterpart in this API.
                Part::ToolResult(_) | Part::Other(_) => {}
            }
        }
        self.extend(MODEL, parts);
    }

    /// Adds a tool result. Media follow the result, because only the newest models accept them inside it.
    fn push_result(&mut self, result: &'a ToolResult) {
        let text = text::of_result(result);
        let call = self.calls.get(result.call_id.as_str());
        let first = match call {
            Some(call) => {
                let (id, name) = (fact(call, opaque_state::ID), GEMINI.wire(&call.name));
                let response = if result.is_error {
                    GeminiFunctionOutput::Error(text)
                } else {
                    GeminiFunctionOutput::Output(text)
                };
                GeminiPart::Response { function_response: GeminiFunctionResponse { id, name, response } }
            }
            // The API has no way to express a result without a call.
            None => text_part(text),
        };
        let media = result.content.iter().filter_map(|content| match content {
            ToolResultContent::Media(media) => media_part(media),
            ToolResultContent::Text(_) | ToolResultContent::Json(_) | ToolResultContent::Other(_) => None,
        });
        self.extend(USER, [first].into_iter().chain(media));
    }
}

fn fact<'a>(call: &'a ToolCall, key: &str) -> Option<&'a str> {
    call.meta.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
}

fn text_part(text: Cow<'_, str>) -> GeminiPart<'_> {
    GeminiPart::Text { text, thought: false, thought_signature: None }
}

/// Returns a text part; `None` for an empty text, which the API refuses.
fn plain(text: &str) -> Option<GeminiPart<'_>> {
    (!text.is_empty()).then(|| text_part(text.into()))
}

/// Puts signatures back where they came from; drops the thoughts of other vendors.
fn push_thought<'a>(parts: &mut Vec<GeminiPart<'a>>, thought: &'a ThinkingPart) {
    let opaque = thought.opaque.as_deref().unwrap_or_default();
    if let Some(signature) = opaque.strip_prefix(opaque_state::THOUGHT) {
        let text = thought.text.as_str().into();
        parts.push(GeminiPart::Text { text, thought: true, thought_signature: Some(signature) });
    } else if let Some(signature) = opaque.strip_prefix(opaque_state::TEXT)
        && let Some(GeminiPart::Text { thought: false, thought_signature: place @ None, .. }) = parts.last_mut()
    {
        *place = Some(signature);
    } else if let Some(signature) = opaque.strip_prefix(opaque_state::ALONE) {
        parts.push(GeminiPart::Text { text: "".into(), thought: false, thought_signature: Some(signature) });
    }
}

fn user_part(part: &Part) -> Option<GeminiPart<'_>> {
    match part {
        Part::Text(text) => plain(text),
        Part::Media(media) => media_part(media),
        Part::Other(opaque) => plain(&opaque.json),
        // These parts belong to other roles.
        Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => None,
    }
}

fn media_part(media: &Media) -> Option<GeminiPart<'_>> {
    let mime_type = taken_type(&media.media_type);
    match (&media.source, mime_type) {
        (MediaData::Bytes(bytes), None)
            if is_text(media)
                && let Ok(text) = str::from_utf8(bytes) =>
        {
            plain(text)
        }
        (MediaData::Bytes(bytes), Some(mime_type)) if !bytes.is_empty() => {
            Some(GeminiPart::Bytes { inline_data: GeminiBlob { mime_type, data: Base64(bytes) } })
        }
        (MediaData::Url(url), Some(mime_type)) if ["https://", "gs://"].iter().any(|start| url.starts_with(start)) => {
            Some(GeminiPart::File { file_data: GeminiFileData { mime_type, file_uri: url } })
        }
        _ => Some(text_part(placeholder(media).into())),
    }
}

fn is_text(media: &Media) -> bool {
    media.media_type.starts_with("text/")
}

/// Returns the vendor's name of a media type that it can process. It refuses a whole request for any other type.
fn taken_type(media_type: &str) -> Option<&str> {
    match media_type {
        "image/jpg" => Some("image/jpeg"),
        "image/png" | "image/jpeg" | "image/webp" | "image/heic" | "image/heif" | "application/pdf" => Some(media_type),
        _ if ["audio/", "video/"].iter().any(|kind| media_type.starts_with(kind)) => Some(media_type),
        _ => None,
    }
}
