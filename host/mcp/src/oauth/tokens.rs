//! Conversions between stored logins and the types of `rmcp`.

use rmcp::transport::auth::{OAuthClientConfig, OAuthTokenResponse, StoredCredentials};
use serde_json::json;
use url::Url;

use super::{oauth_error::OAuthError, store::StoredLogin};
use shelly_core::{error::Fault, limits};
use shelly_net::Secret;

/// Returns the client config for `rmcp`, with the secret of the config or else the stored one.
pub(super) fn client_of(id: &str, secret: Option<&Secret>, kept: &StoredLogin, redirect: &Url) -> OAuthClientConfig {
    let client = OAuthClientConfig::new(id, redirect.as_str());
    match secret.map(|secret| secret.expose().to_owned()).or_else(|| kept.client_secret.clone()) {
        Some(secret) => client.with_client_secret(secret),
        None => client,
    }
}

/// Returns the stored tokens in the form that `rmcp` renews.
pub(super) fn stored(kept: &StoredLogin) -> Result<StoredCredentials, Fault> {
    let tokens = json!({
        "access_token": kept.access_token.as_deref().unwrap_or_default(),
        "token_type": "bearer",
        "refresh_token": kept.refresh_token,
    });
    let tokens = serde_json::from_value(tokens).map_err(|_| Fault::other("the stored tokens are invalid"))?;
    let credentials = StoredCredentials::new(kept.client_id.clone(), Some(tokens), kept.scopes.clone(), None);
    Ok(credentials.with_issuer(kept.issuer.clone()))
}

/// Stores the tokens of a response.
pub(super) fn take(tokens: &OAuthTokenResponse, kept: &mut StoredLogin) -> Result<(), OAuthError> {
    let json = serde_json::to_value(tokens).map_err(|_| Fault::other("the received tokens are invalid"))?;
    let text = |name: &str| json[name].as_str().map(str::to_owned);
    if !text("token_type").is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
        return Err(OAuthError::Denied("its authorization server returns tokens of an unknown type".into()));
    }
    let (access, refresh) = (text("access_token"), text("refresh_token"));
    if access.iter().chain(&refresh).any(|token| token.len() > limits::OAUTH_TOKEN_BYTES) {
        let message =
            format!("its authorization server returned a token of more than {} bytes", limits::OAUTH_TOKEN_BYTES);
        return Err(Fault::TooLarge { message }.into());
    }
    kept.access_token = access;
    kept.refresh_token = refresh.or(kept.refresh_token.take());
    kept.lives(json["expires_in"].as_u64());
    Ok(())
}
