//! Heads of requests and responses: which headers a request may have, and which headers of a response are shown.

use serde_json::json;

use super::{Answer, DOORS, Guest, OWN, Server, WASI};

#[tokio::test]
async fn invalid_http_headers_cannot_smuggle_a_request() {
    let server = Server::echo().await;
    for door in DOORS {
        let guest = Guest::granted(door, &[&server.url]).await;
        for (name, value) in [
            ("x\r\ny", "z"),
            ("x\ny", "z"),
            ("x\0", "z"),
            ("x y", "z"),
            ("x:", "z"),
            (":path", "/z"),
            (":authority", "z"),
            ("", "z"),
            ("ä", "z"),
            ("x", "y\r\nz: a"),
            ("x", "y\nz: a"),
            ("x", "y\rz"),
            ("x", "y\0z"),
            ("x", "\r\n\r\nGET /other HTTP/1.1\r\nhost: x"),
            ("host", "elsewhere"),
            ("Host", "elsewhere"),
            ("transfer-encoding", "chunked"),
            ("Transfer-Encoding", "identity"),
            ("transfer_encoding", "chunked"),
            ("connection", "close"),
            ("connection", "x-kept"),
            ("keep-alive", "timeout=9"),
            ("proxy-authorization", "Basic eDp5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authenticate", "Basic"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("upgrade", "websocket"),
            ("http2-settings", "AAA"),
            ("expect", "100-continue"),
            ("content_length", "5"),
            ("x-http-method-override", "DELETE"),
            ("x-method-override", "DELETE"),
            ("x-original-url", "/other"),
            ("x-rewrite-url", "/other"),
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-host", "elsewhere"),
            ("x_forwarded_for", "127.0.0.1"),
            ("forwarded", "for=127.0.0.1"),
            ("x-real-ip", "127.0.0.1"),
            ("via", "1.1 x"),
        ] {
            let fetched = guest.fetch(json!({ "url": server.url, "headers": [["x-kept", "x"], [name, value]] })).await;
            assert!(fetched.error.is_some(), "{door}, {name:?}: {value:?}: {fetched:?}");
            assert!(door == WASI || fetched.told().outcome == "refused", "{name:?}: {value:?}: {fetched:?}");
        }
        assert_eq!(server.connections(), 0, "{door}");
    }
    // How long a body is, and how it may come, only the host says.
    for (name, value) in [("content-length", "5"), ("Content-Length", "0"), ("accept-encoding", "x")] {
        let guest = Guest::granted(OWN, &[&server.url]).await;
        let fetched = guest.fetch(json!({ "url": server.url, "headers": [[name, value]] })).await;
        assert!(fetched.is("Invalid", "") && server.connections() == 0, "{fetched:?}");
    }
}

/// Through `wasi:http` a guest says how long its body is: what it says is what it sends, or nothing is.
#[tokio::test]
async fn wrong_content_length_cannot_smuggle_a_request() {
    const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nhost: x\r\n\r\n";
    let server = Server::echo().await;
    let guest = Guest::granted(WASI, &[&server.url]).await;
    for lengths in
        [&["33"][..], &["5"], &["0"], &["100"], &["33", "5"], &["5", "33"], &["0", "33"], &["+33"], &["33, 33"]]
    {
        assert_eq!(HIDDEN.len(), 33);
        for body in [json!({ "body": HIDDEN }), json!({ "pieces": [HIDDEN, 1] })] {
            let before = server.heard().len();
            let headers: Vec<_> = lengths.iter().map(|length| ["content-length", length]).collect();
            let mut asked = json!({ "url": server.url, "method": "POST", "headers": headers });
            asked.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            let fetched = guest.fetch(asked).await;
            for heard in &server.heard()[before..] {
                assert!(heard.line().starts_with("POST / "), "{lengths:?}: {heard:?}");
                let said = (heard.all("content-length").len(), heard.all("transfer-encoding").len());
                assert!(matches!(said, (1, 0) | (0, 1)), "{lengths:?}: {heard:?}");
                assert!(
                    !heard.is_whole || fetched.status.is_none() || [0, 33].contains(&heard.body.len()),
                    "{heard:?}"
                );
            }
            assert!(server.heard().len() <= before + 1, "{lengths:?}: {:?}", server.heard());
        }
    }
}

/// Servers that expect no body take it for the next request.
#[tokio::test]
async fn body_of_a_get_request_is_refused() {
    let server = Server::echo().await;
    for door in DOORS {
        let guest = Guest::granted(door, &[&server.url]).await;
        for method in ["GET", "HEAD"] {
            for body in [json!({ "body": "GET /hidden HTTP/1.1\r\n\r\n" }), json!({ "pieces": ["x", 3] })] {
                let mut asked = json!({ "url": server.url, "method": method });
                asked.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
                let fetched = guest.fetch(asked).await;
                assert!(fetched.error.is_some(), "{door}, {method}: {fetched:?}");
            }
        }
    }
    assert_eq!(server.heard().len(), 0, "{:?}", server.heard());
}

#[tokio::test]
async fn http_heads_are_bounded_in_both_directions() {
    let server = Server::start(|heard| match heard.path() {
        "/many" => Answer::of(&format!("200 OK{}", "\r\nx: y".repeat(300)), "x"),
        "/large" => Answer::of(&format!("200 OK\r\nx: {}", "y".repeat(300 << 10)), "x"),
        _ => Answer::echo(heard),
    })
    .await;
    for door in DOORS {
        let guest = Guest::granted(door, &[&server.url]).await;
        let before = server.heard().len();
        let many: Vec<_> = (0..65).map(|n| [format!("x-{n}"), "y".into()]).collect();
        for headers in [json!(many), json!([["x", "y".repeat(65 << 10)]])] {
            let fetched = guest.fetch(json!({ "url": server.url, "headers": headers })).await;
            assert!(fetched.error.is_some(), "{door}: {fetched:?}");
        }
        assert_eq!(server.heard().len(), before, "{door}");
        let fetched = guest.fetch(json!({ "url": server.url, "headers": many[..60] })).await;
        assert_eq!(fetched.status, Some(200), "{door}: {fetched:?}");
        for path in ["many", "large"] {
            let fetched = guest.get(&format!("{}/{path}", server.url)).await;
            assert!(fetched.is("TooLarge", "HttpResponseBodySize"), "{door}, {path}: {fetched:?}");
            assert_eq!(fetched.told().outcome, "failed", "{door}, {path}");
        }
    }
}

/// Headers of the connection are hidden; values that are not text are shown with replacement characters.
#[tokio::test]
async fn hop_by_hop_response_headers_are_hidden() {
    let server = Server::start(|_| {
        let head = b"HTTP/1.1 207 Many\r\nconnection: x-hop\r\nx-hop: hidden\r\nkeep-alive: timeout=1\r\nproxy-authenticate: x\r\n\
            upgrade: h2c\r\nx-Own: one\r\nx-own: two\r\nx-latin: \xe4\r\ncontent-length: 4\r\n\r\nsaid";
        Answer::Says(head.into())
    })
    .await;
    for door in DOORS {
        let guest = Guest::granted(door, &[&server.url]).await;
        let fetched = guest.get(&server.url).await;
        assert_eq!((fetched.status, &*fetched.body), (Some(207), "said"), "{door}: {fetched:?}");
        let names: Vec<_> = fetched.headers.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["x-own", "x-own", "x-latin", "content-length"], "{door}");
        assert_eq!(fetched.header("x-latin"), Some("\u{fffd}"), "{door}");
    }
}

/// A server that answers with what is no HTTP, or with a protocol of its own, fails the request and nothing else.
#[tokio::test]
async fn malformed_http_response_is_an_error() {
    let server = Server::start(|heard| {
        Answer::Ends(match heard.path() {
            "/nothing" => "\r\n\r\n\r\n".into(),
            "/noise" => vec![0xff; 1_000],
            "/other" => "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".into(),
            "/lengths" => "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx".into(),
            "/chunks" => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nx".into(),
            "/encoding" => "HTTP/1.1 200 OK\r\ncontent-encoding: x-own\r\ncontent-length: 1\r\n\r\nx".into(),
            _ => "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnone".into(),
        })
    })
    .await;
    for door in DOORS {
        let guest = Guest::granted(door, &[&server.url]).await;
        for path in ["nothing", "noise", "other", "lengths", "chunks", "encoding", "gzip"] {
            let fetched = guest.get(&format!("{}/{path}", server.url)).await;
            assert!(fetched.error.is_some(), "{door}, {path}: {fetched:?}");
            assert!(fetched.told().outcome != "refused", "{door}, {path}: {fetched:?}");
        }
    }
}
