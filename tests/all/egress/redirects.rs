//! Redirects: each hop is checked as a request of its own, and takes along only what may go there.

use std::sync::{Arc, Mutex};

use serde_json::json;
use shelly_host::{
    capability::HttpGrant,
    net::{AuthHeader, Secret, egress::Credential},
    plugin::Limits,
};

use super::{Answer, Guest, OWN, Server, WASI, http};

/// A server that sends on whoever asks for `/to`, to where the test says.
async fn sends_on(status: u16) -> (Server, Arc<Mutex<String>>) {
    let to = Arc::new(Mutex::new(String::new()));
    let said = to.clone();
    let server = Server::start(move |heard| match heard.path() {
        "/to" => Answer::redirect(status, &said.lock().unwrap()),
        _ => Answer::echo(heard),
    })
    .await;
    (server, to)
}

#[tokio::test]
async fn redirect_to_an_ungranted_target_is_refused() {
    let (a, to) = sends_on(302).await;
    let b = Server::echo().await;
    let guest = Guest::granted(OWN, &[format!("{}/to", a.url), format!("{}/granted", a.url)]).await;
    for leads in [
        b.url.clone(),
        format!("//127.0.0.1:{}/", b.port),
        format!("{}/elsewhere", a.url),
        "/granted/../elsewhere".into(),
        "/granted/%2e%2e/elsewhere".into(),
        "/granted/..%2felsewhere".into(),
        "\\\\127.0.0.1\\x".into(),
        format!("http://127.0.0.1:{}@127.0.0.1:{}/granted", a.port, b.port),
        format!("http://me:word@127.0.0.1:{}/granted", a.port),
        format!("http://localhost:{}/granted", a.port),
        format!("https://127.0.0.1:{}/granted", a.port),
        "file:///etc/passwd".into(),
        "data:text/plain,x".into(),
        "ftp://127.0.0.1/granted".into(),
        "javascript:0".into(),
        "http://169.254.169.254/latest/meta-data/".into(),
        "http://10.0.0.1/".into(),
        "http://[fd00::1]/".into(),
        "http://".into(),
        "http://[".into(),
        format!("/granted/{}", "x".repeat(9_000)),
    ] {
        to.lock().unwrap().clone_from(&leads);
        let before = a.heard().len();
        let fetched = guest.get(&format!("{}/to", a.url)).await;
        assert!(fetched.is("Denied", ""), "{leads}: {fetched:?}");
        assert_eq!(fetched.told().outcome, "refused", "{leads}");
        assert_eq!(a.heard().len(), before + 1, "{leads}");
    }
    assert_eq!(b.connections(), 0);
    *to.lock().unwrap() = "/granted/x".into();
    let fetched = guest.get(&format!("{}/to", a.url)).await;
    assert_eq!((fetched.status, fetched.told().hops), (Some(200), 1), "{fetched:?}");
    assert!(fetched.told().url.ends_with("/granted/x"), "{fetched:?}");
    // Through `wasi:http` the guest sees the redirect, and the host does not follow it.
    *to.lock().unwrap() = b.url.clone();
    let guest = Guest::granted(WASI, &[&a.url]).await;
    let fetched = guest.get(&format!("{}/to", a.url)).await;
    assert_eq!((fetched.status, fetched.header("location")), (Some(302), Some(&*b.url)), "{fetched:?}");
    assert_eq!(b.connections(), 0);
}

#[tokio::test]
async fn redirect_loop_is_bounded_and_counts_each_hop() {
    let server = Server::start(|_| Answer::redirect(307, "/again")).await;
    let guest = Guest::granted(OWN, &[&server.url]).await;
    let fetched = guest.get(&server.url).await;
    assert!(fetched.is("Other", "") && fetched.why().contains("more than 10 redirects"), "{fetched:?}");
    assert_eq!((server.heard().len(), fetched.told().hops, fetched.told().outcome), (11, 10, "failed"));
    let few = Limits { http_requests_per_minute: 3, ..Limits::default() };
    let guest = Guest::with(OWN, "ada", |settings| {
        (settings.grant.http, settings.limits) = (http(&[&server.url]), few);
    })
    .await;
    let fetched = guest.get(&server.url).await;
    assert!(fetched.is("RateLimited", "") && fetched.why().contains("http_requests_per_minute"), "{fetched:?}");
    assert_eq!(server.heard().len(), 11 + 3);
}

#[tokio::test]
async fn redirect_method_and_body_follow_the_status() {
    for (status, method, by, has_body) in [
        (301, "POST", "GET", false),
        (302, "POST", "GET", false),
        (303, "POST", "GET", false),
        (303, "PUT", "GET", false),
        (303, "HEAD", "HEAD", false),
        (301, "PUT", "PUT", true),
        (302, "GET", "GET", false),
        (307, "POST", "POST", true),
        (308, "PATCH", "PATCH", true),
    ] {
        let (server, to) = sends_on(status).await;
        *to.lock().unwrap() = "/next".into();
        let guest = Guest::granted(OWN, &[&server.url]).await;
        let body = if matches!(method, "GET" | "HEAD") { "" } else { "said" };
        let url = format!("{}/to", server.url);
        let headers = [["content-type", "text/x"], ["x-own", "kept"]];
        let fetched = guest.fetch(json!({ "url": url, "method": method, "body": body, "headers": headers })).await;
        let (case, heard) = (format!("{status} {method}"), server.last());
        assert_eq!((fetched.status, heard.line()), (Some(200), &*format!("{by} /next HTTP/1.1")), "{case}");
        assert_eq!(heard.body, if has_body { &b"said"[..] } else { b"" }, "{case}");
        assert_eq!(heard.header("x-own"), Some("kept"), "{case}");
        assert_eq!(heard.header("content-type").is_some(), has_body || by == method, "{case}: {heard:?}");
        if body.is_empty() {
            continue;
        }
        // What went piece by piece is not there any more: where it would go again, the redirect is the answer.
        let fetched = guest.fetch(json!({ "url": url, "method": method, "pieces": [body, 3] })).await;
        let expected = if has_body { status } else { 200 };
        assert_eq!(
            (fetched.status, server.last().body.len()),
            (Some(expected), if has_body { 12 } else { 0 }),
            "{case}"
        );
    }
}

