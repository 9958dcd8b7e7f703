//! HTTP permissions: URLs, methods, and the kinds of addresses behind a host name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Serialize, Serializer};
use url::{Host, Url};

use super::address::{is_public, unmapped};

mod http_records;

pub(super) use http_records::HttpRuleRecord;

/// A set of permitted HTTP requests: those that match one of its rules. A lattice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpGrant(Option<BTreeSet<HttpRule>>);

impl Default for HttpGrant {
    /// Returns the grant that allows no request.
    fn default() -> Self {
        Self(Some(BTreeSet::new()))
    }
}

/// The safe methods (RFC 9110), in order: those that a config entry without methods grants.
pub const READING_METHODS: [&str; 2] = ["GET", "HEAD"];

/// The wildcard for every method in a config entry.
const ANY_METHOD: &str = "*";

/// A pattern of HTTP requests. One entry of a config expands to one or more rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpRule {
    host: HostPattern,
    is_encrypted: bool,
    port: u16,
    /// Begins with `/`.
    path: String,
    /// The method; `None`: every method.
    method: Option<String>,
    reach: AddressScope,
}

/// A pattern of hosts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum HostPattern {
    /// Every host that has a name.
    Any,
    /// The subdomains of this name, not the name itself.
    Below(String),
    /// This name.
    Name(String),
    /// This address.
    Address(IpAddr),
}

/// The addresses to which a host name may resolve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum AddressScope {
    /// Public addresses.
    Public,
    /// Addresses of this network, which may be private.
    Network(IpNet),
    /// Every address: a manifest cannot decide to what a name resolves; the grant does.
    Any,
}

impl HttpGrant {
    /// Returns the grant of every request.
    pub fn all() -> Self {
        Self(None)
    }

    /// Parses one config entry: a URL, methods in upper case (none: [the safe ones](READING_METHODS); `*`: all), and
    /// networks to which a name may resolve besides public addresses. The URL's host may be `*`, or begin with `*.`; its
    /// path covers everything below it. A host that is an address, or `localhost`, is granted wherever it is.
    ///
    /// # Errors
    ///
    /// A description of the mistake.
    pub fn entry(url: &str, methods: &[String], networks: &[IpNet]) -> Result<Self, String> {
        let pattern = UrlPattern::parse(url)?;
        for method in methods {
            if method != ANY_METHOD && !is_method(method) {
                return Err(format!(
                    "invalid HTTP method `{}`; write it in upper case, such as GET",
                    method.escape_debug()
                ));
            }
        }
        if !networks.is_empty() && matches!(pattern.host, HostPattern::Address(_)) {
            return Err("networks: not allowed for a URL with an IP address; leave `networks` out".into());
        }
        let mut reaches = match &pattern.host {
            HostPattern::Address(address) => vec![AddressScope::Network((*address).into())],
            HostPattern::Name(name) if is_localhost(name) => loopback().map(AddressScope::Network).into(),
            _ => vec![AddressScope::Public],
        };
        reaches.extend(networks.iter().map(|network| AddressScope::Network(network.trunc())));
        let methods = match methods {
            [] => READING_METHODS.map(|method| Some(method.to_owned())).into(),
            methods if methods.iter().any(|method| method == ANY_METHOD) => vec![None],
            methods => methods.iter().cloned().map(Some).collect::<Vec<_>>(),
        };
        let rules = reaches.iter().flat_map(|reach| {
            let pattern = &pattern;
            methods.iter().map(move |method| {
                let UrlPattern { host, is_encrypted, port, path } = pattern.clone();
                HttpRule { host, is_encrypted, port, path, method: method.clone(), reach: *reach }
            })
        });
        Ok(rules.collect())
    }

    /// Returns all requests to a URL and below it, wherever its host is. Used for the URLs in a manifest and for the scope
    /// of a credential. The URL has the form of that of an [entry](Self::entry).
    ///
    /// # Errors
    ///
    /// A description of the mistake.
    pub fn all_below(url: &str) -> Result<Self, String> {
        let UrlPattern { host, is_encrypted, port, path } = UrlPattern::parse(url)?;
        Ok([HttpRule { host, is_encrypted, port, path, method: None, reach: AddressScope::Any }].into_iter().collect())
    }

