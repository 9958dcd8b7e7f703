//! Clients over HTTP: Streamable HTTP at one path, with sessions for the revisions that have them and without for the others.

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
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::{
        common::server_side_http::{ServerSseMessage, SessionId},
        streamable_http_server::{
            SessionManager, StreamableHttpServerConfig, StreamableHttpService,
            session::local::{LocalSessionManager, LocalSessionManagerError},
        },
    },
};
use tokio::{
    net::TcpListener,
    sync::{Mutex, Semaphore},
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{Doors, Server, doors::Closed, handler::Handler, patient::Patient};
use crate::{limits, mcp::side::read_request};

/// Where clients find us.
pub const PATH: &str = "/mcp";

type Reply = Response<BoxBody<Bytes, Infallible>>;

/// What all connections share.
struct Front {
    service: StreamableHttpService<Handler, Sessions>,
    doors: Doors,
    address: SocketAddr,
    /// For connections.
    places: Arc<Semaphore>,
}

impl Server {
    /// Serves clients that connect, until `stop` is cancelled; what is done for them is cancelled then.
    ///
    /// # Errors
    ///
    /// The [`Doors`] are not fit for this address.
    pub async fn http(&self, listener: TcpListener, doors: Doors, stop: CancellationToken) -> Result<(), String> {
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        doors.check(address)?;
        let mut config = StreamableHttpServerConfig::default();
        // Both are looked at here, before anything is read.
        config.allowed_hosts.clear();
        config.allowed_origins.clear();
        config.sse_keep_alive = Some(limits::MCP_SERVE_KEEP_ALIVE);
        config.sse_retry = Some(limits::MCP_SERVE_RETRY);
        config.max_request_body_bytes = limits::MCP_SERVE_BODY_BYTES;
        config.cancellation_token = stop.child_token();
        let (house, gone) = (Arc::clone(&self.0), stop.clone());
        let handler = move || Ok(Handler::new(Arc::clone(&house), gone.child_token()));
        let service = StreamableHttpService::new(handler, Arc::new(Sessions::new()), config);
        let places = Arc::new(Semaphore::new(limits::MCP_SERVE_CONNECTIONS));
        let front = Arc::new(Front { service, doors, address, places: Arc::clone(&places) });
        let mut connections = JoinSet::new();
        loop {
            let accepted = async {
                // They are never closed.
                let place = Arc::clone(&places).acquire_owned().await.ok();
                (place, listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                Some(_) = connections.join_next() => continue,
                accepted = accepted => accepted,
            };
            let Ok((stream, _)) = accepted else {
                // Too many files are open, or the client is gone already: neither is for ever.
                tokio::time::sleep(limits::MCP_SERVE_ACCEPT_PAUSE).await;
                continue;
            };
            // An answer is written in pieces: none waits until its client's system has confirmed the one before, which takes 40 ms.
            let _ = stream.set_nodelay(true);
            let front = Arc::clone(&front);
            connections.spawn(async move {
                let _place = place;
                let answered = service_fn(move |request| {
                    let front = Arc::clone(&front);
                    async move { Ok::<_, Infallible>(front.take(request).await) }
                });
                let stream = TokioIo::new(Patient::new(stream, limits::MCP_WRITE_TIME));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(limits::MCP_SERVE_REQUEST_TIME)
                    .max_buf_size(limits::MCP_SERVE_HEAD_BYTES)
                    .serve_connection(stream, answered);
                // How it ends is its client's own business.
                let _ = connection.await;
            });
        }
    }
}

impl Front {
    async fn take(&self, request: Request<Incoming>) -> Reply {
        let mut reply = self.answer(request).await;
        // Others may wait, and a connection that is kept for later would hold its place. One place is always held for who
        // comes next.
        if self.places.available_permits() < limits::MCP_SERVE_CONNECTIONS - limits::MCP_SERVE_CONNECTIONS_KEPT {
            reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        reply
    }

    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.uri().path() != PATH {
            return said(StatusCode::NOT_FOUND, format!("there is nothing here: the path is {PATH}"));
        }
        let origin = match self.doors.admit(request.headers(), self.address) {
            Ok(origin) => origin,
            Err(closed) => return said(StatusCode::FORBIDDEN, closed.to_string()),
        };
        let mut reply = match (request.method(), self.doors.knows(request.headers())) {
            // Browsers ask first, and show nothing.
            (&Method::OPTIONS, _) if origin.is_some() => preflight(),
            (_, Err(closed)) => unknown(closed),
            (&Method::POST, Ok(())) => self.post(request).await,
            (_, Ok(())) => {
                let (parts, _) = request.into_parts();
                self.service.handle(Request::from_parts(parts, Full::<Bytes>::default())).await
            }
        };
        if let Some(origin) = origin.and_then(|origin| HeaderValue::try_from(origin).ok()) {
            share_with(reply.headers_mut(), origin);
        }
        reply
    }

    /// What a request with a body comes to. All of it is read first, so that what is in it can be looked at.
    async fn post(&self, request: Request<Incoming>) -> Reply {
        let (parts, body) = request.into_parts();
        let most = limits::MCP_SERVE_BODY_BYTES;
        let too_large = || said(StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes"));
        // One that says so itself is not read.
        if body.size_hint().lower() > most as u64 {
            return too_large();
        }
        let whole = Limited::new(body, most).collect();
        let body = match timeout(limits::MCP_SERVE_REQUEST_TIME, whole).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => return too_large(),
            Ok(Err(_)) => return said(StatusCode::BAD_REQUEST, "the body cannot be read".into()),
            Err(_) => return said(StatusCode::REQUEST_TIMEOUT, "the body does not come".into()),
        };
        if let Err(answer) = read_request(&body) {
            let json = serde_json::to_string(&answer).unwrap_or_default();
            let mut reply = said(StatusCode::BAD_REQUEST, json);
            reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            return reply;
        }
        self.service.handle(Request::from_parts(parts, Full::new(body))).await
    }
}

fn said(status: StatusCode, text: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(text)).boxed());
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    reply
}

