//! Credentials that the host holds for plugins, with the requests that they are for.

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use url::Url;

use super::head;
use crate::{AuthHeader, Secret};
use shelly_core::{capability::HttpGrant, error::Fault, limits};

/// A credential that the host adds to requests of its audience.
#[derive(Debug)]
pub struct Credential {
    name: String,
    slot: CredentialSlot,
    audience: HttpGrant,
    pub(super) secrets: Vec<Secret>,
}

/// The place of a request in which a credential is sent.
#[derive(Debug)]
enum CredentialSlot {
    Header(HeaderName, HeaderValue),
    /// A parameter of the query.
    Query(String, Secret),
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
        let wrong = |why: &str| unsendable(&name, why);
        let header = head::name(auth.header.as_bytes()).map_err(|fault| wrong(&format!("cannot be sent: {fault}")))?;
        let (mut auth, is_basic) = (auth.clone(), auth.scheme.eq_ignore_ascii_case("basic"));
        let secrets = forms(&auth.key, is_basic);
        if is_basic {
            if !auth.key.expose().contains(':') {
                return Err(wrong("is not of the form `user:password`"));
            }
            auth.key = encoded(&auth.key);
        }
        check_key(&auth.key, &secrets).map_err(|why| wrong(&why))?;
        let value = auth.value().map_err(|_| wrong("has characters that cannot be sent"))?;
        Ok(Self { name, slot: CredentialSlot::Header(header, value), audience, secrets })
    }

    /// Creates a credential that is sent as a parameter of the query, for the requests of [`Credential::new`].
    ///
    /// # Errors
    ///
    /// [`Fault::Invalid`] for the reasons of [`Credential::new`].
    pub fn in_query(
        name: impl Into<String>,
        parameter: impl Into<String>,
        key: Secret,
        audience: HttpGrant,
    ) -> Result<Self, Fault> {
        let (name, secrets) = (name.into(), forms(&key, false));
        check_key(&key, &secrets).map_err(|why| unsendable(&name, &why))?;
        Ok(Self { name, slot: CredentialSlot::Query(parameter.into(), key), audience, secrets })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the place in which the credential is sent, in words, if the request of a plugin has something there.
    pub(super) fn taken_slot(&self, headers: &HeaderMap, url: &Url) -> Option<String> {
        match &self.slot {
            CredentialSlot::Header(header, _) => headers.contains_key(header).then(|| format!("the header `{header}`")),
            CredentialSlot::Query(parameter, _) => {
                let is_there = url.query_pairs().any(|(name, _)| name == parameter.as_str());
                is_there.then(|| format!("the query parameter `{}`", parameter.escape_debug()))
            }
        }
    }

    /// Returns the header in which the credential is sent, if it is sent in one.
    pub(super) fn header(&self) -> Option<&HeaderName> {
        match &self.slot {
            CredentialSlot::Header(header, _) => Some(header),
            CredentialSlot::Query(..) => None,
        }
    }

    /// Adds the credential to a message that is sent.
    pub(super) fn add_to(&self, message: &mut reqwest::Request) {
        match &self.slot {
            CredentialSlot::Header(header, value) => {
                message.headers_mut().insert(header.clone(), value.clone());
            }
            CredentialSlot::Query(parameter, key) => {
                message.url_mut().query_pairs_mut().append_pair(parameter, key.expose());
            }
        }
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

/// Checks that a credential can be sent, and found in responses.
fn check_key(key: &Secret, secrets: &[Secret]) -> Result<(), String> {
    // Responses are searched line by line.
    if key.expose().contains('\n') || secrets.iter().any(|secret| secret.expose().contains('\n')) {
        return Err("has a line break, so it cannot be sent".into());
    }
    if secrets.iter().any(|secret| secret.expose().len() < Secret::SHORTEST) {
        let least = Secret::SHORTEST;
        return Err(format!("has fewer than {least} bytes, too few to be redacted from responses"));
    }
    let most = limits::EGRESS_CREDENTIAL_BYTES;
    match key.expose().len() > most {
        true => Err(format!("has more than {most} bytes, too many for a header")),
        false => Ok(()),
    }
}

fn unsendable(name: &str, why: &str) -> Fault {
    Fault::invalid(format!("the credential `{}` {why}", name.escape_debug()))
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
