use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const KEY: &str = "sk-very-secret";
/// Long enough for loopback, short enough for a test.
const SOON: Duration = Duration::from_millis(50);

fn bytes(head: &str, body: &[u8]) -> CannedResponse {
    CannedResponse { bytes: [head.as_bytes(), b"\r\nconnection: close\r\n\r\n", body].concat(), stays: false }
}

fn bounded(url: &str, response_bytes: u64) -> Egress {
    Egress::new(granted(&[url]), Vec::new(), EgressLimits { response_bytes, ..EgressLimits::default() })
}

/// Encodes bytes as gzip without compression.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let mut zipped = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1];
    zipped.extend(length.to_le_bytes());
    zipped.extend((!length).to_le_bytes());
    zipped.extend(bytes);
    zipped.extend(crc32fast::hash(bytes).to_le_bytes());
    zipped.extend(u32::from(length).to_le_bytes());
    zipped
}

/// Encodes many zeros as gzip: 13 bits for each 258 of them, without an end.
fn bomb(runs: usize) -> Vec<u8> {
    let mut zipped = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let (mut bits, mut count) = (0_u32, 0);
    let mut put = |value: u32, width: u32| {
        bits |= value << count;
        count += width;
        while count >= 8 {
            zipped.push(bits as u8);
            (bits, count) = (bits >> 8, count - 8);
        }
    };
    // The last block, with fixed codes; a zero; then "the last byte again, 258 times". The bits of codes are reversed.
    put(0b011, 3);
    put(0b0000_1100, 8);
    for _ in 0..runs {
        put(0b1010_0011, 8);
        put(0, 5);
    }
    zipped
}

