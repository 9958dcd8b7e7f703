//! Access checks of the HTTP server: `Host`, `Origin` and bearer token.

use std::net::{IpAddr, SocketAddr};

use http::{Uri, uri::Authority};
use hyper::{HeaderMap, StatusCode, header};
use subtle::ConstantTimeEq as _;
use url::Url;

use shelly_core::{digest::Sha256Digest, limits};

/// The rules for access over HTTP.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    /// The required bearer token; `None`: no token is required, which is allowed on loopback alone.
    pub token: Option<BearerToken>,
    /// Allowed host names, without a port, beside those of loopback and the server's own address.
    pub hosts: Vec<String>,
    /// Allowed origins of web pages beside those of loopback, such as `https://example.com`.
    pub origins: Vec<String>,
}

/// A bearer token, stored as its digest.
#[derive(Debug, Clone)]
pub struct BearerToken(Sha256Digest);

impl BearerToken {
    /// Returns a token that the user has chosen: at least [`limits::SERVE_TOKEN_BYTES`], of characters that a header
    /// can hold.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong with the token, without quoting it.
    pub fn new(token: &str) -> Result<Self, String> {
        let least = limits::SERVE_TOKEN_BYTES;
        if token.len() < least {
            return Err(format!("the token has fewer than {least} bytes and could be guessed"));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the token has a space or a non-ASCII character, which no header can have".into());
        }
        Ok(Self(Sha256Digest::of(token)))
    }

    /// Returns `true` if this is the token. The comparison takes constant time.
    fn is(&self, shown: &[u8]) -> bool {
        self.0.0.ct_eq(&Sha256Digest::of(shown).0).into()
    }
}

/// The reason why a request is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AccessDenied {
    /// The name in `Host` is not one of this server.
    #[error("the name in `Host` is not allowed for this server; see --allow-host")]
    Host,
    /// The web page that sent the request is of another site.
    #[error("the origin in `Origin` is not allowed; see --allow-origin")]
    Origin,
    /// The request shows no token, or another one.
    #[error("a valid bearer token is required")]
    Token,
}

impl AccessDenied {
    /// Returns the status of the answer.
    pub fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Origin => StatusCode::FORBIDDEN,
            Self::Token => StatusCode::UNAUTHORIZED,
        }
    }
}

impl AccessPolicy {
    /// Checks whether the policy is safe and valid for a server at this address.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong.
    pub fn check(&self, address: SocketAddr) -> Result<(), String> {
        if !address.ip().to_canonical().is_loopback() && self.token.is_none() {
            return Err(format!("others can reach {address}, but no token is set"));
        }
        if let Some(wrong) = self.hosts.iter().find(|host| !is_host_name(host)) {
            return Err(format!("invalid host name `{}`", wrong.escape_debug()));
        }
        let origin = |origin: &&String| self::origin(origin).is_none();
        match self.origins.iter().find(origin) {
            Some(wrong) => Err(format!("invalid origin `{}`; write it as https://example.com", wrong.escape_debug())),
            None => Ok(()),
        }
    }

    /// Checks `Host` and `Origin` of a request, and the host in its target if that is a whole URL. Returns the origin, if a
    /// web page sent the request.
    pub(super) fn check_source(
        &self,
        target: &Uri,
        headers: &HeaderMap,
        address: SocketAddr,
    ) -> Result<Option<String>, AccessDenied> {
        let host = only(headers, header::HOST).ok().flatten().ok_or(AccessDenied::Host)?;
        let mut named = target.authority().map(Authority::as_str).into_iter().chain([host]);
        let is_ours = |host: &str| {
            is_loopback(host)
                || without_brackets(host).parse() == Ok(address.ip())
                || self.hosts.iter().any(|ours| without_brackets(ours).eq_ignore_ascii_case(without_brackets(host)))
        };
        if !named.all(|named| host_of(named).is_some_and(|host| is_ours(&host))) {
            return Err(AccessDenied::Host);
        }
        let from = only(headers, header::ORIGIN).map_err(|()| AccessDenied::Origin)?;
        if let Some(from) = from {
            let page = origin(from).ok_or(AccessDenied::Origin)?;
            let is_near = Url::parse(&page).is_ok_and(|page| page.host_str().is_some_and(is_loopback));
            if !is_near && !self.origins.iter().any(|ours| origin(ours).as_ref() == Some(&page)) {
                return Err(AccessDenied::Origin);
            }
        }
        Ok(from.map(str::to_owned))
    }

    /// Checks the bearer token of a request, if one is required.
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), AccessDenied> {
        let Some(token) = &self.token else { return Ok(()) };
        let shown = only(headers, header::AUTHORIZATION).ok().flatten().and_then(|shown| shown.split_once(' '));
        match shown {
            Some((scheme, shown)) if scheme.eq_ignore_ascii_case("bearer") && token.is(shown.trim().as_bytes()) => {
                Ok(())
            }
            _ => Err(AccessDenied::Token),
        }
    }
}

/// Returns the value of this header if there is one; fails if there are several.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Result<Option<&str>, ()> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => one.to_str().map(Some).map_err(|_| ()),
        _ => Err(()),
    }
}

/// Returns the host of a `Host` header, without the port and in lower case.
fn host_of(value: &str) -> Option<String> {
    let authority: Authority = value.parse().ok()?;
    (!value.contains('@')).then(|| authority.host().to_ascii_lowercase())
}

/// Returns `true` for a name or an address without a port: no `Host` would match another one.
fn is_host_name(host: &str) -> bool {
    let is_address = without_brackets(host).parse::<IpAddr>().is_ok();
    is_address || !(host.is_empty() || host.contains(['/', ' ', '@', '*', ':']))
}

