//! A message of a client: a new task, the answer to a question, or a word to an agent at work.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::{
    a2a::{
        A2aError, A2aErrorKind,
        wire::{A2aMessage, A2aPart, A2aPartContent},
    },
    approval::{OpenQuestionAnswer, QuestionKind, Verdict},
    error::{cut, legible},
    limits,
    serve::hosted_runs::{HostedQuestion, QuestionReply},
    task::{AttachedFile, AttachedFileError, TaskInput},
};

/// The key of the metadata with which an answer names its question, and a question itself.
pub(super) const QUESTION_ID: &str = "questionId";

/// Checks the ids and the parts of a message.
///
/// # Errors
///
/// An [`A2aError`] if a message with them cannot be taken.
pub(super) fn check(message: &A2aMessage) -> Result<(), A2aError> {
    let is_id = |id: &str| id.len() <= limits::A2A_ID_BYTES && !id.chars().any(char::is_control);
    let wrong =
        |what: &str| A2aError::invalid_params(format!("`message.{what}` is longer than an id, or has line breaks"));
    if message.message_id.is_empty() {
        return Err(A2aError::invalid_params("the message has no `messageId`; send a new UUID with each message"));
    }
    for (id, what) in
        [(&message.message_id, "messageId"), (&message.context_id, "contextId"), (&message.task_id, "taskId")]
    {
        if !is_id(id) {
            return Err(wrong(what));
        }
    }
    match message.parts.len() {
        0 => Err(A2aError::invalid_params("the message has no `parts`; send at least one")),
        count if count > limits::A2A_PARTS => {
            let most = limits::A2A_PARTS;
            Err(A2aError::invalid_params(format!("the message has {count} parts, the maximum is {most}")))
        }
        _ => Ok(()),
    }
}

/// Returns the task that a message gives. Values are shown to the model as JSON, and files are attached.
///
/// # Errors
///
/// An [`A2aError`] if a part cannot be used, or the task is empty or too large.
pub(super) fn task_input(message: &A2aMessage) -> Result<TaskInput, A2aError> {
    let text = words(message)?;
    let attachments: Vec<_> = message.parts.iter().filter_map(attached_file).collect::<Result<_, _>>()?;
    if attachments.len() > limits::TASK_ATTACHMENTS {
        let most = limits::TASK_ATTACHMENTS;
        return Err(A2aError::invalid_params(format!("{} files, the maximum is {most}", attachments.len())));
    }
    let total = attachments.iter().map(AttachedFile::bytes).fold(0, usize::saturating_add);
    if total as u64 > limits::TASK_ATTACHED_BYTES {
        let most = limits::TASK_ATTACHED_BYTES;
        return Err(A2aError::invalid_params(format!("the files have more than {most} bytes; send less")));
    }
    Ok(TaskInput { text, attachments, schema: None })
}

/// Returns the texts and values of a message.
///
/// # Errors
///
/// An [`A2aError`] if there are none, or they are too long.
pub(super) fn words(message: &A2aMessage) -> Result<String, A2aError> {
    let pieces = message.parts.iter().filter_map(|part| match &part.content {
        A2aPartContent::Text(text) => Some(text.clone()),
        A2aPartContent::Data(value) => Some(value.to_string()),
        A2aPartContent::Raw(_) | A2aPartContent::Url(_) => None,
    });
    let text = pieces.collect::<Vec<_>>().join("\n\n");
    if text.trim().is_empty() {
        return Err(A2aError::invalid_params("the message has no text; say what to do in a part `{\"text\": …}`"));
    }
    if text.len() > limits::TASK_BYTES {
        let most = limits::TASK_BYTES;
        return Err(A2aError::invalid_params(format!("the text has more than {most} bytes; send it as a file")));
    }
    Ok(text)
}

fn attached_file(part: &A2aPart) -> Option<Result<AttachedFile, A2aError>> {
    match &part.content {
        A2aPartContent::Text(_) | A2aPartContent::Data(_) => None,
        A2aPartContent::Url(_) => Some(Err(A2aError::new(
            A2aErrorKind::ContentTypeNotSupported,
            "files are not fetched from the web; send the content of the file as `raw`",
        ))),
        A2aPartContent::Raw(digits) => Some(decoded_file(&part.filename, digits)),
    }
}

