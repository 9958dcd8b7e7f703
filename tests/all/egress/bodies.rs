//! HTTP bodies: limits of size, number and time, and backpressure.

use serde_json::json;
use shelly_host::plugin::Limits;

use super::{Answer, DOORS, Guest, OWN, Server, WASI, http};

/// Returns `true` if the guest's library, or the call, reports a body that is too large.
fn is_too_large(fetched: &super::Fetched) -> bool {
    fetched.is("TooLarge", "HttpResponseBodySize") || fetched.is("", "Read") || fetched.is("", "Write")
}

async fn bounded(door: &'static str, server: &Server, limits: Limits) -> Guest {
    Guest::with(door, "ada", |settings| {
        (settings.grant.http, settings.limits) = (http(&[&server.url]), limits);
    })
    .await
}

#[tokio::test]
async fn http_request_bodies_are_bounded() {
    let server = Server::echo().await;
    for door in DOORS {
        let limits = Limits { http_request_bytes: 10_000, ..Limits::default() };
        let guest = bounded(door, &server, limits).await;
        for (body, fits) in [
            (json!({ "body": "x".repeat(10_000) }), true),
            (json!({ "body": "x".repeat(10_001) }), false),
            (json!({ "pieces": ["x".repeat(1_000), 10] }), true),
            (json!({ "pieces": ["x".repeat(1_000), 11] }), false),
            (json!({ "pieces": ["x".repeat(10_001), 1] }), false),
            // As long as it says, and too long.
            (json!({ "body": "x".repeat(10_001), "headers": [["content-length", "10001"]] }), false),
        ] {
            if door == OWN && body["headers"].is_array() {
                continue;
            }
            let mut asked = json!({ "url": server.url, "method": "POST" });
            asked.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            let before = server.heard().len();
            let fetched = guest.fetch(asked).await;
            if fits {
                assert_eq!((fetched.status, server.last().body.len()), (Some(200), 10_000), "{door}: {fetched:?}");
            } else {
                assert!(is_too_large(&fetched), "{door}: {fetched:?}");
                assert!(server.heard()[before..].iter().all(|heard| !heard.is_whole), "{door}: it was sent");
            }
        }
    }
}

