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
        let wrong = |what: String, hint: &str| Err(Report::new(ErrorKind::Usage, format!("cluster.{what}")).hint(hint));
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
        let is_name = (1..=limits::CLUSTER_NAMESPACE_BYTES).contains(&self.namespace.len())
            && self.namespace.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
        if !is_name {
            let what = format!("namespace: `{}` is not a valid name", self.namespace.escape_debug());
            let most = limits::CLUSTER_NAMESPACE_BYTES;
            return wrong(what, &format!("use 1 to {most} characters of a-z, A-Z, 0-9, _ and -"));
        }
        if !(1..=limits::CLUSTER_REPLICAS).contains(&self.replicas) {
            return wrong(format!("replicas: is {}", self.replicas), "use a number from 1 to 5");
        }
        let (least, most) = (limits::CLUSTER_LEASE_LEAST, limits::CLUSTER_LEASE_CEILING);
        if let Some(lease) = self.lease.filter(|lease| !(least..=most).contains(lease)) {
            let hint = format!("use a time from {} to {}", shown(least), shown(most));
            return wrong(format!("lease: is {}", shown(lease)), &hint);
        }
        if let Some(encryption) = &self.encryption {
            if encryption.keys().any(|key| key.file.as_os_str().is_empty()) {
                return wrong(
                    "encryption: a key names no file".into(),
                    "make one with `shelly-host cluster key FILE` and write {file: FILE}",
                );
            }
            if encryption.keys().count() > limits::CLUSTER_KEYS {
                let what = format!("encryption: there are more than {} keys", limits::CLUSTER_KEYS);
                return wrong(what, "leave out the oldest keys, whose content is gone");
            }
        }
        let ClusterLimitsConfig { runs, tokens, usd } = &self.limits;
        let zero = [("runs", *runs == Some(0)), ("tokens", *tokens == Some(0)), ("usd", *usd == Some(Usd::ZERO))];
        match zero.iter().find(|(_, is_zero)| *is_zero) {
            Some((key, _)) => wrong(format!("limits.{key}: is 0"), "no run could begin; use more, or leave it out"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
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
    }
}