    /// Returns the grant of safe requests to the public server that `url` names, as long as its name resolves to public
    /// addresses, and the server's origin URL. Returns `None` if the URL names no such server: a name never grants access to
    /// a private address, and a private address is no public server.
    pub fn public_server(url: &str) -> Option<(Self, String)> {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let is_public = match url.host()? {
            Host::Domain(name) => !is_localhost(name) && !name.contains('*'),
            Host::Ipv4(address) => is_public(address.into()),
            Host::Ipv6(address) => is_public(address.into()),
        };
        let has_login = !url.username().is_empty() || url.password().is_some();
        let origin = Some(url.origin().ascii_serialization()).filter(|_| is_public && !has_login)?;
        Some((Self::entry(&origin, &[], &[]).ok()?, origin))
    }

    /// Returns `true` if the grant allows no request.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(BTreeSet::is_empty)
    }

    /// Returns `true` if it allows no method but [the safe ones](READING_METHODS).
    pub fn only_reads(&self) -> bool {
        let reads = |rule: &HttpRule| rule.method.as_deref().is_some_and(|method| READING_METHODS.contains(&method));
        self.0.as_ref().is_some_and(|rules| rules.iter().all(reads))
    }

    /// Returns the URLs that the grant covers, each with the network to which its name may resolve, if one is named, and
    /// with its methods (empty: all).
    pub fn urls_with_methods(&self) -> Vec<(String, Vec<&str>)> {
        let mut urls: BTreeMap<String, BTreeSet<Option<&str>>> = BTreeMap::new();
        for rule in self.rules() {
            urls.entry(rule.url_with_network()).or_default().insert(rule.method.as_deref());
        }
        let urls = urls.into_iter();
        urls.map(|(url, methods)| (url, methods.into_iter().collect::<Option<_>>().unwrap_or_default())).collect()
    }

    /// Returns `true` if a rule covers servers of any name.
    pub fn is_for_every_host(&self) -> bool {
        self.any(|rule| rule.host == HostPattern::Any)
    }

    /// Iterates over the rules, sorted; empty for the grant of every request.
    pub fn rules(&self) -> impl Iterator<Item = &HttpRule> {
        self.0.iter().flatten()
    }

    /// Returns `true` if this request may be sent when its host is at `address`. `url` must come from a URL parser.
    pub fn admits(&self, method: &str, url: &Url, address: IpAddr) -> bool {
        self.any(|rule| rule.fits(method, url) && rule.reach.holds(address))
    }

    /// Returns `true` if this request may be sent to some address; if the host is an address, only if that address is
    /// granted.
    pub fn names(&self, method: &str, url: &Url) -> bool {
        match address_of(url) {
            Some(address) => self.admits(method, url, address),
            None => self.any(|rule| rule.fits(method, url)),
        }
    }

    /// Returns `true` if a rule covers the host of this URL, whatever its scheme, port, method and path.
    pub fn names_host(&self, url: &Url) -> bool {
        self.any(|rule| rule.is_at(url))
    }

    /// Returns the addresses that the host of this request may have. Requests with equal results may share connections.
    pub fn reaches(&self, method: &str, url: &Url) -> AllowedAddresses {
        AllowedAddresses(
            self.0
                .as_ref()
                .map(|rules| rules.iter().filter(|rule| rule.fits(method, url)).map(|rule| rule.reach).collect()),
        )
    }

    fn any(&self, holds: impl FnMut(&HttpRule) -> bool) -> bool {
        self.0.as_ref().is_none_or(|rules| rules.iter().any(holds))
    }

    /// Returns what both allow.
    pub fn meet(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => one.iter().flat_map(|a| two.iter().filter_map(|b| a.meet(b))).collect(),
            (one, two) => Self(one.clone().or_else(|| two.clone())),
        }
    }

    /// Returns what at least one of them allows.
    pub fn join(&self, other: &Self) -> Self {
        match (&self.0, &other.0) {
            (Some(one), Some(two)) => one.iter().chain(two).cloned().collect(),
            _ => Self::all(),
        }
    }

    /// Returns what `other` allows and this grant does not, as config entries.
    pub(super) fn lacking(&self, other: &Self) -> Vec<String> {
        match (&self.0, &other.0) {
            (None, _) => Vec::new(),
            // The grant of every request has no rules to list.
            (Some(_), None) => vec!["URL".into()],
            (Some(here), Some(wanted)) => {
                entries(wanted.iter().filter(|rule| !here.iter().any(|here| here.covers(rule))))
            }
        }
    }

    /// Returns the rules that share no request with `other`, as config entries.
    pub(super) fn apart_from(&self, other: &Self) -> Vec<String> {
        let is_apart =
            |rule: &&HttpRule| other.0.as_ref().is_some_and(|others| others.iter().all(|b| rule.meet(b).is_none()));
        entries(self.rules().filter(is_apart))
    }
}

