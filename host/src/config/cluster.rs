//! The key `cluster`: a NATS server on which hosts share sessions, state and a queue of runs.

use std::{path::PathBuf, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use super::{effective_setting::shown, values::OptionalDuration};
use crate::{
    capability::Usd,
    error::{ErrorKind, Report},
    limits,
};

/// A NATS server with JetStream on which hosts share sessions, the state of plugins, notes, rate limits and a queue of runs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// The URL of a server, such as `nats://127.0.0.1:4222`, or `tls://…` for TLS. Further servers of the same cluster
    /// follow after commas.
    pub nats: String,
    /// The name under which hosts share all of it: letters, digits, underscores and hyphens.
    pub namespace: String,
    /// The credentials that are sent to the server; `None`: none are.
    pub credentials: Option<ClusterCredentialsConfig>,
    /// A file with certificates in PEM form of the authorities that are trusted instead of those of the system; a
    /// relative path is below the config's root.
    pub certificates: Option<PathBuf>,
    /// The keys with which all content is encrypted before it is sent; `None`: the server can read it.
    pub encryption: Option<ClusterEncryptionConfig>,
    /// The number of servers that keep each message, from 1 to 5, when the namespace is used for the first time.
    #[serde(default = "one")]
    pub replicas: usize,
    /// The time after which a host that is silent has given up its sessions and runs, from 2s to 5m; `None`: 30s. It is that of
    /// the namespace from its first use on, whatever the configs of further hosts say.
    #[serde(default, with = "OptionalDuration")]
    pub lease: Option<Duration>,
    /// The limits of the runs in the queue, together on all hosts of the namespace. Each worker keeps the limits of its own
    /// config, so they should be the same everywhere.
    #[serde(default)]
    pub limits: ClusterLimitsConfig,
    /// Further namespaces on the same servers whose runs a worker does too. Sessions and submitted runs are in `namespace`.
    #[serde(default)]
    pub namespaces: Vec<ClusterNamespaceConfig>,
}

/// A further namespace whose runs a worker does. What is left out is that of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterNamespaceConfig {
    /// The name: letters, digits, underscores and hyphens.
    pub namespace: String,
    /// The credentials that are sent to the server for this namespace; `None`: those of the cluster.
    pub credentials: Option<ClusterCredentialsConfig>,
    /// The keys for the content of this namespace; `None`: those of the cluster.
    pub encryption: Option<ClusterEncryptionConfig>,
    /// The limits of the runs in this namespace; `None`: as many as those of the cluster, for this namespace alone.
    pub limits: Option<ClusterLimitsConfig>,
}

/// The limits of a namespace, counted on the server: a run that does not fit waits until others have ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterLimitsConfig {
    /// The runs at work at once.
    #[schemars(range(min = 1))]
    pub runs: Option<u64>,
    /// The tokens that the runs at work may use together, by their budgets. A run without a bound on tokens needs all of them.
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// The US dollars that the runs at work may spend together, by their budgets. A run without a bound on cost needs all of
    /// them.
    #[schemars(with = "Option<f64>", extend("exclusiveMinimum" = 0))]
    pub usd: Option<Usd>,
}

/// The credentials for a NATS server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterCredentialsConfig {
    /// A credentials file with a JWT and an NKey seed, as `nsc` writes it; a relative path is below the config's root.
    pub file: PathBuf,
}

/// The encryption of everything that a cluster stores, with keys that its server never has.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterEncryptionConfig {
    /// The key with which content is encrypted.
    pub key: ClusterKeyConfig,
    /// Keys that were used before: content that was encrypted with them is still read.
    #[serde(default)]
    pub old_keys: Vec<ClusterKeyConfig>,
    /// If `true`, content that is not encrypted is used too. Whoever has the server can then replace any content.
    #[serde(default)]
    pub accept_plain: bool,
}

/// A key for the content of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterKeyConfig {
    /// A file that `shelly-host cluster key` has made, the same on all hosts; a relative path is below the config's root.
    pub file: PathBuf,
}

impl ClusterEncryptionConfig {
    /// Returns the key that encrypts, and then the old ones.
    pub fn keys(&self) -> impl Iterator<Item = &ClusterKeyConfig> {
        std::iter::once(&self.key).chain(&self.old_keys)
    }
}

fn one() -> usize {
    1
}

impl ClusterConfig {
    /// Returns the URLs of the servers.
    pub fn servers(&self) -> Vec<String> {
        self.nats.split(',').map(|server| server.trim().to_owned()).collect()
    }

