//! Logins at a server that is its own authorization server.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::Mutex,
};

use async_trait::async_trait;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::Method;
use sha2::{Digest, Sha256};
use url::{Url, form_urlencoded};

use super::{
    web::{Came, Web, legacy, reply, result},
    *,
};
use crate::{Authorizer, McpHttpTarget, OAuthGrantType, OAuthOptions, TokenStore, login, logout};
use shelly_core::error::Fault;
use shelly_net::{HttpClient, HttpRequest, Retries, Secret};

/// The state and the behaviour of the authorization server.
#[derive(Debug, Default)]
pub(super) struct Book {
    /// The number of codes and tokens issued.
    given: usize,
    /// The parameters with which each code was requested.
    codes: HashMap<String, BTreeMap<String, String>>,
    /// The valid access tokens with their scopes.
    pub tokens: HashMap<String, String>,
    /// The valid refresh token with the scopes of its access tokens.
    pub refresh: Option<(String, String)>,
    /// The lifetimes of the next access tokens in seconds; later ones live long.
    pub life: Vec<u64>,
    /// The scope that a tool call needs.
    pub for_calls: Option<&'static str>,
}

/// Returns a wrong answer, or `None` for the right one.
type Odd = Box<dyn Fn(&Came, &mut Book) -> Option<String> + Send + Sync>;

pub(super) struct Realm {
    pub web: Web,
    pub book: Arc<Mutex<Book>>,
}

impl Realm {
    pub async fn start(odd: impl Fn(&Came, &mut Book) -> Option<String> + Send + Sync + 'static) -> Self {
        let book = Arc::<Mutex<Book>>::default();
        let (shared, odd): (_, Odd) = (Arc::clone(&book), Box::new(odd));
        let web = Web::start(move |came, _| {
            let mut book = shared.lock().unwrap();
            odd(came, &mut book).unwrap_or_else(|| book.answer(came))
        })
        .await;
        Self { web, book }
    }

    pub async fn plain() -> Self {
        Self::start(|_, _| None).await
    }

    /// Returns a config with this store and an authorizer.
    pub fn config(&self, store: &TokenStore, change: impl FnOnce(&mut OAuthOptions)) -> ServerConfig {
        let mut oauth =
            OAuthOptions { authorizer: Some(Arc::new(Browser::default())), ..OAuthOptions::new(store.clone()) };
        change(&mut oauth);
        let http = McpHttpTarget {
            client: HttpClient::new().unwrap(),
            url: self.web.url.clone(),
            auth: None,
            headers: vec![],
            oauth: Some(oauth),
        };
        ServerConfig::new("web", McpTarget::Http(http))
    }

    /// Returns a config with this store and without an authorizer.
    pub fn headless(&self, store: &TokenStore) -> ServerConfig {
        self.config(store, |oauth| oauth.authorizer = None)
    }

    /// Returns the number of requests to this target.
    pub fn count(&self, target: &str) -> usize {
        self.web.came().iter().filter(|came| came.target.starts_with(target)).count()
    }

    /// Returns the parameters of the last request to this target, from its query or its body.
    pub fn last(&self, target: &str) -> BTreeMap<String, String> {
        let came = self.web.came().into_iter().rfind(|came| came.target.starts_with(target)).unwrap();
        pairs(&came)
    }
}

/// Returns the origin of a server as the client addressed it.
pub(super) fn origin(came: &Came) -> String {
    let host = came.head.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    format!("http://{host}")
}

pub(super) fn ok(body: &Value) -> String {
    reply("200 OK", "content-type: application/json\r\n", &body.to_string())
}

pub(super) fn metadata(came: &Came) -> Value {
    let at = origin(came);
    json!({
        "issuer": at,
        "authorization_endpoint": format!("{at}/authorize"),
        "token_endpoint": format!("{at}/token"),
        "registration_endpoint": format!("{at}/register"),
        "response_types_supported": ["code"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "none"],
        "authorization_response_iss_parameter_supported": true,
    })
}

