use subtle::ConstantTimeEq as _;
use url::{Position, Url};

use super::oauth_error::OAuthError;
use crate::error_text::shown;

/// The query of the redirect at the end of a login.
pub(super) struct AuthorizationResponse {
    pub code: String,
    pub state: String,
    pub issuer: Option<String>,
}

impl AuthorizationResponse {
    /// Reads the address to which a login redirected; `asked` is the address at which it began.
    pub fn read(url: &Url, redirect: &Url, asked: &Url) -> Result<Self, OAuthError> {
        let denied = |why: &str| Err(OAuthError::Denied(format!("the login failed: {why}")));
        if url[..Position::AfterPath] != redirect[..Position::AfterPath] {
            return denied("it redirected to an unexpected address");
        }
        let value = |url: &Url, wanted: &str| {
            url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
        };
        let (Some(state), Some(sent)) = (value(url, "state"), value(asked, "state")) else {
            return denied("the redirect belongs to another login");
        };
        if !bool::from(state.as_bytes().ct_eq(sent.as_bytes())) {
            return denied("the redirect belongs to another login");
        }
        if let Some(error) = value(url, "error") {
            let more = value(url, "error_description").map(|more| format!(" ({more})")).unwrap_or_default();
            return denied(&format!("the authorization server reports `{}`", shown(&(error + &more)).escape_debug()));
        }
        match value(url, "code") {
            Some(code) => Ok(Self { code, state, issuer: value(url, "iss") }),
            None => denied("the redirect has no code"),
        }
    }
}
