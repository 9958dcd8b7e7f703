//! The cluster that a config names: its sessions, its shared state, and its queue of runs.

use std::sync::Arc;

use crate::{
    bucket::StateBucket,
    cluster::{
        Cluster, ClusterBucket, ClusterBucketKind, ClusterEncryption, ClusterJournals, ClusterOptions, NamespaceLimits,
    },
    config::{ClusterConfig, ClusterLimitsConfig, Config},
    limits,
};

/// The state of a project that is in a cluster instead of its folder. Nothing is sent before it is used.
#[derive(Debug, Clone)]
pub(crate) struct ClusterBuckets {
    /// The key-value stores of plugins.
    pub kv: Arc<dyn StateBucket>,
    /// Notes and reflections.
    pub notes: Arc<dyn StateBucket>,
    /// Blackboards and task boards.
    pub boards: Arc<dyn StateBucket>,
    /// The use of rate limits.
    pub rates: Arc<dyn StateBucket>,
}

impl ClusterBuckets {
    /// Returns the buckets beside these sessions, on the same connection.
    pub fn beside(journals: &ClusterJournals) -> Self {
        let bucket = |kind| Arc::new(ClusterBucket::new(journals, kind)) as Arc<dyn StateBucket>;
        Self {
            kv: bucket(ClusterBucketKind::Kv),
            notes: bucket(ClusterBucketKind::Notes),
            boards: bucket(ClusterBucketKind::Boards),
            rates: bucket(ClusterBucketKind::Rates),
        }
    }
}

/// Returns the cluster that a config names, which connects when it is used for the first time; `None` if it names none. The
/// person has consented to it.
pub fn cluster_of(config: &Config) -> Option<Cluster> {
    config.cluster.as_ref().map(|cluster| Cluster::new(cluster_options(cluster, config)))
}

/// Returns the limits of the namespace that a config names.
pub fn namespace_limits(config: &Config) -> NamespaceLimits {
    let limits = config.cluster.as_ref().map(|cluster| cluster.limits.clone());
    let ClusterLimitsConfig { runs, tokens, usd } = limits.unwrap_or_default();
    NamespaceLimits { runs, tokens, usd }
}

/// Returns the storage of sessions that a config names, which connects when it is used for the first time; `None` if the
/// sessions are files.
pub(super) fn cluster_journals(config: &Config) -> Option<ClusterJournals> {
    config.cluster.as_ref().map(|cluster| ClusterJournals::new(cluster_options(cluster, config)))
}

fn cluster_options(cluster: &ClusterConfig, config: &Config) -> ClusterOptions {
    let ClusterConfig {
        nats: _,
        namespace,
        credentials,
        certificates,
        encryption,
        replicas,
        lease,
        limits: _,
        // A worker has a config for each of them.
        namespaces: _,
    } = cluster;
    let encryption = encryption.as_ref().map(|encryption| ClusterEncryption {
        key: config.root.join(&encryption.key.file),
        old_keys: encryption.old_keys.iter().map(|key| config.root.join(&key.file)).collect(),
        accept_plain: encryption.accept_plain,
    });
    ClusterOptions {
        servers: cluster.servers(),
        credentials: credentials.as_ref().map(|credentials| config.root.join(&credentials.file)),
        root_certificates: certificates.as_ref().map(|certificates| config.root.join(certificates)),
        encryption,
        replicas: *replicas,
        lease: lease.unwrap_or(limits::CLUSTER_LEASE),
        ..ClusterOptions::new("", namespace)
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::*;

    #[test]
    fn every_key_of_a_cluster_reaches_the_connection() {
        let text = "cluster: {nats: 'nats://a:1, nats://b:2', namespace: team-a, credentials: {file: keys/nats.creds}, \
                    certificates: ca.pem, replicas: 3, lease: 5s, limits: {runs: 5, tokens: 9, usd: 1}, \
                    encryption: {key: {file: a.key}, old_keys: [{file: b.key}], accept_plain: true}}";
        let config = Config::parse(text, "/project".into()).unwrap();
        let options = cluster_options(config.cluster.as_ref().unwrap(), &config);
        assert_eq!((options.servers.len(), options.servers[1].as_str()), (2, "nats://b:2"));
        assert_eq!((options.namespace.as_str(), options.replicas), ("team-a", 3));
        assert_eq!(options.lease, Duration::from_secs(5));
        assert_eq!(options.credentials.as_deref(), Some(Path::new("/project/keys/nats.creds")));
        assert_eq!(options.root_certificates.as_deref(), Some(Path::new("/project/ca.pem")));
        let encryption = options.encryption.unwrap();
        assert_eq!((encryption.key.as_path(), encryption.accept_plain), (Path::new("/project/a.key"), true));
        assert_eq!(encryption.old_keys, [Path::new("/project/b.key")]);
        let limits = namespace_limits(&config);
        assert_eq!((limits.runs, limits.tokens, limits.usd), (Some(5), Some(9), Some("1".parse().unwrap())));
        assert!(cluster_journals(&Config::default()).is_none() && cluster_of(&Config::default()).is_none());
    }
}
