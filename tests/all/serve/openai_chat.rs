//! Chat completions: what reaches the agent, and what the client reads of it.

use super::*;

const CHAT: &str = "/v1/chat/completions";

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// Returns the chunks of a stream, without its end.
fn chunks(mut data: Vec<String>) -> Vec<Value> {
    assert_eq!(data.pop().as_deref(), Some("[DONE]"), "{data:?}");
    data.iter().map(|data| serde_json::from_str(data).unwrap()).collect()
}

/// Returns the text of a stream, and its thoughts.
fn said(chunks: &[Value]) -> (String, String) {
    let all = |name: &str| {
        let deltas = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"][name]);
        deltas.filter_map(Value::as_str).collect::<String>()
    };
    (all("content"), all("reasoning_content"))
}

#[test]
fn chat_completion_is_the_answer_of_a_run() {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let served = HttpServed::start(&place, &[]);
    let answered = served.post(CHAT, &json!({"model": "helper", "messages": [user("Two and two?")]}));
    let reply = answered.json();
    assert_eq!(
        (answered.status, &reply["object"], &reply["model"]),
        (200, &json!("chat.completion"), &json!("helper"))
    );
    let choice = json!({
        "index": 0, "message": {"role": "assistant", "content": "Four.", "refusal": null}, "finish_reason": "stop",
        "logprobs": null,
    });
    assert_eq!(reply["choices"], json!([choice]));
    let usage = &reply["usage"];
    assert_eq!(
        (&usage["prompt_tokens"], &usage["completion_tokens"], &usage["total_tokens"]),
        (&json!(7), &json!(3), &json!(10))
    );
    let run = answered.header("x-request-id").unwrap();
    assert_eq!(reply["id"], format!("chatcmpl-{run}"));
    let known = served.get(&format!("/api/v1/runs/{run}")).json();
    assert_eq!((&known["state"], &known["task"]), (&json!("completed"), &json!("Two and two?")), "{known}");
    assert!(known["session"].is_string(), "{known}");
    let unstored = served.post(CHAT, &json!({"messages": [user("hi")], "store": false}));
    assert_eq!((unstored.status, &unstored.json()["model"]), (200, &json!("helper")), "the default agent");
    assert_eq!(served.get("/api/v1/sessions").json()["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn conversation_and_images_reach_the_model() {
    let (place, seen) = (Place::new(), Arc::new(Mutex::new(String::new())));
    let model = ModelServer::start({
        let seen = Arc::clone(&seen);
        move |asked| {
            *seen.lock().unwrap() = asked.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
            says("A pixel.")
        }
    });
    place.file("shelly.yaml", model.config("instructions: Keep the secret."));
    let served = HttpServed::start(&place, &[]);
    let image = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    let answered = served.post(
        CHAT,
        &json!({
            "model": "helper",
            "messages": [
                {"role": "system", "content": "Answer in French."},
                user("What is one?"),
                {"role": "assistant", "content": "Un."},
                {"role": "user", "content": [{"type": "text", "text": "And this?"}, image]},
            ],
            "temperature": 0.1,
            "max_tokens": 77,
        }),
    );
    assert_eq!(answered.json()["choices"][0]["message"]["content"], "A pixel.", "{answered:?}");
    let asked: Value = serde_json::from_str(&seen.lock().unwrap()).unwrap();
    let messages = asked["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"], "{asked}");
    let own = messages[0].to_string();
    assert!(own.contains("Keep the secret.") && !own.contains("French"), "the instructions of the agent stay: {own}");
    let first = messages[1]["content"].as_str().unwrap();
    assert!(first.starts_with("What is one?") && first.contains("Answer in French."), "{first}");
    assert_eq!(messages[2]["content"], "Un.");
    let newest = messages[3].to_string();
    assert!(newest.contains("And this?") && newest.contains("data:image/png;base64,iVBORw0KGgo="), "{newest}");
    assert!(asked.to_string().contains("tokens\":77"), "{asked}");
    // The session of the run holds the conversation.
    let session = served.only_run("completed")["session"].as_str().unwrap().to_owned();
    let shown = served.get(&format!("/api/v1/sessions/{session}")).json();
    let texts: Vec<_> = shown["messages"].as_array().unwrap().iter().map(|message| &message["text"]).collect();
    assert!(texts.contains(&&json!("Un.")) && texts.contains(&&json!("A pixel.")), "{shown}");
}

#[test]
fn streamed_answer_has_the_whole_text() {
    let place = Place::new();
    let model = ModelServer::start(|asked| match asked.contains("\"tool\"") {
        false => streams(
            &[
                json!({"reasoning_content": "hm"}),
                json!({"content": "Let me "}),
                json!({"content": "note it."}),
                json!({"tool_calls": [{
                    "index": 0, "id": "c1", "type": "function",
                    "function": {"name": "write_note", "arguments": "{\"name\":\"n\",\"content\":\"one\"}"},
                }]}),
            ],
            "tool_calls",
        ),
        true => streams(&[json!({"content": "It is "}), json!({"content": "noted."})], "stop"),
    });
    place.file("shelly.yaml", model.config("toolboxes: [notes]"));
    let served = HttpServed::start(&place, &[]);
    let mut body = json!({"model": "helper", "messages": [user("Note it.")], "stream": true});
    let plain = chunks(served.data_of(CHAT, &body));
    assert_eq!(said(&plain), ("Let me note it.\n\nIt is noted.".into(), "hm".into()));
    assert!(plain.len() > 4, "it comes in pieces: {plain:?}");
    assert_eq!(plain[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(plain.last().unwrap()["choices"][0], json!({"index": 0, "delta": {}, "finish_reason": "stop"}));
    assert!(!json!(plain).to_string().contains("write_note"), "calls of tools are not in the text");
    let ids: std::collections::BTreeSet<_> = plain.iter().map(|chunk| chunk["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert!(plain.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk.get("usage").is_none()));
    body["stream_options"] = json!({"include_usage": true});
    let counted = chunks(served.data_of(CHAT, &body));
    let (last, before) = counted.split_last().unwrap();
    assert_eq!((&last["choices"], &last["usage"]["total_tokens"]), (&json!([]), &json!(20)), "both turns: {last}");
    assert!(before.iter().all(|chunk| chunk["usage"] == Value::Null));
}

#[test]
fn answer_follows_the_schema_of_the_client() {
    let place = Place::new();
    let model = ModelServer::start(|asked| match asked.contains("was not accepted") {
        false => streams(&[json!({"content": "Paris"})], "stop"),
        true => streams(&[json!({"content": "```json\n{\"city\": \"Paris\"}\n```"})], "stop"),
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let format = json!({"type": "json_schema", "json_schema": {"name": "city", "strict": true, "schema": schema}});
    let mut body = json!({"messages": [user("Where?")], "response_format": format});
    let reply = served.post(CHAT, &body).json();
    assert_eq!(reply["choices"][0]["message"]["content"], "{\"city\":\"Paris\"}", "{reply}");
    body["stream"] = json!(true);
    let (text, _) = said(&chunks(served.data_of(CHAT, &body)));
    assert_eq!(text, "{\"city\":\"Paris\"}", "what was not accepted is not sent");
    body["response_format"]["json_schema"]["schema"] = json!({"properties": {"a": {"pattern": "x"}}});
    let refused = served.post(CHAT, &body);
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("response_format")), "{refused:?}");
}

#[test]
fn cut_answer_ends_with_length() {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| streams(&[json!({"content": "One, two"})], "length")).config(""));
    let served = HttpServed::start(&place, &[]);
    let mut body = json!({"messages": [user("Count.")], "max_completion_tokens": 3});
    let reply = served.post(CHAT, &body).json();
    let choice = &reply["choices"][0];
    assert_eq!((&choice["finish_reason"], &choice["message"]["content"]), (&json!("length"), &json!("One, two")));
    assert_eq!(reply["usage"]["completion_tokens"], 3, "{reply}");
    body["stream"] = json!(true);
    let chunks = chunks(served.data_of(CHAT, &body));
    assert_eq!(said(&chunks).0, "One, two");
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "length");
}
