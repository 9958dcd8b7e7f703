//! The headers of the host's own requests.

use reqwest::header;

use super::secret::Secret;
use shelly_core::error::Fault;

/// A credential and the header that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthHeader {
    /// The header's name.
    pub header: String,
    /// The scheme in front of the credential; empty: none.
    pub scheme: String,
    /// The credential.
    pub key: Secret,
}

impl AuthHeader {
    /// Creates the header `Authorization: Bearer …`.
    pub fn bearer(key: Secret) -> Self {
        Self { header: header::AUTHORIZATION.as_str().into(), scheme: "Bearer".into(), key }
    }

    /// Creates a header that contains only the credential.
    pub fn header(name: impl Into<String>, key: Secret) -> Self {
        Self { header: name.into(), scheme: String::new(), key }
    }

    pub(super) fn value(&self) -> Result<header::HeaderValue, Fault> {
        let value = match self.scheme.as_str() {
            "" => self.key.expose().into(),
            scheme => format!("{scheme} {}", self.key.expose()),
        };
        let value = header::HeaderValue::from_str(&value);
        let mut value = value.map_err(|_| Fault::invalid("the key has characters that cannot be sent"))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// Headers that the transport itself sets.
const RESERVED_HEADERS: [header::HeaderName; 7] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::ACCEPT_ENCODING,
];

/// Parses the name of a header.
///
/// # Errors
///
/// [`Fault::Invalid`] if it is not a header name, or if the transport sets that header itself.
pub fn header_name(name: &str) -> Result<header::HeaderName, Fault> {
    let shown = name.escape_debug();
    let header = header::HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| Fault::invalid(format!("invalid header name `{shown}`")))?;
    if RESERVED_HEADERS.contains(&header) {
        return Err(Fault::invalid(format!("the header `{shown}` is set by the host; leave it out")));
    }
    Ok(header)
}