#[tokio::test]
async fn encoded_body_is_decoded_and_redacted() {
    let body = gzip(format!(r#"{{"key":"{KEY}"}}"#).as_bytes());
    let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\nx-a: 1", body.len());
    let server = TestServer::start(vec![bytes(&head, &body)]).await;
    let credential = key("one", AuthHeader::bearer(Secret::new(KEY)), &[&server.url]);
    let egress = Egress::new(granted(&[&server.url]), vec![credential], EgressLimits::default());
    let response = egress.send(get(&server.url)).await.unwrap();
    let names: Vec<_> = response.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["x-a"]);
    assert_eq!(whole(response.body).await.unwrap(), r#"{"key":"***"}"#);
    let sent = server.requests()[0].to_lowercase();
    assert!(["gzip", "deflate", "br"].iter().all(|known| sent.contains(known)), "{sent}");
}

#[tokio::test]
async fn what_nobody_can_decode_is_refused() {
    for (encoding, body, is_known) in
        [("zstd", &b"x"[..], false), ("gzip, br", b"x", false), ("compress", b"x", false), ("identity", b"x", true)]
    {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}");
        let server = TestServer::start(vec![bytes(&head, body)]).await;
        match egress(&[&server.url]).send(get(&server.url)).await {
            Ok(response) => assert!(is_known && whole(response.body).await.unwrap() == "x", "{encoding}"),
            Err(failure) => {
                assert!(!is_known && failure.to_string().contains(encoding), "{encoding}: {failure}");
                assert_eq!(failure.facts.status, Some(200));
            }
        }
    }
    for body in [&b"no gzip at all"[..], b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x07bad"] {
        let server = TestServer::start(vec![bytes("HTTP/1.1 200 OK\r\ncontent-encoding: gzip", body)]).await;
        let fault = text(&egress(&[&server.url]), get(&server.url)).await.unwrap_err();
        assert!(matches!(fault, Fault::Other { .. }) && fault.to_string().contains("cannot be decoded"), "{fault:?}");
    }
}

#[tokio::test]
async fn bodiless_response_ignores_content_encoding() {
    for (method, status) in [("HEAD", "200 OK"), ("GET", "204 Nothing"), ("GET", "304 Same")] {
        let head = format!("HTTP/1.1 {status}\r\ncontent-encoding: gzip\r\netag: \"a\"");
        let server = TestServer::start(vec![bytes(&head, b"")]).await;
        let request = EgressRequest { method: method.into(), ..get(&server.url) };
        let response = egress(&[&server.url]).send(request).await.unwrap();
        assert_eq!(response.headers, [("etag".to_owned(), b"\"a\"".to_vec())], "{status}");
        assert_eq!(whole(response.body).await.unwrap(), "", "{status}");
    }
}

#[tokio::test]
async fn response_body_is_limited() {
    for (length, is_fine) in [(1_000, true), (1_001, false)] {
        let server = TestServer::start(vec![answer("200 OK", "", &"x".repeat(length))]).await;
        let read = text(&bounded(&server.url, 1_000), get(&server.url)).await;
        assert_eq!(read.is_ok(), is_fine, "{read:?}");
        assert!(is_fine || matches!(read, Err(Fault::TooLarge { .. })), "{read:?}");
    }
}

#[tokio::test]
async fn body_error_is_returned_again() {
    let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
    let mut body = bounded(&server.url, 3).send(get(&server.url)).await.unwrap().body;
    for _ in 0..3 {
        assert!(matches!(body.chunk().await, Err(Fault::TooLarge { .. })));
    }
}

#[tokio::test]
async fn gzip_bomb_is_stopped_at_limit() {
    const MOST: u64 = 1 << 20;
    // A gigabyte of zeros.
    let server = TestServer::start(vec![bytes("HTTP/1.1 200 OK\r\ncontent-encoding: gzip", &bomb(4_200_000))]).await;
    let mut body = bounded(&server.url, MOST).send(get(&server.url)).await.unwrap().body;
    let mut came = 0;
    let fault = loop {
        match body.chunk().await {
            Ok(chunk) => came += chunk.expect("it has no end").len() as u64,
            Err(fault) => break fault,
        }
    };
    assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
    assert!((MOST / 2..=MOST).contains(&came), "{came}");
}

/// Sends a body that never ends, and counts the bytes sent.
async fn endless() -> (String, Arc<AtomicUsize>, tokio::sync::oneshot::Receiver<()>) {
    let (sent, (stalled, stalls)) = (Arc::new(AtomicUsize::new(0)), tokio::sync::oneshot::channel());
    let count = sent.clone();
    let (url, _task) = serve(move |mut connection| async move {
        until(&mut connection, "\r\n\r\n").await;
        connection.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await.unwrap();
        let (block, mut stalled) = ([b'x'; 64 << 10], Some(stalled));
        loop {
            match tokio::time::timeout(SOON, connection.write(&block)).await {
                Ok(Ok(written)) => count.fetch_add(written, Ordering::SeqCst),
                Ok(Err(_)) => break,
                Err(_) => match stalled.take().map(|stalled| stalled.send(())) {
                    Some(Err(())) => break,
                    _ => 0,
                },
            };
        }
    })
    .await;
    (url, sent, stalls)
}

#[tokio::test]
async fn a_server_that_never_ends_is_read_to_the_bound() {
    let (url, _, _stalls) = endless().await;
    let read = text(&bounded(&url, 3 << 20), get(&url)).await;
    assert!(matches!(read, Err(Fault::TooLarge { .. })), "{read:?}");
}

#[tokio::test]
async fn a_reader_that_stops_stops_the_server() {
    // The kernel's buffers for both ends of a connection, and a margin.
    const MOST: usize = 24 << 20;
    let (url, sent, stalls) = endless().await;
    let mut body = egress(&[&url]).send(get(&url)).await.unwrap().body;
    assert!(body.chunk().await.unwrap().is_some());
    stalls.await.unwrap();
    let until_here = sent.load(Ordering::SeqCst);
    assert!((1..MOST).contains(&until_here), "{until_here} bytes went out with nobody to read them");
    // The body continues where it stopped.
    let mut came = 0;
    while came < until_here + (1 << 20) {
        came += body.chunk().await.unwrap().unwrap().len();
    }
    assert!(sent.load(Ordering::SeqCst) > until_here);
}

#[tokio::test]
async fn dropped_egress_response_closes_connection() {
    let (url, task) = serve(|mut connection| async move {
        until(&mut connection, "\r\n\r\n").await;
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfi").await.unwrap();
        assert_eq!(until(&mut connection, "never").await, "");
    })
    .await;
    let mut response = egress(&[&url]).send(get(&url)).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "fi");
    drop(response);
    tokio::time::timeout(limits::CONNECT_TIME, task).await.expect("the connection is still open").unwrap();
}

