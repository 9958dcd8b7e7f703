//! An authorizer that receives the redirect of a browser on this machine.

use std::{
    convert::Infallible,
    fmt,
    sync::{Arc, OnceLock},
};

use ::http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use async_trait::async_trait;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq as _;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
};
use url::Url;

use super::authorizer::Authorizer;
use shelly_core::{
    error::{Fault, without_number},
    limits,
};

/// Shows a person the address of a login, and waits on this machine until the browser is redirected back.
pub struct LoopbackAuthorizer {
    listener: TcpListener,
    redirect: Url,
    show: Box<dyn Fn(&Url) + Send + Sync>,
}

impl fmt::Debug for LoopbackAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loopback({})", self.redirect)
    }
}

impl LoopbackAuthorizer {
    /// Listens on this port of the loopback address; 0 picks a free one. `show` gets the address of the login.
    ///
    /// # Errors
    ///
    /// [`Fault::Unavailable`] if the port cannot be used.
    pub async fn bind(port: u16, show: impl Fn(&Url) + Send + Sync + 'static) -> Result<Self, Fault> {
        let unavailable = |why: &str| Fault::Unavailable {
            message: format!("cannot listen for the redirect of a login on port {port}: {}", without_number(why)),
            after: None,
        };
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| unavailable(&error.to_string()))?;
        let here = listener.local_addr().map_err(|error| unavailable(&error.to_string()))?;
        let redirect = Url::parse(&format!("http://{here}{PATH}")).map_err(|error| unavailable(&error.to_string()))?;
        Ok(Self { listener, redirect, show: Box::new(show) })
    }
}

#[async_trait]
impl Authorizer for LoopbackAuthorizer {
    fn redirect(&self) -> Url {
        self.redirect.clone()
    }

    async fn authorize(&self, url: &Url) -> Result<Url, Fault> {
        let mark = mark_of(url).ok_or_else(|| Fault::invalid("the URL of the login has no `state`"))?;
        let awaited = Arc::new(ExpectedRedirect { redirect: self.redirect.clone(), mark });
        let (came, mut back) = mpsc::channel(1);
        // Dropped with this future; that closes the open connections.
        let mut connections = JoinSet::new();
        (self.show)(url);
        loop {
            tokio::select! {
                biased;
                Some(url) = back.recv() => return Ok(url),
                _ = connections.join_next(), if !connections.is_empty() => {}
                accepted = self.listener.accept(), if connections.len() < limits::OAUTH_CALLBACK_CONNECTIONS => {
                    // A connection that failed to be accepted does not matter.
                    if let Ok((connection, _)) = accepted {
                        connections.spawn(serve(connection, Arc::clone(&awaited), came.clone()));
                    }
                }
            }
        }
    }
}

/// The path of the redirect URL.
const PATH: &str = "/callback";

/// Returns the `state` parameter, which tells a login from every other.
fn mark_of(url: &Url) -> Option<String> {
    url.query_pairs().find(|(name, _)| name == "state").map(|(_, mark)| mark.into_owned())
}

/// The redirect that is waited for.
struct ExpectedRedirect {
    redirect: Url,
    mark: String,
}

impl ExpectedRedirect {
    /// Returns the response for the browser, and the redirect URL if this request ends the login.
    fn read(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> (StatusCode, &'static str, Option<Url>) {
        let here = self.redirect.host_str().zip(self.redirect.port()).map(|(host, port)| format!("{host}:{port}"));
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        // Rejects a foreign page whose host name resolves to this machine (DNS rebinding).
        if host.is_none() || host != here.as_deref() || uri.path() != PATH {
            return (StatusCode::NOT_FOUND, "There is nothing here.", None);
        }
        if *method != Method::GET {
            return (StatusCode::METHOD_NOT_ALLOWED, "There is nothing here.", None);
        }
        let mut url = self.redirect.clone();
        url.set_query(uri.query());
        if mark_of(&url).is_none_or(|mark| mark.as_bytes().ct_ne(self.mark.as_bytes()).into()) {
            return (StatusCode::BAD_REQUEST, "This is not the expected login.", None);
        }
        let names = |wanted: &str| url.query_pairs().any(|(name, _)| name == wanted);
        match (names("error"), names("code")) {
            (false, true) => (StatusCode::OK, "You can close this page and go back to your terminal.", Some(url)),
            _ => (StatusCode::OK, "The login failed. See your terminal for details.", Some(url)),
        }
    }
}

/// Answers one request of a connection.
async fn serve(connection: TcpStream, awaited: Arc<ExpectedRedirect>, came: mpsc::Sender<Url>) {
    let end = OnceLock::new();
    let answer = |request: Request<Incoming>| {
        let (status, text, url) = awaited.read(request.method(), request.uri(), request.headers());
        let _ = url.map(|url| end.set(url));
        std::future::ready(Ok::<_, Infallible>(page(status, text)))
    };
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::OAUTH_CALLBACK_TIME)
        .max_buf_size(limits::OAUTH_CALLBACK_BYTES)
        .keep_alive(false)
        .serve_connection(TokioIo::new(connection), service_fn(answer));
    // A broken connection needs no handling.
    let _ = tokio::time::timeout(limits::OAUTH_CALLBACK_TIME, serving).await;
    if let Some(url) = end.into_inner() {
        // Sent after the page. The channel is full if the browser came twice.
        let _ = came.try_send(url);
    }
}

