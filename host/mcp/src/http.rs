//! Remote servers: Streamable HTTP over this crate's HTTP client, which follows no redirects.

use std::{collections::HashMap, sync::Arc};

use ::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcRequest, RequestParamsMeta, ServerJsonRpcMessage},
    transport::{
        StreamableHttpClientTransport,
        auth::WWWAuthenticateParams,
        common::{
            client_side_sse::ExponentialBackoff,
            http_header::{HEADER_LAST_EVENT_ID, HEADER_SESSION_ID},
        },
        streamable_http_client::{
            AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient,
            StreamableHttpClientTransportConfig, StreamableHttpError, StreamableHttpPostResponse,
        },
    },
};
use sse_stream::Sse;
use url::Url;

use super::{
    McpHttpTarget,
    depth::is_deeper,
    error_text::shown,
    message_reading::{has_too_many_values, read_deep_message, read_message, too_many_values},
    oauth::{OAuthAttempts, OAuthChallenge, OAuthError, TokenManager},
};
use shelly_core::{
    error::Fault,
    event::{TRACEPARENT, TRACESTATE},
    limits,
};
use shelly_net::{AuthHeader, ByteStream, HttpRequest, HttpResponse, Retries, Secret, sse::SseEventStream};

type HttpError = StreamableHttpError<Fault>;
type ProtocolHeaders = HashMap<HeaderName, HeaderValue>;
type McpSseStream = BoxStream<'static, Result<Sse, SseError>>;

/// Returns the message for a server that wants a credential: what the user can do.
fn denied(challenge: &str) -> String {
    let asks = if challenge.is_empty() { String::new() } else { format!(" (its challenge: {})", shown(challenge)) };
    format!("the server does not answer without one{asks}; set a bearer token or a header in its config")
}

/// Returns a new connection to a remote server.
pub(super) fn transport(name: &Arc<str>, http: &McpHttpTarget) -> StreamableHttpClientTransport<McpHttpClient> {
    let mut retries = ExponentialBackoff::default();
    retries.max_times = Some(limits::MCP_STREAM_RETRIES);
    retries.max_delay = Some(limits::RETRY_PAUSE);
    let mut config = StreamableHttpClientTransportConfig::with_uri(http.url.as_str())
        .max_concurrent_requests(limits::MCP_HTTP_REQUESTS);
    config.retry_config = Arc::new(retries);
    let manager = http.oauth.as_ref().map(|oauth| Arc::new(TokenManager::new(name, http, oauth)));
    StreamableHttpClientTransport::with_client(McpHttpClient { http: Arc::new(http.clone()), manager }, config)
}

/// Sends a `ping` without a credential. Returns the challenge of an answer with status 401, which may be empty; `None` if
/// the server answers otherwise.
///
/// # Errors
///
/// A [`Fault`] that says why there is no answer.
pub(super) async fn challenge_of(http: &McpHttpTarget) -> Result<Option<String>, Fault> {
    let request = HttpRequest {
        headers: http.headers.clone(),
        retries: Retries::NONE,
        total: limits::OAUTH_TIME,
        ..HttpRequest::new(http.url.clone())
    };
    let ping = serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    let answer = http.client.exchange(Method::POST, &request, Some(ping.to_string().into_bytes())).await?;
    Ok((answer.status() == StatusCode::UNAUTHORIZED).then(|| challenge(&answer).unwrap_or_default()))
}

/// This crate's HTTP client, with the interface that `rmcp` expects.
#[derive(Debug, Clone)]
pub(super) struct McpHttpClient {
    http: Arc<McpHttpTarget>,
    /// The token manager of the OAuth login, if there is one.
    manager: Option<Arc<TokenManager>>,
}

