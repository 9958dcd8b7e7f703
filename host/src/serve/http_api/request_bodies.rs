//! The JSON that clients send. Each is read in full before anything is done with it; unknown fields are refused, since a
//! misspelt budget would otherwise be none.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{StatusCode, header};
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::problem::Problem;
use crate::{
    approval::{OpenQuestionAnswer, Verdict},
    capability::Budget,
    error::{cut, legible},
    json_values::count_json_values,
    limits,
    net::http_server::ServedRequest,
    serve::hosted_runs::{QuestionReply, RunRequest, RunTarget},
    task::{AnswerSchema, AttachedFile, TaskInput},
};

/// A run that a client starts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewRunBody {
    /// The task. Without one, the interrupted or failed run of the session goes on.
    #[serde(default)]
    task: Option<String>,
    /// The agent or team; the default is that of the session, or of the server.
    #[serde(default)]
    agent: Option<String>,
    /// The model: its name in the config, or the vendor's name for a model of the config.
    #[serde(default)]
    model: Option<String>,
    /// Files that are attached to the task.
    #[serde(default)]
    files: Vec<NewFileBody>,
    /// The session that the run continues; it is created if no session has this name. The default is a new one.
    #[serde(default)]
    session: Option<String>,
    /// The most that the run may spend, beside the bounds of the config and the server.
    #[serde(default)]
    budget: Budget,
    /// A JSON Schema that the answer follows.
    #[serde(default)]
    schema: Option<Value>,
}

/// A file that is attached to a task: UTF-8 text, a PNG, JPEG, GIF or WebP image, or a PDF.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewFileBody {
    /// The name, which the model is told.
    name: String,
    /// The content, if it is text.
    #[serde(default)]
    text: Option<String>,
    /// The content in base64.
    #[serde(default)]
    base64: Option<String>,
}

/// A message for an agent at work, which it reads before its next turn.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessageBody {
    /// The text.
    pub text: String,
    /// The instance name of the agent; the default is the agent or team of the run.
    #[serde(default)]
    pub agent: Option<String>,
}

/// The values of a firing, in the place of those of a webhook.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FireTriggerBody {
    /// The body of the webhook; for a trigger with `files` a list of the names of changed files. One with `cron` takes none.
    #[serde(default)]
    pub payload: Option<Value>,
    /// The kind of event, as a webhook names it in a header.
    #[serde(default)]
    pub event: Option<String>,
}

/// The answer to a question: one of `verdict`, `text`, `chosen` and `decline`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AnswerBody {
    /// The decision on a permission.
    #[serde(default)]
    verdict: Option<VerdictBody>,
    /// With the verdict `no`: what the agent is to do instead.
    #[serde(default)]
    message: Option<String>,
    /// The answer to an open question in one's own words.
    #[serde(default)]
    text: Option<String>,
    /// The labels of the chosen options.
    #[serde(default)]
    chosen: Option<Vec<String>>,
    /// Declines to answer; for a permission this is a no.
    #[serde(default)]
    decline: bool,
}

/// The decision on a permission.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum VerdictBody {
    /// Allowed this once.
    Yes,
    /// Allowed now and from now on.
    Trust,
    /// Denied.
    No,
}

/// Reads the body of a request as JSON.
///
/// # Errors
///
/// A [`Problem`] if it is too large, no JSON, or has another form. A web page of another site cannot send this content type
/// without being asked for consent.
pub(super) async fn read_json<T: DeserializeOwned>(
    request: &mut ServedRequest,
    most: usize,
) -> Result<T, Box<Problem>> {
    parse_json(&read_json_bytes(request, most).await?)
}

/// Reads the body of a request that says that it is JSON.
pub(super) async fn read_json_bytes(request: &mut ServedRequest, most: usize) -> Result<bytes::Bytes, Box<Problem>> {
    let kind = request.header(header::CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", "the body is not declared as JSON")
            .mend("send the header `content-type: application/json`"));
    }
    let body = request.read_body(most).await?;
    if count_json_values(&body) > limits::SERVE_BODY_VALUES {
        return Err(too_many_values().mend("attach the data as a file"));
    }
    Ok(body)
}

/// Returns the refusal of a body with more than [`limits::SERVE_BODY_VALUES`] values.
pub(super) fn too_many_values() -> Box<Problem> {
    let title = format!("the body has more than {} values", limits::SERVE_BODY_VALUES);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", title)
}

/// Parses a body.
pub(super) fn parse_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Box<Problem>> {
    let unusable = |cause: String| {
        Problem::bad_request("the body cannot be used").cause(cause).mend("GET /openapi.json describes the body")
    };
    // A list of its values in their order would be read as an object too.
    if let Some(byte) = body.iter().find(|byte| !byte.is_ascii_whitespace()).filter(|byte| **byte == b'[') {
        return Err(unusable(format!("it begins with `{}`: an object is expected", char::from(*byte))));
    }
    serde_json::from_slice(body).map_err(|error| unusable(error.to_string()))
}

