use super::*;

const KEY: &str = "sk-very-secret";

fn bearer() -> AuthHeader {
    AuthHeader::bearer(Secret::new(KEY))
}

fn with(http: HttpGrant, credentials: Vec<Arc<Credential>>) -> Egress {
    Egress::new(http, credentials, EgressLimits::default())
}

fn named(name: &str, request: EgressRequest) -> EgressRequest {
    EgressRequest { credential: CredentialUse::Named(name.into()), ..request }
}

#[tokio::test]
async fn credential_is_sent_only_to_its_audience() {
    let server = TestServer::start((0..5).map(|_| answer("200 OK", "", "fine")).collect()).await;
    let (v1, v2) = (format!("{}/v1", server.url), format!("{}/v2", server.url));
    let basic =
        AuthHeader { header: "Authorization".into(), scheme: "Basic".into(), key: Secret::new("ada:pass:word") };
    let egress = with(
        granted(&[&server.url]),
        vec![
            key("one", bearer(), &[&v1]),
            key("two", AuthHeader::header("X-Api-Key", Secret::new("other-key")), &[&v1, &v2]),
            key("three", basic, &[&v2]),
        ],
    );
    assert_eq!(egress.credentials().collect::<Vec<_>>(), ["one", "two", "three"]);
    let any = |url: &str| EgressRequest { credential: CredentialUse::Any, ..get(url) };
    for (request, credential, line) in [
        (named("one", get(&v1)), Some("one"), "authorization: bearer sk-very-secret\r\n"),
        (named("three", get(&v2)), Some("three"), "authorization: basic ywrhonbhc3m6d29yza==\r\n"),
        (any(&v1), Some("one"), "authorization: bearer sk-very-secret\r\n"),
        (any(&v2), Some("two"), "x-api-key: other-key\r\n"),
        (any(&server.url), None, ""),
    ] {
        let response = egress.send(request).await.unwrap();
        assert_eq!(response.facts.credential.as_deref(), credential);
        let sent = server.requests().last().unwrap().to_lowercase();
        assert!(sent.contains(line), "{sent}");
        let has = |name: &str| sent.contains(name);
        assert_eq!(has("authorization:") || has("x-api-key:"), credential.is_some(), "{sent}");
        drop(response);
    }
    let said = denied(&egress, named("one", get(&v2))).await;
    assert!(said.starts_with("the credential `one` is not valid for GET http://127.0.0.1:"), "{said}");
    let said = denied(&egress, named("four", get(&v2))).await;
    assert!(said.contains("granted credentials: one, two, three"), "{said}");
    assert_eq!(server.requests().len(), 5);
}

#[tokio::test]
async fn plugin_cannot_set_header_of_applicable_credential() {
    let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
    let v1 = format!("{}/v1", server.url);
    let egress =
        with(granted(&[&server.url]), vec![key("one", AuthHeader::header("x-api-key", Secret::new(KEY)), &[&v1])]);
    let own = |url: &str| EgressRequest { headers: vec![("X-API-Key".into(), b"own".into())], ..get(url) };
    for credential in [CredentialUse::None, CredentialUse::Any, CredentialUse::Named("one".into())] {
        let said = denied(&egress, EgressRequest { credential, ..own(&v1) }).await;
        assert!(said.contains("`x-api-key`") && said.contains("`one`"), "{said}");
    }
    assert_eq!(text(&egress, own(&server.url)).await.unwrap(), "fine", "elsewhere it is the plugin's");
}

