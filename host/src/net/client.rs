use std::{
    error::Error,
    fmt, io,
    time::{Duration, SystemTime},
};

use backon::{ExponentialBuilder, Retryable};
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use reqwest::{Method, header};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{Secret, status};
use crate::{error::Fault, limits};

/// The bytes of a reply as they come; after an error nothing more comes.
pub type ByteStream = BoxStream<'static, Result<Vec<u8>, Fault>>;

/// A request to an HTTP server that speaks JSON, and how long it may take.
pub struct Request {
    /// Where to.
    pub url: Url,
    /// Who asks; none: nobody in particular.
    pub auth: Option<Auth>,
    /// Headers beside those of every request, by name. Their values may be credentials too.
    pub headers: Vec<(String, Secret)>,
    /// Attempts after the first.
    pub retries: usize,
    /// From the first attempt to the end of the reply.
    pub total: Duration,
    /// The longest silence in the middle of a reply. How long it takes to begin is bounded by `total` alone: a model
    /// may think, or still be loaded.
    pub idle: Duration,
}

impl Request {
    /// The credential, which nothing may show.
    pub fn key(&self) -> Option<&Secret> {
        self.auth.as_ref().map(|auth| &auth.key)
    }

    /// A request within the bounds of a completion, tried again as often as the house allows.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            auth: None,
            headers: Vec::new(),
            retries: limits::HTTP_RETRIES,
            total: limits::COMPLETION_TIME,
            idle: limits::STREAM_IDLE_TIME,
        }
    }
}

/// A credential and the header that it is sent in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// The header's name.
    pub header: String,
    /// The word before the credential; empty: none.
    pub scheme: String,
    /// The credential.
    pub key: Secret,
}

impl Auth {
    /// `Authorization: Bearer …`.
    pub fn bearer(key: Secret) -> Self {
        Self { header: header::AUTHORIZATION.as_str().into(), scheme: "Bearer".into(), key }
    }

    /// The credential in a header of its own.
    pub fn header(name: impl Into<String>, key: Secret) -> Self {
        Self { header: name.into(), scheme: String::new(), key }
    }

    fn value(&self) -> Result<header::HeaderValue, Fault> {
        let value = match self.scheme.as_str() {
            "" => self.key.expose().into(),
            scheme => format!("{scheme} {}", self.key.expose()),
        };
        let value = header::HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| Fault::invalid("the key has characters that cannot be sent"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Headers that are the transport's own.
const RESERVED_HEADERS: [header::HeaderName; 7] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::ACCEPT_ENCODING,
];

/// The header of this name.
///
/// # Errors
///
/// [`Fault::Invalid`] if it is no name of a header, or of one that is the transport's own.
pub fn header_name(name: &str) -> Result<header::HeaderName, Fault> {
    let shown = name.escape_debug();
    let header = header::HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| Fault::invalid(format!("`{shown}` is no name of a header")))?;
    if RESERVED_HEADERS.contains(&header) {
        return Err(Fault::invalid(format!("the header `{shown}` is set by the host itself")));
    }
    Ok(header)
}

/// The address of an API: `base` with the segments of `path` after its own path; its query is kept.
///
/// # Errors
///
/// [`Fault::Invalid`] if `base` is no `http` or `https` URL or holds a credential. The message does not quote it.
pub fn endpoint(base: &str, path: &[&str]) -> Result<Url, Fault> {
    let mut url = Url::parse(base).map_err(|error| Fault::invalid(format!("the base URL is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::invalid("the base URL does not begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Fault::invalid("the base URL holds a user name or password, which belongs into a secret"));
    }
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    Ok(url)
}

/// Names a server in messages: host, and port if it is not the usual one. Never a path, a query or a credential.
pub fn origin(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the server");
    url.port().map_or_else(|| host.into(), |port| format!("{host}:{port}"))
}

/// The HTTP client of the process. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    http: reqwest::Client,
    first_pause: Duration,
    /// Why no server's certificate can be checked, if so.
    no_roots: Option<String>,
}

impl HttpClient {
    /// A client that trusts whom the operating system trusts. On a machine without root certificates it still speaks
    /// `http`, so that a local model can be used.
    ///
    /// # Errors
    ///
    /// [`Fault::Other`] if TLS cannot be set up.
    pub fn new() -> Result<Self, Fault> {
        // Fails only if one was installed before; then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (http, no_roots) = match builder().build() {
            Ok(http) => (http, None),
            Err(error) => (builder().tls_certs_only([]).build().map_err(|_| cannot_start(&error))?, Some(root(&error))),
        };
        Ok(Self { http, first_pause: limits::FIRST_RETRY_PAUSE, no_roots })
    }

