//! HTTP requests that somebody may send: where to, by which methods, and to what kind of address.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Serialize, Serializer};
use url::{Host, Url};

use super::address::{is_public, unmapped};

/// HTTP requests that somebody may send: those that one of its rules allows. A lattice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Http(Option<BTreeSet<HttpRule>>);

impl Default for Http {
    /// None.
    fn default() -> Self {
        Self(Some(BTreeSet::new()))
    }
}

/// Requests of one kind: all of them, but for what it says. A rule of a config is one or more of these.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpRule {
    host: HostPattern,
    is_encrypted: bool,
    port: u16,
    /// Begins with `/`.
    path: String,
    /// None: every method.
    method: Option<String>,
    reach: Reach,
}

/// Which hosts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum HostPattern {
    /// All that have a name.
    Any,
    /// Those below this one, not itself.
    Below(String),
    /// This name.
    Name(String),
    /// This address.
    Address(IpAddr),
}

/// Which addresses may be behind a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Reach {
    /// Those of everybody's Internet.
    Public,
    /// Those of this network, which may be somebody's own.
    Network(IpNet),
}

impl Http {
    /// Every request there is.
    pub fn all() -> Self {
        Self(None)
    }

    /// What one entry of a config allows: a URL, methods in upper case (none: all of them), and networks that names may lead
    /// to beside the public ones. The URL's host may be `*`, or begin with `*.`; its path stands for all below it. A host that
    /// is an address, or `localhost`, is granted wherever that is.
    ///
    /// # Errors
    ///
    /// What is wrong with it, in words.
    pub fn entry(url: &str, methods: &[String], networks: &[IpNet]) -> Result<Self, String> {
        let place = Place::parse(url)?;
        for method in methods {
            if !is_method(method) {
                return Err(format!("`{}` is no method: write it in upper case, as GET", method.escape_debug()));
            }
        }
        if !networks.is_empty() && matches!(place.host, HostPattern::Address(_)) {
            return Err("networks: an address that is written out needs none".into());
        }
        let mut reaches = match &place.host {
            HostPattern::Address(address) => vec![Reach::Network((*address).into())],
            HostPattern::Name(name) if is_localhost(name) => loopback().map(Reach::Network).into(),
            _ => vec![Reach::Public],
        };
        reaches.extend(networks.iter().map(|network| Reach::Network(network.trunc())));
        let methods: Vec<_> = methods.iter().cloned().map(Some).collect();
        let methods = if methods.is_empty() { vec![None] } else { methods };
        let rules = reaches.iter().flat_map(|reach| {
            let place = &place;
            methods.iter().map(move |method| {
                let Place { host, is_encrypted, port, path } = place.clone();
                HttpRule { host, is_encrypted, port, path, method: method.clone(), reach: *reach }
            })
        });
        Ok(rules.collect())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// The rules, sorted; none of all requests.
    pub fn rules(&self) -> impl Iterator<Item = &HttpRule> {
        self.0.iter().flatten()
    }

    /// Whether such a request may be sent if its host is at such an address. `url` is as a URL parser leaves it.
    pub fn admits(&self, method: &str, url: &Url, address: IpAddr) -> bool {
        self.any(|rule| rule.fits(method, url) && rule.reach.holds(address))
    }

    /// Whether such a request may be sent, wherever its host is; one whose host is an address, only if that is granted.
    pub fn names(&self, method: &str, url: &Url) -> bool {
        match address_of(url) {
            Some(address) => self.admits(method, url, address),
            None => self.any(|rule| rule.fits(method, url)),
        }
    }

    /// Whether some request may be sent to a host of this name at this address.
    pub fn may_reach(&self, name: &str, address: IpAddr) -> bool {
        let name = plain_name(name);
        self.any(|rule| rule.host.holds_name(&name) && rule.reach.holds(address))
    }

    fn any(&self, holds: impl FnMut(&HttpRule) -> bool) -> bool {
        self.0.as_ref().is_none_or(|rules| rules.iter().any(holds))
    }

    /// What both allow.
    pub fn meet(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => one.iter().flat_map(|a| two.iter().filter_map(|b| a.meet(b))).collect(),
            (one, two) => Self(one.clone().or_else(|| two.clone())),
        }
    }

