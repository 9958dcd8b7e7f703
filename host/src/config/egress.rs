//! HTTP requests that plugins may send, and the credentials that the host adds to them.

use std::{fmt, net::IpAddr, path::PathBuf};

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, value::MapAccessDeserializer},
};

use super::{explain::unknown, values::or_text};
use crate::{
    capability::HttpGrant,
    error::{ErrorKind, Fault, Report},
    limits,
    net::header_name,
    openapi::CredentialPlace,
};

/// HTTP requests that a plugin may send: a URL, or a mapping with options.
// The derived `deserialize` reads the mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(remote = "Self", deny_unknown_fields)]
#[schemars(inline, transform = or_text)]
pub struct HttpUse {
    /// Scheme, host, port and path; the path stands for everything below it. The host may be `*`, or begin with `*.`.
    pub url: String,
    /// Methods in upper case, or `*` for all; empty: GET and HEAD.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Networks that the host name may resolve to besides public ones: `10.0.0.0/8`, or an address.
    #[serde(default)]
    pub networks: Vec<String>,
}

impl<'de> Deserialize<'de> for HttpUse {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct HttpUseVisitor;
        impl<'de> de::Visitor<'de> for HttpUseVisitor {
            type Value = HttpUse;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL, or a mapping with `url`")
            }
            fn visit_str<E: de::Error>(self, url: &str) -> Result<HttpUse, E> {
                Ok(HttpUse { url: url.to_owned(), ..HttpUse::default() })
            }
            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<HttpUse, M::Error> {
                HttpUse::deserialize(MapAccessDeserializer::new(map))
            }
        }
        from.deserialize_any(HttpUseVisitor)
    }
}

impl HttpUse {
    /// Returns the requests that the entry allows.
    fn rules(&self) -> Result<HttpGrant, String> {
        let most = limits::HTTP_ENTRY_WORDS;
        for (key, list) in [("methods", &self.methods), ("networks", &self.networks)] {
            if list.len() > most {
                return Err(format!("{key}: must have at most {most} entries"));
            }
        }
        HttpGrant::entry(&self.url, &self.methods, &networks(&self.networks)?)
    }
}

/// Parses networks and single addresses of a config.
pub(super) fn networks(texts: &[String]) -> Result<Vec<IpNet>, String> {
    let network = |text: &String| {
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network.map_err(|_| format!("networks: `{}` is not a network; write it as 10.0.0.0/8", text.escape_debug()))
    };
    texts.iter().map(network).collect()
}

/// Returns the requests that a list of entries allows. An entry that cannot be parsed allows nothing; a checked config has
/// none.
pub fn requests(uses: &[HttpUse]) -> HttpGrant {
    let rules: Vec<_> = uses.iter().filter_map(|entry| entry.rules().ok()).collect();
    rules.iter().flat_map(HttpGrant::rules).cloned().collect()
}

/// Checks the `http` and `credentials` lists at the position `at` of the config.
pub(super) fn check_way_out(
    at: &str,
    http: &[HttpUse],
    credentials: &[String],
    known: &[CredentialConfig],
) -> Result<(), Report> {
    let wrong = |what: String| Err(Report::new(ErrorKind::Usage, format!("{at}.http: {what}")));
    if http.len() > limits::HTTP_ENTRIES {
        return wrong(format!("must have at most {} entries", limits::HTTP_ENTRIES));
    }
    let mut rules = 0;
    for entry in http {
        match entry.rules() {
            Ok(allowed) => rules += allowed.rules().count(),
            Err(what) => return wrong(what),
        }
    }
    if rules > limits::HTTP_RULES {
        let most = limits::HTTP_RULES;
        return Err(Report::new(
            ErrorKind::Usage,
            format!(
                "{at}.http: the entries make {rules} rules, one for each method and network; at most {most} are allowed"
            ),
        )
        .hint("write `methods: ['*']` to allow all methods, or name larger networks"));
    }
    let names = || known.iter().map(|credential| credential.name.as_str());
    match credentials.iter().find(|name| !names().any(|known| known == name.as_str())) {
        Some(name) => Err(unknown("credential", name, names()).cause(format!("named by {at}.credentials"))),
        None => Ok(()),
    }
}