impl McpHttpClient {
    async fn exchange(
        &self,
        method: Method,
        message: Option<&ClientJsonRpcMessage>,
        protocol: ProtocolHeaders,
        further: [(&str, Option<&str>); 2],
    ) -> Result<HttpResponse, HttpError> {
        let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let protocol = protocol.iter().map(|(name, value)| (name.to_string(), Secret::new(text(value))));
        let further = further.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Secret::new(value?))));
        let of_config = &self.http.headers;
        let is_set = |name: &str| of_config.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let span = message.into_iter().flat_map(span_headers).filter(|(name, _)| !is_set(name));
        let headers = of_config.iter().cloned().chain(protocol).chain(further).chain(span).collect();
        let mut request = HttpRequest {
            auth: self.http.auth.clone(),
            headers,
            // The protocol resumes interrupted streams by itself.
            retries: Retries::NONE,
            repeatable: false,
            total: limits::MCP_STREAM_TIME,
            idle: limits::MCP_STREAM_TIME,
            ..HttpRequest::new(self.http.url.clone())
        };
        let json = message.map(serde_json::to_vec).transpose()?;
        let Some(manager) = &self.manager else {
            let answer = self.http.client.exchange(method, &request, json).await.map_err(HttpError::Client)?;
            return match (answer.status(), challenge(&answer)) {
                (StatusCode::UNAUTHORIZED, challenge) => Err(wanted(denied(&challenge.unwrap_or_default()))),
                (StatusCode::FORBIDDEN, Some(challenge)) => {
                    Err(HttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)))
                }
                _ => Ok(answer),
            };
        };
        let (mut token, mut tried) = (manager.token().await.map_err(refused)?, OAuthAttempts::default());
        loop {
            request.auth = token.clone().map(AuthHeader::bearer);
            let (client, json) = (&self.http.client, json.clone());
            let answer = client.exchange(method.clone(), &request, json).await.map_err(HttpError::Client)?;
            let challenge = challenge(&answer).unwrap_or_default();
            let how = match answer.status() {
                StatusCode::UNAUTHORIZED => OAuthChallenge::Token,
                StatusCode::FORBIDDEN if lacks_rights(&challenge, &self.http.url) => OAuthChallenge::Rights,
                _ => return Ok(answer),
            };
            // Not a retry: the server has refused the request and done nothing.
            token = Some(manager.another(how, &challenge, token.as_ref(), &mut tried).await.map_err(refused)?);
        }
    }
}

/// Returns the headers that name the span of a call, which the metadata of its message name too.
fn span_headers(message: &ClientJsonRpcMessage) -> impl Iterator<Item = (String, Secret)> + use<> {
    let call = match message {
        ClientJsonRpcMessage::Request(JsonRpcRequest { request: ClientRequest::CallToolRequest(call), .. }) => {
            Some(&call.params)
        }
        _ => None,
    };
    let named = [
        (TRACEPARENT, call.and_then(|call| call.traceparent())),
        (TRACESTATE, call.and_then(|call| call.tracestate())),
    ];
    named.map(|(name, value)| Some((name.to_owned(), Secret::new(value?)))).into_iter().flatten()
}

/// Returns the error for a server that wants a credential. Its text reaches the caller.
fn wanted(why: String) -> HttpError {
    HttpError::AuthRequired(AuthRequiredError::new(why))
}

fn refused(refusal: OAuthError) -> HttpError {
    match refusal {
        OAuthError::Denied(why) => wanted(why),
        OAuthError::Fault(fault) => HttpError::Client(fault),
    }
}

fn lacks_rights(challenge: &str, server: &Url) -> bool {
    WWWAuthenticateParams::parse(challenge, server).is_insufficient_scope()
}

