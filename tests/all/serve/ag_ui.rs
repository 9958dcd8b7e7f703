//! User interfaces that speak AG-UI.

use super::*;

fn input(text: &str) -> Value {
    json!({
        "threadId": "thread-1", "runId": "run-1", "protocolVersion": "1.0", "state": {"open": true},
        "messages": [{"id": "1", "role": "user", "content": text}], "tools": [], "context": [], "forwardedProps": {},
    })
}

fn model() -> ModelServer {
    ModelServer::start(|asked| match asked.contains("\"tool\"") {
        false => calls("write_note", &json!({"name": "n", "content": "one"})),
        true => streams(&[json!({"content": "It is "}), json!({"content": "noted."})], "stop"),
    })
}

#[test]
fn interface_follows_a_run_to_its_end() {
    let place = Place::new();
    place.file("shelly.yaml", model().config("toolboxes: [notes]"));
    let served = HttpServed::start(&place, &[]);
    let data = served.data_of("/ag-ui/helper", &input("Note it."));
    let events: Vec<Value> = data.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let texts = kinds.iter().filter(|kind| **kind == "TEXT_MESSAGE_CONTENT").count();
    let mut expected = vec![
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "TEXT_MESSAGE_START",
    ];
    expected.extend(vec!["TEXT_MESSAGE_CONTENT"; texts]);
    expected.extend(["TEXT_MESSAGE_END", "RUN_FINISHED"]);
    assert_eq!(kinds, expected);
    let of = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    assert_eq!((&of("RUN_STARTED")["threadId"], &of("RUN_STARTED")["runId"]), (&json!("thread-1"), &json!("run-1")));
    assert_eq!(of("STATE_SNAPSHOT")["snapshot"]["open"], true, "the state of the interface stays");
    assert_eq!(of("TOOL_CALL_START")["toolCallName"], "write_note");
    let arguments: Value = serde_json::from_str(of("TOOL_CALL_ARGS")["delta"].as_str().unwrap()).unwrap();
    assert_eq!(arguments, json!({"name": "n", "content": "one"}));
    let ids =
        ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"].map(|kind| &of(kind)["toolCallId"]);
    assert!(ids.iter().all(|id| **id == *ids[0]), "{ids:?}");
    let said: String = events
        .iter()
        .filter(|event| event["type"] == "TEXT_MESSAGE_CONTENT")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(said, "It is noted.");
    let session = served.only_run("completed")["session"].clone();
    let last = of("RUN_FINISHED");
    assert_eq!(last["result"]["session"], session, "{last}");
    assert!(last["usage"][0]["inputTokens"].as_u64().unwrap() >= 7, "{last}");
}

#[test]
fn interface_is_refused_with_a_reason() {
    let place = Place::new();
    place.file("shelly.yaml", model().config(""));
    let served = HttpServed::start(&place, &[]);
    let mut with_tools = input("hi");
    with_tools["tools"] = json!([{"name": "confirm", "description": ""}]);
    for (path, body, status, says) in [
        ("/ag-ui/bob", input("hi"), 404, "there is no such agent"),
        ("/ag-ui/", input("hi"), 404, "there is no such agent"),
        ("/ag-ui/helper", json!({}), 400, "the body is no input of a run"),
        ("/ag-ui/helper", with_tools, 400, "the tool `confirm`"),
    ] {
        let refused = served.post(path, &body);
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.json()["title"].as_str().unwrap().contains(says), "{refused:?}");
    }
    assert_eq!(served.get("/ag-ui/helper").status, 405);
    let headers = "host: localhost\r\ncontent-type: application/json\r\n";
    assert_eq!(served.send("POST", "/ag-ui/helper", headers, &input("hi").to_string()).status, 401);
}

#[test]
fn run_of_an_interface_that_fails_or_leaves_ends() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let model = ModelServer::start({
        let gate = gate.clone();
        move |asked| {
            if asked.contains("wait for me") {
                gate.wait();
            }
            answer("400 Bad Request", "{\"error\": {\"message\": \"no\"}}")
        }
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let connection = served.begin("/ag-ui/helper", &input("wait for me"));
    served.only_run("running");
    drop(connection);
    served.only_run("cancelled");
    gate.open();
    let data = served.data_of("/ag-ui/helper", &input("hi"));
    let last: Value = serde_json::from_str(data.last().unwrap()).unwrap();
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("provider")), "{last}");
}