    /// What one of them allows.
    pub fn join(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => one.iter().chain(two).cloned().collect(),
            _ => Self::all(),
        }
    }

    /// What `other` allows and this does not, as rules of a config.
    pub(super) fn lacking(&self, other: &Self) -> Vec<String> {
        match (&self.0, &other.0) {
            (None, _) => Vec::new(),
            // It has no rules.
            (Some(_), None) => vec!["URL".into()],
            (Some(here), Some(wanted)) => {
                let is_lacking = |rule: &&HttpRule| !here.iter().any(|here| here.covers(rule));
                wanted.iter().filter(is_lacking).map(HttpRule::to_string).collect()
            }
        }
    }
}

impl FromIterator<HttpRule> for Http {
    /// Without what another rule covers.
    fn from_iter<I: IntoIterator<Item = HttpRule>>(rules: I) -> Self {
        let all: BTreeSet<_> = rules.into_iter().collect();
        let is_needed = |rule: &&HttpRule| !all.iter().any(|other| other != *rule && other.covers(rule));
        Self(Some(all.iter().filter(is_needed).cloned().collect()))
    }
}

impl HttpRule {
    fn fits(&self, method: &str, url: &Url) -> bool {
        let host = match url.host() {
            Some(Host::Domain(name)) => self.host.holds_name(&plain_name(name)),
            Some(Host::Ipv4(address)) => self.host.holds_address(address.into()),
            Some(Host::Ipv6(address)) => self.host.holds_address(address.into()),
            None => false,
        };
        host && url.scheme() == self.scheme()
            && url.port_or_known_default() == Some(self.port)
            && self.method.as_ref().is_none_or(|own| own == method)
            && (self.path == "/" || is_below(url.path(), &self.path) && !is_ambiguous(url.path()))
    }

    fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// Whether it allows all that `other` does.
    fn covers(&self, other: &Self) -> bool {
        self.meet(other).as_ref() == Some(other)
    }

    fn meet(&self, other: &Self) -> Option<Self> {
        if (self.is_encrypted, self.port) != (other.is_encrypted, other.port) {
            return None;
        }
        let method = match (&self.method, &other.method) {
            (Some(one), Some(two)) if one != two => return None,
            (one, two) => one.as_ref().or(two.as_ref()).cloned(),
        };
        let path = if is_below(&self.path, &other.path) {
            &self.path
        } else if is_below(&other.path, &self.path) {
            &other.path
        } else {
            return None;
        };
        let host = self.host.meet(&other.host)?;
        let (is_encrypted, port, path) = (self.is_encrypted, self.port, path.clone());
        Some(Self { host, is_encrypted, port, path, method, reach: self.reach.meet(&other.reach)? })
    }
}

impl HostPattern {
    fn holds_name(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Below(domain) => is_subdomain(name, domain),
            Self::Name(own) => own == name,
            Self::Address(_) => false,
        }
    }

    fn holds_address(&self, address: IpAddr) -> bool {
        matches!(self, Self::Address(own) if unmapped(*own) == unmapped(address))
    }

    fn meet(&self, other: &Self) -> Option<Self> {
        let is_within = |one: &Self, other: &Self| match (one, other) {
            (Self::Name(_) | Self::Below(_) | Self::Any, Self::Any) => true,
            (Self::Name(name), Self::Below(domain)) => is_subdomain(name, domain),
            (Self::Below(one), Self::Below(other)) => one == other || is_subdomain(one, other),
            (one, other) => one == other,
        };
        if is_within(self, other) { Some(self.clone()) } else { is_within(other, self).then(|| other.clone()) }
    }
}

impl Reach {
    fn holds(&self, address: IpAddr) -> bool {
        let address = unmapped(address);
        match self {
            Self::Public => is_public(address),
            Self::Network(network) => network.contains(&address),
        }
    }