/// Returns the query of a GET, or the form of a POST.
pub(super) fn pairs(came: &Came) -> BTreeMap<String, String> {
    let query = came.target.split_once('?').map_or("", |(_, query)| query);
    let text = if came.target.starts_with("GET") { query } else { &came.body };
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

pub(super) fn challenge(came: &Came, more: &str) -> String {
    let at = origin(came);
    format!(
        "www-authenticate: Bearer resource_metadata=\"{at}/.well-known/oauth-protected-resource/mcp\", scope=\"read\"{more}\r\n"
    )
}

impl Book {
    fn answer(&mut self, came: &Came) -> String {
        let path = came.target.split('?').next().unwrap();
        match path {
            "GET /.well-known/oauth-protected-resource/mcp" => {
                let at = origin(came);
                ok(
                    &json!({"resource": format!("{at}/mcp"), "authorization_servers": [at], "scopes_supported": ["all"]}),
                )
            }
            "GET /.well-known/oauth-authorization-server" => ok(&metadata(came)),
            "POST /register" => ok(&json!({"client_id": "c-1", "client_secret": "cs-secret", "redirect_uris": []})),
            "GET /authorize" => {
                self.given += 1;
                let (code, asked) = (format!("code-{}", self.given), pairs(came));
                let mut back: Url = asked["redirect_uri"].parse().unwrap();
                let iss = origin(came);
                back.query_pairs_mut().extend_pairs([("code", &code), ("state", &asked["state"]), ("iss", &iss)]);
                self.codes.insert(code, asked);
                reply("302 Found", &format!("location: {back}\r\n"), "")
            }
            "POST /token" => self.token(&pairs(came)),
            "POST /mcp" => self.serve(came),
            "DELETE /mcp" | "GET /mcp" => reply("405 Method Not Allowed", "", ""),
            _ => reply("404 Not Found", "", "no such thing"),
        }
    }

    fn token(&mut self, asked: &BTreeMap<String, String>) -> String {
        let refused = |error: &str| {
            let said = json!({"error": error, "error_description": format!("{asked:?}\u{1b}[2J")});
            reply("400 Bad Request", "content-type: application/json\r\n", &said.to_string())
        };
        let scope = match asked["grant_type"].as_str() {
            "authorization_code" => {
                let Some(begun) = self.codes.remove(&asked["code"]) else { return refused("invalid_grant") };
                let proof = URL_SAFE_NO_PAD.encode(Sha256::digest(&asked["code_verifier"]));
                assert_eq!((begun["code_challenge_method"].as_str(), &begun["code_challenge"]), ("S256", &proof));
                for same in ["resource", "redirect_uri"] {
                    assert_eq!(begun[same], asked[same]);
                }
                begun.get("scope").cloned().unwrap_or_default()
            }
            "refresh_token" => match self.refresh.take() {
                Some((token, scope)) if token == asked["refresh_token"] => scope,
                _ => return refused("invalid_grant"),
            },
            _ => asked.get("scope").cloned().unwrap_or_default(),
        };
        self.given += 1;
        let (access, refresh) = (format!("at-secret-{}", self.given), format!("rt-secret-{}", self.given));
        self.tokens.insert(access.clone(), scope.clone());
        self.refresh = Some((refresh.clone(), scope.clone()));
        let life = if self.life.is_empty() { 3_600 } else { self.life.remove(0) };
        ok(&json!({"access_token": access, "token_type": "Bearer", "refresh_token": refresh, "expires_in": life,
            "scope": scope, "id_token": "it-secret"}))
    }

    fn serve(&self, came: &Came) -> String {
        let token = came.head.lines().find_map(|line| line.strip_prefix("authorization: bearer "));
        let Some(rights) = token.and_then(|token| self.tokens.get(token)) else {
            return reply("401 Unauthorized", &challenge(came, ""), "");
        };
        if !came.is("tools/call") {
            return legacy(came);
        }
        match self.for_calls {
            Some(right) if !rights.split(' ').any(|had| had == right) => {
                let wants = format!("www-authenticate: Bearer error=\"insufficient_scope\", scope=\"{right}\"\r\n");
                reply("403 Forbidden", &wants, "")
            }
            _ => result(came, "", text("done")),
        }
    }
}

/// An authorizer that opens the address, agrees, and returns.
#[derive(Debug, Default)]
pub(super) struct Browser {
    pub asked: Mutex<Vec<Url>>,
}

#[async_trait]
impl Authorizer for Browser {
    fn redirect(&self) -> Url {
        "http://127.0.0.1:9/callback".parse().unwrap()
    }

    async fn authorize(&self, url: &Url) -> Result<Url, Fault> {
        self.asked.lock().unwrap().push(url.clone());
        let request = HttpRequest { retries: Retries::NONE, ..HttpRequest::new(url.clone()) };
        let answer = HttpClient::new()?.exchange(Method::GET, &request, None).await?;
        Ok(answer.headers()["location"].to_str().unwrap().parse().unwrap())
    }
}

pub(super) async fn connected(config: ServerConfig) -> Result<Arc<McpClient>, McpError> {
    McpClient::connect(config, McpClientFeatures::default()).await
}

async fn done(client: &Arc<McpClient>) -> (bool, String) {
    said(&toolbox(client), "web__t", &json!({})).await
}

/// Collects the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn login_happens_once_and_leaks_no_secrets() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || writer.clone()).finish();
    let log_of_this = tracing::Dispatch::new(subscriber);
    // With only one dispatcher, what other tests log at the same time decides what is logged here.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let _logging = tracing::dispatcher::set_default(&log_of_this);
    let (realm, folder) = (Realm::plain().await, tempfile::tempdir().unwrap());
    let store = TokenStore::in_folder(folder.path());
    let config = realm.config(&store, |_| {});
    let client = connected(config.clone()).await.unwrap();
    assert_eq!(done(&client).await, (false, "done".into()));
    let asked = realm.last("GET /authorize");
    assert_eq!(asked["resource"], realm.web.url.as_str());
    assert_eq!(asked["scope"], "read", "what the server wants comes before all that there is");
    let registered = realm.web.came().into_iter().find(|came| came.target == "POST /register").unwrap();
    assert_eq!(registered.json["application_type"], "native");
    assert_eq!(registered.json["redirect_uris"], json!(["http://127.0.0.1:9/callback"]));
    drop(client);
    // Another process: no person is needed.
    let client = connected(realm.headless(&store)).await.unwrap();
    assert_eq!(done(&client).await, (false, "done".into()));
    assert_eq!((realm.count("GET /authorize"), realm.count("POST /token"), realm.count("POST /register")), (1, 1, 1));
    let shown = format!("{config:?} {client:?} {}", String::from_utf8_lossy(&log.0.lock().unwrap()));
    assert!(shown.contains("start exchange code"), "the library's own log is looked at too");
    for secret in ["at-secret", "rt-secret", "it-secret", "cs-secret"] {
        assert!(!shown.contains(secret), "{secret}");
    }
}

