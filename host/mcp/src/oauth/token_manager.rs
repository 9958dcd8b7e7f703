//! The token manager of one server: it renews tokens before they expire and when they are refused.

use std::{fmt, mem, sync::Arc};

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource, ClientCredentialsConfig,
    CredentialStore, InMemoryCredentialStore, OAuthClientConfig, OAuthTokenResponse, WWWAuthenticateParams,
};
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::timeout,
};
use url::{Position, Url, form_urlencoded};

use super::{
    authorization_response::AuthorizationResponse,
    authorizer::Authorizer,
    oauth_error::OAuthError,
    oauth_http::OAuthHttp,
    oauth_options::{OAuthGrantType, OAuthOptions},
    scopes::rights,
    store::StoredLogin,
    tokens::{client_of, stored, take},
};
use crate::{McpHttpTarget, error_text::shown};
use shelly_core::{error::Fault, limits};
use shelly_net::Secret;

/// Manages the login at one server, for all requests of one connection.
pub(crate) struct TokenManager {
    name: Arc<str>,
    server: Url,
    oauth: OAuthOptions,
    http: Arc<OAuthHttp>,
    state: Arc<Mutex<TokenManagerState>>,
}

#[derive(Default)]
struct TokenManagerState {
    /// `None` before the store is read for the first time.
    kept: Option<StoredLogin>,
    /// The registered client, with its issuer and its redirect URL.
    registered: Option<(Option<String>, Url, OAuthClientConfig)>,
}

impl fmt::Debug for TokenManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper").field("server", &self.name).finish_non_exhaustive()
    }
}

/// The way in which a server refused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OAuthChallenge {
    /// The server wants a token, or another one.
    Token,
    /// The server wants a token with more scopes.
    Rights,
}

/// Steps already tried for one request: each is tried once.
#[derive(Debug, Default)]
pub(crate) struct OAuthAttempts {
    looked: bool,
    renewed: bool,
    logged_in: bool,
    asked_for_more: bool,
}

/// The discovered metadata of an authorization server, and the state machine that read it.
struct DiscoveredAuthServer {
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
}

impl TokenManager {
    pub fn new(name: &Arc<str>, target: &McpHttpTarget, oauth: &OAuthOptions) -> Self {
        let (name, server) = (Arc::clone(name), target.url.clone());
        let http = Arc::new(OAuthHttp::new(&target.client, &target.url, &oauth.networks));
        Self { name, server, oauth: oauth.clone(), http, state: Arc::default() }
    }