/// Formats rules as config entries; rules with the same URL are merged as far as they agree.
fn entries<'a>(rules: impl Iterator<Item = &'a HttpRule>) -> Vec<String> {
    let mut methods: BTreeMap<(String, Option<IpNet>), BTreeSet<&str>> = BTreeMap::new();
    for rule in rules {
        // A manifest names no methods: the person who grants the request chooses them.
        let named = rule.method.as_deref().or_else(|| (rule.reach != AddressScope::Any).then_some(ANY_METHOD));
        methods.entry((rule.url(), rule.network())).or_default().extend(named);
    }
    for methods in methods.values_mut().filter(|methods| methods.iter().eq(&READING_METHODS)) {
        methods.clear();
    }
    let mut networks: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for ((url, network), methods) in methods {
        networks.entry((url, methods)).or_default().extend(network.map(|network| network.to_string()));
    }
    let entry = |((url, methods), networks): ((String, BTreeSet<&str>), Vec<String>)| {
        // YAML gives these characters a meaning within brackets and braces.
        let url = if url.contains(['[', ']', '{', '}', ',']) { format!("{url:?}") } else { url };
        let methods: Vec<_> = match methods.contains(ANY_METHOD) {
            true => vec!["'*'"],
            false => methods.into_iter().collect(),
        };
        let lists = [("methods", methods.join(", ")), ("networks", networks.join(", "))];
        let lists: String =
            lists.iter().filter(|(_, list)| !list.is_empty()).map(|(key, list)| format!(", {key}: [{list}]")).collect();
        if lists.is_empty() { url } else { format!("{{url: {url}{lists}}}") }
    };
    networks.into_iter().map(entry).collect()
}

impl FromIterator<HttpRule> for HttpGrant {
    /// Omits rules that another rule covers.
    fn from_iter<I: IntoIterator<Item = HttpRule>>(rules: I) -> Self {
        let all: BTreeSet<_> = rules.into_iter().collect();
        let is_needed = |rule: &&HttpRule| !all.iter().any(|other| other != *rule && other.covers(rule));
        Self(Some(all.iter().filter(is_needed).cloned().collect()))
    }
}

impl HttpRule {
    fn is_at(&self, url: &Url) -> bool {
        match url.host() {
            Some(Host::Domain(name)) => self.host.holds_name(&plain_name(name)),
            Some(Host::Ipv4(address)) => self.host.holds_address(address.into()),
            Some(Host::Ipv6(address)) => self.host.holds_address(address.into()),
            None => false,
        }
    }

    fn fits(&self, method: &str, url: &Url) -> bool {
        self.is_at(url)
            && url.scheme() == self.scheme()
            && url.port_or_known_default() == Some(self.port)
            && self.method.as_ref().is_none_or(|own| own == method)
            && (self.path == "/" || is_below(url.path(), &self.path) && !is_ambiguous(url.path()))
    }

    /// Returns `true` if others on the network can read such requests: they are not encrypted, and not sent to this machine.
    pub fn is_readable_on_the_way(&self) -> bool {
        let is_here = match &self.host {
            HostPattern::Name(name) | HostPattern::Below(name) => is_localhost(name),
            HostPattern::Address(address) => address.is_loopback(),
            HostPattern::Any => false,
        };
        !self.is_encrypted && !is_here
    }

