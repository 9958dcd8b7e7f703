use std::fmt;

use percent_encoding::percent_decode_str;
use url::Url;

use super::{address::origin, secret::Secret};
use shelly_core::{error::Fault, limits};

/// The settings for networks with a proxy. By default there is none, because the library does not read the environment, the
/// usual place for a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpClientConfig {
    /// The proxy through which servers are reached. Never used for servers on this machine.
    pub proxy: Option<ProxyUrl>,
    /// Servers that are reached without the proxy: a host, which includes its subdomains, an address, a network such as
    /// `10.0.0.0/8`, or `*`. At most [`limits::PROXY_EXCEPTIONS`].
    pub no_proxy: Vec<String>,
}

impl HttpClientConfig {
    /// Servers on this machine: to a proxy, `localhost` is another machine.
    const NEVER: &str = "localhost,127.0.0.0/8,::1";

    /// Returns the proxy in the form that the HTTP client accepts.
    pub(super) fn proxy(&self) -> Result<Option<reqwest::Proxy>, Fault> {
        let most = limits::PROXY_EXCEPTIONS;
        if self.no_proxy.len() > most {
            return Err(Fault::invalid(format!(
                "more than {most} servers are excluded from the proxy; name networks instead"
            )));
        }
        if self.no_proxy.iter().any(|host| !is_exception(host)) {
            return Err(Fault::invalid(
                "a server that is excluded from the proxy is invalid; write a host, an address, a network such as \
                 10.0.0.0/8, or *",
            ));
        }
        let Some(proxy) = &self.proxy else { return Ok(None) };
        let exceptions = self.no_proxy.iter().fold(Self::NEVER.to_owned(), |all, host| all + "," + host);
        let exceptions = reqwest::NoProxy::from_string(&exceptions);
        // The error may quote the URL.
        let made = reqwest::Proxy::all(proxy.0.as_str()).map_err(|_| unusable("the HTTP client rejects it"))?;
        Ok(Some(made.no_proxy(exceptions)))
    }
}

fn is_exception(host: &str) -> bool {
    (1..=limits::PROXY_EXCEPTION_BYTES).contains(&host.len())
        && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/' | '*'))
}

/// The address of a proxy. User and password are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyUrl(Url);

impl ProxyUrl {
    /// Parses a URL with `http://`, `https://`, `socks5://` (names are resolved on this machine) or `socks5h://` (names are
    /// resolved by the proxy), optionally with user and password.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the text is not such a URL. The message does not quote it.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let text = text.trim();
        if text.len() > limits::PROXY_URL_BYTES {
            return Err(unusable(&format!("more than {} bytes", limits::PROXY_URL_BYTES)));
        }
        let url = Url::parse(text).map_err(|error| unusable(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https" | "socks5" | "socks5h") {
            return Err(unusable("must begin with http://, https://, socks5:// or socks5h://"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(unusable("the host is missing"));
        }
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(unusable(
                "unexpected text after host and port (write `/`, `?`, `#` in a password as %2F, %3F, %23)",
            ));
        }
        Ok(Self(url))
    }

    /// Returns the password, and `user:password` as it is sent.
    pub fn secrets(&self) -> Vec<Secret> {
        let Some(password) = self.0.password().map(decoded) else { return Vec::new() };
        let both = format!("{}:{password}", decoded(self.0.username()));
        vec![Secret::new(both), Secret::new(password)]
    }

    pub(super) fn url(&self) -> &Url {
        &self.0
    }
}

/// Decodes the percent-encoding of a part of a URL.
fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

fn unusable(why: &str) -> Fault {
    Fault::invalid(format!("invalid URL of the proxy: {why}"))
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.0.scheme(), origin(&self.0))
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProxyUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::{HttpClient, HttpRequest, Retries, endpoint};
    use shelly_test_support::{TestServer, answer};

    fn client(proxy: &str, no_proxy: &[&str]) -> HttpClient {
        let no_proxy = no_proxy.iter().map(|host| (*host).to_owned()).collect();
        let config = HttpClientConfig { proxy: Some(ProxyUrl::parse(proxy).unwrap()), no_proxy };
        // Ignores missing root certificates: the tested requests end before one is needed.
        HttpClient { no_roots: None, ..HttpClient::with(config).unwrap() }
    }

    /// Returns the URL of a proxy with credentials.
    fn with_user(server: &TestServer) -> String {
        server.url.replace("http://", "http://me:p%40ss-word@")
    }

    async fn get(client: &HttpClient, base: &str) -> Result<Vec<u8>, Fault> {
        let request = HttpRequest { retries: Retries::NONE, ..HttpRequest::new(endpoint(base, &["models"]).unwrap()) };
        client.get(&request).await?.read(100).await
    }

