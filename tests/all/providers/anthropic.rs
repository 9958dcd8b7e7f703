//! Anthropic Messages.

use serde_json::{Value, json};
use shelly_host::{
    model::{StopReason, Usage},
    net::{AuthHeader, Secret},
    provider::Anthropic as Messages,
};

use super::{
    Asked, Choice, Item, Native, Piece, Said, Turns, Vendor, contract::keeps_the_contract, image_of, pieces,
    server::Sent, word,
};

pub struct Anthropic;

keeps_the_contract!(Anthropic);

fn reason(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolCalls => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::StopSequence => "stop_sequence",
        StopReason::Refusal => "refusal",
        StopReason::Other(other) => panic!("{other}"),
    }
}

fn usage(usage: Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cache_read_tokens,
    })
}

fn event(data: &Value) -> String {
    format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap())
}

fn start(model: &str, usage: &Value) -> String {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    event(&json!({"type": "message_start", "message": message}))
}

fn begin(index: usize, block: &Value) -> String {
    event(&json!({"type": "content_block_start", "index": index, "content_block": block}))
}

fn grow(index: usize, delta: &Value) -> String {
    event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

impl Native for Anthropic {
    type Wire = Messages;

    fn wire() -> Messages {
        Messages::default()
    }

    fn auth(key: Secret) -> AuthHeader {
        AuthHeader::header("x-api-key", key)
    }

    fn base(server: &str) -> String {
        server.into()
    }
}

impl Vendor for Anthropic {
    const STOPS: &[StopReason] = &[
        StopReason::EndTurn,
        StopReason::ToolCalls,
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::Refusal,
    ];

    fn key(sent: &Sent) -> Option<&str> {
        assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
        sent.header("x-api-key")
    }

    fn stream(said: &Said) -> String {
        let mut stream = start(said.model, &usage(Usage { output_tokens: 0, ..said.usage }));
        stream += &event(&json!({"type": "ping"}));
        for (index, piece) in said.pieces.iter().enumerate() {
            match piece {
                Piece::Thinking(text) => {
                    stream += &begin(index, &json!({"type": "thinking", "thinking": "", "signature": ""}));
                    for text in pieces(text) {
                        stream += &grow(index, &json!({"type": "thinking_delta", "thinking": text}));
                    }
                    stream += &grow(index, &json!({"type": "signature_delta", "signature": "c2lnbmVk"}));
                }
                Piece::Text(text) => {
                    stream += &begin(index, &json!({"type": "text", "text": ""}));
                    for text in pieces(text) {
                        stream += &grow(index, &json!({"type": "text_delta", "text": text}));
                    }
                }
                Piece::Call { id, name, arguments } => {
                    stream += &begin(index, &json!({"type": "tool_use", "id": id, "name": name, "input": {}}));
                    for piece in pieces(arguments) {
                        stream += &grow(index, &json!({"type": "input_json_delta", "partial_json": piece}));
                    }
                }
            }
            stream += &event(&json!({"type": "content_block_stop", "index": index}));
        }
        let delta = json!({"stop_reason": reason(&said.stop), "stop_sequence": null});
        let counted = json!({"output_tokens": said.usage.output_tokens});
        stream += &event(&json!({"type": "message_delta", "delta": delta, "usage": counted}));
        stream + &event(&json!({"type": "message_stop"}))
    }

    fn whole(said: &Said) -> String {
        let block = |piece: &Piece| match piece {
            Piece::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"}).to_string(),
            Piece::Text(text) => json!({"type": "text", "text": text}).to_string(),
            Piece::Call { id, name, arguments } => {
                format!("{{\"type\":\"tool_use\",\"id\":{},\"name\":{},\"input\":{arguments}}}", json!(id), json!(name))
            }
        };
        let blocks: Vec<_> = said.pieces.iter().map(block).collect();
        let head = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": said.model, "content": "@",
            "stop_reason": reason(&said.stop), "usage": usage(said.usage),
        });
        head.to_string().replace("\"@\"", &format!("[{}]", blocks.join(",")))
    }

    fn unknown() -> &'static str {
        "event: news\ndata: {\"type\": \"news\", \"index\": 0, \"delta\": {\"type\": \"news_delta\", \"news\": [1]}}"
    }

    fn error(status: u16, message: &str) -> String {
        let kind = match status {
            400 => "invalid_request_error",
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            529 => "overloaded_error",
            _ => "api_error",
        };
        json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}).to_string()
    }

    fn broken_off(message: &str) -> String {
        event(&json!({"type": "error", "error": {"type": "overloaded_error", "message": message}}))
    }

    fn flood(times: usize, bytes: usize) -> String {
        let delta = grow(0, &json!({"type": "text_delta", "text": "x".repeat(bytes)}));
        start("m", &Value::Null) + &begin(0, &json!({"type": "text", "text": ""})) + &delta.repeat(times)
    }

    fn asked(sent: &Sent) -> Asked {
        assert_eq!(sent.path, "/v1/messages");
        let body = &sent.body;
        assert_eq!(body["stream"], true);
        let (mut turns, mut speaker) = (Turns::default(), "assistant");
        for message in body["messages"].as_array().unwrap() {
            let role = message["role"].as_str().unwrap();
            assert_ne!(role, speaker, "user and assistant take turns, and the user begins");
            speaker = role;
            let content = message["content"].as_array().unwrap();
            assert!(!content.is_empty(), "{message}");
            for block in content {
                turn(&mut turns, role == "assistant", block);
            }
        }
        assert_eq!(speaker, "user", "the user is last");
        let choice = &body["tool_choice"];
        Asked {
            model: word(&body["model"]),
            system: body["system"].as_array().into_iter().flatten().map(|block| word(&block["text"])).collect(),
            turns: turns.turns,
            tools: body["tools"].as_array().into_iter().flatten().map(tool).collect(),
            choice: match choice["type"].as_str() {
                None | Some("auto") => Choice::Auto,
                Some("none") => Choice::Never,
                Some("any") => Choice::Required,
                _ => Choice::Tool(word(&choice["name"])),
            },
            max_tokens: Some(body["max_tokens"].as_u64().unwrap()),
        }
    }
}

fn tool(tool: &Value) -> (String, Value) {
    (word(&tool["name"]), tool["input_schema"].clone())
}

fn turn(turns: &mut Turns, by_model: bool, block: &Value) {
    match block["type"].as_str().unwrap() {
        "text" => {
            assert!(!word(&block["text"]).trim().is_empty(), "a blank text is refused");
            turns.push(by_model, Item::Text(word(&block["text"])));
        }
        "image" => {
            let source = &block["source"];
            let image = match source["type"].as_str().unwrap() {
                "url" => word(&source["url"]),
                _ => image_of(&source["media_type"], &source["data"]),
            };
            turns.push(by_model, Item::Image(image));
        }
        "document" => turns.push(by_model, Item::Text("[document]".into())),
        "tool_use" => turns.call(&word(&block["id"]), &word(&block["name"]), block["input"].clone()),
        "tool_result" => {
            let text: String = match &block["content"] {
                Value::String(text) => text.clone(),
                blocks => blocks.as_array().into_iter().flatten().map(|block| word(&block["text"])).collect(),
            };
            turns.result(&word(&block["tool_use_id"]), &text, block["is_error"] == true);
        }
        other => panic!("{other} was not said by this vendor"),
    }
}
