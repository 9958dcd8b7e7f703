//! Streamable HTTP at one path, with sessions for the revisions that have them and without for the others.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, combinators::BoxBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Body, Incoming},
    header::{self, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::{net::TcpListener, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    access_policy::{AccessDenied, AccessPolicy},
    connections::{ClientConnection, ConnectionUse, Connections, ReplyBody},
    handler::McpServerHandler,
    server::McpServer,
    sessions::{HttpSessions, PEER},
    write_timeout::WriteTimeoutStream,
};
use crate::transport_role::read_request;
use shelly_core::limits;

/// The path of the endpoint.
pub const PATH: &str = "/mcp";

type McpHttpReply = Response<BoxBody<Bytes, Infallible>>;

/// State shared by all connections.
struct HttpServerState {
    service: StreamableHttpService<McpServerHandler, HttpSessions>,
    policy: AccessPolicy,
    address: SocketAddr,
    connections: Connections,
}

impl McpServer {
    /// Serves clients that connect, until `stop` is cancelled. Then their calls are cancelled.
    ///
    /// # Errors
    ///
    /// A message if the [`AccessPolicy`] is not safe or not valid for the listener's address.
    pub async fn http(
        &self,
        listener: TcpListener,
        policy: AccessPolicy,
        stop: CancellationToken,
    ) -> Result<(), String> {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        policy.check(address)?;
        let mut config = StreamableHttpServerConfig::default();
        // The policy checks both, before anything is read.
        config.allowed_hosts.clear();
        config.allowed_origins.clear();
        config.sse_keep_alive = Some(limits::MCP_SERVE_KEEP_ALIVE);
        config.sse_retry = Some(limits::MCP_SERVE_RETRY);
        config.max_request_body_bytes = limits::MCP_SERVE_BODY_BYTES;
        config.cancellation_token = stop.child_token();
        let (server, gone) = (Arc::clone(&self.0), stop.clone());
        let handler = move || Ok(McpServerHandler::new(Arc::clone(&server), gone.child_token()));
        let service = StreamableHttpService::new(handler, Arc::new(HttpSessions::new()), config);
        let front = Arc::new(HttpServerState { service, policy, address, connections: Connections::default() });
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                // Too many files are open, or the client is gone already: both pass.
                tokio::time::sleep(limits::MCP_SERVE_ACCEPT_PAUSE).await;
                continue;
            };
            // An answer is written in pieces: with Nagle's algorithm each would wait for the client's delayed
            // acknowledgement, 40 ms.
            let _ = stream.set_nodelay(true);
            let client = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                client = front.connections.add(peer.ip()) => Arc::new(client),
            };
            let (front, closed) = (Arc::clone(&front), client.closed.clone());
            connections.spawn(async move {
                let answered = service_fn(move |request| {
                    let (front, client) = (Arc::clone(&front), Arc::clone(&client));
                    async move { Ok::<_, Infallible>(front.take(request, &client).await) }
                });
                let stream = TokioIo::new(WriteTimeoutStream::new(stream, limits::MCP_WRITE_TIME));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(limits::MCP_SERVE_REQUEST_TIME)
                    .max_buf_size(limits::MCP_SERVE_HEAD_BYTES)
                    .serve_connection(stream, answered);
                tokio::select! {
                    biased;
                    () = closed.cancelled() => {}
                    // An error of the connection concerns its client alone.
                    _ = connection => {}
                }
            });
        }
    }
}

impl HttpServerState {
    async fn take(&self, request: Request<Incoming>, connection: &Arc<ClientConnection>) -> McpHttpReply {
        let reply = self.answer(request, connection).await;
        let mut reply = reply.map(|body| ReplyBody { body, connection: Arc::clone(connection) }.boxed());
        // A kept connection would hold its place while others wait.
        if self.connections.are_many() {
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }

    async fn answer(&self, request: Request<Incoming>, connection: &ClientConnection) -> McpHttpReply {
        if request.uri().path() != PATH {
            return text_reply(StatusCode::NOT_FOUND, format!("not found; use the path {PATH}"));
        }
        let origin = match self.policy.admit(request.headers(), self.address) {
            Ok(origin) => origin,
            Err(closed) => return text_reply(StatusCode::FORBIDDEN, closed.to_string()),
        };
        let mut reply = match (request.method(), self.policy.knows(request.headers())) {
            // A preflight request of a browser has no token.
            (&Method::OPTIONS, _) if origin.is_some() => preflight(),
            (_, Err(closed)) => unknown(closed),
            (&Method::POST, Ok(())) => self.post(request, connection).await,
            (method, Ok(())) => {
                connection.use_for(match *method {
                    Method::GET => ConnectionUse::Listening,
                    _ => ConnectionUse::Busy,
                });
                let (parts, _) = request.into_parts();
                self.service.handle(Request::from_parts(parts, Full::<Bytes>::default())).await
            }
        };
        if let Some(origin) = origin.and_then(|origin| HeaderValue::try_from(origin).ok()) {
            share_with(reply.headers_mut(), origin);
        }
        reply
    }

    /// Handles a request with a body. The whole body is read first, so that it can be checked.
    async fn post(&self, request: Request<Incoming>, connection: &ClientConnection) -> McpHttpReply {
        let (parts, body) = request.into_parts();
        let most = limits::MCP_SERVE_BODY_BYTES;
        let too_large = || text_reply(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"));
        // A body that declares to be too large is not read.
        if body.size_hint().lower() > most as u64 {
            return too_large();
        }
        let whole = Limited::new(body, most).collect();
        let body = match timeout(limits::MCP_SERVE_REQUEST_TIME, whole).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(_)) => return text_reply(StatusCode::BAD_REQUEST, "the body cannot be read".into()),
            Err(_) => return text_reply(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time".into()),
        };
        if let Err(answer) = read_request(&body) {
            let json = serde_json::to_string(&answer).unwrap_or_default();
            let mut reply = text_reply(StatusCode::BAD_REQUEST, json);
            reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            return reply;
        }
        connection.use_for(ConnectionUse::Busy);
        PEER.scope(connection.peer, self.service.handle(Request::from_parts(parts, Full::new(body)))).await
    }
}

fn text_reply(status: StatusCode, text: String) -> McpHttpReply {
    let mut reply = Response::new(Full::new(Bytes::from(text)).boxed());
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}

fn unknown(closed: AccessDenied) -> McpHttpReply {
    let mut reply = text_reply(StatusCode::UNAUTHORIZED, closed.to_string());
    reply.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    reply
}

fn preflight() -> McpHttpReply {
    let mut reply = text_reply(StatusCode::NO_CONTENT, String::new());
    let headers = reply.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    // `*` does not include `authorization`.
    let asked = "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, \
                 mcp-name";
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(asked));
    reply
}

/// Lets a page of this allowed origin read the answer.
fn share_with(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    let shown: HeaderName = header::ACCESS_CONTROL_EXPOSE_HEADERS;
    headers.insert(shown, HeaderValue::from_static("mcp-session-id, www-authenticate"));
}