fn unknown(closed: Closed) -> Reply {
    let mut reply = said(StatusCode::UNAUTHORIZED, closed.to_string());
    reply.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    reply
}

fn preflight() -> Reply {
    let mut reply = said(StatusCode::NO_CONTENT, String::new());
    let headers = reply.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
    // `*` is not for the one that matters most.
    let asked = "authorization, content-type, accept, last-event-id, mcp-session-id, mcp-protocol-version, mcp-method, \
                 mcp-name";
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(asked));
    reply
}

/// Lets a page of this origin, which may ask, read the answer.
fn share_with(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(header::VARY, HeaderValue::from_static("origin"));
    let shown: HeaderName = header::ACCESS_CONTROL_EXPOSE_HEADERS;
    headers.insert(shown, HeaderValue::from_static("mcp-session-id, www-authenticate"));
}

/// Sessions in memory, and no more than there may be.
struct Sessions {
    local: LocalSessionManager,
    /// One is made at a time, so that they can be counted.
    making: Mutex<()>,
}

#[derive(Debug, thiserror::Error)]
enum SessionsError {
    #[error("there are {} sessions already: end one, or come back later", limits::MCP_SERVE_HTTP_SESSIONS)]
    TooMany,
    #[error(transparent)]
    Local(#[from] LocalSessionManagerError),
}

impl Sessions {
    fn new() -> Self {
        let mut local = LocalSessionManager::default();
        local.session_config.keep_alive = Some(limits::MCP_SERVE_IDLE_TIME);
        local.session_config.sse_retry = Some(limits::MCP_SERVE_RETRY);
        local.session_config.init_timeout = Some(limits::MCP_SERVE_REQUEST_TIME);
        local.session_config.completed_cache_ttl = limits::MCP_SERVE_REQUEST_TIME;
        Self { local, making: Mutex::new(()) }
    }
}

impl SessionManager for Sessions {
    type Error = SessionsError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), SessionsError> {
        let _one = self.making.lock().await;
        if self.local.sessions.read().await.len() >= limits::MCP_SERVE_HTTP_SESSIONS {
            return Err(SessionsError::TooMany);
        }
        Ok(self.local.create_session().await?)
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, SessionsError> {
        Ok(self.local.initialize_session(id, message).await?)
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, SessionsError> {
        Ok(self.local.has_session(id).await?)
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), SessionsError> {
        Ok(self.local.close_session(id).await?)
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl futures_util::Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.create_stream(id, message).await?)
    }

    async fn accept_message(&self, id: &SessionId, message: ClientJsonRpcMessage) -> Result<(), SessionsError> {
        Ok(self.local.accept_message(id, message).await?)
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl futures_util::Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.create_standalone_stream(id).await?)
    }

    async fn resume(
        &self,
        id: &SessionId,
        last_event_id: String,
    ) -> Result<impl futures_util::Stream<Item = ServerSseMessage> + Send + Sync + 'static, SessionsError> {
        Ok(self.local.resume(id, last_event_id).await?)
    }
}