impl NewRunBody {
    /// Returns the run that is asked for.
    ///
    /// # Errors
    ///
    /// A [`Problem`] if the task, a file or the schema cannot be used.
    pub fn into_request(self) -> Result<RunRequest, Box<Problem>> {
        let Self { task, agent, model, files, session, budget, schema } = self;
        let schema = schema.as_ref().map(AnswerSchema::new).transpose();
        let schema = schema.map_err(|report| Problem::unprocessable(&report))?;
        let input = match task {
            Some(text) if text.trim().is_empty() => {
                return Err(Problem::bad_request("the task is empty").mend("describe in `task` what to do"));
            }
            Some(text) if text.len() > limits::TASK_BYTES => {
                let title = format!("the task has more than {} bytes", limits::TASK_BYTES);
                return Err(Problem::bad_request(title).mend("attach the text as a file"));
            }
            Some(text) => Some(TaskInput { text, attachments: attachments(files)?, schema }),
            None if !files.is_empty() || schema.is_some() => {
                return Err(Problem::bad_request("files or a schema without a task").mend("add the field `task`"));
            }
            None if session.is_none() => {
                let mend = "add the field `task`, or name the session whose run goes on";
                return Err(Problem::bad_request("there is no task").mend(mend));
            }
            None => None,
        };
        let target = session.map_or(RunTarget::New, RunTarget::Named);
        Ok(RunRequest { agent, model, input, target, budget, ..RunRequest::default() })
    }
}

/// Reads the files of a task.
fn attachments(files: Vec<NewFileBody>) -> Result<Vec<AttachedFile>, Box<Problem>> {
    if files.len() > limits::TASK_ATTACHMENTS {
        let title = format!("{} attached files, the maximum is {}", files.len(), limits::TASK_ATTACHMENTS);
        return Err(Problem::bad_request(title));
    }
    let files = files.into_iter().map(NewFileBody::into_attached_file).collect::<Result<Vec<_>, _>>()?;
    let total = files.iter().map(AttachedFile::bytes).fold(0, usize::saturating_add);
    if total as u64 > limits::TASK_ATTACHED_BYTES {
        let title = format!("the attached files have more than {} bytes", limits::TASK_ATTACHED_BYTES);
        return Err(Problem::bad_request(title).mend("attach less, or split the task"));
    }
    Ok(files)
}

impl NewFileBody {
    fn into_attached_file(self) -> Result<AttachedFile, Box<Problem>> {
        let name = cut(&legible(&self.name), limits::NAME_SHOWN_CHARS);
        let cannot = |cause: String| Problem::bad_request(format!("cannot attach `{name}`")).cause(cause);
        let bytes = match (self.text, self.base64) {
            (Some(text), None) => text.into_bytes(),
            (None, Some(digits)) => {
                STANDARD.decode(digits).map_err(|error| cannot(format!("the content is not base64: {error}")))?
            }
            _ => return Err(cannot("the file needs one of `text` and `base64`".into())),
        };
        AttachedFile::of_bytes(&name, bytes).map_err(|error| cannot(error.to_string()))
    }
}

impl AnswerBody {
    /// Returns the reply.
    ///
    /// # Errors
    ///
    /// A [`Problem`] if it is not exactly one answer.
    pub fn into_reply(self) -> Result<QuestionReply, Box<Problem>> {
        let wrong = |title: &str| {
            Problem::bad_request(title).mend(
                "send one of {\"verdict\": \"yes\"|\"trust\"|\"no\"}, {\"text\": …}, {\"chosen\": […]} and {\"decline\": true}",
            )
        };
        let reply = match (self.verdict, self.text, self.chosen, self.decline) {
            (Some(verdict), None, None, false) => QuestionReply::Verdict(verdict.into(), self.message.clone()),
            (None, Some(text), None, false) => QuestionReply::Answer(OpenQuestionAnswer::Text(text)),
            (None, None, Some(labels), false) => QuestionReply::Answer(OpenQuestionAnswer::Chosen(labels)),
            (None, None, None, true) => QuestionReply::Decline,
            (None, None, None, false) => return Err(wrong("the answer is empty")),
            _ => return Err(wrong("the body has several answers")),
        };
        match (&reply, self.message) {
            (_, None) => Ok(reply),
            (QuestionReply::Verdict(Verdict::No, _), Some(words)) if words.len() <= limits::ANSWER_BYTES => Ok(reply),
            (QuestionReply::Verdict(Verdict::No, _), Some(_)) => {
                Err(wrong(&format!("the message has more than {} bytes", limits::ANSWER_BYTES)))
            }
            (_, Some(_)) => Err(wrong("a message goes only with the verdict `no`")),
        }
    }
}

impl From<VerdictBody> for Verdict {
    fn from(verdict: VerdictBody) -> Self {
        match verdict {
            VerdictBody::Yes => Self::Yes,
            VerdictBody::Trust => Self::Trust,
            VerdictBody::No => Self::No,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_an_object() {
        for (body, why) in
            [("[null, null]", "begins with `[`"), (" \n[]", "begins with `[`"), ("7", "invalid type"), ("", "EOF")]
        {
            let refused = parse_json::<FireTriggerBody>(body.as_bytes()).unwrap_err();
            assert!(format!("{refused:?}").contains(why), "{body}: {refused:?}");
        }
        assert!(parse_json::<FireTriggerBody>(br#" {"payload": [1]}"#).is_ok());
    }
}
