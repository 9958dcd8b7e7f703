use std::{cmp::Reverse, fmt, sync::Arc, time::SystemTime};

use reqwest::{Method, StatusCode, header};
use tokio::time::{Instant, timeout_at};

use super::{
    address::{is_loopback, origin},
    failure::{CANNOT_CHECK, FailedAttempt, cannot_start, is_refused, not_reached, root, timed_out},
    http_request::HttpRequest,
    proxy::{HttpClientConfig, ProxyUrl},
    rate::RateLimits,
    request_header::header_name,
    response::{HttpResponseBody, SuccessResponse},
    retry,
    secret::Secret,
    status,
    tls::TlsTrust,
};
use shelly_core::{error::Fault, limits};

/// The content type and bytes of a message.
type TypedBody<'a> = (&'a str, Vec<u8>);

/// The HTTP client of the process. Clones share its connections.
#[derive(Clone)]
pub struct HttpClient {
    pub(super) http: reqwest::Client,
    pub(super) config: Arc<HttpClientConfig>,
    /// The reason why no server's certificate can be verified, if so.
    pub(super) no_roots: Option<String>,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").field("config", &self.config).finish_non_exhaustive()
    }
}

impl HttpClient {
    /// Creates a client that trusts the operating system's root certificates and connects to servers directly. On a machine
    /// without root certificates it can still use `http`, so that a local model is reachable.
    ///
    /// # Errors
    ///
    /// [`Fault::Other`] if TLS cannot be set up.
    pub fn new() -> Result<Self, Fault> {
        Self::with(HttpClientConfig::default())
    }

    /// Creates a client for a network with a proxy or similar; otherwise like [`HttpClient::new`].
    ///
    /// # Errors
    ///
    /// The errors of [`HttpClient::new`]; [`Fault::Invalid`] if an exception from the proxy is malformed.
    pub fn with(config: HttpClientConfig) -> Result<Self, Fault> {
        let trust = TlsTrust::of_process()?;
        let http = builder(&config, trust.tls.clone())?.build().map_err(|error| cannot_start(&error))?;
        Ok(Self { http, config: Arc::new(config), no_roots: trust.no_roots.clone() })
    }

    /// Returns the secrets that must be redacted from everything a server sends in response to this request: its key, the
    /// values of its headers and query, and the proxy's credentials. Longer ones come first, because one may contain
    /// another.
    pub fn secrets(&self, request: &HttpRequest) -> Vec<Secret> {
        let key = request.auth.iter().map(|auth| auth.key.clone());
        let headers = request.headers.iter().flat_map(|(_, value)| value.parts());
        let query = request.url.query_pairs().flat_map(|(_, value)| Secret::new(value).parts());
        let proxy = self.config.proxy.iter().flat_map(ProxyUrl::secrets);
        let mut secrets: Vec<_> = key.chain(headers).chain(query).chain(proxy).collect();
        secrets.sort_by_key(|secret| Reverse(secret.expose().len()));
        secrets.dedup();
        secrets
    }

    /// Posts JSON. Transient failures are retried, unless a part of the reply has arrived.
    ///
    /// # Errors
    ///
    /// A [`Fault`] with the server's response, or the reason why there was none. It shows neither key nor query.
    pub async fn post(&self, request: &HttpRequest, json: Vec<u8>) -> Result<SuccessResponse, Fault> {
        self.send(Method::POST, request, Some(("application/json", json))).await
    }

    /// Posts bytes with the content type `kind`; otherwise like [`HttpClient::post`].
    ///
    /// # Errors
    ///
    /// The errors of [`HttpClient::post`]; [`Fault::Invalid`] for a content type that cannot be sent.
    pub async fn upload(&self, request: &HttpRequest, kind: &str, bytes: Vec<u8>) -> Result<SuccessResponse, Fault> {
        self.send(Method::POST, request, Some((kind, bytes))).await
    }

    /// Gets JSON; otherwise like [`HttpClient::post`].
    ///
    /// # Errors
    ///
    /// The errors of [`HttpClient::post`].
    pub async fn get(&self, request: &HttpRequest) -> Result<SuccessResponse, Fault> {
        self.send(Method::GET, request, None).await
    }

    /// Sends a DELETE request; otherwise like [`HttpClient::post`].
    ///
    /// # Errors
    ///
    /// The errors of [`HttpClient::post`].
    pub async fn delete(&self, request: &HttpRequest) -> Result<SuccessResponse, Fault> {
        self.send(Method::DELETE, request, None).await
    }