/// Returns a page with a fixed text: nothing of the request is in it.
fn page(status: StatusCode, text: &'static str) -> Response<String> {
    let body = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>shelly-host</title><p>{text}</p></html>\n"
    );
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let say = |value| ::http::HeaderValue::from_static(value);
    response.headers_mut().extend([
        (header::CONTENT_TYPE, say("text/html; charset=utf-8")),
        (header::CACHE_CONTROL, say("no-store")),
        (header::REFERRER_POLICY, say("no-referrer")),
        (header::X_CONTENT_TYPE_OPTIONS, say("nosniff")),
        (header::CONTENT_SECURITY_POLICY, say("default-src 'none'; frame-ancestors 'none'")),
    ]);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(loopback: &Url, request: &str) -> String {
        let mut connection = TcpStream::connect(("127.0.0.1", loopback.port().unwrap())).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut said = String::new();
        // The server may hang up before it has read all.
        let _ = connection.read_to_string(&mut said).await;
        said
    }

    fn get(loopback: &Url, target: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\n\r\n", loopback.port().unwrap())
    }

    #[tokio::test]
    async fn only_the_matching_redirect_ends_the_login() {
        let (shown, mut addresses) = mpsc::channel(1);
        let loopback = LoopbackAuthorizer::bind(0, move |url| shown.try_send(url.clone()).unwrap()).await.unwrap();
        let redirect = loopback.redirect();
        let asked: Url = "https://login.example/authorize?state=m-1&x=y".parse().unwrap();
        let browser = async {
            assert_eq!(addresses.recv().await.unwrap(), asked);
            let _silent = TcpStream::connect(("127.0.0.1", redirect.port().unwrap())).await.unwrap();
            let long = "x".repeat(2 * limits::OAUTH_CALLBACK_BYTES);
            for (request, status) in [
                (get(&redirect, "/favicon.ico"), "404"),
                (get(&redirect, "/callback"), "400"),
                (get(&redirect, "/callback?code=c&state=m-2"), "400"),
                (get(&redirect, "/callback?code=c&state=m-1").replace("127.0.0.1", "evil.example"), "404"),
                (get(&redirect, "/callback?code=c&state=m-1").replace("GET", "POST"), "405"),
                (get(&redirect, &format!("/callback?state={long}")), "4"),
                ("hello\r\n\r\n".into(), "400"),
                (get(&redirect, "/callback?code=%3Cc%3E&state=m-1&iss=i"), "200"),
            ] {
                let said = ask(&redirect, &request).await;
                let is_cut = said.is_empty() && request.len() > limits::OAUTH_CALLBACK_BYTES;
                assert!(is_cut || said.starts_with(&format!("HTTP/1.1 {status}")), "{said}");
                assert!(!said.contains("m-1") && !said.contains("<c>"), "{said}");
            }
        };
        let (url, ()) = tokio::join!(loopback.authorize(&asked), browser);
        assert_eq!(url.unwrap().as_str(), format!("{redirect}?code=%3Cc%3E&state=m-1&iss=i"));
    }

    #[tokio::test]
    async fn a_login_that_failed_ends_it_too() {
        let loopback = LoopbackAuthorizer::bind(0, |_| {}).await.unwrap();
        let redirect = loopback.redirect();
        let asked: Url = "https://login.example/?state=m".parse().unwrap();
        let request = get(&redirect, "/callback?error=access_denied&state=m");
        let (url, said) = tokio::join!(loopback.authorize(&asked), ask(&redirect, &request));
        assert!(url.unwrap().as_str().ends_with("?error=access_denied&state=m"));
        assert!(said.contains("The login failed") && said.contains("no-store"), "{said}");
        let taken = LoopbackAuthorizer::bind(redirect.port().unwrap(), |_| {}).await.unwrap_err();
        assert!(taken.to_string().starts_with("cannot listen for the redirect of a login on port "), "{taken}");
    }

    #[tokio::test(start_paused = true)]
    async fn silent_connections_do_not_block_the_login() {
        let loopback = LoopbackAuthorizer::bind(0, |_| {}).await.unwrap();
        let redirect = loopback.redirect();
        let asked: Url = "https://login.example/?state=m".parse().unwrap();
        let mut silent = Vec::new();
        for _ in 0..2 * limits::OAUTH_CALLBACK_CONNECTIONS {
            silent.push(TcpStream::connect(("127.0.0.1", redirect.port().unwrap())).await.unwrap());
        }
        let request = get(&redirect, "/callback?code=c&state=m");
        let (url, _) = tokio::join!(loopback.authorize(&asked), ask(&redirect, &request));
        assert!(url.is_ok());
    }
}