fn credential(name: &str, header: &str, key: &str, audience: &str) -> Arc<Credential> {
    let auth = AuthHeader { header: header.into(), scheme: String::new(), key: Secret::new(key) };
    Arc::new(Credential::new(name, &auth, HttpGrant::all_below(audience).unwrap()).unwrap())
}

/// Of three servers, A and C are the audience of the credential: it is sent to these and to no other. Headers that identify
/// the sender are not sent to another server.
#[tokio::test]
async fn redirect_to_another_origin_drops_credentials() {
    let (a, from_a) = sends_on(307).await;
    let (b, from_b) = sends_on(307).await;
    let c = Server::echo().await;
    *from_a.lock().unwrap() = format!("{}/to", b.url);
    *from_b.lock().unwrap() = c.url.clone();
    let credentials = [
        credential("key", "x-key", "one-two-three", &a.url),
        credential("other", "x-other", "never-asked-for", &a.url),
    ];
    let credentials = credentials.into_iter().chain([credential("key-c", "x-key", "four-five-six", &c.url)]);
    let guest = Guest::with(OWN, "ada", |settings| {
        settings.grant.http = http(&[&a.url, &b.url, &c.url]);
        settings.grant.credentials = ["key", "other", "key-c"].map(String::from).into_iter().collect();
        settings.credentials = credentials.collect();
    })
    .await;
    let headers = [["authorization", "mine"], ["cookie", "mine"], ["x-plain", "kept"]];
    let asked = json!({ "url": format!("{}/to", a.url), "credential": "key", "headers": headers });
    let fetched = guest.fetch(asked).await;
    assert_eq!((fetched.status, fetched.told().hops), (Some(200), 2), "{fetched:?}");
    assert_eq!(fetched.told().credential.as_deref(), Some("key"));
    let sent = |server: &Server, name: &str| server.last().header(name).map(String::from);
    assert_eq!(sent(&a, "x-key").as_deref(), Some("one-two-three"));
    assert_eq!((sent(&a, "authorization").as_deref(), sent(&a, "cookie").as_deref()), (Some("mine"), Some("mine")));
    for server in [&b, &c] {
        for name in ["x-key", "authorization", "cookie", "referer", "x-other"] {
            assert_eq!(sent(server, name), None, "{name} came to {}", server.url);
        }
        assert_eq!(sent(server, "x-plain").as_deref(), Some("kept"));
    }
    // To its audience again, by way of one that is not in it.
    *from_b.lock().unwrap() = a.url.clone();
    let asked = json!({ "url": format!("{}/to", a.url), "credential": "key", "headers": [["x-own", "x"]] });
    assert_eq!(guest.fetch(asked).await.status, Some(200));
    assert_eq!((sent(&b, "x-key"), sent(&a, "x-key").as_deref()), (None, Some("one-two-three")));
    // A header of the plugin's own does not pass for the host's on the way to where that one goes.
    let asked = json!({ "url": format!("{}/to", b.url), "headers": [["x-key", "a word of the plugin"]] });
    assert_eq!(guest.fetch(asked).await.status, Some(200));
    assert_eq!((sent(&b, "x-key").as_deref(), sent(&a, "x-key")), (Some("a word of the plugin"), None));
}

/// A server that writes a credential into where it leads does not make the host carry it there, or tell of it.
#[tokio::test]
async fn redirect_cannot_leak_a_credential() {
    const KEY: &str = r#"s3"cret/never-shown?x"#;
    let (a, to) = sends_on(302).await;
    let b = Server::echo().await;
    let guest = Guest::with(OWN, "ada", |settings| {
        settings.grant.http = http(&[&a.url, &b.url]);
        settings.grant.credentials = ["key".to_owned()].into_iter().collect();
        settings.credentials = vec![credential("key", "x-key", KEY, &a.url)];
    })
    .await;
    for leads in [
        format!("{}/{KEY}", b.url),
        format!("{}/?key={KEY}", b.url),
        format!("{}/s3%22cret%2Fnever-shown%3Fx", b.url),
        format!("http://127.0.0.1:9/{KEY}"),
        format!("/{KEY}"),
        format!("file:///{KEY}"),
        KEY.into(),
    ] {
        to.lock().unwrap().clone_from(&leads);
        let fetched = guest.fetch(json!({ "url": format!("{}/to", a.url), "credential": "key" })).await;
        assert!(fetched.is_denied(), "{leads}: {fetched:?}");
        assert!(!format!("{fetched:?}").contains("never-shown"), "{leads}: {fetched:?}");
        assert_eq!(a.last().header("x-key"), Some(KEY), "{leads}");
    }
    assert_eq!(b.connections(), 0);
}