#[tokio::test]
async fn metadata_is_found_in_each_of_its_places() {
    for (resource, server) in [
        ("oauth-protected-resource/mcp", "oauth-authorization-server"),
        ("oauth-protected-resource", "oauth-authorization-server"),
        ("oauth-protected-resource/mcp", "openid-configuration"),
        ("", "oauth-authorization-server"),
    ] {
        let realm = Realm::start(move |came, book| {
            let at = origin(came);
            let Some(place) = came.target.strip_prefix("GET /.well-known/") else {
                let is_refused = came.target == "POST /mcp" && book.tokens.is_empty();
                return is_refused.then(|| reply("401 Unauthorized", "", ""));
            };
            Some(match place {
                _ if place == resource => {
                    ok(&json!({"resource": at + "/mcp", "authorization_servers": [origin(came)]}))
                }
                _ if place == server => ok(&metadata(came)),
                _ => reply("404 Not Found", "", ""),
            })
        })
        .await;
        let client = connected(realm.config(&TokenStore::in_memory(), |_| {})).await;
        assert!(client.is_ok(), "{resource} {server}: {client:?}");
    }
}

#[tokio::test]
async fn expiring_token_is_renewed_by_one_process() {
    let (realm, folder) = (Realm::plain().await, tempfile::tempdir().unwrap());
    realm.book.lock().unwrap().life = vec![0];
    let store = TokenStore::in_folder(folder.path());
    login(&realm.config(&store, |_| {})).await.unwrap();
    // Two processes at once.
    let both = [(); 2].map(|()| connected(realm.headless(&TokenStore::in_folder(folder.path()))));
    for client in futures_util::future::join_all(both).await {
        assert_eq!(done(&client.unwrap()).await, (false, "done".into()));
    }
    assert_eq!((realm.count("POST /token"), realm.count("GET /authorize")), (2, 1));
    let sent = realm.last("POST /token");
    assert_eq!((&*sent["grant_type"], &*sent["refresh_token"]), ("refresh_token", "rt-secret-2"));
    assert_eq!(sent["resource"], realm.web.url.as_str());
    assert!(!sent.contains_key("scope"));
    // The server has revoked the access token, and the refresh token was replaced.
    realm.book.lock().unwrap().tokens.clear();
    let client = connected(realm.headless(&store)).await.unwrap();
    assert_eq!(done(&client).await, (false, "done".into()));
    assert_eq!(realm.last("POST /token")["refresh_token"], "rt-secret-3");
    // The token is revoked in the middle of a session.
    realm.book.lock().unwrap().tokens.clear();
    assert_eq!(done(&client).await, (false, "done".into()));
    assert_eq!(realm.last("POST /token")["refresh_token"], "rt-secret-4");
}

