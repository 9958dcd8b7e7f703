//! Ollama's own API, `/api/chat`, by the plugin `ollama`: the vendor whose model runs in the sandbox.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use shelly_host::{
    chat::ToolSpec,
    model::{Completer, CompletionRequest, StopReason, Usage},
};

use super::{
    Asked, Choice, Heard, Item, KEY, Piece, Reached, Said, Setup, Turns, Vendor, contract::keeps_the_contract, guest,
    pieces, server::Sent, text, word,
};

pub struct Ollama;

keeps_the_contract!(Ollama);

#[async_trait(?Send)]
impl Reached for Ollama {
    async fn model(setup: Setup) -> Arc<dyn Completer> {
        guest::model(&setup).await
    }

    fn shown(setup: &Setup) -> String {
        format!("{:?}", guest::settings(&setup.server, guest::limits_of(setup)))
    }

    async fn read(pieces: Vec<Vec<u8>>, tools: &[Arc<ToolSpec>]) -> Heard {
        guest::read(pieces, tools).await
    }

    async fn sent(request: &CompletionRequest) -> Sent {
        guest::sent(request, Self::stream(&Said::of([text("Well.")]))).await
    }
}

fn reason(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn | StopReason::ToolCalls => "stop",
        StopReason::MaxTokens => "length",
        other => panic!("{other:?}"),
    }
}

fn line(said: &Said, message: Value) -> Value {
    json!({"model": said.model, "created_at": "2026-11-22T10:00:00.5Z", "message": message, "done": false})
}

/// Adds the fields of the last line.
fn last(mut line: Value, said: &Said) -> Value {
    let Usage { input_tokens, output_tokens, cache_read_tokens, .. } = said.usage;
    line["done"] = true.into();
    line["done_reason"] = reason(&said.stop).into();
    line["total_duration"] = 5_191_566_416_u64.into();
    line["prompt_eval_count"] = (input_tokens + cache_read_tokens).into();
    line["eval_count"] = output_tokens.into();
    line
}

fn call(id: &str, name: &str, arguments: &str) -> Value {
    let arguments: Value = serde_json::from_str(arguments).unwrap();
    json!({"id": id, "function": {"index": 0, "name": name, "arguments": arguments}})
}

impl Vendor for Ollama {
    const ARGUMENTS_ARE_TEXT: bool = false;
    const COUNTS_CACHE_READS: bool = false;
    const LISTS_WHAT_MAY_NOT_BE_CALLED: bool = false;
    const STOPS: &[StopReason] = &[StopReason::EndTurn, StopReason::ToolCalls, StopReason::MaxTokens];
    const EVENT: (&str, &str) = ("", "\n");
    const BESIDE: [&str; 2] = ["", " "];

    fn key(sent: &Sent) -> Option<&str> {
        sent.header("authorization")?.strip_prefix("Bearer ")
    }

    fn stream(said: &Said) -> String {
        let mut lines = Vec::new();
        for piece in &said.pieces {
            match piece {
                Piece::Thinking(text) => lines.extend(
                    pieces(text)
                        .iter()
                        .map(|text| line(said, json!({"role": "assistant", "content": "", "thinking": text}))),
                ),
                Piece::Text(text) => lines
                    .extend(pieces(text).iter().map(|text| line(said, json!({"role": "assistant", "content": text})))),
                Piece::Call { id, name, arguments } => {
                    let calls = [call(id, name, arguments)];
                    lines.push(line(said, json!({"role": "assistant", "content": "", "tool_calls": calls})));
                }
            }
        }
        lines.push(last(line(said, json!({"role": "assistant", "content": ""})), said));
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    fn whole(said: &Said) -> String {
        let (mut text, mut thought, mut calls) = (String::new(), String::new(), vec![]);
        for piece in &said.pieces {
            match piece {
                Piece::Thinking(piece) => thought += piece,
                Piece::Text(piece) => text += piece,
                Piece::Call { id, name, arguments } => calls.push(call(id, name, arguments)),
            }
        }
        let message = json!({"role": "assistant", "content": text, "thinking": thought, "tool_calls": calls});
        last(line(said, message), said).to_string()
    }

    fn unknown() -> &'static str {
        r#"{"news": [1, {}], "done": false}"#
    }

    fn error(_: u16, message: &str) -> String {
        json!({"error": message}).to_string()
    }

    fn broken_off(message: &str) -> String {
        json!({"error": message}).to_string() + "\n"
    }

    fn flood(times: usize, bytes: usize) -> String {
        let message = json!({"role": "assistant", "content": "x".repeat(bytes)});
        format!("{}\n", json!({"model": "m", "message": message, "done": false})).repeat(times)
    }

    fn asked(sent: &Sent) -> Asked {
        assert_eq!(sent.path, "/api/chat");
        let body = &sent.body;
        assert_eq!(body["stream"], true);
        let (mut system, mut turns, mut choice) = (String::new(), Turns::default(), Choice::Auto);
        for message in body["messages"].as_array().unwrap() {
            let content = word(&message["content"]);
            match message["role"].as_str().unwrap() {
                // The API has no word for which tools must be called.
                "system" if content == "Answer with a call of a tool." => choice = Choice::Required,
                "system" if content.starts_with("Answer with a call of the tool `") => {
                    choice = Choice::Tool(content.split('`').nth(1).unwrap().into());
                }
                "system" => system += &content,
                "user" => {
                    turns.push(false, Item::Text(content));
                    for image in message["images"].as_array().into_iter().flatten() {
                        // Of what type it is the server finds out.
                        turns.push(false, Item::Image(format!("data:image/png;base64,{}", word(image))));
                    }
                }
                "assistant" => {
                    let calls = message.get("tool_calls");
                    if calls.is_none() || !content.is_empty() {
                        turns.push(true, Item::Text(content));
                    }
                    for call in calls.iter().flat_map(|calls| calls.as_array().unwrap()) {
                        let Value::Object(function) = &call["function"] else { panic!("{call}") };
                        assert!(function["arguments"].is_object(), "{call}");
                        turns.call(&word(&call["id"]), &word(&function["name"]), function["arguments"].clone());
                    }
                }
                "tool" => {
                    let error = content.strip_prefix("Error: ");
                    let id = word(&message["tool_call_id"]);
                    turns.result(&id, error.unwrap_or(&content), error.is_some());
                }
                other => panic!("{other}"),
            }
        }
        let function = |tool: &Value| {
            assert_eq!(tool["type"], "function");
            (word(&tool["function"]["name"]), tool["function"]["parameters"].clone())
        };
        let tools: Vec<_> = body["tools"].as_array().into_iter().flatten().map(function).collect();
        Asked {
            model: word(&body["model"]),
            system,
            turns: turns.turns,
            choice: if tools.is_empty() { Choice::Never } else { choice },
            tools,
            max_tokens: body["options"]["num_predict"].as_u64(),
        }
    }
}

#[tokio::test]
async fn ollama_key_is_not_in_the_plugin_params() {
    let settings = guest::settings("http://localhost:1", Default::default());
    assert!(!settings.params.get().contains(KEY), "{}", settings.params);
}