    pub(super) fn check(&self) -> Result<(), Report> {
        for server in self.servers() {
            let url = Url::parse(&server).ok().filter(|url| ["nats", "tls"].contains(&url.scheme()) && url.has_host());
            let Some(url) = url else {
                let what = format!("nats: `{}` is not the URL of a NATS server", server.escape_debug());
                return wrong(what, "write nats://HOST:PORT, or tls://HOST:PORT for TLS");
            };
            if !url.username().is_empty() || url.password().is_some() {
                return wrong(
                    "nats: a URL must not contain credentials".into(),
                    "name a file under cluster.credentials",
                );
            }
        }
        check_namespace("", &self.namespace)?;
        if !(1..=limits::CLUSTER_REPLICAS).contains(&self.replicas) {
            return wrong(format!("replicas: is {}", self.replicas), "use a number from 1 to 5");
        }
        let (least, most) = (limits::CLUSTER_LEASE_LEAST, limits::CLUSTER_LEASE_CEILING);
        if let Some(lease) = self.lease.filter(|lease| !(least..=most).contains(lease)) {
            let hint = format!("use a time from {} to {}", shown(least), shown(most));
            return wrong(format!("lease: is {}", shown(lease)), &hint);
        }
        check_encryption("", self.encryption.as_ref())?;
        check_limits("", &self.limits)?;
        if self.namespaces.len() >= limits::CLUSTER_WORKER_NAMESPACES {
            let what = format!("namespaces: there are more than {}", limits::CLUSTER_WORKER_NAMESPACES - 1);
            return wrong(what, "give some of them to another worker");
        }
        for (n, further) in self.namespaces.iter().enumerate() {
            let ClusterNamespaceConfig { namespace, credentials: _, encryption, limits } = further;
            let at = format!("namespaces[{n}].");
            check_namespace(&at, namespace)?;
            let mut before = self.namespaces[..n].iter().map(|other| &other.namespace).chain([&self.namespace]);
            if before.any(|other| other == namespace) {
                return wrong(format!("{at}namespace: `{namespace}` is named twice"), "name each namespace once");
            }
            check_encryption(&at, encryption.as_ref())?;
            limits.as_ref().map_or(Ok(()), |limits| check_limits(&at, limits))?;
        }
        Ok(())
    }

    /// Returns a warning if the config names another lease than a namespace has on its server.
    pub fn lease_warning(&self, of_namespace: Duration) -> Option<String> {
        let named = self.lease.filter(|named| *named != of_namespace)?;
        let (there, named) = (shown(of_namespace), shown(named));
        Some(format!("the lease of the namespace is {there}, from its first use; `lease: {named}` has no effect"))
    }

    /// Returns the namespaces whose runs a worker does, its own first.
    pub fn served_namespaces(&self) -> Vec<String> {
        let further = self.namespaces.iter().map(|further| &further.namespace);
        std::iter::once(&self.namespace).chain(further).cloned().collect()
    }

    /// Returns the cluster as it is for one of these namespaces alone; `None` if the config does not name it.
    pub(super) fn of_namespace(&self, namespace: &str) -> Option<Self> {
        let alone = Self { namespaces: Vec::new(), ..self.clone() };
        if namespace == self.namespace {
            return Some(alone);
        }
        let further = self.namespaces.iter().find(|further| further.namespace == namespace)?.clone();
        let ClusterNamespaceConfig { namespace, credentials, encryption, limits } = further;
        Some(Self {
            namespace,
            credentials: credentials.or(alone.credentials),
            encryption: encryption.or(alone.encryption),
            limits: limits.unwrap_or(alone.limits),
            ..alone
        })
    }
}

/// Returns the error of a key below `cluster`.
fn wrong(what: String, hint: &str) -> Result<(), Report> {
    Err(Report::new(ErrorKind::Usage, format!("cluster.{what}")).hint(hint))
}

/// Checks a namespace; `at` is the place of its key below `cluster`.
fn check_namespace(at: &str, namespace: &str) -> Result<(), Report> {
    let is_name = (1..=limits::CLUSTER_NAMESPACE_BYTES).contains(&namespace.len())
        && namespace.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if is_name {
        return Ok(());
    }
    let what = format!("{at}namespace: `{}` is not a valid name", namespace.escape_debug());
    let most = limits::CLUSTER_NAMESPACE_BYTES;
    wrong(what, &format!("use 1 to {most} characters of a-z, A-Z, 0-9, _ and -"))
}

