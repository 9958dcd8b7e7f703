//! The server against clients that write bytes.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use hyper::{Method, StatusCode};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    AccessPolicy, BearerToken, CrossOriginRules, HttpServer, HttpService, RouteAccess, ServedRequest, ServedResponse,
    SseFrame, event_stream, text_response,
};
use shelly_core::limits;

const TOKEN: &str = "0123456789abcdef";
/// The maximum bytes of a body.
const BODY: usize = 8;

/// Echoes bodies, and streams events until it is told to stop.
struct Echo {
    stop: CancellationToken,
    asked: Arc<AtomicUsize>,
}

impl Echo {
    async fn answer(&self, mut request: ServedRequest) -> ServedResponse {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if request.path() == "/events" {
            request.listen();
            let stop = self.stop.clone();
            let first = SseFrame { event: Some("first"), id: Some(1), data: "{}".into() };
            let last = SseFrame { event: Some("last"), id: None, data: "{}".into() };
            let rest = stream::once(async move {
                stop.cancelled().await;
                last
            });
            return event_stream(stream::iter([first]).chain(rest).boxed());
        }
        match request.read_body(BODY).await {
            Ok(body) => {
                let query = request.query_value("q").unwrap_or_default();
                text_response(
                    StatusCode::OK,
                    format!("{} {query} {}", request.method(), String::from_utf8_lossy(&body)),
                )
            }
            Err(error) => text_response(error.status(), error.to_string()),
        }
    }
}

impl HttpService for Echo {
    fn access(&self, _: &Method, path: &str) -> RouteAccess {
        if path == "/public" { RouteAccess::Public } else { RouteAccess::Token }
    }

    fn handle(&self, request: ServedRequest) -> BoxFuture<'_, ServedResponse> {
        self.answer(request).boxed()
    }

    fn cross_origin(&self) -> CrossOriginRules {
        CrossOriginRules { methods: "GET, POST", request_headers: "authorization", exposed_headers: "location" }
    }
}

/// A server of [`Echo`].
struct EchoServer {
    address: SocketAddr,
    stop: CancellationToken,
    asked: Arc<AtomicUsize>,
    served: JoinHandle<Result<(), String>>,
}

impl EchoServer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop, asked) = (listener.local_addr().unwrap(), CancellationToken::new(), Arc::default());
        let policy = AccessPolicy { token: Some(BearerToken::new(TOKEN).unwrap()), ..AccessPolicy::default() };
        let echo = Echo { stop: stop.clone(), asked: Arc::clone(&asked) };
        let server = HttpServer::new(policy, Arc::new(echo));
        let served = tokio::spawn(server.serve(listener, stop.clone(), limits::SERVE_STOP_GRACE));
        Self { address, stop, asked, served }
    }

    /// Sends these bytes, and returns all that comes until the connection ends.
    async fn say(&self, text: &str) -> String {
        let mut stream = self.open(text).await;
        let mut answer = String::new();
        // A reset connection may still have sent an answer.
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    async fn open(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }
}

fn head(method: &str, path: &str, more: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n")
}

#[tokio::test]
async fn service_sees_only_admitted_requests() {
    let server = EchoServer::start().await;
    let known = format!("authorization: Bearer {TOKEN}\r\n");
    for (request, status, says) in [
        (head("GET", "/a?q=b%20c&q=d", &known), "200", "GET b c "),
        (head("POST", "/a", &format!("{known}content-length: 2\r\n")) + "hi", "200", "POST  hi"),
        (head("GET", "/public", ""), "200", "GET  "),
        (head("GET", "/a", ""), "401", "a valid bearer token is required"),
        (head("POST", "/a", &format!("{known}content-length: 9\r\n")), "413", "the body has more than 8 bytes"),
        (head("GET", "/public", "").replace("localhost", "evil.example"), "403", "the name in `Host`"),
        (head("GET", "/public", "origin: https://evil.example\r\n"), "403", "the origin in `Origin`"),
        (head("OPTIONS", "/a", "origin: http://localhost:1\r\n"), "204", "access-control-allow-methods: GET, POST"),
    ] {
        let answer = server.say(&request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")) && answer.contains(says), "{request}{answer}");
    }
    assert_eq!(server.asked.load(Ordering::SeqCst), 4, "the others did not reach it");
}

#[tokio::test]
async fn stopped_server_ends_its_answers_first() {
    let server = EchoServer::start().await;
    let mut stream = server.open(&head("GET", "/events", &format!("authorization: Bearer {TOKEN}\r\n"))).await;
    let mut begins = [0; 4_096];
    let mut text = String::new();
    while !text.contains("event: first") {
        let count = stream.read(&mut begins).await.unwrap();
        assert_ne!(count, 0, "{text}");
        text.push_str(std::str::from_utf8(&begins[..count]).unwrap());
    }
    let idle = server.open("").await;
    server.stop.cancel();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("event: last") && text.ends_with("0\r\n\r\n"), "{text}");
    assert_eq!(server.served.await.unwrap(), Ok(()), "nobody keeps it from ending");
    assert!(TcpStream::connect(server.address).await.is_err(), "it listens no more");
    drop(idle);
}
