//! Servers and authorization servers that send what they must not.

use std::sync::Mutex;

use async_trait::async_trait;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use tokio::io::AsyncReadExt;
use url::Url;

use super::{
    oauth::{Browser, Realm, challenge, connected, metadata, ok, origin, pairs},
    web::{Came, reply},
    *,
};
use crate::{Authorizer, OAuthGrantType, OAuthOptions, TokenStore, login};
use shelly_core::{error::Fault, limits};
use shelly_net::Secret;

/// Answers the requests to one target.
fn says(target: &'static str, answer: impl Fn(&Came) -> String) -> impl Fn(&Came) -> Option<String> {
    move |came| came.target.starts_with(target).then(|| answer(came))
}

/// Changes the metadata of the authorization server.
fn changed(change: impl Fn(&mut Value, &Came) + Send + Sync + 'static) -> Says {
    Box::new(says("GET /.well-known/oauth-authorization-server", move |came| {
        let mut metadata = metadata(came);
        change(&mut metadata, came);
        ok(&metadata)
    }))
}

/// Changes the authorization servers that the server names.
fn names(servers: Value) -> Says {
    Box::new(says("GET /.well-known/oauth-protected-resource", move |came| {
        ok(&json!({"resource": origin(came) + "/mcp", "authorization_servers": servers}))
    }))
}

/// Changes the redirect at the end of the login.
fn leads(back: impl Fn(&str, &str, &str) -> String + Send + Sync + 'static) -> Says {
    Box::new(says("GET /authorize", move |came| {
        let asked = pairs(came);
        let location = back(&asked["redirect_uri"], &asked["state"], &origin(came));
        reply("302 Found", &format!("location: {location}\r\n"), "")
    }))
}

fn tokens(answer: impl Fn() -> Value + Send + Sync + 'static) -> Says {
    Box::new(says("POST /token", move |_| ok(&answer())))
}

type Says = Box<dyn Fn(&Came) -> Option<String> + Send + Sync>;