/// Returns a file of this content. Its name is a text for the model, and no path of this machine.
fn decoded_file(name: &str, digits: &str) -> Result<AttachedFile, A2aError> {
    let name = if name.is_empty() { "file" } else { name };
    let name = cut(&legible(name), limits::NAME_SHOWN_CHARS);
    let wrong = |why: String| A2aError::invalid_params(format!("the file `{name}` cannot be used: {why}"));
    let bytes = STANDARD.decode(digits).map_err(|error| wrong(format!("`raw` is not base64: {error}")))?;
    AttachedFile::of_bytes(&name, bytes).map_err(|error| match error {
        AttachedFileError::TooLarge(_) => wrong(error.to_string()),
        AttachedFileError::Unsupported => {
            A2aError::new(A2aErrorKind::ContentTypeNotSupported, format!("the file `{name}` cannot be used: {error}"))
        }
    })
}

/// Returns the question that a message answers: the one that its metadata name, or the oldest.
///
/// # Errors
///
/// An [`A2aError`] if the named question is not open, or the name is none: the oldest question may be another one.
pub(super) fn answered_question<'a>(
    message: &A2aMessage,
    open: &'a [HostedQuestion],
) -> Result<Option<&'a HostedQuestion>, A2aError> {
    let Some(named) = message.metadata.get(QUESTION_ID).filter(|named| !named.is_null()) else {
        return Ok(open.first());
    };
    let Some(id) = named.as_f64() else {
        let error = format!("`metadata.{QUESTION_ID}` is no number; send that of the question's own `metadata`");
        return Err(A2aError::invalid_params(error));
    };
    // A number of JSON may have a fraction of zero.
    match open.iter().find(|question| question.id as f64 == id) {
        Some(question) => Ok(Some(question)),
        None => Err(A2aError::invalid_params(format!("question {id} of the task is not open"))),
    }
}

/// Returns the reply to a question that a message is.
///
/// A client is a program. So a permission is never trusted from now on by its answer: only a person does that.
///
/// # Errors
///
/// An [`A2aError`] if it is no answer to this question.
pub(super) fn reply_to(question: &HostedQuestion, message: &A2aMessage) -> Result<QuestionReply, A2aError> {
    let value = message.parts.iter().find_map(|part| match &part.content {
        A2aPartContent::Data(Value::Object(value)) => Some(value),
        _ => None,
    });
    let chosen = value.and_then(|value| value.get("chosen"));
    match &question.question.kind {
        QuestionKind::Permission { .. } => {
            let said = value.and_then(|value| value.get("verdict")).and_then(Value::as_str);
            let words = value.and_then(|value| value.get("message")).and_then(Value::as_str);
            verdict(&said.map_or_else(|| message.text(), str::to_owned), words)
        }
        QuestionKind::Open(open) => {
            if let Some(chosen) = chosen {
                let labels = serde_json::from_value(chosen.clone())
                    .map_err(|_| A2aError::invalid_params("`chosen` is no list of labels"))?;
                return Ok(QuestionReply::Answer(OpenQuestionAnswer::Chosen(labels)));
            }
            let text = words(message)?;
            let label = open.options.iter().find(|option| option.label.eq_ignore_ascii_case(text.trim()));
            Ok(QuestionReply::Answer(match label {
                Some(option) => OpenQuestionAnswer::Chosen(vec![option.label.clone()]),
                None => OpenQuestionAnswer::Text(text),
            }))
        }
    }
}

/// Reads `yes`, `no`, or `no` with words about what to do instead.
fn verdict(said: &str, words: Option<&str>) -> Result<QuestionReply, A2aError> {
    let said = said.trim();
    let (first, rest) = said.split_at(said.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(said.len()));
    let rest = rest.trim_start_matches([',', ':', '.', ';', '!', ' ', '\n']).trim();
    let words = words.map(str::trim).filter(|words| !words.is_empty()).or(Some(rest).filter(|rest| !rest.is_empty()));
    match (first.to_ascii_lowercase().as_str(), words) {
        ("yes", None) => Ok(QuestionReply::Verdict(Verdict::Yes, None)),
        ("no", None) => Ok(QuestionReply::Verdict(Verdict::No, None)),
        ("no", Some(words)) if words.len() <= limits::ANSWER_BYTES => {
            Ok(QuestionReply::Verdict(Verdict::No, Some(words.to_owned())))
        }
        ("no", Some(_)) => {
            Err(A2aError::invalid_params(format!("the answer has more than {} bytes", limits::ANSWER_BYTES)))
        }
        _ => Err(A2aError::invalid_params(
            "the agent asks for a permission; answer `yes`, `no`, or `no: ` with words about what to do instead",
        )),
    }
}
