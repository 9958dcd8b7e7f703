//! The server over HTTP, byte for byte.

use std::net::SocketAddr;

use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
};

use super::*;
use shelly_net::http_server::{AccessPolicy, BearerToken};

struct Web {
    bench: Bench,
    address: SocketAddr,
    _served: AbortOnDropHandle<Result<(), String>>,
}

const JSON: &str = "content-type: application/json\r\naccept: application/json, text/event-stream\r\n";
const TOKEN: &str = "0123456789abcdef";

impl Web {
    async fn start(policy: AccessPolicy) -> Self {
        let bench = Bench::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (server, stop) = (bench.server.clone(), bench.stop.clone());
        let served = tokio::spawn(async move { server.http(listener, policy, stop).await });
        Self { bench, address, _served: AbortOnDropHandle::new(served) }
    }

    /// Sends this, and returns all that comes until the connection ends.
    async fn say(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset connection may still have sent an answer.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    /// Sends a request with headers and a body, after which the connection ends.
    async fn send(&self, method: &str, headers: &str, body: &str) -> String {
        let host = if headers.starts_with("host:") || headers.contains("\nhost:") { "" } else { "host: localhost\r\n" };
        let head = format!("{method} /mcp HTTP/1.1\r\n{host}connection: close\r\ncontent-length: {}\r\n", body.len());
        self.say(&format!("{head}{headers}\r\n{body}")).await
    }
}

fn initialize() -> String {
    let us = json!({"name": "client", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": us});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[tokio::test]
async fn only_those_come_in_who_may() {
    let token = Some(BearerToken::new(TOKEN).unwrap());
    let policy =
        AccessPolicy { token, hosts: vec!["tools.example".into()], origins: vec!["https://app.example".into()] };
    let web = Web::start(policy).await;
    let known = format!("{JSON}authorization: Bearer {TOKEN}\r\n");
    for (headers, expected) in [
        (known.clone(), "200"),
        (format!("host: tools.example\r\n{known}"), "200"),
        (format!("host: evil.example\r\n{known}"), "403"),
        (format!("host: 127.0.0.1.evil.example\r\n{known}"), "403"),
        (format!("origin: https://app.example\r\n{known}"), "200"),
        (format!("origin: http://localhost:6274\r\n{known}"), "200"),
        (format!("origin: https://evil.example\r\n{known}"), "403"),
        (format!("origin: null\r\n{known}"), "403"),
        (JSON.to_owned(), "401"),
        (format!("{JSON}authorization: Bearer {TOKEN}0\r\n"), "401"),
        (format!("{JSON}authorization: Basic {TOKEN}\r\n"), "401"),
        (format!("accept: application/json, text/event-stream\r\nauthorization: Bearer {TOKEN}\r\n"), "415"),
        (format!("content-type: application/json\r\nauthorization: Bearer {TOKEN}\r\n"), "406"),
    ] {
        let answer = web.send("POST", &headers, &initialize()).await;
        assert_eq!(status(&answer), expected, "{headers}{answer}");
        assert!(!answer.contains(TOKEN));
        assert_eq!(answer.contains("www-authenticate: Bearer"), expected == "401", "{answer}");
        let shares = headers.contains("origin") && expected == "200";
        assert_eq!(answer.contains("access-control-allow-origin"), shares, "{answer}");
    }
    // A preflight request of a browser has no token.
    let preflight = web.send("OPTIONS", "origin: https://app.example\r\n", "").await;
    assert!(
        status(&preflight) == "204" && preflight.contains("access-control-allow-headers: authorization"),
        "{preflight}"
    );
    assert_eq!(status(&web.send("OPTIONS", "origin: https://evil.example\r\n", "").await), "403");
    assert_eq!(status(&web.say("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await), "404");
    assert_eq!(status(&web.say("POST /mcp HTTP/1.1\r\nconnection: close\r\n\r\n").await), "403", "no host");
}

#[tokio::test]
async fn oversized_http_requests_are_refused() {
    let web = Web::start(AccessPolicy::default()).await;
    let many =
        format!(r#"{{"jsonrpc":"2.0","id":9,"method":"x","params":[{}0]}}"#, "0,".repeat(limits::MCP_MESSAGE_VALUES));
    for (headers, body, expected, says) in [
        (String::new(), "{".to_owned(), "400", "the message is not JSON"),
        (String::new(), "[]".into(), "400", "batches are not supported"),
        (String::new(), many, "400", "the message has more than 250000 values"),
        (format!("x-long: {}\r\n", "x".repeat(2 * limits::SERVE_HEAD_BYTES)), initialize(), "431", ""),
        ("mcp-session-id: none\r\n".into(), initialize(), "404", "Session not found"),
        (String::new(), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.into(), "", "Session"),
    ] {
        let answer = web.send("POST", &format!("{JSON}{headers}"), &body).await;
        assert!(status(&answer).starts_with(expected) && answer.contains(says), "{answer}");
        assert!(status(&answer).starts_with('4'), "{answer}");
    }
    // The body is refused before it arrives if it declares its length, and otherwise once it is too long.
    let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{JSON}");
    let long = limits::MCP_SERVE_BODY_BYTES + 1;
    let answer = web.say(&format!("{head}content-length: {long}\r\n\r\n")).await;
    assert!(status(&answer) == "413" && answer.contains("the body has more than 4194304 bytes"), "{answer}");
    let piece = format!("{long:x}\r\n{}\r\n0\r\n\r\n", "x".repeat(long));
    let answer = web.say(&format!("{head}transfer-encoding: chunked\r\n\r\n{piece}")).await;
    assert_eq!(status(&answer), "413", "{answer}");
    assert_eq!(web.bench.hands.begun.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn half_a_request_is_not_waited_for() {
    let web = Web::start(AccessPolicy::default()).await;
    let head =
        format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{JSON}content-length: 20\r\n\r\n");
    let before = tokio::time::Instant::now();
    for (half, expected) in [("", "none"), ("POST /mcp HT", "none"), (&head[..head.len() - 2], "none"), (&head, "408")]
    {
        let answer = web.say(half).await;
        assert!([expected, "408"].contains(&status(&answer)), "{half}: {answer}");
    }
    assert!(before.elapsed() >= 3 * limits::SERVE_REQUEST_TIME, "{:?}", before.elapsed());
}

fn session_of(answer: &str) -> String {
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
    format!("mcp-session-id: {}\r\n", id.unwrap_or_else(|| panic!("{answer}")))
}

/// Begins a session. Returns its header.
async fn begin_session(web: &Web) -> String {
    let session = session_of(&web.send("POST", JSON, &initialize()).await);
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string();
    assert_eq!(status(&web.send("POST", &format!("{JSON}{session}"), &ready).await), "202");
    session
}

fn ping() -> String {
    json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}).to_string()
}

#[tokio::test]
async fn oldest_idle_session_ends_for_a_new_one() {
    let web = Web::start(AccessPolicy::default()).await;
    let mut sessions = Vec::new();
    for _ in 0..limits::MCP_SERVE_HTTP_SESSIONS {
        sessions.push(begin_session(&web).await);
    }
    let used = async |session: &str| {
        let answer = web.send("POST", &format!("{JSON}{session}"), &ping()).await;
        status(&answer).to_owned()
    };
    // The first is used again, the second listens: the third has been idle the longest.
    assert_eq!(used(&sessions[0]).await, "200");
    let mut listens = TcpStream::connect(web.address).await.unwrap();
    let get = format!("GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{}\r\n", sessions[1]);
    listens.write_all(get.as_bytes()).await.unwrap();
    assert!(listens.read(&mut [0; 1_024]).await.unwrap() > 0);
    assert_eq!(status(&web.send("POST", JSON, &initialize()).await), "200");
    for (at, expected) in [(0, "200"), (1, "200"), (2, "404"), (3, "200")] {
        assert_eq!(used(&sessions[at]).await, expected, "{at}");
    }
    // A session that its client ends makes room, too.
    assert_eq!(status(&web.send("DELETE", &sessions[4], "").await), "202");
    assert_eq!(status(&web.send("POST", JSON, &initialize()).await), "200");
    assert_eq!(used(&sessions[5]).await, "200");
}

#[tokio::test]
async fn session_at_work_is_not_ended_for_another() {
    let web = Web::start(AccessPolicy::default()).await;
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "hang"}}).to_string();
    let mut calls = Vec::new();
    for _ in 0..limits::MCP_SERVE_HTTP_SESSIONS {
        let session = begin_session(&web).await;
        let head =
            format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{JSON}{session}content-length: {}\r\n\r\n", call.len());
        let mut stream = TcpStream::connect(web.address).await.unwrap();
        stream.write_all(format!("{head}{call}").as_bytes()).await.unwrap();
        assert!(stream.read(&mut [0; 1_024]).await.unwrap() > 0);
        calls.push(stream);
    }
    let refused = web.send("POST", JSON, &initialize()).await;
    assert!(status(&refused) == "500" && refused.contains("all 64 sessions are in use"), "{refused}");
}

#[tokio::test]
async fn connection_is_kept_unless_there_are_many() {
    let web = Web::start(AccessPolicy::default()).await;
    let get = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut held = Vec::new();
    for n in 1..=limits::SERVE_CONNECTIONS_KEPT {
        let mut stream = TcpStream::connect(web.address).await.unwrap();
        stream.write_all(get).await.unwrap();
        let (mut answer, mut bytes) = (Vec::new(), [0; 1_024]);
        while !answer.ends_with(b"/mcp") {
            let count = stream.read(&mut bytes).await.unwrap();
            answer.extend_from_slice(&bytes[..count]);
        }
        let is_closed = String::from_utf8(answer).unwrap().contains("connection: close");
        assert_eq!(is_closed, n == limits::SERVE_CONNECTIONS_KEPT, "{n}");
        held.push(stream);
    }
}

#[tokio::test]
async fn client_works_beside_abandoned_ones() {
    let web = Web::start(AccessPolicy::default()).await;
    let mut abandoned = Vec::new();
    let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{JSON}content-length: 20\r\n\r\n");
    // Nothing, half a head, and a head whose body does not come.
    for half in ["", &head[..30], &head].into_iter().cycle().take(200) {
        let mut stream = TcpStream::connect(web.address).await.unwrap();
        stream.write_all(half.as_bytes()).await.unwrap();
        abandoned.push(stream);
    }
    for _ in 0..limits::MCP_SERVE_HTTP_SESSIONS + 10 {
        assert_eq!(status(&web.send("POST", JSON, &initialize()).await), "200");
    }
    let session = begin_session(&web).await;
    let call =
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"a": 1}}});
    for _ in 0..limits::SERVE_CONNECTIONS {
        let stream = TcpStream::connect(web.address).await.unwrap();
        abandoned.push(stream);
        let answer = web.send("POST", &format!("{JSON}{session}"), &call.to_string()).await;
        assert!(status(&answer) == "200" && answer.contains(r#"{\"a\":1}"#), "{answer}");
    }
}

#[tokio::test]
async fn http_disconnect_cancels_the_call() {
    let web = Web::start(AccessPolicy::default()).await;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": stateless(json!({"name": "hang"}), &json!({}))});
    let body = body.to_string();
    let own = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: hang\r\n";
    let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{JSON}{own}content-length: {}\r\n\r\n", body.len());
    let mut stream = TcpStream::connect(web.address).await.unwrap();
    stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    let count = |of: &AtomicUsize| of.load(Ordering::SeqCst);
    while count(&web.bench.hands.now) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    drop(stream);
    while count(&web.bench.hands.dropped) == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_ends() {
    let web = Web::start(AccessPolicy::default()).await;
    let answer = web.send("POST", JSON, &initialize()).await;
    tokio::time::sleep(limits::MCP_SERVE_IDLE_TIME * 2).await;
    let answer = web.send("POST", &format!("{JSON}{}", session_of(&answer)), &ping()).await;
    assert_eq!(status(&answer), "404", "{answer}");
}

#[tokio::test]
async fn http_server_refuses_public_address_without_token() {
    let bench = Bench::new();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = bench.server.http(listener, AccessPolicy::default(), bench.stop.clone()).await.unwrap_err();
    assert!(refused.starts_with("others can reach"), "{refused}");
}
