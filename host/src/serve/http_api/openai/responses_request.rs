use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    openai_error::OpenAiError,
    parameter_rules::check_responses,
    request_parts::{OpenAiContentBody, budget_of, output_tokens, parse_parameters, schema_of},
};
use crate::{
    capability::Budget,
    error::{cut, legible},
    limits,
    serve::{
        hosted_runs::{RunRequest, RunTarget},
        http_api::conversations::{ClientConversation, ClientMessage, ClientRole},
    },
};

/// A response that a client asks for.
#[derive(Debug, Deserialize)]
struct OpenAiResponsesBody {
    model: Option<String>,
    input: OpenAiInputBody,
    instructions: Option<String>,
    previous_response_id: Option<String>,
    store: Option<bool>,
    stream: Option<bool>,
    background: Option<bool>,
    max_output_tokens: Option<u64>,
    max_tool_calls: Option<u64>,
    text: Option<OpenAiTextBody>,
    /// The most that the run may spend; an addition of the host.
    budget: Option<Budget>,
}

/// The input of a response.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "`input` must be a text, or a list of messages that each have a `role` and a `content`")]
enum OpenAiInputBody {
    Text(String),
    Items(Vec<OpenAiItemBody>),
}

/// An item of the input: a message, or what an earlier response has returned.
#[derive(Debug, Deserialize)]
struct OpenAiItemBody {
    #[serde(rename = "type")]
    kind: Option<String>,
    role: Option<String>,
    content: Option<OpenAiContentBody>,
}

/// The options of the text.
#[derive(Debug, Deserialize)]
struct OpenAiTextBody {
    format: Option<Value>,
}

/// A response, as a run.
#[derive(Debug)]
pub struct ResponseCall {
    /// The name of the agent; `None`: the default.
    pub model: Option<String>,
    /// The run, without the agent. Its target is a new session, or none.
    pub request: RunRequest,
    /// The response whose session the run continues.
    pub previous: Option<String>,
    /// The instructions of the client, which the response repeats.
    pub instructions: Option<String>,
    /// The form of the answer.
    pub format: Value,
    /// `true` if the answer is sent in pieces.
    pub is_streamed: bool,
    /// `true` if the run goes on without its client, who asks for the answer later.
    pub is_background: bool,
    /// `true` if the answer follows a schema.
    pub has_schema: bool,
}

impl ResponseCall {
    /// Parses a request.
    ///
    /// # Errors
    ///
    /// An [`OpenAiError`] that names the parameter that is wrong.
    pub fn parse(parameters: Map<String, Value>) -> Result<Self, Box<OpenAiError>> {
        check_responses(&parameters)?;
        let body: OpenAiResponsesBody = parse_parameters(parameters)?;
        let format = body.text.and_then(|text| text.format).unwrap_or_else(|| json!({ "type": "text" }));
        let schema = schema_of(format["type"].as_str().unwrap_or_default(), format.get("schema"), "text.format")?;
        let has_schema = schema.is_some();
        let mut messages = Vec::new();
        if let Some(instructions) = &body.instructions {
            messages.push(ClientMessage { text: instructions.clone(), ..ClientMessage::new(ClientRole::Instructions) });
        }
        match body.input {
            OpenAiInputBody::Text(text) => {
                messages.push(ClientMessage { text, ..ClientMessage::new(ClientRole::User) })
            }
            OpenAiInputBody::Items(items) => {
                for (at, item) in items.into_iter().enumerate() {
                    messages.extend(item.into_message(at)?);
                }
            }
        }
        let conversation = ClientConversation::of(messages, schema);
        let ClientConversation { history, task } =
            conversation.map_err(|error| OpenAiError::invalid(Some("input".into()), error.to_string()))?;
        if body.store == Some(false) && body.previous_response_id.is_some() {
            let why = "`previous_response_id` continues a session, in which the response is stored; leave `store` out";
            return Err(OpenAiError::invalid(Some("store".into()), why));
        }
        let is_background = body.background == Some(true);
        if is_background && body.stream == Some(true) {
            let why = "a response in the background is not streamed; leave `stream` out, and retrieve it";
            return Err(OpenAiError::invalid(Some("stream".into()), why));
        }
        if is_background && body.store == Some(false) {
            let why = "a response in the background is stored, so that it can be retrieved; leave `store` out";
            return Err(OpenAiError::invalid(Some("store".into()), why));
        }
        let request = RunRequest {
            input: Some(task),
            history,
            target: if body.store == Some(false) { RunTarget::Off } else { RunTarget::New },
            budget: budget_of(body.budget, body.max_tool_calls)?,
            output_tokens: output_tokens(body.max_output_tokens, "max_output_tokens")?,
            ..RunRequest::default()
        };
        Ok(Self {
            model: body.model.filter(|name| !name.is_empty()),
            request,
            previous: body.previous_response_id,
            instructions: body.instructions,
            format,
            is_streamed: body.stream == Some(true),
            is_background,
            has_schema,
        })
    }
}

impl OpenAiItemBody {
    /// Returns the message; `None` for thoughts of an earlier response.
    fn into_message(self, at: usize) -> Result<Option<ClientMessage>, Box<OpenAiError>> {
        let place = format!("input[{at}]");
        let refuse = |why: &str| OpenAiError::invalid(Some(place.clone()), format!("`{place}`: {why}"));
        match self.kind.as_deref() {
            None | Some("message") => {}
            Some("reasoning") => return Ok(None),
            Some(kind) => {
                let kind = cut(&legible(kind), limits::NAME_SHOWN_CHARS);
                return Err(refuse(&format!("an item of the type `{kind}` is not taken; send messages")));
            }
        }
        let role = match self.role.as_deref() {
            Some("system" | "developer") => ClientRole::Instructions,
            Some("user") => ClientRole::User,
            Some("assistant") => ClientRole::Assistant,
            _ => return Err(refuse("the role must be `system`, `developer`, `user` or `assistant`")),
        };
        match self.content {
            Some(content) => content.into_message(role, &format!("{place}.content")).map(Some),
            None => Err(refuse("the message has no `content`")),
        }
    }
}
