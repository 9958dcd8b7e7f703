//! Requests with which a client attacks: two in one, in other protocols, and with numbers that are none.

use super::*;

fn served(place: &Place) -> HttpServed {
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    HttpServed::start(place, &[])
}

#[test]
fn request_of_two_lengths_hides_no_other_one() {
    let place = Place::new();
    let served = served(&place);
    let hidden = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let head = format!("POST /api/v1/runs HTTP/1.1\r\n{}content-type: application/json\r\n", served.known());
    for (headers, body) in [
        ("content-length: 5\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n"),
        ("transfer-encoding: chunked\r\ncontent-length: 60\r\n", "0\r\n\r\n"),
        ("transfer-encoding: chunked, identity\r\n", "0\r\n\r\n"),
        ("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n", "0\r\n\r\n"),
        ("transfer-encoding : chunked\r\n", "0\r\n\r\n"),
        ("transfer-encoding: xchunked\r\n", "0\r\n\r\n"),
        ("content-length: 5\r\ncontent-length: 6\r\n", "{}   "),
        ("content-length: 5, 5\r\n", "{}   "),
        ("content-length: +5\r\n", "{}   "),
        ("x: a\rcontent-length: 0\r\ncontent-length: 5\r\n", "{}   "),
        ("x: a\r\n content-length: 0\r\ncontent-length: 5\r\n", "{}   "),
        ("transfer-encoding: chunked\r\n", "2\n{}\n0\n\n"),
        ("transfer-encoding: chunked\r\n", "ffffffffffffffffff\r\n{}"),
    ] {
        let answered = served.say(&format!("{head}{headers}\r\n{body}{hidden}"));
        assert_eq!(answered.status, 400, "{headers}{answered:?}");
        assert!(!answered.body.contains("HTTP/1.1"), "the hidden request is answered: {headers}{answered:?}");
    }
    // A connection whose request was refused for its token takes nothing that is in the place of the body.
    let unknown = format!("POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", hidden.len());
    let answered = served.say(&format!("{unknown}{hidden}GET /healthz HTTP/1.0\r\nhost: localhost\r\n\r\n"));
    let heads = answered.body.matches("HTTP/1.").count();
    assert!(answered.status == 401 && heads <= 1, "{answered:?}");
    assert_eq!(served.get("/api/v1/runs").json()["runs"], json!([]), "nothing was started");
}

#[test]
fn endless_parts_of_a_request_are_refused() {
    let place = Place::new();
    let served = served(&place);
    let head = format!("POST /api/v1/runs HTTP/1.1\r\n{}content-type: application/json\r\n", served.known());
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n");
    let many = (0..200).map(|n| format!("x{n}: y\r\n")).collect::<String>();
    for (request, status) in [
        (format!("{chunked}1;{}", "x".repeat(40 << 10)), 400),
        (format!("{chunked}2\r\n{{}}\r\n0\r\n{}\r\n", "a: b\r\n".repeat(4_000)), 400),
        (format!("{head}{many}\r\n"), 431),
    ] {
        let answered = served.say(&request);
        assert_eq!(answered.status, status, "{answered:?}");
    }
    // HTTP/2 is not spoken, so there are no streams to reset and no frames to continue.
    let answered = served.say("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    assert!(!answered.head.contains("200"), "{answered:?}");
    for path in ["/api/v1/runs", "/v1/chat/completions", "/v1/responses", "/ag-ui/helper"] {
        let json = format!("{}content-type: application/json\r\n", served.known());
        let answered = served.send("POST", path, &json, &"{\"a\":".repeat(40_000));
        assert_eq!(answered.status, 400, "{path}: {answered:?}");
    }
    assert_eq!(served.get("/healthz").status, 200, "the server is well");
}

#[test]
fn numbers_of_events_that_are_none_are_refused() {
    let place = Place::new();
    let served = served(&place);
    let run = served.run(&json!({"task": "hi"}));
    served.ended(&run);
    let path = format!("/api/v1/runs/{run}/events");
    for wrong in ["-1", "1e3", "0x1", "1,2", "x", "1\r\nlast-event-id: 2", "99999999999999999999"] {
        let headers = format!("{}last-event-id: {wrong}\r\n", served.known());
        let refused = served.send("GET", &path, &headers, "");
        assert_eq!((refused.status, &refused.json()["code"]), (400, &json!("bad_request")), "{wrong}: {refused:?}");
    }
    for wrong in ["", "-1", "x", "1%00", "99999999999999999999"] {
        assert_eq!(served.get(&format!("{path}?after={wrong}")).status, 400, "{wrong}");
    }
    // A number that no event has yet is that of a client that has read all.
    let events = served.watch(&format!("{path}?after={}", u64::MAX), "").rest();
    assert_eq!(events.iter().map(|event| &*event.name).collect::<Vec<_>>(), ["end"]);
}
