use super::*;

const KEY: &str = "sk-very-secret";

fn to(status: u16, location: &str) -> CannedResponse {
    answer(&format!("{status} There"), &format!("location: {location}\r\n"), "moved")
}

fn fine() -> CannedResponse {
    answer("200 OK", "", "fine")
}

#[tokio::test]
async fn a_redirect_leads_only_where_it_is_granted() {
    let other = TestServer::start(vec![]).await;
    let port = other.url.rsplit(':').next().unwrap().to_owned();
    for (location, why) in [
        (format!("{}/x", other.url), "is not granted; to grant it write"),
        (format!("//127.0.0.1:{port}/x"), "is not granted; to grant it write"),
        (format!("http://localhost:{port}/"), "is not granted"),
        (format!("http://2130706433:{port}/"), "is not granted"),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), "is not granted"),
        ("http://169.254.169.254/latest/meta-data".into(), "is not granted"),
        ("https://127.0.0.1/".into(), "is not granted"),
        ("file:///etc/passwd".into(), "a target that is not allowed"),
        ("gopher://127.0.0.1/".into(), "a target that is not allowed"),
        ("javascript:alert(1)".into(), "a target that is not allowed"),
        (format!("http://user:pass@127.0.0.1:{port}/"), "a target that is not allowed"),
        ("http://".into(), "a target that is not allowed"),
        (format!("/{}", "a".repeat(limits::EGRESS_URL_BYTES)), "a target that is not allowed"),
        ("/out".into(), "is not granted"),
        ("/in/../out".into(), "is not granted"),
        ("..%2fout".into(), "is not granted"),
    ] {
        let server = TestServer::start(vec![to(302, &location), fine()]).await;
        let egress = egress(&[&format!("{}/in", server.url)]);
        let failure = egress.send(get(format!("{}/in/a", server.url))).await.unwrap_err();
        let said = failure.fault.to_string();
        assert!(matches!(failure.fault, Fault::Denied { .. }) && said.contains(why), "{location}: {said}");
        assert_eq!(server.requests().len(), 1, "{location}");
        // Without following, the redirect is returned as a response.
        let server = TestServer::start(vec![to(302, &location)]).await;
        let egress = super::egress(&[&server.url]);
        let response = egress.send(EgressRequest { follow: false, ..get(&server.url) }).await.unwrap();
        assert_eq!((response.status, whole(response.body).await.unwrap().as_str()), (302, "moved"));
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn what_is_no_redirect_is_a_response() {
    for head in ["300 Choices", "304 Same", "305 Proxy", "306 Odd", "200 OK", "201 Made"] {
        let server = TestServer::start(vec![answer(head, "location: /b\r\n", ""), fine()]).await;
        let response = egress(&[&server.url]).send(get(&server.url)).await.unwrap();
        assert_eq!((response.status.to_string().as_str(), response.facts.hops), (&head[..3], 0));
    }
    for headers in ["", "location: caf\u{e9}\r\n"] {
        let server = TestServer::start(vec![answer("302 There", headers, "here"), fine()]).await;
        assert_eq!(text(&egress(&[&server.url]), get(&server.url)).await.unwrap(), "here");
    }
}

#[tokio::test]
async fn redirect_status_determines_method() {
    for (method, status, expected) in [
        ("POST", 301, "GET"),
        ("POST", 302, "GET"),
        ("POST", 303, "GET"),
        ("POST", 307, "POST"),
        ("POST", 308, "POST"),
        ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"),
        ("DELETE", 301, "DELETE"),
        ("PATCH", 308, "PATCH"),
    ] {
        let server = TestServer::start(vec![to(status, "/b?c"), fine()]).await;
        let headers = vec![("content-type".into(), b"text/plain".into()), ("x-a".into(), b"1".into())];
        let request = EgressRequest { method: method.into(), headers, ..post(&server.url, "some") };
        let response = egress(&[&server.url]).send(request).await.unwrap();
        assert_eq!((response.facts.hops, response.facts.method.as_str()), (1, method));
        assert!(response.facts.url.ends_with("/b"), "{}", response.facts.url);
        let sent = &server.requests()[1];
        let is_kept = expected == method;
        assert!(sent.starts_with(&format!("{expected} /b?c HTTP/1.1\r\n")), "{method} {status}: {sent}");
        assert_eq!(sent.ends_with("\r\n\r\nsome"), is_kept, "{sent}");
        assert_eq!(sent.contains("content-type"), is_kept, "{sent}");
        assert!(sent.contains("x-a: 1\r\n"), "{sent}");
    }
    for method in ["GET", "HEAD"] {
        let server = TestServer::start(vec![to(303, "/b"), answer("200 OK", "", "")]).await;
        egress(&[&server.url]).send(EgressRequest { method: method.into(), ..get(&server.url) }).await.unwrap();
        assert!(server.requests()[1].starts_with(&format!("{method} /b ")), "{:?}", server.requests());
    }
}

#[tokio::test]
async fn redirect_method_must_be_granted() {
    let server = TestServer::start(vec![to(302, "/b"), fine()]).await;
    let http = HttpGrant::entry(&server.url, &["POST".into()], &[]).unwrap();
    let said = denied(&Egress::new(http, Vec::new(), EgressLimits::default()), post(&server.url, "some")).await;
    assert!(said.starts_with("GET http://127.0.0.1:"), "{said}");
}

#[tokio::test]
async fn redirect_loop_is_refused() {
    let hops = limits::EGRESS_HOPS as usize;
    let server = TestServer::start((0..hops + 9).map(|_| to(302, "/")).collect()).await;
    let failure = egress(&[&server.url]).send(get(&server.url)).await.unwrap_err();
    assert!(failure.fault.to_string().contains("more than 10 redirects"), "{failure}");
    assert_eq!((server.requests().len(), failure.facts.hops), (hops + 1, limits::EGRESS_HOPS));

    let server = TestServer::start((0..hops).map(|_| to(302, "/")).chain([fine()]).collect()).await;
    assert_eq!(text(&egress(&[&server.url]), get(&server.url)).await.unwrap(), "fine");
}

#[tokio::test]
async fn sender_headers_are_dropped_for_other_origin() {
    let other = TestServer::start(vec![to(302, "/c"), fine()]).await;
    let server = TestServer::start(vec![to(302, "/b"), to(307, &format!("{}/x", other.url))]).await;
    let headers = ["authorization", "cookie", "x-own", "x-api-key"];
    let headers = headers.map(|name| (name.to_owned(), b"mine".to_vec())).into();
    // A header that any credential uses identifies the sender, whatever that credential is for.
    let credential = key("one", AuthHeader::header("x-api-key", Secret::new(KEY)), &["https://a.example"]);
    let egress = Egress::new(granted(&[&server.url, &other.url]), vec![credential], EgressLimits::default());
    assert_eq!(text(&egress, EgressRequest { headers, ..get(&server.url) }).await.unwrap(), "fine");
    for sent in server.requests() {
        for name in ["authorization", "cookie", "x-own", "x-api-key"] {
            assert!(sent.contains(&format!("{name}: mine\r\n")), "{sent}");
        }
    }
    for sent in other.requests() {
        assert!(sent.contains("x-own: mine\r\n") && !sent.contains("referer"), "{sent}");
        for name in ["authorization", "cookie", "x-api-key"] {
            assert!(!sent.contains(name), "{sent}");
        }
    }
    assert_eq!((server.requests().len(), other.requests().len()), (2, 2));
}

#[tokio::test]
async fn credential_follows_redirect_only_to_its_audience() {
    let outside = TestServer::start(vec![fine()]).await;
    let inside = TestServer::start(vec![to(302, &format!("{}/x", outside.url))]).await;
    let server = TestServer::start(vec![to(302, "/b"), to(302, &format!("{}/x", inside.url))]).await;
    let credential = key("one", AuthHeader::bearer(Secret::new(KEY)), &[&server.url, &inside.url]);
    let http = granted(&[&server.url, &inside.url, &outside.url]);
    let egress = Egress::new(http, vec![credential], EgressLimits::default());
    let request = EgressRequest { credential: CredentialUse::Named("one".into()), ..get(&server.url) };
    let response = egress.send(request).await.unwrap();
    assert_eq!((response.facts.hops, response.facts.credential.as_deref()), (3, Some("one")));
    let is_sent = |server: &TestServer| server.requests().iter().map(|sent| sent.contains(KEY)).collect::<Vec<_>>();
    assert_eq!((is_sent(&server), is_sent(&inside), is_sent(&outside)), (vec![true, true], vec![true], vec![false]));
}

#[tokio::test]
async fn plugin_header_cannot_replace_credential_after_redirect() {
    let server = TestServer::start(vec![to(302, "/v1"), fine()]).await;
    let credential = key("one", AuthHeader::bearer(Secret::new(KEY)), &[&format!("{}/v1", server.url)]);
    let egress = Egress::new(granted(&[&server.url]), vec![credential], EgressLimits::default());
    let request = EgressRequest { headers: vec![("authorization".into(), b"own".into())], ..get(&server.url) };
    assert!(denied(&egress, request).await.contains("`one`"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn redirect_to_url_with_credential_is_denied() {
    let leads = [format!("/{KEY}"), format!("/?token={KEY}"), format!("https://{KEY}.example/")];
    let server = TestServer::start(leads.iter().map(|leads| to(302, leads)).collect()).await;
    let credential = key("one", AuthHeader::bearer(Secret::new(KEY)), &[&server.url]);
    let egress = Egress::new(granted(&[&server.url]), vec![credential], EgressLimits::default());
    for (sent, leads) in leads.iter().enumerate() {
        let failure = egress.send(get(&server.url)).await.unwrap_err();
        assert!(matches!(&failure.fault, Fault::Denied { message } if message.contains("that contains a credential")));
        assert!(!format!("{failure:?}").contains(KEY), "{leads}: {failure}");
        assert_eq!(server.requests().len(), sent + 1, "{leads}");
    }
}

#[tokio::test]
async fn streamed_body_is_not_repeated_after_redirect() {
    for (status, is_followed) in [(302, true), (303, true), (307, false), (308, false)] {
        let (url, _task) = serve(move |mut connection| async move {
            until(&mut connection, "0\r\n\r\n").await;
            let moved = format!("HTTP/1.1 {status} There\r\nlocation: /b\r\ncontent-length: 5\r\n\r\nmoved");
            connection.write_all(moved.as_bytes()).await.unwrap();
            if is_followed {
                let sent = until(&mut connection, "\r\n\r\n").await;
                assert!(sent.starts_with("GET /b ") && !sent.contains("transfer-encoding"), "{sent}");
                connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine").await.unwrap();
            }
        })
        .await;
        let mut upload = egress(&[&url]).begin(post(&url, "")).unwrap();
        upload.write("some".into()).await.unwrap();
        let response = upload.finish().await.unwrap();
        let expected = if is_followed { (200, "fine") } else { (status, "moved") };
        assert_eq!((response.status, whole(response.body).await.unwrap().as_str()), expected);
    }
}
