//! The namespaces of a cluster that a config names.

use super::Config;

impl Config {
    /// Returns `true` if sessions and runs of this config are in this namespace.
    pub fn is_in_namespace(&self, namespace: &str) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.namespace == namespace)
    }

    /// Returns the config with its cluster in one of the namespaces that it names; `None` if it does not name this one.
    pub fn in_namespace(&self, namespace: &str) -> Option<Self> {
        let cluster = self.cluster.as_ref()?.of_namespace(namespace)?;
        let mut config = self.clone();
        config.cluster = Some(cluster);
        Some(config)
    }
}