/// The header that carries a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AuthConfig {
    /// The name of the header.
    pub header: String,
    /// The word before the key; empty: none.
    #[serde(default)]
    pub scheme: String,
}

/// The place of a request in which a credential is sent: a header, or a parameter of the query.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialAuthConfig {
    /// The name of the header.
    pub header: Option<String>,
    /// The word before the key in the header; empty: none.
    #[serde(default)]
    pub scheme: String,
    /// The name of the query parameter, in place of a header. Addresses are logged on the way more often than headers.
    pub query: Option<String>,
}

/// A credential that the host holds, and adds to requests of plugins that are granted it. No plugin sees its value.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialConfig {
    /// The name by which it is granted and requested: 1 to 64 of `a-z A-Z 0-9 _ -`.
    pub name: String,
    /// The environment variable that holds it.
    pub env: Option<String>,
    /// The file that holds it; a relative path is below the config's root.
    pub file: Option<PathBuf>,
    /// The program that prints it, followed by its arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// The URLs to which it may be sent, each with everything below it. The host may begin with `*.`.
    #[serde(rename = "for")]
    pub audience: Vec<String>,
    /// The header or the query parameter that carries it; `None`: `authorization` with the scheme `Bearer`.
    pub auth: Option<CredentialAuthConfig>,
}

impl CredentialConfig {
    /// Returns the place of a request in which the host adds it.
    pub fn place(&self) -> CredentialPlace {
        match self.auth.clone() {
            None => CredentialPlace::Header { name: "authorization".into(), scheme: "Bearer".into() },
            Some(CredentialAuthConfig { query: Some(parameter), .. }) => CredentialPlace::Query(parameter),
            Some(CredentialAuthConfig { header, scheme, query: None }) => {
                CredentialPlace::Header { name: header.unwrap_or_default(), scheme }
            }
        }
    }

    /// Returns `true` if it is a user name and a password joined by `:`, which are sent as base64.
    pub fn is_basic(&self) -> bool {
        self.auth.as_ref().is_some_and(|auth| auth.scheme.eq_ignore_ascii_case("basic"))
    }

    /// Returns the requests to which it may be added.
    pub fn audience(&self) -> HttpGrant {
        let all = self.audience.iter().filter_map(|url| HttpGrant::all_below(url).ok());
        all.fold(HttpGrant::default(), |all, one| all.join(&one))
    }

