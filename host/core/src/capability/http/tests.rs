use proptest::prelude::*;

use super::*;

pub(in super::super) fn entry(url: &str, methods: &[&str], networks: &[&str]) -> HttpGrant {
    let methods: Vec<_> = methods.iter().map(|method| (*method).to_owned()).collect();
    let networks: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
    HttpGrant::entry(url, &methods, &networks).unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn all(entries: &[&str]) -> HttpGrant {
    entries.iter().fold(HttpGrant::default(), |all, url| all.join(&entry(url, &["*"], &[])))
}

const PUBLIC: &str = "93.184.216.34";

#[test]
fn public_server_is_recognized_by_name_or_address() {
    for (url, origin) in [
        ("https://Example.com/a?b#c", Some("https://example.com")),
        ("http://example.com:8080/", Some("http://example.com:8080")),
        ("https://example.com:443", Some("https://example.com")),
        ("https://93.184.216.34/", Some("https://93.184.216.34")),
        ("https://user@example.com/", None),
        ("https://*.example.com/", None),
        ("ftp://example.com/", None),
        ("example.com", None),
        ("http://localhost/", None),
        ("http://a.localhost./", None),
        ("http://127.1/", None),
        ("http://10.0.0.1/", None),
        ("http://169.254.169.254/", None),
        ("http://[::1]/", None),
        ("http://[::ffff:10.0.0.1]/", None),
    ] {
        let server = HttpGrant::public_server(url);
        assert_eq!(server.as_ref().map(|(_, origin)| origin.as_str()), origin, "{url}");
        let Some((http, _)) = server else { continue };
        let url = Url::parse(url).unwrap();
        let public = address_of(&url).unwrap_or(PUBLIC.parse().unwrap());
        assert!(http.admits("GET", &url, public) && !http.admits("GET", &url, [10, 0, 0, 1].into()), "{url}");
        assert!(http.only_reads() && !http.admits("POST", &url, public), "{url}: what is opened is read");
    }
}

#[test]
fn http_entry_allows_exactly_its_requests() {
    for (rule, url, expected) in [
        ("https://api.example.com", "https://api.example.com/x?y#z", true),
        ("https://api.example.com", "https://API.example.com.:443", true),
        ("https://api.example.com", "http://api.example.com", false),
        ("https://api.example.com", "https://api.example.com:8443", false),
        ("https://api.example.com", "https://a.api.example.com", false),
        ("https://api.example.com", "https://api.example.com@evil.example", false),
        ("https://api.example.com", "https://evil.example/https://api.example.com", false),
        ("https://api.example.com", "https://evil.example\\@api.example.com", false),
        ("https://api.example.com", "https://api.example.com.evil.example", false),
        ("https://api.example.com", "wss://api.example.com", false),
        ("https://api.example.com", "ftp://api.example.com:443", false),
        ("https://b\u{fc}cher.example", "https://xn--bcher-kva.example", true),
        ("https://b\u{fc}cher.example", "https://bucher.example", false),
        // A similar letter of another script.
        ("https://api.example.com", "https://\u{430}pi.example.com", false),
        // Full-width letters normalize to the same name.
        ("https://api.example.com", "https://\u{ff41}pi.example.com", true),
        ("https://*.example.com", "https://a.example.com", true),
        ("https://*.example.com", "https://a.b.example.com", true),
        ("https://*.example.com", "https://example.com", false),
        ("https://*.example.com", "https://notexample.com", false),
        ("https://*.example.com", "https://.example.com", false),
        ("https://*", "https://anything.example", true),
        ("https://*", "https://93.184.216.34", false),
        ("https://*:8443", "https://anything.example:8443", true),
        ("https://*:8443", "https://anything.example", false),
        ("https://h/v1", "https://h/v1", true),
        ("https://h/v1", "https://h/v1/x", true),
        ("https://h/v1", "https://h/v1?x", true),
        ("https://h/v1", "https://h/v12", false),
        ("https://h/v1", "https://h/", false),
        ("https://h/v1", "https://h/v1/../admin", false),
        ("https://h/v1", "https://h/v1/%2e%2e/admin", false),
        ("https://h/v1", "https://h/v1/..%2fadmin", false),
        ("https://h/v1", "https://h/v1/%2e%2e%2fadmin", false),
        ("https://h/v1", "https://h/v1/%252e%252e/admin", false),
        ("https://h/v1", "https://h/v1/..;/admin", false),
        ("https://h/v1", "https://h/v1/..%3b/admin", false),
        ("https://h/v1", "https://h/v1\\..\\admin", false),
        ("https://h/v1", "https://h//v1/x", false),
        ("https://h/v1", "https://h/V1/x", false),
        ("https://h/v1/", "https://h/v1/x", true),
        ("https://h/v1/", "https://h/v1", false),
    ] {
        let url = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
        assert_eq!(all(&[rule]).names("GET", &url), expected, "{rule}: {url}");
        assert_eq!(all(&[rule]).admits("GET", &url, PUBLIC.parse().unwrap()), expected, "{rule}: {url}");
    }
}

#[test]
fn http_name_resolves_to_public_or_granted_networks_only() {
    let table = [
        ("https://nas.lan", &[][..], "https://nas.lan", "10.0.0.1", false),
        ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", "10.0.0.1", true),
        ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", "::ffff:10.0.0.1", true),
        ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", "192.168.0.1", false),
        ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", PUBLIC, true),
        ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", "169.254.169.254", false),
        ("http://localhost", &[], "http://localhost", "127.0.0.1", true),
        ("http://localhost", &[], "http://localhost.", "::1", true),
        ("http://localhost", &[], "http://localhost", "10.0.0.1", false),
        ("http://localhost", &[], "http://localhost", PUBLIC, false),
        ("http://*", &[], "http://localhost", "127.0.0.1", false),
        ("http://*.lan", &["fd00::/8"], "http://a.lan", "fd12::1", true),
    ];
    for (rule, networks, url, address, expected) in table {
        let (http, url) = (entry(rule, &[], networks), Url::parse(url).unwrap());
        let address = address.parse().unwrap();
        assert_eq!(http.admits("GET", &url, address), expected, "{rule}: {url} at {address}");
        assert_eq!(http.reaches("GET", &url).holds(address), expected, "{rule}: {url} at {address}");
    }
}

#[test]
fn http_address_matches_in_every_notation() {
    let granted = all(&["http://127.0.0.1"]);
    for (url, expected) in [
        ("http://127.0.0.1", true),
        ("http://2130706433", true),
        ("http://0x7f.1", true),
        ("http://0177.0.0.1", true),
        ("http://127.1", true),
        ("http://%31%32%37.0.0.1", true),
        ("http://\u{ff11}27.0.0.1", true),
        ("http://[::ffff:127.0.0.1]", true),
        ("http://[::ffff:7f00:1]", true),
        ("http://127.0.0.2", false),
        ("http://localhost", false),
        ("http://[::1]", false),
        ("http://0.0.0.0", false),
        ("http://[::]", false),
    ] {
        let parsed = Url::parse(url).unwrap();
        assert_eq!(granted.names("GET", &parsed), expected, "{url}");
        assert!(
            !all(&["http://*", "http://api.example.com", "http://*.example.com"]).names("GET", &parsed)
                || expected
                || url.contains("localhost"),
            "{url}"
        );
    }
}

#[test]
fn http_entry_without_methods_allows_safe_ones() {
    let url = Url::parse("https://h/x").unwrap();
    for (methods, allowed, only_reads) in [
        (&[][..], &["GET", "HEAD"][..], true),
        (&["GET"], &["GET"], true),
        (&["HEAD", "POST"], &["HEAD", "POST"], false),
        (&["*"], &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"], false),
        (&["GET", "*"], &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"], false),
    ] {
        let http = entry("https://h", methods, &[]);
        for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE", "get"] {
            let expected = allowed.contains(&method) || methods.contains(&"*");
            assert_eq!(http.names(method, &url), expected, "{methods:?}: {method}");
        }
        assert_eq!(http.only_reads(), only_reads, "{methods:?}");
    }
    assert!(HttpGrant::default().only_reads() && !HttpGrant::all().only_reads());
    assert!(!HttpGrant::all_below("https://h").unwrap().only_reads(), "what a plugin asks for has any method");
}

#[test]
fn invalid_http_entry_is_explained() {
    for (url, methods, says) in [
        ("api.example.com", &[][..], "write it with its scheme"),
        ("ftp://h", &[], "begin it with https:// or"),
        ("https://me:secret@h", &[], "a user or a password"),
        ("https://me:secret@h:99999", &[], "a user or a password"),
        ("me:secret@h", &[], "a user or a password"),
        ("https://h?x", &[], "the query and the fragment"),
        ("https://h?key=secret", &[], "invalid URL `https://h`; remove the query"),
        ("https://h:99999?key=secret", &[], "invalid URL `https://h:99999`"),
        ("https://a.*.example.com", &[], "use `*` only as the whole host"),
        ("https://*example.com", &[], "use `*` only as the whole host"),
        ("https://*.1.2.3.4", &[], "has no subdomains"),
        ("https://h/%2e%2e%2fx", &[], "is ambiguous"),
        ("https://", &[], "invalid URL"),
        ("https://h:99999", &[], "invalid URL"),
        ("https://h", &["get"], "invalid HTTP method `get`"),
        ("https://h", &["CONNECT"], "invalid HTTP method `CONNECT`"),
    ] {
        let methods: Vec<_> = methods.iter().map(|method| (*method).to_owned()).collect();
        let error = HttpGrant::entry(url, &methods, &[]).unwrap_err();
        assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
    }
}

#[test]
fn http_grant_is_formatted_as_in_a_config() {
    let http = entry("https://*.example.com:8443/v1", &["POST", "GET"], &["10.1.2.3/8"]).join(&all(&[
        "http://localhost",
        "http://[::1]:1",
        "https://h",
    ]));
    let shown: Vec<_> = http.rules().map(HttpRule::to_string).collect();
    assert_eq!(
        shown,
        [
            "GET https://*.example.com:8443/v1",
            "GET https://*.example.com:8443/v1 in 10.0.0.0/8",
            "POST https://*.example.com:8443/v1",
            "POST https://*.example.com:8443/v1 in 10.0.0.0/8",
            "https://h",
            "http://localhost",
            "http://localhost",
            "http://[::1]:1",
        ]
    );
    assert_eq!(serde_json::to_value(HttpGrant::all()).unwrap(), serde_json::json!(["*"]));
}

#[test]
fn unencrypted_http_rules_are_detected() {
    for (url, expected) in [
        ("https://h", false),
        ("https://*", false),
        ("http://h", true),
        ("http://*", true),
        ("http://*.lan", true),
        ("http://10.0.0.1", true),
        ("http://localhost:1", false),
        ("http://*.localhost", false),
        ("http://127.0.0.1", false),
        ("http://[::1]", false),
    ] {
        let grant = HttpGrant::all_below(url).unwrap();
        assert_eq!(grant.rules().any(HttpRule::is_readable_on_the_way), expected, "{url}");
        assert_eq!(grant.is_for_every_host(), url.ends_with('*'), "{url}");
    }
}

#[test]
fn missing_http_requests_are_listed_as_config_entries() {
    let methods = |methods: &[&str]| entry("https://h/v1", methods, &[]);
    let lan = |methods: &[&str], networks: &[&str]| entry("http://nas.lan", methods, networks);
    for (given, wanted, expected) in [
        (HttpGrant::default(), all(&["https://h"]), &["{url: https://h, methods: ['*']}"][..]),
        (all(&["https://h"]), methods(&["GET"]), &[]),
        (all(&["https://h/v1/x"]), methods(&[]), &["https://h/v1"]),
        (methods(&[]), methods(&["*"]), &["{url: https://h/v1, methods: ['*']}"]),
        (HttpGrant::default(), methods(&["POST", "GET"]), &["{url: https://h/v1, methods: [GET, POST]}"]),
        (methods(&["GET"]), methods(&["POST", "GET"]), &["{url: https://h/v1, methods: [POST]}"]),
        (
            HttpGrant::default(),
            lan(&["GET", "HEAD"], &["10.0.0.0/8", "fd00::/8"]),
            &["{url: http://nas.lan, networks: [10.0.0.0/8, fd00::/8]}"],
        ),
        (lan(&[], &[]), lan(&[], &["10.0.0.0/8"]), &["{url: http://nas.lan, networks: [10.0.0.0/8]}"]),
        (
            HttpGrant::default(),
            ["http://[::1]:1", "http://localhost", "http://10.0.0.1"]
                .iter()
                .fold(HttpGrant::default(), |all, url| all.join(&entry(url, &[], &[]))),
            &["http://10.0.0.1", "\"http://[::1]:1\"", "http://localhost"],
        ),
        (HttpGrant::default(), HttpGrant::all_below("https://*.example.com").unwrap(), &["https://*.example.com"]),
        (all(&["https://h"]), HttpGrant::all(), &["URL"]),
        (HttpGrant::all(), HttpGrant::all(), &[]),
    ] {
        assert_eq!(given.lacking(&wanted), expected, "{wanted:?}");
    }
}

#[test]
fn http_url_matches_any_granted_address() {
    let wanted = HttpGrant::all_below("http://*.lan:8080/v1").unwrap();
    for (given, is_apart) in [
        (entry("http://nas.lan:8080", &["GET"], &["10.0.0.0/8"]), false),
        (all(&["http://*:8080/v1/x"]), false),
        (all(&["http://nas.lan"]), true),
        (all(&["http://10.0.0.1:8080"]), true),
        (all(&["http://nas.lan:8080/v2"]), true),
    ] {
        let (got, apart) = (given.meet(&wanted), given.apart_from(&wanted));
        assert_eq!((got.is_empty(), !apart.is_empty()), (is_apart, is_apart), "{given:?}");
        assert!(given.meet(&HttpGrant::all()) == given && given.apart_from(&HttpGrant::all()).is_empty(), "{given:?}");
    }
    let given = entry("http://nas.lan:8080", &["*"], &["10.0.0.0/8"]).meet(&wanted);
    let url = Url::parse("http://nas.lan:8080/v1").unwrap();
    for (address, expected) in [("10.0.0.1", true), (PUBLIC, true), ("192.168.0.1", false), ("127.0.0.1", false)] {
        assert_eq!(given.admits("GET", &url, address.parse().unwrap()), expected, "{address}");
    }
}

/// Any grant over a few URLs that contain each other.
pub(in super::super) fn any() -> impl Strategy<Value = HttpGrant> {
    let url = prop::sample::select(vec![
        "https://*",
        "https://*.a",
        "https://*.b.a",
        "https://b.a",
        "https://b.a/x",
        "https://b.a/x/y",
        "http://b.a",
        "https://b.a:1",
        "https://1.2.3.4",
        "http://localhost",
    ]);
    let methods = prop::sample::select(vec![&[][..], &["*"], &["GET"], &["GET", "POST"]]);
    let networks = prop::sample::select(vec![&[][..], &["10.0.0.0/8"], &["10.1.0.0/16"]]);
    let entry = (url, methods, networks).prop_map(|(url, methods, networks)| {
        let networks = if url.contains('1') { &[][..] } else { networks };
        entry(url, methods, networks)
    });
    let wanted = prop::sample::select(vec!["https://*", "https://*.b.a", "https://b.a/x", "http://localhost"])
        .prop_map(|url| HttpGrant::all_below(url).unwrap());
    let some = prop::collection::vec(prop_oneof![3 => entry, 1 => wanted], 0..3)
        .prop_map(|all| all.iter().fold(HttpGrant::default(), |a, b| a.join(b)));
    prop_oneof![8 => some, 1 => Just(HttpGrant::all())]
}

proptest! {
    #[test]
    fn http_grant_meet_and_join_match_their_rules(
        a in any(), b in any(),
        url in prop::sample::select(vec!["https://b.a/x/z", "https://c.b.a", "http://b.a", "http://localhost", "https://1.2.3.4/"]),
        method in prop::sample::select(vec!["GET", "POST", "PUT"]),
        address in prop::sample::select(vec!["10.1.1.1", "10.2.2.2", "8.8.8.8", "127.0.0.1", "1.2.3.4"]),
    ) {
        let (url, address) = (Url::parse(url).unwrap(), address.parse().unwrap());
        let admits = |http: &HttpGrant| http.admits(method, &url, address);
        prop_assert_eq!(admits(&a.meet(&b)), admits(&a) && admits(&b));
        prop_assert_eq!(admits(&a.join(&b)), admits(&a) || admits(&b));
        prop_assert_eq!(a.lacking(&b).is_empty(), b.meet(&a) == b);
    }
}
