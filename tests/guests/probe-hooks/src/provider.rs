//! The provider. Its words are the arms of [`Provider::complete`].

use serde_json::json;
use shelly_plugin::{
    Error, Message, Part, attachments,
    provider::Provider,
    sink::{self, Delta},
    types::{Completion, Media, Request, Role, Source, StopReason, ToolCall, Usage},
};

use crate::{Params, error, params, spin, unknown};

pub(crate) struct Probe;

impl Provider for Probe {
    fn complete(model: String, request: Request) -> Result<Completion, Error> {
        let params = params()?;
        let says = |text: String| Ok(completion(&model, vec![Part::Text(text)], StopReason::EndTurn));
        if let Some(error) = params.provider.strip_prefix("error-").and_then(error) {
            return Err(error);
        }
        match params.provider.as_str() {
            "" | "echo" => {
                let text = echo(&request);
                emit(&text);
                says(text)
            }
            "text" => {
                let text = params.text("said");
                emit(&text);
                says(text)
            }
            "tool-call" if request.messages.last().is_some_and(|message| message.role == Role::Tool) => {
                says(echo(&request))
            }
            "tool-call" | "tool-call-for-ever" => {
                Ok(completion(&model, vec![call(&params, &request)], StopReason::ToolCalls))
            }
            // Watchers were shown something else: the completion is what counts.
            "mismatch" => {
                emit("pieces");
                says("completion".into())
            }
            "fail-after-usage" => {
                emit("begun");
                sink::emit(&Delta::Usage(USAGE));
                Err(Error::Other("asked to fail".into()))
            }
            "attachment" => says(attachment(&params, &request)?),
            "big" => says("x".repeat(params.bytes)),
            "empty" => Ok(completion(&model, Vec::new(), StopReason::EndTurn)),
            "cut" => Ok(completion(&model, vec!["cut".into()], StopReason::MaxTokens)),
            "panic" => panic!("asked to panic"),
            "spin" => spin(),
            word => Err(unknown("provider", word)),
        }
    }
}

const USAGE: Usage = Usage { input_tokens: 10, output_tokens: 5, cache_read_tokens: 3, cache_write_tokens: 2 };

/// What each read comes to of the first attachment of the request, or of one by its id: how many bytes and the first of them,
/// or an error. The arguments: `{"id": …, "reads": [[offset, max], …]}`.
fn attachment(params: &Params, request: &Request) -> Result<String, Error> {
    let handed = request.messages.iter().flat_map(|message| &message.parts).find_map(|part| match part {
        Part::Media(Media { source: Source::Attachment(id), .. }) => Some(id.as_str()),
        _ => None,
    });
    let id = params.arguments["id"].as_str().or(handed).ok_or_else(|| Error::Other("no attachment".into()))?;
    let reads: Vec<(u64, u32)> = serde_json::from_value(params.arguments["reads"].clone())
        .map_err(|error| Error::Invalid(format!("reads: {error}")))?;
    let told: Vec<_> = reads
        .into_iter()
        .map(|(offset, max)| match attachments::read(id, offset, max) {
            Ok(bytes) => json!([bytes.len(), bytes.first()]),
            Err(error) => json!(error.message()),
        })
        .collect();
    Ok(json!(told).to_string())
}

/// What the last user message says, and what else was shown.
fn echo(request: &Request) -> String {
    let last = request.messages.iter().rfind(|message| message.role == Role::User).map_or(String::new(), Message::text);
    format!("{last} [{} messages, {} tools]", request.messages.len(), request.tools.len())
}

fn emit(text: &str) {
    for word in text.split_inclusive(' ') {
        sink::emit(&Delta::Text(word.to_owned()));
    }
}

fn call(params: &Params, request: &Request) -> Part {
    let arguments = if params.arguments.is_null() { "{}".to_owned() } else { params.arguments.to_string() };
    let id = format!("call-{}", request.messages.len());
    Part::ToolCall(ToolCall { id, name: params.tool.clone(), arguments, meta: Vec::new() })
}

fn completion(model: &str, parts: Vec<Part>, stop: StopReason) -> Completion {
    Completion { parts, stop, usage: USAGE, model: model.to_owned(), meta: Vec::new() }
}
