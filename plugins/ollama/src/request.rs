//! Requests in the form of the API.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, value::RawValue};
use shelly_plugin::{
    Error, Message, Part,
    media::base64,
    names,
    types::{Media, Request, Role, ToolCall, ToolChoice, ToolResult, ToolSpec},
};

use crate::Params;

/// A request as JSON.
#[derive(Serialize)]
pub(crate) struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    options: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keep_alive: Option<&'a Value>,
    stream: bool,
}

#[derive(Default, Serialize)]
struct WireMessage {
    role: &'static str,
    content: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    images: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    thinking: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<String>,
    /// The id of the call, which newer servers use.
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

#[derive(Serialize)]
struct Call {
    id: String,
    function: Called,
}

#[derive(Serialize)]
struct Called {
    name: String,
    arguments: Box<RawValue>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Offered<'a>,
}

#[derive(Serialize)]
struct Offered<'a> {
    name: String,
    description: &'a str,
    parameters: &'a RawValue,
}

/// Builds the body of a request for a streamed reply. `read` reads attachments.
pub(crate) fn body<'a>(
    model: &'a str,
    request: &'a Request,
    params: &'a Params,
    read: impl Fn(&Media) -> Result<Option<Vec<u8>>, Error>,
) -> Result<Body<'a>, Error> {
    let calls = request.calls();
    let mut messages = Vec::with_capacity(request.messages.len());
    for message in &request.messages {
        match message.role {
            Role::System => messages.push(of("system", message.text())),
            Role::User => messages.push(user(message, &read)?),
            Role::Assistant => messages.push(assistant(message)),
            Role::Tool => messages.extend(results(message).map(|result| tool_result(result, &calls))),
        }
    }
    // The API has no parameter for the tool choice.
    match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::Never => {}
        ToolChoice::Required => messages.push(of("system", "Answer with a call of a tool.".to_owned())),
        ToolChoice::Tool(name) => {
            messages.push(of("system", format!("Answer with a call of the tool `{}`.", names::wire(name))));
        }
    }
    Ok(Body {
        model,
        messages,
        tools: match request.tool_choice {
            ToolChoice::Never => Vec::new(),
            _ => request.tools.iter().map(tool).collect::<Result<_, _>>()?,
        },
        format: request.response_schema.as_deref().map(|schema| json("the schema of the reply", schema)).transpose()?,
        options: options(request, params),
        think: params.think.as_ref(),
        keep_alive: params.keep_alive.as_ref(),
        stream: true,
    })
}

fn options(request: &Request, params: &Params) -> Map<String, Value> {
    let mut options = params.options.clone();
    let mut set = |name: &str, value: Option<Value>| options.extend(value.map(|value| (name.to_owned(), value)));
    set("num_ctx", params.num_ctx.map(Value::from));
    set("num_predict", request.max_output_tokens.map(Value::from));
    // The conversion goes by way of text, because 0.7 as `f32` is not 0.7 as `f64`.
    set("temperature", request.temperature.and_then(|kelvin| kelvin.to_string().parse::<f64>().ok()).map(Value::from));
    options
}

fn tool(tool: &ToolSpec) -> Result<Tool<'_>, Error> {
    let name = names::wire(&tool.name).into_owned();
    let parameters = json(&format!("the schema of `{}`", tool.name), &tool.input_schema)?;
    Ok(Tool { r#type: "function", function: Offered { name, description: &tool.description, parameters } })
}

fn json<'a>(what: &str, text: &'a str) -> Result<&'a RawValue, Error> {
    serde_json::from_str(text).map_err(|error| Error::Invalid(format!("{what} is not JSON: {error}")))
}

fn of(role: &'static str, content: String) -> WireMessage {
    WireMessage { role, content, ..WireMessage::default() }
}

/// Converts a user message. Images are attached and texts written out; other media are described.
fn user(message: &Message, read: impl Fn(&Media) -> Result<Option<Vec<u8>>, Error>) -> Result<WireMessage, Error> {
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for part in &message.parts {
        match part {
            Part::Text(text) => texts.push(text.clone()),
            Part::Other(opaque) => texts.push(opaque.json.clone()),
            Part::Media(media) if media.media_type.starts_with("image/") => match read(media)? {
                Some(image) => images.push(base64(&image)),
                None => texts.push(media.in_words()),
            },
            Part::Media(media) if media.media_type.starts_with("text/") => {
                let text = read(media)?.and_then(|bytes| String::from_utf8(bytes).ok());
                texts.push(text.unwrap_or_else(|| media.in_words()));
            }
            Part::Media(media) => texts.push(media.in_words()),
            // These parts belong to other roles.
            Part::Thinking(_) | Part::ToolCall(_) | Part::ToolResult(_) => {}
        }
    }
    Ok(WireMessage { images, ..of("user", texts.join("\n")) })
}

fn assistant(message: &Message) -> WireMessage {
    let mut wire = of("assistant", message.text());
    for part in &message.parts {
        match part {
            // Thinking with opaque data comes from another vendor.
            Part::Thinking(thought) if thought.opaque.is_none() => wire.thinking.push_str(&thought.text),
            Part::ToolCall(call) => {
                let function = Called { name: names::wire(&call.name).into_owned(), arguments: call.object() };
                wire.tool_calls.push(Call { id: call.id.clone(), function });
            }
            _ => {}
        }
    }
    wire
}

fn results(message: &Message) -> impl Iterator<Item = &ToolResult> {
    message.parts.iter().filter_map(|part| if let Part::ToolResult(result) = part { Some(result) } else { None })
}

fn tool_result(result: &ToolResult, calls: &BTreeMap<&str, &ToolCall>) -> WireMessage {
    let tool_name = calls.get(&*result.call_id).map(|call| names::wire(&call.name).into_owned());
    let tool_call_id = Some(result.call_id.clone());
    WireMessage { tool_name, tool_call_id, ..of("tool", result.in_words()) }
}