/// Returns a host without the brackets around an IPv6 address.
fn without_brackets(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

fn is_loopback(host: &str) -> bool {
    let host = without_brackets(host);
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// Returns an origin in the form in which browsers write it; `None` if it is none.
fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
    (is_bare && url.host().is_some()).then(|| url.origin().ascii_serialization())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(header::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn requests_of_other_hosts_and_origins_are_denied() {
        let policy = AccessPolicy {
            token: None,
            hosts: vec!["tools.example".into(), "2001:db8::7".into()],
            origins: vec!["https://app.example".into(), "http://app.example:8080/".into()],
        };
        let address = "192.0.2.7:8321".parse().unwrap();
        for (pairs, admitted) in [
            (&[("host", "localhost:8321")][..], Ok(None)),
            (&[("host", "127.0.0.1")], Ok(None)),
            (&[("host", "[::1]:8321")], Ok(None)),
            (&[("host", "192.0.2.7:8321")], Ok(None)),
            (&[("host", "TOOLS.example:443")], Ok(None)),
            (&[("host", "[2001:DB8::7]:8321")], Ok(None)),
            (&[("host", "[2001:db8::8]:8321")], Err(AccessDenied::Host)),
            (&[], Err(AccessDenied::Host)),
            (&[("host", "evil.example")], Err(AccessDenied::Host)),
            (&[("host", "localhost.evil.example")], Err(AccessDenied::Host)),
            (&[("host", "localhost@evil.example")], Err(AccessDenied::Host)),
            (&[("host", "localhost"), ("host", "localhost")], Err(AccessDenied::Host)),
            (&[("host", "192.0.2.8")], Err(AccessDenied::Host)),
            (&[("host", "localhost"), ("origin", "http://localhost:6274")], Ok(Some("http://localhost:6274"))),
            (&[("host", "localhost"), ("origin", "https://app.example")], Ok(Some("https://app.example"))),
            (&[("host", "localhost"), ("origin", "http://app.example:8080")], Ok(Some("http://app.example:8080"))),
            (&[("host", "localhost"), ("origin", "http://app.example")], Err(AccessDenied::Origin)),
            (&[("host", "localhost"), ("origin", "https://app.example:444")], Err(AccessDenied::Origin)),
            (&[("host", "localhost"), ("origin", "http://localhost.evil.example")], Err(AccessDenied::Origin)),
            (&[("host", "localhost"), ("origin", "null")], Err(AccessDenied::Origin)),
            (&[("host", "localhost"), ("origin", "file://localhost")], Err(AccessDenied::Origin)),
        ] {
            assert_eq!(
                policy.check_source(&Uri::from_static("/api"), &headers(pairs), address),
                admitted.map(|from| from.map(str::to_owned)),
                "{pairs:?}"
            );
        }
    }

    #[test]
    fn whole_url_as_target_names_this_server_too() {
        let (policy, address) = (AccessPolicy::default(), "192.0.2.7:8321".parse().unwrap());
        for (target, is_admitted) in [
            ("/api", true),
            ("*", true),
            ("http://localhost:8321/api", true),
            ("http://192.0.2.7/api", true),
            ("http://evil.example/api", false),
            ("http://localhost.evil.example/api", false),
            ("evil.example:443", false),
        ] {
            let admitted = policy.check_source(&target.parse().unwrap(), &headers(&[("host", "localhost")]), address);
            assert_eq!(admitted.is_ok(), is_admitted, "{target}");
        }
    }

    #[test]
    fn only_the_whole_token_is_accepted() {
        let token = BearerToken::new("0123456789abcdef").unwrap();
        let policy = AccessPolicy { token: Some(token), ..AccessPolicy::default() };
        for (shown, is_known) in [
            (Some("Bearer 0123456789abcdef"), true),
            (Some("bearer  0123456789abcdef"), true),
            (Some("Bearer 0123456789abcde"), false),
            (Some("Bearer 0123456789abcdeF"), false),
            (Some("Basic 0123456789abcdef"), false),
            (Some("0123456789abcdef"), false),
            (Some("Bearer"), false),
            (None, false),
        ] {
            let pairs: Vec<_> = shown.into_iter().map(|shown| ("authorization", shown)).collect();
            assert_eq!(policy.check_token(&headers(&pairs)).is_ok(), is_known, "{shown:?}");
        }
        assert!(AccessPolicy::default().check_token(&HeaderMap::new()).is_ok());
        for wrong in ["", "0123456789abcde", "0123456789 abcdef", "0123456789äbcdef"] {
            assert!(BearerToken::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn access_policy_without_token_is_for_loopback_only() {
        let token = BearerToken::new("0123456789abcdef").unwrap();
        let open = AccessPolicy::default();
        for (address, is_fit) in [("127.0.0.1:1", true), ("[::1]:1", true), ("[::ffff:127.0.0.1]:1", true)]
            .into_iter()
            .chain([("0.0.0.0:1", false), ("192.0.2.7:1", false), ("[::]:1", false)])
        {
            assert_eq!(open.check(address.parse().unwrap()).is_ok(), is_fit, "{address}");
            let closed = AccessPolicy { token: Some(token.clone()), ..AccessPolicy::default() };
            assert_eq!(closed.check(address.parse().unwrap()), Ok(()));
        }
        for (hosts, origins) in [
            ("a/b", "https://a"),
            ("", "https://a"),
            ("*", "https://a"),
            ("a:8321", "https://a"),
            ("[2001:db8::7]:8321", "https://a"),
            ("a", "a"),
            ("a", "https://a/b"),
        ] {
            let policy = AccessPolicy { hosts: vec![hosts.into()], origins: vec![origins.into()], token: None };
            assert!(policy.check("127.0.0.1:1".parse().unwrap()).is_err(), "{hosts} {origins}");
        }
    }
}