    fn scheme(&self) -> &'static str {
        if self.is_encrypted { "https" } else { "http" }
    }

    /// Returns `true` if it allows everything that `other` does.
    fn covers(&self, other: &Self) -> bool {
        (self.is_encrypted, self.port) == (other.is_encrypted, other.port)
            && (self.method.is_none() || self.method == other.method)
            && is_below(&other.path, &self.path)
            && other.host.is_within(&self.host)
            && other.reach.is_within(&self.reach)
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
        if self.is_within(other) { Some(self.clone()) } else { other.is_within(self).then(|| other.clone()) }
    }

    fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(_) | Self::Below(_) | Self::Any, Self::Any) => true,
            (Self::Name(name), Self::Below(domain)) => is_subdomain(name, domain),
            (Self::Below(one), Self::Below(other)) => one == other || is_subdomain(one, other),
            (one, other) => one == other,
        }
    }
}

impl AddressScope {
    fn holds(&self, address: IpAddr) -> bool {
        let address = unmapped(address);
        match self {
            Self::Public => is_public(address),
            Self::Network(network) => network.contains(&address),
            Self::Any => true,
        }
    }

    /// The intersection of a network and the public addresses is not expressible unless one contains the other.
    fn meet(&self, other: &Self) -> Option<Self> {
        if self.is_within(other) { Some(*self) } else { other.is_within(self).then_some(*other) }
    }

    fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Any) | (Self::Public, Self::Public) => true,
            (Self::Network(one), Self::Network(other)) => other.contains(one),
            _ => false,
        }
    }
}

/// The addresses that the host of a request may have, whatever its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AllowedAddresses(Option<BTreeSet<AddressScope>>);

impl AllowedAddresses {
    /// Returns the set of all addresses.
    pub fn all() -> Self {
        Self(None)
    }

    /// Returns the public addresses and those of `networks`.
    pub fn public_and(networks: impl IntoIterator<Item = IpNet>) -> Self {
        let networks = networks.into_iter().map(|network| AddressScope::Network(network.trunc()));
        Self(Some(networks.chain([AddressScope::Public]).collect()))
    }

    /// Returns `true` if this address is in the set.
    pub fn holds(&self, address: IpAddr) -> bool {
        self.0.as_ref().is_none_or(|reaches| reaches.iter().any(|reach| reach.holds(address)))
    }
}

/// The parsed URL pattern of an entry.
#[derive(Clone)]
struct UrlPattern {
    host: HostPattern,
    is_encrypted: bool,
    port: u16,
    path: String,
}

impl UrlPattern {
    fn parse(text: &str) -> Result<Self, String> {
        let after_scheme = text.split_once("://").map_or(text, |(_, rest)| rest);
        if after_scheme.split(['/', '\\', '?', '#']).next().is_some_and(|authority| authority.contains('@')) {
            return Err("a URL with a user or a password is not allowed; remove both".into());
        }
        // Query and fragment may hold a key.
        let shown = text.split(['?', '#']).next().unwrap_or_default().escape_debug();
        // A URL parser rejects `*` in the host, so a reserved name replaces it while the URL is parsed.
        const ANY: &str = "any-host.invalid";
        let (scheme, rest) = text.split_once("://").ok_or_else(|| {
            format!("invalid URL `{shown}`; write it with its scheme, such as https://api.example.com")
        })?;
        let (is_any, is_below) = (is_host(rest, "*"), rest.starts_with("*."));
        let readable = match (is_any, is_below) {
            (true, _) => format!("{scheme}://{ANY}{}", &rest[1..]),
            (false, true) => format!("{scheme}://{}", &rest[2..]),
            (false, false) => text.to_owned(),
        };
        let url = Url::parse(&readable).map_err(|error| format!("invalid URL `{shown}`: {error}"))?;
        let is_encrypted = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(format!("invalid URL `{shown}`; begin it with https:// or http://")),
        };
        if url.query().is_some() || url.fragment().is_some() {
            return Err(format!("invalid URL `{shown}`; remove the query and the fragment"));
        }
        if is_ambiguous(url.path()) {
            return Err(format!("the path of `{shown}` is ambiguous; write it without % and .."));
        }
        let host = match url.host() {
            Some(Host::Domain(_)) if is_any => HostPattern::Any,
            Some(Host::Domain(name)) if name.contains('*') => {
                return Err(format!(
                    "invalid URL `{shown}`; use `*` only as the whole host, or as `*.` at the beginning of the host"
                ));
            }
            Some(Host::Domain(name)) if is_below => HostPattern::Below(plain_name(name)),
            Some(Host::Domain(name)) => HostPattern::Name(plain_name(name)),
            Some(_) if is_below => {
                return Err(format!("invalid URL `{shown}`: an IP address has no subdomains; remove `*.`"));
            }
            Some(Host::Ipv4(address)) => HostPattern::Address(address.into()),
            Some(Host::Ipv6(address)) => HostPattern::Address(unmapped(address.into())),
            None => return Err(format!("invalid URL `{shown}`: the host is missing")),
        };
        let port = url.port_or_known_default().ok_or_else(|| format!("invalid URL `{shown}`: the port is missing"))?;
        Ok(Self { host, is_encrypted, port, path: url.path().to_owned() })
    }
}

