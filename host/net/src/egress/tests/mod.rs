//! Tests against servers on loopback: requests that are sent, and requests that are not.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use ipnet::IpNet;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use url::Url;

use super::{clients::EgressClients, *};
use crate::{AuthHeader, Secret};
use shelly_core::{capability::HttpGrant, error::Fault, limits};
use shelly_test_support::{CannedResponse, TestServer, answer};

mod addresses;
mod credentials;
mod redirects;
mod replies;
mod responder;
mod uploads;

/// Returns a grant for these URLs and everything below them.
fn granted(urls: &[&str]) -> HttpGrant {
    urls.iter().fold(HttpGrant::default(), |all, url| all.join(&HttpGrant::entry(url, &["*".to_owned()], &[]).unwrap()))
}

fn egress(urls: &[&str]) -> Egress {
    Egress::new(granted(urls), Vec::new(), EgressLimits::default())
}

/// Returns an `Egress` whose names are resolved by `lookup`.
fn with_names(http: HttpGrant, lookup: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static) -> Egress {
    with_names_and(http, Vec::new(), lookup)
}

fn with_names_and(
    http: HttpGrant,
    credentials: Vec<Arc<Credential>>,
    lookup: impl Fn(&str) -> Vec<IpAddr> + Send + Sync + 'static,
) -> Egress {
    let lookup: resolver::AddressLookup = Arc::new(move |name| {
        let found = lookup(&name);
        Box::pin(async move { Ok(found) })
    });
    Egress::with(http, credentials, EgressLimits::default(), EgressClients::new(lookup))
}

fn key(name: &str, auth: AuthHeader, urls: &[&str]) -> Arc<Credential> {
    Arc::new(Credential::new(name, &auth, granted(urls)).unwrap())
}

fn get(url: impl Into<String>) -> EgressRequest {
    EgressRequest { method: "GET".into(), url: url.into(), follow: true, ..EgressRequest::default() }
}

fn post(url: impl Into<String>, body: &'static str) -> EgressRequest {
    EgressRequest { method: "POST".into(), body: EgressRequestBody::Bytes(body.into()), ..get(url) }
}

async fn whole(mut reply: EgressResponseBody) -> Result<String, Fault> {
    let mut bytes = Vec::new();
    while let Some(chunk) = reply.chunk().await? {
        assert!((1..=limits::EGRESS_CHUNK_BYTES).contains(&chunk.len()));
        bytes.extend(chunk);
    }
    Ok(String::from_utf8(bytes).unwrap())
}

async fn text(egress: &Egress, request: EgressRequest) -> Result<String, Fault> {
    whole(egress.send(request).await.map_err(|failure| failure.fault)?.body).await
}

async fn denied(egress: &Egress, request: EgressRequest) -> String {
    match egress.send(request).await.unwrap_err().fault {
        Fault::Denied { message } => message,
        fault => panic!("{fault:?}"),
    }
}

/// Runs `serve` on one connection.
async fn serve<F: Future<Output = ()> + Send>(
    serve: impl FnOnce(TcpStream) -> F + Send + 'static,
) -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move { serve(listener.accept().await.unwrap().0).await });
    (url, task)
}

/// Reads until `end` has arrived, or to the end of the connection.
async fn until(connection: &mut TcpStream, end: &str) -> String {
    let mut heard = Vec::new();
    let is_among = |heard: &[u8]| heard.windows(end.len()).any(|part| part == end.as_bytes());
    while !is_among(&heard) && connection.read_buf(&mut heard).await.is_ok_and(|read| read > 0) {}
    String::from_utf8(heard).unwrap()
}