fn check_encryption(at: &str, encryption: Option<&ClusterEncryptionConfig>) -> Result<(), Report> {
    let Some(encryption) = encryption else { return Ok(()) };
    if encryption.keys().any(|key| key.file.as_os_str().is_empty()) {
        return wrong(
            format!("{at}encryption: a key names no file"),
            "make one with `shelly-host cluster key FILE` and write {file: FILE}",
        );
    }
    if encryption.keys().count() > limits::CLUSTER_KEYS {
        let what = format!("{at}encryption: there are more than {} keys", limits::CLUSTER_KEYS);
        return wrong(what, "leave out the oldest keys, whose content is gone");
    }
    Ok(())
}

fn check_limits(at: &str, ClusterLimitsConfig { runs, tokens, usd }: &ClusterLimitsConfig) -> Result<(), Report> {
    let zero = [("runs", *runs == Some(0)), ("tokens", *tokens == Some(0)), ("usd", *usd == Some(Usd::ZERO))];
    match zero.iter().find(|(_, is_zero)| *is_zero) {
        Some((key, _)) => wrong(format!("{at}limits.{key}: is 0"), "no run could begin; use more, or leave it out"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::config::Config;

    fn parsed(keys: &str) -> Result<Config, String> {
        let text = format!("cluster: {{{keys}}}\n");
        Config::parse(&text, "/project".into()).map_err(|report| report.to_string())
    }

    #[test]
    fn wrong_cluster_is_refused_with_its_key() {
        let good = "nats: 'nats://127.0.0.1:4222, tls://b.example:4222', namespace: team-a, replicas: 3";
        let config = parsed(good).unwrap();
        assert_eq!(config.cluster.unwrap().servers(), ["nats://127.0.0.1:4222", "tls://b.example:4222"]);
        for (keys, why) in [
            ("nats: 'http://a:1', namespace: a", "cluster.nats: `http://a:1` is not the URL of a NATS server"),
            ("nats: '', namespace: a", "cluster.nats: `` is not"),
            ("nats: 'nats://me:secret@a:1', namespace: a", "cluster.nats: a URL must not contain credentials"),
            ("nats: 'nats://a:1', namespace: a.b", "cluster.namespace: `a.b` is not a valid name"),
            ("nats: 'nats://a:1', namespace: a, replicas: 0", "cluster.replicas: is 0"),
            ("nats: 'nats://a:1', namespace: a, replicas: 6", "cluster.replicas: is 6"),
            ("nats: 'nats://a:1', namespace: a, lease: 1s", "cluster.lease: is 1s"),
            ("nats: 'nats://a:1', namespace: a, lease: 301s", "cluster.lease: is 5m 1s"),
            (
                "nats: 'nats://a:1', namespace: a, encryption: {key: {file: ''}}",
                "cluster.encryption: a key names no file",
            ),
            ("nats: 'nats://a:1', namespace: a, limits: {runs: 0}", "cluster.limits.runs: is 0"),
            ("nats: 'nats://a:1', namespace: a, limits: {tokens: 0}", "cluster.limits.tokens: is 0"),
            ("nats: 'nats://a:1', namespace: a, limits: {usd: 0}", "cluster.limits.usd: is 0"),
            (
                "nats: 'nats://a:1', namespace: a, namespaces: [{namespace: b.c}]",
                "cluster.namespaces[0].namespace: `b.c` is not a valid name",
            ),
            (
                "nats: 'nats://a:1', namespace: a, namespaces: [{namespace: b}, {namespace: b}]",
                "cluster.namespaces[1].namespace: `b` is named twice",
            ),
            (
                "nats: 'nats://a:1', namespace: a, namespaces: [{namespace: a}]",
                "cluster.namespaces[0].namespace: `a` is named twice",
            ),
            (
                "nats: 'nats://a:1', namespace: a, namespaces: [{namespace: b, limits: {runs: 0}}]",
                "cluster.namespaces[0].limits.runs: is 0",
            ),
            (
                "nats: 'nats://a:1', namespace: a, namespaces: [{namespace: b, encryption: {key: {file: ''}}}]",
                "cluster.namespaces[0].encryption: a key names no file",
            ),
        ] {
            let refused = parsed(keys).unwrap_err();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
        assert!(!parsed("nats: 'nats://me:secret@a:1', namespace: a").unwrap_err().contains("secret"));
        let keys = |old: usize| {
            let old_keys = vec!["{file: b}"; old].join(", ");
            parsed(&format!(
                "nats: 'nats://a:1', namespace: a, encryption: {{key: {{file: a}}, old_keys: [{old_keys}]}}"
            ))
        };
        let most = crate::limits::CLUSTER_KEYS;
        let config = keys(most - 1).unwrap().cluster.unwrap();
        assert_eq!(config.encryption.unwrap().keys().count(), most);
        assert!(keys(most).unwrap_err().contains("more than 8 keys"));
    }

    #[test]
    fn lease_that_the_namespace_does_not_have_is_named() {
        let warning = |keys: &str, seconds: u64| {
            let config = parsed(&format!("nats: 'nats://a:1', namespace: a{keys}")).unwrap();
            config.cluster.unwrap().lease_warning(Duration::from_secs(seconds))
        };
        let says = "the lease of the namespace is 3s, from its first use; `lease: 5s` has no effect";
        assert_eq!(warning(", lease: 5s", 3).as_deref(), Some(says));
        assert_eq!(warning(", lease: 5s", 5), None);
        assert_eq!(warning("", 3), None, "a config that names none takes that of the namespace");
    }

    #[test]
    fn further_namespaces_have_what_they_name_of_their_own() {
        let keys = "nats: 'nats://a:1', namespace: a, credentials: {file: a.creds}, encryption: {key: {file: a.key}}, \
                    limits: {runs: 3}, namespaces: [{namespace: b}, {namespace: c, credentials: {file: c.creds}, \
                    encryption: {key: {file: c.key}}, limits: {tokens: 9}}]";
        let config = parsed(keys).unwrap();
        let cluster = config.cluster.as_ref().unwrap();
        assert_eq!(cluster.served_namespaces(), ["a", "b", "c"]);
        let own = config.in_namespace("a").unwrap().cluster.unwrap();
        assert!(own.namespaces.is_empty() && own.credentials == cluster.credentials);
        let second = config.in_namespace("b").unwrap().cluster.unwrap();
        assert_eq!(second.namespace, "b");
        assert_eq!((&second.credentials, &second.encryption), (&cluster.credentials, &cluster.encryption));
        assert_eq!(second.limits, cluster.limits);
        let third = config.in_namespace("c").unwrap();
        assert!(third.is_in_namespace("c") && !third.is_in_namespace("a"));
        let third = third.cluster.unwrap();
        assert_eq!(third.credentials.unwrap().file.to_str(), Some("c.creds"));
        assert_eq!(third.encryption.unwrap().key.file.to_str(), Some("c.key"));
        assert_eq!((third.limits.runs, third.limits.tokens), (None, Some(9)));
        assert!(config.in_namespace("d").is_none() && Config::default().in_namespace("a").is_none());
        let namespaces = |count: usize| {
            let further: Vec<_> = (1..count).map(|n| format!("{{namespace: n{n}}}")).collect();
            parsed(&format!("nats: 'nats://a:1', namespace: a, namespaces: [{}]", further.join(", ")))
        };
        let most = crate::limits::CLUSTER_WORKER_NAMESPACES;
        assert_eq!(namespaces(most).unwrap().cluster.unwrap().served_namespaces().len(), most);
        assert!(namespaces(most + 1).unwrap_err().contains("cluster.namespaces: there are more than 15"));
    }

    #[test]
    fn cluster_of_a_project_needs_consent() {
        let keys = "nats: 'nats://a:1', namespace: team-a, credentials: {file: keys/nats.creds}, certificates: ca.pem";
        let config = parsed(keys).unwrap();
        let line = config.cluster_fact().unwrap();
        assert_eq!(
            line,
            "the cluster `team-a` is on the NATS server `nats://a:1`; sessions, runs, notes and the state of plugins are sent \
             there, with the credentials in `/project/keys/nats.creds`, trusting the authorities in `/project/ca.pem`"
        );
        assert!(config.facts().contains(&line));
        let keys = "nats: 'nats://a:1', namespace: team-a, encryption: {key: {file: a.key}, old_keys: [{file: b.key}]";
        let line = parsed(&format!("{keys}}}")).unwrap().cluster_fact().unwrap();
        assert!(line.ends_with("sent there, encrypted with the keys in `/project/a.key`, `/project/b.key`"), "{line}");
        let line = parsed(&format!("{keys}, accept_plain: true}}")).unwrap().cluster_fact().unwrap();
        assert!(line.ends_with("; content that is not encrypted is used too"), "{line}");
        assert_eq!(Config::parse("", "/project".into()).unwrap().cluster_fact(), None);
        // Each further namespace has a line of its own, which it also has as the only one.
        let keys = "nats: 'nats://a:1', namespace: a, namespaces: [{namespace: b, credentials: {file: b.creds}}]";
        let (config, lines) = (parsed(keys).unwrap(), parsed(keys).unwrap().facts());
        let line = config.in_namespace("b").unwrap().cluster_fact().unwrap();
        assert!(line.starts_with("the cluster `b` is on") && line.contains("/project/b.creds"), "{line}");
        assert!(lines.contains(&line) && lines.contains(&config.cluster_fact().unwrap()), "{lines:?}");
    }
}
