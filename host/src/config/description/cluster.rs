//! The server on which hosts share sessions.

use super::section::SectionDescription;
use crate::{
    config::{
        ClusterConfig, ClusterCredentialsConfig, ClusterEncryptionConfig, ClusterKeyConfig, ClusterLimitsConfig,
        Config,
        effective_setting::{EffectiveSetting, SettingValue, is, map, or, shown},
    },
    files, limits,
    trust::{RiskLevel, quoted, quoted_path},
};

impl Config {
    /// Returns the line about the cluster that the project names, to which a person consents; `None` if there is no
    /// cluster, or if it is the person's own.
    pub fn cluster_fact(&self) -> Option<String> {
        let ClusterConfig { namespace, credentials, certificates, encryption, .. } =
            self.cluster.as_ref().filter(|_| !self.user.has_cluster)?;
        let servers = self.cluster.as_ref().map(ClusterConfig::servers).unwrap_or_default();
        let servers: Vec<_> = servers.iter().map(|server| quoted(server)).collect();
        let word = if servers.len() == 1 { "server" } else { "servers" };
        let path = |path| quoted_path(&files::resolved(&self.root.join(path)));
        let credentials = credentials.as_ref().map(|of| format!(", with the credentials in {}", path(&of.file)));
        let certificates = certificates.as_ref().map(|of| format!(", trusting the authorities in {}", path(of)));
        let encryption = encryption.as_ref().map(|encryption| {
            let keys: Vec<_> = encryption.keys().map(|key| path(&key.file)).collect();
            let word = if keys.len() == 1 { "key" } else { "keys" };
            let plain = if encryption.accept_plain { "; content that is not encrypted is used too" } else { "" };
            format!(", encrypted with the {word} in {}{plain}", keys.join(", "))
        });
        Some(format!(
            "the cluster {} is on the NATS {word} {}; sessions, runs, notes and the state of plugins are sent there{}{}{}",
            quoted(namespace),
            servers.join(", "),
            credentials.unwrap_or_default(),
            certificates.unwrap_or_default(),
            encryption.unwrap_or_default()
        ))
    }
}

pub(super) fn cluster_section(cluster: &ClusterConfig, config: &Config) -> SectionDescription {
    let ClusterConfig { nats, namespace, credentials, certificates, encryption, replicas, lease, limits: bounds } =
        cluster;
    let mut section = SectionDescription::default();
    section.show("nats", is(nats));
    section.show("namespace", is(namespace));
    if let Some(ClusterCredentialsConfig { file }) = credentials {
        section.show("credentials", map([("file", is(&config.root.join(file)))]));
    }
    if let Some(certificates) = certificates {
        section.show("certificates", is(&config.root.join(certificates)));
    }
    if let Some(encryption) = encryption {
        let ClusterEncryptionConfig { key, old_keys, accept_plain } = encryption;
        let key_file = |ClusterKeyConfig { file }: &ClusterKeyConfig| map([("file", is(&config.root.join(file)))]);
        let old = SettingValue::List(old_keys.iter().map(key_file).collect());
        let keys =
            [("key", key_file(key)), ("old_keys", EffectiveSetting::new(old)), ("accept_plain", is(accept_plain))];
        section.show("encryption", map(keys));
    }
    // A number of copies on the servers that are disclosed.
    section.show("replicas", is(replicas));
    // A time after which others go on.
    section.show("lease", or(lease.map(shown), shown(limits::CLUSTER_LEASE), "default"));
    // They bound what others may do.
    let ClusterLimitsConfig { runs, tokens, usd } = bounds;
    let runs = runs.map(|runs| ("runs", is(&runs)));
    let tokens = tokens.map(|tokens| ("tokens", is(&tokens)));
    let bounds = runs.into_iter().chain(tokens).chain(usd.map(|usd| ("usd", is(&usd))));
    let bounds: Vec<_> = bounds.collect();
    if !bounds.is_empty() {
        section.show("limits", map(bounds));
    }
    if let Some(line) = config.cluster_fact() {
        section.disclose(RiskLevel::Sends, line);
    }
    section
}