#[tokio::test]
async fn ended_login_error_names_the_login_command() {
    let (realm, store) = (Realm::plain().await, TokenStore::in_memory());
    let denied = "the MCP server `web` rejects the credential, or needs one: ";
    let ask = "log in with `shelly-host mcp login web`";
    let error = connected(realm.headless(&store)).await.unwrap_err().to_string();
    assert_eq!(error, format!("{denied}there is no login; {ask}"));
    login(&realm.config(&store, |_| {})).await.unwrap();
    let client = connected(realm.headless(&store)).await.unwrap();
    let taken = |book: &mut Book| {
        book.tokens.clear();
        book.refresh = None;
    };
    taken(&mut realm.book.lock().unwrap());
    let ended = format!("the login is no longer accepted; {ask}");
    assert_eq!(done(&client).await, (true, ended.clone()));
    let error = connected(realm.headless(&store)).await.unwrap_err();
    assert_eq!(error.to_string(), format!("{denied}{ended}"));
    assert!(!error.is_transient());
    assert_eq!(realm.count("POST /token"), 2, "what was refused is not shown again");
    // The person logs in again, while the client waits.
    login(&realm.config(&store, |_| {})).await.unwrap();
    assert_eq!(done(&client).await, (false, "done".into()));
    let config = realm.headless(&store);
    assert!(logout(&config).await.unwrap() && !logout(&config).await.unwrap());
    assert!(connected(config).await.unwrap_err().to_string().contains("there is no login"));
}

#[tokio::test]
async fn more_rights_are_asked_for_once_a_call() {
    let realm = Realm::plain().await;
    realm.book.lock().unwrap().for_calls = Some("write");
    let store = TokenStore::in_memory();
    let client = connected(realm.config(&store, |_| {})).await.unwrap();
    assert_eq!(done(&client).await, (false, "done".into()));
    assert_eq!(realm.last("GET /authorize")["scope"], "read write");
    assert_eq!((realm.count("GET /authorize"), realm.count("POST /register")), (2, 1));
    // No person is there: the lacking scope is asked for at the next login.
    realm.book.lock().unwrap().for_calls = Some("admin");
    let client = connected(realm.headless(&store)).await.unwrap();
    let why =
        "the server requires scopes that the login does not have (admin); log in with `shelly-host mcp login web`";
    assert_eq!(done(&client).await, (true, why.into()));
    login(&realm.config(&store, |_| {})).await.unwrap();
    assert_eq!(realm.last("GET /authorize")["scope"], "read write admin");
    assert_eq!(done(&client).await, (false, "done".into()));

    // This server never accepts the scopes.
    let realm = Realm::start(|came, _| {
        let wants = "www-authenticate: Bearer error=\"insufficient_scope\", scope=\"more\"\r\n";
        came.is("tools/call").then(|| reply("403 Forbidden", wants, ""))
    })
    .await;
    let client = connected(realm.config(&TokenStore::in_memory(), |_| {})).await.unwrap();
    assert_eq!(done(&client).await, (true, "the server also rejects the token of a new login".into()));
    assert_eq!(
        (realm.count("GET /authorize"), realm.web.came().iter().filter(|came| came.is("tools/call")).count()),
        (2, 2)
    );
}

