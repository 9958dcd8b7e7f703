//! Logins at servers on the web, by OAuth: the protocol's library is the state machine, everything that it sends goes through
//! the house's own client, and tokens are kept where no project reaches.

mod authorization_response;
mod login;
mod loopback;
mod oauth_http;
mod store;
mod token_manager;
mod tokens;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use ipnet::IpNet;
use url::Url;

pub(super) use self::token_manager::{OAuthAttempts, OAuthChallenge, OAuthError, TokenManager};
pub use self::{
    login::{login, logout},
    loopback::LoopbackAuthorizer,
    store::TokenStore,
};
use crate::{
    error::Fault,
    limits,
    net::{Secret, is_readable_on_the_way},
};

/// Where in the log, at finer levels than warnings, the library of the protocol tells the codes that logins lead back with.
pub const LOG_OF_CODES: &str = "rmcp::transport::auth";

/// How a server is told who asks, where it wants a login.
#[derive(Debug, Clone)]
pub struct OAuthOptions {
    /// Where tokens are kept.
    pub store: TokenStore,
    /// Who logs in.
    pub grant: OAuthGrantType,
    /// The name under which this client is known to the authorization server; none: it makes itself known.
    pub client_id: Option<String>,
    /// What proves that name, if it has to be proved.
    pub client_secret: Option<Secret>,
    /// The authorization server that knows the client by that name; no other is told it. None: whichever the server names.
    pub issuer: Option<String>,
    /// Where it is written what this client is (a client ID metadata document): its name with servers that look there.
    pub metadata_url: Option<Url>,
    /// The rights to ask for; none: those that the server says it wants.
    pub scopes: Vec<String>,
    /// Networks in which authorization servers may be, beside everybody's Internet, and this machine if the server is there.
    pub networks: Vec<IpNet>,
    /// Takes a person to a login; none: only what needs nobody is done.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

/// Who logs in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OAuthGrantType {
    /// A person, with a browser (an authorization code).
    #[default]
    Person,
    /// This program itself, by its name and its secret (client credentials).
    Client,
}

/// Takes somebody to where logins are, and hears how that went.
#[async_trait]
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Where the login leads back to. It stays the same.
    fn redirect(&self) -> Url;

    /// Takes somebody to this address, and waits until the login has led back: to the redirect, with what was added to it.
    ///
    /// # Errors
    ///
    /// A [`Fault`] that says why nobody came back.
    async fn authorize(&self, url: &Url) -> Result<Url, Fault>;
}

impl OAuthOptions {
    /// Logins of a person with whatever a server says it wants.
    pub fn new(store: TokenStore) -> Self {
        Self {
            store,
            grant: OAuthGrantType::default(),
            client_id: None,
            client_secret: None,
            issuer: None,
            metadata_url: None,
            scopes: Vec::new(),
            networks: Vec::new(),
            authorizer: None,
        }
    }

    /// What is wrong with it for a server there.
    pub(super) fn check(&self, server: &Url) -> Result<(), String> {
        if is_readable_on_the_way(server) {
            return Err("others could read its tokens on the way: logins need https".into());
        }
        let is_short = |text: &str| (1..=limits::OAUTH_TOKEN_BYTES).contains(&text.len());
        if !self.client_id.iter().all(|id| is_short(id)) {
            return Err(format!("its client ID has none, or more than {} bytes", limits::OAUTH_TOKEN_BYTES));
        }
        if !self.client_secret.iter().all(|secret| is_short(secret.expose())) {
            return Err(format!("its client secret has none, or more than {} bytes", limits::OAUTH_TOKEN_BYTES));
        }
        if self.client_id.is_none() && self.client_secret.is_some() {
            return Err("it has a client secret, and no client ID that goes with it".into());
        }
        if self.grant == OAuthGrantType::Client && self.client_secret.is_none() {
            return Err("client credentials are a client ID and a client secret".into());
        }
        if let Some(url) = &self.metadata_url
            && (url.scheme() != "https" || matches!(url.path(), "" | "/"))
        {
            return Err("its client ID metadata document is at no https:// URL with a path".into());
        }
        if self.scopes.len() > limits::OAUTH_SCOPES {
            return Err(format!("it asks for more than {} scopes", limits::OAUTH_SCOPES));
        }
        match self.scopes.iter().find(|scope| !is_scope(scope)) {
            Some(scope) => Err(format!("`{}` is no scope", super::shown(scope).escape_debug())),
            None => Ok(()),
        }
    }
}

/// Whether this can be the name of a right (RFC 6749, 3.3).
fn is_scope(name: &str) -> bool {
    (1..=limits::OAUTH_SCOPE_BYTES).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// Each of these rights once, in order, as many as may be asked for.
fn rights<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut rights = Vec::<String>::new();
    for name in names {
        if rights.len() < limits::OAUTH_SCOPES && is_scope(name) && !rights.iter().any(|right| right == name) {
            rights.push(name.into());
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_is_said_first() {
        let plain = || OAuthOptions::new(TokenStore::in_memory());
        let secret = |secret: &str| Some(Secret::new(secret));
        let long = "x".repeat(limits::OAUTH_TOKEN_BYTES + 1);
        let (https, loopback) = ("https://mcp.example/x", "http://127.0.0.1:1/mcp");
        for (server, oauth, why) in [
            (https, plain(), ""),
            (loopback, plain(), ""),
            ("http://mcp.example", plain(), "need https"),
            (
                https,
                OAuthOptions { client_id: Some(long.clone()), ..plain() },
                "client ID has none, or more than 16384",
            ),
            (https, OAuthOptions { client_id: Some(String::new()), ..plain() }, "client ID has none"),
            (https, OAuthOptions { client_secret: secret("s"), ..plain() }, "no client ID"),
            (
                https,
                OAuthOptions { client_id: Some("c".into()), client_secret: secret(&long), ..plain() },
                "client secret has none, or more than 16384",
            ),
            (
                https,
                OAuthOptions { grant: OAuthGrantType::Client, client_id: Some("c".into()), ..plain() },
                "and a client secret",
            ),
            (
                https,
                OAuthOptions { metadata_url: Some("http://c.example/x".parse().unwrap()), ..plain() },
                "no https:// URL",
            ),
            (
                https,
                OAuthOptions { metadata_url: Some("https://c.example".parse().unwrap()), ..plain() },
                "no https:// URL",
            ),
            (https, OAuthOptions { scopes: vec!["a b".into()], ..plain() }, "`a b` is no scope"),
            (
                https,
                OAuthOptions { scopes: vec!["x".into(); limits::OAUTH_SCOPES + 1], ..plain() },
                "more than 128 scopes",
            ),
        ] {
            match oauth.check(&server.parse().unwrap()) {
                Ok(()) => assert_eq!(why, "", "{server} {oauth:?}"),
                Err(said) => assert!(!why.is_empty() && said.contains(why), "{said}"),
            }
        }
    }

    #[test]
    fn rights_are_asked_for_once_and_within_bounds() {
        assert_eq!(rights(["b", "a", "b", "", "c d", "q\"", "e\\", "ü"]), ["b", "a"]);
        let longest = "x".repeat(limits::OAUTH_SCOPE_BYTES);
        assert_eq!(rights([longest.as_str(), &format!("{longest}x")]), [longest.as_str()]);
        let many: Vec<_> = (0..=limits::OAUTH_SCOPES).map(|number| number.to_string()).collect();
        assert_eq!(rights(many.iter().map(String::as_str)).len(), limits::OAUTH_SCOPES);
    }
}