    async fn send(
        &self,
        method: Method,
        request: &HttpRequest,
        content: Option<TypedBody<'_>>,
    ) -> Result<SuccessResponse, Fault> {
        let message = self.message(method, request, content)?;
        let deadline = Instant::now() + request.total;
        let attempt = || async {
            let message = message.try_clone().ok_or_else(|| Fault::other("a request cannot be sent twice"))?;
            self.attempt(message, request, deadline).await
        };
        self.again(request, deadline, attempt).await
    }

    /// Repeats `attempt` until it succeeds, fails with a permanent fault, or the request's [`Retries`] are used up.
    pub(super) async fn again<T, F: Future<Output = Result<T, FailedAttempt>>>(
        &self,
        request: &HttpRequest,
        deadline: Instant,
        attempt: impl Fn() -> F,
    ) -> Result<T, Fault> {
        let origin = origin(&request.url);
        if let Some(why) = self.no_roots.as_ref().filter(|_| request.url.scheme() == "https") {
            return Err(Fault::other(format!("the certificate of {origin} {CANNOT_CHECK}: {why}")));
        }
        request.retries.repeat(&origin, deadline, &request.observer, attempt).await
    }

    pub(super) fn message(
        &self,
        method: Method,
        request: &HttpRequest,
        content: Option<TypedBody<'_>>,
    ) -> Result<reqwest::Request, Fault> {
        let mut builder = self.http.request(method, request.url.clone());
        if !request.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(header::ACCEPT.as_str())) {
            builder = builder.header(header::ACCEPT, "application/json, text/event-stream");
        }
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
        if let Some((kind, bytes)) = content {
            if bytes.is_empty() {
                // The library then omits the length, which some servers require.
                builder = builder.header(header::CONTENT_LENGTH, "0");
            }
            builder = builder.header(header::CONTENT_TYPE, kind).body(bytes);
        }
        builder.build().map_err(|error| Fault::invalid(format!("the request cannot be sent: {}", root(&error))))
    }

    /// Makes one attempt, up to the beginning of the reply: a server that fails before that has done nothing.
    async fn attempt(
        &self,
        message: reqwest::Request,
        request: &HttpRequest,
        deadline: Instant,
    ) -> Result<SuccessResponse, FailedAttempt> {
        let (mut body, rate_limits) = self.execute(message, request, deadline, StatusCode::is_success).await?;
        if let Some(encoding) = body.encoding(&self.secrets(request)) {
            let message = format!("{} sent a compressed reply ({encoding}) that was not requested", body.origin);
            return Err(Fault::other(message).into());
        }
        let first = body.chunk(deadline).await.map_err(|fault| FailedAttempt { fault, again: request.repeatable })?;
        Ok(SuccessResponse { first, body, rate_limits })
    }

    /// Sends the request once. A response whose status is not `wanted` becomes the corresponding fault.
    pub(super) async fn execute(
        &self,
        message: reqwest::Request,
        request: &HttpRequest,
        deadline: Instant,
        wanted: impl Fn(&StatusCode) -> bool,
    ) -> Result<(HttpResponseBody, RateLimits), FailedAttempt> {
        let origin = origin(&request.url);
        let proxy = self.config.proxy.as_ref().filter(|_| !is_loopback(&request.url));
        let response = timeout_at(deadline, self.http.execute(message))
            .await
            .map_err(|_| timed_out(&origin))?
            .map_err(|error| {
                FailedAttempt {
                    // If nothing listens on this machine, that does not change within seconds.
                    again: (request.repeatable || error.is_connect())
                        && !(is_loopback(proxy.map_or(&request.url, |proxy| proxy.url())) && is_refused(&error)),
                    fault: not_reached(&origin, proxy, &error),
                }
            })?;
        let (status, headers) = (response.status(), response.headers());
        let rate_limits = RateLimits::of(headers, SystemTime::now());
        if let Some(heard) = request.heard.as_ref().filter(|_| !rate_limits.is_empty()) {
            heard.send_replace(rate_limits);
        }
        let after = retry::asked(headers, status, &rate_limits);
        let again = retry::may_send_again(headers) && (request.repeatable || !retry::is_of_gateway(status));
        let mut body = HttpResponseBody { response, origin, deadline, idle: request.idle };
        if wanted(&status) {
            return Ok((body, rate_limits));
        }
        let text = body.beginning(limits::ERROR_BODY_BYTES).await;
        let text = String::from_utf8_lossy(&text);
        let fault = status::fault(&body.origin, status.as_u16(), after, &text, &self.secrets(request));
        Err(FailedAttempt { fault, again })
    }
}

