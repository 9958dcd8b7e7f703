use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use http_body_util::BodyExt;
use hyper::{
    HeaderMap, Method, Request, StatusCode,
    body::Incoming,
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    access_policy::{AccessDenied, AccessPolicy},
    connections::{ClientConnection, Connections, ReplyBody},
    served_request::ServedRequest,
    served_response::{ServedResponse, text_response},
    server_tls::ServerTls,
    write_timeout_stream::WriteTimeoutStream,
};
use shelly_core::limits;

/// The answers of a server. A request is dropped when its client disconnects.
pub trait HttpService: Send + Sync + 'static {
    /// Returns what a request of this path must show. `Host` and `Origin` are checked in any case.
    fn access(&self, method: &Method, path: &str) -> RouteAccess;

    /// Answers a request that was admitted.
    fn handle(&self, request: ServedRequest) -> BoxFuture<'_, ServedResponse>;

    /// Returns the rules for web pages of other origins that the policy allows.
    fn cross_origin(&self) -> CrossOriginRules;

    /// Answers a request of this path that was not admitted.
    fn deny(&self, _path: &str, denied: AccessDenied) -> ServedResponse {
        text_response(denied.status(), denied.to_string())
    }
}

/// The condition under which a request is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteAccess {
    /// The request shows the bearer token, if the policy has one.
    Token,
    /// Everybody who reaches the server is answered.
    Public,
}

/// The headers with which browsers let a page of another origin use a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrossOriginRules {
    /// The methods that a page may send, separated by commas.
    pub methods: &'static str,
    /// The headers that a page may send. `*` would not include `authorization`.
    pub request_headers: &'static str,
    /// The headers of an answer that a page may read.
    pub exposed_headers: &'static str,
}

/// A server that admits requests by a policy and hands them to a service.
pub struct HttpServer {
    policy: AccessPolicy,
    service: Arc<dyn HttpService>,
    connections: Connections,
    tls: Option<ServerTls>,
}

/// A running server, as its connections see it.
struct RunningServer {
    server: HttpServer,
    address: SocketAddr,
}

impl HttpServer {
    /// Creates a server.
    pub fn new(policy: AccessPolicy, service: Arc<dyn HttpService>) -> Self {
        Self { policy, service, connections: Connections::default(), tls: None }
    }

    /// Encrypts connections, if there is a certificate.
    pub fn with_tls(self, tls: Option<ServerTls>) -> Self {
        Self { tls, ..self }
    }

    /// Sets the maximum number of concurrent connections; without it there are
    /// [`SERVE_CONNECTIONS`](limits::SERVE_CONNECTIONS).
    #[must_use]
    pub fn with_connections(self, most: usize) -> Self {
        Self { connections: Connections::at_most(most), ..self }
    }

    /// Counts the open connections from now on, for as long as the server runs.
    pub fn connection_count(&self) -> impl Fn() -> usize + Send + Sync + use<> {
        let connections = self.connections.clone();
        move || connections.count()
    }

    /// Serves clients that connect, until `stop` is cancelled. Then no connection is accepted and no further request is
    /// read; answers that are being sent have `grace` to end.
    ///
    /// # Errors
    ///
    /// A message if the [`AccessPolicy`] is not safe or not valid for the listener's address.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken, grace: Duration) -> Result<(), String> {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        self.policy.check(address)?;
        let running = Arc::new(RunningServer { server: self, address });
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                // Too many files are open, or the client is gone already: both pass.
                tokio::time::sleep(limits::SERVE_ACCEPT_PAUSE).await;
                continue;
            };
            // An answer is written in pieces: with Nagle's algorithm each would wait for the client's delayed
            // acknowledgement, 40 ms.
            let _ = stream.set_nodelay(true);
            let client = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                client = running.server.connections.add(peer.ip()) => Arc::new(client),
            };
            connections.spawn(Arc::clone(&running).attend(stream, client, stop.clone()));
        }
        drop(listener);
        // Connections that do not end in time are dropped with the set.
        let _ = timeout(grace, async { while connections.join_next().await.is_some() {} }).await;
        Ok(())
    }
}

impl RunningServer {
    /// Serves one connection until it ends. Until its handshake is done it is half open, and closed first for others.
    async fn attend(self: Arc<Self>, stream: TcpStream, client: Arc<ClientConnection>, stop: CancellationToken) {
        let Some(tls) = self.server.tls.clone() else { return self.attend_stream(stream, client, stop).await };
        let accepted = tokio::select! {
            biased;
            () = client.closed.cancelled() => return,
            () = stop.cancelled() => return,
            accepted = tls.accept(stream) => accepted,
        };
        if let Some(stream) = accepted {
            self.attend_stream(stream, client, stop).await;
        }
    }