    /// Of a network and the public addresses only what is written as a network can be told: all of it or nothing.
    fn meet(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Public, Self::Public) => Some(Self::Public),
            (Self::Network(one), Self::Network(two)) if one.contains(two) => Some(Self::Network(*two)),
            (Self::Network(one), Self::Network(two)) if two.contains(one) => Some(Self::Network(*one)),
            _ => None,
        }
    }
}

/// Where an entry leads.
#[derive(Clone)]
struct Place {
    host: HostPattern,
    is_encrypted: bool,
    port: u16,
    path: String,
}

impl Place {
    fn parse(text: &str) -> Result<Self, String> {
        let shown = text.escape_debug();
        // A URL has no `*` in its host: a name that nobody has stands for it while it is read.
        const ANY: &str = "any-host.invalid";
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| format!("`{shown}` is no URL: write it with its scheme, as https://api.example.com"))?;
        let (is_any, is_below) = (is_host(rest, "*"), rest.starts_with("*."));
        let readable = match (is_any, is_below) {
            (true, _) => format!("{scheme}://{ANY}{}", &rest[1..]),
            (false, true) => format!("{scheme}://{}", &rest[2..]),
            (false, false) => text.to_owned(),
        };
        let url = Url::parse(&readable).map_err(|error| format!("`{shown}` is no URL: {error}"))?;
        let is_encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(format!("`{shown}` begins neither with https:// nor with http://")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("a URL here holds no user and no password".into());
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("`{shown}` has a query or a fragment: what is allowed ends with the path"));
        }
        if is_ambiguous(url.path()) {
            return Err(format!("the path of `{shown}` can be read in two ways: write it without % and .."));
        }
        let host = match url.host() {
            Some(Host::Domain(_)) if is_any => HostPattern::Any,
            Some(Host::Domain(name)) if name.contains('*') => {
                return Err(format!("`{shown}`: `*` stands alone, or before a point at the beginning of the host"));
            }
            Some(Host::Domain(name)) if is_below => HostPattern::Below(plain_name(name)),
            Some(Host::Domain(name)) => HostPattern::Name(plain_name(name)),
            Some(_) if is_below => return Err(format!("`{shown}`: there is nothing below an address")),
            Some(Host::Ipv4(address)) => HostPattern::Address(address.into()),
            Some(Host::Ipv6(address)) => HostPattern::Address(unmapped(address.into())),
            None => return Err(format!("`{shown}` names no host")),
        };
        let port = url.port_or_known_default().ok_or_else(|| format!("`{shown}` has no port"))?;
        Ok(Self { host, is_encrypted, port, path: url.path().to_owned() })
    }
}

fn is_host(rest: &str, host: &str) -> bool {
    rest.strip_prefix(host).is_some_and(|after| after.is_empty() || after.starts_with([':', '/']))
}

/// The address that a URL names, if its host is one.
fn address_of(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

/// A host's name as names are compared: the point at its end, which says that it is whole, left out.
fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Names that lead to this machine wherever they are looked up.
pub fn is_localhost(name: &str) -> bool {
    let name = plain_name(name);
    name == "localhost" || name.ends_with(".localhost")
}

fn loopback() -> [IpNet; 2] {
    [
        IpNet::V4(Ipv4Net::new_assert(std::net::Ipv4Addr::new(127, 0, 0, 0), 8)),
        IpNet::V6(Ipv6Net::new_assert(std::net::Ipv6Addr::LOCALHOST, 128)),
    ]
}

fn is_subdomain(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

/// Whether a path is this one or lies below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| above.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
}

/// Whether a server may take a path for another one: it hides a separator or a step up, which servers find at different
/// times. What is bounded to a path is not sent there.
fn is_ambiguous(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    // `%25` is a `%` for whoever reads a second time.
    let hides = ["%2f", "%5c", "%2e", "%25", "%00", "%3b", "\\", "//"].iter().any(|hidden| path.contains(hidden));
    hides || path.split('/').any(|segment| segment.split(';').next().is_some_and(|name| matches!(name, "." | "..")))
}

/// Whether it is a method that may be granted: `CONNECT` and `TRACE` are none.
pub fn is_method(method: &str) -> bool {
    let is_word = (1..=32).contains(&method.len()) && method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    is_word && !matches!(method, "CONNECT" | "TRACE")
}

/// As it stands in a config: a URL, before it the method if there is one, after it the network if there is one.
impl fmt::Display for HttpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} ")?;
        }
        write!(f, "{}", self.url())?;
        match (&self.reach, &self.host) {
            (Reach::Public, _) | (_, HostPattern::Address(_)) => Ok(()),
            (Reach::Network(network), HostPattern::Name(name))
                if is_localhost(name) && loopback().contains(network) =>
            {
                Ok(())
            }
            (Reach::Network(network), _) => write!(f, " in {network}"),
        }
    }
}

