//! Challenges of registries: the header `WWW-Authenticate`.

/// The login that a registry asks for in `WWW-Authenticate`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthChallenge {
    /// A token that this server issues.
    Bearer {
        /// The address of the server that gives tokens.
        realm: String,
        /// The name of the registry there.
        service: Option<String>,
        /// The permission that the token must have.
        scope: Option<String>,
    },
    /// A user name and a password.
    Basic,
}

impl AuthChallenge {
    /// Parses a `WWW-Authenticate` header.
    pub fn parse(header: &str) -> Option<Self> {
        let (scheme, rest) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let (mut realm, mut service, mut scope) = (None, None, None);
        let mut rest = rest.trim_start();
        while let Some((name, after)) = rest.split_once('=') {
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"')?,
                None => after.split_once(',').map_or((after, ""), |(value, after)| (value, after)),
            };
            match name.trim().to_ascii_lowercase().as_str() {
                "realm" => realm = Some(value.to_owned()),
                "service" => service = Some(value.to_owned()),
                "scope" => scope = Some(value.to_owned()),
                _ => {}
            }
            rest = after.trim_start_matches([',', ' ']);
        }
        Some(Self::Bearer { realm: realm?, service, scope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenge_is_parsed_with_its_parameters() {
        let bearer = |service: Option<&str>, scope: Option<&str>| AuthChallenge::Bearer {
            realm: "https://auth.example/token".into(),
            service: service.map(str::to_owned),
            scope: scope.map(str::to_owned),
        };
        for (header, expected) in [
            (
                r#"Bearer realm="https://auth.example/token",service="a b",scope="repository:me/dice:pull,push""#,
                Some(bearer(Some("a b"), Some("repository:me/dice:pull,push"))),
            ),
            (r#"bearer Realm=https://auth.example/token, error="x""#, Some(bearer(None, None))),
            (r#"Basic realm="registry""#, Some(AuthChallenge::Basic)),
            ("Basic", Some(AuthChallenge::Basic)),
            ("Bearer", None),
            (r#"Bearer realm="open"#, None),
            ("Negotiate abc=", None),
        ] {
            assert_eq!(AuthChallenge::parse(header), expected, "{header}");
        }
    }
}