fn is_host(rest: &str, host: &str) -> bool {
    rest.strip_prefix(host).is_some_and(|after| after.is_empty() || after.starts_with([':', '/']))
}

/// Returns the host of a URL if it is an address.
fn address_of(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

/// Normalizes a host name for comparison: lower case, without the trailing dot of a fully qualified name.
fn plain_name(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Returns `true` for names that always resolve to this machine.
pub fn is_localhost(name: &str) -> bool {
    let name = plain_name(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// Returns the loopback networks.
pub fn loopback() -> [IpNet; 2] {
    [
        IpNet::V4(Ipv4Net::new_assert(std::net::Ipv4Addr::new(127, 0, 0, 0), 8)),
        IpNet::V6(Ipv6Net::new_assert(std::net::Ipv6Addr::LOCALHOST, 128)),
    ]
}

fn is_subdomain(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
}

/// Returns `true` if a path equals `above` or lies below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| above.ends_with('/') || rest.is_empty() || rest.starts_with('/'))
}

/// Returns `true` if a server may interpret the path as another one: it hides a separator or a parent step that servers
/// decode at different stages. Such a request never matches a rule that is limited to a path.
fn is_ambiguous(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    // `%25` decodes to `%` for a server that decodes twice.
    let hides = ["%2f", "%5c", "%2e", "%25", "%00", "%3b", "\\", "//"].iter().any(|hidden| path.contains(hidden));
    hides || path.split('/').any(|segment| segment.split(';').next().is_some_and(|name| matches!(name, "." | "..")))
}

/// Returns `true` if the method may be granted; `CONNECT` and `TRACE` may not.
pub fn is_method(method: &str) -> bool {
    let is_word = (1..=32).contains(&method.len()) && method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    is_word && !matches!(method, "CONNECT" | "TRACE")
}

/// Formats the rule as in a config: the URL, preceded by the method and followed by the network, if there are any.
impl fmt::Display for HttpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(method) = &self.method {
            write!(f, "{method} ")?;
        }
        f.write_str(&self.url_with_network())
    }
}

impl HttpRule {
    /// Returns the URL, and the network to which its name may resolve if a config has to state it.
    fn url_with_network(&self) -> String {
        let network = self.network().map_or(String::new(), |network| format!(" in {network}"));
        format!("{}{network}", self.url())
    }

    /// Returns the URL as a config writes it.
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

    /// Returns the network to which the name may resolve, if a config has to state it.
    fn network(&self) -> Option<IpNet> {
        match (&self.reach, &self.host) {
            (AddressScope::Public | AddressScope::Any, _) | (_, HostPattern::Address(_)) => None,
            (AddressScope::Network(network), HostPattern::Name(name))
                if is_localhost(name) && loopback().contains(network) =>
            {
                None
            }
            (AddressScope::Network(network), _) => Some(*network),
        }
    }
}

/// Serializes as a list of rules, as in the config; `*` for every request.
impl Serialize for HttpGrant {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(rules) => to.collect_seq(rules.iter().map(HttpRule::to_string)),
            None => to.collect_seq(["*"]),
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
