//! HTTP requests that nobody waits for any more: they are closed, and that is reported.

use std::{path::Path, sync::Arc, time::Duration};

use serde_json::{Value, json, value::RawValue};
use shelly_host::{
    agent::Agent,
    chat::{Chat, Message},
    event::{Event, EventSink, RunCx},
    model::ModelInfo,
    plugin::{Limits, PluginModel, PluginSettings},
};

use super::{Answer, DOORS, Guest, Server, Told, all, http, load};

/// Cancels a call as soon as the server has begun to hear it; what was told of its requests.
async fn cancelled(guest: &Arc<Guest>, server: &mut Server, arguments: Value) -> Vec<Told> {
    let (events, stream) = EventSink::channel();
    let (run, calling) = (RunCx::new("ada").with_events(events), guest.clone());
    let mut call = tokio::spawn(async move { calling.call_in(run, "fetch", &arguments).await });
    tokio::select! {
        () = server.begun() => {}
        said = &mut call => panic!("{}: it ended: {said:?}", guest.door),
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled(), "{}", guest.door);
    all(stream).await.iter().filter_map(Told::of).collect()
}

#[tokio::test]
async fn cancelled_call_closes_its_http_requests() {
    let mut server = Server::start(|heard| match heard.path() {
        "/head" => Answer::Stays(vec![]),
        _ => Answer::Stays(b"HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\nsaid".into()),
    })
    .await;
    let mut deaf = Server::deaf().await;
    for door in DOORS {
        let guest = Arc::new(Guest::granted(door, &[&server.url, &deaf.url]).await);
        for path in ["head", "body"] {
            let asked = json!({ "url": format!("{}/{path}?q", server.url) });
            let told = cancelled(&guest, &mut server, asked).await;
            server.closed().await;
            // Before the head, that is; else it may have been answered.
            let [told] = &told[..] else { panic!("{door}, {path}: {told:?}") };
            assert!(told.url.ends_with(path) && told.method == "GET", "{door}: {told:?}");
            assert!(path != "head" || told.outcome == "failed" && told.status.is_none(), "{door}: {told:?}");
        }
        // More than fits into what is between them.
        let upload = json!({ "url": deaf.url, "method": "POST", "pieces": ["x".repeat(16 << 10), 900] });
        let told = cancelled(&guest, &mut deaf, upload).await;
        assert!(matches!(&told[..], [told] if told.outcome == "failed" && told.method == "POST"), "{door}: {told:?}");
        deaf.listen();
        deaf.closed().await;
        let heard = deaf.last();
        assert!(!heard.is_whole && heard.body.len() < 15 << 20, "{door}: {}", heard.body.len());
    }
}

/// A guest that goes away by itself, with a body half read or half sent.
#[tokio::test]
async fn http_request_dropped_by_the_guest_is_closed_and_reported() {
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\nsaid";
    let mut server = Server::start(|_| Answer::Stays(head.into())).await;
    for door in DOORS {
        let guest = Guest::granted(door, &[&server.url]).await;
        let fetched = guest.fetch(json!({ "url": server.url, "reads": 1 })).await;
        assert_eq!((fetched.body.as_str(), fetched.told().outcome), ("said", "answered"), "{door}: {fetched:?}");
        server.closed().await;
        let asked = json!({ "url": server.url, "method": "POST", "pieces": ["x".repeat(3_000), 2], "cut": true });
        let fetched = guest.fetch(asked).await;
        let told = fetched.told();
        assert_eq!((told.outcome, told.status, &*told.method), ("failed", None, "POST"), "{door}: {told:?}");
        assert!(told.reason.contains("abandoned the request"), "{door}: {told:?}");
        // It may not even have been connected.
        if server.connections() > server.heard().len() {
            server.closed().await;
        }
        assert!(server.heard().iter().all(|heard| heard.line().starts_with("GET") || !heard.is_whole), "{door}");
    }
}

/// A call whose time is over takes its requests along.
#[tokio::test]
async fn timed_out_call_closes_its_http_requests() {
    const SHORT: Duration = Duration::from_millis(400);
    let mut server = Server::start(|_| Answer::Stays(vec![])).await;
    for door in DOORS {
        let limits = Limits { tool_time: SHORT, ..Limits::default() };
        let guest = Guest::with(door, "ada", |settings| {
            (settings.grant.http, settings.limits) = (http(&[&server.url]), limits);
        })
        .await;
        let (said, events) = guest.call("fetch", &json!({ "url": server.url })).await;
        assert!(said.contains("timed out after"), "{door}: {said}");
        let told: Vec<_> = events.iter().filter_map(Told::of).collect();
        assert!(matches!(&told[..], [told] if told.outcome == "failed"), "{door}: {told:?}");
        server.closed().await;
    }
}

/// A run that is cancelled while a model of a plugin speaks.
#[tokio::test]
async fn cancelled_provider_plugin_closes_its_stream() {
    let line = json!({ "model": "m", "message": { "role": "assistant", "content": "Well" }, "done": false });
    let said = format!("HTTP/1.1 200 OK\r\ncontent-length: 900000\r\n\r\n{line}\n");
    let mut server = Server::start(move |_| Answer::Stays(said.clone().into())).await;
    let mut settings = PluginSettings::new("", "providers.m");
    settings.grant.http = http(&[&server.url]);
    settings.params = RawValue::from_string(json!({ "base_url": server.url }).to_string()).unwrap();
    let plugin = load(&Path::new(crate::PLUGIN_ROOT).join("ollama"), &settings).await.unwrap();
    let info = ModelInfo::named("m");
    let agent = Agent::new("ada", "", Arc::new(PluginModel::new(&plugin, info, None, None).unwrap()));
    let (events, mut stream) = EventSink::channel();
    let run = tokio::spawn(async move {
        let cx = RunCx::new("ada").with_events(events);
        agent.run(&cx, &Chat::new(), vec![Message::user("go")]).await.map(|_| ())
    });
    let mut told = Vec::new();
    loop {
        let event = stream.next_event().await.expect("it speaks");
        told.extend(Told::of(&event));
        if matches!(event, Event::ModelDelta { .. }) {
            break;
        }
    }
    run.abort();
    assert!(run.await.unwrap_err().is_cancelled());
    server.closed().await;
    told.extend(all(stream).await.iter().filter_map(Told::of));
    assert!(matches!(&told[..], [told] if told.outcome == "answered" && told.url.ends_with("/api/chat")), "{told:?}");
}