pub(super) fn builder(config: &HttpClientConfig, tls: rustls::ClientConfig) -> Result<reqwest::ClientBuilder, Fault> {
    let builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("shelly-host/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(limits::CONNECT_TIME)
        // A redirect would carry the key and the conversation to an address of the server's choice.
        .redirect(reqwest::redirect::Policy::none())
        // Models stream their replies, and compression would delay the pieces.
        .no_gzip()
        .no_deflate()
        .no_brotli()
        // Keeps the library from reading proxies from the environment.
        .no_proxy();
    Ok(match config.proxy()? {
        Some(proxy) => builder.proxy(proxy),
        None => builder,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;

    use super::*;
    use crate::{AuthHeader, Retries, endpoint};
    use shelly_test_support::{CannedResponse, TestServer, answer};

    /// The default number of retries, without pauses except those that the server asks for.
    const AT_ONCE: Retries = Retries { first_pause: Duration::ZERO, ..Retries::DEFAULT };

    fn request(server: &TestServer) -> HttpRequest {
        let request = HttpRequest::new(endpoint(&server.url, &["v1", "x"]).unwrap());
        HttpRequest { auth: Some(AuthHeader::bearer(Secret::new("sk-secret"))), retries: AT_ONCE, ..request }
    }

    async fn post(request: HttpRequest) -> Result<String, Fault> {
        let reply = HttpClient::new()?.post(&request, b"{}".to_vec()).await?.read(1_000).await?;
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
            let fault = post(HttpRequest { retries: Retries::NONE, ..request(&server) }).await.unwrap_err();
            assert_eq!(kind(&fault), expected, "{status}");
            assert!(fault.to_string().contains("the key *** has no luck"), "{fault}");
            assert!(!format!("{fault:?}").contains("sk-secret"), "{fault:?}");
            assert_eq!(fault.retry_after(), fault.is_transient().then_some(Duration::from_secs(7)), "{status}");
            assert_eq!(server.requests().len(), 1, "{status}");
        }
    }

    #[tokio::test]
    async fn transient_failure_is_retried_up_to_limit() {
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
        let fault = post(HttpRequest { total: Duration::from_secs(20), ..request(&server) }).await.unwrap_err();
        assert_eq!(fault.retry_after(), Some(Duration::from_secs(30)));
    }

    #[tokio::test]
    async fn connection_broken_before_reply_is_retried_later_not() {
        let none = || CannedResponse { bytes: vec![], stays: false };
        let only_head =
            || CannedResponse { bytes: b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n".into(), stays: false };
        let server = TestServer::start(vec![none(), only_head(), answer("200 OK", "", "fine")]).await;
        assert_eq!(post(request(&server)).await.unwrap(), "fine");

        let cut = CannedResponse { bytes: b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfi".into(), stays: false };
        let server = TestServer::start(vec![cut, answer("200 OK", "", "fine")]).await;
        let fault = post(request(&server)).await.unwrap_err();
        assert!(
            matches!(fault, Fault::Unavailable { .. }) && fault.to_string().contains("ended its reply early"),
            "{fault}"
        );
        assert_eq!(server.requests().len(), 1);
    }

    #[tokio::test]
    async fn nonrepeatable_request_is_retried_only_if_refused() {
        let broken = [&b""[..], b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"];
        let broken = broken.map(|bytes| (CannedResponse { bytes: bytes.into(), stays: false }, false));
        let said = |status: &str| answer(status, "retry-after: 0\r\n", "{}");
        let refused = ["429 Slow", "500 Odd", "503 Busy", "529 Busy"].map(|status| (said(status), true));
        let unsure = ["502 Bad Gateway", "504 Gateway Timeout", "524 Timeout"].map(|status| (said(status), false));
        for (first, is_sent_again) in refused.into_iter().chain(unsure).chain(broken) {
            let shown = String::from_utf8_lossy(&first.bytes).into_owned();
            let server = TestServer::start(vec![first, answer("200 OK", "", "fine")]).await;
            let outcome = post(HttpRequest { repeatable: false, ..request(&server) }).await;
            assert_eq!(
                (outcome.is_ok(), server.requests().len()),
                (is_sent_again, 1 + usize::from(is_sent_again)),
                "{shown}"
            );
        }
    }

    #[tokio::test]
    async fn upload_has_its_content_type_and_delete_no_body() {
        let fine = || answer("200 OK", "", "fine");
        let server = TestServer::start(vec![fine(), fine(), fine()]).await;
        let (client, request) = (HttpClient::new().unwrap(), request(&server));
        client.upload(&request, "text/plain", b"some".into()).await.unwrap();
        client.delete(&request).await.unwrap();
        client.post(&request, vec![]).await.unwrap();
        let sent = server.requests();
        assert!(sent[0].starts_with("POST /v1/x ") && sent[0].contains("content-type: text/plain\r\n"), "{}", sent[0]);
        assert!(sent[0].ends_with("\r\n\r\nsome"), "{}", sent[0]);
        assert!(sent[1].starts_with("DELETE /v1/x ") && !sent[1].contains("content-type"), "{}", sent[1]);
        assert!(sent[2].contains("content-length: 0\r\n"), "{}", sent[2]);
        let fault = client.upload(&request, "text\n", vec![]).await.unwrap_err();
        assert!(matches!(fault, Fault::Invalid { .. }), "{fault:?}");
    }

    #[tokio::test]
    async fn refused_connection_is_unavailable_with_host_and_port() {
        let server = TestServer::start(vec![]).await;
        let (url, request) = (server.url.clone(), request(&server));
        drop(server);
        tokio::task::yield_now().await;
        let fault = HttpClient::new()
            .unwrap()
            .get(&HttpRequest { retries: Retries { times: 1, ..AT_ONCE }, ..request })
            .await
            .unwrap_err();
        let address = url.strip_prefix("http://").unwrap();
        assert!(matches!(fault, Fault::Unavailable { .. }), "{fault:?}");
        assert!(fault.to_string().starts_with(&format!("cannot connect to {address}: Connection refused")), "{fault}");
    }

    #[tokio::test]
    async fn silence_is_bounded() {
        let silent = || CannedResponse { bytes: b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nfi".into(), stays: true };
        let server = TestServer::start(vec![silent(), silent(), CannedResponse { bytes: vec![], stays: true }]).await;
        let short = Duration::from_millis(20);
        let fault = post(HttpRequest { idle: short, ..request(&server) }).await.unwrap_err();
        assert!(
            matches!(fault, Fault::Unavailable { .. }) && fault.to_string().contains("sent nothing for"),
            "{fault}"
        );
        for _ in 0..2 {
            let fault = post(HttpRequest { total: short, ..request(&server) }).await.unwrap_err();
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
        let fault =
            post(HttpRequest { auth: Some(AuthHeader::bearer(Secret::new("sk-\nsecret"))), ..request(&server) })
                .await
                .unwrap_err();
        assert_eq!(fault, Fault::invalid("the key has characters that cannot be sent"));
    }

    #[tokio::test]
    async fn rate_limit_headers_are_reported() {
        let said = |left| format!("x-ratelimit-remaining-requests: {left}\r\nx-ratelimit-reset-requests: 1m0s\r\n");
        let server = TestServer::start(vec![
            answer("429 Slow", &(said(0) + "x-should-retry: false\r\n"), ""),
            answer("200 OK", &said(7), ""),
            answer("200 OK", "", ""),
        ])
        .await;
        let (sender, heard) = watch::channel(RateLimits::default());
        let request = HttpRequest { heard: Some(sender), ..request(&server) };
        let client = HttpClient::new().unwrap();

        let fault = client.get(&request).await.unwrap_err();
        assert_eq!(fault.retry_after(), Some(Duration::from_secs(60)));
        assert_eq!((server.requests().len(), heard.borrow().requests.remaining), (1, Some(0)));
        let reply = client.get(&request).await.unwrap();
        assert_eq!((reply.rate_limits(), reply.rate_limits().requests.remaining), (&*heard.borrow(), Some(7)));
        let reply = client.get(&request).await.unwrap();
        assert!(reply.rate_limits().is_empty());
        assert_eq!(heard.borrow().requests.remaining, Some(7), "who says nothing changes nothing");
    }
}