#[tokio::test]
async fn forbidden_login_step_fails_with_its_reason() {
    let huge = || "x".repeat(limits::OAUTH_BODY_BYTES + 1);
    let long = || "x".repeat(limits::OAUTH_TOKEN_BYTES + 1);
    let cases: Vec<(Says, &str)> = vec![
        (changed(|said, _| said["code_challenge_methods_supported"] = json!(["plain"])), "PKCE with S256"),
        (changed(|said, _| said["code_challenge_methods_supported"] = Value::Null), "PKCE with S256"),
        (changed(|said, _| said["issuer"] = "https://evil.example".into()), "issuer mismatch"),
        (changed(|said, _| said["registration_endpoint"] = Value::Null), "set `client_id` in the config"),
        (changed(|said, _| said["registration_endpoint"] = "http://10.0.0.1/r".into()), "does not begin with https://"),
        (changed(|said, _| said["registration_endpoint"] = "https://10.0.0.1/r".into()), "private network"),
        (changed(|said, _| said["token_endpoint"] = "https://169.254.169.254/t".into()), "private network"),
        (
            changed(|said, _| said["authorization_endpoint"] = "file:///etc/passwd".into()),
            "does not begin with https://",
        ),
        (
            changed(|said, _| said["authorization_endpoint"] = "javascript:alert(1)".into()),
            "does not begin with https://",
        ),
        (changed(move |said, _| said["service_documentation"] = huge().into()), "with more than 262144 bytes"),
        (names(json!(["http://192.168.1.1"])), "none published usable metadata"),
        (names(json!(["http://login.example"])), "does not begin with https://"),
        (
            Box::new(says("GET /.well-known/", |came| match came.target.contains("protected-resource") {
                true => {
                    let many: Vec<_> = (0..99).map(|number| format!("{}/{number}", origin(came))).collect();
                    ok(&json!({"resource": origin(came) + "/mcp", "authorization_servers": many}))
                }
                false => reply("404 Not Found", "", ""),
            })),
            "more than 32 requests for one login",
        ),
        (
            Box::new(says("GET /.well-known/oauth-protected-resource", |_| {
                ok(
                    &json!({"resource": "https://other.example/mcp", "authorization_servers": ["https://other.example"]}),
                )
            })),
            "resource mismatch",
        ),
        (
            Box::new(says("GET /.well-known/oauth-protected-resource", |_| {
                reply("302 Found", "location: http://169.254.169.254/latest\r\n", "")
            })),
            "non-same-origin URL rejected",
        ),
        (Box::new(says("POST /register", |_| reply("400 Bad Request", "", "\u{1b}[2Jno"))), "HTTP 400 Bad Request"),
        (Box::new(says("POST /register", |_| reply("307 Go", "location: /register\r\n", ""))), "more than 4 redirects"),
        (
            Box::new(says("POST /register", |_| reply("307 Go", "location: http://10.0.0.1/\r\n", ""))),
            "does not begin with https://",
        ),
        (
            Box::new(says("POST /register", move |_| ok(&json!({"client_id": long(), "redirect_uris": []})))),
            "an ID or a secret of more than 16384 bytes",
        ),
        (leads(|back, state, iss| format!("{back}?code=c&state=x{state}&iss={iss}")), "belongs to another login"),
        (leads(|back, _, iss| format!("{back}?code=c&iss={iss}")), "belongs to another login"),
        (leads(|back, state, iss| format!("{back}?state={state}&iss={iss}")), "has no code"),
        (leads(|back, state, _| format!("{back}?code=c&state={state}&iss=https://evil.example")), "issuer mismatch"),
        (leads(|back, state, _| format!("{back}?code=c&state={state}")), "missing required issuer"),
        (leads(|_, state, iss| format!("{iss}/callback?code=c&state={state}&iss={iss}")), "unexpected address"),
        (
            leads(|back, state, _| format!("{back}?error=access_denied&error_description=%1b[2Jno&state={state}")),
            "the authorization server reports `access_denied (\\u{1b}[2Jno)`",
        ),
        (leads(|back, state, iss| format!("{back}?code=unknown&state={state}&iss={iss}")), "invalid_grant"),
        (Box::new(says("POST /token", |_| reply("503 Busy", "", ""))), "answered 503 Service Unavailable"),
        (Box::new(says("POST /token", |_| reply("307 Go", "location: /token2\r\n", ""))), "the login failed: "),
        (tokens(|| json!({"error": "slow_down"})), "slow_down"),
        (tokens(|| json!({"token_type": "Bearer"})), "access_token"),
        (tokens(|| json!({"access_token": "a", "token_type": "DPoP"})), "of an unknown type"),
        (tokens(move || json!({"access_token": long(), "token_type": "Bearer"})), "a token of more than 16384 bytes"),
        (tokens(|| json!({"access_token": "a\nb", "token_type": "Bearer"})), "characters that cannot be sent"),
        (tokens(|| json!({"access_token": "wrong", "token_type": "Bearer"})), "also rejects the token of a new login"),
    ];
    for (odd, why) in cases {
        let realm = Realm::start(move |came, _| odd(came)).await;
        let store = TokenStore::in_memory();
        let said = connected(realm.config(&store, |_| {})).await.unwrap_err().to_string();
        assert!(said.contains(why) && said.len() < 2_000, "{why}: {said}");
        for secret in ["-secret", "code-", "\u{1b}"] {
            assert!(!said.contains(secret), "{secret}: {said}");
        }
    }
}

#[tokio::test]
async fn guessed_auth_endpoints_are_used_only_after_a_refusal() {
    let is_strict = Arc::new(Mutex::new(false));
    let strict = Arc::clone(&is_strict);
    let realm = Realm::start(move |came, _| {
        if came.target.starts_with("GET /.well-known/") {
            return Some(reply("404 Not Found", "", ""));
        }
        let is_open = came.target.starts_with("POST /mcp") && !*strict.lock().unwrap();
        is_open.then(|| reply("400 Bad Request", "", "")).or_else(|| {
            // Servers of earlier revisions publish no metadata.
            let asked = pairs(came);
            came.target.starts_with("GET /authorize").then(|| {
                let back = format!("{}?code=c&state={}", asked["redirect_uri"], asked["state"]);
                reply("302 Found", &format!("location: {back}\r\n"), "")
            })
        })
    })
    .await;
    let config = realm.config(&TokenStore::in_memory(), |_| {});
    let said = login(&config).await.unwrap_err().to_string();
    assert!(said.contains("the server does not say where to log in"), "{said}");
    *is_strict.lock().unwrap() = true;
    let said = login(&config).await.unwrap_err().to_string();
    assert!(said.contains("invalid_grant"), "it was asked at `/authorize`, and for a token: {said}");
    assert_eq!((realm.count("POST /register"), realm.count("POST /token")), (1, 1));
}

