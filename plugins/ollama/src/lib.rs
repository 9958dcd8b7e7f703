//! A provider for Ollama's own API, `/api/chat`. `request` builds the requests; this module reads the replies, which are
//! JSON lines.
//!
//! Params: `base_url` is the server's address, by default `http://localhost:11434`. `num_ctx` (the context window in
//! tokens), `think` (`true`, `false` or a level such as `"high"`), `keep_alive` (the time that the model stays in memory,
//! such as `"10m"`) and `options` (of the model, such as `{"seed": 42}`) are sent to the server unchanged. `credential`
//! names the key for a server that needs one; without it the plugin uses the only granted credential, if there is one.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use shelly_plugin::{
    Error, Streamed, config,
    http::{self, Lines, Request as HttpRequest},
    names,
    provider::Provider,
    text::short,
    types::{Completion, Media, Request, StopReason, ToolSpec, Usage},
};

mod request;

shelly_plugin::export!(provider: Ollama);

struct Ollama;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    /// The server's address.
    #[serde(default = "local")]
    base_url: String,
    /// The context window in tokens.
    num_ctx: Option<u64>,
    /// The model's thinking: on, off, or a level.
    think: Option<Value>,
    /// The time that the model stays in memory.
    keep_alive: Option<Value>,
    /// The options of the model. Values of the request take precedence.
    #[serde(default)]
    options: Map<String, Value>,
    /// The name of the credential.
    credential: Option<String>,
}

fn local() -> String {
    "http://localhost:11434".to_owned()
}

impl Params {
    fn check(self) -> Result<Params, Error> {
        let is_wrong =
            |value: &Option<Value>, is_right: fn(&Value) -> bool| value.as_ref().is_some_and(|it| !is_right(it));
        let says = if !self.base_url.starts_with("http://") && !self.base_url.starts_with("https://") {
            "`base_url` must begin with `http://` or `https://`"
        } else if is_wrong(&self.think, |think| think.is_boolean() || think.is_string()) {
            "`think` must be `true`, `false` or a level such as `high`"
        } else if is_wrong(&self.keep_alive, |time| time.is_string() || time.is_number()) {
            "`keep_alive` must be a time such as `10m`, or seconds"
        } else {
            return Ok(self);
        };
        Err(Error::Invalid(format!("params: {says}")))
    }
}

impl Provider for Ollama {
    fn complete(model: String, request: Request) -> Result<Completion, Error> {
        let params = config::<Params>()?.check()?;
        let body = request::body(&model, &request, &params, Media::bytes)?;
        let credential = http::credential(params.credential.as_deref())?;
        let url = format!("{}/api/chat", params.base_url.trim_end_matches('/'));
        let response = HttpRequest::post(url).credential(credential.as_deref()).json(&body).send()?.ok()?;
        read(response.lines(), &model, &request.tools)
    }
}

/// A line of a reply; a reply that is not streamed is a single line.
#[derive(Deserialize)]
struct Line {
    model: Option<String>,
    message: Option<Said>,
    done: Option<bool>,
    done_reason: Option<String>,
    prompt_eval_count: Option<u64>,
    eval_count: Option<u64>,
    error: Option<Value>,
}

#[derive(Default, Deserialize)]
struct Said {
    thinking: Option<String>,
    content: Option<String>,
    tool_calls: Option<Vec<Call>>,
}

#[derive(Deserialize)]
struct Call {
    /// The id of the call, which only newer servers send.
    id: Option<String>,
    function: Function,
}

#[derive(Deserialize)]
struct Function {
    name: String,
    arguments: Option<Box<RawValue>>,
}

/// Reads a reply until the server signals its end. A reply that ends before was cut off.
fn read(lines: Lines, model: &str, tools: &[ToolSpec]) -> Result<Completion, Error> {
    let mut reply = Streamed::new(model);
    for line in lines {
        let line: Line = match line?.trim() {
            "" => continue,
            page if page.starts_with('<') => return Err(Error::other("the server sent a web page; check `base_url`")),
            line => serde_json::from_str(line).map_err(garbled)?,
        };
        if let Some(error) = line.error {
            return Err(http::reported(&error));
        }
        reply.model(line.model.as_deref().unwrap_or_default());
        let said = line.message.unwrap_or_default();
        reply.thinking(said.thinking.as_deref().unwrap_or_default())?;
        reply.text(said.content.as_deref().unwrap_or_default())?;
        for Call { id, function } in said.tool_calls.unwrap_or_default() {
            let arguments = function.arguments.as_deref().map(RawValue::get).unwrap_or_default();
            reply.call(id.unwrap_or_default(), names::host(tools, &function.name), arguments)?;
        }
        if line.done == Some(true) {
            let (input_tokens, output_tokens) = (line.prompt_eval_count.unwrap_or(0), line.eval_count.unwrap_or(0));
            reply.usage(Usage { input_tokens, output_tokens, ..Usage::default() });
            let stop = match line.done_reason.as_deref().unwrap_or("stop") {
                "stop" | "" if reply.has_calls() => StopReason::ToolCalls,
                "stop" | "" => StopReason::EndTurn,
                "length" => StopReason::MaxTokens,
                other => StopReason::Other(other.to_owned()),
            };
            return reply.finish(stop);
        }
    }
    Err(Error::unavailable("the server ended its reply early"))
}

fn garbled(error: serde_json::Error) -> Error {
    // The parser's message may quote the reply, so it is shortened.
    Error::unavailable(short(&format!("the server sent an invalid part of a reply: {error}"), 300))
}

#[cfg(test)]
mod tests;