    /// Posts JSON. Failures that may pass are tried again, unless some of a reply has come.
    ///
    /// # Errors
    ///
    /// A [`Fault`] that tells what the server answered or why it did not. It shows neither key nor query.
    pub async fn post(&self, request: &Request, json: Vec<u8>) -> Result<Reply, Fault> {
        self.send(Method::POST, request, Some(json)).await
    }

    /// Gets JSON; in all else like [`HttpClient::post`].
    ///
    /// # Errors
    ///
    /// As [`HttpClient::post`].
    pub async fn get(&self, request: &Request) -> Result<Reply, Fault> {
        self.send(Method::GET, request, None).await
    }

    async fn send(&self, method: Method, request: &Request, json: Option<Vec<u8>>) -> Result<Reply, Fault> {
        let origin = origin(&request.url);
        if let Some(why) = self.no_roots.as_ref().filter(|_| request.url.scheme() == "https") {
            return Err(Fault::other(format!("the certificate of {origin} cannot be checked: {why}")));
        }
        let message = self.message(method, request, json)?;
        let deadline = Instant::now() + request.total;
        let attempt = || async {
            let message = message.try_clone().ok_or_else(|| Fault::other("a request cannot be sent twice"))?;
            self.attempt(message, request, deadline).await
        };
        let pauses = ExponentialBuilder::default().with_min_delay(self.first_pause).with_max_times(request.retries);
        attempt
            .retry(pauses.with_jitter())
            .when(|failed: &Failed| failed.again && failed.fault.is_transient())
            .adjust(|Failed { fault, .. }, pause| {
                let pause = fault.retry_after().unwrap_or(pause?);
                (pause <= limits::RETRY_AFTER_CEILING && Instant::now() + pause < deadline).then_some(pause)
            })
            .notify(|Failed { fault, .. }, pause| tracing::debug!(%origin, %fault, ?pause, "trying again"))
            .await
            .map_err(|failed| failed.fault)
    }

    fn message(&self, method: Method, request: &Request, json: Option<Vec<u8>>) -> Result<reqwest::Request, Fault> {
        let mut builder = self
            .http
            .request(method, request.url.clone())
            .header(header::ACCEPT, "application/json, text/event-stream");
        for (name, value) in &request.headers {
            let name = header_name(name)?;
            let mut value = header::HeaderValue::from_str(value.expose())
                .map_err(|_| Fault::invalid(format!("the header `{name}` has characters that cannot be sent")))?;
            value.set_sensitive(true);
            builder = builder.header(name, value);
        }
        if let Some(auth) = &request.auth {
            builder = builder.header(header_name(&auth.header)?, auth.value()?);
        }
        if let Some(json) = json {
            builder = builder.header(header::CONTENT_TYPE, "application/json").body(json);
        }
        builder.build().map_err(|error| Fault::invalid(format!("the request cannot be sent: {}", root(&error))))
    }

    /// One attempt, until the reply has begun: a server that fails before that has done nothing.
    async fn attempt(&self, message: reqwest::Request, request: &Request, deadline: Instant) -> Result<Reply, Failed> {
        let origin = origin(&request.url);
        let response = timeout_at(deadline, self.http.execute(message))
            .await
            .map_err(|_| timed_out(&origin))?
            .map_err(|error| Failed {
                // Nobody listens on this machine: that does not change within seconds.
                again: !(is_loopback(&request.url) && is_refused(&error)),
                fault: not_reached(&origin, &error),
            })?;
        let (status, after) = (response.status(), retry_after(response.headers()));
        let mut body = Body { response, origin, deadline, idle: request.idle };
        if status.is_success() {
            let first = body.chunk(deadline).await?;
            return Ok(Reply { first, body });
        }
        let said = body.beginning(limits::ERROR_BODY_BYTES).await;
        let said = String::from_utf8_lossy(&said);
        Err(status::fault(&body.origin, status.as_u16(), after, &said, request.key()).into())
    }
}