impl StreamableHttpClient for McpHttpClient {
    type Error = Fault;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: ProtocolHeaders,
    ) -> Result<StreamableHttpPostResponse, HttpError> {
        let further = [(HEADER_SESSION_ID, session.as_deref()), ("", None)];
        let answer = self.exchange(Method::POST, Some(&message), headers, further).await?;
        let status = answer.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(HttpError::SessionExpired);
        }
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request),
            _ => None,
        };
        if !status.is_success() {
            let is_probe = session.is_none() && request.is_some_and(asks_for_revisions);
            return refusal(answer, request.filter(|_| is_probe)).await;
        }
        let new_session = header(answer.headers(), HEADER_SESSION_ID);
        match McpResponseKind::of(answer.headers()) {
            McpResponseKind::Events => Ok(StreamableHttpPostResponse::Sse(events(answer.into_stream()), new_session)),
            McpResponseKind::Json => match read_message(&whole(answer).await?) {
                Ok(message) => Ok(StreamableHttpPostResponse::Json(message, new_session)),
                Err(Some(answer)) => Ok(StreamableHttpPostResponse::Json(*answer, new_session)),
                Err(None) if request.is_none() => Ok(StreamableHttpPostResponse::Accepted),
                Err(None) => Err(unexpected("the answer is not a message of the protocol")),
            },
            // No caller awaits an answer to a notification or an answer.
            McpResponseKind::Other(_) if request.is_none() => Ok(StreamableHttpPostResponse::Accepted),
            McpResponseKind::Other(kind) => Err(HttpError::UnexpectedContentType(kind)),
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: ProtocolHeaders,
    ) -> Result<(), HttpError> {
        let further = [(HEADER_SESSION_ID, Some(&*session)), ("", None)];
        let answer = self.exchange(Method::DELETE, None, headers, further).await?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            StatusCode::METHOD_NOT_ALLOWED => Err(HttpError::ServerDoesNotSupportDeleteSession),
            status => Err(unexpected(&format!("the server answered {status}"))),
        }
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        headers: ProtocolHeaders,
    ) -> Result<McpSseStream, HttpError> {
        let further = [(HEADER_SESSION_ID, session.as_deref()), (HEADER_LAST_EVENT_ID, last_event.as_deref())];
        let answer = self.exchange(Method::GET, None, headers, further).await?;
        match (answer.status(), McpResponseKind::of(answer.headers())) {
            (StatusCode::METHOD_NOT_ALLOWED, _) => Err(HttpError::ServerDoesNotSupportSse),
            (status, McpResponseKind::Events) if status.is_success() => Ok(events(answer.into_stream())),
            (status, McpResponseKind::Json) if status.is_success() => {
                Err(HttpError::UnexpectedContentType(Some("JSON".into())))
            }
            (status, McpResponseKind::Other(kind)) if status.is_success() => {
                Err(HttpError::UnexpectedContentType(kind))
            }
            (status, _) => Err(unexpected(&format!("the server answered {status}"))),
        }
    }
}

/// The kind of a response, by its content type.
enum McpResponseKind {
    Json,
    Events,
    Other(Option<String>),
}

impl McpResponseKind {
    fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(::http::header::CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()));
        let kind = value.as_deref().and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        match kind.to_ascii_lowercase().as_str() {
            "application/json" => Self::Json,
            "text/event-stream" => Self::Events,
            _ => Self::Other(value.as_deref().map(shown)),
        }
    }
}

/// Returns a response header unless it is longer than allowed.
fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    (value.len() <= limits::MCP_SESSION_ID_BYTES).then(|| value.to_owned())
}

/// Returns the `WWW-Authenticate` headers, joined into one line.
fn challenge(answer: &HttpResponse) -> Option<String> {
    let all = answer.headers().get_all(::http::header::WWW_AUTHENTICATE).iter();
    let challenges = all.filter_map(|value| value.to_str().ok()).collect::<Vec<_>>().join(", ");
    (!challenges.is_empty() && challenges.len() <= limits::OAUTH_CHALLENGE_BYTES).then_some(challenges)
}

fn unexpected(why: &str) -> HttpError {
    HttpError::UnexpectedServerResponse(why.to_owned().into())
}

async fn whole(answer: HttpResponse) -> Result<Vec<u8>, HttpError> {
    let (mut bytes, mut stream) = (Vec::new(), answer.into_stream());
    while let Some(chunk) = stream.next().await {
        bytes.extend(chunk.map_err(HttpError::Client)?);
        if bytes.len() > limits::MCP_MESSAGE_BYTES {
            return Err(HttpError::ResponseBodyTooLarge { max_size: limits::MCP_MESSAGE_BYTES });
        }
    }
    Ok(bytes)
}

