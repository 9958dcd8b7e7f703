//! Chat Completions.

use serde_json::{Value, json};
use shelly_host::{
    model::{StopReason, Usage},
    net::{AuthHeader, Secret},
    provider::ChatCompletions,
};

use super::{
    Asked, Choice, Item, Native, Piece, Said, Turns, Vendor, contract::keeps_the_contract, pieces, server::Sent, word,
};

pub struct OpenAi;

keeps_the_contract!(OpenAi);

fn reason(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "stop",
        StopReason::ToolCalls => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        other => panic!("{other:?}"),
    }
}

fn usage(usage: Usage) -> Value {
    let prompt = usage.input_tokens + usage.cache_read_tokens;
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": prompt + usage.output_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
    })
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

impl Native for OpenAi {
    type Wire = ChatCompletions;

    fn wire() -> ChatCompletions {
        ChatCompletions::default()
    }

    fn auth(key: Secret) -> AuthHeader {
        AuthHeader::bearer(key)
    }

    fn base(server: &str) -> String {
        format!("{server}/v1")
    }
}

impl Vendor for OpenAi {
    const STOPS: &[StopReason] =
        &[StopReason::EndTurn, StopReason::ToolCalls, StopReason::MaxTokens, StopReason::Refusal];

    fn key(sent: &Sent) -> Option<&str> {
        sent.header("authorization")?.strip_prefix("Bearer ")
    }

    fn stream(said: &Said) -> String {
        let chunk = |delta: Value, reason: Option<&str>| {
            event(&json!({
                "id": "chatcmpl-1", "object": "chat.completion.chunk", "model": said.model,
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": null,
            }))
        };
        let mut stream = chunk(json!({"role": "assistant", "content": ""}), None);
        let mut index = 0;
        for piece in &said.pieces {
            match piece {
                Piece::Thinking(text) => {
                    stream.extend(pieces(text).iter().map(|text| chunk(json!({"reasoning_content": text}), None)));
                }
                Piece::Text(text) => {
                    stream.extend(pieces(text).iter().map(|text| chunk(json!({"content": text}), None)));
                }
                Piece::Call { id, name, arguments } => {
                    let start = json!({"name": name, "arguments": ""});
                    let start = json!({"index": index, "id": id, "type": "function", "function": start});
                    stream += &chunk(json!({"tool_calls": [start]}), None);
                    for piece in pieces(arguments) {
                        let more = json!({"index": index, "function": {"arguments": piece}});
                        stream += &chunk(json!({"tool_calls": [more]}), None);
                    }
                    index += 1;
                }
            }
        }
        stream += &chunk(json!({}), Some(reason(&said.stop)));
        stream += &event(&json!({"model": said.model, "choices": [], "usage": usage(said.usage)}));
        stream + "data: [DONE]\n\n"
    }

    fn whole(said: &Said) -> String {
        let (mut text, mut thought, mut calls) = (String::new(), String::new(), vec![]);
        for piece in &said.pieces {
            match piece {
                Piece::Thinking(piece) => thought += piece,
                Piece::Text(piece) => text += piece,
                Piece::Call { id, name, arguments } => {
                    calls.push(
                        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}),
                    );
                }
            }
        }
        let message = json!({"role": "assistant", "content": text, "reasoning_content": thought, "tool_calls": calls});
        let choice = json!({"index": 0, "message": message, "finish_reason": reason(&said.stop)});
        json!({"object": "chat.completion", "model": said.model, "choices": [choice], "usage": usage(said.usage)})
            .to_string()
    }

    fn unknown() -> &'static str {
        "event: news\ndata: {\"object\": \"chat.news\", \"news\": [1, {}]}"
    }

    fn error(status: u16, message: &str) -> String {
        let kind = if status == 400 { "invalid_request_error" } else { "error" };
        json!({"error": {"message": message, "type": kind, "param": null, "code": null}}).to_string()
    }

    fn broken_off(message: &str) -> String {
        event(&json!({"error": {"message": message, "type": "server_error"}}))
    }

    fn flood(times: usize, bytes: usize) -> String {
        let text = "x".repeat(bytes);
        event(&json!({"choices": [{"index": 0, "delta": {"content": text}}]})).repeat(times)
    }

    fn asked(sent: &Sent) -> Asked {
        assert_eq!(sent.path, "/v1/chat/completions");
        let body = &sent.body;
        assert_eq!((&body["stream"], &body["stream_options"]), (&json!(true), &json!({"include_usage": true})));
        let (mut system, mut turns) = (String::new(), Turns::default());
        for message in body["messages"].as_array().unwrap() {
            let content = &message["content"];
            match message["role"].as_str().unwrap() {
                "system" => system += content.as_str().unwrap(),
                "user" => match content {
                    Value::String(text) => turns.push(false, Item::Text(text.clone())),
                    parts => parts.as_array().unwrap().iter().for_each(|part| turns.push(false, user_part(part))),
                },
                "assistant" => {
                    let calls = message.get("tool_calls");
                    assert!(content.is_string() || calls.is_some(), "{message}");
                    if let Some(text) = content.as_str().filter(|text| !text.is_empty()) {
                        turns.push(true, Item::Text(text.into()));
                    }
                    for call in calls.iter().flat_map(|calls| calls.as_array().unwrap()) {
                        let function = &call["function"];
                        let arguments = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
                        turns.call(call["id"].as_str().unwrap(), function["name"].as_str().unwrap(), arguments);
                    }
                }
                "tool" => {
                    let text = content.as_str().unwrap();
                    let error = text.strip_prefix("Error: ");
                    turns.result(message["tool_call_id"].as_str().unwrap(), error.unwrap_or(text), error.is_some());
                }
                other => panic!("{other}"),
            }
        }
        let function = |tool: &Value| {
            assert_eq!(tool["type"], "function");
            let function = &tool["function"];
            (function["name"].as_str().unwrap().to_owned(), function["parameters"].clone())
        };
        Asked {
            model: body["model"].as_str().unwrap().into(),
            system,
            turns: turns.turns,
            tools: body["tools"].as_array().into_iter().flatten().map(function).collect(),
            choice: match &body["tool_choice"] {
                Value::Null => Choice::Auto,
                Value::String(word) if word == "none" => Choice::Never,
                Value::String(word) if word == "required" => Choice::Required,
                tool => Choice::Tool(tool["function"]["name"].as_str().unwrap().into()),
            },
            max_tokens: body["max_tokens"].as_u64(),
        }
    }
}

fn user_part(part: &Value) -> Item {
    match part["type"].as_str().unwrap() {
        "text" => Item::Text(word(&part["text"])),
        "image_url" => Item::Image(word(&part["image_url"]["url"])),
        "file" => Item::Text(word(&part["file"]["filename"])),
        other => panic!("{other}"),
    }
}
