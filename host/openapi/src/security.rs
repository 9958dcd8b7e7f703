//! Security requirements of operations, compared with the credential that the host adds.

use super::{document::ApiDocument, shown_text::shown_text};
use shelly_core::{json_schema::JsonNode, limits};

/// The place in a request where the host adds a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialPlace {
    /// A header, with a scheme before the credential; empty: none.
    Header {
        /// The name of the header.
        name: String,
        /// The scheme.
        scheme: String,
    },
    /// A parameter of the query.
    Query(String),
}

/// A scheme that an operation requires.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SecurityScheme {
    Place(CredentialPlace),
    /// A cookie of this name.
    Cookie(String),
    /// A scheme that no credential of the host can satisfy, in words.
    Other(String),
}

/// The security requirements of an operation. A request needs all schemes of one of the inner lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SecurityRequirements(Vec<Vec<SecurityScheme>>);

impl SecurityRequirements {
    /// Reads the requirements of an operation, or of the whole document if it has none of its own.
    pub fn read(document: &ApiDocument, own: Option<&JsonNode>) -> Self {
        let ways = own.or_else(|| document.get("security")).map_or(&[][..], JsonNode::list);
        let way = |way: &JsonNode| {
            let names = way.map().into_iter().flat_map(|map| map.keys());
            names.take(limits::OPENAPI_REFERENCES).map(|name| scheme(document, name)).collect::<Vec<_>>()
        };
        Self(ways.iter().take(limits::OPENAPI_REFERENCES).map(way).collect())
    }

    /// Returns `true` if the operation needs no credential.
    fn is_open(&self) -> bool {
        self.0.is_empty() || self.0.iter().any(Vec::is_empty)
    }

    /// Returns the unmet requirements in words; `None` if a credential at `place` meets them. Without a place there is no
    /// credential.
    pub fn unmet(&self, place: Option<&CredentialPlace>) -> Option<String> {
        if self.is_open() {
            return None;
        }
        let is_met = |scheme: &SecurityScheme| match (scheme, place) {
            (SecurityScheme::Place(wanted), Some(place)) => wanted.is_same(place),
            // The credential must contain the name of the cookie: `sid=…`.
            (SecurityScheme::Cookie(_), Some(place)) => place.is_cookie(),
            _ => false,
        };
        if self.0.iter().any(|way| way.iter().all(is_met)) {
            return None;
        }
        let words = |way: &Vec<SecurityScheme>| way.iter().map(SecurityScheme::words).collect::<Vec<_>>().join(" and ");
        Some(self.0.iter().map(words).collect::<Vec<_>>().join(", or "))
    }
}

impl CredentialPlace {
    /// Returns `true` if the credential is the header with the cookies.
    pub(crate) fn is_cookie(&self) -> bool {
        matches!(self, Self::Header { name, scheme } if name.eq_ignore_ascii_case("cookie") && scheme.is_empty())
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Header { name, scheme }, Self::Header { name: other, scheme: of_other }) => {
                name.eq_ignore_ascii_case(other) && scheme.eq_ignore_ascii_case(of_other)
            }
            (Self::Query(name), Self::Query(other)) => name == other,
            _ => false,
        }
    }
}

impl SecurityScheme {
    fn words(&self) -> String {
        match self {
            Self::Place(CredentialPlace::Header { name, scheme }) if scheme.is_empty() => {
                format!("the header `{name}`")
            }
            Self::Place(CredentialPlace::Header { name, scheme }) => {
                format!("the header `{name}` with the scheme `{scheme}`")
            }
            Self::Place(CredentialPlace::Query(name)) => format!("the query parameter `{name}`"),
            Self::Cookie(name) => format!("the cookie `{name}` (header `Cookie`, value `{name}=…`)"),
            Self::Other(words) => words.clone(),
        }
    }
}

