//! The parts that the requests of both interfaces have in common.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use super::openai_error::OpenAiError;
use crate::{
    capability::Budget,
    error::{cut, legible},
    limits,
    net::http_server::ServedRequest,
    serve::http_api::{
        conversations::{ClientMessage, ClientRole, encoded_file, image},
        problem::Problem,
        request_bodies::read_json_bytes,
    },
    task::{AnswerSchema, AttachedFile},
};

/// The content of a message.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "the `content` of a message must be a text, or a list of parts that each have a `type`")]
pub enum OpenAiContentBody {
    /// A text.
    Text(String),
    /// Texts, images and files.
    Parts(Vec<OpenAiPartBody>),
}

/// A part of the content of a message. In chat completions an image or a file is an object of its own, in responses its
/// fields stand in the part.
#[derive(Debug, Deserialize)]
pub struct OpenAiPartBody {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    refusal: Option<String>,
    image_url: Option<OpenAiImageBody>,
    file: Option<OpenAiFileBody>,
    #[serde(flatten)]
    inline: OpenAiFileBody,
}

/// The address or content of an image.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "an `image_url` must be an address, or an object with `url`")]
enum OpenAiImageBody {
    Address(String),
    Object { url: String },
}

/// The content of a file.
#[derive(Debug, Default, Deserialize)]
struct OpenAiFileBody {
    filename: Option<String>,
    file_data: Option<String>,
    file_id: Option<String>,
    file_url: Option<String>,
}

impl OpenAiContentBody {
    /// Returns the message with this content; `place` names the content in a refusal.
    pub fn into_message(self, role: ClientRole, place: &str) -> Result<ClientMessage, Box<OpenAiError>> {
        let mut message = ClientMessage::new(role);
        match self {
            Self::Text(text) => message.text = text,
            Self::Parts(parts) => {
                for (at, part) in parts.into_iter().enumerate() {
                    part.add_to(&mut message, &format!("{place}[{at}]"))?;
                }
            }
        }
        Ok(message)
    }
}

impl OpenAiPartBody {
    fn add_to(self, message: &mut ClientMessage, place: &str) -> Result<(), Box<OpenAiError>> {
        let wrong = |why: String| OpenAiError::invalid(Some(place.to_owned()), format!("`{place}`: {why}"));
        let number = message.files.len() + 1;
        let file = match self.kind.as_str() {
            "text" | "input_text" | "output_text" => {
                message.add_text(&self.text.ok_or_else(|| wrong("the part has no `text`".into()))?);
                return Ok(());
            }
            "refusal" => {
                message.add_text(&self.refusal.unwrap_or_default());
                return Ok(());
            }
            "image_url" | "input_image" => {
                let url = match self.image_url {
                    Some(OpenAiImageBody::Address(url) | OpenAiImageBody::Object { url }) => url,
                    None => return Err(wrong("the part has no `image_url`; uploaded files are not known here".into())),
                };
                image(&format!("image {number}"), &url).map_err(wrong)?
            }
            "file" | "input_file" => self.file.unwrap_or(self.inline).into_attached(number).map_err(wrong)?,
            kind => {
                let kind = cut(&legible(kind), limits::NAME_SHOWN_CHARS);
                return Err(wrong(format!("a part of the type `{kind}` is not taken; send texts, images and files")));
            }
        };
        if message.role != ClientRole::User {
            return Err(wrong("only messages of the user have images and files".into()));
        }
        message.files.push(file);
        Ok(())
    }
}

impl OpenAiFileBody {
    fn into_attached(self, number: usize) -> Result<AttachedFile, String> {
        let name = self.filename.unwrap_or_else(|| format!("file {number}"));
        match self.file_data {
            Some(content) => encoded_file(&name, &content),
            None if self.file_id.is_some() => Err("uploaded files are not known here; send `file_data`".into()),
            None if self.file_url.is_some() => Err("the host fetches no addresses; send `file_data`".into()),
            None => Err("the file has no `file_data`".into()),
        }
    }
}

/// Reads the parameters of a request.
pub async fn read_parameters(request: &mut ServedRequest) -> Result<Map<String, Value>, Box<OpenAiError>> {
    let body = read_json_bytes(request, limits::SERVE_RUN_BODY_BYTES).await?;
    serde_json::from_slice(&body).map_err(|error| unusable(&error))
}

/// Parses parameters that were checked.
pub fn parse_parameters<T: DeserializeOwned>(parameters: Map<String, Value>) -> Result<T, Box<OpenAiError>> {
    serde_json::from_value(Value::Object(parameters)).map_err(|error| unusable(&error))
}

fn unusable(error: &serde_json::Error) -> Box<OpenAiError> {
    OpenAiError::invalid(None, format!("the body cannot be used: {error}"))
}

/// Returns the schema of the answer that a client asks for. `kind` is `text`, `json_object` or `json_schema`.
pub fn schema_of(kind: &str, schema: Option<&Value>, param: &str) -> Result<Option<AnswerSchema>, Box<OpenAiError>> {
    let wrong = |why: String| OpenAiError::invalid(Some(param.to_owned()), format!("`{param}`: {why}"));
    let object = json!({ "type": "object" });
    let schema = match (kind, schema) {
        ("text", _) => return Ok(None),
        ("json_object", _) => &object,
        ("json_schema", Some(schema)) => schema,
        ("json_schema", None) => return Err(wrong("the format has no `schema`".into())),
        _ => return Err(wrong("the type must be `text`, `json_object` or `json_schema`".into())),
    };
    AnswerSchema::new(schema).map(Some).map_err(|report| wrong(Problem::of_report(&report).sentence()))
}

/// Returns a bound on the tokens of replies.
pub fn output_tokens(bound: Option<u64>, param: &str) -> Result<Option<u64>, Box<OpenAiError>> {
    match bound {
        Some(0) => Err(OpenAiError::invalid(Some(param.to_owned()), format!("`{param}` must be at least 1"))),
        bound => Ok(bound),
    }
}

/// Returns the budget of a run: that of the request, with a bound on tool calls.
pub fn budget_of(budget: Option<Budget>, tool_calls: Option<u64>) -> Result<Budget, Box<OpenAiError>> {
    let param = "max_tool_calls";
    match tool_calls {
        Some(0) => Err(OpenAiError::invalid(Some(param.to_owned()), format!("`{param}` must be at least 1"))),
        tool_calls => Ok(budget.unwrap_or_default().meet(&Budget { tool_calls, ..Budget::default() })),
    }
}