impl HttpRule {
    /// Its URL, as a config has it.
    pub fn url(&self) -> String {
        let host = match &self.host {
            HostPattern::Any => "*".to_owned(),
            HostPattern::Below(domain) => format!("*.{domain}"),
            HostPattern::Name(name) => name.clone(),
            HostPattern::Address(IpAddr::V4(address)) => address.to_string(),
            HostPattern::Address(IpAddr::V6(address)) => format!("[{address}]"),
        };
        let usual = if self.is_encrypted { 443 } else { 80 };
        let port = if self.port == usual { String::new() } else { format!(":{}", self.port) };
        let path = if self.path == "/" { "" } else { &self.path };
        format!("{}://{host}{port}{path}", self.scheme())
    }
}

/// A list of rules, as in the config; `*` is all.
impl Serialize for Http {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(rules) => to.collect_seq(rules.iter().map(HttpRule::to_string)),
            None => to.collect_seq(["*"]),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(in super::super) fn entry(url: &str, methods: &[&str], networks: &[&str]) -> Http {
        let methods: Vec<_> = methods.iter().map(|method| (*method).to_owned()).collect();
        let networks: Vec<_> = networks.iter().map(|network| network.parse().unwrap()).collect();
        Http::entry(url, &methods, &networks).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn all(entries: &[&str]) -> Http {
        entries.iter().fold(Http::default(), |all, url| all.join(&entry(url, &[], &[])))
    }

    const PUBLIC: &str = "93.184.216.34";

    #[test]
    fn an_entry_allows_what_it_says_and_nothing_else() {
        for (rule, url, expected) in [
            ("https://api.example.com", "https://api.example.com/x?y#z", true),
            ("https://api.example.com", "https://API.example.com.:443", true),
            ("https://api.example.com", "http://api.example.com", false),
            ("https://api.example.com", "https://api.example.com:8443", false),
            ("https://api.example.com", "https://a.api.example.com", false),
            ("https://api.example.com", "https://api.example.com@evil.example", false),
            ("https://api.example.com", "https://evil.example/https://api.example.com", false),
            ("https://api.example.com", "https://evil.example\\@api.example.com", false),
            ("https://api.example.com", "https://api.example.com.evil.example", false),
            ("https://api.example.com", "wss://api.example.com", false),
            ("https://api.example.com", "ftp://api.example.com:443", false),
            ("https://b\u{fc}cher.example", "https://xn--bcher-kva.example", true),
            ("https://b\u{fc}cher.example", "https://bucher.example", false),
            // A letter of another script looks the same.
            ("https://api.example.com", "https://\u{430}pi.example.com", false),
            // Full-width letters are the same, for everybody.
            ("https://api.example.com", "https://\u{ff41}pi.example.com", true),
            ("https://*.example.com", "https://a.example.com", true),
            ("https://*.example.com", "https://a.b.example.com", true),
            ("https://*.example.com", "https://example.com", false),
            ("https://*.example.com", "https://notexample.com", false),
            ("https://*.example.com", "https://.example.com", false),
            ("https://*", "https://anything.example", true),
            ("https://*", "https://93.184.216.34", false),
            ("https://*:8443", "https://anything.example:8443", true),
            ("https://*:8443", "https://anything.example", false),
            ("https://h/v1", "https://h/v1", true),
            ("https://h/v1", "https://h/v1/x", true),
            ("https://h/v1", "https://h/v1?x", true),
            ("https://h/v1", "https://h/v12", false),
            ("https://h/v1", "https://h/", false),
            ("https://h/v1", "https://h/v1/../admin", false),
            ("https://h/v1", "https://h/v1/%2e%2e/admin", false),
            ("https://h/v1", "https://h/v1/..%2fadmin", false),
            ("https://h/v1", "https://h/v1/%2e%2e%2fadmin", false),
            ("https://h/v1", "https://h/v1/%252e%252e/admin", false),
            ("https://h/v1", "https://h/v1/..;/admin", false),
            ("https://h/v1", "https://h/v1/..%3b/admin", false),
            ("https://h/v1", "https://h/v1\\..\\admin", false),
            ("https://h/v1", "https://h//v1/x", false),
            ("https://h/v1", "https://h/V1/x", false),
            ("https://h/v1/", "https://h/v1/x", true),
            ("https://h/v1/", "https://h/v1", false),
        ] {
            let url = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(all(&[rule]).names("GET", &url), expected, "{rule}: {url}");
            assert_eq!(all(&[rule]).admits("GET", &url, PUBLIC.parse().unwrap()), expected, "{rule}: {url}");
        }
    }

    #[test]
    fn what_is_behind_a_name_is_public_unless_a_network_is_granted() {
        let table = [
            ("https://nas.lan", &[][..], "https://nas.lan", "10.0.0.1", false),
            ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", "10.0.0.1", true),
            ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", "::ffff:10.0.0.1", true),
            ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", "192.168.0.1", false),
            ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", PUBLIC, true),
            ("https://nas.lan", &["10.0.0.0/8"], "https://nas.lan", "169.254.169.254", false),
            ("http://localhost", &[], "http://localhost", "127.0.0.1", true),
            ("http://localhost", &[], "http://localhost.", "::1", true),
            ("http://localhost", &[], "http://localhost", "10.0.0.1", false),
            ("http://localhost", &[], "http://localhost", PUBLIC, false),
            ("http://*", &[], "http://localhost", "127.0.0.1", false),
            ("http://*.lan", &["fd00::/8"], "http://a.lan", "fd12::1", true),
        ];
        for (rule, networks, url, address, expected) in table {
            let (http, url) = (entry(rule, &[], networks), Url::parse(url).unwrap());
            let address = address.parse().unwrap();
            assert_eq!(http.admits("GET", &url, address), expected, "{rule}: {url} at {address}");
            assert_eq!(http.may_reach(url.host_str().unwrap(), address), expected, "{rule}: {url} at {address}");
        }
    }

    #[test]
    fn an_address_is_the_same_however_it_is_written() {
        let granted = all(&["http://127.0.0.1"]);
        for (url, expected) in [
            ("http://127.0.0.1", true),
            ("http://2130706433", true),
            ("http://0x7f.1", true),
            ("http://0177.0.0.1", true),
            ("http://127.1", true),
            ("http://%31%32%37.0.0.1", true),
            ("http://\u{ff11}27.0.0.1", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://[::ffff:7f00:1]", true),
            ("http://127.0.0.2", false),
            ("http://localhost", false),
            ("http://[::1]", false),
            ("http://0.0.0.0", false),
            ("http://[::]", false),
        ] {
            let parsed = Url::parse(url).unwrap();
            assert_eq!(granted.names("GET", &parsed), expected, "{url}");
            assert!(
                !all(&["http://*", "http://api.example.com", "http://*.example.com"]).names("GET", &parsed)
                    || expected
                    || url.contains("localhost"),
                "{url}"
            );
        }
    }

    #[test]
    fn methods_bound_a_rule() {
        let (http, url) = (entry("https://h", &["GET", "HEAD"], &[]), Url::parse("https://h/x").unwrap());
        for (method, expected) in [("GET", true), ("HEAD", true), ("POST", false), ("get", false)] {
            assert_eq!(http.names(method, &url), expected, "{method}");
        }
    }

    #[test]
    fn what_is_no_entry_is_said() {
        for (url, methods, says) in [
            ("api.example.com", &[][..], "write it with its scheme"),
            ("ftp://h", &[], "begins neither with https:// nor"),
            ("https://me:secret@h", &[], "no user and no password"),
            ("https://h?x", &[], "a query or a fragment"),
            ("https://a.*.example.com", &[], "`*` stands alone"),
            ("https://*example.com", &[], "`*` stands alone"),
            ("https://*.1.2.3.4", &[], "nothing below an address"),
            ("https://h/%2e%2e%2fx", &[], "read in two ways"),
            ("https://", &[], "is no URL"),
            ("https://h:99999", &[], "is no URL"),
            ("https://h", &["get"], "`get` is no method"),
            ("https://h", &["CONNECT"], "`CONNECT` is no method"),
        ] {
            let methods: Vec<_> = methods.iter().map(|method| (*method).to_owned()).collect();
            let error = Http::entry(url, &methods, &[]).unwrap_err();
            assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
        }
    }

    #[test]
    fn it_is_shown_as_a_config_has_it() {
        let http = entry("https://*.example.com:8443/v1", &["POST", "GET"], &["10.1.2.3/8"]).join(&all(&[
            "http://localhost",
            "http://[::1]:1",
            "https://h",
        ]));
        let shown: Vec<_> = http.rules().map(HttpRule::to_string).collect();
        assert_eq!(
            shown,
            [
                "GET https://*.example.com:8443/v1",
                "GET https://*.example.com:8443/v1 in 10.0.0.0/8",
                "POST https://*.example.com:8443/v1",
                "POST https://*.example.com:8443/v1 in 10.0.0.0/8",
                "https://h",
                "http://localhost",
                "http://localhost",
                "http://[::1]:1",
            ]
        );
        assert_eq!(serde_json::to_value(Http::all()).unwrap(), serde_json::json!(["*"]));
    }

    /// Any grant over a few places that lie in each other.
    pub(in super::super) fn any() -> impl Strategy<Value = Http> {
        let url = prop::sample::select(vec![
            "https://*",
            "https://*.a",
            "https://*.b.a",
            "https://b.a",
            "https://b.a/x",
            "https://b.a/x/y",
            "http://b.a",
            "https://b.a:1",
            "https://1.2.3.4",
            "http://localhost",
        ]);
        let methods = prop::sample::select(vec![&[][..], &["GET"], &["GET", "POST"]]);
        let networks = prop::sample::select(vec![&[][..], &["10.0.0.0/8"], &["10.1.0.0/16"]]);
        let entry = (url, methods, networks).prop_map(|(url, methods, networks)| {
            let networks = if url.contains('1') { &[][..] } else { networks };
            entry(url, methods, networks)
        });
        let some =
            prop::collection::vec(entry, 0..3).prop_map(|all| all.iter().fold(Http::default(), |a, b| a.join(b)));
        prop_oneof![8 => some, 1 => Just(Http::all())]
    }

    proptest! {
        #[test]
        fn the_meet_allows_what_both_allow_and_the_join_what_one_does(
            a in any(), b in any(),
            url in prop::sample::select(vec!["https://b.a/x/z", "https://c.b.a", "http://b.a", "http://localhost", "https://1.2.3.4/"]),
            method in prop::sample::select(vec!["GET", "POST", "PUT"]),
            address in prop::sample::select(vec!["10.1.1.1", "10.2.2.2", "8.8.8.8", "127.0.0.1", "1.2.3.4"]),
        ) {
            let (url, address) = (Url::parse(url).unwrap(), address.parse().unwrap());
            let admits = |http: &Http| http.admits(method, &url, address);
            prop_assert_eq!(admits(&a.meet(&b)), admits(&a) && admits(&b));
            prop_assert_eq!(admits(&a.join(&b)), admits(&a) || admits(&b));
            prop_assert_eq!(a.lacking(&b).is_empty(), b.meet(&a) == b);
        }
    }
}