#[tokio::test]
async fn request_time_covers_response_body() {
    let silent = |bytes: &str| CannedResponse { bytes: bytes.into(), stays: true };
    let server = TestServer::start(vec![
        silent(""),
        silent("HTTP/1.1 200 OK\r\n"),
        silent("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfi"),
    ])
    .await;
    let egress = egress(&[&server.url]);
    let request = || EgressRequest { timeout: Some(SOON), ..get(&server.url) };
    for _ in 0..2 {
        let fault = egress.send(request()).await.unwrap_err().fault;
        assert!(matches!(&fault, Fault::Timeout { message } if message.contains("127.0.0.1")), "{fault:?}");
    }
    let mut body = egress.send(request()).await.unwrap().body;
    assert_eq!(body.chunk().await.unwrap().unwrap(), "fi");
    assert!(matches!(body.chunk().await, Err(Fault::Timeout { .. })));
}

#[tokio::test]
async fn idle_time_limits_silence_in_body() {
    let begun = || CannedResponse { bytes: "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfi".into(), stays: true };
    let server = TestServer::start(vec![begun(), begun()]).await;
    let egress = egress(&[&server.url]);
    let request = || EgressRequest { idle: Some(SOON), ..get(&server.url) };
    let mut body = egress.send(request()).await.unwrap().body;
    assert_eq!(body.chunk().await.unwrap().unwrap(), "fi");
    let fault = body.chunk().await.unwrap_err();
    assert!(matches!(&fault, Fault::Unavailable { message, .. } if message.contains("sent nothing for")), "{fault:?}");
    // If the request's time ends first, that is reported.
    let request = EgressRequest { idle: Some(2 * SOON), timeout: Some(SOON), ..request() };
    let mut body = egress.send(request).await.unwrap().body;
    while body.chunk().await.is_ok() {}
    assert!(matches!(body.chunk().await, Err(Fault::Timeout { .. })));
}

#[tokio::test]
async fn closed_loopback_port_is_reported() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{closed}");
    let failure = egress(&[&url]).send(get(&url)).await.unwrap_err();
    assert!(failure.facts.nobody_listens && matches!(failure.fault, Fault::Unavailable { .. }), "{failure:?}");
    // A server that closes the connection has been listening.
    let server = TestServer::start(vec![CannedResponse { bytes: String::new().into(), stays: false }]).await;
    let failure = egress(&[&server.url]).send(get(&server.url)).await.unwrap_err();
    assert!(!failure.facts.nobody_listens, "{failure:?}");
}

#[tokio::test]
async fn no_time_is_too_long() {
    let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
    let longest = Some(Duration::MAX);
    let request = EgressRequest { timeout: longest, idle: longest, ..get(&server.url) };
    assert_eq!(text(&egress(&[&server.url]), request).await.unwrap(), "fine");
}

#[tokio::test]
async fn a_cut_is_an_error_however_the_length_was_told() {
    for (head, is_cut) in [
        ("content-length: 5\r\n\r\nfi", true),
        ("transfer-encoding: chunked\r\n\r\n2\r\nfi\r\n", true),
        ("transfer-encoding: chunked\r\n\r\n2\r\nfi\r\nxyz\r\n", true),
        ("transfer-encoding: chunked\r\n\r\n2\r\nfi\r\n0\r\n\r\n", false),
        ("connection: close\r\n\r\nfi", false),
    ] {
        let bytes = format!("HTTP/1.1 200 OK\r\n{head}").into_bytes();
        let server = TestServer::start(vec![CannedResponse { bytes, stays: false }]).await;
        let mut body = egress(&[&server.url]).send(get(&server.url)).await.unwrap().body;
        assert_eq!(body.chunk().await.unwrap().unwrap(), "fi");
        let end = body.chunk().await;
        assert!(
            if is_cut { matches!(end, Err(Fault::Unavailable { .. })) } else { end == Ok(None) },
            "{head}: {end:?}"
        );
    }
}

