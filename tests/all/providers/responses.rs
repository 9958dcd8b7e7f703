//! OpenAI's Responses.

use serde_json::{Value, json};
use shelly_host::{
    model::{StopReason, Usage},
    net::{AuthHeader, Secret},
    provider,
};

use super::{
    Asked, Choice, Item, Native, Piece, Said, Turns, Vendor, contract::keeps_the_contract, pieces, server::Sent, word,
};

pub struct Responses;

keeps_the_contract!(Responses);

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

/// The items of a reply, complete.
fn items(said: &Said) -> Vec<Value> {
    let item = |(at, piece): (usize, &Piece)| match piece {
        Piece::Thinking(text) => json!({
            "type": "reasoning", "id": format!("rs_{at}"), "summary": [{"type": "summary_text", "text": text}],
            "encrypted_content": "c2VhbGVk",
        }),
        Piece::Text(text) => json!({
            "type": "message", "id": format!("msg_{at}"), "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
        }),
        Piece::Call { id, name, arguments } => json!({
            "type": "function_call", "id": format!("fc_{at}"), "call_id": id, "name": name, "arguments": arguments,
            "status": "completed",
        }),
    };
    said.pieces.iter().enumerate().map(item).collect()
}

/// The reply as it stands at its end.
fn response(said: &Said) -> Value {
    let (status, details) = match said.stop {
        StopReason::MaxTokens => ("incomplete", json!({"reason": "max_output_tokens"})),
        StopReason::Refusal => ("incomplete", json!({"reason": "content_filter"})),
        _ => ("completed", Value::Null),
    };
    json!({
        "id": "resp_1", "object": "response", "status": status, "incomplete_details": details, "error": null,
        "model": said.model, "output": items(said), "usage": usage(said.usage),
    })
}

fn usage(usage: Usage) -> Value {
    let input = usage.input_tokens + usage.cache_read_tokens;
    json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input + usage.output_tokens,
    })
}

fn begun(model: &str) -> Value {
    json!({"id": "resp_1", "object": "response", "status": "in_progress", "model": model, "output": [], "usage": null})
}

/// An item before anything of it has come.
fn empty(item: &Value) -> Value {
    let mut empty = item.clone();
    empty["status"] = json!("in_progress");
    match item["type"].as_str().unwrap() {
        "message" => empty["content"] = json!([]),
        "reasoning" => empty["summary"] = json!([]),
        _ => empty["arguments"] = json!(""),
    }
    empty
}

impl Native for Responses {
    type Wire = provider::ResponsesApi;

    fn wire() -> provider::ResponsesApi {
        provider::ResponsesApi::default()
    }

    fn auth(key: Secret) -> AuthHeader {
        AuthHeader::bearer(key)
    }

    fn base(server: &str) -> String {
        format!("{server}/v1")
    }
}

impl Vendor for Responses {
    const STOPS: &[StopReason] =
        &[StopReason::EndTurn, StopReason::ToolCalls, StopReason::MaxTokens, StopReason::Refusal];

    fn key(sent: &Sent) -> Option<&str> {
        sent.header("authorization")?.strip_prefix("Bearer ")
    }

    fn stream(said: &Said) -> String {
        let mut stream = event(&json!({"type": "response.created", "response": begun(said.model)}));
        for (index, (item, piece)) in items(said).iter().zip(&said.pieces).enumerate() {
            let (id, at) = (item["id"].as_str().unwrap(), index);
            let about = |kind: &str, key: &str, value: Value| {
                let mut data = json!({"type": format!("response.{kind}"), "item_id": id, "output_index": at});
                if kind.contains("summary") {
                    data["summary_index"] = json!(0);
                } else if !kind.contains("arguments") {
                    data["content_index"] = json!(0);
                }
                data[key] = value;
                event(&data)
            };
            let item_event = |kind: &str, item: &Value| {
                event(&json!({"type": format!("response.output_item.{kind}"), "output_index": at, "item": item}))
            };
            stream += &item_event("added", &empty(item));
            match piece {
                Piece::Thinking(text) => {
                    let part = |text: &str| json!({"type": "summary_text", "text": text});
                    stream += &about("reasoning_summary_part.added", "part", part(""));
                    for piece in pieces(text) {
                        stream += &about("reasoning_summary_text.delta", "delta", json!(piece));
                    }
                    stream += &about("reasoning_summary_text.done", "text", json!(text));
                    stream += &about("reasoning_summary_part.done", "part", part(text));
                }
                Piece::Text(text) => {
                    let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
                    stream += &about("content_part.added", "part", part(""));
                    for piece in pieces(text) {
                        stream += &about("output_text.delta", "delta", json!(piece));
                    }
                    stream += &about("output_text.done", "text", json!(text));
                    stream += &about("content_part.done", "part", part(text));
                }
                Piece::Call { arguments, .. } => {
                    for piece in pieces(arguments) {
                        stream += &about("function_call_arguments.delta", "delta", json!(piece));
                    }
                    stream += &about("function_call_arguments.done", "arguments", json!(arguments));
                }
            }
            stream += &item_event("done", item);
        }
        let response = response(said);
        stream
            + &event(
                &json!({"type": format!("response.{}", response["status"].as_str().unwrap()), "response": response}),
            )
    }