#[test]
fn unredactable_or_unsendable_credential_is_refused() {
    let auth = |header: &str, scheme: &str, key: &str| AuthHeader {
        header: header.into(),
        scheme: scheme.into(),
        key: Secret::new(key),
    };
    let long = "k".repeat(limits::EGRESS_CREDENTIAL_BYTES + 1);
    for (auth, why) in [
        (auth("authorization", "Bearer", "abc"), "fewer than 4 bytes"),
        (auth("authorization", "Bearer", ""), "fewer than 4 bytes"),
        (auth("authorization", "Basic", "ada:abc"), "fewer than 4 bytes"),
        (auth("authorization", "basic", "no-colon"), "not of the form `user:password`"),
        (auth("authorization", "Bearer", "sk-\nsecret"), "cannot be sent"),
        (auth("authorization", "Basic", "ada:sk-\nsecret"), "has a line break"),
        (auth("authorization", "Bear\r\ner", "sk-secret"), "cannot be sent"),
        (auth("host", "", "sk-secret"), "set by the host"),
        (auth("a b", "", "sk-secret"), "invalid header name"),
        (auth("x-key", "", &long), "more than 8192 bytes"),
    ] {
        let fault = Credential::new("one", &auth, HttpGrant::all()).unwrap_err();
        let said = fault.to_string();
        assert!(matches!(fault, Fault::Invalid { .. }) && said.contains(why) && said.contains("`one`"), "{said}");
        assert!(!said.contains("secret") && !said.contains("abc"), "{said}");
    }
}

#[tokio::test]
async fn nothing_shows_a_credential() {
    let server = TestServer::start(vec![answer("200 OK", "", "fine")]).await;
    let credential = key("one", bearer(), &[&server.url]);
    let egress = with(granted(&[&server.url]), vec![credential.clone()]);
    let response = egress.send(named("one", get(&server.url))).await.unwrap();
    // The plugin may know the credential from elsewhere; the facts and the debug output hide it all the same.
    let failure = egress.send(named("one", get(format!("http://{KEY}.example/{KEY}")))).await.unwrap_err();
    let shown = format!("{credential:?} {egress:?} {response:?} {:?}", failure.facts);
    assert!(!shown.contains(KEY) && shown.contains("***.example/***"), "{shown}");
}

