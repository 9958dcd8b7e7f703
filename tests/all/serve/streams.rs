//! Many readers of one run, and readers that do not read.

use super::*;

#[test]
fn hundred_clients_watch_one_run() {
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
    let run = served.run(&json!({"task": "hi"}));
    let path = format!("/api/v1/runs/{run}/events");
    let mut watchers: Vec<_> = (0..100).map(|_| served.watch(&path, "")).collect();
    for watcher in &mut watchers {
        watcher.until(|event| is_run_event(event, "model_started"));
    }
    let metrics = served.get("/metrics").body;
    assert!(metrics.contains("shelly_event_streams 100\n"), "{metrics}");
    gate.open();
    let mut rests = watchers.into_iter().map(EventReader::rest);
    let first = rests.next().unwrap();
    assert_eq!(first.last().unwrap().name, "end");
    assert!(rests.all(|rest| rest == first), "all read the same");
    // Readers that are gone leave their places.
    served.wait_for("/healthz", |_| served.get("/metrics").body.contains("shelly_event_streams 0\n"));
}

#[test]
fn reader_that_never_reads_delays_nobody() {
    let place = Place::new();
    let piece = "word ".repeat(200);
    let model = ModelServer::start(move |_| {
        let delta = |text: &str| json!({"choices": [{"delta": {"content": text}}]});
        let mut events: Vec<_> = (0..600).map(|_| delta(&piece)).collect();
        events.push(json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}));
        let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        answer("200 OK\r\ncontent-type: text/event-stream", &events)
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let run = served.run(&json!({"task": "hi"}));
    let path = format!("/api/v1/runs/{run}/events");
    let deaf: Vec<_> = (0..5)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(format!("GET {path} HTTP/1.1\r\n{}\r\n", served.known()).as_bytes()).unwrap();
            stream
        })
        .collect();
    let events = served.watch(&path, "").rest();
    assert_eq!(events.last().unwrap().data["state"], "completed", "{:?}", events.last());
    assert!(!events.iter().any(|event| ["gap", "behind"].contains(&&*event.name)));
    let deltas = events.iter().filter(|event| is_run_event(event, "model_delta"));
    let text: String = deltas.map(|event| event.data["delta"]["value"].as_str().unwrap_or_default()).collect();
    let ended = served.ended(&run);
    assert_eq!(ended["result"]["text"].as_str().unwrap().trim_end().len(), 600 * 1_000 - 1, "{}", text.len());
    drop(deaf);
    let (code, said) = served.terminate();
    assert_eq!(code, 143, "{said}");
}

#[test]
fn many_runs_and_watchers_get_every_event_once() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let model = ModelServer::start({
        let gate = gate.clone();
        move |asked| match asked.split_once("What is twice ") {
            Some((_, number)) => {
                let number: u32 = number.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap();
                gate.wait();
                says(&format!("It is {}.", number * 2))
            }
            None => {
                gate.wait();
                let pieces: Vec<_> = (0..300).map(|n| json!({"content": format!("w{n} ")})).collect();
                streams(&pieces, "stop")
            }
        }
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &["--max-runs", "21"]);
    let run = served.run(&json!({"task": "Count."}));
    let path = format!("/api/v1/runs/{run}/events");
    let mut watchers: Vec<_> = (0..60).map(|_| served.watch(&path, "")).collect();
    let before: Vec<_> =
        watchers.iter_mut().map(|watcher| watcher.until(|event| is_run_event(event, "model_started"))).collect();
    let asked: Vec<_> = thread::scope(|scope| {
        let start = |n: usize| served.run(&json!({"task": format!("What is twice {n}?")}));
        let started: Vec<_> = (0..20).map(|n| scope.spawn(move || start(n))).collect();
        started.into_iter().map(|started| started.join().unwrap()).collect()
    });
    let refused = served.post("/api/v1/runs", &json!({"task": "hi"}));
    assert_eq!(refused.status, 429, "all of them are at work: {refused:?}");
    gate.open();
    let rests: Vec<_> = watchers.into_iter().map(EventReader::rest).collect();
    let last = served.ended(&run)["last_event"].as_u64().unwrap();
    for (before, rest) in before.into_iter().zip(&rests) {
        assert_eq!(*rest, rests[0], "all read the same");
        let events = [before, rest.clone()].concat();
        let of_run = events.iter().filter(|event| event.name == "run");
        let sequences: Vec<_> = of_run.map(|event| event.data["sequence"].as_u64().unwrap()).collect();
        assert_eq!(sequences, (1..=last).collect::<Vec<_>>(), "in order, each once");
        assert_eq!(events.last().unwrap().name, "end");
        assert_eq!(events.len(), sequences.len() + 1, "nothing else");
    }
    let deltas = rests[0].iter().filter(|event| is_run_event(event, "model_delta"));
    let text: String = deltas.filter_map(|event| event.data["delta"]["value"].as_str()).collect();
    assert_eq!(text, (0..300).map(|n| format!("w{n} ")).collect::<String>());
    for (n, run) in asked.iter().enumerate() {
        let ended = served.ended(run);
        assert_eq!(ended["result"]["text"], format!("It is {}.", n * 2), "{ended}");
    }
    let ended = r#"shelly_runs_ended_total{state="completed"} 21"#;
    served.wait_for("/healthz", |_| served.get("/metrics").body.lines().any(|line| line == ended));
}

