//! The server on which hosts share sessions.

use super::section::SectionDescription;
use crate::{
    config::{
        ClusterConfig, ClusterCredentialsConfig, ClusterEncryptionConfig, ClusterKeyConfig, ClusterLimitsConfig,
        ClusterNamespaceConfig, Config,
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
    let ClusterConfig {
        nats,
        namespace,
        credentials,
        certificates,
        encryption,
        replicas,
        lease,
        limits: bounds,
        namespaces,
    } = cluster;
    let mut section = SectionDescription::default();
    section.show("nats", is(nats));
    section.show("namespace", is(namespace));
    if let Some(credentials) = credentials {
        section.show("credentials", shown_credentials(credentials, config));
    }
    if let Some(certificates) = certificates {
        section.show("certificates", is(&config.root.join(certificates)));
    }
    if let Some(encryption) = encryption {
        section.show("encryption", shown_encryption(encryption, config));
    }
    // A number of copies on the servers that are disclosed.
    section.show("replicas", is(replicas));
    // A time after which others go on.
    section.show("lease", or(lease.map(shown), shown(limits::CLUSTER_LEASE), "default"));
    // They bound what others may do.
    if let Some(bounds) = shown_limits(bounds) {
        section.show("limits", bounds);
    }
    if !namespaces.is_empty() {
        let further = namespaces.iter().map(|further| shown_namespace(further, config)).collect();
        section.show("namespaces", EffectiveSetting::new(SettingValue::List(further)));
    }
    let further = namespaces.iter().filter_map(|further| config.in_namespace(&further.namespace)?.cluster_fact());
    for line in config.cluster_fact().into_iter().chain(further) {
        section.disclose(RiskLevel::Sends, line);
    }
    section
}

fn shown_namespace(further: &ClusterNamespaceConfig, config: &Config) -> EffectiveSetting {
    let ClusterNamespaceConfig { namespace, credentials, encryption, limits: bounds } = further;
    let credentials = credentials.as_ref().map(|of| ("credentials", shown_credentials(of, config)));
    let encryption = encryption.as_ref().map(|of| ("encryption", shown_encryption(of, config)));
    let bounds = bounds.as_ref().and_then(shown_limits).map(|bounds| ("limits", bounds));
    let keys = [Some(("namespace", is(namespace))), credentials, encryption, bounds];
    map(keys.into_iter().flatten().collect::<Vec<_>>())
}

fn shown_credentials(
    ClusterCredentialsConfig { file }: &ClusterCredentialsConfig,
    config: &Config,
) -> EffectiveSetting {
    map([("file", is(&config.root.join(file)))])
}

fn shown_encryption(encryption: &ClusterEncryptionConfig, config: &Config) -> EffectiveSetting {
    let ClusterEncryptionConfig { key, old_keys, accept_plain } = encryption;
    let key_file = |ClusterKeyConfig { file }: &ClusterKeyConfig| map([("file", is(&config.root.join(file)))]);
    let old = SettingValue::List(old_keys.iter().map(key_file).collect());
    map([("key", key_file(key)), ("old_keys", EffectiveSetting::new(old)), ("accept_plain", is(accept_plain))])
}

/// Returns the limits of a namespace; `None` if it has none.
fn shown_limits(ClusterLimitsConfig { runs, tokens, usd }: &ClusterLimitsConfig) -> Option<EffectiveSetting> {
    let runs = runs.map(|runs| ("runs", is(&runs)));
    let tokens = tokens.map(|tokens| ("tokens", is(&tokens)));
    let bounds: Vec<_> = runs.into_iter().chain(tokens).chain(usd.map(|usd| ("usd", is(&usd)))).collect();
    (!bounds.is_empty()).then(|| map(bounds))
}
