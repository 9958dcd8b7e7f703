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
            return denied("it led back to somewhere else");
        }
        let value = |url: &Url, wanted: &str| {
            url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
        };
        let state = value(url, "state");
        if state.is_none() || state != value(asked, "state") {
            return denied("it led back from another login");
        }
        if let Some(error) = value(url, "error") {
            let more = value(url, "error_description").map(|more| format!(" ({more})")).unwrap_or_default();
            return denied(&format!("it says `{}`", shown(&(error + &more)).escape_debug()));
        }
        match (value(url, "code"), state) {
            (Some(code), Some(state)) => Ok(Self { code, state, issuer: value(url, "iss") }),
            _ => denied("it led back without a code"),
        }
    }
}