    fn whole(said: &Said) -> String {
        response(said).to_string()
    }

    fn unknown() -> &'static str {
        "event: response.news\ndata: {\"type\": \"response.news\", \"output_index\": 0, \"news\": [1, {}]}"
    }

    fn error(status: u16, message: &str) -> String {
        let kind = if status == 400 { "invalid_request_error" } else { "error" };
        json!({"error": {"message": message, "type": kind, "param": null, "code": null}}).to_string()
    }

    fn broken_off(message: &str) -> String {
        event(&json!({"type": "error", "code": "server_error", "message": message, "param": null}))
    }

    fn flood(times: usize, bytes: usize) -> String {
        let item = json!({"type": "message", "id": "msg_0", "role": "assistant", "content": []});
        let begun = event(&json!({"type": "response.created", "response": begun("m")}))
            + &event(&json!({"type": "response.output_item.added", "output_index": 0, "item": item}));
        let delta = json!({
            "type": "response.output_text.delta", "item_id": "msg_0", "output_index": 0, "content_index": 0,
            "delta": "x".repeat(bytes),
        });
        begun + &event(&delta).repeat(times)
    }

    fn asked(sent: &Sent) -> Asked {
        assert_eq!(sent.path, "/v1/responses");
        let body = &sent.body;
        assert_eq!((&body["stream"], &body["store"]), (&json!(true), &json!(false)));
        let mut turns = Turns::default();
        let input = body["input"].as_array().unwrap();
        assert!(!input.is_empty(), "a request without input is refused");
        for item in input {
            push(&mut turns, item);
        }
        let choice = &body["tool_choice"];
        Asked {
            model: word(&body["model"]),
            system: body["instructions"].as_str().unwrap_or_default().into(),
            turns: turns.turns,
            tools: body["tools"].as_array().into_iter().flatten().map(tool).collect(),
            choice: match choice.as_str() {
                Some("auto") => Choice::Auto,
                Some("none") => Choice::Never,
                Some("required") => Choice::Required,
                _ if choice.is_null() => Choice::Auto,
                _ => Choice::Tool(word(&choice["name"])),
            },
            max_tokens: body["max_output_tokens"].as_u64(),
        }
    }
}

fn tool(tool: &Value) -> (String, Value) {
    assert_eq!(tool["type"], "function");
    (word(&tool["name"]), tool["parameters"].clone())
}

fn push(turns: &mut Turns, item: &Value) {
    match item["type"].as_str().unwrap() {
        "message" => {
            let by_model = item["role"] == "assistant";
            match &item["content"] {
                Value::String(text) => turns.push(by_model, Item::Text(text.clone())),
                parts => parts.as_array().unwrap().iter().for_each(|part| turns.push(by_model, user_part(part))),
            }
        }
        "function_call" => {
            let arguments = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
            turns.call(&word(&item["call_id"]), &word(&item["name"]), arguments);
        }
        "function_call_output" => {
            let text = word(&item["output"]);
            let error = text.strip_prefix("Error: ");
            turns.result(&word(&item["call_id"]), error.unwrap_or(&text), error.is_some());
        }
        other => panic!("{other} was not said by this vendor"),
    }
}

fn user_part(part: &Value) -> Item {
    match part["type"].as_str().unwrap() {
        "input_text" | "output_text" => Item::Text(word(&part["text"])),
        "input_image" => Item::Image(word(&part["image_url"])),
        "input_file" => Item::Text("[file]".into()),
        other => panic!("{other}"),
    }
}