/// Why an attempt failed, and whether another one is worth it if the fault is one that may pass.
struct Failed {
    fault: Fault,
    again: bool,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, again: true }
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn is_refused(error: &reqwest::Error) -> bool {
    fn source<'a>(error: &&'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
        (*error).source()
    }
    let causes = std::iter::successors(error.source(), source);
    causes
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(concat!("shelly-host/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(limits::CONNECT_TIME)
        // A redirect would carry key and conversation to wherever the server says.
        .redirect(reqwest::redirect::Policy::none())
        // The library does not read the environment, which is where proxies are named.
        .no_proxy()
}

/// The reply to a request, with a status of success. It has begun: its first bytes are here.
pub struct Reply {
    first: Option<Vec<u8>>,
    body: Body,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.body.origin)
    }
}

impl Reply {
    /// The bytes as they come. A cut or a silence beyond the request's bounds is an error, [`Fault::Unavailable`] or
    /// [`Fault::Timeout`].
    pub fn into_stream(self) -> ByteStream {
        let rest = stream::unfold(Some(self.body), |body| async {
            let mut body = body?;
            match body.next().await {
                Ok(chunk) => chunk.map(|chunk| (Ok(chunk), Some(body))),
                Err(fault) => Some((Err(fault), None)),
            }
        });
        stream::iter(self.first.map(Ok)).chain(rest).boxed()
    }

    /// All the bytes.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] beyond `limit` bytes, and those of [`Reply::into_stream`].
    pub async fn read(mut self, limit: usize) -> Result<Vec<u8>, Fault> {
        let mut bytes = self.first.unwrap_or_default();
        while bytes.len() <= limit {
            match self.body.next().await? {
                Some(chunk) => bytes.extend(chunk),
                None => return Ok(bytes),
            }
        }
        Err(Fault::TooLarge { message: format!("{} answered with more than {limit} bytes", self.body.origin) })
    }
}

struct Body {
    response: reqwest::Response,
    origin: String,
    deadline: Instant,
    idle: Duration,
}

impl Body {
    /// The next bytes, after a silence of `idle` at most.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        self.chunk(self.deadline.min(Instant::now() + self.idle)).await
    }

    async fn chunk(&mut self, until: Instant) -> Result<Option<Vec<u8>>, Fault> {
        match timeout_at(until, self.response.chunk()).await {
            Ok(Ok(chunk)) => Ok(chunk.map(|chunk| chunk.to_vec())),
            Ok(Err(error)) => Err(unavailable(format!("{} cut its reply off: {}", self.origin, root(&error)))),
            Err(_) if until == self.deadline => Err(timed_out(&self.origin)),
            Err(_) => {
                Err(unavailable(format!("{} fell silent in the middle of its reply, for {:?}", self.origin, self.idle)))
            }
        }
    }

    /// Up to `limit` bytes of what there is, to explain a failure: that it cannot be had is no other failure.
    async fn beginning(&mut self, limit: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < limit
            && let Ok(Some(chunk)) = self.next().await
        {
            bytes.extend(chunk);
        }
        bytes.truncate(limit);
        bytes
    }
}

/// How long the server asks to wait: seconds or a date.
fn retry_after(headers: &header::HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

fn not_reached(origin: &str, error: &reqwest::Error) -> Fault {
    let why = root(error);
    // Another attempt meets the same certificate.
    if let Some(rustls::Error::InvalidCertificate(_)) = tls_error(error) {
        return Fault::other(format!("the certificate of {origin} is not accepted: {why}"));
    }
    if error.is_timeout() {
        return unavailable(format!("{origin} does not answer: no connection within {:?}", limits::CONNECT_TIME));
    }
    if error.is_connect() {
        return unavailable(format!("cannot connect to {origin}: {why}"));
    }
    unavailable(format!("the connection to {origin} broke before it answered: {why}"))
}

/// The error of TLS at the bottom of `error`: I/O errors hide what they wrap from [`Error::source`].
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    if let Some(error) = error.downcast_ref() {
        return Some(error);
    }
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    tls_error(wrapped.map_or_else(|| error.source(), |wrapped| Some(wrapped))?)
}

/// The innermost cause: what is around it repeats the URL and says less.
fn root(error: &reqwest::Error) -> String {
    // Nothing of reqwest's own is shown: it would name the whole URL.
    let innermost = sources(error).last().map_or_else(|| "the HTTP exchange failed".into(), ToString::to_string);
    status::shown(&innermost, None, limits::ERROR_BYTES)
}