#[tokio::test]
async fn a_program_logs_in_by_itself() {
    for (methods, how) in
        [(json!(["client_secret_basic"]), "authorization: basic "), (json!(["client_secret_post"]), "")]
    {
        let realm = Realm::start(move |came, book| {
            if came.target.starts_with("POST /token") {
                book.refresh = None;
            }
            let mut metadata = metadata(came);
            metadata["token_endpoint_auth_methods_supported"] = methods.clone();
            metadata["code_challenge_methods_supported"] = Value::Null;
            came.target.ends_with("oauth-authorization-server").then(|| ok(&metadata))
        })
        .await;
        realm.book.lock().unwrap().for_calls = Some("write");
        let client = |oauth: &mut OAuthOptions| {
            (oauth.grant, oauth.authorizer) = (OAuthGrantType::Client, None);
            (oauth.client_id, oauth.client_secret) = (Some("robot".into()), Some(Secret::new("cs-secret")));
        };
        let client = connected(realm.config(&TokenStore::in_memory(), client)).await.unwrap();
        assert_eq!(done(&client).await, (false, "done".into()));
        let sent = realm.last("POST /token");
        assert_eq!((&*sent["grant_type"], &*sent["scope"]), ("client_credentials", "read write"));
        assert_eq!(sent["resource"], realm.web.url.as_str());
        let came = realm.web.came().into_iter().find(|came| came.target == "POST /token").unwrap();
        assert!(came.head.contains(how) && came.head.contains("authorization") != sent.contains_key("client_secret"));
        assert_eq!(realm.count("GET /authorize"), 0);
    }
}

#[tokio::test]
async fn configured_client_is_not_registered() {
    let realm = Realm::start(|came, _| {
        let mut metadata = metadata(came);
        metadata["client_id_metadata_document_supported"] = true.into();
        metadata["scopes_supported"] = json!(["offline_access"]);
        came.target.ends_with("oauth-authorization-server").then(|| ok(&metadata))
    })
    .await;
    let document = "https://shelly.example/client.json";
    let by_document = |oauth: &mut OAuthOptions| oauth.metadata_url = Some(document.parse().unwrap());
    connected(realm.config(&TokenStore::in_memory(), by_document)).await.unwrap();
    assert_eq!(realm.last("GET /authorize")["client_id"], document);
    assert_eq!(realm.last("GET /authorize")["scope"], "read offline_access");
    let (at, store) = (realm.web.url.origin().ascii_serialization(), TokenStore::in_memory());
    let known = |id: &'static str| {
        let at = at.clone() + "/";
        move |oauth: &mut OAuthOptions| {
            oauth.metadata_url = Some(document.parse().unwrap());
            (oauth.client_id, oauth.client_secret) = (Some(id.into()), Some(Secret::new("cs-secret")));
            (oauth.issuer, oauth.scopes) = (Some(at), vec!["one".into()]);
        }
    };
    connected(realm.config(&store, known("known"))).await.unwrap();
    assert_eq!(realm.last("GET /authorize")["client_id"], "known");
    assert_eq!(realm.last("GET /authorize")["scope"], "one offline_access");
    assert_eq!(realm.count("POST /register"), 0);
    // A login of one client is not valid for another.
    connected(realm.config(&store, known("other"))).await.unwrap();
    assert_eq!(realm.last("GET /authorize")["client_id"], "other");
}

#[tokio::test]
async fn tokens_are_not_sent_to_another_authorization_server() {
    let other = Realm::plain().await;
    let moved = other.web.url.origin().ascii_serialization();
    let is_moved = Arc::new(Mutex::new(false));
    let moves = Arc::clone(&is_moved);
    let realm = Realm::start(move |came, _| {
        let is_asked = came.target.ends_with("oauth-protected-resource/mcp") && *moves.lock().unwrap();
        let resource = origin(came) + "/mcp";
        is_asked.then(|| ok(&json!({"resource": resource, "authorization_servers": [moved]})))
    })
    .await;
    let store = TokenStore::in_memory();
    login(&realm.config(&store, |_| {})).await.unwrap();
    *is_moved.lock().unwrap() = true;
    realm.book.lock().unwrap().tokens.clear();
    let error = connected(realm.headless(&store)).await.unwrap_err().to_string();
    assert!(error.contains("there is no login"), "{error}");
    assert_eq!(other.count("POST /token"), 0);
    login(&realm.config(&store, |_| {})).await.unwrap();
    assert_eq!((other.count("POST /register"), other.count("POST /token"), realm.count("POST /token")), (1, 1, 1));
}