    async fn attend_stream(
        self: Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        client: Arc<ClientConnection>,
        stop: CancellationToken,
    ) {
        let (closed, there) = (client.closed.clone(), Arc::clone(&client));
        let answered = service_fn(move |request| {
            let (running, client) = (Arc::clone(&self), Arc::clone(&client));
            async move { Ok::<_, Infallible>(running.take(request, &client).await) }
        });
        let stream = TokioIo::new(WriteTimeoutStream::new(stream, limits::SERVE_WRITE_TIME));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits::SERVE_REQUEST_TIME)
            .max_buf_size(limits::SERVE_HEAD_BYTES)
            .serve_connection(stream, answered);
        let mut connection = pin!(connection);
        tokio::select! {
            biased;
            () = closed.cancelled() => return,
            // An error of the connection concerns its client alone.
            _ = connection.as_mut() => return,
            () = stop.cancelled() => {}
        }
        // The library would still wait for the request.
        if there.is_half_open() {
            return;
        }
        connection.as_mut().graceful_shutdown();
        tokio::select! {
            biased;
            () = closed.cancelled() => {}
            _ = connection => {}
        }
    }

    async fn take(&self, request: Request<Incoming>, connection: &Arc<ClientConnection>) -> ServedResponse {
        let response = self.answer(request, connection).await;
        let connection = Arc::clone(connection);
        let mut response = response.map(|body| ReplyBody { body, connection }.boxed_unsync());
        // A kept connection would hold its place while others wait.
        if self.server.connections.are_many() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    async fn answer(&self, request: Request<Incoming>, connection: &Arc<ClientConnection>) -> ServedResponse {
        let HttpServer { policy, service, tls, .. } = &self.server;
        let origin = match policy.check_source(request.uri(), request.headers(), self.address) {
            Ok(origin) => origin,
            Err(denied) => return service.deny(request.uri().path(), denied),
        };
        let access = service.access(request.method(), request.uri().path());
        let shown = match access {
            RouteAccess::Public => Ok(()),
            RouteAccess::Token => policy.check_token(request.headers()),
        };
        let mut response = match shown {
            // A preflight request of a browser has no token.
            _ if request.method() == Method::OPTIONS && origin.is_some() => preflight(service.cross_origin()),
            Err(denied) => with_challenge(service.deny(request.uri().path(), denied)),
            Ok(()) => service.handle(ServedRequest::new(request, tls.is_some(), connection)).await,
        };
        if let Some(origin) = origin.and_then(|origin| HeaderValue::try_from(origin).ok()) {
            share_with(response.headers_mut(), origin, service.cross_origin());
        }
        response
    }
}

/// Tells the client that a bearer token is asked for.
fn with_challenge(mut response: ServedResponse) -> ServedResponse {
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn preflight(rules: CrossOriginRules) -> ServedResponse {
    let mut response = text_response(StatusCode::NO_CONTENT, String::new());
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(rules.methods));
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(rules.request_headers));
    response
}

/// Lets a page of this allowed origin read the answer.
fn share_with(headers: &mut HeaderMap, origin: HeaderValue, rules: CrossOriginRules) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(rules.exposed_headers));
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::Instant,
    };

    use super::*;

    /// Answers with more than a client takes.
    struct Flood;

    impl HttpService for Flood {
        fn access(&self, _: &Method, _: &str) -> RouteAccess {
            RouteAccess::Public
        }

        fn handle(&self, _: ServedRequest) -> BoxFuture<'_, ServedResponse> {
            async { text_response(StatusCode::OK, "x".repeat(1 << 20)) }.boxed()
        }

        fn cross_origin(&self) -> CrossOriginRules {
            CrossOriginRules { methods: "GET", request_headers: "", exposed_headers: "" }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_takes_no_answer_is_disconnected() {
        let server = HttpServer::new(AccessPolicy::default(), Arc::new(Flood));
        let connections = server.connections.clone();
        let running = Arc::new(RunningServer { server, address: "127.0.0.1:1".parse().unwrap() });
        let client = Arc::new(connections.add("127.0.0.1".parse().unwrap()).await);
        let (mut there, here) = tokio::io::duplex(1 << 10);
        there.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let begun = Instant::now();
        running.attend_stream(here, client, CancellationToken::new()).await;
        let elapsed = begun.elapsed();
        assert!(elapsed >= limits::SERVE_WRITE_TIME && elapsed < limits::SERVE_WRITE_TIME * 2, "{elapsed:?}");
        assert_eq!(connections.count(), 0, "its place is free");
    }

    /// Reads the body of each request.
    struct BodyReader;

    impl HttpService for BodyReader {
        fn access(&self, _: &Method, _: &str) -> RouteAccess {
            RouteAccess::Public
        }

        fn handle(&self, mut request: ServedRequest) -> BoxFuture<'_, ServedResponse> {
            async move {
                match request.read_body(1 << 20).await {
                    Ok(_) => text_response(StatusCode::OK, String::new()),
                    Err(error) => text_response(error.status(), error.to_string()),
                }
            }
            .boxed()
        }

        fn cross_origin(&self) -> CrossOriginRules {
            CrossOriginRules { methods: "POST", request_headers: "", exposed_headers: "" }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_trickles_in_is_not_waited_for() {
        let server = HttpServer::new(AccessPolicy::default(), Arc::new(BodyReader));
        let connections = server.connections.clone();
        let running = Arc::new(RunningServer { server, address: "127.0.0.1:1".parse().unwrap() });
        let client = Arc::new(connections.add("127.0.0.1".parse().unwrap()).await);
        let (there, here) = tokio::io::duplex(1 << 10);
        let (mut answer, mut request) = tokio::io::split(there);
        let head = b"POST / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 1000\r\n\r\n";
        request.write_all(head).await.unwrap();
        // Each byte comes soon after the last one, and the body as a whole not in time.
        let trickle = tokio::spawn(async move {
            while request.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let begun = Instant::now();
        running.attend_stream(here, client, CancellationToken::new()).await;
        let elapsed = begun.elapsed();
        assert!(elapsed >= limits::SERVE_REQUEST_TIME && elapsed < limits::SERVE_REQUEST_TIME * 2, "{elapsed:?}");
        trickle.abort();
        let mut text = String::new();
        answer.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("HTTP/1.1 408 "), "{text}");
    }
}
