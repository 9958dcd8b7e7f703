//! Clients of OpenAI's API: those who may not, who ask for too much, who go, and who are many.

use super::*;

const CHAT: &str = "/v1/chat/completions";

fn asks(text: &str) -> Value {
    json!({"model": "helper", "messages": [{"role": "user", "content": text}]})
}

#[test]
fn agents_are_listed_as_models() {
    let place = Place::new();
    let config = ModelServer::start(|_| says("Four.")).config("");
    place.file("shelly.yaml", config.replace("agents: [", "agents: [{name: lead}, "));
    let served = HttpServed::start(&place, &["--agent", "helper"]);
    let listed = served.get("/v1/models").json();
    let ids: Vec<_> = listed["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!((&listed["object"], ids), (&json!("list"), vec![&json!("helper"), &json!("lead")]), "the default first");
    let one = served.get("/v1/models/lead").json();
    assert_eq!((&one["id"], &one["object"]), (&json!("lead"), &json!("model")), "{one}");
    for (method, path, status, code) in [
        ("GET", "/v1/models/gpt-5", 404, "model_not_found"),
        ("GET", "/v1/embeddings", 404, "not_found"),
        ("POST", "/v1/models", 405, "method"),
        ("GET", CHAT, 405, "method"),
    ] {
        let refused = served.send(method, path, &served.known(), "");
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["code"]), (status, &json!(code)), "{method} {path}: {refused:?}");
        assert_eq!(error["type"], "invalid_request_error");
    }
}

#[test]
fn refusals_have_the_form_of_the_api() {
    let place = Place::new();
    let key = "sk-never-shown-42";
    let model = ModelServer::start(move |_| answer("401 Unauthorized", &format!("{{\"error\": \"bad key {key}\"}}")));
    place.file("shelly.yaml", model.config("").replace("retries: 0", &format!("retries: 0, api_key: '{key}'")));
    let served = HttpServed::start(&place, &[]);
    let mut unknown = asks("hi");
    unknown["model"] = json!("gpt-5");
    let mut with_tools = asks("hi");
    with_tools["tools"] = json!([{"type": "function", "function": {"name": "look"}}]);
    for (path, body, status, code, param) in [
        (CHAT, json!({}), 400, Value::Null, Value::Null),
        (CHAT, json!([]), 400, Value::Null, Value::Null),
        (CHAT, unknown, 404, json!("model_not_found"), json!("model")),
        (CHAT, with_tools, 400, json!("unsupported_parameter"), json!("tools")),
        ("/v1/responses", json!({"input": "hi", "background": true, "store": false}), 400, Value::Null, json!("store")),
        (CHAT, asks("hi"), 502, json!("provider"), Value::Null),
        ("/v1/responses", json!({"input": "hi"}), 502, json!("provider"), Value::Null),
    ] {
        let refused = served.post(path, &body);
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["code"], &error["param"]), (status, &code, &param), "{refused:?}");
        assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
        // OpenAI's clients repeat a request that failed with 502: the agent would work again.
        assert_eq!(refused.header("x-should-retry"), (status == 502).then_some("false"), "{refused:?}");
        assert!(!refused.body.contains(key), "{refused:?}");
    }
    let json = "content-type: application/json\r\n";
    let wrong_token = format!("host: localhost\r\nauthorization: Bearer {}0\r\n{json}", served.token);
    for (headers, status, code) in [
        (format!("host: localhost\r\n{json}"), 401, "invalid_api_key"),
        (wrong_token, 401, "invalid_api_key"),
        (format!("host: evil.example\r\n{json}"), 403, "forbidden"),
        (format!("{}content-type: text/plain\r\n", served.known()), 415, "media_type"),
    ] {
        let refused = served.send("POST", CHAT, &headers, &asks("hi").to_string());
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (status, &json!(code)), "{refused:?}");
    }
    let mut streamed = asks("hi");
    streamed["stream"] = json!(true);
    let data = served.data_of(CHAT, &streamed);
    let last: Value = serde_json::from_str(data.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "provider", "after the head only an event can say so: {last}");
    assert!(!last.to_string().contains(key), "{last}");
}

#[test]
fn run_ends_when_its_client_disconnects() {
    for is_streamed in [false, true] {
        let (gate, place) = (ReplyGate::default(), Place::new());
        let model = ModelServer::start({
            let gate = gate.clone();
            move |_| {
                gate.wait();
                says("Four.")
            }
        });
        place.file("shelly.yaml", model.config(""));
        let served = HttpServed::start(&place, &[]);
        let mut body = asks("hi");
        body["stream"] = json!(is_streamed);
        let connection = served.begin(CHAT, &body);
        served.only_run("running");
        drop(connection);
        served.only_run("cancelled");
        gate.open();
    }
}

#[test]
fn further_request_is_refused_while_runs_are_at_work() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let model = ModelServer::start({
        let gate = gate.clone();
        move |_| {
            gate.wait();
            says("Four.")
        }
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &["--max-runs", "1"]);
    let mut first = served.begin(CHAT, &asks("hi"));
    served.only_run("running");
    for path in [CHAT, "/v1/responses"] {
        let mut body = asks("hi");
        body["input"] = json!("hi");
        let refused = served.post(path, &body);
        assert_eq!((refused.status, &refused.json()["error"]["code"]), (429, &json!("rate_limit_exceeded")));
        assert_eq!((refused.header("retry-after"), refused.header("x-should-retry")), (Some("5"), None), "{refused:?}");
    }
    gate.open();
    assert!(read_until(&mut first, "Four.").starts_with("HTTP/1.1 200"));
}

#[test]
fn question_of_an_agent_is_answered_beside_the_request() {
    let place = Place::new();
    let asks_user = json!({"question": "Which colour?", "options": []});
    let model = ModelServer::start(move |asked| match asked.contains("\"tool\"") {
        false => calls("ask_user", &asks_user),
        true => says(if asked.contains("sea green") { "Sea green it is." } else { "What?" }),
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let mut connection = served.begin(CHAT, &asks("Paint it."));
    let open = served.wait_for("/api/v1/questions", |open| !open["questions"].as_array().unwrap().is_empty());
    let path = format!("/api/v1/questions/{}", open["questions"][0]["id"]);
    assert_eq!(served.post(&path, &json!({"text": "sea green"})).status, 200);
    served.only_run("completed");
    assert!(read_until(&mut connection, "Sea green it is.").contains("chat.completion"));
}