    /// Checks what serde cannot express.
    pub(super) fn check(&self) -> Result<(), Report> {
        let at = format!("credentials.{}", self.name);
        let wrong = |what: String, hint: &str| Err(Report::new(ErrorKind::Usage, format!("{at}{what}")).hint(hint));
        let is_name = (1..=64).contains(&self.name.len())
            && self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if !is_name {
            let message = format!("credentials: `{}` is not a valid name", self.name.escape_debug());
            return Err(Report::new(ErrorKind::Usage, message).hint("use 1 to 64 characters of a-z, A-Z, 0-9, _ and -"));
        }
        let sources =
            [("env", self.env.is_some()), ("file", self.file.is_some()), ("command", !self.command.is_empty())];
        let said: Vec<_> = sources.iter().filter(|(_, is_said)| *is_said).map(|(key, _)| *key).collect();
        match said[..] {
            [] => return wrong(": no source".into(), "set `env`, `file` or `command`"),
            [_] => {}
            [one, other, ..] => {
                return wrong(format!(": `{one}` and `{other}` are both set"), "remove one of them");
            }
        }
        if let Some(name) = self.env.as_ref().filter(|name| name.is_empty() || name.contains(['=', '\0', '$', '{'])) {
            let hint = "write only the name, such as GITHUB_TOKEN";
            return wrong(format!(".env: `{}` is not the name of an environment variable", name.escape_debug()), hint);
        }
        if self.file.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            return wrong(".file: is empty".into(), "name the file that holds the credential");
        }
        if self.audience.is_empty() || self.audience.len() > limits::HTTP_ENTRIES {
            let what = format!(".for: must have 1 to {} URLs", limits::HTTP_ENTRIES);
            return wrong(what, "name the servers that may get the credential: `for: [https://api.example.com]`");
        }
        for url in &self.audience {
            let audience =
                HttpGrant::all_below(url).map_err(|what| Report::new(ErrorKind::Usage, format!("{at}.for: {what}")))?;
            if audience.is_for_every_host() {
                let hint = "name the servers that may get the credential: `for: [https://api.example.com]`";
                return wrong(".for: must not include every server".into(), hint);
            }
        }
        if let Some(CredentialAuthConfig { header, scheme, query }) = &self.auth {
            let fault = |fault: Fault| Report::new(ErrorKind::Usage, format!("{at}.auth.header: {fault}"));
            match (header, query) {
                (Some(header), None) => drop(header_name(header).map_err(fault)?),
                (None, Some(parameter)) if parameter.is_empty() || !scheme.is_empty() => {
                    let what = ".auth: a query parameter must have a name, and no `scheme`".into();
                    return wrong(what, "write `auth: {query: api_key}`");
                }
                (None, Some(_)) => {}
                _ => {
                    let what = ".auth: must have either `header` or `query`".into();
                    return wrong(what, "write `auth: {header: x-api-key}`, or `auth: {query: api_key}`");
                }
            }
            if !scheme.bytes().all(|byte| byte.is_ascii_graphic()) || scheme.len() > limits::AUTH_SCHEME_BYTES {
                let most = limits::AUTH_SCHEME_BYTES;
                return wrong(
                    format!(".auth.scheme: must be one word of at most {most} characters"),
                    "write `scheme: Bearer`, or remove `scheme`",
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<Config, Report> {
        Config::parse(text, "/project".into())
    }

    /// Returns a config in which an agent grants these requests to a plugin.
    fn granting(http: &str) -> String {
        format!("agents: [{{name: a, plugins: {{p: {{http: {http}}}}}}}]")
    }

    fn held(keys: &str) -> String {
        format!("credentials: [{{{keys}}}]")
    }

    #[test]
    fn http_grants_are_parsed() {
        let text = "[https://api.example.com, {url: 'https://any.example.com', methods: ['*']}, \
                    {url: 'https://*.example.com/v1', methods: [GET, POST]}, \
                    {url: http://nas.lan:8080, networks: [10.0.0.0/8, 'fd00::1']}]";
        let config = parse(&granting(text)).unwrap();
        let grant = config.agents[0].plugins["p"].as_ref().unwrap().grant(|path| path.into());
        for (method, url, address, expected) in [
            ("GET", "https://api.example.com/x", "1.1.1.1", true),
            ("HEAD", "https://api.example.com/x", "1.1.1.1", true),
            ("POST", "https://api.example.com/x", "1.1.1.1", false),
            ("DELETE", "https://any.example.com/x", "1.1.1.1", true),
            ("GET", "https://a.example.com/v1/x", "1.1.1.1", true),
            ("POST", "https://a.example.com/v1/x", "1.1.1.1", true),
            ("PUT", "https://a.example.com/v1/x", "1.1.1.1", false),
            ("HEAD", "https://a.example.com/v1/x", "1.1.1.1", false),
            ("POST", "http://nas.lan:8080", "10.1.2.3", false),
            ("GET", "https://a.example.com/v2", "1.1.1.1", false),
            ("GET", "http://nas.lan:8080", "10.1.2.3", true),
            ("GET", "http://nas.lan:8080", "fd00::1", true),
            ("GET", "http://nas.lan:8080", "fd00::2", false),
            ("GET", "https://api.example.com", "10.1.2.3", false),
        ] {
            let admits = grant.http.admits(method, &Url::parse(url).unwrap(), address.parse().unwrap());
            assert_eq!(admits, expected, "{method} {url} {address}");
        }
        // The key has the same meaning at every position.
        for text in [
            format!("agents: [{{name: a, use: {{http: {text}}}}}]"),
            format!("agents: [{{name: a, delegable: {{grant: {{http: {text}}}}}}}]"),
            format!("agents: [{{name: a, effects: [{{kind: p, http: {text}}}]}}]"),
            format!("agents: [{{name: a, middleware: [{{kind: p, http: {text}}}]}}]"),
            format!("providers: [{{name: m, kind: plugin, plugin: p, http: {text}}}]"),
        ] {
            let config = parse(&text).unwrap_or_else(|report| panic!("{text}: {report}"));
            let found = config.agents.first().map(|agent| {
                let bounds = agent.ceiling.iter().chain(&agent.delegable.grant).map(|bound| &bound.http);
                let steps = agent.effects.iter().flatten().chain(&agent.middleware).map(|step| &step.uses.http);
                bounds.chain(steps).cloned().collect::<Vec<_>>()
            });
            let found = found.unwrap_or_else(|| vec![config.providers[0].http.clone()]);
            assert!(found.len() == 1 && found.iter().all(|found| requests(found) == grant.http), "{text}");
        }
    }

    #[test]
    fn invalid_http_grant_is_refused_with_reason() {
        let many = |what: &str, count| vec![what; count].join(", ");
        let place = "agents.a.plugins.p.http: ";
        for (http, says) in [
            ("[api.example.com]".to_owned(), format!("{place}invalid URL `api.example.com`; write it with its scheme")),
            ("['https://me:pw-1234@h']".into(), format!("{place}a URL with a user or a password is not allowed")),
            ("['https://me:pw-1234@h:x']".into(), format!("{place}a URL with a user or a password is not allowed")),
            ("['https://h?key=pw-1234']".into(), format!("{place}invalid URL `https://h`; remove the query and")),
            ("[{url: 'https://h', methods: [get]}]".into(), format!("{place}invalid HTTP method `get`")),
            ("[{url: 'https://h', networks: [10.0]}]".into(), format!("{place}networks: `10.0` is not a network")),
            ("[{url: 'https://1.1.1.1', networks: [10.0.0.0/8]}]".into(), format!("{place}networks: not allowed for a \
                                                                                   URL with")),
            (
                format!("[{{url: 'https://h', methods: [{}]}}]", many("GET", 17)),
                format!("{place}methods: must have at most 16 entries"),
            ),
            (
                format!("[{{url: 'https://h', networks: [{}]}}]", many("10.0.0.0/8", 17)),
                format!("{place}networks: must have at most 16 entries"),
            ),
            (format!("[{}]", many("'https://h'", 65)), format!("{place}must have at most 64 entries")),
            (
                "[{url: 'https://h', methods: [A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P], \
                 networks: [10.0.0.0/8, 11.0.0.0/8, 12.0.0.0/8, 13.0.0.0/8, 14.0.0.0/8, 15.0.0.0/8, 16.0.0.0/8, 17.0.0.0/8, \
                 18.0.0.0/8, 19.0.0.0/8, 20.0.0.0/8, 21.0.0.0/8, 22.0.0.0/8, 23.0.0.0/8, 24.0.0.0/8, 25.0.0.0/8]}]"
                    .into(),
                format!("{place}the entries make 272 rules, one for each method and network; at most 256"),
            ),
            ("[{methods: [GET]}]".into(), "the key `url` is missing".into()),
            ("[{url: x, method: GET}]".into(), "there is no key `method`".into()),
            ("[[x]]".into(), "a URL, or a mapping with `url`".into()),
            ("'https://h'".into(), "`http` is not a list".into()),
        ] {
            let report = parse(&granting(&http)).unwrap_err();
            let shown = format!("{report}");
            assert!(shown.contains(&says) && !format!("{report:?}").contains("pw-1234"), "{http}\n{report:?}");
        }
    }

    #[test]
    fn credential_config_is_parsed() {
        let header = |name: &str, scheme: &str| CredentialPlace::Header { name: name.into(), scheme: scheme.into() };
        for (keys, place, is_basic) in [
            ("name: a, env: A, for: ['https://h']", header("authorization", "Bearer"), false),
            (
                "name: B_2-x, file: keys/b, for: ['https://*.h/v1'], auth: {header: x-api-key}",
                header("x-api-key", ""),
                false,
            ),
            (
                "name: q, env: Q, for: ['https://h'], auth: {query: api_key}",
                CredentialPlace::Query("api_key".into()),
                false,
            ),
            (
                "name: c, command: [pass, show, c], for: ['http://h'], auth: {header: authorization, scheme: basic}",
                header("authorization", "basic"),
                true,
            ),
        ] {
            let config = parse(&held(keys)).unwrap_or_else(|report| panic!("{keys}: {report}"));
            let credential = &config.credentials[0];
            assert_eq!((credential.place(), credential.is_basic()), (place, is_basic));
            assert_eq!(credential.audience().rules().count(), 1);
        }
    }

    #[test]
    fn invalid_credential_is_refused_with_reason() {
        let good = "env: A, for: ['https://h']";
        for (keys, says) in [
            (format!("name: '', {good}"), "credentials: an entry has an empty name"),
            (format!("name: 'a b', {good}"), "credentials: `a b` is not a valid name"),
            (format!("name: {}, {good}", "a".repeat(65)), "is not a valid name"),
            (format!("name: a, {good}}}, {{name: a, {good}"), "credentials: two entries have the name `a`"),
            ("name: a, for: ['https://h']".into(), "credentials.a: no source"),
            (format!("name: a, file: f, {good}"), "credentials.a: `env` and `file` are both set"),
            (format!("name: a, command: [c], {good}"), "credentials.a: `env` and `command` are both set"),
            (
                "name: a, env: '${A}', for: ['https://h']".into(),
                "credentials.a.env: `${A}` is not the name of an environment variable",
            ),
            ("name: a, file: '', for: ['https://h']".into(), "credentials.a.file: is empty"),
            ("name: a, env: A".into(), "the key `for` is missing"),
            ("name: a, env: A, for: []".into(), "credentials.a.for: must have 1 to 64 URLs"),
            ("name: a, env: A, for: ['https://*']".into(), "credentials.a.for: must not include every server"),
            ("name: a, env: A, for: ['https://h', 'http://*:8080/x']".into(), "a.for: must not include every server"),
            ("name: a, env: A, for: [h]".into(), "credentials.a.for: invalid URL `h`"),
            (format!("name: a, {good}, auth: {{header: host}}"), "credentials.a.auth.header: the header `host` is set"),
            (
                format!("name: a, {good}, auth: {{header: 'x y'}}"),
                "credentials.a.auth.header: invalid header name `x y`",
            ),
            (format!("name: a, {good}, auth: {{header: x, scheme: 'a b'}}"), "credentials.a.auth.scheme: must be one"),
            (format!("name: a, {good}, auth: {{}}"), "credentials.a.auth: must have either `header` or `query`"),
            (format!("name: a, {good}, auth: {{header: x, query: k}}"), "must have either `header` or `query`"),
            (format!("name: a, {good}, auth: {{query: k, scheme: x}}"), "a query parameter must have a name, and no"),
            (format!("name: a, {good}, auth: {{query: ''}}"), "a query parameter must have a name, and no"),
            (format!("name: a, {good}, key: k"), "there is no key `key`"),
        ] {
            let report = parse(&held(&keys)).unwrap_err();
            assert!(report.to_string().contains(says), "{keys}\n{report:?}");
        }
    }

    #[test]
    fn granted_credential_must_be_configured() {
        let held = held("name: github, env: A, for: ['https://h']");
        let with =
            |rest: &str, name: &str| format!("{held}\n{}", rest.replace("NAMES", &format!("credentials: [{name}]")));
        for (rest, place) in [
            ("agents: [{name: a, plugins: {p: {NAMES}}}]", "agents.a.plugins.p"),
            ("agents: [{name: a, effects: [{kind: p, NAMES}]}]", "agents.a.effects.p"),
            ("agents: [{name: a, middleware: [{kind: p, NAMES}]}]", "agents.a.middleware.p"),
            ("agents: [{name: a, use: {NAMES}}]", "agents.a.use"),
            ("agents: [{name: a, delegable: {grant: {NAMES}}}]", "agents.a.delegable.grant"),
            ("providers: [{name: m, kind: plugin, plugin: p, NAMES}]", "providers.m"),
        ] {
            assert!(parse(&with(rest, "github")).is_ok(), "{rest}");
            let report = parse(&with(rest, "githb")).unwrap_err();
            let said = format!("there is no credential `githb`: named by {place}.credentials");
            assert_eq!((report.to_string(), report.hint.as_deref()), (said, Some("did you mean `github`?")), "{rest}");
        }
        let report = parse("agents: [{name: a, plugins: {p: {credentials: [x]}}}]").unwrap_err();
        assert_eq!(
            report.hint.as_deref(),
            Some("the config has no credentials; add the credential under `credentials`")
        );
    }
}