#[tokio::test]
async fn response_head_is_limited() {
    let (most, most_bytes) = (limits::EGRESS_RESPONSE_HEADERS, limits::EGRESS_RESPONSE_HEADER_BYTES);
    // `connection` and `content-length` count as two of them.
    for (headers, is_fine) in [
        ("a: 1\r\n".repeat(most - 2), true),
        ("a: 1\r\n".repeat(most - 1), false),
        (format!("a: {}\r\n", "x".repeat(most_bytes - 99)), true),
        (format!("a: {}\r\n", "x".repeat(most_bytes)), false),
        (format!("a: {}\r\n", "x".repeat(4 * most_bytes)), false),
    ] {
        let server = TestServer::start(vec![answer("200 OK", &headers, "fine")]).await;
        let answered = egress(&[&server.url]).send(get(&server.url)).await;
        assert_eq!(answered.is_ok(), is_fine, "{answered:?}");
        if let Err(failure) = answered {
            assert!(matches!(failure.fault, Fault::TooLarge { .. }), "{failure:?}");
        }
    }
}

#[tokio::test]
async fn malformed_response_head_is_an_error() {
    for head in [
        "HTTP/0.9 200 OK\r\n\r\n",
        "<html>",
        "HTTP/1.1 200 OK\r\na: b\rc: d\r\n\r\n",
        "HTTP/1.1 200 OK\r\na: b\0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n a: b\r\n\r\n",
        "HTTP/1.1 200 OK\r\na : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nab",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/1.1 101 Other\r\nconnection: upgrade\r\nupgrade: own\r\n\r\n",
    ] {
        let server = TestServer::start(vec![CannedResponse { bytes: head.into(), stays: false }]).await;
        let answered = egress(&[&server.url]).send(get(&server.url)).await;
        assert!(answered.is_err(), "{head:?}: {answered:?}");
    }
    let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nx-a: 1\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let server = TestServer::start(vec![CannedResponse { bytes: bytes.into(), stays: false }]).await;
    let response = egress(&[&server.url]).send(get(&server.url)).await.unwrap();
    assert_eq!((response.status, response.headers.len()), (200, 1));
}

#[tokio::test]
async fn closed_port_is_unavailable() {
    let server = TestServer::start(vec![]).await;
    let url = server.url.clone();
    drop(server);
    tokio::task::yield_now().await;
    let fault = egress(&[&url]).send(get(&url)).await.unwrap_err().fault;
    assert!(
        matches!(&fault, Fault::Unavailable { message, .. } if message.starts_with("cannot connect to 127.0.0.1:")),
        "{fault:?}"
    );
}

#[tokio::test]
async fn interim_responses_without_end_are_cut() {
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let (url, task) = serve(move |mut connection| async move {
        until(&mut connection, "\r\n\r\n").await;
        let many = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(1_000);
        while connection.write_all(many.as_bytes()).await.is_ok() {
            count.fetch_add(many.len(), Ordering::SeqCst);
        }
    })
    .await;
    let fault = egress(&[&url]).send(get(&url)).await.unwrap_err().fault;
    assert!(matches!(&fault, Fault::Other { message } if message.contains("interim responses (1xx)")), "{fault:?}");
    tokio::time::timeout(limits::CONNECT_TIME, task).await.expect("the connection is still open").unwrap();
    // The kernel's buffers for both ends of a connection are added.
    let most = limits::EGRESS_IDLE_BYTES as usize + (24 << 20);
    assert!((1..most).contains(&sent.load(Ordering::SeqCst)), "{sent:?}");
}

#[tokio::test]
async fn body_in_smallest_pieces_comes_whole() {
    // The framing alone exceeds the limit for bytes without a response.
    let pieces = limits::EGRESS_IDLE_BYTES as usize / 5 + 1_000;
    let body = ["1\r\nx\r\n".repeat(pieces).as_bytes(), b"0\r\n\r\n"].concat();
    let server = TestServer::start(vec![bytes("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked", &body)]).await;
    let read = text(&egress(&[&server.url]), get(&server.url)).await.unwrap();
    assert_eq!(read.len(), pieces);
}

#[tokio::test]
async fn answering_connection_is_reused_after_many_bytes() {
    let (url, _task) = serve(move |mut connection| async move {
        let body = "x".repeat(limits::EGRESS_IDLE_BYTES as usize / 2);
        let answer =
            format!("HTTP/1.1 103 Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        while !until(&mut connection, "\r\n\r\n").await.is_empty() {
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
    })
    .await;
    let egress = egress(&[&url]);
    for _ in 0..5 {
        // The server accepts one connection.
        let read = text(&egress, get(&url)).await.unwrap();
        assert_eq!(read.len(), limits::EGRESS_IDLE_BYTES as usize / 2);
    }
}
