use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    openai_error::OpenAiError,
    parameter_rules::check_chat,
    request_parts::{OpenAiContentBody, budget_of, output_tokens, parse_parameters, schema_of},
};
use crate::{
    capability::Budget,
    serve::{
        hosted_runs::{RunRequest, RunTarget},
        http_api::conversations::{ClientConversation, ClientMessage, ClientRole},
    },
};

/// A chat completion that a client asks for.
#[derive(Debug, Deserialize)]
struct OpenAiChatBody {
    model: Option<String>,
    messages: Vec<OpenAiMessageBody>,
    stream: Option<bool>,
    stream_options: Option<OpenAiStreamBody>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    response_format: Option<OpenAiFormatBody>,
    store: Option<bool>,
    /// The most that the run may spend; an addition of the host.
    budget: Option<Budget>,
}

/// A message of the conversation.
#[derive(Debug, Deserialize)]
struct OpenAiMessageBody {
    role: String,
    content: Option<OpenAiContentBody>,
    tool_calls: Option<Vec<Value>>,
    function_call: Option<Value>,
}

/// The options of a stream.
#[derive(Debug, Deserialize)]
struct OpenAiStreamBody {
    include_usage: Option<bool>,
}

/// The form of the answer.
#[derive(Debug, Deserialize)]
struct OpenAiFormatBody {
    #[serde(rename = "type")]
    kind: String,
    json_schema: Option<OpenAiSchemaBody>,
}

/// A JSON Schema with its name.
#[derive(Debug, Deserialize)]
struct OpenAiSchemaBody {
    schema: Option<Value>,
}

/// A chat completion, as a run.
#[derive(Debug)]
pub struct ChatCompletionCall {
    /// The name of the agent; `None`: the default.
    pub model: Option<String>,
    /// The run, without the agent.
    pub request: RunRequest,
    /// `true` if the answer is sent in pieces.
    pub is_streamed: bool,
    /// `true` if the usage is sent after the last piece.
    pub includes_usage: bool,
    /// `true` if the answer follows a schema.
    pub has_schema: bool,
}

impl ChatCompletionCall {
    /// Parses a request.
    ///
    /// # Errors
    ///
    /// An [`OpenAiError`] that names the parameter that is wrong.
    pub fn parse(parameters: Map<String, Value>) -> Result<Self, Box<OpenAiError>> {
        check_chat(&parameters)?;
        let body: OpenAiChatBody = parse_parameters(parameters)?;
        let schema = match &body.response_format {
            Some(format) => {
                let schema = format.json_schema.as_ref().and_then(|named| named.schema.as_ref());
                schema_of(&format.kind, schema, "response_format")?
            }
            None => None,
        };
        let messages = body.messages.into_iter().enumerate();
        let messages = messages.map(|(at, message)| message.into_message(at)).collect::<Result<Vec<_>, _>>()?;
        let has_schema = schema.is_some();
        let conversation = ClientConversation::of(messages, schema);
        let ClientConversation { history, task } =
            conversation.map_err(|error| OpenAiError::invalid(Some("messages".into()), error.to_string()))?;
        let request = RunRequest {
            input: Some(task),
            history,
            target: if body.store == Some(false) { RunTarget::Off } else { RunTarget::New },
            budget: budget_of(body.budget, None)?,
            output_tokens: match body.max_completion_tokens {
                None => output_tokens(body.max_tokens, "max_tokens")?,
                bound => output_tokens(bound, "max_completion_tokens")?,
            },
            ..RunRequest::default()
        };
        Ok(Self {
            model: body.model.filter(|name| !name.is_empty()),
            request,
            is_streamed: body.stream == Some(true),
            includes_usage: body.stream_options.is_some_and(|options| options.include_usage == Some(true)),
            has_schema,
        })
    }
}

impl OpenAiMessageBody {
    fn into_message(self, at: usize) -> Result<ClientMessage, Box<OpenAiError>> {
        let place = format!("messages[{at}]");
        let refuse = |why: &str| OpenAiError::invalid(Some(place.clone()), format!("`{place}`: {why}"));
        let role = match self.role.as_str() {
            "system" | "developer" => ClientRole::Instructions,
            "user" => ClientRole::User,
            "assistant" => ClientRole::Assistant,
            "tool" | "function" => {
                return Err(refuse("results of tools of the client are not taken, as an agent has its own tools"));
            }
            _ => return Err(refuse("the role must be `system`, `developer`, `user` or `assistant`")),
        };
        if self.tool_calls.is_some_and(|calls| !calls.is_empty())
            || self.function_call.is_some_and(|call| !call.is_null())
        {
            return Err(refuse("calls of tools of the client are not taken, as an agent has its own tools"));
        }
        match self.content {
            Some(content) => content.into_message(role, &format!("{place}.content")),
            None => Ok(ClientMessage::new(role)),
        }
    }
}
