//! The HTTP client of all requests of a login.

use std::sync::{
    Mutex, OnceLock, PoisonError,
    atomic::{AtomicU32, Ordering},
};

use ::http::{HeaderName, HeaderValue, Method, Response, StatusCode, header, response};
use futures_util::StreamExt;
use ipnet::IpNet;
use rmcp::transport::auth::{OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest};
use serde_json::{Map, Value};
use url::{Host, Position, Url};

use crate::error_text::shown;
use shelly_core::{
    capability::{AllowedAddresses, is_localhost, loopback},
    error::Fault,
    limits,
};
use shelly_net::{HttpClient, HttpRequest, HttpResponse, Retries, Secret, header_name, origin};

/// Sends the requests of a login, and none to a forbidden address: a server names its authorization servers, and those name
/// where codes and secrets are sent.
pub(super) struct OAuthHttp {
    /// The base of `client`, which is built at its first use: few runs renew a token.
    of: HttpClient,
    client: OnceLock<Result<HttpClient, Fault>>,
    server: Url,
    reaches: AllowedAddresses,
    left: AtomicU32,
    failed: Mutex<Option<Fault>>,
}

/// The response headers that are of use.
const HEADERS: [HeaderName; 3] = [header::CONTENT_TYPE, header::LOCATION, header::WWW_AUTHENTICATE];

/// The fields of a token response that are handed on. Other fields, such as an ID token, are secrets too, and of no use.
const TOKEN_FIELDS: [&str; 8] =
    ["access_token", "token_type", "expires_in", "refresh_token", "scope", "error", "error_description", "error_uri"];

impl OAuthHttp {
    /// Returns a client for the logins at this server. Authorization servers may also be in these networks.
    pub fn new(client: &HttpClient, server: &Url, networks: &[IpNet]) -> Self {
        let here = if is_here(server) { loopback().to_vec() } else { Vec::new() };
        let reaches = AllowedAddresses::public_and(networks.iter().copied().chain(here));
        let (left, failed) = (AtomicU32::new(limits::OAUTH_REQUESTS), Mutex::default());
        Self { of: client.clone(), client: OnceLock::new(), server: server.clone(), reaches, left, failed }
    }

    /// Resets the request budget and the last failure: a new operation begins.
    pub fn begin(&self) {
        self.left.store(limits::OAUTH_REQUESTS, Ordering::Relaxed);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Returns the failure of the last request: it got no response, or a server error; `None` if it succeeded.
    pub fn failed(&self) -> Option<Fault> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks an address to which a request or a person is about to be sent.
    ///
    /// # Errors
    ///
    /// [`Fault::Denied`] if it is not allowed.
    pub fn check(&self, url: &Url) -> Result<(), Fault> {
        let shown = shown(&url[..Position::AfterPath]);
        let denied =
            |why: &str| Err(Fault::Denied { message: format!("the login must not send requests to `{shown}`: {why}") });
        if url.as_str().len() > limits::OAUTH_URL_BYTES {
            return denied("the URL is too long");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return denied("the URL has a user or a password");
        }
        let is_loopback_too = is_here(url) && is_here(&self.server);
        match url.scheme() {
            "https" => {}
            "http" if is_loopback_too => {}
            _ => return denied("the URL does not begin with https://"),
        }
        let is_reached = match url.host() {
            Some(Host::Ipv4(address)) => self.reaches.holds(address.into()),
            Some(Host::Ipv6(address)) => self.reaches.holds(address.into()),
            Some(Host::Domain(name)) => !is_localhost(name) || is_loopback_too,
            None => false,
        };
        // The user has configured the server's own host.
        if is_reached || url.host() == self.server.host() {
            Ok(())
        } else {
            denied("the address is in a private network; add it to `networks` of the server")
        }
    }

    async fn go(&self, request: OAuthHttpRequest) -> Result<Response<Vec<u8>>, Fault> {
        let OAuthHttpRequest { request, redirect_policy, timeout, .. } = request;
        let (parts, body) = request.into_parts();
        let wrong = |why: &str| Fault::invalid(format!("cannot send a request of the login: {why}"));
        let mut url = Url::parse(&parts.uri.to_string()).map_err(|error| wrong(&error.to_string()))?;
        let is_own = |name: &HeaderName| *name == header::ACCEPT || header_name(name.as_str()).is_err();
        let headers = parts.headers.iter().filter(|(name, _)| !is_own(name));
        let text = |value: &HeaderValue| value.to_str().map(Secret::new).map_err(|_| wrong("a header is not text"));
        let headers: Vec<_> =
            headers.map(|(name, value)| Ok((name.to_string(), text(value)?))).collect::<Result<_, Fault>>()?;
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        for _ in 0..=limits::OAUTH_HOPS {
            self.check(&url)?;
            if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() {
                let most = limits::OAUTH_REQUESTS;
                return Err(Fault::other(format!("more than {most} requests for one login")));
            }
            let time = timeout.map_or(limits::OAUTH_TIME, |time| time.min(limits::OAUTH_TIME));
            let request = HttpRequest {
                headers: headers.clone(),
                retries: Retries::NONE,
                repeatable: false,
                total: time,
                idle: time,
                ..HttpRequest::new(url.clone())
            };
            let content = (parts.method != Method::GET).then(|| (kind, body.clone()));
            let client = self.client.get_or_init(|| self.of.reaching(self.reaches.clone()));
            let client = client.as_ref().map_err(Clone::clone)?;
            let answer = client.exchange_content(parts.method.clone(), &request, content).await?;
            match leads_on(&answer, redirect_policy) {
                Some(location) => url = url.join(&location).map_err(|error| wrong(&error.to_string()))?,
                // This request only probes whether the server wants a login. Its body is not read: it may be a stream
                // without end.
                None if url == self.server => {
                    return head(&answer).body(Vec::new()).map_err(|error| wrong(&error.to_string()));
                }
                None => return whole(answer, &origin(&url), is_of_tokens(&parts.method, kind)).await,
            }
        }
        Err(Fault::other(format!("more than {} redirects, possibly a loop", limits::OAUTH_HOPS)))
    }
}

impl OAuthHttpClient for OAuthHttp {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let answer = self.go(request).await;
            let failed = match &answer {
                Ok(answer) if answer.status().is_server_error() => Some(Fault::Unavailable {
                    message: format!("the authorization server answered {}", answer.status()),
                    after: None,
                }),
                Ok(_) => None,
                Err(fault) => Some(fault.clone()),
            };
            *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = failed;
            answer.map_err(Into::into)
        })
    }
}