fn sources(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

fn cannot_start(error: &reqwest::Error) -> Fault {
    Fault::other(format!("the HTTP client cannot be set up: {}", root(error)))
}

fn timed_out(origin: &str) -> Fault {
    Fault::Timeout { message: format!("{origin} took too long") }
}

fn unavailable(message: String) -> Fault {
    Fault::Unavailable { message, after: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::test_server::{Answer, TestServer, answer};

    fn client() -> HttpClient {
        HttpClient { first_pause: Duration::ZERO, ..HttpClient::new().unwrap() }
    }

    fn request(server: &TestServer) -> Request {
        Request {
            auth: Some(Auth::bearer(Secret::new("sk-secret"))),
            ..Request::new(endpoint(&server.url, &["v1", "x"]).unwrap())
        }
    }

    async fn post(request: Request) -> Result<String, Fault> {
        let reply = client().post(&request, b"{}".to_vec()).await?.read(1_000).await?;
        Ok(String::from_utf8(reply).unwrap())
    }

    #[tokio::test]
    async fn posts_json_with_the_key_and_returns_the_reply() {
        let server = TestServer::start(vec![answer("200 OK", "", "fine"), answer("200 OK", "", "")]).await;
        assert_eq!(post(request(&server)).await.unwrap(), "fine");
        assert_eq!(post(request(&server)).await.unwrap(), "");
        let sent = server.requests()[0].to_lowercase();
        assert!(sent.starts_with("post /v1/x http/1.1\r\n"), "{sent}");
        for line in ["authorization: bearer sk-secret\r\n", "content-type: application/json\r\n"] {
            assert!(sent.contains(line), "{sent}");
        }
    }

    #[tokio::test]
    async fn a_status_decides_the_case() {
        let kind = |fault: &Fault| serde_json::to_value(fault).unwrap()["kind"].as_str().unwrap().to_owned();
        for (status, expected) in [
            (400, "invalid"),
            (401, "denied"),
            (402, "exhausted"),
            (403, "denied"),
            (404, "not_found"),
            (408, "unavailable"),
            (413, "too_large"),
            (422, "invalid"),
            (429, "rate_limited"),
            (500, "unavailable"),
            (501, "other"),
            (502, "unavailable"),
            (503, "unavailable"),
            (504, "unavailable"),
            (529, "unavailable"),
            (307, "other"),
        ] {
            let body = r#"{"error":{"message":"the key sk-secret has no luck"}}"#;
            let answer = answer(&format!("{status} Odd"), "retry-after: 7\r\nlocation: /elsewhere\r\n", body);
            let server = TestServer::start(vec![answer]).await;
            let fault = post(Request { retries: 0, ..request(&server) }).await.unwrap_err();
            assert_eq!(kind(&fault), expected, "{status}");
            assert!(fault.to_string().contains("the key *** has no luck"), "{fault}");
            assert!(!format!("{fault:?}").contains("sk-secret"), "{fault:?}");
            assert_eq!(fault.retry_after(), fault.is_transient().then_some(Duration::from_secs(7)), "{status}");
            assert_eq!(server.requests().len(), 1, "{status}");
        }
    }

    #[tokio::test]
    async fn what_may_pass_is_tried_again_until_the_cap() {
        let busy = || answer("429 Too Many Requests", "retry-after: 0\r\n", "{}");
        let server =
            TestServer::start(vec![busy(), answer("503 Busy", "", ""), busy(), answer("200 OK", "", "fine")]).await;
        assert_eq!(post(request(&server)).await.unwrap(), "fine");
        assert_eq!(server.requests().len(), 1 + limits::HTTP_RETRIES);

        let server = TestServer::start((0..9).map(|_| busy()).collect()).await;
        let fault = post(request(&server)).await.unwrap_err();
        assert!(matches!(fault, Fault::RateLimited { after: Some(Duration::ZERO), .. }), "{fault:?}");
        assert_eq!(server.requests().len(), 1 + limits::HTTP_RETRIES);
    }

    #[tokio::test]
    async fn a_pause_that_is_too_long_is_reported_instead() {
        let answers = || vec![answer("429 Slow", "retry-after: 61\r\n", ""), answer("200 OK", "", "fine")];
        let server = TestServer::start(answers()).await;
        let fault = post(request(&server)).await.unwrap_err();
        assert_eq!(fault.retry_after(), Some(Duration::from_secs(61)));
        assert_eq!(server.requests().len(), 1);

        let server = TestServer::start(vec![answer("429 Slow", "retry-after: 30\r\n", "")]).await;
        let fault = post(Request { total: Duration::from_secs(20), ..request(&server) }).await.unwrap_err();
        assert_eq!(fault.retry_after(), Some(Duration::from_secs(30)));
    }

    #[tokio::test]
    async fn a_connection_that_breaks_before_the_reply_is_tried_again_and_after_it_not() {
        let none = || Answer { bytes: vec![], stays: false };
        let only_head = || Answer { bytes: b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n".into(), stays: false };
        let server = TestServer::start(vec![none(), only_head(), answer("200 OK", "", "fine")]).await;
        assert_eq!(post(request(&server)).await.unwrap(), "fine");

        let cut = Answer { bytes: b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfi".into(), stays: false };
        let server = TestServer::start(vec![cut, answer("200 OK", "", "fine")]).await;
        let fault = post(request(&server)).await.unwrap_err();
        assert!(
            matches!(fault, Fault::Unavailable { .. }) && fault.to_string().contains("cut its reply off"),
            "{fault}"
        );
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn nobody_there_is_unavailable_and_names_host_and_port() {
        let server = TestServer::start(vec![]).await;
        let (url, request) = (server.url.clone(), request(&server));
        drop(server);
        tokio::task::yield_now().await;
        let fault = client().get(&Request { retries: 1, ..request }).await.unwrap_err();
        let address = url.strip_prefix("http://").unwrap();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
        assert!(fault.to_string().starts_with(&format!("cannot connect to {address}: Connection refused")), "{fault}");
    }

    #[tokio::test]
    async fn silence_is_bounded() {
        let silent = || Answer { bytes: b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfi".into(), stays: true };
        let server = TestServer::start(vec![silent(), silent(), Answer { bytes: vec![], stays: true }]).await;
        let short = Duration::from_millis(20);
        let fault = post(Request { idle: short, ..request(&server) }).await.unwrap_err();
        assert!(matches!(fault, Fault::Unavailable { .. }) && fault.to_string().contains("fell silent"), "{fault}");
        for _ in 0..2 {
            let fault = post(Request { total: short, ..request(&server) }).await.unwrap_err();
            assert!(matches!(fault, Fault::Timeout { .. }), "{fault:?}");
        }
    }

    #[tokio::test]
    async fn a_whole_body_is_bounded() {
        let server = TestServer::start(vec![answer("200 OK", "", &"x".repeat(1_001))]).await;
        let fault = post(request(&server)).await.unwrap_err();
        assert!(matches!(fault, Fault::TooLarge { .. }), "{fault:?}");
    }

    #[tokio::test]
    async fn a_key_that_cannot_be_sent_is_not_shown() {
        let server = TestServer::start(vec![]).await;
        let fault = post(Request { auth: Some(Auth::bearer(Secret::new("sk-\nsecret"))), ..request(&server) })
            .await
            .unwrap_err();
        assert_eq!(fault, Fault::invalid("the key has characters that cannot be sent"));
    }

    #[test]
    fn a_base_url_is_checked_and_never_quoted() {
        let url = endpoint("http://localhost:11434/v1/?version=1", &["chat", "completions"]).unwrap();
        assert_eq!(url.as_str(), "http://localhost:11434/v1/chat/completions?version=1");
        assert_eq!(endpoint("https://api.openai.com/v1", &["models"]).unwrap().path(), "/v1/models");
        assert_eq!(origin(&url), "localhost:11434");
        for bad in ["", "secret", "ftp://secret/v1", "http://user:secret@host/v1", "file:///secret"] {
            let fault = endpoint(bad, &["models"]).unwrap_err();
            assert!(matches!(fault, Fault::Invalid { .. }) && !fault.to_string().contains("secret "), "{fault}");
        }
    }

    #[test]
    fn an_error_of_tls_is_found_below_others() {
        let tls = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let error = io::Error::other(io::Error::other(tls.clone()));
        assert_eq!(tls_error(&error), Some(&tls));
        assert_eq!(tls_error(&io::Error::other("other")), None);
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let after =
            |value: String| retry_after(&header::HeaderMap::from_iter([(header::RETRY_AFTER, value.parse().unwrap())]));
        assert_eq!(after("12".into()), Some(Duration::from_secs(12)));
        let date = |time| after(httpdate::fmt_http_date(time)).unwrap();
        assert_eq!(date(SystemTime::UNIX_EPOCH), Duration::ZERO);
        let in_an_hour = date(SystemTime::now() + Duration::from_secs(3_600)).as_secs();
        assert!((3_590..=3_600).contains(&in_an_hour), "{in_an_hour}");
        assert_eq!(after("soon".into()), None);
    }
}