#[tokio::test]
async fn credential_is_redacted_in_response() {
    let encoded = "c2stdmVyeS1zZWNyZXQ";
    let body = format!(r#"{{"key":"{KEY}","header":"Bearer {KEY}","base64":"{encoded}","url":"?k=sk-very-secret"}}"#);
    let headers = format!("x-echo: {KEY}\r\nlocation: /?token={KEY}\r\nset-cookie: {encoded}\r\n");
    for status in ["200 OK", "302 There", "401 No", "500 Oh sk-very-secret"] {
        let server = TestServer::start(vec![answer(status, &headers, &body)]).await;
        let egress = with(granted(&[&server.url]), vec![key("one", bearer(), &[&server.url])]);
        // Also in the response to a request without the credential.
        let response = egress.send(EgressRequest { follow: false, ..get(&server.url) }).await.unwrap();
        let shown: Vec<_> = response
            .headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
            .collect();
        for line in ["x-echo: ***", "location: /?token=***", "set-cookie: ***"] {
            assert!(shown.iter().any(|shown| shown == line), "{shown:?}");
        }
        assert!(!shown.iter().any(|line| line.starts_with("content-length")), "{shown:?}");
        let said = whole(response.body).await.unwrap();
        assert_eq!(said, r#"{"key":"***","header":"Bearer ***","base64":"***","url":"?k=***"}"#);
    }
}

/// A plugin with an accomplice server, which is not the host of the credential.
#[tokio::test]
async fn reply_without_known_credential_is_streamed_unheld() {
    for text in ["sk-very", KEY, "c2stdmVyeS1zZWNyZXQ"] {
        let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
        let (url, _task) = serve(async move |mut connection| {
            until(&mut connection, "\r\n\r\n").await;
            let head = format!("HTTP/1.1 200 OK\r\nx-said: {text}\r\ncontent-length: {}\r\n\r\n", text.len() + 1);
            connection.write_all(format!("{head}{text}").as_bytes()).await.unwrap();
            let _ = wait.await;
            connection.write_all(b"!").await.unwrap();
        })
        .await;
        let egress = with(granted(&[&url]), vec![key("one", bearer(), &["https://in.example"])]);
        let mut response = egress.send(get(&url)).await.unwrap();
        let has = |name: &str, value: &str| response.headers.contains(&(name.to_owned(), value.into()));
        assert!(has("x-said", text) && has("content-length", &(text.len() + 1).to_string()), "{response:?}");
        assert_eq!(response.body.chunk().await.unwrap().unwrap(), text.as_bytes());
        go_on.send(()).unwrap();
        assert_eq!(whole(response.body).await.unwrap(), "!");
    }
}

#[tokio::test]
async fn credential_split_across_chunks_is_redacted() {
    let (url, _task) = serve(|mut connection| async move {
        until(&mut connection, "\r\n\r\n").await;
        connection.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.unwrap();
        for byte in format!("a{KEY}b{KEY}").bytes() {
            connection.write_all(&[b'1', b'\r', b'\n', byte, b'\r', b'\n']).await.unwrap();
            connection.flush().await.unwrap();
        }
        connection.write_all(b"0\r\n\r\n").await.unwrap();
    })
    .await;
    let egress = with(granted(&[&url]), vec![key("one", bearer(), &[&url])]);
    assert_eq!(text(&egress, named("one", get(&url))).await.unwrap(), "a***b***");
}

#[tokio::test]
async fn basic_password_and_encoded_value_are_redacted() {
    let body = "ada:pass:word pass:word YWRhOnBhc3M6d29yZA==";
    let server = TestServer::start(vec![answer("200 OK", "", body)]).await;
    let basic =
        AuthHeader { header: "authorization".into(), scheme: "Basic".into(), key: Secret::new("ada:pass:word") };
    let egress = with(granted(&[&server.url]), vec![key("one", basic, &[&server.url])]);
    let said = text(&egress, get(&server.url)).await.unwrap();
    assert!(!said.contains("pass") && !said.contains("YWRh"), "{said}");
}

#[tokio::test]
async fn unsent_credential_is_not_in_facts() {
    let credential = key("one", bearer(), &["http://in.example"]);
    let private = |_: &str| vec!["10.0.0.1".parse().unwrap()];
    let egress = with_names_and(granted(&["http://*"]), vec![credential], private);
    let failure = egress.send(named("one", get("http://in.example"))).await.unwrap_err();
    assert!(matches!(failure.fault, Fault::Denied { .. }), "{failure:?}");
    assert_eq!((failure.facts.credential, failure.facts.address), (None, Some("10.0.0.1".parse().unwrap())));
}

#[tokio::test]
async fn credential_in_the_query_is_sent_and_redacted() {
    let redirect = answer("302 Found", "location: /v1/next\r\n", "");
    let echo = || answer("200 OK", "", "you sent key=sk-very-secret");
    let server = TestServer::start(vec![redirect, echo(), echo()]).await;
    let v1 = format!("{}/v1", server.url);
    let credential = |url: &str| Credential::in_query("one", "key", Secret::new(KEY), granted(&[url])).unwrap();
    let egress = with(granted(&[&server.url]), vec![Arc::new(credential(&v1))]);
    let mut response = egress.send(named("one", get(format!("{v1}?q=1")))).await.unwrap();
    assert_eq!(response.facts.credential.as_deref(), Some("one"));
    assert!(!response.facts.url.contains(KEY), "{}", response.facts.url);
    let body = response.body.chunk().await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&body).contains(KEY), "{body:?}");
    drop(response);
    let lines: Vec<_> = server.requests().iter().map(|one| one.lines().next().unwrap().to_owned()).collect();
    assert_eq!(lines, ["GET /v1?q=1&key=sk-very-secret HTTP/1.1", "GET /v1/next?key=sk-very-secret HTTP/1.1"]);
    // Elsewhere it is not sent, and a plugin cannot set the parameter itself.
    let any = EgressRequest { credential: CredentialUse::Any, ..get(format!("{}/v2", server.url)) };
    drop(egress.send(any).await.unwrap());
    assert!(!server.requests().last().unwrap().contains(KEY));
    let said = denied(&egress, get(format!("{v1}?key=mine"))).await;
    assert!(said.starts_with("the host sets the query parameter `key` for this target; leave it out"), "{said}");
    for key in ["abc", "a\nbcdef"] {
        assert!(Credential::in_query("one", "key", Secret::new(key), granted(&[&v1])).is_err(), "{key:?}");
    }
}