#[test]
fn run_goes_on_where_its_events_cannot_be_kept() {
    let place = Place::new();
    // More events than are kept in memory.
    let model = ModelServer::start(|_| streams(&vec![json!({"content": "word "}); 18_000], "stop"));
    place.file("shelly.yaml", model.config(""));
    let mut command = place.command(&["serve", "--listen", ":0", "--config", "shelly.yaml"]);
    command.env("TMPDIR", place.path().join("none"));
    let served = HttpServed::of(command);
    let run = served.run(&json!({"task": "hi"}));
    let ended = served.ended(&run);
    assert_eq!(ended["state"], "completed", "{ended}");
    assert!(ended["warnings"][0].as_str().unwrap().contains("old events of this run are not kept"), "{ended}");
    let events = served.watch(&format!("/api/v1/runs/{run}/events"), "").rest();
    assert_eq!((&*events[0].name, &events[0].data["from"]), ("gap", &json!(1)), "{:?}", events[0]);
    let to = events[0].data["to"].as_u64().unwrap();
    assert_eq!(events[1].data["sequence"], to + 1, "none is missing after the gap");
    assert!(!served.get("/metrics").body.contains("shelly_events_dropped_total 0\n"));
}

#[test]
fn late_reader_gets_events_that_have_left_memory() {
    // More than are kept in memory.
    const PIECES: usize = 18_000;
    let place = Place::new();
    let model = ModelServer::start(|_| {
        let pieces = vec![json!({"content": "word "}); PIECES];
        streams(&pieces, "stop")
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let run = served.run(&json!({"task": "hi"}));
    let ended = served.ended(&run);
    let last = ended["last_event"].as_u64().unwrap();
    assert!(ended["state"] == "completed" && last > PIECES as u64, "{last} {}", ended["state"]);
    let path = format!("/api/v1/runs/{run}/events");
    let whole = served.watch(&path, "").rest();
    let mut sequences: Vec<_> = whole.iter().filter_map(|event| event.data["sequence"].as_u64()).collect();
    sequences.dedup();
    assert_eq!(sequences, (1..=last).collect::<Vec<_>>(), "none is missing");
    let others: Vec<_> = whole.iter().filter(|event| event.name != "run").map(|event| &*event.name).collect();
    assert_eq!(others, ["end"]);
    for after in [7, last - 7] {
        let late = served.watch(&format!("{path}?after={after}"), "").rest();
        assert_eq!(late[0].data["sequence"], after + 1);
        assert!(whole.ends_with(&late), "after {after}");
    }
    let metrics = served.get("/metrics").body;
    assert!(metrics.contains("shelly_events_dropped_total 0\n"), "{metrics}");
}