fn asks_for_revisions(request: &JsonRpcRequest<ClientRequest>) -> bool {
    matches!(request.request, ClientRequest::DiscoverRequest(_))
}

/// Converts a response with a failure status. `probe` is the discovery request of the newest revision: a server that
/// refuses it with any client error except 403 and 429 is taken for one of an earlier revision.
async fn refusal(
    answer: HttpResponse,
    probe: Option<&JsonRpcRequest<ClientRequest>>,
) -> Result<StreamableHttpPostResponse, HttpError> {
    let (status, session) = (answer.status(), header(answer.headers(), HEADER_SESSION_ID));
    let after = header(answer.headers(), ::http::header::RETRY_AFTER.as_str());
    let body = answer.beginning(limits::ERROR_BODY_BYTES).await;
    let error = match read_message(&body) {
        Ok(ServerJsonRpcMessage::Error(error)) => Some(error),
        _ => None,
    };
    let is_legacy =
        status.is_client_error() && !matches!(status, StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS);
    match (error, probe) {
        // The id of the error may be missing or wrong.
        (error, Some(probe)) if is_legacy => {
            let refused = || ErrorData::invalid_request(format!("the server answered {status}"), None);
            let error = error.map_or_else(refused, |error| error.error);
            let answer = ServerJsonRpcMessage::error(error, Some(probe.id.clone()));
            Ok(StreamableHttpPostResponse::Json(answer, None))
        }
        (Some(error), _) => Ok(StreamableHttpPostResponse::Json(ServerJsonRpcMessage::Error(error), session)),
        (None, _) if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
            Err(HttpStatusError::new(status.as_u16(), after).into())
        }
        (None, _) if status.is_redirection() => Err(unexpected(&format!(
            "the server answered {status}: redirects are not followed; configure the target address instead"
        ))),
        (None, _) => {
            Err(unexpected(&format!("the server answered {status}: {}", shown(&String::from_utf8_lossy(&body)))))
        }
    }
}

/// Returns the events of a stream; each is bounded as a message is.
fn events(stream: ByteStream) -> McpSseStream {
    let events = SseEventStream::new(stream, limits::MCP_MESSAGE_BYTES).with_bare();
    let next = |(mut events, mut messages): (SseEventStream, u64)| async move {
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return None,
            Err(fault) => {
                let ended = SseEventStream::new(stream::empty().boxed(), 0);
                return Some((Err(SseError::Body(Box::new(fault))), (ended, messages)));
            }
        };
        let bytes = event.data.as_bytes();
        let data = if has_too_many_values(bytes) {
            too_many_values(bytes).and_then(|answer| serde_json::to_string(&answer).ok())
        } else if is_deeper(bytes, limits::MCP_MESSAGE_DEPTH) {
            // `rmcp` drops what it cannot parse, and the caller would wait on.
            let readable = read_deep_message(bytes).map(Box::new).or_else(|answer| answer.ok_or(()));
            readable.ok().and_then(|message| serde_json::to_string(&message).ok())
        } else {
            Some(event.data.clone()).filter(|data| !data.is_empty())
        };
        // Only messages count as progress, however often other events come.
        let is_message = data.as_ref().is_some_and(|data| read_message(data.as_bytes()).is_ok());
        let pause = |millis: u64| {
            let [least, most] = [limits::FIRST_RETRY_PAUSE, limits::RETRY_PAUSE].map(|pause| pause.as_millis() as u64);
            millis.clamp(least, most)
        };
        let sse = Sse {
            event: Some(event.name.clone()).filter(|name| !name.is_empty()),
            data,
            id: event.id.clone().filter(|id| id.len() <= limits::MCP_SESSION_ID_BYTES),
            retry: event.retry.map(pause),
        };
        if is_message {
            messages += 1;
            events.note_progress(messages);
        }
        Some((Ok(sse), (events, messages)))
    };
    stream::unfold((events, 0), next).boxed()
}
