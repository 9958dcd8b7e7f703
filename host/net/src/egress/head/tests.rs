use super::*;

#[test]
fn headers_of_the_host_are_refused() {
    for (name, is_invalid) in [
        ("host", true),
        ("Content-Length", true),
        ("content_length", true),
        ("Transfer-Encoding", true),
        ("transfer_encoding", true),
        ("connection", true),
        ("proxy-authorization", true),
        ("te", true),
        ("trailer", true),
        ("upgrade", true),
        ("expect", true),
        ("accept-encoding", true),
        ("http2-settings", true),
        (":authority", true),
        (":path", true),
        ("", true),
        ("a b", true),
        ("a\r\nb", true),
        ("a:b", true),
        ("ä", true),
        ("x-forwarded-for", false),
        ("X_Forwarded_Host", false),
        ("forwarded", false),
        ("via", false),
        ("x-http-method-override", false),
        ("x-original-url", false),
    ] {
        let fault = of_request(&[(name.into(), b"1".into())]).unwrap_err();
        assert_eq!(matches!(fault, Fault::Invalid { .. }), is_invalid, "{name}: {fault}");
        assert_eq!(matches!(fault, Fault::Denied { .. }), !is_invalid, "{name}: {fault}");
        assert!(!fault.to_string().contains(['\r', '\n']), "{fault}");
    }
    for name in ["authorization", "cookie", "Accept", "content-type", "x-api-key", "user-agent", "range", "origin"] {
        assert!(of_request(&[(name.into(), b"1".into())]).is_ok(), "{name}");
    }
}

#[test]
fn values_cannot_begin_another_header() {
    for value in [&b"a\r\nb: c"[..], b"a\nb", b"a\rb", b"a\0", b"\x7f", b"\x1b[1m"] {
        let fault = of_request(&[("x-a".into(), value.into())]).unwrap_err();
        assert!(matches!(fault, Fault::Invalid { .. }), "{value:?}: {fault}");
    }
    for value in [&b""[..], b"a\tb", b"caf\xe9", "ä".as_bytes()] {
        assert!(of_request(&[("x-a".into(), value.into())]).is_ok(), "{value:?}");
    }
}

#[test]
fn headers_of_a_request_are_bounded() {
    let headers = |count: usize, bytes: usize| vec![("x-a".to_owned(), vec![b'a'; bytes]); count];
    let (most, bytes) = (limits::EGRESS_REQUEST_HEADERS, limits::EGRESS_REQUEST_HEADER_BYTES);
    assert_eq!(of_request(&headers(most, 1)).unwrap().len(), most, "repeated ones are kept");
    assert!(matches!(of_request(&headers(most + 1, 1)), Err(Fault::TooLarge { .. })));
    assert!(of_request(&headers(1, bytes - 3)).is_ok());
    assert!(matches!(of_request(&headers(1, bytes - 2)), Err(Fault::TooLarge { .. })));
}

#[test]
fn plugin_gets_headers_of_response_not_connection() {
    let headers: HeaderMap = [
        ("Content-Type", "text/plain"),
        ("set-cookie", "a=1"),
        ("connection", "close, X-Own"),
        ("keep-alive", "timeout=5"),
        ("x-own", "1"),
        ("transfer-encoding", "chunked"),
        ("trailer", "x-t"),
        ("content-length", "7"),
        ("x-key", "sk-secret and sk-secret"),
        ("x-sk-secret", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
    .chain([(header::SET_COOKIE, "b=2".parse().unwrap())])
    .collect();
    let shown = |has_body, scrubber| {
        let shown = of_response(&headers, has_body, "h", &scrubber).unwrap();
        shown.into_iter().map(|(name, value)| format!("{name}: {}", String::from_utf8(value).unwrap())).collect()
    };
    let scrubber = Scrubber::new(&[crate::Secret::new("sk-secret")]).unwrap();
    let clean: Vec<String> = shown(true, scrubber.clone());
    assert_eq!(clean, ["content-type: text/plain", "set-cookie: a=1", "set-cookie: b=2", "x-key: *** and ***"]);
    let of_head: Vec<String> = shown(false, scrubber);
    assert!(of_head.contains(&"content-length: 7".to_owned()), "{of_head:?}");
    let as_it_is: Vec<String> = shown(true, Scrubber::default());
    assert!(as_it_is.contains(&"content-length: 7".to_owned()), "{as_it_is:?}");
}

#[test]
fn headers_of_a_response_are_bounded() {
    let headers = |count: usize, bytes: usize| {
        let value = HeaderValue::from_bytes(&vec![b'a'; bytes]).unwrap();
        std::iter::repeat_n((HeaderName::from_static("x-a"), value), count).collect::<HeaderMap>()
    };
    let (most, bytes) = (limits::EGRESS_RESPONSE_HEADERS, limits::EGRESS_RESPONSE_HEADER_BYTES);
    let shown = |count, bytes| of_response(&headers(count, bytes), true, "h", &Scrubber::default());
    assert_eq!(shown(most, 1).unwrap().len(), most);
    assert!(matches!(shown(most + 1, 1), Err(Fault::TooLarge { .. })));
    assert!(shown(1, bytes - 3).is_ok());
    assert!(matches!(shown(1, bytes - 2), Err(Fault::TooLarge { .. })));
}