#[tokio::test]
async fn client_id_is_sent_only_to_its_configured_issuer() {
    let realm = Realm::plain().await;
    let elsewhere = |oauth: &mut OAuthOptions| {
        oauth.client_id = Some("known".into());
        oauth.issuer = Some("https://login.example".into());
    };
    let said = connected(realm.config(&TokenStore::in_memory(), elsewhere)).await.unwrap_err().to_string();
    assert!(
        said.contains("its authorization server is http://127.0.0.1:") && said.ends_with("not the one in the config"),
        "{said}"
    );
    assert_eq!((realm.count("GET /authorize"), realm.count("POST /token")), (0, 0));
}

#[tokio::test]
async fn refused_client_error_hides_its_secret() {
    let odd: Says = Box::new(says("POST /token", |came| {
        let said = format!("{} {}", STANDARD.encode("robot:cs-secret"), came.body);
        let said = json!({"error": "invalid_client", "error_description": said});
        reply("401 Unauthorized", "", &said.to_string())
    }));
    let realm = Realm::start(move |came, _| odd(came)).await;
    for grant in [OAuthGrantType::Client, OAuthGrantType::Person] {
        let client = |oauth: &mut OAuthOptions| {
            oauth.grant = grant;
            (oauth.client_id, oauth.client_secret) = (Some("robot".into()), Some(Secret::new("cs-secret")));
        };
        let said = connected(realm.config(&TokenStore::in_memory(), client)).await.unwrap_err();
        assert!(said.to_string().contains("invalid_client") && !said.is_transient(), "{said}");
        for secret in ["cs-secret", &STANDARD_NO_PAD.encode("robot:cs-secret")] {
            assert!(!said.to_string().contains(secret), "{said}");
        }
    }
}

/// Some servers also answer any request with a stream without end.
#[tokio::test]
async fn a_stream_is_not_waited_for() {
    let realm = Realm::start(|came, _| {
        if came.target == "POST /mcp" && !came.head.contains("authorization: bearer") {
            return Some(reply("401 Unauthorized", "", ""));
        }
        // The declared length is more than what comes.
        (came.target == "GET /mcp" && !came.head.contains("authorization: bearer"))
            .then(|| "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 99\r\n\r\n:\n\n".into())
    })
    .await;
    connected(realm.config(&TokenStore::in_memory(), |_| {})).await.unwrap();
    assert!(realm.count("GET /mcp") > 0);
}

/// An authorizer that never returns.
#[derive(Debug)]
struct Away;

#[async_trait]
impl Authorizer for Away {
    fn redirect(&self) -> Url {
        Browser::default().redirect()
    }

    async fn authorize(&self, _: &Url) -> Result<Url, Fault> {
        tokio::time::pause();
        std::future::pending().await
    }
}

#[tokio::test]
async fn nobody_is_waited_for_forever() {
    let realm = Realm::plain().await;
    let away = |oauth: &mut OAuthOptions| oauth.authorizer = Some(Arc::new(Away));
    let said = login(&realm.config(&TokenStore::in_memory(), away)).await.unwrap_err().to_string();
    assert!(said.ends_with("no login within 600s"), "{said}");
}

#[tokio::test]
async fn a_slow_authorization_server_is_given_up() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", silent.local_addr().unwrap());
    let listening = tokio::spawn(async move {
        let (mut connection, _) = silent.accept().await.unwrap();
        let mut heard = [0; 1_000];
        while connection.read(&mut heard).await.is_ok_and(|read| read > 0) {
            tokio::time::pause();
        }
    });
    let odd = names(json!([at]));
    let realm = Realm::start(move |came, _| odd(came)).await;
    let store = TokenStore::in_memory();
    let said = login(&realm.config(&store, |_| {})).await.unwrap_err();
    assert!(said.to_string().contains("127.0.0.1") && said.is_transient(), "{said}");
    listening.abort();
}

#[tokio::test]
async fn oversized_challenge_falls_back_to_discovery() {
    let realm = Realm::start(|came, _| {
        let long = format!(", error_description=\"{}\"", "x".repeat(limits::OAUTH_CHALLENGE_BYTES));
        (came.target == "POST /mcp" && !came.head.contains("authorization: bearer"))
            .then(|| reply("401 Unauthorized", &challenge(came, &long), ""))
    })
    .await;
    connected(realm.config(&TokenStore::in_memory(), |_| {})).await.unwrap();
    assert!(realm.count("GET /mcp") > 0, "its challenge was not read");
}