    #[test]
    fn a_url_is_checked_and_never_shown() {
        for (text, shown) in [
            ("http://proxy:3128", Ok("http://proxy:3128")),
            (" https://me:secret@proxy/\n", Ok("https://proxy")),
            ("socks5://me:secret@127.0.0.1:1080", Ok("socks5://127.0.0.1:1080")),
            ("socks5h://[::1]", Ok("socks5h://[::1]")),
            ("secret", Err("relative URL without a base")),
            ("proxy:3128", Err("must begin with http://")),
            ("ftp://me:secret@proxy", Err("must begin with http://")),
            ("http://me:se/cret@proxy", Err("")),
            ("http://proxy/secret", Err("after host and port")),
            ("http://proxy?secret", Err("after host and port")),
            ("socks5://", Err("the host is missing")),
            ("http://", Err("empty host")),
        ] {
            match (ProxyUrl::parse(text), shown) {
                (Ok(url), Ok(shown)) => {
                    assert_eq!(url.to_string(), shown);
                    assert_eq!(format!("{url:?}"), format!("ProxyUrl({shown})"));
                }
                (Err(fault), Err(why)) => {
                    let said = fault.to_string();
                    assert!(said.contains(why) && !said.contains("secret"), "{text}: {said}");
                }
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        let long = format!("http://{}", "p".repeat(limits::PROXY_URL_BYTES));
        assert!(ProxyUrl::parse(&long).unwrap_err().to_string().contains("more than 2048 bytes"));
    }

    #[test]
    fn exceptions_are_checked() {
        let with = |host: &str, times| {
            HttpClient::with(HttpClientConfig { no_proxy: vec![host.into(); times], ..HttpClientConfig::default() })
                .map(drop)
        };
        for good in ["host", ".example.com", "10.0.0.0/8", "::1", "*", "bücher.example"] {
            assert_eq!(with(good, 1), Ok(()), "{good}");
        }
        for bad in ["", "a,b", "a b", "http://a?b", &"x".repeat(limits::PROXY_EXCEPTION_BYTES + 1)] {
            assert!(with(bad, 1).unwrap_err().to_string().contains("is invalid; write a host"), "{bad}");
        }
        assert_eq!(with("x", limits::PROXY_EXCEPTIONS), Ok(()));
        let fault = with("x", limits::PROXY_EXCEPTIONS + 1).unwrap_err();
        assert!(fault.to_string().contains("more than 256"), "{fault}");
    }

    #[tokio::test]
    async fn plain_http_is_sent_to_proxy() {
        let proxy = TestServer::start(vec![answer("200 OK", "", "fine"), answer("407 No", "", "")]).await;
        let client = client(&with_user(&proxy), &["other.example"]);
        assert_eq!(get(&client, "http://api.example/v1").await.unwrap(), b"fine");
        let sent = proxy.requests()[0].to_lowercase();
        assert!(sent.starts_with("get http://api.example/v1/models http/1.1\r\n"), "{sent}");
        // The decoded credentials are `me:p@ss-word`.
        assert!(sent.contains("proxy-authorization: basic bwu6cebzcy13b3jk\r\n"), "{sent}");
        let fault = get(&client, "http://api.example/v1").await.unwrap_err();
        assert!(matches!(fault, Fault::Denied { .. }), "{fault:?}");
        assert!(!format!("{client:?}").contains("ss-word"), "{client:?}");
    }

    #[tokio::test]
    async fn https_goes_through_a_tunnel() {
        let proxy = TestServer::start(vec![answer("407 No", "", ""), answer("502 No", "", "")]).await;
        let client = client(&with_user(&proxy), &[]);
        let denied = get(&client, "https://api.example/v1").await.unwrap_err();
        let failed = get(&client, "https://api.example/v1").await.unwrap_err();
        assert!(matches!(denied, Fault::Denied { .. }), "{denied:?}");
        assert!(matches!(failed, Fault::Unavailable { .. }), "{failed:?}");
        let begins = format!("cannot connect to api.example through the proxy {}: ", proxy.url);
        for fault in [denied, failed] {
            assert!(fault.to_string().starts_with(&begins), "{fault}");
        }
        let sent = proxy.requests()[0].to_lowercase();
        assert!(sent.starts_with("connect api.example:443 http/1.1\r\n"), "{sent}");
        assert!(sent.contains("proxy-authorization: basic bwu6cebzcy13b3jk\r\n"), "{sent}");
    }

    #[tokio::test]
    async fn loopback_and_exceptions_bypass_proxy() {
        let proxy = TestServer::start(vec![]).await;
        let server = TestServer::start(vec![answer("200 OK", "", "fine"), answer("200 OK", "", "fine")]).await;
        let client = client(&proxy.url, &[]);
        for host in ["127.0.0.1", "localhost"] {
            let base = server.url.replace("127.0.0.1", host);
            assert_eq!(get(&client, &base).await.unwrap(), b"fine", "{host}");
        }
        assert_eq!(proxy.requests().len(), 0);
    }

    #[tokio::test]
    async fn unreachable_local_proxy_is_not_retried() {
        let gone = TestServer::start(vec![]).await.url.clone();
        tokio::task::yield_now().await;
        let (client, url) = (client(&gone, &[]), endpoint("http://api.example", &[]).unwrap());
        // With the default pauses, a second attempt would exceed the timeout.
        let fault = tokio::time::timeout(limits::FIRST_RETRY_PAUSE, client.get(&HttpRequest::new(url))).await.unwrap();
        let begins = format!("cannot connect to api.example through the proxy {gone}: Connection refused");
        assert!(fault.unwrap_err().to_string().starts_with(&begins));
    }

    #[tokio::test]
    async fn a_socks_proxy_looks_up_the_name() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("socks5h://me:pass@{}", listener.local_addr().unwrap());
        let proxy = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut hear = async |reply: &[u8]| {
                let mut heard = vec![0; 1_024];
                let length = connection.read(&mut heard).await.unwrap();
                connection.write_all(reply).await.unwrap();
                heard.truncate(length);
                heard
            };
            let methods = hear(&[5, 2]).await;
            let user = hear(&[1, 0]).await;
            let wanted = hear(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await;
            hear(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine").await;
            (methods, user, wanted)
        });
        assert_eq!(get(&client(&url, &[]), "http://api.example/v1").await.unwrap(), b"fine");
        let (methods, user, wanted) = proxy.await.unwrap();
        assert!(methods.starts_with(&[5]) && methods[2..].contains(&2), "{methods:?}");
        assert_eq!(user, b"\x01\x02me\x04pass");
        assert_eq!(wanted, b"\x05\x01\x00\x03\x0bapi.example\x00\x50");
    }
}
