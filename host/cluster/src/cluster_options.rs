//! The server and the place on it where sessions are.

use std::{path::PathBuf, time::Duration};

use shelly_core::limits;

/// The server and the place on it where sessions are.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The URLs of the servers of one cluster, such as `nats://127.0.0.1:4222`, or `tls://…` for TLS.
    pub servers: Vec<String>,
    /// The name under which hosts share sessions: letters, digits, underscores and hyphens, at most
    /// [`limits::CLUSTER_NAMESPACE_BYTES`].
    pub namespace: String,
    /// A credentials file with a JWT and an NKey seed, as `nsc` writes it.
    pub credentials: Option<PathBuf>,
    /// Certificates in PEM form of the authorities that are trusted instead of those of the system.
    pub root_certificates: Option<PathBuf>,
    /// The keys for what is stored; `None`: it is stored in plain.
    pub encryption: Option<ClusterEncryption>,
    /// The number of servers that keep each message, from 1 to 5, for a stream that is created.
    pub replicas: usize,
    /// The time after which a lease ends that was not refreshed, for a namespace that is created. One that is there has its
    /// own, which its hosts keep to.
    pub lease: Duration,
    /// The time for which a call is repeated while the server does not answer.
    pub retry: Duration,
    /// The time after the first refusal by a worker at which a run ends that no other worker has accepted.
    pub decline: Duration,
}

/// The keys under which content is stored, which the server never has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterEncryption {
    /// The file of the key with which content is encrypted; [`ContentKey`](super::ContentKey) makes one.
    pub key: PathBuf,
    /// The files of keys with which content was encrypted before, at most [`limits::CLUSTER_KEYS`] with the first one.
    pub old_keys: Vec<PathBuf>,
    /// `true` if content that is not encrypted is used too. Then whoever has the server can replace all content.
    pub accept_plain: bool,
}

impl ClusterOptions {
    /// Returns the options for this server and namespace: no credentials, one replica.
    pub fn new(server: impl Into<String>, namespace: impl Into<String>) -> Self {
        Self {
            servers: vec![server.into()],
            namespace: namespace.into(),
            credentials: None,
            root_certificates: None,
            encryption: None,
            replicas: 1,
            lease: limits::CLUSTER_LEASE,
            retry: limits::CLUSTER_RETRY,
            decline: limits::CLUSTER_DECLINE,
        }
    }

    /// Returns the servers as they are shown to people: without credentials, which a URL may have.
    pub fn shown_servers(&self) -> String {
        let without_credentials = |server: &String| {
            let (scheme, rest) = server.split_at(server.find("://").map_or(0, |at| at + "://".len()));
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}{host}")
        };
        self.servers.iter().map(without_credentials).collect::<Vec<_>>().join(", ")
    }

    /// Returns `true` if this can be a namespace: it becomes a part of subjects and of the names of streams.
    pub fn is_namespace(name: &str) -> bool {
        (1..=limits::CLUSTER_NAMESPACE_BYTES).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_shown_without_credentials() {
        let servers = ["nats://a:1", "tls://me:secret@b:2", "token@c", "nats://me:se@cret@[::1]:4"];
        let options = ClusterOptions {
            servers: servers.map(str::to_owned).into(),
            ..ClusterOptions::new("nats://127.0.0.1:4222", "team-a")
        };
        assert_eq!(options.shown_servers(), "nats://a:1, tls://b:2, c, nats://[::1]:4");
    }

    #[test]
    fn namespace_is_a_short_word() {
        for (name, is_one) in
            [("team-a", true), ("T_1", true), ("", false), ("a.b", false), ("a b", false), ("*", false)]
        {
            assert_eq!(ClusterOptions::is_namespace(name), is_one, "{name}");
        }
        for (bytes, is_one) in [(limits::CLUSTER_NAMESPACE_BYTES, true), (limits::CLUSTER_NAMESPACE_BYTES + 1, false)] {
            assert_eq!(ClusterOptions::is_namespace(&"a".repeat(bytes)), is_one, "{bytes}");
        }
    }
}