#[tokio::test]
async fn http_response_bodies_are_bounded() {
    // 100,000 bytes that are nothing when they are packed.
    const PACKED: &[u8] = include_bytes!("zeros.gz");
    let server = Server::start(|heard| match heard.path() {
        "/endless" => Answer::Endless,
        "/packed" => Answer::of("200 OK\r\ncontent-encoding: gzip", PACKED),
        _ => Answer::of("200 OK", "x".repeat(50_000)),
    })
    .await;
    for door in DOORS {
        let limits = Limits { http_response_bytes: 50_000, ..Limits::default() };
        let guest = bounded(door, &server, limits).await;
        let fetched = guest.get(&server.url).await;
        assert_eq!((fetched.status, fetched.bytes, &fetched.error), (Some(200), 50_000, &None), "{door}");
        for path in ["endless", "packed"] {
            let fetched = guest.get(&format!("{}/{path}", server.url)).await;
            assert!(is_too_large(&fetched) && fetched.bytes <= 50_000, "{door}, {path}: {fetched:?}");
        }
        let guest = Guest::granted(door, &[&server.url]).await;
        let fetched = guest.get(&format!("{}/packed", server.url)).await;
        assert_eq!((fetched.bytes, fetched.header("content-encoding")), (100_000, None), "{door}: {:?}", fetched.error);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_http_body_applies_backpressure_to_the_server() {
    const ON_THE_WAY: u64 = 20 << 20;
    for door in DOORS {
        let server = Server::start(|_| Answer::Endless).await;
        let limits = Limits { http_response_bytes: 2 * ON_THE_WAY, ..Limits::default() };
        let guest = bounded(door, &server, limits).await;
        let fetched = guest.fetch(json!({ "url": server.url, "reads": 2, "turns": 300_000_000 })).await;
        assert!(fetched.error.is_none() && (2..=128 << 10).contains(&fetched.bytes), "{door}: {fetched:?}");
        assert!((1..ON_THE_WAY).contains(&server.sent()), "{door}: {}", server.sent());
        // It would send more, if somebody read it.
        let server = Server::start(|_| Answer::Endless).await;
        let guest = bounded(door, &server, limits).await;
        assert!(is_too_large(&guest.get(&server.url).await), "{door}");
        assert!(server.sent() > ON_THE_WAY, "{door}: {}", server.sent());
    }
}

#[tokio::test]
async fn silent_server_hits_the_timeout_of_the_guest() {
    let mut server = Server::start(|heard| match heard.path() {
        "/silent" => Answer::Stays(vec![]),
        "/begun" => Answer::Stays(b"HTTP/1.1 200".into()),
        _ => Answer::Stays(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nsaid".into()),
    })
    .await;
    for door in DOORS {
        let guest = Guest::granted(door, &[&server.url]).await;
        for path in ["silent", "begun", "said"] {
            let fetched = guest.fetch(json!({ "url": format!("{}/{path}", server.url), "timeout_ms": 100 })).await;
            let is_late = fetched.is("Timeout", "HttpResponseTimeout") || fetched.is("", "Read");
            assert!(is_late, "{door}, {path}: {fetched:?}");
            let expected = if path == "said" { ("answered", Some(200), 4) } else { ("failed", None, 0) };
            let told = fetched.told();
            assert_eq!((told.outcome, told.status, fetched.bytes), expected, "{door}, {path}: {told:?}");
            assert!(told.url.ends_with(path) && told.method == "GET", "{door}, {path}: {told:?}");
            server.closed().await;
        }
    }
}

#[tokio::test]
async fn concurrent_http_responses_are_bounded() {
    let mut server = Server::start(|_| Answer::Endless).await;
    let hold = |times: u32| json!({ "url": server.url, "times": times });
    let limits = Limits { http_concurrency: 3, ..Limits::default() };
    let (ada, bob) = tokio::join!(bounded(OWN, &server, limits), bounded(OWN, &server, limits));
    let holds_few = format!(
        "3 held, 2 refused: {}",
        "too many requests at once (limit `http_concurrency`); read or drop an open body"
    );
    for guest in [&ada, &bob, &ada] {
        // What one call held, the next one has again.
        let (said, events) = guest.call("hold", &hold(5)).await;
        assert_eq!(said, holds_few);
        let refused = events.iter().filter_map(super::Told::of).filter(|told| told.outcome == "refused");
        assert_eq!(refused.count(), 2);
    }
    assert_eq!(ada.call("hold", &hold(3)).await.0, "3 held, 0 refused: ");
    for _ in 0..12 {
        server.closed().await;
    }
}

#[tokio::test]
async fn http_requests_per_minute_are_bounded() {
    let server = Server::echo().await;
    let limits = Limits { http_requests_per_minute: 3, ..Limits::default() };
    for door in DOORS {
        let (ada, bob) = tokio::join!(bounded(door, &server, limits), bounded(door, &server, limits));
        for guest in [&ada, &bob] {
            let before = server.heard().len();
            for n in 0..5 {
                let fetched = guest.get(&server.url).await;
                let is_refused = fetched.is("RateLimited", "ConnectionLimitReached");
                assert_eq!((fetched.error.is_some(), is_refused), (n >= 3, n >= 3), "{door}: {fetched:?}");
                assert_eq!(fetched.told().outcome, if n < 3 { "answered" } else { "refused" }, "{door}");
            }
            assert_eq!(server.heard().len(), before + 3, "{door}");
        }
        // What is refused counts, too: nobody asks around for what may be granted.
        let guest = bounded(door, &server, limits).await;
        for n in 0..4 {
            let fetched = guest.get("http://127.0.0.1:1/").await;
            assert_eq!(fetched.is_denied(), n < 3, "{door}: {fetched:?}");
        }
    }
}

/// A length that is told is the one that is sent.
#[tokio::test]
async fn http_body_of_known_length_is_sent_with_content_length() {
    let server = Server::echo().await;
    let guest = Guest::granted(WASI, &[&server.url]).await;
    let headers = [["content-length", "4"]];
    let fetched = guest.fetch(json!({ "url": server.url, "method": "PUT", "body": "said", "headers": headers })).await;
    assert_eq!(fetched.status, Some(200), "{fetched:?}");
    let heard = server.last();
    assert_eq!((heard.all("content-length"), heard.all("transfer-encoding").len()), (vec!["4"], 0), "{heard:?}");
    assert_eq!(heard.body, b"said");
}
