//! The events of sessions over HTTP.

use super::*;

/// Returns the lines of an answer, without the sizes of its chunks.
fn lines(answer: &HttpAnswer) -> Vec<Value> {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/x-ndjson")), "{answer:?}");
    answer.body.lines().filter_map(|line| serde_json::from_str(line).ok()).filter(Value::is_object).collect()
}

#[test]
fn session_of_an_earlier_server_has_its_events_with_times() {
    let place = Place::new();
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let served = HttpServed::start(&place, &[]);
    let run = served.run(&json!({"task": "How many?", "session": "s"}));
    assert_eq!(served.ended(&run)["state"], "completed");
    drop(served);

    let served = HttpServed::start(&place, &[]);
    assert_eq!(served.get("/api/v1/runs").json(), json!({"runs": []}), "it knows no run");
    let answer = served.get("/api/v1/sessions/s/events");
    let all = lines(&answer);
    let numbers: Vec<_> = all.iter().map(|line| line["sequence"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=all.len() as u64).collect::<Vec<_>>());
    assert!(all.iter().all(|line| line["session"] == "s"), "{all:?}");
    let kinds: Vec<_> = all.iter().map(|line| line["event"].as_str().unwrap()).collect();
    for kind in ["stream_started", "run_started", "message_added", "model_finished", "run_finished"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    let timed = all.iter().filter(|line| line["event"] != "stream_started");
    assert!(timed.clone().all(|line| line["time"].is_string()), "{all:?}");
    // They are those that the command prints.
    let printed = place.run(&["trace", "s", "--format", "jsonl"]);
    let printed: Vec<Value> = printed.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(all, printed);
    let rest = lines(&served.get(&format!("/api/v1/sessions/s/events?after={}", all.len() - 2)));
    assert_eq!(rest, all[all.len() - 2..]);
    assert_eq!(served.get("/api/v1/sessions/none/events").status, 404);
    assert_eq!(served.get("/api/v1/sessions/s/events?after=x").status, 400);
}