/// Returns `true` if the URL is one of this machine.
fn is_here(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => is_localhost(name),
        None => false,
    }
}

/// Returns the target of a redirect that keeps the method and the body. No other redirect is followed.
fn leads_on(answer: &HttpResponse, policy: OAuthHttpRedirectPolicy) -> Option<String> {
    let is_same = matches!(answer.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let location = answer.headers().get(header::LOCATION).filter(|_| is_same)?;
    (policy == OAuthHttpRedirectPolicy::Follow).then(|| location.to_str().ok().map(str::to_owned))?
}

fn is_of_tokens(method: &Method, kind: &str) -> bool {
    *method == Method::POST && kind.starts_with("application/x-www-form-urlencoded")
}

/// Returns a response's status and useful headers, without its body.
fn head(answer: &HttpResponse) -> response::Builder {
    let mut response = Response::builder().status(answer.status());
    for name in &HEADERS {
        for value in answer.headers().get_all(name) {
            if value.len() <= limits::OAUTH_CHALLENGE_BYTES {
                response = response.header(name, value);
            }
        }
    }
    response
}

async fn whole(answer: HttpResponse, origin: &str, is_of_tokens: bool) -> Result<Response<Vec<u8>>, Fault> {
    let response = head(&answer);
    let (mut body, mut stream) = (Vec::new(), answer.into_stream());
    while let Some(chunk) = stream.next().await {
        body.extend(chunk?);
        if body.len() > limits::OAUTH_BODY_BYTES {
            let message = format!("{origin} answered with more than {} bytes", limits::OAUTH_BODY_BYTES);
            return Err(Fault::TooLarge { message });
        }
    }
    let mut response = response.body(body).map_err(|error| Fault::other(error.to_string()))?;
    if is_of_tokens {
        tidy(&mut response);
    }
    Ok(response)
}

/// Removes the fields of a token response that are of no use, and normalizes the others.
fn tidy(response: &mut Response<Vec<u8>>) {
    let Ok(mut answer) = serde_json::from_slice::<Map<String, Value>>(response.body()) else { return };
    answer.retain(|name, value| TOKEN_FIELDS.contains(&name.as_str()) && !value.is_null());
    // Some servers give the seconds as a text, or with a fraction.
    if let Some(life) = answer.remove("expires_in") {
        let seconds = life.as_f64().or_else(|| life.as_str()?.trim().parse().ok());
        if let Some(seconds) = seconds.filter(|seconds: &f64| seconds.is_finite()) {
            answer.insert("expires_in".into(), Value::from(seconds.max(0.0) as u64));
        }
    }
    // Some servers answer an error with a success status.
    if answer.contains_key("error") && !answer.contains_key("access_token") && response.status().is_success() {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    if response.status().is_success() {
        *response.status_mut() = StatusCode::OK;
    }
    *response.body_mut() = Value::from(answer).to_string().into_bytes();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(server: &str, networks: &[&str]) -> OAuthHttp {
        let networks: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
        OAuthHttp::new(&HttpClient::new().unwrap(), &server.parse().unwrap(), &networks)
    }

    #[test]
    fn login_requests_go_only_to_https_and_allowed_networks() {
        let (web, here) = ("https://mcp.example/mcp", "http://127.0.0.1:9/mcp");
        let long = format!("https://a.example/{}", "x".repeat(limits::OAUTH_URL_BYTES));
        for (server, networks, url, why) in [
            (web, &[][..], "https://login.example:8443/token", ""),
            (web, &[], "https://1.1.1.1/token", ""),
            (web, &[], "http://login.example/token", "https://"),
            (web, &[], "ftp://login.example/token", "https://"),
            (web, &[], "file:///etc/passwd", "https://"),
            (web, &[], "javascript:alert(1)", "https://"),
            (web, &[], "https://me:pw@login.example/", "a user or a password"),
            (web, &[], "https://10.0.0.1/token", "a private network"),
            (web, &[], "https://169.254.169.254/latest/meta-data", "a private network"),
            (web, &[], "https://[::ffff:127.0.0.1]/", "a private network"),
            (web, &[], "https://127.0.0.1/", "a private network"),
            (web, &[], "https://localhost/", "a private network"),
            (web, &[], "http://localhost:1/", "https://"),
            (web, &[], "https://a.localhost/", "a private network"),
            (web, &[], &long, "too long"),
            (web, &["10.0.0.0/8"], "https://10.0.0.1/token", ""),
            (web, &["10.0.0.0/8"], "https://192.168.0.1/token", "a private network"),
            (web, &["10.0.0.0/8"], "http://10.0.0.1/token", "https://"),
            (here, &[], "http://127.0.0.1:8/token", ""),
            (here, &[], "http://[::1]:8/token", ""),
            (here, &[], "http://localhost:8/token", ""),
            (here, &[], "https://login.example/token", ""),
            (here, &[], "http://login.example/token", "https://"),
            (here, &[], "http://10.0.0.1/token", "https://"),
            (here, &[], "https://10.0.0.1/token", "a private network"),
            ("https://10.0.0.1/mcp", &[], "https://10.0.0.1:8443/token", ""),
            ("https://10.0.0.1/mcp", &[], "https://10.0.0.2/token", "a private network"),
        ] {
            match way(server, networks).check(&url.parse().unwrap()) {
                Ok(()) => assert_eq!(why, "", "{server}: {url}"),
                Err(fault) => assert!(!why.is_empty() && fault.to_string().contains(why), "{server}: {fault}"),
            }
        }
    }

    #[test]
    fn answers_with_tokens_are_made_plain() {
        let tidied = |status: u16, body: &str| {
            let mut response = Response::builder().status(status).body(body.as_bytes().to_vec()).unwrap();
            tidy(&mut response);
            (response.status().as_u16(), String::from_utf8(response.into_body()).unwrap())
        };
        for (status, body, expected) in [
            (
                200,
                r#"{"access_token":"a","id_token":"i","refresh_token":null,"token_type":"Bearer"}"#,
                (200, r#"{"access_token":"a","token_type":"Bearer"}"#),
            ),
            (201, r#"{"access_token":"a","expires_in":"60"}"#, (200, r#"{"access_token":"a","expires_in":60}"#)),
            (200, r#"{"access_token":"a","expires_in":1.5}"#, (200, r#"{"access_token":"a","expires_in":1}"#)),
            (200, r#"{"access_token":"a","expires_in":-5}"#, (200, r#"{"access_token":"a","expires_in":0}"#)),
            (200, r#"{"access_token":"a","expires_in":"soon"}"#, (200, r#"{"access_token":"a"}"#)),
            (200, r#"{"error":"bad_code"}"#, (400, r#"{"error":"bad_code"}"#)),
            (401, r#"{"error":"invalid_client"}"#, (401, r#"{"error":"invalid_client"}"#)),
            (200, "<html>", (200, "<html>")),
        ] {
            assert_eq!(tidied(status, body), (expected.0, expected.1.to_owned()));
        }
    }
}
