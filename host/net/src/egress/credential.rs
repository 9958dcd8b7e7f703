//! Credentials that the host holds for plugins, with the requests that they are for.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderName, HeaderValue};
use url::Url;

use super::head;
use crate::{AuthHeader, Secret};
use shelly_core::{capability::HttpGrant, error::Fault, limits};

/// A credential that the host adds to requests of its audience.
#[derive(Debug)]
pub struct Credential {
    name: String,
    pub(super) header: HeaderName,
    pub(super) value: HeaderValue,
    audience: HttpGrant,
    pub(super) secrets: Vec<Secret>,
}

impl Credential {
    /// Creates a credential for the requests that `audience` covers by method and path; its addresses are not considered.
    /// For the scheme `Basic` the key is `user:password`, which is encoded here.
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] if the credential cannot be sent; if it is too short to be found in responses, because the key
    /// (for `Basic`, the password) has fewer than 4 bytes; or if it has more than [`limits::EGRESS_CREDENTIAL_BYTES`]. The
    /// message does not show it.
    pub fn new(name: impl Into<String>, auth: &AuthHeader, audience: HttpGrant) -> Result<Self, Fault> {
        let name = name.into();
        let wrong = |why: &str| Fault::invalid(format!("the credential `{}` {why}", name.escape_debug()));
        let header = head::name(auth.header.as_bytes()).map_err(|fault| wrong(&format!("cannot be sent: {fault}")))?;
        let (mut auth, is_basic) = (auth.clone(), auth.scheme.eq_ignore_ascii_case("basic"));
        let secrets = forms(&auth.key, is_basic);
        if is_basic {
            if !auth.key.expose().contains(':') {
                return Err(wrong("is not of the form `user:password`"));
            }
            auth.key = encoded(&auth.key);
        }
        // Responses are searched line by line.
        if auth.key.expose().contains('\n') || secrets.iter().any(|secret| secret.expose().contains('\n')) {
            return Err(wrong("has a line break, so it cannot be sent"));
        }
        if secrets.iter().any(|secret| secret.expose().len() < Secret::SHORTEST) {
            let least = Secret::SHORTEST;
            return Err(wrong(&format!("has fewer than {least} bytes, too few to be redacted from responses")));
        }
        let most = limits::EGRESS_CREDENTIAL_BYTES;
        if auth.key.expose().len() > most {
            return Err(wrong(&format!("has more than {most} bytes, too many for a header")));
        }
        let value = auth.value().map_err(|_| wrong("has characters that cannot be sent"))?;
        Ok(Self { name, header, value, audience, secrets })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns `true` if the host of a URL may have received this credential, in this request or another.
    pub(super) fn may_be_known_at(&self, url: &Url) -> bool {
        self.audience.names_host(url)
    }

    /// Returns `true` if the credential is sent with such a request.
    pub(super) fn is_for(&self, method: &str, url: &Url) -> bool {
        self.audience.names(method, url)
    }
}

/// Returns the forms of a credential that must not be shown: the key itself and, for the scheme `Basic`, the password and
/// the encoded value.
pub fn forms(key: &Secret, is_basic: bool) -> Vec<Secret> {
    let mut forms = Vec::new();
    if is_basic {
        forms.extend(key.expose().split_once(':').map(|(_, password)| Secret::new(password)));
        forms.push(encoded(key));
    }
    forms.push(key.clone());
    forms
}

/// Returns user and password in the encoding of `Basic`.
fn encoded(key: &Secret) -> Secret {
    Secret::new(STANDARD.encode(key.expose()))
}

/// The choice of a credential for a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CredentialUse {
    /// No credential.
    #[default]
    None,
    /// The credential of this name, on every hop that it is for; the first hop must be one.
    Named(String),
    /// On each hop, the first credential that is for it, if any.
    Any,
}
