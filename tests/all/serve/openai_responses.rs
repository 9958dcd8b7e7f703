//! Responses: whole, in events, and continued.

use super::*;

const RESPONSES: &str = "/v1/responses";

/// A server whose model says how many messages of the user it was sent.
fn counting(place: &Place, arguments: &[&str]) -> HttpServed {
    let model = ModelServer::start(|asked| {
        let count = asked.matches("\"role\":\"user\"").count();
        streams(&[json!({"content": format!("You said {count}")}), json!({"content": " things."})], "stop")
    });
    place.file("shelly.yaml", model.config(""));
    HttpServed::start(place, arguments)
}

fn text_of(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

#[test]
fn response_is_continued_by_its_id() {
    let place = Place::new();
    let served = counting(&place, &[]);
    let first = served.post(RESPONSES, &json!({"model": "helper", "input": "one", "instructions": "Be brief."}));
    let first = first.json();
    assert_eq!(text_of(&first), "You said 1 things.");
    assert_eq!(
        (&first["object"], &first["status"], &first["store"], &first["instructions"]),
        (&json!("response"), &json!("completed"), &json!(true), &json!("Be brief."))
    );
    assert_eq!((&first["usage"]["input_tokens"], &first["usage"]["output_tokens"]), (&json!(7), &json!(3)));
    let id = first["id"].as_str().unwrap();
    let session = served.only_run("completed")["session"].as_str().unwrap().to_owned();
    assert_eq!(id, format!("resp_1_{session}"));
    drop(served);
    // The id holds after the server was started anew.
    let served = counting(&place, &[]);
    let second = served.post(RESPONSES, &json!({"input": "two", "previous_response_id": id})).json();
    assert_eq!((text_of(&second), &second["previous_response_id"]), ("You said 2 things.", &json!(id)), "{second}");
    assert_eq!(second["id"], format!("resp_2_{session}"));
    assert_eq!(second["usage"]["input_tokens"], 7, "the usage of this run alone");
    for (previous, says) in [
        (id, "only the newest can be continued"),
        ("resp_1_none", "does not exist"),
        ("resp_run-1", "not stored"),
        ("resp_1_../up", "does not exist"),
    ] {
        let refused = served.post(RESPONSES, &json!({"input": "three", "previous_response_id": previous}));
        let error = &refused.json()["error"];
        assert_eq!((refused.status, &error["code"]), (400, &json!("previous_response_not_found")), "{refused:?}");
        assert!(error["message"].as_str().unwrap().contains(says), "{previous}: {error}");
    }
    let unstored = served.post(RESPONSES, &json!({"input": "hi", "store": false})).json();
    assert_eq!(unstored["store"], false);
    assert!(unstored["id"].as_str().unwrap().starts_with("resp_run-"), "{unstored}");
    assert_eq!(served.get("/api/v1/sessions").json()["sessions"].as_array().unwrap().len(), 1);
}

#[test]
fn response_is_not_stored_where_nothing_is_recorded() {
    let place = Place::new();
    let served = counting(&place, &["--no-session"]);
    let first = served.post(RESPONSES, &json!({"input": "one"})).json();
    assert_eq!(first["store"], false, "{first}");
    let refused = served.post(RESPONSES, &json!({"input": "two", "previous_response_id": first["id"]}));
    assert_eq!(refused.status, 400, "{refused:?}");
    let whole = json!([
        {"role": "user", "content": "one"},
        first["output"][0],
        {"role": "user", "content": [{"type": "input_text", "text": "two"}]},
    ]);
    let second = served.post(RESPONSES, &json!({"input": whole})).json();
    assert_eq!(text_of(&second), "You said 2 things.", "the client sends the conversation itself");
}

#[test]
fn events_of_a_response_are_in_order() {
    let place = Place::new();
    let model = ModelServer::start(|_| {
        streams(&[json!({"reasoning_content": "hm"}), json!({"content": "Fo"}), json!({"content": "ur."})], "stop")
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let data = served.data_of(RESPONSES, &json!({"input": "Two and two?", "stream": true}));
    let events: Vec<Value> = data.iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let mut expected = vec![
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
    ];
    let deltas = kinds.iter().filter(|kind| **kind == "response.output_text.delta").count();
    expected.extend(vec!["response.output_text.delta"; deltas]);
    expected.extend([
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]);
    assert_eq!(kinds, expected);
    assert!(deltas >= 1);
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    let text: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Four.");
    let response = &events.last().unwrap()["response"];
    let items = response["output"].as_array().unwrap();
    assert_eq!((&items[0]["type"], &items[0]["summary"][0]["text"]), (&json!("reasoning"), &json!("hm")), "{response}");
    assert_eq!((&items[1]["type"], &items[1]["content"][0]["text"]), (&json!("message"), &json!("Four.")));
    assert_eq!((&response["status"], &response["usage"]["total_tokens"]), (&json!("completed"), &json!(10)));
    let ids: Vec<_> = ["response.output_item.added", "response.output_text.delta"]
        .iter()
        .map(|kind| events.iter().rfind(|event| event["type"] == **kind).unwrap())
        .map(|event| event["item_id"].as_str().or(event["item"]["id"].as_str()).unwrap())
        .collect();
    assert_eq!(ids[0], ids[1]);
    assert_eq!(items[1]["id"], ids[0]);
}

#[test]
fn response_that_is_cut_is_incomplete() {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| streams(&[json!({"content": "One, two"})], "length")).config(""));
    let served = HttpServed::start(&place, &[]);
    let mut body = json!({"input": "Count.", "max_output_tokens": 3});
    let reply = served.post(RESPONSES, &body).json();
    let incomplete = (json!("incomplete"), json!({"reason": "max_output_tokens"}));
    assert_eq!((&reply["status"], &reply["incomplete_details"]), (&incomplete.0, &incomplete.1), "{reply}");
    assert_eq!((text_of(&reply), &reply["max_output_tokens"]), ("One, two", &json!(3)));
    body["stream"] = json!(true);
    let data = served.data_of(RESPONSES, &body);
    let last: Value = serde_json::from_str(data.last().unwrap()).unwrap();
    assert_eq!((&last["type"], text_of(&last["response"])), (&json!("response.incomplete"), "One, two"));
}

#[test]
fn response_in_the_background_is_retrieved_and_deleted() {
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
    let begun = served.post(RESPONSES, &json!({"input": "hi", "background": true})).json();
    assert_eq!((&begun["status"], &begun["background"]), (&json!("in_progress"), &json!(true)), "{begun}");
    let path = format!("{RESPONSES}/{}", begun["id"].as_str().unwrap());
    assert_eq!(served.get(&path).json()["status"], "in_progress");
    let early = served.send("DELETE", &path, &served.known(), "");
    assert_eq!((early.status, &early.json()["error"]["code"]), (409, &json!("conflict")), "{early:?}");
    gate.open();
    let done = served.wait_for(&path, |response| response["status"] != "in_progress");
    assert_eq!((&done["id"], text_of(&done)), (&begun["id"], "Four."), "{done}");
    let session = served.only_run("completed")["session"].as_str().unwrap().to_owned();
    let deleted = served.send("DELETE", &path, &served.known(), "").json();
    assert_eq!(deleted, json!({"id": begun["id"], "object": "response", "deleted": true}));
    assert_eq!(served.get(&path).status, 404);
    assert_eq!(served.get(&format!("/api/v1/sessions/{session}")).status, 404, "the session is gone with it");
}

#[test]
fn response_in_the_background_is_cancelled() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let model = ModelServer::start({
        let gate = gate.clone();
        move |_| {
            gate.wait();
            says("Too late.")
        }
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let begun = served.post(RESPONSES, &json!({"input": "hi", "background": true})).json();
    let path = format!("{RESPONSES}/{}", begun["id"].as_str().unwrap());
    let cancelled = served.post(&format!("{path}/cancel"), &json!({}));
    assert_eq!(cancelled.status, 200, "{cancelled:?}");
    let done = served.wait_for(&path, |response| response["status"] != "in_progress");
    assert_eq!((&done["status"], &done["output"]), (&json!("cancelled"), &json!([])), "{done}");
    gate.open();
}

#[test]
fn streamed_response_that_is_cancelled_says_so() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let model = ModelServer::start({
        let gate = gate.clone();
        move |_| {
            gate.wait();
            says("Too late.")
        }
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let mut stream = served.begin(RESPONSES, &json!({"input": "hi", "stream": true}));
    read_until(&mut stream, "response.in_progress");
    let run = served.only_run("running")["run"].as_str().unwrap().to_owned();
    assert_eq!(served.post(&format!("/api/v1/runs/{run}/cancel"), &json!({})).status, 202);
    let rest = read_until(&mut stream, "\r\n0\r\n");
    let last: Value =
        serde_json::from_str(rest.lines().rfind(|line| line.starts_with("data: ")).unwrap().split_at(6).1).unwrap();
    assert_eq!(last["type"], "response.incomplete", "{last}");
    let response = &last["response"];
    assert_eq!((&response["status"], &response["error"]), (&json!("cancelled"), &Value::Null), "{response}");
    assert_eq!(response["incomplete_details"], Value::Null, "no bound has ended it: {response}");
    gate.open();
}

#[test]
fn response_of_a_client_is_retrieved_and_not_cancelled() {
    let place = Place::new();
    let served = counting(&place, &[]);
    let first = served.post(RESPONSES, &json!({"input": "one"})).json();
    let path = format!("{RESPONSES}/{}", first["id"].as_str().unwrap());
    assert_eq!(text_of(&served.get(&path).json()), "You said 1 things.");
    let refused = served.post(&format!("{path}/cancel"), &json!({}));
    assert!(refused.status == 400 && refused.body.contains("`background`"), "{refused:?}");
    let second = json!({"input": "two", "previous_response_id": first["id"]});
    assert_eq!(served.post(RESPONSES, &second).status, 200);
    let refused = served.send("DELETE", &path, &served.known(), "");
    assert!(refused.status == 409 && refused.body.contains("session rm"), "{refused:?}");
    for (method, path, status) in [
        ("GET", "/v1/responses/resp_1_none".to_owned(), 404),
        ("GET", "/v1/responses/".to_owned(), 404),
        ("PUT", path.clone(), 405),
        ("GET", format!("{path}/cancel"), 405),
        ("GET", format!("{path}/more"), 404),
    ] {
        assert_eq!(served.send(method, &path, &served.known(), "").status, status, "{method} {path}");
    }
}
