//! Google's Gemini.

use std::collections::VecDeque;

use serde_json::{Value, json};
use shelly_host::{
    model::{StopReason, Usage},
    net::{AuthHeader, Secret},
    provider,
};

use super::{
    Asked, Choice, Item, Native, Piece, Said, Turns, Vendor, contract::keeps_the_contract, image_of, pieces,
    server::Sent, word,
};

pub struct Gemini;

keeps_the_contract!(Gemini);

fn reason(stop: &StopReason) -> &'static str {
    match stop {
        // A call is no reason of its own.
        StopReason::EndTurn | StopReason::ToolCalls => "STOP",
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
        other => panic!("{other:?}"),
    }
}

fn usage(usage: Usage) -> Value {
    let prompt = usage.input_tokens + usage.cache_read_tokens;
    json!({
        "promptTokenCount": prompt,
        "cachedContentTokenCount": usage.cache_read_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": prompt + usage.output_tokens,
    })
}

/// An answer with these parts, JSON each.
fn chunk(said: &Said, parts: &[String], is_last: bool) -> String {
    let mut candidate = json!({"content": {"parts": "@", "role": "model"}, "index": 0});
    let mut chunk = json!({"modelVersion": said.model, "responseId": "r1"});
    if is_last {
        candidate["finishReason"] = json!(reason(&said.stop));
        chunk["usageMetadata"] = usage(said.usage);
    }
    chunk["candidates"] = json!([candidate]);
    chunk.to_string().replace("\"@\"", &format!("[{}]", parts.join(",")))
}

fn call(id: &str, name: &str, arguments: &str) -> String {
    format!("{{\"functionCall\":{{\"id\":{},\"name\":{},\"args\":{arguments}}}}}", json!(id), json!(name))
}

impl Native for Gemini {
    type Wire = provider::Gemini;

    fn wire() -> provider::Gemini {
        provider::Gemini
    }

    fn auth(key: Secret) -> AuthHeader {
        AuthHeader::header("x-goog-api-key", key)
    }

    fn base(server: &str) -> String {
        format!("{server}/v1beta")
    }
}

impl Vendor for Gemini {
    const ARGUMENTS_ARE_TEXT: bool = false;
    const STOPS: &[StopReason] =
        &[StopReason::EndTurn, StopReason::ToolCalls, StopReason::MaxTokens, StopReason::Refusal];

    fn key(sent: &Sent) -> Option<&str> {
        sent.header("x-goog-api-key")
    }

    fn stream(said: &Said) -> String {
        let mut stream = String::new();
        let mut add = |part: String| stream += &format!("data: {}\n\n", chunk(said, &[part], false));
        for piece in &said.pieces {
            match piece {
                Piece::Thinking(text) => {
                    pieces(text).iter().for_each(|text| add(json!({"text": text, "thought": true}).to_string()));
                }
                Piece::Text(text) => pieces(text).iter().for_each(|text| add(json!({"text": text}).to_string())),
                Piece::Call { id, name, arguments } => add(call(id, name, arguments)),
            }
        }
        stream + &format!("data: {}\n\n", chunk(said, &[json!({"text": ""}).to_string()], true))
    }

    fn whole(said: &Said) -> String {
        let part = |piece: &Piece| match piece {
            Piece::Thinking(text) => json!({"text": text, "thought": true}).to_string(),
            Piece::Text(text) => json!({"text": text}).to_string(),
            Piece::Call { id, name, arguments } => call(id, name, arguments),
        };
        chunk(said, &said.pieces.iter().map(part).collect::<Vec<_>>(), true)
    }

    fn unknown() -> &'static str {
        "data: {\"news\": [1, {}]}"
    }

    fn error(status: u16, message: &str) -> String {
        json!({"error": {"code": status, "message": message, "status": "SOME_STATUS"}}).to_string()
    }

    fn broken_off(message: &str) -> String {
        format!("data: {}\n\n", json!({"error": {"code": 503, "message": message, "status": "UNAVAILABLE"}}))
    }

    fn flood(times: usize, bytes: usize) -> String {
        let part = json!({"text": "x".repeat(bytes)}).to_string();
        format!("data: {}\n\n", chunk(&Said::of([]), &[part], false)).repeat(times)
    }

    fn asked(sent: &Sent) -> Asked {
        let path = sent.path.strip_prefix("/v1beta/models/").unwrap();
        let model = path.strip_suffix(":streamGenerateContent?alt=sse").unwrap();
        let body = &sent.body;
        let (mut turns, mut open, mut calls, mut speaker) = (Turns::default(), VecDeque::new(), 0, "model".to_owned());
        for content in body["contents"].as_array().unwrap() {
            let role = word(&content["role"]);
            assert_ne!(role, speaker, "user and model take turns, and the user begins");
            let parts = content["parts"].as_array().unwrap();
            assert!(!parts.is_empty(), "{content}");
            for part in parts {
                if let Some(call) = part.get("functionCall") {
                    let (key, name) = (calls.to_string(), word(&call["name"]));
                    turns.call(&key, &name, call["args"].clone());
                    open.push_back((key, name));
                    calls += 1;
                } else if let Some(result) = part.get("functionResponse") {
                    // They answer the calls in their order.
                    let (key, name) = open.pop_front().unwrap();
                    assert_eq!(name, word(&result["name"]));
                    let (response, is_error) = match &result["response"]["error"] {
                        Value::Null => (&result["response"]["output"], false),
                        error => (error, true),
                    };
                    turns.result(&key, &word(response), is_error);
                } else {
                    turns.push(role == "model", said(part));
                }
            }
            speaker = role;
        }
        let config = &body["toolConfig"]["functionCallingConfig"];
        let declared = body["tools"].as_array().into_iter().flatten();
        Asked {
            model: model.into(),
            system: texts(&body["systemInstruction"]["parts"]),
            turns: turns.turns,
            tools: declared.flat_map(|tools| tools["functionDeclarations"].as_array().unwrap()).map(tool).collect(),
            choice: match (config["mode"].as_str(), &config["allowedFunctionNames"]) {
                (None | Some("AUTO"), _) => Choice::Auto,
                (Some("NONE"), _) => Choice::Never,
                (_, Value::Null) => Choice::Required,
                (_, names) => Choice::Tool(word(&names[0])),
            },
            max_tokens: body["generationConfig"]["maxOutputTokens"].as_u64(),
        }
    }
}

fn tool(tool: &Value) -> (String, Value) {
    (word(&tool["name"]), tool["parametersJsonSchema"].clone())
}

fn texts(parts: &Value) -> String {
    parts.as_array().into_iter().flatten().map(|part| word(&part["text"])).collect()
}

fn said(part: &Value) -> Item {
    if let Some(blob) = part.get("inlineData") {
        return Item::Image(image_of(&blob["mimeType"], &blob["data"]));
    }
    if let Some(file) = part.get("fileData") {
        return Item::Image(word(&file["fileUri"]));
    }
    assert!(!word(&part["text"]).is_empty(), "an empty text is refused");
    Item::Text(word(&part["text"]))
}
