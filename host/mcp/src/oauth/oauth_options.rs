use std::sync::Arc;

use ipnet::IpNet;
use url::Url;

use super::{authorizer::Authorizer, scopes::is_scope, store::TokenStore};
use crate::error_text::shown;
use shelly_core::limits;
use shelly_net::{Secret, is_readable_on_the_way};

/// The options of an OAuth login at a server.
#[derive(Debug, Clone)]
pub struct OAuthOptions {
    /// The store of the tokens.
    pub store: TokenStore,
    /// The kind of login: a person's or the program's own.
    pub grant: OAuthGrantType,
    /// The client ID at the authorization server; `None`: the client identifies itself by `metadata_url` or registers
    /// itself.
    pub client_id: Option<String>,
    /// The client secret, if the client has one.
    pub client_secret: Option<Secret>,
    /// The issuer that knows `client_id`; no other authorization server is used. `None`: the one that the server names.
    pub issuer: Option<String>,
    /// The URL of the client ID metadata document, which serves as client ID at authorization servers that support it.
    pub metadata_url: Option<Url>,
    /// The scopes to ask for; if empty, those that the server asks for.
    pub scopes: Vec<String>,
    /// Further networks in which authorization servers may be. The public Internet is always allowed, and so is this
    /// machine if the server is on it.
    pub networks: Vec<IpNet>,
    /// Takes a person to a login; `None`: a login that needs a person fails.
    pub authorizer: Option<Arc<dyn Authorizer>>,
}

/// The kind of a login.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OAuthGrantType {
    /// A person logs in with a browser (authorization code).
    #[default]
    Person,
    /// This program logs in with its client ID and secret (client credentials).
    Client,
}

impl OAuthOptions {
    /// Returns the options of a person's login with the scopes that the server wants.
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

    /// Checks the options for a server at this URL; the error says what is wrong.
    pub(crate) fn check(&self, server: &Url) -> Result<(), String> {
        if is_readable_on_the_way(server) {
            return Err("logins need https, because others could read the tokens on the way".into());
        }
        let is_short = |text: &str| (1..=limits::OAUTH_TOKEN_BYTES).contains(&text.len());
        if !self.client_id.iter().all(|id| is_short(id)) {
            return Err(format!("the client ID is empty or has more than {} bytes", limits::OAUTH_TOKEN_BYTES));
        }
        if !self.client_secret.iter().all(|secret| is_short(secret.expose())) {
            return Err(format!("the client secret is empty or has more than {} bytes", limits::OAUTH_TOKEN_BYTES));
        }
        if self.client_id.is_none() && self.client_secret.is_some() {
            return Err("a client secret is set without a client ID".into());
        }
        if self.grant == OAuthGrantType::Client && self.client_secret.is_none() {
            return Err("client credentials need a client ID and a client secret".into());
        }
        if let Some(url) = &self.metadata_url
            && (url.scheme() != "https" || matches!(url.path(), "" | "/"))
        {
            return Err("the URL of the client ID metadata document must begin with https:// and have a path".into());
        }
        if self.scopes.len() > limits::OAUTH_SCOPES {
            return Err(format!("more than {} scopes", limits::OAUTH_SCOPES));
        }
        match self.scopes.iter().find(|scope| !is_scope(scope)) {
            Some(scope) => Err(format!("invalid scope `{}`", shown(scope).escape_debug())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_oauth_options_are_refused() {
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
                "client ID is empty or has more than 16384",
            ),
            (https, OAuthOptions { client_id: Some(String::new()), ..plain() }, "client ID is empty"),
            (https, OAuthOptions { client_secret: secret("s"), ..plain() }, "without a client ID"),
            (
                https,
                OAuthOptions { client_id: Some("c".into()), client_secret: secret(&long), ..plain() },
                "client secret is empty or has more than 16384",
            ),
            (
                https,
                OAuthOptions { grant: OAuthGrantType::Client, client_id: Some("c".into()), ..plain() },
                "and a client secret",
            ),
            (
                https,
                OAuthOptions { metadata_url: Some("http://c.example/x".parse().unwrap()), ..plain() },
                "must begin with https://",
            ),
            (
                https,
                OAuthOptions { metadata_url: Some("https://c.example".parse().unwrap()), ..plain() },
                "must begin with https://",
            ),
            (https, OAuthOptions { scopes: vec!["a b".into()], ..plain() }, "invalid scope `a b`"),
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
}