fn scheme(document: &ApiDocument, name: &str) -> SecurityScheme {
    let shown = shown_text(name, limits::NAME_SHOWN_CHARS);
    let unknown = || SecurityScheme::Other(format!("the security scheme `{shown}`"));
    let schemes = document.get("components").and_then(JsonNode::map).and_then(|all| all.get("securitySchemes"));
    let found = schemes.and_then(JsonNode::map).and_then(|all| all.get(name));
    let Some(Ok(map)) = found.map(|node| document.object(node, "a security scheme")) else { return unknown() };
    let text = |key: &str| map.get(key).and_then(JsonNode::text).unwrap_or_default();
    let field = |key: &str| shown_text(text(key), limits::NAME_SHOWN_CHARS);
    let header = |name: &str, scheme: &str| CredentialPlace::Header { name: name.into(), scheme: scheme.into() };
    match (text("type"), text("in"), &*text("scheme").to_ascii_lowercase()) {
        ("apiKey", "header", _) => SecurityScheme::Place(header(&field("name"), "")),
        ("apiKey", "query", _) => SecurityScheme::Place(CredentialPlace::Query(field("name"))),
        ("apiKey", "cookie", _) => SecurityScheme::Cookie(field("name")),
        ("http", _, "basic") => SecurityScheme::Place(header("authorization", "Basic")),
        // A token of OAuth or OpenID is sent like any other.
        ("http", _, "bearer") | ("oauth2" | "openIdConnect", ..) => {
            SecurityScheme::Place(header("authorization", "Bearer"))
        }
        _ => unknown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_compared_with_the_credential() {
        let document = ApiDocument::parse(
            "openapi: 3.0.0\nsecurity: [{key: []}]\ncomponents:\n  securitySchemes:\n\
             \x20   key: {type: apiKey, in: header, name: X-Key}\n    query: {type: apiKey, in: query, name: k}\n\
             \x20   cookie: {type: apiKey, in: cookie, name: sid}\n    basic: {type: http, scheme: Basic}\n\
             \x20   bearer: {type: http, scheme: bearer}\n    oauth: {type: oauth2}\n    tls: {type: mutualTLS}\n\
             \x20   link: {$ref: '#/components/securitySchemes/key'}\n",
        )
        .unwrap();
        let header = |name: &str, scheme: &str| CredentialPlace::Header { name: name.into(), scheme: scheme.into() };
        let (bearer, key, query) =
            (header("authorization", "bearer"), header("x-key", ""), CredentialPlace::Query("k".into()));
        let cookie = header("Cookie", "");
        for (own, place, unmet) in [
            (None, Some(&key), None),
            (None, None, Some("the header `X-Key`")),
            (None, Some(&bearer), Some("the header `X-Key`")),
            (Some("[]"), None, None),
            (Some("[{}, {key: []}]"), None, None),
            (Some("[{link: []}]"), Some(&key), None),
            (Some("[{query: []}]"), Some(&query), None),
            (Some("[{query: []}]"), Some(&key), Some("the query parameter `k`")),
            (Some("[{cookie: []}]"), Some(&key), Some("the cookie `sid` (header `Cookie`, value `sid=…`)")),
            (Some("[{cookie: []}]"), Some(&cookie), None),
            (Some("[{key: []}]"), Some(&cookie), Some("the header `X-Key`")),
            (Some("[{oauth: [a]}]"), Some(&bearer), None),
            (Some("[{bearer: []}]"), Some(&bearer), None),
            (Some("[{basic: []}]"), Some(&bearer), Some("the header `authorization` with the scheme `Basic`")),
            (Some("[{tls: []}]"), Some(&bearer), Some("the security scheme `tls`")),
            (Some("[{none: []}]"), Some(&bearer), Some("the security scheme `none`")),
            (
                Some("[{key: [], bearer: []}, {query: []}]"),
                Some(&key),
                Some(
                    "the header `X-Key` and the header `authorization` with the scheme `Bearer`, or the query parameter `k`",
                ),
            ),
        ] {
            let own = own.map(|own| ApiDocument::parse(&format!("openapi: 3.0.0\ns: {own}")).unwrap());
            let requirements = SecurityRequirements::read(&document, own.as_ref().and_then(|own| own.get("s")));
            assert_eq!(requirements.unmet(place).as_deref(), unmet, "{own:?} {place:?}");
        }
    }
}
