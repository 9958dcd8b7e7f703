//! Targets of HTTP requests: only those that are granted, however the URL is written.

use serde_json::json;
use shelly_host::capability::HttpGrant;

use super::{DOORS, Guest, OWN, Server, http};

#[tokio::test]
async fn http_request_outside_its_grant_is_refused() {
    let (server, other) = (Server::echo().await, Server::echo().await);
    let at = format!("127.0.0.1:{}", server.port);
    let methods = ["GET".to_owned(), "HEAD".to_owned()];
    for door in DOORS {
        let grant = HttpGrant::entry(&format!("{}/api", server.url), &methods, &[]).unwrap();
        let guest = Guest::with(door, "ada", |settings| settings.grant.http = grant).await;
        for (url, heard) in [
            ("/api", "/api"),
            ("/api/", "/api/"),
            ("/api/x", "/api/x"),
            ("/api?x=/../y", "/api?x=/../y"),
            ("/api/./x", "/api/x"),
            ("/api/x/../y", "/api/y"),
            ("/api/x#/../../y", "/api/x"),
            ("/api/a%20b;c=d", "/api/a%20b;c=d"),
        ] {
            let fetched = guest.get(&format!("http://{at}{url}")).await;
            assert_eq!(fetched.status, Some(200), "{door}, {url}: {fetched:?}");
            assert_eq!(server.last().path(), heard, "{door}, {url}");
        }
        let before = server.heard().len();
        for path in [
            "",
            "/",
            "/apix",
            "/API",
            "//api",
            "/x/api",
            "/api/../secret",
            "/api/..",
            "/api/%2e%2e/secret",
            "/api/.%2E/secret",
            "/api/..%2fsecret",
            "/api/%2e%2e%2fsecret",
            "/api/%252e%252e/secret",
            "/api/..;/secret",
            "/api/..;x=y/secret",
            "/api/;/../../secret",
            "/api//secret",
            "/api/x%2fy",
            "/api%2fx",
            "/api/\\..\\..\\secret",
            "/api\\..\\secret",
            "/api/x%5c..%5csecret",
            "/api/%00",
            "/api;/../secret",
            "?/api",
            "#/api",
        ] {
            refused(&guest, &format!("http://{at}{path}")).await;
        }
        let (port, elsewhere) = (server.port, other.port);
        for url in [
            format!("https://{at}/api"),
            format!("http://127.0.0.1:{elsewhere}/api"),
            "http://127.0.0.1/api".into(),
            "http://127.0.0.1:0/api".into(),
            format!("http://127.0.0.1:{port}0/api"),
            format!("http://127.0.0.1:{}/api", 65_536 + u32::from(port)),
            format!("http://127.0.0.2:{port}/api"),
            format!("http://localhost:{port}/api"),
            format!("http://[::1]:{port}/api"),
            format!("http://0:{port}/api"),
            format!("http://me@{at}/api"),
            format!("http://me:word@{at}/api"),
            format!("http://{at}@127.0.0.1:{elsewhere}/api"),
            format!("http://{at}:{elsewhere}/api"),
            format!("http://{at}\\@127.0.0.1:{elsewhere}/api"),
            format!("http://127.0.0.1:{elsewhere}#@{at}/api"),
            format!("ftp://{at}/api"),
            format!("ws://{at}/api"),
            format!("file://{at}/api"),
            "file:///etc/passwd".into(),
            "data:text/plain,x".into(),
            format!("//{at}/api"),
            "/api".into(),
            String::new(),
            format!("http://{at}/api/{}", "x".repeat(9_000)),
        ] {
            refused(&guest, &url).await;
        }
        // What a parser would take out of it, and what would end the line.
        for url in
            ["/api\t", "/api/\r\nx: y", "/api\n", "/api x", "/api/\u{0}", "/api/\u{7f}", "/a\tpi", "/api\u{2028}"]
        {
            refused(&guest, &format!("http://{at}{url}")).await;
        }
        for url in [
            format!(" http://{at}/api"),
            format!("ht\ttp://{at}/api"),
            format!("http://127.0.0.\n1:{port}/api"),
            format!("http:/\r/{at}/api"),
            format!("http://127.0.0.1:{port}\t/api"),
        ] {
            refused(&guest, &url).await;
        }
        for method in [
            "POST",
            "PUT",
            "DELETE",
            "OPTIONS",
            "CONNECT",
            "TRACE",
            "get",
            "Get",
            "GET ",
            "",
            "G\u{0}T",
            "GET /x HTTP/1.1\r\nhost: x\r\n\r\nGET",
        ] {
            let fetched = guest.fetch(json!({ "url": format!("http://{at}/api"), "method": method })).await;
            assert!(fetched.error.is_some(), "{door}, {method:?}: {fetched:?}");
        }
        assert_eq!((server.heard().len(), other.connections()), (before, 0), "{door}");
    }
}

