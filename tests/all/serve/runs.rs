//! Runs over HTTP: started once, followed, cancelled, and taken up again.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn run_over_http_is_followed_over_a_reconnect() {
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
    let started = served.post("/api/v1/runs", &json!({"task": "What is two and two?"}));
    assert_eq!(started.status, 201, "{started:?}");
    let (run, session) = (started.json()["run"].as_str().unwrap().to_owned(), started.json()["session"].clone());
    assert_eq!(started.header("location"), Some(&*format!("/api/v1/runs/{run}")));
    let at_work = served.get(&format!("/api/v1/runs/{run}")).json();
    assert_eq!(
        (&at_work["state"], &at_work["agent"], &at_work["task"]),
        (&json!("running"), &json!("helper"), &json!("What is two and two?"))
    );

    let path = format!("/api/v1/runs/{run}/events");
    let mut first = served.watch(&path, "");
    let before = first.until(|event| is_run_event(event, "model_started"));
    drop(first);
    let last = before.last().unwrap().id.unwrap();
    gate.open();
    let after = served.watch(&path, &format!("last-event-id: {last}\r\n")).rest();
    let by_query = served.watch(&format!("{path}?after={last}"), "").rest();
    assert_eq!(after, by_query);
    let whole = served.watch(&path, "").rest();
    assert_eq!([before, after].concat(), whole, "nothing is lost and nothing comes twice");
    let of_run = whole.iter().filter(|event| event.name == "run");
    let sequences: Vec<_> = of_run.map(|event| event.data["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    assert!(is_run_event(&whole[0], "run_started"), "{:?}", whole[0]);
    let end = whole.last().unwrap();
    assert_eq!((&*end.name, &end.data["state"], &end.data["session"]), ("end", &json!("completed"), &session));

    let done = served.ended(&run);
    assert_eq!(done["result"], json!({"text": "Four.", "ending": "answered", "iterations": 1}), "{done}");
    assert_eq!((&done["usage"]["input_tokens"], &done["usage"]["output_tokens"]), (&json!(7), &json!(3)), "{done}");
    assert_eq!((&done["cost_usd"], &done["agents"][0]["agent"]), (&Value::Null, &json!("helper")), "{done}");
    assert_eq!(done["last_event"], sequences.len(), "{done}");
    let listed = served.get("/api/v1/runs").json();
    assert_eq!((listed["runs"].as_array().unwrap().len(), &listed["runs"][0]["run"]), (1, &json!(run)));

    let sessions = served.get("/api/v1/sessions").json();
    let (name, first) = (session.as_str().unwrap(), &sessions["sessions"][0]);
    assert_eq!((&first["session"], &first["state"], &first["own"]), (&session, &json!("answered"), &json!(true)));
    let shown = served.get(&format!("/api/v1/sessions/{name}")).json();
    let messages = json!([{"role": "user", "text": "What is two and two?"}, {"role": "assistant", "text": "Four."}]);
    assert_eq!(shown["messages"], messages, "{shown}");
    assert_eq!(served.get(&format!("/api/v1/sessions/{}", &name[..6])).status, 404, "a name is whole");
    let agents = served.get("/api/v1/agents").json();
    let helper = json!({"name": "helper", "kind": "agent", "description": "Helps.", "entry": true, "model": null});
    assert_eq!(agents, json!({"agents": [helper]}));
    let metrics = served.get("/metrics");
    for line in [
        "shelly_runs{state=\"running\"} 0",
        "shelly_runs_ended_total{state=\"completed\"} 1",
        "shelly_tokens_total{kind=\"input\"} 7",
        "shelly_questions_open 0",
        "shelly_events_dropped_total 0",
    ] {
        assert!(metrics.body.lines().any(|one| one == line), "{line}\n{}", metrics.body);
    }
    assert_eq!(served.get("/healthz").json(), json!({"status": "ok", "runs": 0}));
    // The session goes on with another task.
    let again = served.run(&json!({"task": "And once more?", "session": name}));
    let ended = served.ended(&again);
    assert_eq!(
        (&ended["session"], &ended["usage"]["input_tokens"]),
        (&session, &json!(14)),
        "that of the session: {ended}"
    );
    let tokens = "shelly_tokens_total{kind=\"input\"} 14";
    assert!(served.get("/metrics").body.lines().any(|line| line == tokens), "each token is counted once");
    // Without a task there is nothing to do in it, nor in a session that is not there.
    for (session, says) in [(name, "is complete"), ("none", "there is no session `none`")] {
        let refused = served.post("/api/v1/runs", &json!({"session": session}));
        let problem = refused.json();
        assert_eq!((refused.status, &problem["code"]), (422, &json!("unprocessable")), "{problem}");
        assert!(problem["title"].as_str().unwrap().contains(says), "{problem}");
        assert!(problem["mend"].as_str().unwrap().starts_with("add a task"), "{problem}");
    }
    assert_eq!(served.get("/api/v1/sessions/none").status, 404, "no session is made for it");
    let (code, said) = served.terminate();
    assert!(code == 143 && said.ends_with("stopped\n"), "{said}");
}

#[test]
fn repeated_request_starts_one_run() {
    let (place, asked) = (Place::new(), Arc::new(AtomicUsize::new(0)));
    let model = ModelServer::start({
        let asked = Arc::clone(&asked);
        move |_| {
            asked.fetch_add(1, Ordering::SeqCst);
            says("Four.")
        }
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let key = "idempotency-key: 7f3a9c\r\n";
    let start = |headers: &str, task: &str| served.post_with("/api/v1/runs", headers, &json!({"task": task}));
    let first = start(key, "hi");
    assert_eq!(first.status, 201, "{first:?}");
    served.ended(first.json()["run"].as_str().unwrap());
    let again = start(key, "hi");
    assert_eq!((again.status, again.json()), (200, first.json()));
    let other = start(key, "ho");
    assert_eq!((other.status, &other.json()["code"]), (409, &json!("conflict")), "{other:?}");
    let twice = start(&format!("{key}{key}"), "hi");
    assert_eq!(twice.status, 400, "{twice:?}");
    assert_eq!((asked.load(Ordering::SeqCst), start("", "hi").status), (1, 201));
}

#[test]
fn session_at_work_is_in_use_here_and_elsewhere() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let model = ModelServer::start({
        let gate = gate.clone();
        move |_| {
            gate.wait();
            says("Four.")
        }
    });
    place.file("shelly.yaml", model.config(""));
    let [here, elsewhere] = [HttpServed::start(&place, &[]), HttpServed::start(&place, &[])];
    let (body, key) = (json!({"task": "hi", "session": "s"}), "idempotency-key: 7f3a9c\r\n");
    let first = here.post_with("/api/v1/runs", key, &body);
    assert_eq!(first.status, 201, "{first:?}");
    // A request that is repeated finds its run, which is the one that works in the session.
    for (served, headers, status) in [(&here, key, 200), (&here, "", 409), (&elsewhere, "", 409)] {
        let answer = served.post_with("/api/v1/runs", headers, &body);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(status == 200 || answer.body.contains("the session `s` is in use"), "{answer:?}");
    }
    gate.open();
    assert_eq!(here.ended(first.json()["run"].as_str().unwrap())["state"], "completed");
}

#[test]
fn cancelled_run_ends_and_takes_no_message() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let model = ModelServer::start({
        let gate = gate.clone();
        move |asked| {
            if asked.contains("wait for me") {
                gate.wait();
            }
            says("Four.")
        }
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let run = served.run(&json!({"task": "wait for me"}));
    served.watch(&format!("/api/v1/runs/{run}/events"), "").until(|event| is_run_event(event, "model_started"));
    let messages = format!("/api/v1/runs/{run}/messages");
    assert_eq!(served.post(&messages, &json!({"text": "hurry"})).status, 202);
    assert_eq!(served.post(&messages, &json!({"text": "hurry", "agent": "bob"})).status, 409, "nobody has this name");
    assert_eq!(served.post(&messages, &json!({"text": " "})).status, 400);
    let cancel = |run: &str| served.send("POST", &format!("/api/v1/runs/{run}/cancel"), &served.known(), "");
    assert_eq!(cancel(&run).status, 202);
    let ended = served.ended(&run);
    assert_eq!((&ended["state"], &ended["error"]), (&json!("cancelled"), &Value::Null), "{ended}");
    assert_eq!(cancel(&run).status, 200, "it is over");
    assert_eq!(served.post(&messages, &json!({"text": "hurry"})).status, 409);
    for path in ["/api/v1/runs/run-0", "/api/v1/runs/run-0/events", "/api/v1/sessions/none"] {
        let unknown = served.get(path);
        let problem = unknown.json();
        assert_eq!((unknown.status, &problem["code"]), (404, &json!("not_found")), "{path}");
        assert!(problem["mend"].is_string(), "{problem}");
        assert_eq!(unknown.header("content-type"), Some("application/problem+json"));
    }
    assert_eq!(cancel("run-0").status, 404);
    gate.open();
    // The conversation of a cancelled run goes on.
    let session = ended["session"].as_str().unwrap();
    let next = served.run(&json!({"task": "go on", "session": session}));
    assert_eq!(served.ended(&next)["state"], "completed");
}

#[test]
fn failed_run_says_why_and_how_to_mend_it() {
    let place = Place::new();
    let key = "sk-never-shown-42";
    let model = ModelServer::start(move |_| answer("401 Unauthorized", &format!("{{\"error\": \"bad key {key}\"}}")));
    place.file("shelly.yaml", model.config("").replace("retries: 0", &format!("retries: 0, api_key: '{key}'")));
    let served = HttpServed::start(&place, &[]);
    let run = served.run(&json!({"task": "hi"}));
    let ended = served.ended(&run);
    let error = &ended["error"];
    assert_eq!((&ended["state"], &error["code"]), (&json!("failed"), &json!("provider")), "{ended}");
    assert!(error["mend"].as_str().unwrap().contains("key"), "{error}");
    let events = served.watch(&format!("/api/v1/runs/{run}/events"), "").rest();
    assert_eq!(events.last().unwrap().data["state"], "failed");
    assert!(!format!("{ended} {events:?}").contains(key), "{ended} {events:?}");
    for (body, says) in [
        (json!({"task": "hi", "agent": "bob"}), "bob"),
        (json!({"task": "hi", "model": "none"}), "none"),
        (json!({"task": "hi", "session": "../up"}), "../up"),
        (json!({"task": "hi", "session": "last"}), "last"),
    ] {
        let refused = served.post("/api/v1/runs", &body);
        let problem = refused.json();
        assert_eq!((refused.status, &problem["code"]), (422, &json!("unprocessable")), "{problem}");
        assert!(problem["title"].as_str().unwrap().contains(says), "{problem}");
    }
    // They never began.
    served.wait_for("/api/v1/runs", |listed| listed["runs"].as_array().unwrap().len() == 1);
}

#[test]
fn long_answer_is_cut_in_the_list_of_runs() {
    let place = Place::new();
    let text = json!({"words": "word ".repeat(1_000)}).to_string();
    place.file("shelly.yaml", ModelServer::start(move |_| says(&text)).config(""));
    let served = HttpServed::start(&place, &[]);
    let run = served.run(&json!({"task": "hi", "schema": {"type": "object"}}));
    let whole = &served.ended(&run)["result"];
    assert_eq!(whole["value"]["words"], "word ".repeat(1_000), "{whole}");
    let listed = &served.only_run("completed")["result"];
    let shown = listed["text"].as_str().unwrap();
    assert_eq!((shown.chars().count(), listed.get("value")), (2_001, None), "with the mark of the cut: {listed}");
    assert_eq!((&listed["ending"], &listed["iterations"]), (&whole["ending"], &whole["iterations"]));
}

#[test]
fn shutdown_leaves_a_session_that_goes_on() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let model = ModelServer::start({
        let gate = gate.clone();
        move |asked| match asked.contains("\"tool\"") {
            false => calls("write_note", &json!({"name": "n", "content": "one"})),
            true => {
                gate.wait();
                says("Four.")
            }
        }
    });
    place.file("shelly.yaml", model.config("toolboxes: [notes]"));
    let served = HttpServed::start(&place, &[]);
    let run = served.run(&json!({"task": "What is two and two?"}));
    let mut events = served.watch(&format!("/api/v1/runs/{run}/events"), "");
    events.until(|event| is_run_event(event, "tool_finished"));
    events.until(|event| is_run_event(event, "model_started"));
    let (code, said) = served.terminate();
    assert!(code == 143 && said.ends_with("stopped\n"), "{said}");
    let mut rest = events.rest();
    assert!(!rest.iter().any(|event| is_run_event(event, "run_finished")), "{rest:?}");
    let last = rest.pop().unwrap();
    assert_eq!((&*last.name, &last.data["state"]), ("end", &json!("interrupted")), "{last:?}");
    let session = last.data["session"].as_str().unwrap();
    let traced = place.run(&["trace", session]);
    assert!(traced.stdout.contains("has not ended"), "{}", traced.shown());
    gate.open();
    // Over HTTP, and so on the command line.
    let served = HttpServed::start(&place, &[]);
    let resumed = served.run(&json!({"session": session}));
    let ended = served.ended(&resumed);
    assert_eq!((&ended["state"], &ended["result"]["text"]), (&json!("completed"), &json!("Four.")), "{ended}");
    let (_, said) = served.terminate();
    assert!(said.ends_with("stopped\n"), "{said}");
    let shown = place.run(&["session", "show", session]);
    assert!(shown.stdout.contains("Four.") && shown.stdout.matches("write_note").count() >= 1, "{}", shown.shown());
}