    /// Returns the token to send; `None` if there is no login.
    pub async fn token(self: &Arc<Self>) -> Result<Option<Secret>, OAuthError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        if state.kept.is_none() {
            state.kept = Some(self.read().await?);
        }
        let Some(kept) = &state.kept else { return Ok(None) };
        match kept.token() {
            Some(token) => Ok(Some(token)),
            None if kept.refresh_token.is_some() => Ok(self.renewed(state, None).await?.1),
            None => Ok(None),
        }
    }

    /// Returns another token for a request that was refused. `sent` is the token that the request had, `challenge` the
    /// server's challenge.
    pub async fn another(
        self: &Arc<Self>,
        refused: OAuthChallenge,
        challenge: &str,
        sent: Option<&Secret>,
        tried: &mut OAuthAttempts,
    ) -> Result<Secret, OAuthError> {
        let mut state = Arc::clone(&self.state).lock_owned().await;
        if !mem::replace(&mut tried.looked, true) {
            // Another request or process may have got a new token meanwhile.
            let kept = state.kept.insert(self.read().await?);
            if let Some(token) = kept.token().filter(|token| Some(token) != sent) {
                return Ok(token);
            }
        }
        let can_renew = state.kept.as_ref().is_some_and(|kept| kept.refresh_token.is_some());
        if refused == OAuthChallenge::Token && can_renew && !mem::replace(&mut tried.renewed, true) {
            let token;
            (state, token) = self.renewed(state, Some(challenge.to_owned())).await?;
            if let Some(token) = token {
                return Ok(token);
            }
        }
        let once = match refused {
            OAuthChallenge::Token => &mut tried.logged_in,
            OAuthChallenge::Rights => &mut tried.asked_for_more,
        };
        if mem::replace(once, true) {
            return Err(OAuthError::Denied("the server also rejects the token of a new login".into()));
        }
        self.log_in(&mut state, refused, Some(challenge)).await
    }

    /// Logs in even if there is a login already. `challenge` is the server's challenge to a request without a token.
    pub async fn log_in_again(&self, challenge: Option<&str>) -> Result<(), OAuthError> {
        let mut state = self.state.lock().await;
        state.kept = Some(self.read().await?);
        self.log_in(&mut state, OAuthChallenge::Token, challenge).await.map(drop)
    }

    /// Reads the stored login. Of the login of another client, returns only the scopes that a request lacked.
    async fn read(&self) -> Result<StoredLogin, Fault> {
        let kept = self.oauth.store.read(&self.server).await?.unwrap_or_default();
        match &self.oauth.client_id {
            Some(id) if *id != kept.client_id => Ok(StoredLogin { wanted: kept.wanted, ..StoredLogin::default() }),
            _ => Ok(kept),
        }
    }

    async fn keep(&self, state: &mut TokenManagerState, kept: StoredLogin) -> Result<(), Fault> {
        self.oauth.store.write(&self.server, &kept).await?;
        state.kept = Some(kept);
        Ok(())
    }

    /// Renews the token in a task of its own: if the caller were cancelled in the middle, the new refresh token would be
    /// lost after the server had revoked the old one. The task ends within the time of its requests.
    async fn renewed(
        self: &Arc<Self>,
        mut state: OwnedMutexGuard<TokenManagerState>,
        challenge: Option<String>,
    ) -> Result<(OwnedMutexGuard<TokenManagerState>, Option<Secret>), OAuthError> {
        let this = Arc::clone(self);
        let renewing = tokio::spawn(async move {
            let token = this.renew(&mut state, challenge.as_deref()).await?;
            Ok((state, token))
        });
        renewing.await.map_err(|_| Fault::other("the token was not renewed"))?
    }

    /// Renews the token with the stored refresh token; `None` if it is not accepted.
    async fn renew(
        &self,
        state: &mut TokenManagerState,
        challenge: Option<&str>,
    ) -> Result<Option<Secret>, OAuthError> {
        let _lock = self.oauth.store.lock().await?;
        let (before, mut kept) = (state.kept.take().unwrap_or_default(), self.read().await?);
        state.kept = Some(kept.clone());
        if let Some(token) = kept.token().filter(|_| kept.access_token != before.access_token) {
            return Ok(Some(token));
        }
        if kept.refresh_token.is_none() {
            return Ok(None);
        }
        let mut found = self.find(challenge, kept.issuer.is_none()).await?;
        if !is_same(&found.metadata.issuer, &kept.issuer) {
            // What one authorization server issued is not shown to another.
            tracing::warn!("the MCP server `{}` names another authorization server: its login has ended", self.name);
            self.keep(state, StoredLogin { wanted: kept.wanted, ..StoredLogin::default() }).await?;
            return Ok(None);
        }
        let client = client_of(&kept.client_id, self.oauth.client_secret.as_ref(), &kept, &self.server);
        let mut secrets: Vec<_> = kept.secrets().into_iter().chain(self.oauth.client_secret.clone()).collect();
        secrets.extend(client.client_secret.iter().map(|secret| in_basic(&client.client_id, &Secret::new(secret))));
        let refusal = |error: &AuthError| self.refusal(error, &secrets);
        found.manager.configure_client(client).map_err(|error| refusal(&error))?;
        let memory = InMemoryCredentialStore::new();
        memory.save(stored(&kept)?).await.map_err(|error| refusal(&error))?;
        found.manager.set_credential_store(memory);
        match found.manager.refresh_token().await {
            Ok(tokens) => take(&tokens, &mut kept)?,
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => kept.forget_tokens(),
            Err(error) => return Err(refusal(&error)),
        }
        let token = kept.token();
        self.keep(state, kept).await?;
        Ok(token)
    }

    /// Logs in, with the scopes that the server wants.
    async fn log_in(
        &self,
        state: &mut TokenManagerState,
        refused: OAuthChallenge,
        challenge: Option<&str>,
    ) -> Result<Secret, OAuthError> {
        if self.oauth.grant == OAuthGrantType::Person && self.oauth.authorizer.is_none() {
            return Err(self.needs_person(state, refused, challenge).await?);
        }
        let found = self.find(challenge, challenge.is_some()).await?;
        let before = state.kept.clone().unwrap_or_default();
        let is_same = is_same(&before.issuer, &found.metadata.issuer) && !before.client_id.is_empty();
        let mut kept = StoredLogin { issuer: found.metadata.issuer.clone(), ..StoredLogin::default() };
        let had = before.scopes.iter().filter(|_| is_same).chain(&before.wanted);
        let wanted = match self.oauth.scopes.as_slice() {
            [] => found.manager.select_initial_scopes(&[]).await,
            scopes => {
                let lacking = scopes_of(challenge.filter(|_| refused == OAuthChallenge::Rights), &self.server);
                [scopes, lacking.as_slice()].concat()
            }
        };
        kept.scopes = rights(had.chain(&wanted).map(String::as_str));
        let supports = |right: &str| found.metadata.scopes_supported.iter().flatten().any(|known| known == right);
        if !kept.scopes.is_empty() && supports(STAYS) && self.oauth.grant == OAuthGrantType::Person {
            kept.scopes = rights(kept.scopes.iter().map(String::as_str).chain([STAYS]));
        }
        match (self.oauth.grant, &self.oauth.authorizer) {
            (OAuthGrantType::Person, Some(authorizer)) => self.as_person(state, found, kept, &**authorizer).await,
            _ => self.as_client(state, found, kept).await,
        }
    }

    /// Returns the error that asks a person to log in; stores the lacking scopes for that login.
    async fn needs_person(
        &self,
        state: &mut TokenManagerState,
        refused: OAuthChallenge,
        challenge: Option<&str>,
    ) -> Result<OAuthError, Fault> {
        let login = format!("log in with `shelly-host mcp login {}`", self.name);
        let lacking = scopes_of(challenge, &self.server);
        if refused == OAuthChallenge::Rights && !lacking.is_empty() {
            let _lock = self.oauth.store.lock().await?;
            let mut kept = self.read().await?;
            kept.wanted = rights(kept.wanted.iter().chain(&lacking).map(String::as_str));
            self.keep(state, kept).await?;
        }
        let had_one = state.kept.as_ref().is_some_and(|kept| !kept.client_id.is_empty());
        Ok(OAuthError::Denied(match refused {
            OAuthChallenge::Rights if lacking.is_empty() => {
                format!("the server requires more scopes than the login has; {login}")
            }
            OAuthChallenge::Rights => {
                format!(
                    "the server requires scopes that the login does not have ({}); {login}",
                    shown(&lacking.join(" "))
                )
            }
            OAuthChallenge::Token if had_one => format!("the login is no longer accepted; {login}"),
            OAuthChallenge::Token => format!("there is no login; {login}"),
        }))
    }

    /// Discovers the server's authorization server and its metadata. If the server names none, the default endpoints of
    /// earlier revisions are used if `may_guess`.
    async fn find(&self, challenge: Option<&str>, may_guess: bool) -> Result<DiscoveredAuthServer, OAuthError> {
        self.http.begin();
        let refusal = |error: &AuthError| self.refusal(error, &[]);
        let http = Arc::clone(&self.http);
        let mut manager = AuthorizationManager::new_with_oauth_http_client(self.server.as_str(), http)
            .await
            .map_err(|error| refusal(&error))?;
        let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(|error| refusal(&error))?;
        let metadata = found.metadata;
        let is_guessed = found.source == AuthorizationMetadataSource::LegacyEndpointFallback;
        if is_guessed && !may_guess {
            return Err(OAuthError::Denied("the server does not say where to log in".into()));
        }
        if let Some(issuer) = &self.oauth.issuer
            && metadata.issuer.as_deref().map(without_slash) != Some(without_slash(issuer))
        {
            let named = shown(metadata.issuer.as_deref().unwrap_or("one without a name"));
            return Err(OAuthError::Denied(format!("its authorization server is {named}, not the one in the config")));
        }
        let proves = |methods: &Vec<String>| methods.iter().any(|method| method == "S256");
        if self.oauth.grant == OAuthGrantType::Person
            && !is_guessed
            && !metadata.code_challenge_methods_supported.as_ref().is_some_and(proves)
        {
            let why = "its authorization server does not declare that it checks who began a login (PKCE with S256)";
            return Err(OAuthError::Denied(why.into()));
        }
        manager.set_metadata(metadata.clone());
        Ok(DiscoveredAuthServer { manager, metadata })
    }

    /// Logs in with a person.
    async fn as_person(
        &self,
        state: &mut TokenManagerState,
        mut found: DiscoveredAuthServer,
        mut kept: StoredLogin,
        authorizer: &dyn Authorizer,
    ) -> Result<Secret, OAuthError> {
        let redirect = authorizer.redirect();
        let client = self.known_as(state, &mut found, &kept, &redirect).await?;
        let mut secrets: Vec<_> = client.client_secret.iter().map(Secret::new).collect();
        secrets.extend(secrets.first().map(|secret| in_basic(&client.client_id, secret)));
        kept.client_id.clone_from(&client.client_id);
        // A secret from the config stays there.
        kept.client_secret = client.client_secret.clone().filter(|_| self.oauth.client_id.is_none());
        found.manager.configure_client(client).map_err(|error| self.refusal(&error, &secrets))?;
        let scopes: Vec<_> = kept.scopes.iter().map(String::as_str).collect();
        let url = found.manager.get_authorization_url(&scopes).await.map_err(|error| self.refusal(&error, &secrets))?;
        let url = Url::parse(&url).map_err(|error| Fault::other(format!("invalid URL of the login: {error}")))?;
        self.http.check(&url)?;
        let led_back = timeout(limits::OAUTH_LOGIN_TIME, authorizer.authorize(&url)).await;
        let late = |_| Fault::Timeout { message: format!("no login within {:?}", limits::OAUTH_LOGIN_TIME) };
        let led_back = led_back.map_err(late)??;
        let AuthorizationResponse { code, state: mark, issuer } =
            AuthorizationResponse::read(&led_back, &redirect, &url)?;
        secrets.push(Secret::new(&code));
        // Keeps other processes from renewing what is replaced here.
        let _lock = self.oauth.store.lock().await?;
        let tokens = found.manager.exchange_code_for_token_with_issuer(&code, &mark, issuer.as_deref()).await;
        let tokens = tokens.map_err(|error| self.refusal(&error, &secrets))?;
        self.keep_tokens(state, kept, &tokens).await
    }

    /// Returns the client to log in with: from the config, by its metadata document, or registered.
    async fn known_as(
        &self,
        state: &mut TokenManagerState,
        found: &mut DiscoveredAuthServer,
        kept: &StoredLogin,
        redirect: &Url,
    ) -> Result<OAuthClientConfig, OAuthError> {
        if let Some(id) = &self.oauth.client_id {
            return Ok(client_of(id, self.oauth.client_secret.as_ref(), &StoredLogin::default(), redirect));
        }
        let metadata = &found.metadata;
        let looks_up = metadata.additional_fields.get("client_id_metadata_document_supported");
        if let Some(url) = self.oauth.metadata_url.as_ref().filter(|_| looks_up.is_some_and(|looks| looks == true)) {
            return Ok(OAuthClientConfig::new(url.as_str(), redirect.as_str()));
        }
        if let Some((issuer, back, client)) = &state.registered
            && *issuer == metadata.issuer
            && back == redirect
        {
            return Ok(client.clone());
        }
        if metadata.registration_endpoint.is_none() {
            let why = "its authorization server registers no clients; set `client_id` in the config";
            return Err(OAuthError::Denied(why.into()));
        }
        let scopes: Vec<_> = kept.scopes.iter().map(String::as_str).collect();
        let registered = found.manager.register_client(CLIENT_NAME, redirect.as_str(), &scopes).await;
        let client = registered.map_err(|error| self.refusal(&error, &[]))?;
        let is_short = |text: &String| text.len() <= limits::OAUTH_TOKEN_BYTES;
        if !is_short(&client.client_id) || !client.client_secret.iter().all(is_short) {
            let message =
                format!("the registered client has an ID or a secret of more than {} bytes", limits::OAUTH_TOKEN_BYTES);
            return Err(Fault::TooLarge { message }.into());
        }
        state.registered = Some((metadata.issuer.clone(), redirect.clone(), client.clone()));
        Ok(client)
    }

    /// Logs in with client credentials.
    async fn as_client(
        &self,
        state: &mut TokenManagerState,
        mut found: DiscoveredAuthServer,
        mut kept: StoredLogin,
    ) -> Result<Secret, OAuthError> {
        let (Some(id), Some(secret)) = (&self.oauth.client_id, &self.oauth.client_secret) else {
            return Err(OAuthError::Denied("there are no client credentials".into()));
        };
        kept.client_id.clone_from(id);
        let secrets = [secret.clone(), in_basic(id, secret)];
        let refusal = |error: &AuthError| self.refusal(error, &secrets);
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: id.clone(),
            client_secret: secret.expose().into(),
            scopes: kept.scopes.clone(),
            resource: Some(self.resource(&mut found).await),
        };
        found.manager.validate_client_credentials_metadata(&config).map_err(|error| refusal(&error))?;
        found.manager.configure_client_credentials(&config).map_err(|error| refusal(&error))?;
        let _lock = self.oauth.store.lock().await?;
        let tokens = found.manager.exchange_client_credentials(&config).await.map_err(|error| refusal(&error))?;
        self.keep_tokens(state, kept, &tokens).await
    }

    /// Returns the resource identifier of the server. `rmcp` exposes it only in the address of a login.
    async fn resource(&self, found: &mut DiscoveredAuthServer) -> String {
        let named = async {
            found.manager.configure_client_id("none").ok()?;
            let url = Url::parse(&found.manager.get_authorization_url(&[]).await.ok()?).ok()?;
            url.query_pairs().find(|(name, _)| name == "resource").map(|(_, value)| value.into_owned())
        };
        named.await.unwrap_or_else(|| self.server.to_string())
    }

    async fn keep_tokens(
        &self,
        state: &mut TokenManagerState,
        mut kept: StoredLogin,
        tokens: &OAuthTokenResponse,
    ) -> Result<Secret, OAuthError> {
        take(tokens, &mut kept)?;
        let given = serde_json::to_value(tokens).ok().and_then(|tokens| Some(tokens["scope"].as_str()?.to_owned()));
        if let Some(given) = given {
            kept.scopes = rights(given.split_whitespace());
        }
        let token = kept.access_token.as_ref().map(Secret::new);
        self.keep(state, kept).await?;
        token.ok_or_else(|| OAuthError::Denied("its authorization server returned no token".into()))
    }

    /// Converts an error of `rmcp`; the message is free of secrets, even if a server repeated one.
    fn refusal(&self, error: &AuthError, secrets: &[Secret]) -> OAuthError {
        if let Some(fault) = self.http.failed() {
            return fault.into();
        }
        let text = match error {
            AuthError::DiscoveryRequestFailed { url, source } => {
                format!("{} does not say how to log in: {source}", &url[..Position::AfterPath])
            }
            error => error.to_string(),
        };
        let text = secrets.iter().fold(text, |text, secret| secret.blot(&text));
        OAuthError::Denied(format!("the login failed: {}", shown(&text).escape_debug()))
    }
}

/// The client name in registrations.
const CLIENT_NAME: &str = "shelly-host";

/// The scope that asks for a refresh token.
const STAYS: &str = "offline_access";

/// Returns a client's ID and secret as they are sent in basic authentication.
fn in_basic(id: &str, secret: &Secret) -> Secret {
    let form = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    Secret::new(format!("{}:{}", form(id), form(secret.expose())))
}

/// Returns `true` if both name the same authorization server.
fn is_same(one: &Option<String>, other: &Option<String>) -> bool {
    one.as_deref().map(without_slash) == other.as_deref().map(without_slash)
}

fn without_slash(issuer: &str) -> &str {
    issuer.strip_suffix('/').unwrap_or(issuer)
}

/// Returns the scopes that a challenge names.
fn scopes_of(challenge: Option<&str>, server: &Url) -> Vec<String> {
    let scopes = challenge.and_then(|challenge| WWWAuthenticateParams::parse(challenge, server).scope);
    rights(scopes.iter().flat_map(|scopes| scopes.split_whitespace()))
}