/// Asserts that the request is refused, and that the event of it shows no part of the URL that may be a secret.
async fn refused(guest: &Guest, url: &str) {
    let (door, fetched) = (guest.door, guest.get(url).await);
    assert!(fetched.error.is_some() && fetched.status.is_none(), "{door}, {url:?}: {fetched:?}");
    // What the library of a guest does not send, no host is told of.
    assert!(door != OWN || fetched.requests.len() == 1, "{url:?}: {fetched:?}");
    for told in &fetched.requests {
        // One that is too long was looked at no further.
        let outcome = if url.len() > 8 << 10 { "failed" } else { "refused" };
        assert_eq!(told.outcome, outcome, "{door}, {url:?}: {told:?}");
        let host = told.url.split('/').nth(2).unwrap_or_default();
        let is_bare = !host.contains('@') && !told.url.contains(['?', '#', '\n', '\r', '\t']);
        assert!(is_bare, "{door}, {url:?}: {told:?}");
    }
}

/// Every public server is not this machine, however it is written.
#[tokio::test]
async fn wildcard_http_grant_excludes_private_addresses() {
    let server = Server::echo().await;
    let port = server.port;
    for door in DOORS {
        let guest = Guest::granted(door, &[format!("http://*:{port}"), "http://*".into(), "https://*".into()]).await;
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "017700000001",
            "0177.0.0.1",
            "127.0.0.1%00",
            "%31%32%37.0.0.1",
            "１２７.0.0.1",
            "127。0。0。1",
            "0",
            "0.0.0.0",
            "[::]",
            "[::1]",
            "[0:0:0:0:0:0:0:1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[::127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
            "localhost",
            "localhost.",
            "LocalHost",
            "a.localhost",
            "ⓛocalhost",
            "localhost%2e",
        ] {
            refused(&guest, &format!("http://{host}:{port}/")).await;
        }
        for host in ["169.254.169.254", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "[fe80::1]", "[fd00::1]"]
        {
            refused(&guest, &format!("http://{host}/")).await;
            refused(&guest, &format!("https://{host}/")).await;
        }
        assert_eq!(server.connections(), 0, "{door}");
    }
}

/// A name that is granted and leads to this machine is told to the operator; the plugin hears nothing of addresses.
#[tokio::test]
async fn resolved_address_is_reported_only_to_the_operator() {
    let server = Server::echo().await;
    for door in DOORS {
        let guest = Guest::granted(door, &[format!("http://*:{}", server.port)]).await;
        let fetched = guest.get(&format!("http://localhost:{}/", server.port)).await;
        assert!(fetched.is_denied() && !fetched.why().contains("127.0.0.1"), "{door}: {fetched:?}");
        assert!(fetched.told().reason.contains("127.0.0.1"), "{door}: {fetched:?}");
    }
    assert_eq!(server.connections(), 0);
}

/// Whoever is granted this machine may ask it by each of its names that the grant says.
#[tokio::test]
async fn loopback_is_reachable_by_its_granted_name() {
    let server = Server::echo().await;
    for door in DOORS {
        let guest = Guest::granted(door, &[format!("http://localhost:{}", server.port)]).await;
        for host in ["localhost", "LOCALHOST", "localhost."] {
            let fetched = guest.get(&format!("http://{host}:{}/x?key=hidden", server.port)).await;
            assert_eq!(fetched.status, Some(200), "{door}, {host}: {fetched:?}");
            let heard = server.last();
            let host = heard.header("host").unwrap().to_owned();
            assert!(heard.all("host").len() == 1 && host.starts_with("localhost"), "{door}: {heard:?}");
            let told = fetched.told();
            assert!(told.url.ends_with("/x") && told.method == "GET" && told.status == Some(200), "{door}: {told:?}");
        }
        refused(&guest, &format!("http://127.0.0.1:{}/", server.port)).await;
    }
    // A grant says what it says: an address is one however it is written, and no name.
    let guest = Guest::with(OWN, "ada", |settings| settings.grant.http = http(&[&server.url])).await;
    for host in ["127.1", "2130706433", "[::ffff:127.0.0.1]"] {
        let fetched = guest.get(&format!("http://{host}:{}/", server.port)).await;
        assert_eq!(fetched.status, Some(200), "{host}: {fetched:?}");
    }
}
