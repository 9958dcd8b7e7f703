use std::sync::Arc;

use super::{oauth_error::OAuthError, token_manager::TokenManager};
use crate::{McpError, McpHttpTarget, McpTarget, ServerConfig, http};
use shelly_core::error::Fault;

/// Logs in at a server, even if there is a login already: with the authorizer of its config, or as this program itself.
///
/// # Errors
///
/// [`McpError::Config`] for a server without logins, else [`McpError::Denied`] or [`McpError::Connect`]: the login failed,
/// and the one before is unchanged.
pub async fn login(config: &ServerConfig) -> Result<(), McpError> {
    let (name, server) = (&config.name, with_logins(config)?);
    let failed = |refusal: OAuthError| match refusal {
        OAuthError::Denied(why) => McpError::Denied { server: Arc::clone(name), why },
        OAuthError::Fault(fault) => unreached(name, &fault),
    };
    let manager = match &server.oauth {
        Some(oauth) => TokenManager::new(name, server, oauth),
        None => return Err(no_logins(name)),
    };
    let challenge = http::challenge_of(server).await.map_err(|fault| unreached(name, &fault))?;
    manager.log_in_again(challenge.as_deref()).await.map_err(failed)
}

/// Deletes the login at a server; returns `true` if there was one. The authorization server is not notified.
///
/// # Errors
///
/// [`McpError::Config`] for a server without logins, [`McpError::Connect`] if the store cannot be used.
pub async fn logout(config: &ServerConfig) -> Result<bool, McpError> {
    let (name, server) = (&config.name, with_logins(config)?);
    let Some(oauth) = &server.oauth else { return Err(no_logins(name)) };
    oauth.store.forget(&server.url).await.map_err(|fault| unreached(name, &fault))
}

fn with_logins(config: &ServerConfig) -> Result<&McpHttpTarget, McpError> {
    config.check()?;
    match &config.target {
        McpTarget::Http(http) => Ok(http),
        _ => Err(no_logins(&config.name)),
    }
}

fn no_logins(name: &Arc<str>) -> McpError {
    McpError::Config { server: Arc::clone(name), why: "no login is configured for it".into() }
}

fn unreached(name: &Arc<str>, fault: &Fault) -> McpError {
    McpError::Connect { server: Arc::clone(name), why: fault.to_string(), stderr: Vec::new() }
}
