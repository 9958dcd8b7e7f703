use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    error::{cut, legible},
    limits,
    serve::{
        hosted_runs::RunRequest,
        http_api::{
            conversations::{ClientConversation, ClientMessage, ClientRole, encoded_file, image},
            problem::Problem,
        },
    },
    task::AttachedFile,
};

/// A run that a user interface asks for. Unknown fields are ignored, as the protocol says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgUiInputBody {
    thread_id: String,
    run_id: String,
    messages: Vec<AgUiMessageBody>,
    tools: Option<Vec<AgUiToolBody>>,
    context: Option<Vec<AgUiContextBody>>,
    state: Option<Value>,
    resume: Option<Vec<Value>>,
}

/// A message of the conversation.
#[derive(Debug, Deserialize)]
struct AgUiMessageBody {
    role: String,
    /// A text, or parts; of an activity, anything.
    content: Option<Value>,
}

/// A tool of the interface.
#[derive(Debug, Deserialize)]
struct AgUiToolBody {
    name: String,
}

/// Something that the interface tells the agent beside the conversation.
#[derive(Debug, Deserialize)]
struct AgUiContextBody {
    description: String,
    value: String,
}

/// A part of the content of a message.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgUiPartBody {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    source: Option<AgUiSourceBody>,
    /// The fields of the type `binary`, of earlier versions of the protocol.
    data: Option<String>,
    url: Option<String>,
    filename: Option<String>,
}

/// The place of an image or a file.
#[derive(Debug, Deserialize)]
struct AgUiSourceBody {
    #[serde(rename = "type")]
    kind: String,
    value: String,
}

/// A run for a user interface.
#[derive(Debug)]
pub struct AgUiCall {
    /// The id of the conversation, which the client has chosen.
    pub thread: String,
    /// The id of the run, which the client has chosen.
    pub run: String,
    /// The state of the interface.
    pub state: Map<String, Value>,
    /// The run, without the agent.
    pub request: RunRequest,
}

impl AgUiCall {
    /// Parses the body of a request.
    ///
    /// # Errors
    ///
    /// A [`Problem`] that says what cannot be used.
    pub fn parse(body: &[u8]) -> Result<Self, Box<Problem>> {
        let body: AgUiInputBody = serde_json::from_slice(body).map_err(|error| {
            Problem::bad_request("the body is no input of a run, as AG-UI defines it").cause(error.to_string())
        })?;
        for (name, id) in [("threadId", &body.thread_id), ("runId", &body.run_id)] {
            if !(1..=limits::SERVE_CLIENT_ID_BYTES).contains(&id.len()) {
                let most = limits::SERVE_CLIENT_ID_BYTES;
                return Err(Problem::bad_request(format!("`{name}` has not 1 to {most} bytes")).mend("use a UUID"));
            }
        }
        if let Some(tool) = body.tools.iter().flatten().next() {
            let name = cut(&legible(&tool.name), limits::NAME_SHOWN_CHARS);
            let title = format!("the tool `{name}` of the interface cannot be called: an agent has its own tools");
            return Err(Problem::bad_request(title).mend("leave `tools` empty"));
        }
        if body.resume.iter().flatten().next().is_some() {
            let mend = "answer questions of agents with POST /api/v1/questions/ID";
            return Err(Problem::bad_request("no run of this server ends with an interrupt").mend(mend));
        }
        let mut messages = Vec::new();
        for (at, message) in body.messages.into_iter().enumerate() {
            messages.extend(message.into_message(at)?);
        }
        if let Some(newest) = messages.iter_mut().rfind(|message| message.role == ClientRole::User) {
            let context = body.context.into_iter().flatten();
            newest.files.extend(context.map(|told| AttachedFile::Text {
                name: cut(&legible(&told.description), limits::NAME_SHOWN_CHARS),
                text: told.value,
            }));
        }
        let conversation = ClientConversation::of(messages, None);
        let ClientConversation { history, task } =
            conversation.map_err(|error| Problem::bad_request(error.to_string()))?;
        let state = match body.state {
            Some(Value::Object(state)) => state,
            _ => Map::new(),
        };
        let request = RunRequest { input: Some(task), history, ..RunRequest::default() };
        Ok(Self { thread: body.thread_id, run: body.run_id, state, request })
    }
}

impl AgUiMessageBody {
    /// Returns the message; `None` for one that is no text between the person and the agent. Calls and results of
    /// earlier runs were told to the interface alone.
    fn into_message(self, at: usize) -> Result<Option<ClientMessage>, Box<Problem>> {
        let place = format!("messages[{at}]");
        let role = match self.role.as_str() {
            "system" | "developer" => ClientRole::Instructions,
            "user" => ClientRole::User,
            "assistant" => ClientRole::Assistant,
            "tool" | "reasoning" | "activity" => return Ok(None),
            _ => return Err(Problem::bad_request(format!("`{place}`: the role is not one of the protocol"))),
        };
        let mut message = ClientMessage::new(role);
        match self.content {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => message.text = text,
            Some(parts) => {
                let parts = serde_json::from_value::<Vec<AgUiPartBody>>(parts);
                let parts = parts.map_err(|error| Problem::bad_request(format!("`{place}.content`: {error}")))?;
                for (at, part) in parts.into_iter().enumerate() {
                    let why = |why: String| Problem::bad_request(format!("`{place}.content[{at}]`: {why}"));
                    part.add_to(&mut message).map_err(why)?;
                }
            }
        }
        Ok(Some(message))
    }
}

impl AgUiPartBody {
    fn add_to(self, message: &mut ClientMessage) -> Result<(), String> {
        let number = message.files.len() + 1;
        let name = self.filename.unwrap_or_else(|| format!("file {number}"));
        let file = match self.kind.as_str() {
            "text" => {
                message.add_text(&self.text.unwrap_or_default());
                return Ok(());
            }
            "image" | "document" => match self.source {
                Some(AgUiSourceBody { kind, value }) if kind == "data" => encoded_file(&name, &value)?,
                Some(AgUiSourceBody { kind, value }) if kind == "url" && self.kind == "image" => image(&name, &value)?,
                _ => return Err("the source must have the type `data`, or `url` for an image".into()),
            },
            "binary" => match (self.data, self.url) {
                (Some(data), _) => encoded_file(&name, &data)?,
                (None, Some(url)) => image(&name, &url)?,
                (None, None) => return Err("the part has neither `data` nor `url`".into()),
            },
            kind => {
                let kind = cut(&legible(kind), limits::NAME_SHOWN_CHARS);
                return Err(format!("a part of the type `{kind}` is not taken; send texts, images and documents"));
            }
        };
        if message.role != ClientRole::User {
            return Err("only messages of the user have images and documents".into());
        }
        message.files.push(file);
        Ok(())
    }
}