#[tokio::test]
async fn a_request_goes_out_and_its_response_comes_back() {
    let headers = "X-Two: 2\r\nx-one: 1\r\nX-Two: 22\r\n";
    let server = TestServer::start(vec![answer("404 Nowhere", headers, "fine"), answer("200 OK", "", "")]).await;
    let egress = egress(&[&server.url]);
    let request = EgressRequest {
        headers: vec![("X-A".into(), b"1".into()), ("x-a".into(), b"2".into())],
        ..get(format!("{}/a/b?c=d#e", server.url))
    };
    let response = egress.send(request).await.unwrap();
    assert_eq!(response.status, 404);
    let named = |name: &str| {
        let values = response.headers.iter().filter(|(own, _)| own == name);
        values.map(|(_, value)| String::from_utf8(value.clone()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(
        (named("x-two"), named("x-one"), named("connection")),
        (vec!["2".into(), "22".into()], vec!["1".into()], vec![])
    );
    let facts = EgressFacts {
        method: "GET".into(),
        url: format!("{}/a/b", server.url),
        status: Some(404),
        address: Some(Ipv4Addr::LOCALHOST.into()),
        ..EgressFacts::default()
    };
    assert_eq!(*response.facts, facts);
    assert_eq!(whole(response.body).await.unwrap(), "fine");

    let own = EgressRequest { headers: vec![("user-agent".into(), b"own".into())], ..post(&server.url, "") };
    assert_eq!(text(&egress, own).await.unwrap(), "");
    let sent = server.requests();
    assert!(sent[0].starts_with("GET /a/b?c=d HTTP/1.1\r\n"), "{}", sent[0]);
    for line in ["x-a: 1\r\nx-a: 2\r\n", "user-agent: shelly-host/", "accept-encoding: ", "host: 127.0.0.1:"] {
        assert!(sent[0].contains(line), "{line}: {}", sent[0]);
    }
    assert!(sent[1].contains("user-agent: own\r\n") && sent[1].contains("content-length: 0\r\n"), "{}", sent[1]);
}

#[tokio::test]
async fn what_cannot_be_sent_is_invalid() {
    let egress = Egress::new(HttpGrant::all(), Vec::new(), EgressLimits::default());
    let long = format!("https://a.example/{}", "a".repeat(limits::EGRESS_URL_BYTES));
    for (method, url, body, why) in [
        ("get", "https://a.example", "", "upper case"),
        ("GET X", "https://a.example", "", "upper case"),
        ("GET\r\nX: y", "https://a.example", "", "upper case"),
        ("", "https://a.example", "", "upper case"),
        ("CONNECT", "https://a.example", "", "CONNECT"),
        ("TRACE", "https://a.example", "", "TRACE"),
        ("GET", "a.example", "", "invalid URL"),
        ("GET", "ftp://a.example", "", "https://"),
        ("GET", "file:///etc/passwd", "", "https://"),
        ("GET", "unix:///run/a.sock", "", "https://"),
        ("GET", "https://", "", "invalid URL"),
        ("GET", "https://user@a.example", "", "user"),
        ("GET", "https://user:pass@a.example", "", "user"),
        ("GET", "https://a.example\\@b.example:pass@c.example", "", ""),
        ("GET", "https://a.example/\r\nhost: b", "", "spaces"),
        ("GET", "https://a.example/a b", "", "spaces"),
        ("GET", " https://a.example", "", "spaces"),
        ("GET", "https://a.example:99999", "", "invalid URL"),
        ("GET", "https://1.2.3.4.5/", "", "invalid URL"),
        ("GET", &long, "", "more than"),
        ("GET", "https://a.example", "body", "must not have a body"),
        ("HEAD", "https://a.example", "body", "must not have a body"),
    ] {
        let request = EgressRequest { method: method.into(), ..post(url, body) };
        // An empty `why` marks a valid URL; the timeout of zero keeps its request from being sent.
        if why.is_empty() {
            let facts =
                egress.send(EgressRequest { timeout: Some(Duration::ZERO), ..request }).await.unwrap_err().facts;
            assert_eq!(facts.url, "https://a.example/@b.example:pass@c.example", "what is shown is what is asked");
            continue;
        }
        let fault = egress.send(request).await.unwrap_err().fault;
        let is_expected = matches!(fault, Fault::Invalid { .. } | Fault::TooLarge { .. });
        assert!(is_expected && fault.to_string().contains(why), "{method} {url}: {fault:?}");
        assert!(!fault.to_string().contains(['\r', '\n']), "{fault}");
    }
}

#[tokio::test]
async fn ungranted_request_is_denied_with_grant_to_add() {
    let server = TestServer::start(vec![]).await;
    let methods = ["GET".to_owned()];
    let egress = Egress::new(
        HttpGrant::entry(&format!("{}/v1", server.url), &methods, &[]).unwrap(),
        Vec::new(),
        EgressLimits::default(),
    );
    let port = server.url.rsplit(':').next().unwrap();
    for (method, url) in [
        ("POST", format!("{}/v1", server.url)),
        ("PURGE", format!("{}/v1", server.url)),
        ("HEAD", format!("{}/v1", server.url)),
        ("GET", format!("{}/v2", server.url)),
        ("GET", format!("{}/v1/../v2", server.url)),
        ("GET", format!("{}/v1/%2e%2e/v2", server.url)),
        ("GET", format!("{}/v1//..%2fv2", server.url)),
        ("GET", format!("https://127.0.0.1:{port}/v1")),
        ("GET", format!("http://localhost:{port}/v1")),
        ("GET", format!("http://[::1]:{port}/v1")),
        ("GET", "http://127.0.0.1/v1".into()),
    ] {
        let request = EgressRequest { method: method.into(), ..get(&url) };
        let failure = egress.send(request).await.unwrap_err();
        let line = Url::parse(&url).unwrap().origin().ascii_serialization();
        let said = failure.fault.to_string();
        assert!(matches!(failure.fault, Fault::Denied { .. }), "{failure:?}");
        let entry = match method {
            "GET" | "HEAD" => format!("\"{line}\""),
            method => format!("{{url: \"{line}\", methods: [{method}]}}"),
        };
        assert!(
            said.starts_with(&format!("{method} http")) && said.ends_with(&format!("write `http: [{entry}]`")),
            "{said}"
        );
        assert_eq!((failure.facts.status, failure.facts.address), (None, None));
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn shown_url_is_truncated_and_has_no_secrets() {
    let egress = egress(&[]);
    let url = format!("https://a.example/\u{202e}{}?token=1", "a".repeat(limits::EGRESS_SHOWN_URL_BYTES));
    let facts = egress.send(get(url)).await.unwrap_err().facts;
    assert!(facts.url.starts_with("https://a.example/%E2%80%AE") && facts.url.ends_with("aaa…"), "{}", facts.url);
    assert!(facts.url.len() <= limits::EGRESS_SHOWN_URL_BYTES && !facts.url.contains("token"), "{}", facts.url);
}

#[tokio::test]
async fn requests_are_counted_and_so_are_redirects() {
    let server =
        TestServer::start(vec![answer("302 There", "location: /b\r\n", ""), answer("200 OK", "", "fine")]).await;
    let most = EgressLimits { requests_per_minute: 3, ..EgressLimits::default() };
    let egress = Egress::new(granted(&[&server.url]), Vec::new(), most);
    assert_eq!(text(&egress, get(&server.url)).await.unwrap(), "fine");
    // Refused requests count, too.
    denied(&egress, get("https://a.example")).await;
    let fault = egress.send(get(&server.url)).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::RateLimited { after: Some(_), .. }), "{fault:?}");
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn open_response_body_holds_permit() {
    let open = || CannedResponse { bytes: b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfi".into(), stays: true };
    let server = TestServer::start(vec![open(), answer("200 OK", "", "fine"), answer("200 OK", "", "fine")]).await;
    let most = EgressLimits { concurrency: 1, ..EgressLimits::default() };
    let egress = Egress::new(granted(&[&server.url]), Vec::new(), most);
    let held = egress.send(get(&server.url)).await.unwrap();
    let fault = egress.send(get(&server.url)).await.unwrap_err().fault;
    assert!(matches!(fault, Fault::RateLimited { after: None, .. }), "{fault:?}");
    drop(held);
    let mut read = egress.send(get(&server.url)).await.unwrap();
    while read.body.chunk().await.unwrap().is_some() {}
    assert_eq!(text(&egress, get(&server.url)).await.unwrap(), "fine", "one that is at its end takes none");
    drop(read);
}

#[test]
fn limits_stay_below_their_ceilings() {
    let most = EgressLimits {
        requests_per_minute: u32::MAX,
        concurrency: u32::MAX,
        request_bytes: u64::MAX,
        response_bytes: u64::MAX,
    };
    let ceilings = EgressLimits {
        requests_per_minute: limits::EGRESS_REQUESTS_PER_MINUTE_CEILING,
        concurrency: limits::EGRESS_CONCURRENCY_CEILING,
        request_bytes: limits::EGRESS_REQUEST_BYTES_CEILING,
        response_bytes: limits::EGRESS_RESPONSE_BYTES_CEILING,
    };
    assert_eq!(Egress::new(HttpGrant::all(), Vec::new(), most).0.limits, ceilings);
    assert_eq!(EgressLimits::default().below_ceilings(), EgressLimits::default());
}
