//! The sessions of a project whose config names a cluster.

use crate::{
    cluster::{ClusterJournals, ClusterOptions},
    config::{ClusterConfig, Config},
};

/// Returns the storage of sessions that a config names, which connects when it is used for the first time; `None` if the
/// sessions are files.
pub(super) fn cluster_journals(config: &Config) -> Option<ClusterJournals> {
    config.cluster.as_ref().map(|cluster| ClusterJournals::new(cluster_options(cluster, config)))
}

fn cluster_options(cluster: &ClusterConfig, config: &Config) -> ClusterOptions {
    let ClusterConfig { nats: _, namespace, credentials, certificates, replicas } = cluster;
    ClusterOptions {
        servers: cluster.servers(),
        credentials: credentials.as_ref().map(|credentials| config.root.join(&credentials.file)),
        root_certificates: certificates.as_ref().map(|certificates| config.root.join(certificates)),
        replicas: *replicas,
        ..ClusterOptions::new("", namespace)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_key_of_a_cluster_reaches_the_connection() {
        let text = "cluster: {nats: 'nats://a:1, nats://b:2', namespace: team-a, credentials: {file: keys/nats.creds}, \
                    certificates: ca.pem, replicas: 3}";
        let config = Config::parse(text, "/project".into()).unwrap();
        let options = cluster_options(config.cluster.as_ref().unwrap(), &config);
        assert_eq!((options.servers.len(), options.servers[1].as_str()), (2, "nats://b:2"));
        assert_eq!((options.namespace.as_str(), options.replicas), ("team-a", 3));
        assert_eq!(options.credentials.as_deref(), Some(Path::new("/project/keys/nats.creds")));
        assert_eq!(options.root_certificates.as_deref(), Some(Path::new("/project/ca.pem")));
        assert!(cluster_journals(&Config::default()).is_none());
    }
}
